"""Manifests of the training operator, and the fields of their templates after a start."""

from __future__ import annotations

from extender.kube.kinds.kind import Kind, Object
from extender.kube.kinds.registry import KINDS

PYTORCH = """
apiVersion: kubeflow.org/v1
kind: PyTorchJob
metadata:
  name: pytorch-simple
  labels: {kueue.x-k8s.io/queue-name: team-queue}
spec:
  runPolicy: {suspend: true}
  pytorchReplicaSpecs:
    Master:
      replicas: 1
      restartPolicy: OnFailure
      template:
        spec:
          containers:
            - name: pytorch
              image: docker.io/kubeflowkatib/pytorch-mnist:v1beta1-45c5727
              command: [python3, /opt/pytorch-mnist/mnist.py, --epochs=1]
    Worker:
      replicas: 3
      restartPolicy: OnFailure
      template:
        spec:
          containers:
            - name: pytorch
              image: docker.io/kubeflowkatib/pytorch-mnist:v1beta1-45c5727
              resources: {limits: {nvidia.com/gpu: 8}}
"""

PI = """
apiVersion: kubeflow.org/v2beta1
kind: MPIJob
metadata:
  name: pi
  labels: {muster.dev/queue-name: team-queue}
spec:
  slotsPerWorker: 1
  runPolicy:
    suspend: true
    cleanPodPolicy: Running
    ttlSecondsAfterFinished: 60
  sshAuthMountPath: /home/mpiuser/.ssh
  mpiReplicaSpecs:
    Launcher:
      replicas: 1
      template:
        spec:
          containers:
          - image: mpioperator/mpi-pi:openmpi
            name: mpi-launcher
            resources: {limits: {cpu: 1, memory: 1Gi}}
    Worker:
      replicas: 2
      template:
        spec:
          containers:
          - image: mpioperator/mpi-pi:openmpi
            name: mpi-worker
            resources: {limits: {cpu: 1, memory: 1Gi}}
"""

LABELS = "training.kubeflow.org"
BY_NAME: dict[str, Kind] = {kind.name: kind for kind in KINDS}
PYTORCHJOB = BY_NAME["PyTorchJob"]


def templates(obj: Object, field: str = "pytorchReplicaSpecs") -> dict[str, Object]:
    return {role: spec["template"] for role, spec in obj["spec"][field].items()}


def indexed(at: int) -> dict[str, str]:
    return {f"{LABELS}/replica-index": str(at)}
