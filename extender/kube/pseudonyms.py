"""A snapshot without the names of its owner: every name, UID and label value gets a pseudonym, everywhere the same one.

Pseudonyms are in the order of what they stand for, so that whatever is decided by name is decided alike.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable

from extender.core.stamps import GANG_UID, RELEASE
from extender.kube.dialects import COSCHEDULING_POD_GROUP, POD_GROUP
from extender.kube.objects import Amounts, Container, Expression, Meta, NodeObject, PodObject, PodSpec, Resources
from extender.kube.snapshot import ClusterFile
from extender.kube.topology import PREFERRED, REQUIRED, SLICE_TOPOLOGY
from policies.model.levels import PRESETS

Say = Callable[[str, str], str]
"""(kind, what was said) -> what is to be said instead."""

_WELL_KNOWN = re.compile(
    r"(.*\.)?(kubernetes|k8s|nvidia|amd|intel|amazonaws|google|azure|coreweave|muster)\.(io|com|dev|cloud)"
)
_HARMLESS = re.compile(r"-?[0-9]{0,6}|true|false", re.ASCII)
_NAMING = {POD_GROUP: "group", COSCHEDULING_POD_GROUP: "group", GANG_UID: "uid", RELEASE: "uid"}
_LEVELS = (REQUIRED, PREFERRED, SLICE_TOPOLOGY)


def anonymise(file: ClusterFile, kept_keys: Collection[str] = ()) -> None:
    """In place. Kept as they are: label keys and resources of well-known domains or in ``kept_keys``, small numbers,
    true and false, amounts, priorities, scheduler names and instants."""
    kept = {*kept_keys, *(level.key for preset in PRESETS.values() for level in preset)}
    said: dict[str, str] = {}

    def hear(kind: str, text: str) -> str:
        said.setdefault(text, kind)
        return text

    _rewrite(file, _but(hear, kept))
    kinds: dict[str, list[str]] = {}
    for text, kind in said.items():
        kinds.setdefault(kind, []).append(text)
    pseudonyms = {
        text: f"{kind}-{number:0{len(str(len(texts)))}d}"
        for kind, texts in kinds.items()
        for number, text in enumerate(sorted(texts), 1)
    }
    _rewrite(file, _but(lambda _, text: pseudonyms[text], kept))
    file.anonymised = True


def _but(say: Say, kept: Collection[str]) -> Say:
    """Without what gives nothing away."""

    def told(kind: str, text: str) -> str:
        if not text or (kind == "key" and (text in kept or _is_known(text))):
            return text
        return text if kind == "value" and _HARMLESS.fullmatch(text) else say(kind, text)

    return told


def _is_known(key: str) -> bool:
    domain, slash, _ = key.partition("/")
    return not slash or _WELL_KNOWN.fullmatch(domain) is not None


def _rewrite(file: ClusterFile, say: Say) -> None:
    for node in file.nodes:
        _node(node, say)
    for group in file.pod_groups:
        _meta(group.metadata, "group", say)
    for claim in file.claims:
        _meta(claim.metadata, "claim", say)
    for pod in file.pods:
        _pod(pod, say)


def _node(node: NodeObject, say: Say) -> None:
    if node.metadata is not None:
        node.metadata.name = say("node", node.metadata.name or "")
        node.metadata.labels = _labels(node.metadata.labels, say)
    if node.status is not None:
        node.status.allocatable = _amounts(node.status.allocatable, say)
    for taint in (node.spec.taints if node.spec else None) or ():
        taint.key, taint.value = say("key", taint.key or ""), say("value", taint.value or "")


def _pod(pod: PodObject, say: Say) -> None:
    _meta(pod.metadata, "pod", say)
    for owner in (pod.metadata.owner_references if pod.metadata else None) or ():
        owner.uid = say("uid", owner.uid or "")
    if pod.spec is not None:
        _spec(pod.spec, say)
    if pod.status is not None:
        pod.status.nominated_node_name = say("node", pod.status.nominated_node_name or "") or None
        for condition in pod.status.conditions or ():
            condition.message = None


def _spec(spec: PodSpec, say: Say) -> None:
    spec.node_name = say("node", spec.node_name or "") or None
    spec.node_selector = _labels(spec.node_selector, say)
    spec.overhead = _amounts(spec.overhead, say)
    for gate in spec.scheduling_gates or ():
        gate.name = say("key", gate.name or "")
    for one in spec.tolerations or ():
        one.key, one.value = say("key", one.key or ""), say("value", one.value or "")
    for volume in spec.volumes or ():
        if volume.persistent_volume_claim is not None:
            claim = volume.persistent_volume_claim
            claim.claim_name = say("claim", claim.claim_name or "")
    _resources(spec.resources, say)
    containers: Iterable[Container] = (*(spec.containers or ()), *(spec.init_containers or ()))
    for container in containers:
        _resources(container.resources, say)
    affinity = spec.affinity.node_affinity if spec.affinity else None
    for term in (affinity.required.node_selector_terms if affinity and affinity.required else None) or ():
        _expressions(term.match_expressions or (), "value", say)
        _expressions(term.match_fields or (), "node", say)


def _expressions(expressions: Iterable[Expression], kind: str, say: Say) -> None:
    for one in expressions:
        if kind == "value":
            one.key = say("key", one.key or "")
        one.values = [say(kind, value) for value in one.values or ()]


def _meta(meta: Meta | None, kind: str, say: Say) -> None:
    if meta is None:
        return
    meta.name, meta.uid = say(kind, meta.name or ""), say("uid", meta.uid or "")
    meta.namespace = say("namespace", meta.namespace or "")
    meta.labels, meta.annotations = _marks(meta.labels, say), _marks(meta.annotations, say)


def _marks(marks: dict[str, str] | None, say: Say) -> dict[str, str] | None:
    """Of pods and groups: those that name something."""
    if marks is None:
        return None
    told = {key: say(_NAMING[key], value) if key in _NAMING else value for key, value in marks.items()}
    return told | {key: say("key", value) for key, value in marks.items() if key in _LEVELS}


def _labels(labels: dict[str, str] | None, say: Say) -> dict[str, str] | None:
    return labels and {say("key", key): say("value", value) for key, value in labels.items()}


def _resources(resources: Resources | None, say: Say) -> None:
    if resources is not None:
        resources.requests = _amounts(resources.requests, say)
        resources.limits = _amounts(resources.limits, say)


def _amounts(amounts: Amounts | None, say: Say) -> Amounts | None:
    return amounts and {say("key", name): amount for name, amount in amounts.items()}
