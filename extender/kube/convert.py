"""Convert decoded Kubernetes objects into the values that decisions are made of (policies.model)."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from functools import lru_cache
from sys import intern
from typing import Any, TypeVar

from extender.core.gate.stamps import COST, stamp_of
from extender.core.instants import instant_of
from extender.kube.dialects import MARKS, group_of
from extender.kube.dialects.owner import owned_gang
from extender.kube.dialects.unread_keys import hint_of
from extender.kube.keys import NODES, WORKLOAD
from extender.kube.reading.constraints import (
    TOO_CHOOSY,
    TOO_ENTANGLED,
    constraints_of,
    labels_of,
    selection_of,
    taints_of,
)
from extender.kube.reading.durations import deadline_of, run_terms_of
from extender.kube.reading.eviction import terms_of
from extender.kube.reading.identity import UnreadableError, identity
from extender.kube.reading.numbering import index_of, series_of
from extender.kube.reading.objects import (
    Condition,
    Meta,
    NodeObject,
    OwnerReference,
    PodObject,
    PodSpec,
    PodStatus,
)
from extender.kube.reading.plain import is_name, plain
from extender.kube.reading.queue_name import PODSET_GROUP, any_queue_of
from extender.kube.reading.requests import amounts_of, requests_of
from extender.kube.reading.reserved import PREEMPTING, RESERVED, reservation_from
from extender.kube.reading.topology import topology_of
from extender.kube.reading.volumes import claims_of, own_claims_of
from policies.model import UNCONSTRAINED, Controller, Node, Pod, Requests, Selection, stamped_group
from policies.model.devices import ClaimUse

ObjectT = TypeVar("ObjectT")
ValueT = TypeVar("ValueT")

_API_VERSION = re.compile(r"[a-z0-9]([-a-z0-9./]{0,314}[a-z0-9])?", re.ASCII)
_KIND = re.compile(r"[A-Za-z][A-Za-z0-9]{0,62}", re.ASCII)

MOST_NAMES = 64
"""Most resources, volume claims and scheduling gates kept of a pod, of each."""
PROTECTED_NODE = "muster.dev/kept-for-plan"
"""The label that Muster writes on nodes to keep them (queues/protection.py). Its change is no news of the node."""
_LONGEST_REFUSAL = 4096
_STAY = ("DaemonSet", "Node")

TOO_MANY_NAMES = f"it has more than {MOST_NAMES} kinds of resources, volume claims or scheduling gates"


def readable(
    convert: Callable[[ObjectT], ValueT], objects: Iterable[ObjectT], problems: list[str] | None = None
) -> list[ValueT]:
    """The objects that can be read; what is wrong with the others is added to ``problems``."""
    pods = []
    for obj in objects:
        try:
            pods.append(convert(obj))
        except UnreadableError as error:
            if problems is not None:
                problems.append(str(error))
    return pods


def pod_from(obj: PodObject) -> Pod:
    """Convert a pod. Raises UnreadableError without a UID, name or namespace, or for a bad amount or instant."""
    meta = obj.metadata or Meta()
    return pod_of(metadata_fields(meta), spec_fields(meta, obj.spec or PodSpec()), obj)


def metadata_fields(meta: Meta) -> dict[str, Any]:
    """The fields of a Pod that its metadata alone decide. ``stamp`` counts only for a pod that has a node."""
    uid, namespace, name = identity(meta, "pod")
    workload = (meta.annotations or {}).get(WORKLOAD)
    maker = maker_of(meta)
    queue, problem = any_queue_of(meta)
    group = group_of(meta if workload != "" else _given_back(meta)) or owned_gang(meta)
    return {
        "uid": uid,
        "namespace": namespace,
        "name": name,
        "created": instant(meta.creation_timestamp),
        "deleting": bool(meta.deletion_timestamp),
        "owner": plain(workload or (maker.uid if maker is not None else None) or ""),
        "controller": controller_of(maker),
        "index": index_of(meta),
        "series": series_of(meta),
        "labels": labels_of(meta),
        "topology": topology_of(meta),
        "group": group._replace(problem=problem) if problem and group is not None else group,
        "queue": queue,
        "podset_group": plain((meta.annotations or {}).get(PODSET_GROUP, "")),
        "stamp": stamp_of(meta.annotations or {}),
        "stays": maker is not None and maker.kind in _STAY,
        "reservation": reservation_from((meta.annotations or {}).get(PREEMPTING)),
        "backfill": reservation_from((meta.annotations or {}).get(RESERVED)),
        "eviction": terms_of(meta),
        "run": run_terms_of(meta),
        "hint": hint_of(meta),
        "unpinned": bool((meta.annotations or {}).get(NODES)),
        "removed_by_cost": maker is not None and maker.kind == "ReplicaSet" and COST not in (meta.annotations or {}),
    }


def spec_fields(meta: Meta, spec: PodSpec) -> dict[str, Any]:
    """The fields of a Pod that its spec decides, except its node, and what is wrong with them.

    ``meta``: has the labels that the pod's own selectors may name.
    """
    selection, constraints, gates = selection_of(spec), constraints_of(meta, spec), spec.scheduling_gates or ()
    requests = _readable(f"pod {meta.namespace}/{meta.name}", spec)
    claims, own = claims_of(meta, spec), own_claims_of(meta, spec)
    many = max(len(requests), len(claims), len(gates), len(spec.resource_claims or ())) > MOST_NAMES
    problems = (TOO_CHOOSY, selection is None), (TOO_ENTANGLED, constraints is None), (TOO_MANY_NAMES, many)
    return {
        "requests": requests[:MOST_NAMES],
        "scheduler": plain(spec.scheduler_name or ""),
        "priority": spec.priority or 0,
        "preempts": spec.preemption_policy != "Never",
        "gates": tuple(plain(gate.name or "") for gate in gates[:MOST_NAMES]),
        "selection": selection or Selection(),
        "constraints": UNCONSTRAINED if constraints is None else constraints,
        "native_group": _native_group(spec),
        "device_claims": _uses(spec),
        "claims": claims[:MOST_NAMES],
        "own_claims": own[:MOST_NAMES],
        "problem": next((text for text, holds in problems if holds), None),
    }


def pod_of(declared: dict[str, Any], requested: dict[str, Any], obj: PodObject) -> Pod:
    """The Pod with these fields, and the others, which change as it is bound and runs."""
    spec, status = obj.spec or PodSpec(), obj.status
    fields = declared | requested
    problem, group = fields.pop("problem"), declared["group"]
    if (deadline_s := deadline_of(spec.active_deadline_seconds)) is not None:
        fields["run"] = declared["run"]._replace(deadline_s=deadline_s)
    if is_of_job(fields["native_group"], fields["controller"]):
        # Kubernetes 1.36 names a group for every Job. Muster starts no Job that asks for a native gang.
        started = bool(((obj.metadata or Meta()).annotations or {}).get(WORKLOAD))
        fields["job_group"], fields["native_group"] = "" if started else fields["native_group"], ""
    if problem is not None and group is not None:
        fields["group"] = group._replace(problem=problem)
    if not spec.node_name:
        # Only a Binding's stamp counts, and a pod without a node has none.
        fields["stamp"] = None
    else:
        fields["group"] = stamped_group(fields["group"], fields["stamp"])
    return Pod(
        **fields,
        node=plain(spec.node_name or "") or None,
        nominated_node=plain((status.nominated_node_name if status else None) or "") or None,
        phase=(status.phase if status else None) or "Pending",
        refusal=_refusal((status.conditions if status else None) or ()),
        ends=_end(spec, status),
        began=_began(status) if fields["group"] is None and any(fields["run"]) else None,
    )


def _given_back(meta: Meta) -> Meta:
    """The metadata without Muster's empty annotations, which a cleaned template of some kinds leaves on pods."""
    annotations = {key: value for key, value in (meta.annotations or {}).items() if value or key not in MARKS}
    return Meta(name=meta.name, namespace=meta.namespace, uid=meta.uid, labels=meta.labels, annotations=annotations)


