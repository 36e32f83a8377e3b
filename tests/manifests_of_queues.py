"""Queue objects as tutorials print them, word for word."""

from __future__ import annotations

TUTORIAL = """\
apiVersion: kueue.x-k8s.io/v1beta1
kind: ResourceFlavor
metadata:
  name: a100-gpu-80gb
spec:
  nodeLabels:
    cloud.google.com/gke-gpu: nvidia-tesla-a100
---
apiVersion: kueue.x-k8s.io/v1beta1
kind: ClusterQueue
metadata:
  name: heavy-ml-cluster-queue
spec:
  cohort: ml-cohort
  namespaceSelector: {}
  resourceGroups:
    - coveredResources: ["cpu", "memory", "nvidia.com/gpu"]
      flavors:
        - name: a100-gpu-80gb
          resources:
            - name: "nvidia.com/gpu"
              nominalQuota: 32
---
apiVersion: kueue.x-k8s.io/v1beta1
kind: LocalQueue
metadata:
  name: kueue-gang-queue
  namespace: default
spec:
  clusterQueue: heavy-ml-cluster-queue
"""
"""A queue of 32 GPUs; cpu and memory are covered, without a quota."""

FLAVORS = """\
apiVersion: kueue.x-k8s.io/v1beta1
kind: ResourceFlavor
metadata:
  name: nvidia-a100
spec:
  nodeLabels:
    nvidia.com/gpu.product: NVIDIA-A100-SXM4-80GB
---
apiVersion: kueue.x-k8s.io/v1beta1
kind: ResourceFlavor
metadata:
  name: nvidia-h100
spec:
  nodeLabels:
    nvidia.com/gpu.product: NVIDIA-H100-80GB-HBM3
  tolerations:
    - key: nvidia.com/gpu
      operator: Exists
      effect: NoSchedule
---
apiVersion: kueue.x-k8s.io/v1beta1
kind: ResourceFlavor
metadata:
  name: nvidia-l4
spec:
  nodeLabels:
    nvidia.com/gpu.product: NVIDIA-L4
---
apiVersion: kueue.x-k8s.io/v1beta1
kind: ClusterQueue
metadata:
  name: gpu-cluster-queue
spec:
  cohort: gpus
  queueingStrategy: BestEffortFIFO
  namespaceSelector: {}
  preemption:
    reclaimWithinCohort: Any
    withinClusterQueue: LowerPriority
  resourceGroups:
    - coveredResources: ["nvidia.com/gpu"]
      flavors:
        - name: nvidia-h100
          resources:
            - name: "nvidia.com/gpu"
              nominalQuota: 8
              borrowingLimit: 8
        - name: nvidia-a100
          resources:
            - name: "nvidia.com/gpu"
              nominalQuota: 16
              borrowingLimit: 16
        - name: nvidia-l4
          resources:
            - name: "nvidia.com/gpu"
              nominalQuota: 4
              borrowingLimit: 0
"""
"""Three sorts of GPUs in order of preference, each with a borrowing limit."""


def _team(name: str, nominal: int, borrowing: int) -> str:
    return f"""\
---
apiVersion: kueue.x-k8s.io/v1beta2
kind: ClusterQueue
metadata:
  name: {name}
spec:
  cohortName: all-teams
  namespaceSelector: {{}}
  resourceGroups:
    - coveredResources: ["cpu", "memory", "nvidia.com/gpu"]
      flavors:
        - name: default-flavor
          resources:
            - name: "nvidia.com/gpu"
              nominalQuota: {nominal}
              borrowingLimit: {borrowing}
---
apiVersion: kueue.x-k8s.io/v1beta2
kind: LocalQueue
metadata:
  name: {name}
  namespace: default
spec:
  clusterQueue: {name}
"""


TEAMS = """\
apiVersion: kueue.x-k8s.io/v1beta2
kind: ResourceFlavor
metadata:
  name: default-flavor
""" + "".join(_team(*team) for team in (("team-a", 16, 32), ("team-b", 16, 32), ("team-c", 32, 16)))
"""Three teams of 16, 16 and 32 GPUs that may borrow 32, 32 and 16 of 64."""

JOB = """\
apiVersion: batch/v1
kind: Job
metadata:
  name: {name}
  labels:
    kueue.sh/queue-name: kueue-gang-queue
spec:
  parallelism: 4
  completions: 4
  completionMode: Indexed
  suspend: true
  template:
    spec:
      containers:
        - name: trainer
          image: pytorch/pytorch:latest
          resources:
            requests:
              cpu: "8"
              memory: 64Gi
              nvidia.com/gpu: "8"
            limits:
              nvidia.com/gpu: "8"
      restartPolicy: Never
"""
"""32 GPUs, with the label as the tutorial prints it."""
