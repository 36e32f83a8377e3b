"""The gang of a pod that names none, but has ``muster.dev/gang: "true"``: the gang of the object that made it.

A StatefulSet, a ReplicaSet and a Deployment are one gang each; a LeaderWorkerSet is one for each of its groups. The
name of a Deployment is that of its ReplicaSet without the hash of its template, as the Deployment controller makes it.
A pod of a job that was started without a plan is in the gang of that job. The gang has no size, and waits until the job
is suspended and planned as a whole.
"""

from __future__ import annotations

import re

from extender.kube.dialects.naming import BAD_NAME, size_of
from extender.kube.keys import GANG
from extender.kube.reading.numbering import LWS_GROUP, TRAINING_JOBS
from extender.kube.reading.objects import Meta
from extender.kube.reading.plain import is_name, quoted
from extender.kube.reading.topology import topology_problem
from policies.model import Dialect, GroupRef

LWS_NAME = "leaderworkerset.sigs.k8s.io/name"
LWS_SIZE = "leaderworkerset.sigs.k8s.io/size"
"""The annotation with the number of pods in the group."""
TEMPLATE_HASH = "pod-template-hash"
READ = (GANG, LWS_NAME, LWS_SIZE, TEMPLATE_HASH)
"""Every label or annotation that only this file reads."""
DEPLOYMENT, LWS = "Deployment", "LeaderWorkerSet"
REPLICA_SET, STATEFUL_SET = "ReplicaSet", "StatefulSet"

_PARTS = ("jobset.sigs.k8s.io/", "training.kubeflow.org/")
"""Prefixes of labels on pods of Jobs that belong to another job. No pod names that other job."""
_NUMBER = re.compile(r"[0-9]{1,9}", re.ASCII)


def owned_gang(meta: Meta) -> GroupRef | None:
    """The gang of the object that made the pod; None for a pod without the key, or of another kind of object."""
    if "true" not in meta.values_of(GANG) or "false" in meta.values_of(GANG):
        return None
    made_by = _maker(meta)
    if made_by is None:
        return None
    kind, name = made_by
    owner = owner_name(kind, name)
    number = (meta.labels or {}).get(LWS_GROUP, "") if kind == LWS else ""
    gang = f"{owner}-{int(number)}" if number else owner
    if not is_name(gang):
        return GroupRef(
            quoted(gang), Dialect.OWNER, problem=BAD_NAME.format("the name of its gang", quoted(gang)), owner=owner
        )
    if (problem := topology_problem(meta)) is not None:
        return GroupRef(gang, Dialect.OWNER, problem=problem, owner=owner)
    if kind != LWS:
        return GroupRef(gang, Dialect.OWNER, owner=owner)
    size, problem = size_of(meta, (LWS_SIZE,))
    return GroupRef(gang, Dialect.OWNER, size, problem, owner=owner)


def owner_name(kind: str, name: str) -> str:
    """The name by which pods refer to the object. It is also their gang's, except for groups of a LeaderWorkerSet."""
    return f"{kind.lower()}-{name}"


def _maker(meta: Meta) -> tuple[str, str] | None:
    """The kind and name of the object that a user wrote; None if it is unknown."""
    maker = next(
        (owner_reference for owner_reference in meta.owner_references or () if owner_reference.controller), None
    )
    if maker is None or not maker.name:
        return None
    labels, group = meta.labels or {}, (maker.api_version or "").partition("/")[0]
    if (group, maker.kind) == ("batch", "Job"):
        return None if any(key.startswith(_PARTS) for key in labels) else ("Job", maker.name)
    if group == "kubeflow.org" and maker.kind in TRAINING_JOBS:
        return maker.kind, maker.name
    if group != "apps":
        return None
    if maker.kind == STATEFUL_SET:
        in_group = LWS_NAME in labels and _NUMBER.fullmatch(labels.get(LWS_GROUP, ""))
        return (LWS, labels[LWS_NAME]) if in_group else (STATEFUL_SET, maker.name)
    if maker.kind != REPLICA_SET:
        return None
    deployment, _, template = maker.name.rpartition("-")
    return (DEPLOYMENT, deployment) if template == labels.get(TEMPLATE_HASH) else (REPLICA_SET, maker.name)
