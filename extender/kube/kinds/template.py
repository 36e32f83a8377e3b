"""Put what Muster writes on a pod template, and take exactly that off again.

Part of it is what the pods tolerate and select besides, for the flavor that they get.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from copy import deepcopy
from dataclasses import replace
from itertools import chain
from typing import Any

import msgspec

from extender.kube.dialects import MIN_MEMBER, POD_GROUP
from extender.kube.keys import LED, LED_BY_AFFINITY, LED_BY_INDEX, NODE_LABELS, NODES, OWN, WORKLOAD
from extender.kube.kinds.kind import Object, Template, found, put
from extender.kube.reading.constraints import required_spread
from extender.kube.reading.objects import Meta, SpreadConstraint
from extender.kube.reading.plain import json_of
from policies.model import Toleration

TOLERATED = "tolerations"
"""What ``tolerate`` has added is kept under this name."""
_TOLERATIONS = "spec.tolerations"
SELECTED = "nodeSelector"
"""What ``select`` has added is kept under this name."""
_SELECTOR = "spec.nodeSelector"

MOST_TERMS = 8
"""Nodes that node affinity names where the pods have indexes, too: one term costs next to nothing."""
MOST_TERMS_WITHOUT_INDEX = 64
_OURS = (POD_GROUP, MIN_MEMBER, WORKLOAD, NODES, NODE_LABELS)
_REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
_AFFINITY = "affinity"
Kept = Mapping[str, str]
"""What the template's author had written where Muster writes: the annotations, and the places that were empty."""


def put_on(
    template: Template,
    marks: Mapping[str, str],
    nodes: Sequence[Sequence[str]],
    tolerations: Sequence[Toleration] = (),
    labels: Mapping[str, str] | None = None,
) -> dict[str, str]:
    """Write ``marks`` and lead the pods to ``nodes``: of each podset one for each slot, "" for a slot without one.
    ``tolerations``: what the pods tolerate besides; ``labels``: what they ask of their nodes besides. Returns what
    ``take_off`` needs to know of the template as it was.
    """
    pod = template.pod
    kept = {name: "" for name, path in _PLACES.items() if {} in found(pod, path)}
    own_labels = next(found(pod, "metadata.labels"), None) or {}
    annotations = dict(next(found(pod, "metadata.annotations"), None) or {})
    asked = missing(pod, labels or {})
    by_policy = {NODE_LABELS: labels_text(asked)} if asked and not template.affinity else {}
    for key, value in {**marks, **template.marks, **by_policy}.items():
        if annotations.get(key):
            kept[key] = annotations[key]
        if key not in own_labels:
            annotations[key] = value
    if _has_affinity(pod):
        kept[_AFFINITY] = ""
    put(pod, "metadata.annotations", annotations)
    way = _lead(template, nodes, terms=template.affinity and _AFFINITY not in kept, least=int(marks[MIN_MEMBER]))
    if way and template.affinity and LED not in own_labels:
        put(pod, "metadata.labels", {**own_labels, LED: way})
    if added := tolerate(pod, tolerations):
        kept[TOLERATED] = added
    if asked and template.affinity:
        kept[SELECTED] = select(pod, asked)
    return kept


def take_off(template: Template, kept: Kept, *, emptied: bool = False) -> None:
    """The template as its author wrote it. ``emptied``: leave our annotations, without values."""
    pod = template.pod
    meta = pod.get("metadata")
    annotations = meta.get("annotations") if isinstance(meta, dict) else None
    if not isinstance(meta, dict) or not isinstance(annotations, dict) or WORKLOAD not in annotations:
        return
    written = bool(annotations[WORKLOAD])
    for key in [key for key in (*_OURS, *template.marks) if key in annotations and (written or not annotations[key])]:
        if written and key in kept:
            annotations[key] = kept[key]
        elif emptied:
            annotations[key] = ""
        else:
            del annotations[key]
    labels = meta.get("labels")
    if written and isinstance(labels, dict) and labels.pop(LED, None) and not labels and "labels" not in kept:
        del meta["labels"]
    if written and _AFFINITY not in kept:
        _free(pod)
    if written:
        tolerate_no_more(pod, kept.get(TOLERATED, "[]"))
        select_no_more(pod, kept.get(SELECTED, "{}"))
    if not annotations and "annotations" not in kept:
        del meta["annotations"]
    if not meta and "metadata" not in kept:
        del pod["metadata"]


