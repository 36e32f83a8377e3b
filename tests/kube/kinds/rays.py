"""RayClusters and RayJobs of KubeRay's own documents."""

from __future__ import annotations

from copy import deepcopy

import pytest
import yaml

from extender.kube.kinds.kind import Object
from extender.kube.kinds.ray import RAY_CLUSTER, RAY_JOB
from tests.kube.kinds.jobs import (
    stored,
)

# https://github.com/ray-project/kuberay/blob/v1.6.0/ray-operator/config/samples/ray-cluster.sample.yaml
CLUSTER = """
apiVersion: ray.io/v1
kind: RayCluster
metadata:
  name: raycluster-kuberay
  labels: {kueue.x-k8s.io/queue-name: team-queue}
spec:
  suspend: true
  rayVersion: '2.52.0'
  headGroupSpec:
    rayStartParams: {}
    template:
      spec:
        containers:
        - name: ray-head
          image: rayproject/ray:2.52.0
          resources:
            limits: {cpu: "1", memory: 5Gi}
            requests: {cpu: "1", memory: 5Gi}
          ports:
          - {containerPort: 6379, name: gcs-server}
          - {containerPort: 8265, name: dashboard}
          - {containerPort: 10001, name: client}
  workerGroupSpecs:
  - replicas: 1
    minReplicas: 1
    maxReplicas: 5
    groupName: workergroup
    rayStartParams: {}
    template:
      spec:
        containers:
        - name: ray-worker
          image: rayproject/ray:2.52.0
          resources:
            limits: {cpu: "1", memory: 1Gi}
            requests: {cpu: "1", memory: 1Gi}
"""
# https://github.com/ray-project/kuberay/blob/v1.6.0/ray-operator/config/samples/ray-cluster.tpu-v4-multihost.yaml, with
# two replicas.
TPU_GROUP = """
replicas: 2
minReplicas: 1
maxReplicas: 2
numOfHosts: 2
groupName: tpu-group
rayStartParams: {}
template:
  spec:
    containers:
    - name: ray-worker
      image: rayproject/ray:2.52.0-py310
      resources: {limits: {cpu: "1", google.com/tpu: "4", memory: 40G}}
    nodeSelector: {cloud.google.com/gke-tpu-topology: 2x2x2}
"""
# https://github.com/ray-project/kuberay/blob/v1.6.0/ray-operator/config/samples/ray-job.kueue-toy-sample.yaml, with a
# name and a template for its submitter.
JOB = """
apiVersion: ray.io/v1
kind: RayJob
metadata:
  name: rayjob-sample
  labels: {kueue.x-k8s.io/queue-name: team-queue}
spec:
  suspend: true
  entrypoint: python -c "import ray; ray.init()"
  shutdownAfterJobFinishes: true
  ttlSecondsAfterFinished: 10
  rayClusterSpec:
    rayVersion: '2.52.0'
    headGroupSpec:
      rayStartParams: {}
      template:
        spec:
          containers:
          - name: ray-head
            image: rayproject/ray:2.52.0
            resources: {requests: {cpu: "1", memory: 2Gi}}
    workerGroupSpecs:
    - replicas: 1
      minReplicas: 1
      maxReplicas: 5
      groupName: small-group
      rayStartParams: {}
      template:
        spec:
          containers:
          - name: ray-worker
            image: rayproject/ray:2.52.0
            resources: {requests: {cpu: "1", memory: 1Gi}}
  submitterPodTemplate:
    spec:
      restartPolicy: Never
      containers:
      - name: my-custom-rayjob-submitter-pod
        image: rayproject/ray:2.52.0
        resources: {requests: {cpu: 500m, memory: 200Mi}}
"""
GROUP, REPLICA, HOST = "ray.io/group", "ray.io/worker-group-replica-index", "ray.io/replica-host-index"
STOPPED = {"conditions": [{"type": "RayClusterSuspended", "status": "True"}], "state": "suspended"}
BOTH = pytest.mark.parametrize(("kind", "manifest"), [(RAY_CLUSTER, CLUSTER), (RAY_JOB, JOB)], ids=["cluster", "job"])


def cluster(*groups: Object, **spec: object) -> Object:
    """The sample with these groups of workers."""
    obj = stored(CLUSTER)
    sample = obj["spec"]["workerGroupSpecs"][0]
    obj["spec"] |= {"workerGroupSpecs": [deepcopy(sample) | group for group in groups or ({},)], **spec}
    return obj


def tpus() -> Object:
    return cluster(yaml.safe_load(TPU_GROUP))


def templates(obj: Object) -> list[Object]:
    spec = obj["spec"].get("rayClusterSpec", obj["spec"])
    return [group["template"] for group in (spec["headGroupSpec"], *spec["workerGroupSpecs"])]


def workers_of(obj: Object) -> str:
    spec = obj["spec"].get("rayClusterSpec", obj["spec"])
    name: str = spec["workerGroupSpecs"][0]["groupName"]
    return name
