"""TrainJobs, their runtimes and the JobSets that are made of them."""

from __future__ import annotations

from extender.core.effects import StartJob
from extender.kube.kinds.change import start
from extender.kube.kinds.kind import Object
from extender.kube.kinds.trainer import MANAGER, TRAIN_JOB, carried
from policies.model import Job
from tests.kube.kinds.jobs import plan_for, read, stored

RUNTIME = """
apiVersion: trainer.kubeflow.org/v1alpha1
kind: ClusterTrainingRuntime
metadata:
  name: torch-distributed
  labels: {trainer.kubeflow.org/framework: torch}
spec:
  mlPolicy:
    numNodes: 1
    torch: {}
  template:
    spec:
      replicatedJobs:
        - name: node
          template:
            metadata:
              labels: {trainer.kubeflow.org/trainjob-ancestor-step: trainer}
            spec:
              template:
                spec:
                  containers:
                    - name: node
                      image: pytorch/pytorch:2.13.0-cuda13.0-cudnn9-runtime
"""

TRAINJOB = """
apiVersion: trainer.kubeflow.org/v1alpha1
kind: TrainJob
metadata:
  name: torch-ddp
  labels: {kueue.x-k8s.io/queue-name: team-queue}
spec:
  suspend: true
  runtimeRef:
    name: torch-distributed
  trainer:
    numNodes: 3
    resourcesPerNode:
      limits: {nvidia.com/gpu: 8}
"""

MADE = """
apiVersion: jobset.x-k8s.io/v1alpha2
kind: JobSet
metadata:
  name: torch-ddp
  annotations: {muster.dev/workload: "", muster.dev/hold: "false"}
  ownerReferences:
    - {apiVersion: trainer.kubeflow.org/v1alpha1, kind: TrainJob, name: torch-ddp, uid: train-uid, controller: true}
spec:
  suspend: true
  replicatedJobs:
    - name: node
      replicas: 1
      template:
        spec:
          completionMode: Indexed
          completions: 3
          parallelism: 3
          template:
            spec:
              schedulerName: muster
              containers:
                - name: node
                  image: pytorch/pytorch:2.13.0-cuda13.0-cudnn9-runtime
                  resources: {limits: {nvidia.com/gpu: 8}}
"""


def train_job() -> Object:
    obj = stored(TRAINJOB)
    obj["metadata"]["uid"] = "train-uid"
    obj["spec"]["runtimePatches"] = [
        {"manager": "kueue.x-k8s.io/manager", "time": "2026-01-02T03:04:05Z"},
        {
            "manager": MANAGER,
            "time": "2026-01-02T03:04:05Z",
            "trainingRuntimeSpec": {"template": {"metadata": {"annotations": {"muster.dev/workload": ""}}}},
        },
    ]
    return obj


def jobset(**status: object) -> Object:
    return stored(MADE, **status)


OTHERS = {"targetJobs": [{"name": "node"}], "spec": {"serviceAccountName": "team"}}


def older() -> Object:
    """A TrainJob of Trainer 2.1, which has the older of the two fields that the admission policy writes."""
    obj = train_job()
    del obj["spec"]["runtimePatches"]
    shown = {"team.example.com/a": "b", "muster.dev/workload": "", "muster.dev/hold": "false"}
    obj["spec"] |= {"annotations": shown, "podTemplateOverrides": [OTHERS]}
    return obj


def started() -> tuple[Object, Object, Job]:
    """The TrainJob, its JobSet, and the job."""
    made = jobset()
    job = read(TRAIN_JOB, made)
    start(TRAIN_JOB, made, StartJob(job, plan_for(job), job.podsets.minimum))
    return carried(train_job(), made, entry=True), made, job


def entry_of(obj: Object) -> Object:
    (entry,) = (patch for patch in obj["spec"]["runtimePatches"] if patch["manager"] == MANAGER)
    template: Object = entry["trainingRuntimeSpec"]["template"]
    return template
