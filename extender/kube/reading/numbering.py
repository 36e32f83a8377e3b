"""A pod's place among its gang's pods: the numbers that controllers give, read into a series and an index.

The index counts pods of one controller. A gang may have several that count from 0 each: the Jobs of a JobSet, the
groups of a LeaderWorkerSet, the roles of a training job. The series tells those apart, and sorts first in rank order.
"""

from __future__ import annotations

import re

from extender.kube.keys import COMPONENT, INDEX_LABEL, PODSET, WORKLOAD
from extender.kube.reading.objects import Meta

COMPLETION_INDEX = "batch.kubernetes.io/job-completion-index"
KUEUE_INDEX = "kueue.x-k8s.io/pod-group-pod-index"
POD_INDEX = "apps.kubernetes.io/pod-index"
JOBSET_JOB = "jobset.sigs.k8s.io/job-global-index"
LWS_GROUP = "leaderworkerset.sigs.k8s.io/group-index"
LWS_WORKER = "leaderworkerset.sigs.k8s.io/worker-index"
REPLICA_TYPE = "training.kubeflow.org/replica-type"
REPLICA_INDEX = "training.kubeflow.org/replica-index"
JOB_ROLE = "training.kubeflow.org/job-role"
"""The only label of an MPIJob's pods about their role. Other kinds use it for masters alone, beside their type."""
TRAINING_JOBS = {
    "PyTorchJob": "pytorchReplicaSpecs",
    "TFJob": "tfReplicaSpecs",
    "XGBoostJob": "xgbReplicaSpecs",
    "PaddleJob": "paddleReplicaSpecs",
    "JAXJob": "jaxReplicaSpecs",
    "MPIJob": "mpiReplicaSpecs",
}
"""Kinds whose pods have roles with a number in each, and the spec's field with the roles."""
RAY_GROUP = "ray.io/group"
RAY_REPLICA = "ray.io/worker-group-replica-index"
RAY_HOST = "ray.io/replica-host-index"
"""A label of pods whose replica of a worker group has several hosts.

With one host per replica the index of the replica means nothing: Ray's autoscaler removes any of them, and the others
keep theirs.
"""
RAY_HEAD = "headgroup"
VOLCANO_TASK = "volcano.sh/task-spec"
VOLCANO_INDEX = "volcano.sh/task-index"
VOLCANO_JOB = "volcano.sh/job-name"
"""A label of the pods of a Volcano Job. Older versions number them only in their names."""
ROLE = "muster.dev/role"
"""The role, where no controller states it. A job that is planned whole has podsets instead."""

KAI_SUBGROUP = "kai.scheduler/subgroup-name"
"""KAI-Scheduler's key for the role."""

NUMBERS = (
    COMPLETION_INDEX, POD_INDEX, KUEUE_INDEX, JOBSET_JOB, LWS_GROUP, LWS_WORKER, REPLICA_TYPE, REPLICA_INDEX, JOB_ROLE,
    RAY_GROUP, RAY_REPLICA, RAY_HOST, VOLCANO_TASK, VOLCANO_INDEX, VOLCANO_JOB, ROLE, KAI_SUBGROUP, PODSET,
    INDEX_LABEL, COMPONENT,
)  # fmt: skip
"""Every label or annotation that is read here."""

_INDEXES = (COMPLETION_INDEX, LWS_WORKER, REPLICA_INDEX, RAY_HOST, POD_INDEX, KUEUE_INDEX)
"""The keys of an index; the first that exists counts.

The leader of a LeaderWorkerSet's group is also a pod of a StatefulSet, where its index is that of the group.
"""

_ANY = frozenset(NUMBERS)
_OF_SERIES = frozenset((COMPONENT, PODSET, JOBSET_JOB, LWS_GROUP, JOB_ROLE, REPLICA_TYPE, RAY_GROUP, VOLCANO_TASK, ROLE,
                        KAI_SUBGROUP))  # fmt: skip
"""Keys of a series. Most pods have none, which one comparison shows."""

