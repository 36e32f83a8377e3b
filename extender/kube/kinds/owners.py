"""StatefulSet, ReplicaSet, Deployment and LeaderWorkerSet: how many pods each wants, and in which order they come.

None of these can be suspended, so their gangs are planned once their pods exist. Two of them make some pods only when
others run. Those later pods are planned together with the first one.
https://kubernetes.io/docs/concepts/workloads/controllers/statefulset/#pod-management-policies
https://lws.sigs.k8s.io/docs/reference/leaderworkerset.v1/
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import msgspec

from extender.core.events import Event, OwnerGone, OwnerSeen
from extender.kube.dialects import MIN_MEMBER
from extender.kube.dialects.naming import size_of
from extender.kube.dialects.owner import DEPLOYMENT, LWS, REPLICA_SET, STATEFUL_SET, owner_name
from extender.kube.keys import GANG
from extender.kube.kinds.claims import claim_makers
from extender.kube.kinds.kind import Object, UnreadableJobError, count_in, found, part_of
from extender.kube.kinds.plan import MOST_PODS
from extender.kube.kinds.read import Reader, meta_of
from extender.kube.reading.objects import Meta
from extender.kube.reading.queue_name import any_queue_of
from extender.kube.reading.topology import LWS_EXCLUSIVE
from extender.kube.resources import Resource
from policies.model import Controller, GangOwner, GroupKey, Order, PodSet

TOO_MANY_PODS = f"it makes its {{}} pods in order, and no more than {MOST_PODS:,} can be planned together"


@dataclass(frozen=True, slots=True)
class OwnerKind:
    """A kind of object that owns gangs of pods and cannot be suspended.

    ``order``: the order in which it makes the pods of a gang.
    ``numbers``: the first index of its pods, and how many there are.
    ``templates``: the template of the first pod, and that of the others.
    ``states_size``: the pods state the size of their gang themselves.
    ``restarts``: when one pod goes, the controller remakes the whole gang.
    ``groups``: how many gangs one object makes.
    ``claims``: the path of its volume claim templates, of which its StatefulSets make one claim for each pod.
    """

    version: str
    name: str
    plural: str
    order: Callable[[Object], Order]
    numbers: Callable[[Object], tuple[int, int]]
    templates: Callable[[Object], tuple[Object, Object]]
    states_size: bool = False
    restarts: Callable[[Object], bool] = lambda _: False
    groups: Callable[[Object], int] = lambda _: 1
    claims: str = ""

    @property
    def group(self) -> str:
        return self.version.partition("/")[0]

    @property
    def path(self) -> str:
        """The API path of all objects of the kind."""
        return f"/apis/{self.version}/{self.plural}"


def owners_of(kind: OwnerKind, reader: Reader) -> Resource[GangOwner, Event]:
    """The resource to follow: objects with the label that the admission policy writes at their author's request."""

    def read(raw: msgspec.Raw) -> tuple[Meta, GangOwner | None]:
        obj = msgspec.json.decode(raw)
        meta = meta_of(kind.name, obj)
        return meta, None if made_by_deployment(meta) else owner_from(kind, obj, reader)

    return Resource(
        kind.path,
        read,
        OwnerSeen,
        lambda owner: OwnerGone(owner.key, owner.uid),
        optional=True,
        dispensable=True,
        labels=f"{GANG}=true",
    )


def made_by_deployment(meta: Meta) -> bool:
    """Whether a Deployment made this ReplicaSet. Such a ReplicaSet has the label from its Deployment's template."""
    return any(
        owner_reference.controller and owner_reference.kind == DEPLOYMENT
        for owner_reference in meta.owner_references or ()
    )


def owner_from(kind: OwnerKind, obj: Object, reader: Reader) -> GangOwner:
    """Read the owner of a gang. Its ``problem`` says what cannot be read.

    Raises UnreadableError if the metadata do not identify the object.
    """
    meta = meta_of(kind.name, obj)
    made_by = Controller(kind.version, kind.name, meta.name or "", meta.uid or "")
    key = GroupKey(meta.namespace or "", owner_name(kind.name, made_by.name))
    try:
        count = kind.numbers(obj)[1]
        declared, problem = size_of(meta, (MIN_MEMBER,))
        queue, contradiction = any_queue_of(meta)
        if problem is not None or contradiction:
            raise UnreadableJobError(problem or contradiction)
        minimum = max(1, count if declared is None else min(declared, count))
        podset = None
        if count and kind.order(obj) is not Order.TOGETHER:
            podset = _podset(kind, obj, meta, key, made_by, minimum, reader)
        stated = None if kind.states_size and declared is None else minimum
        ends = bool(meta.deletion_timestamp) or not count or not kind.groups(obj)
        return GangOwner(key, made_by, stated, podset, restarts=kind.restarts(obj), ends=ends, queue=queue)
    except UnreadableJobError as error:
        return GangOwner(key, made_by, problem=f"{kind.name} {made_by.name}: {error}")


