"""Jobs of Kubernetes' own documents, as the API server stores them."""

from __future__ import annotations

from typing import Any

from extender.kube.kinds.kind import Object
from tests.kube.kinds.jobs import (
    stored,
)

# https://kubernetes.io/docs/tasks/job/indexed-parallel-processing-static/, with the queue label, as the API server
# completes it, and as the admission policy suspends it.
INDEXED = """
apiVersion: batch/v1
kind: Job
metadata:
  name: indexed-job
  labels: {kueue.x-k8s.io/queue-name: team-queue}
spec:
  suspend: true
  completions: 5
  parallelism: 5
  completionMode: Indexed
  backoffLimit: 6
  selector: {matchLabels: {batch.kubernetes.io/controller-uid: 6f9a-uid}}
  template:
    metadata:
      labels: {batch.kubernetes.io/controller-uid: 6f9a-uid, job-name: indexed-job}
    spec:
      restartPolicy: Never
      schedulerName: muster
      initContainers:
      - {name: input, image: docker.io/library/bash, command: [bash, -c, "echo ${items[$JOB_COMPLETION_INDEX]}"]}
      containers:
      - name: worker
        image: docker.io/library/busybox
        resources: {limits: {cpu: "2", nvidia.com/gpu: "1"}}
"""
# https://kubernetes.io/docs/concepts/workloads/controllers/job/
PI = """
apiVersion: batch/v1
kind: Job
metadata:
  name: pi
  annotations: {muster.dev/gang: "true"}
spec:
  suspend: true
  parallelism: 3
  completions: 3
  backoffLimit: 4
  template:
    metadata: {labels: {job-name: pi}}
    spec:
      containers:
      - {name: pi, image: "perl:5.34.0", command: [perl, -Mbignum=bpi, -wle, print bpi(2000)]}
      restartPolicy: Never
"""
INDEX = "batch.kubernetes.io/job-completion-index"
OWN_AFFINITY = {
    "nodeAffinity": {
        "requiredDuringSchedulingIgnoredDuringExecution": {
            "nodeSelectorTerms": [{"matchExpressions": [{"key": "gpu", "operator": "Exists"}]}]
        }
    }
}


def indexed(**spec: Any) -> Object:
    obj = stored(INDEXED)
    obj["spec"] |= spec
    return obj


def template(obj: Object) -> Object:
    pod_template = obj["spec"]["template"]
    assert isinstance(pod_template, dict)
    return pod_template