def node_from(obj: NodeObject) -> Node:
    """Convert a node. Without a Ready condition it is not ready. Raises UnreadableError as ``pod_from`` does."""
    meta, status = obj.metadata or Meta(), obj.status
    if not meta.name:
        raise UnreadableError("the node has no name")
    try:
        allocatable = amounts_of((status.allocatable if status else None) or {})
    except ValueError as error:
        raise UnreadableError(f"the allocatable {error} (node {meta.name})") from None
    conditions = (status.conditions if status else None) or ()
    return Node(
        name=meta.name,
        allocatable=_one_for_all_nodes(tuple(sorted(allocatable.items()))),
        labels=_labels_of_node(meta),
        taints=taints_of((obj.spec.taints if obj.spec else None) or ()),
        unschedulable=bool(obj.spec and obj.spec.unschedulable),
        ready=any(condition.type == "Ready" and condition.status == "True" for condition in conditions),
    )


def bare_pod_from(obj: PodObject) -> Pod | None:
    """A pod that is on a node, with only its room, gang and other facts that can be read; None without a node.

    Raises UnreadableError if the metadata do not identify the pod.
    """
    meta, spec, status = obj.metadata or Meta(), obj.spec or PodSpec(), obj.status
    uid, namespace, name = identity(meta, "pod")
    if not spec.node_name:
        return None
    group = _if_readable(lambda: group_of(meta) or owned_gang(meta))
    maker = _if_readable(lambda: maker_of(meta))
    return Pod(
        uid,
        namespace,
        name,
        _if_readable(lambda: requests_of(spec)) or (("pods", 1),),
        scheduler=plain(spec.scheduler_name or ""),
        priority=spec.priority or 0,
        node=plain(spec.node_name),
        phase=(status.phase if status else None) or "Pending",
        deleting=bool(meta.deletion_timestamp),
        owner=plain((maker.uid if maker is not None else None) or ""),
        index=_if_readable(lambda: index_of(meta)),
        series=_if_readable(lambda: series_of(meta)) or "",
        group=group,
        stamp=_if_readable(lambda: stamp_of(meta.annotations or {})),
    )


