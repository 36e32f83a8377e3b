"""AppWrappers as their project's samples print them, and of any components."""

from __future__ import annotations

from typing import Any

import yaml

from extender.kube.kinds.kind import Object
from tests.kube.kinds.jobs import stored

# https://github.com/project-codeflare/appwrapper/blob/v1.2.2/samples/wrapped-pytorch-job.yaml
SAMPLE = """
apiVersion: workload.codeflare.dev/v1beta2
kind: AppWrapper
metadata:
  name: sample-pytorch-job
  labels: {kueue.x-k8s.io/queue-name: default-queue}
spec:
  suspend: true
  components:
  - template:
      apiVersion: "kubeflow.org/v1"
      kind: PyTorchJob
      metadata:
        name: pytorch-simple
      spec:
        pytorchReplicaSpecs:
          Master:
            replicas: 1
            restartPolicy: OnFailure
            template:
              spec:
                containers:
                - name: pytorch
                  image: docker.io/kubeflowkatib/pytorch-mnist-cpu:v1beta1-fc858d1
                  command: ["python3", "/opt/pytorch-mnist/mnist.py", "--epochs=1"]
                  resources: {requests: {cpu: 1}}
          Worker:
            replicas: 2
            restartPolicy: OnFailure
            template:
              spec:
                containers:
                - name: pytorch
                  image: docker.io/kubeflowkatib/pytorch-mnist-cpu:v1beta1-fc858d1
                  command: ["python3", "/opt/pytorch-mnist/mnist.py", "--epochs=1"]
                  resources: {requests: {cpu: 1}}
"""
# A Service, an Indexed Job and two pods, each a component of its own.
MIXED = """
apiVersion: workload.codeflare.dev/v1beta2
kind: AppWrapper
metadata:
  name: mixed
  labels: {kueue.x-k8s.io/queue-name: default-queue}
spec:
  suspend: true
  components:
  - template:
      {apiVersion: v1, kind: Service, metadata: {name: mixed}, spec: {clusterIP: "None", selector: {app: mixed}}}
  - template:
      apiVersion: batch/v1
      kind: Job
      metadata: {name: workers}
      spec:
        completionMode: Indexed
        completions: 3
        parallelism: 3
        template:
          metadata: {labels: {app: mixed}, annotations: {note: kept}}
          spec:
            restartPolicy: Never
            containers: [{name: main, image: train, resources: {limits: {nvidia.com/gpu: 8}}}]
  - template:
      apiVersion: v1
      kind: Pod
      metadata: {name: first, labels: {app: mixed}}
      spec: {restartPolicy: Never, containers: [{name: main, image: serve}]}
  - template:
      apiVersion: v1
      kind: Pod
      metadata: {name: second}
      spec: {restartPolicy: Never, containers: [{name: main, image: serve}]}
"""
# https://github.com/project-codeflare/appwrapper/blob/v1.2.2/samples/wrapped-jobset.yaml
WRAPPED_JOBSET = """
apiVersion: workload.codeflare.dev/v1beta2
kind: AppWrapper
metadata:
  name: sample-jobset
  labels: {kueue.x-k8s.io/queue-name: default-queue}
spec:
  suspend: true
  components:
  - template:
      apiVersion: jobset.x-k8s.io/v1alpha2
      kind: JobSet
      metadata:
        name: sample-jobset
      spec:
        replicatedJobs:
        - name: workers
          replicas: 2
          template:
            spec:
              parallelism: 2
              completions: 2
              backoffLimit: 0
              template:
                spec:
                  restartPolicy: Never
                  containers:
                  - name: sleep
                    image: quay.io/project-codeflare/busybox:1.36
                    command: ["sh", "-c", "sleep 100"]
                    resources: {requests: {cpu: 100m}}
        - name: driver
          template:
            spec:
              parallelism: 1
              completions: 1
              backoffLimit: 0
              template:
                spec:
                  restartPolicy: Never
                  containers:
                  - name: sleep
                    image: quay.io/project-codeflare/busybox:1.36
                    command: ["sh", "-c", "sleep 100"]
                    resources: {requests: {cpu: 100m}}
"""
# https://github.com/project-codeflare/appwrapper/blob/v1.2.2/samples/wrapped-leader-worker-set.yaml
LWS = """
podSets:
- path: "template.spec.leaderWorkerTemplate.leaderTemplate"
  replicas: 2
- path: "template.spec.leaderWorkerTemplate.workerTemplate"
  replicas: 3
template:
  apiVersion: leaderworkerset.x-k8s.io/v1
  kind: LeaderWorkerSet
  metadata: {name: nginx-leaderworkerset, labels: {app: nginx}}
  spec:
    replicas: 2
    leaderWorkerTemplate:
      leaderTemplate: {spec: {containers: [{name: nginx-leader, image: nginx}]}}
      size: 3
      workerTemplate: {spec: {containers: [{name: nginx-worker, image: nginx}]}}
"""
ROLES = [{"path": f"template.spec.pytorchReplicaSpecs.{role}.template"} for role in ("Worker", "Master")]
STOPPED: Object = {"phase": "Suspended"}


def wrapping(*components: Object | str, **metadata: Any) -> Object:
    obj = stored(SAMPLE, **STOPPED)
    obj["metadata"] |= metadata
    obj["spec"]["components"] = [
        yaml.safe_load(component) if isinstance(component, str) else component for component in components
    ]
    return obj


def of(manifest: str, *podsets: Object) -> Object:
    """A component of that object."""
    inner = yaml.safe_load(manifest)
    return {"template": inner} | ({"podSets": [*podsets]} if podsets else {})


def written(obj: Object) -> list[list[Object]]:
    return [
        [info["annotations"] for info in component.get("podSetInfos", ())] for component in obj["spec"]["components"]
    ]