def kept_of(meta: Meta) -> dict[str, Kept]:
    """What ``take_off`` needs to know, by template; empty where nobody can have written it by ``start``."""
    return dict(json_of((meta.annotations or {}).get(OWN), dict[str, dict[str, str]]) or {})


def kept_text(kept: dict[str, dict[str, str]]) -> str:
    return json.dumps(kept, sort_keys=True, separators=(",", ":"))


def bare(template: Template, kept: Kept) -> Object:
    """A copy as its author wrote it, and its controller adds to it. What Muster does not write is not copied."""
    pod = dict(template.pod)
    if "metadata" in pod:
        pod["metadata"] = deepcopy(pod["metadata"])
    if isinstance(spec := pod.get("spec"), dict):
        pod["spec"] = {
            **spec,
            "initContainers": [*(spec.get("initContainers") or ()), *template.added],
            "containers": [*(spec.get("containers") or ()), *template.sidecars],
        }
        if _AFFINITY in spec:
            pod["spec"][_AFFINITY] = deepcopy(spec[_AFFINITY])
    take_off(replace(template, pod=pod), kept)
    if template.tolerated:
        pod["spec"]["tolerations"] = [*template.tolerated, *(pod["spec"].get("tolerations") or ())]
    if template.meta is not None:
        said = pod.get("metadata") or {}
        labels = {**(said.get("labels") or {}), **(template.meta.labels or {})}
        annotations = {**(said.get("annotations") or {}), **(template.meta.annotations or {})}
        pod["metadata"] = {"labels": labels, "annotations": annotations}
    return pod


def is_marked(template: Template) -> bool:
    """Something of ours is on it."""
    annotations = next(found(template.pod, "metadata.annotations"), None) or {}
    return bool(annotations.get(WORKLOAD) or annotations.get(NODES))


_PLACES = {"metadata": "metadata", "annotations": "metadata.annotations", "labels": "metadata.labels"}


def _lead(template: Template, nodes: Sequence[Sequence[str]], *, terms: bool, least: int) -> str:
    """Write the nodes, if there are any; returns what the label ``LED`` says of it, "" where none are written.
    ``terms``: they may be in node affinity. ``least``: with so many pods of all templates the job starts. The policy
    untracked.yaml takes pods with an index of at least that for such that are not in the plan, and no others."""
    if not template.led or _needs_choice(template.pod):
        return ""
    if not (names := tuple(dict.fromkeys(chain.from_iterable(nodes)))):
        return ""
    planned = sum(map(len, nodes))
    mistaken = template.indexed and (least < planned or (least > planned and template.grows))
    if terms and len(names) <= MOST_TERMS and "" not in names and not mistaken:
        return _bind(template.pod, names)
    if template.indexed or planned == 1:
        # By the index of each; the Jobs of a JobSet are parted by semicolons.
        text = ";".join("," * template.first_index + ",".join(one) for one in nodes)
        template.pod["metadata"]["annotations"][NODES] = text
        return LED_BY_INDEX
    return _bind(template.pod, tuple(filter(None, names))) if terms and len(names) <= MOST_TERMS_WITHOUT_INDEX else ""


def _needs_choice(pod: Object) -> bool:
    """It is spread, and kube-scheduler would count only the nodes of a node affinity."""
    said = next(found(pod, "spec.topologySpreadConstraints"), None) or []
    return any(one.needs_choice for one in required_spread(msgspec.convert(said, list[SpreadConstraint]), {}))


