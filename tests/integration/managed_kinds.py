"""Manifests of the kinds that the admission policies know, their paths, and their fields."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from devcluster import Cluster
from devcluster.api import Object
from devcluster.controllers import install_crds, start_controller
from devcluster.muster import install_gate, install_job_admission
from tests.integration.team import GANG, PLAN, QUEUE, Team

TRAINING = {
    "PyTorchJob": ("v1", "pytorchjobs", "pytorchReplicaSpecs", "pytorch"),
    "TFJob": ("v1", "tfjobs", "tfReplicaSpecs", "tensorflow"),
    "XGBoostJob": ("v1", "xgboostjobs", "xgbReplicaSpecs", "xgboost"),
    "PaddleJob": ("v1", "paddlejobs", "paddleReplicaSpecs", "paddle"),
    "JAXJob": ("v1", "jaxjobs", "jaxReplicaSpecs", "jax"),
    "MPIJob": ("v2beta1", "mpijobs", "mpiReplicaSpecs", "mpi"),
}
ROLES = {"PyTorchJob": ("Master", "Worker"), "MPIJob": ("Launcher", "Worker")}
NAMED = "kueue.x-k8s.io/queue-name"


def template(**spec: Any) -> Object:
    return {"spec": {"restartPolicy": "Never", "containers": [{"name": "main", "image": "train"}], **spec}}


def jobset(*replicas: int, spec: Object | None = None, **meta: Any) -> Object:
    """Replicated jobs of Jobs of two pods; the last one names a scheduler."""
    jobs = [
        {
            "name": f"role-{at}",
            "replicas": count,
            "template": {"metadata": {"labels": GANG}, "spec": {"parallelism": 2, "completions": 2, "template": pods}},
        }
        for at, (count, pods) in enumerate(
            zip(replicas, [template()] * (len(replicas) - 1) + [template(schedulerName="volcano")], strict=True)
        )
    ]
    header = {"apiVersion": "jobset.x-k8s.io/v1alpha2", "kind": "JobSet"}
    return {**header, "metadata": {"name": "train", **meta}, "spec": {"replicatedJobs": jobs, **(spec or {})}}


def training(kind: str, policy: Object | None, **meta: Any) -> Object:
    """Two roles; nothing names a scheduler."""
    version, _, field, container = TRAINING[kind]
    pods = {"spec": {"containers": [{"name": container, "image": "train"}]}}
    roles = {role: {"replicas": 1, "template": pods} for role in ROLES.get(kind, ("Worker",))}
    spec: Object = {field: roles} | ({} if policy is None else {"runPolicy": policy})
    return {
        "apiVersion": f"kubeflow.org/{version}",
        "kind": kind,
        "metadata": {"name": "train", "labels": QUEUE} | meta,
        "spec": spec,
    }


def collection(team: Team, kind: str) -> str:
    if kind == "JobSet":
        return f"/apis/jobset.x-k8s.io/v1alpha2/namespaces/{team.name}/jobsets"
    version, plural, _, _ = TRAINING[kind]
    return f"/apis/kubeflow.org/{version}/namespaces/{team.name}/{plural}"


def create(team: Team, manifest: Object) -> Object:
    return team.api.create(collection(team, manifest["kind"]), manifest)


def schedulers(one: Object) -> list[str]:
    spec = one["spec"]
    if one["kind"] == "JobSet":
        pods = [job["template"]["spec"]["template"] for job in spec["replicatedJobs"]]
    else:
        pods = [role["template"] for role in spec[TRAINING[one["kind"]][2]].values()]
    return [pod["spec"].get("schedulerName", "") for pod in pods]


def suspended(one: Object) -> bool:
    holder = one["spec"].get("runPolicy", {}) if one["kind"] in TRAINING else one["spec"]
    return bool(holder.get("suspend", False))


def suspension(kind: str, *, to: bool, plan: str | None = None) -> Object:
    spec: Object = {"runPolicy": {"suspend": to}} if kind in TRAINING else {"suspend": to}
    return {"spec": spec} | ({} if plan is None else {"metadata": {"annotations": {PLAN: plan}}})


def ray(kind: str, *groups: str, cluster: Object | None = None, **spec: Any) -> Object:
    """A Ray object with these groups of workers; nothing names a scheduler.

    ``cluster``: further fields of the cluster's spec.
    """
    pods = {"spec": {"containers": [{"name": "ray", "image": "rayproject/ray"}]}}
    workers = [{"groupName": group, "minReplicas": 1, "maxReplicas": 1, "template": pods} for group in groups]
    shape = {
        "headGroupSpec": {"template": pods},
        **({"workerGroupSpecs": workers} if workers else {}),
        **(cluster or {}),
    }
    body: Object = shape if kind == "RayCluster" else {"shutdownAfterJobFinishes": True, "rayClusterSpec": shape}
    return {
        "apiVersion": "ray.io/v1",
        "kind": kind,
        "metadata": {"name": "train", "labels": QUEUE},
        "spec": {**body, **spec},
    }


def ray_schedulers(one: Object) -> list[str]:
    cluster = one["spec"].get("rayClusterSpec", one["spec"])
    pods = [group["template"] for group in (cluster["headGroupSpec"], *cluster.get("workerGroupSpecs", ()))]
    pods += [one["spec"][key] for key in ("submitterPodTemplate",) if key in one["spec"]]
    return [pod["spec"].get("schedulerName", "") for pod in pods]


def rays(team: Team, kind: str) -> str:
    return f"/apis/ray.io/v1/namespaces/{team.name}/{kind.lower()}s"


def wrapper(team: Team, **given: Any) -> Object:
    """An AppWrapper of a Job, created."""
    return team.api.create(wrappers(team), wrapping(**given))


def wrapping(**given: Any) -> Object:
    """The manifest of an AppWrapper of a Job."""
    spec: Object = {"template": template()}
    inner: Object = {"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "inner"}, "spec": spec}
    obj: Object = {"apiVersion": "workload.codeflare.dev/v1beta2", "kind": "AppWrapper"}
    obj["spec"] = {"components": [{"template": inner}], **given.pop("spec", {})}
    return obj | {"metadata": {"name": "train", "labels": QUEUE} | given}


def wrappers(team: Team) -> str:
    return f"/apis/workload.codeflare.dev/v1beta2/namespaces/{team.name}/appwrappers"


def train_job(team: Team, **given: Any) -> Object:
    spec: Object = {"runtimeRef": {"name": "torch"}} | given.pop("spec", {})
    obj = {"apiVersion": "trainer.kubeflow.org/v1alpha1", "kind": "TrainJob", "spec": spec}
    return team.api.create(trains(team), obj | {"metadata": {"name": "train", "labels": QUEUE} | given})


def trains(team: Team) -> str:
    return f"/apis/trainer.kubeflow.org/v1alpha1/namespaces/{team.name}/trainjobs"


@contextmanager
def with_kinds() -> Iterator[Cluster]:
    """Muster's admission policies, and all kinds; a controller for JobSets alone."""
    with Cluster() as running:
        install_gate(running)
        install_job_admission(running)
        start_controller(running, "jobset")
        install_crds(running, "training-operator", "mpi-operator", "kuberay", "trainer", "appwrapper")
        yield running