def bare_node_from(obj: NodeObject) -> Node | None:
    """The name and labels of a node that cannot be read: nothing is planned there, and its pods stay counted."""
    meta = obj.metadata or Meta()
    return Node(meta.name, (), _labels_of_node(meta), unschedulable=True, bare=True) if meta.name else None


def _labels_of_node(meta: Meta) -> dict[str, str]:
    """The node's labels. A node has fifty, mostly equal to those of other nodes, so each text is kept once."""
    return {intern(key): intern(text) for key, text in (meta.labels or {}).items() if key != PROTECTED_NODE}


@lru_cache(maxsize=4096)
def _one_for_all_nodes(amounts: Requests) -> Requests:
    """The same object for all nodes that offer the same amounts."""
    return amounts


def _if_readable(read: Callable[[], ValueT | None]) -> ValueT | None:
    try:
        return read()
    except Exception:
        return None


def _uses(spec: PodSpec) -> tuple[ClaimUse, ...]:
    """The device claims that the pod names, up to the limit."""
    return tuple(
        ClaimUse(
            *(
                plain(text or "")
                for text in (pod_claim.name, pod_claim.resource_claim_name, pod_claim.resource_claim_template_name)
            )
        )
        for pod_claim in (spec.resource_claims or ())[:MOST_NAMES]
    )


def _readable(whose: str, spec: PodSpec) -> tuple[tuple[str, int], ...]:
    try:
        return requests_of(spec)
    except ValueError as error:
        raise UnreadableError(f"the request for {error} ({whose})") from None


def maker_of(meta: Meta) -> OwnerReference | None:
    return next((owner for owner in meta.owner_references or () if owner.controller), None)


def controller_of(maker: OwnerReference | None) -> Controller | None:
    """The controller of a pod, if an Event can be about it; None otherwise. Any user can write any owner on a pod."""
    if maker is None or maker.kind == "Node":
        return None
    identity = maker.api_version or "", maker.kind or "", maker.name or "", maker.uid or ""
    readable = _API_VERSION.fullmatch(identity[0]) and _KIND.fullmatch(identity[1]) and is_name(identity[2])
    return _one_for_all(*identity) if readable and identity[3] and plain(identity[3]) == identity[3] else None


@lru_cache(maxsize=4096)
def _one_for_all(version: str, kind: str, name: str, uid: str) -> Controller:
    """The same object for all pods of a job."""
    return Controller(version, kind, name, uid)


def _end(spec: PodSpec, status: PodStatus | None) -> float | None:
    """The instant at which the active deadline passes. The kubelet counts it from the start of the pod."""
    began = _began(status)
    return None if began is None or spec.active_deadline_seconds is None else began + spec.active_deadline_seconds


def _began(status: PodStatus | None) -> float | None:
    return None if status is None or not status.start_time else instant(status.start_time)


def instant(text: str | None) -> float:
    """Convert RFC 3339 into seconds since the epoch; 0 if absent. Raises UnreadableError."""
    if not text:
        return 0.0
    if (at := instant_of(text)) is None:
        raise UnreadableError(f"{text[:40]!r} is not an instant in RFC 3339")
    return at


def _refusal(conditions: Iterable[Condition]) -> str | None:
    for condition in conditions:
        if condition.type == "PodScheduled" and condition.status == "False" and condition.reason == "Unschedulable":
            return (condition.message or "")[:_LONGEST_REFUSAL]
    return None


def _native_group(spec: PodSpec) -> str:
    """The name of the pod's native group; a placeholder for a group without a name."""
    group = spec.scheduling_group
    return "" if group is None else plain(group.pod_group_name or "") or "unnamed"


def is_of_job(group: str, maker: Controller | None) -> bool:
    """Whether the Job controller names a PodGroup like this for its Job: ``JOB-HASH-JOB-pgt-0-HASH``.

    With Kubernetes' gate WorkloadWithJob every Job has one.
    """
    if not group or maker is None or (maker.version, maker.kind) != ("batch/v1", "Job"):
        return False
    return (
        re.fullmatch(rf"{re.escape(maker.name)}-[a-z0-9]+-{re.escape(maker.name)}-pgt-0-[a-z0-9]+", group) is not None
    )