def _bind(pod: Object, names: tuple[str, ...]) -> str:
    if not names:
        return ""
    terms = [{"matchFields": [{"key": "metadata.name", "operator": "In", "values": [name]}]} for name in names]
    put(pod, f"spec.{_AFFINITY}.nodeAffinity.{_REQUIRED}", {"nodeSelectorTerms": terms})
    return LED_BY_AFFINITY


def _has_affinity(pod: Object) -> bool:
    """It requires something of its nodes, or an affinity is there in which nothing stands: that has to stay so."""
    affinity = next(found(pod, f"spec.{_AFFINITY}"), None)
    node = affinity.get("nodeAffinity") if isinstance(affinity, dict) else None
    return {} in (affinity, node) or (isinstance(node, dict) and node.get(_REQUIRED) is not None)


def _free(pod: Object) -> None:
    """Take the node affinity off that names nothing but nodes."""
    spec = pod.get("spec")
    affinity = spec.get(_AFFINITY) if isinstance(spec, dict) else None
    node = affinity.get("nodeAffinity") if isinstance(affinity, dict) else None
    if not isinstance(spec, dict) or not isinstance(affinity, dict) or not isinstance(node, dict):
        return
    terms = list(found(node, f"{_REQUIRED}.nodeSelectorTerms.*"))
    if not terms or not all(map(_names_a_node, terms)):
        return
    del node[_REQUIRED]
    if not node:
        del affinity["nodeAffinity"]
    if not affinity:
        del spec[_AFFINITY]


def _names_a_node(term: Any) -> bool:
    return (
        isinstance(term, dict)
        and set(term) == {"matchFields"}
        and set(found(term, "matchFields.*.key")) == {"metadata.name"}
    )


def tolerate(pod: Object, tolerations: Sequence[Toleration]) -> str:
    """Add those that are not there, behind those of its author. Returns what was added, as JSON; "" for nothing."""
    there = list(next(found(pod, _TOLERATIONS), None) or ())
    wanted = [_object(one) for one in dict.fromkeys(tolerations)]
    added = [one for one in wanted if one not in there]
    if not added:
        return ""
    put(pod, _TOLERATIONS, [*there, *added])
    return msgspec.json.encode(added).decode()


def tolerate_no_more(pod: Object, added: str) -> None:
    """Take off what was added, the last of several that are alike: those before it are its author's."""
    if not (ours := json_of(added, list[Object])):
        return
    left = list(next(found(pod, _TOLERATIONS), None) or ())
    for one in ours:
        if one in left:
            del left[len(left) - 1 - left[::-1].index(one)]
    if left:
        put(pod, _TOLERATIONS, left)
    else:
        pod["spec"].pop("tolerations", None)


def _object(one: Toleration) -> Object:
    """As it is written in a pod; what is empty there says nothing."""
    said = {"key": one.key, "operator": one.operator, "value": one.value, "effect": one.effect}
    return {field: value for field, value in said.items() if value}


def missing(pod: Object, labels: Mapping[str, str]) -> dict[str, str]:
    """Those of which its author says nothing."""
    there = next(found(pod, _SELECTOR), None) or {}
    return {key: value for key, value in labels.items() if key not in there}


def select(pod: Object, labels: Mapping[str, str]) -> str:
    """Add them. Returns what was added, as JSON."""
    there = next(found(pod, _SELECTOR), None) or {}
    put(pod, _SELECTOR, {**there, **labels})
    return msgspec.json.encode(labels).decode()


def labels_text(labels: Mapping[str, str]) -> str:
    """As the admission policy reads it. Neither keys nor values of labels have either sign."""
    return ",".join(f"{key}={value}" for key, value in labels.items())


def select_no_more(pod: Object, added: str) -> None:
    """Take off what was added, unless somebody has changed it since."""
    ours = json_of(added, dict[str, str])
    there = next(found(pod, _SELECTOR), None)
    if not isinstance(there, dict) or not ours:
        return
    left = {key: value for key, value in there.items() if ours.get(key) != value}
    if left:
        put(pod, _SELECTOR, left)
    else:
        pod["spec"].pop("nodeSelector")
