"""Which of its gang's pods a pod is: the numbers that Jobs and other controllers give, read into a series and an index.

The index counts pods of one controller. Where a gang has several that count from 0 each (the Jobs of a JobSet, the
groups of a LeaderWorkerSet, the roles of a training job) the series tells them apart, and comes first in rank order.
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
"""All that a pod of an MPIJob says of its role. Others say it of their masters alone, beside their type."""
TRAINING_JOBS = {
    "PyTorchJob": "pytorchReplicaSpecs",
    "TFJob": "tfReplicaSpecs",
    "XGBoostJob": "xgbReplicaSpecs",
    "PaddleJob": "paddleReplicaSpecs",
    "JAXJob": "jaxReplicaSpecs",
    "MPIJob": "mpiReplicaSpecs",
}
"""The kinds whose pods have roles with a number in each, and the field of the spec with the roles."""
RAY_GROUP = "ray.io/group"
RAY_REPLICA = "ray.io/worker-group-replica-index"
RAY_HOST = "ray.io/replica-host-index"
"""Where a replica of a group of workers has several hosts. Of one host the index of the replica says nothing: Ray's
autoscaler takes any of them away, and the others keep theirs."""
RAY_HEAD = "headgroup"
VOLCANO_TASK = "volcano.sh/task-spec"
VOLCANO_INDEX = "volcano.sh/task-index"
VOLCANO_JOB = "volcano.sh/job-name"
"""On pods of a Volcano Job. Older versions give them no index but in their name."""
ROLE = "muster.dev/role"
"""Says it where no controller does. The pods of a job that is planned whole are told apart by its podsets."""

KAI_SUBGROUP = "kai.scheduler/subgroup-name"
"""The same in KAI-Scheduler's words."""

NUMBERS = (
    COMPLETION_INDEX, POD_INDEX, KUEUE_INDEX, JOBSET_JOB, LWS_GROUP, LWS_WORKER, REPLICA_TYPE, REPLICA_INDEX, JOB_ROLE,
    RAY_GROUP, RAY_REPLICA, RAY_HOST, VOLCANO_TASK, VOLCANO_INDEX, VOLCANO_JOB, ROLE, KAI_SUBGROUP, PODSET,
    INDEX_LABEL, COMPONENT,
)  # fmt: skip
"""Every label or annotation that is read here."""

_INDEXES = (COMPLETION_INDEX, LWS_WORKER, REPLICA_INDEX, RAY_HOST, POD_INDEX, KUEUE_INDEX)
"""The first that is there counts: the leader of a LeaderWorkerSet's group is a StatefulSet's pod, too, whose index is
that of the group."""

_ANY = frozenset(NUMBERS)
_OF_SERIES = frozenset((COMPONENT, PODSET, JOBSET_JOB, LWS_GROUP, JOB_ROLE, REPLICA_TYPE, RAY_GROUP, VOLCANO_TASK, ROLE,
                        KAI_SUBGROUP))  # fmt: skip
"""Most pods have none of them, which is seen at one look."""

_INDEX = re.compile(r"[0-9]{1,9}", re.ASCII)
_ORDINAL = re.compile(r"(?<=-)[0-9]{1,9}\Z", re.ASCII)
_ROLE_MAX = 63
_ROLES = {"master": 0, "chief": 0, "ps": 2, "evaluator": 2, "launcher": 3}
"""Rank 0 is a master's. A launcher is no rank: it comes last."""


def index_of(meta: Meta) -> int | None:
    """Its number among the pods of its series; None where nobody has given it one."""
    if not meta.says(_ANY):
        return None
    if meta.said(PODSET):
        # Its kind is one of the settings: what others number is no number of its slots.
        return next((found for key in meta.said(INDEX_LABEL) if (found := _number(meta, key)) is not None), None)
    if _mpi_role(meta) == "worker" and (number := _ORDINAL.search(meta.name or "")) is not None:
        # Its label counts from 1 if the launcher is a worker as well.
        return int(number[0])
    if meta.said(VOLCANO_TASK):
        return _volcano_index(meta)
    return next((found for key in _INDEXES if (found := _number(meta, key)) is not None), None)


def series_of(meta: Meta) -> str:
    """Which series that is, in words that sort in rank order; empty where the gang has one alone."""
    if not meta.says(_OF_SERIES):
        return ""
    component = _number(meta, COMPONENT)
    return _series_of(meta) if component is None else series_in_component(component, _series_of(meta))


def _series_of(meta: Meta) -> str:
    if podset := meta.said(PODSET):
        return series_of_role(podset[0][:_ROLE_MAX])
    for key in (JOBSET_JOB, LWS_GROUP):
        if (number := _number(meta, key)) is not None:
            return series_of_job(number)
    role = _mpi_role(meta) or next(iter(meta.said(REPLICA_TYPE)), "").lower()
    if role and (_mpi_role(meta) or _number(meta, REPLICA_INDEX) is not None):
        return series_of_role(role)
    if group := next(iter(meta.said(RAY_GROUP)), ""):
        return series_of_ray(group[:_ROLE_MAX], _number(meta, RAY_REPLICA) if meta.said(RAY_HOST) else None)
    if (task := next(iter(meta.said(VOLCANO_TASK)), "")) and _volcano_index(meta) is not None:
        return series_of_role(task[:_ROLE_MAX])
    if (said := meta.said(ROLE) or meta.said(KAI_SUBGROUP)) and not meta.said(WORKLOAD):
        return series_of_role(said[0][:_ROLE_MAX])
    return ""


def series_of_job(number: int) -> str:
    """The pods of the Job of that number in its JobSet, or of that group of a LeaderWorkerSet."""
    return f"{number:09d}"


def series_of_role(role: str) -> str:
    """The pods of that role in a training job."""
    return f"{_ROLES.get(role.lower(), 1)}-{role.lower()}"


def series_of_ray(group: str, replica: int | None = None) -> str:
    """The head of a RayCluster, a group of its workers, or one replica of several hosts."""
    name = f"{int(group != RAY_HEAD)}-{group}"
    return name if replica is None else f"{name}/{replica:05d}"


def series_in_component(number: int, series: str) -> str:
    """A series of the pods that are made of that component of an AppWrapper."""
    return f"{number:02d}/{series}"


def _mpi_role(meta: Meta) -> str:
    role = next(iter(meta.said(JOB_ROLE)), "").lower()
    return role if role in ("launcher", "worker") and not meta.said(REPLICA_TYPE) else ""


def _volcano_index(meta: Meta) -> int | None:
    """Its number among the pods of its task."""
    ordinal = _ORDINAL.search(meta.name or "") if meta.said(VOLCANO_JOB) else None
    return int(ordinal[0]) if ordinal is not None else _number(meta, VOLCANO_INDEX)


def _number(meta: Meta, key: str) -> int | None:
    text = next(iter(meta.said(key)), "")
    return int(text) if _INDEX.fullmatch(text) else None