def _podset(
    kind: OwnerKind, obj: Object, meta: Meta, key: GroupKey, owner: Controller, minimum: int, reader: Reader
) -> PodSet:
    """The podset of pods that are made in order; their indexes begin at 0, or where the object says."""
    first, count = kind.numbers(obj)
    if first + count > MOST_PODS:
        raise UnreadableJobError(TOO_MANY_PODS.format(f"{first + count:,}"))
    leader, others = kind.templates(obj)
    makers = claim_makers(obj, kind.claims) if kind.claims else ()
    shapes = []
    for template in (others, *([leader] if leader is not others else [])):
        shape, problem = reader.shape_of(meta, key, owner, template)
        if problem:
            raise UnreadableJobError(problem)
        shapes.append(replace(shape, claim_makers=(*shape.claim_makers, *makers)) if makers else shape)
    return PodSet(
        shapes[0],
        first + count,
        minimum,
        left_out=frozenset(range(first)),
        order=kind.order(obj),
        leader=shapes[1] if shapes[1:] else None,
    )


def _replicas(obj: Object) -> tuple[int, int]:
    return 0, count_in(part_of(obj, "spec"), "replicas", 1)


def _ordinals(obj: Object) -> tuple[int, int]:
    spec = part_of(obj, "spec")
    ordinals = spec.get("ordinals")
    return count_in(ordinals, "start", 0) if isinstance(ordinals, dict) else 0, count_in(spec, "replicas", 1)


def _group(obj: Object) -> tuple[int, int]:
    return 0, count_in(part_of(obj, "spec", "leaderWorkerTemplate"), "size", 1)


def _template(obj: Object) -> tuple[Object, Object]:
    template = part_of(obj, "spec", "template")
    return template, template


def _leader_and_workers(obj: Object) -> tuple[Object, Object]:
    both = part_of(obj, "spec", "leaderWorkerTemplate")
    workers = part_of(both, "workerTemplate")
    leader = part_of(both, "leaderTemplate") if both.get("leaderTemplate") else workers
    if not (level := _exclusive(obj)):
        return leader, workers
    return _with_annotation(leader, level), _with_annotation(workers, level)


def _exclusive(obj: Object) -> str:
    """The level that the groups do not share; empty without one. The controller copies it to all pods."""
    return str((next(found(obj, "metadata.annotations"), None) or {}).get(LWS_EXCLUSIVE, ""))


def _with_annotation(template: Object, level: str) -> Object:
    meta = template.get("metadata") or {}
    annotations = {**(meta.get("annotations") or {}), LWS_EXCLUSIVE: level}
    return {**template, "metadata": {**meta, "annotations": annotations}}


def _pod_management(obj: Object) -> Order:
    parallel = "Parallel" in found(obj, "spec.podManagementPolicy")
    return Order.TOGETHER if parallel else Order.ONE_BY_ONE


def _startup(obj: Object) -> Order:
    """The order of a group. With exclusive domains the workers are made once their leader has a node."""
    leader_first = _exclusive(obj) or "LeaderReady" in found(obj, "spec.startupPolicy")
    return Order.LEADER_FIRST if leader_first else Order.TOGETHER


def _restarts_groups(obj: Object) -> bool:
    """Whether a lost pod remakes its group: the default, and assumed for unknown policies."""
    return all(policy not in ("None", "Default") for policy in found(obj, "spec.leaderWorkerTemplate.restartPolicy"))


def _together(_: Object) -> Order:
    return Order.TOGETHER


OWNER_KINDS = (
    OwnerKind(
        "apps/v1",
        STATEFUL_SET,
        "statefulsets",
        _pod_management,
        _ordinals,
        _template,
        claims="spec.volumeClaimTemplates",
    ),
    OwnerKind("apps/v1", DEPLOYMENT, "deployments", _together, _replicas, _template),
    OwnerKind("apps/v1", REPLICA_SET, "replicasets", _together, _replicas, _template),
    OwnerKind(
        "leaderworkerset.x-k8s.io/v1",
        LWS,
        "leaderworkersets",
        _startup,
        _group,
        _leader_and_workers,
        states_size=True,
        restarts=_restarts_groups,
        groups=lambda obj: _replicas(obj)[1],
        claims="spec.leaderWorkerTemplate.volumeClaimTemplates",
    ),
)