_INDEX = re.compile(r"[0-9]{1,9}", re.ASCII)
_ORDINAL = re.compile(r"(?<=-)[0-9]{1,9}\Z", re.ASCII)
_ROLE_MAX = 63
_ROLES = {"master": 0, "chief": 0, "ps": 2, "evaluator": 2, "launcher": 3}
"""Rank 0 is a master's. A launcher has no rank, so it comes last."""


def index_of(meta: Meta) -> int | None:
    """The pod's number among the pods of its series; None without one."""
    if not meta.says(_ANY):
        return None
    if meta.values_of(PODSET):
        # Kinds of the settings name the label with the index; other numbers mean nothing for their slots.
        return next((index for key in meta.values_of(INDEX_LABEL) if (index := _number(meta, key)) is not None), None)
    if _mpi_role(meta) == "worker" and (number := _ORDINAL.search(meta.name or "")) is not None:
        # The label counts from 1 if the launcher is a worker as well.
        return int(number[0])
    if meta.values_of(VOLCANO_TASK):
        return _volcano_index(meta)
    return next((index for key in _INDEXES if (index := _number(meta, key)) is not None), None)


def series_of(meta: Meta) -> str:
    """The pod's series, in words that sort in rank order; empty if the gang has only one."""
    if not meta.says(_OF_SERIES):
        return ""
    component = _number(meta, COMPONENT)
    return _series_of(meta) if component is None else series_in_component(component, _series_of(meta))


def _series_of(meta: Meta) -> str:
    if podset := meta.values_of(PODSET):
        return series_of_role(podset[0][:_ROLE_MAX])
    for key in (JOBSET_JOB, LWS_GROUP):
        if (number := _number(meta, key)) is not None:
            return series_of_job(number)
    role = _mpi_role(meta) or next(iter(meta.values_of(REPLICA_TYPE)), "").lower()
    if role and (_mpi_role(meta) or _number(meta, REPLICA_INDEX) is not None):
        return series_of_role(role)
    if group := next(iter(meta.values_of(RAY_GROUP)), ""):
        return series_of_ray(group[:_ROLE_MAX], _number(meta, RAY_REPLICA) if meta.values_of(RAY_HOST) else None)
    if (task := next(iter(meta.values_of(VOLCANO_TASK)), "")) and _volcano_index(meta) is not None:
        return series_of_role(task[:_ROLE_MAX])
    if (names := meta.values_of(ROLE) or meta.values_of(KAI_SUBGROUP)) and not meta.values_of(WORKLOAD):
        return series_of_role(names[0][:_ROLE_MAX])
    return ""


def series_of_job(number: int) -> str:
    """The series of a JobSet's Job of that number, or of that group of a LeaderWorkerSet."""
    return f"{number:09d}"


def series_of_role(role: str) -> str:
    """The series of that role in a training job."""
    return f"{_ROLES.get(role.lower(), 1)}-{role.lower()}"


def series_of_ray(group: str, replica: int | None = None) -> str:
    """The series of a RayCluster's head, of a group of its workers, or of one replica of several hosts."""
    name = f"{int(group != RAY_HEAD)}-{group}"
    return name if replica is None else f"{name}/{replica:05d}"


def series_in_component(number: int, series: str) -> str:
    """The series of pods that are made of that component of an AppWrapper."""
    return f"{number:02d}/{series}"


def _mpi_role(meta: Meta) -> str:
    role = next(iter(meta.values_of(JOB_ROLE)), "").lower()
    return role if role in ("launcher", "worker") and not meta.values_of(REPLICA_TYPE) else ""


def _volcano_index(meta: Meta) -> int | None:
    """The pod's number among the pods of its task."""
    ordinal = _ORDINAL.search(meta.name or "") if meta.values_of(VOLCANO_JOB) else None
    return int(ordinal[0]) if ordinal is not None else _number(meta, VOLCANO_INDEX)


def _number(meta: Meta, key: str) -> int | None:
    text = next(iter(meta.values_of(key)), "")
    return int(text) if _INDEX.fullmatch(text) else None
