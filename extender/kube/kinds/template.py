"""Write Muster's part on a pod template, and remove exactly that part again.

It includes the tolerations and node labels that the pods need for their flavor.
"""

from __future__ import annotations

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
from extender.kube.reading.plain import json_of, json_text
from policies.model import Toleration

TOLERATED = "tolerations"
"""The key under which the tolerations that ``tolerate`` added are kept."""
_TOLERATIONS = "spec.tolerations"
SELECTED = "nodeSelector"
"""The key under which the labels that ``select`` added are kept."""
_SELECTOR = "spec.nodeSelector"

MOST_TERMS = 8
"""Most nodes to name in node affinity if the pods have indexes, too. Each term costs kube-scheduler little."""
MOST_TERMS_WITHOUT_INDEX = 64
_OURS = (POD_GROUP, MIN_MEMBER, WORKLOAD, NODES, NODE_LABELS)
_REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
_AFFINITY = "affinity"
Originals = Mapping[str, str]
"""The author's own content where Muster writes: values of annotations, and places that were empty."""


def put_on(
    template: Template,
    marks: Mapping[str, str],
    nodes: Sequence[Sequence[str]],
    tolerations: Sequence[Toleration],
    labels: Mapping[str, str],
) -> dict[str, str]:
    """Write ``marks``, and steer the pods to ``nodes``. Returns what ``take_off`` needs to restore the template.

    ``nodes``: for each podset the node of each slot; "" for a slot without one.
    ``tolerations``, ``labels``: what the pods tolerate and select besides, for their flavor.
    """
    pod = template.pod
    originals = {name: "" for name, path in _PLACES.items() if {} in found(pod, path)}
    own_labels = next(found(pod, "metadata.labels"), None) or {}
    annotations = dict(next(found(pod, "metadata.annotations"), None) or {})
    labels_missing = missing(pod, labels)
    by_policy = {NODE_LABELS: labels_text(labels_missing)} if labels_missing and not template.affinity else {}
    for key, value in {**marks, **template.marks, **by_policy}.items():
        if annotations.get(key):
            originals[key] = annotations[key]
        if key not in own_labels:
            annotations[key] = value
    if _has_affinity(pod):
        originals[_AFFINITY] = ""
    put(pod, "metadata.annotations", annotations)
    way = _lead(template, nodes, terms=template.affinity and _AFFINITY not in originals, least=int(marks[MIN_MEMBER]))
    if way and template.affinity and LED not in own_labels:
        put(pod, "metadata.labels", {**own_labels, LED: way})
    if added := tolerate(pod, tolerations):
        originals[TOLERATED] = added
    if labels_missing and template.affinity:
        originals[SELECTED] = select(pod, labels_missing)
    return originals


def take_off(template: Template, originals: Originals, *, emptied: bool = False) -> None:
    """Restore the template as its author wrote it. ``emptied``: keep Muster's annotations, with empty values."""
    pod = template.pod
    meta = pod.get("metadata")
    annotations = meta.get("annotations") if isinstance(meta, dict) else None
    if not isinstance(meta, dict) or not isinstance(annotations, dict) or WORKLOAD not in annotations:
        return
    written = bool(annotations[WORKLOAD])
    for key in [key for key in (*_OURS, *template.marks) if key in annotations and (written or not annotations[key])]:
        if written and key in originals:
            annotations[key] = originals[key]
        elif emptied:
            annotations[key] = ""
        else:
            del annotations[key]
    labels = meta.get("labels")
    if written and isinstance(labels, dict) and labels.pop(LED, None) and not labels and "labels" not in originals:
        del meta["labels"]
    if written and _AFFINITY not in originals:
        _free(pod)
    if written:
        tolerate_no_more(pod, originals.get(TOLERATED, "[]"))
        select_no_more(pod, originals.get(SELECTED, "{}"))
    if not annotations and "annotations" not in originals:
        del meta["annotations"]
    if not meta and "metadata" not in originals:
        del pod["metadata"]


def originals_of(meta: Meta) -> dict[str, Originals]:
    """The content for ``take_off``, by template; empty if ``start`` cannot have written it."""
    return dict(json_of((meta.annotations or {}).get(OWN), dict[str, dict[str, str]]) or {})


def originals_text(originals: dict[str, dict[str, str]]) -> str:
    return json_text(originals)


def bare(template: Template, originals: Originals) -> Object:
    """A copy of the template as its author wrote it, plus what its controller adds. Parts that Muster does not write
    are shared with the original."""
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
    take_off(replace(template, pod=pod), originals)
    if template.tolerated:
        pod["spec"]["tolerations"] = [*template.tolerated, *(pod["spec"].get("tolerations") or ())]
    if template.meta is not None:
        meta = pod.get("metadata") or {}
        labels = {**(meta.get("labels") or {}), **(template.meta.labels or {})}
        annotations = {**(meta.get("annotations") or {}), **(template.meta.annotations or {})}
        pod["metadata"] = {"labels": labels, "annotations": annotations}
    return pod


def acceptable(spec: Object) -> Object:
    """A copy of a template's spec with what the API server demands of pods.

    Containers that a controller adds may lack a name and an image.
    """
    made = dict(spec)
    for field in ("initContainers", "containers"):
        if containers := made.pop(field, None):
            made[field] = [
                {"name": f"added-{at}", "image": "added", **container} for at, container in enumerate(containers)
            ]
    return made


def is_marked(template: Template) -> bool:
    """Whether Muster has written on the template."""
    annotations = next(found(template.pod, "metadata.annotations"), None) or {}
    return bool(annotations.get(WORKLOAD) or annotations.get(NODES))


_PLACES = {"metadata": "metadata", "annotations": "metadata.annotations", "labels": "metadata.labels"}


def _lead(template: Template, nodes: Sequence[Sequence[str]], *, terms: bool, least: int) -> str:
    """Write the planned nodes on the template. Returns the value of the label ``LED``; "" if no nodes are written.

    ``terms``: node affinity may carry them.
    ``least``: how many pods of all templates start the job. The policy untracked.yaml treats pods with an index of at
    least that as additions beyond the plan.
    """
    if not template.led or _needs_choice(template.pod):
        return ""
    if not (names := tuple(dict.fromkeys(chain.from_iterable(nodes)))):
        return ""
    planned = sum(map(len, nodes))
    mistaken = template.indexed and (least < planned or (least > planned and template.grows))
    if terms and len(names) <= MOST_TERMS and "" not in names and not mistaken:
        return _bind(template.pod, names)
    if template.indexed or planned == 1:
        # Each index picks its node from this list. Semicolons separate the Jobs of a JobSet.
        text = ";".join("," * template.first_index + ",".join(row) for row in nodes)
        template.pod["metadata"]["annotations"][NODES] = text
        return LED_BY_INDEX
    return _bind(template.pod, tuple(filter(None, names))) if terms and len(names) <= MOST_TERMS_WITHOUT_INDEX else ""


def _needs_choice(pod: Object) -> bool:
    """Whether topology spread needs a choice of nodes: kube-scheduler counts only the nodes that the affinity
    allows."""
    constraints = next(found(pod, "spec.topologySpreadConstraints"), None) or []
    return any(
        spread.needs_choice for spread in required_spread(msgspec.convert(constraints, list[SpreadConstraint]), {})
    )


def _bind(pod: Object, names: tuple[str, ...]) -> str:
    if not names:
        return ""
    terms = [{"matchFields": [{"key": "metadata.name", "operator": "In", "values": [name]}]} for name in names]
    put(pod, f"spec.{_AFFINITY}.nodeAffinity.{_REQUIRED}", {"nodeSelectorTerms": terms})
    return LED_BY_AFFINITY


def _has_affinity(pod: Object) -> bool:
    """Whether the template requires something of nodes, or has an empty affinity object, which has to stay."""
    affinity = next(found(pod, f"spec.{_AFFINITY}"), None)
    node = affinity.get("nodeAffinity") if isinstance(affinity, dict) else None
    return {} in (affinity, node) or (isinstance(node, dict) and node.get(_REQUIRED) is not None)


def _free(pod: Object) -> None:
    """Remove the required node affinity if it only names nodes."""
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
    """Add the missing tolerations behind the author's. Returns the added ones as JSON; "" for none."""
    there = list(next(found(pod, _TOLERATIONS), None) or ())
    wanted = [_object(toleration) for toleration in dict.fromkeys(tolerations)]
    added = [toleration for toleration in wanted if toleration not in there]
    if not added:
        return ""
    put(pod, _TOLERATIONS, [*there, *added])
    return msgspec.json.encode(added).decode()


def tolerate_no_more(pod: Object, added: str) -> None:
    """Remove the added tolerations. Of equal ones the last goes: those before it are the author's."""
    if not (ours := json_of(added, list[Object])):
        return
    left = list(next(found(pod, _TOLERATIONS), None) or ())
    for toleration in ours:
        if toleration in left:
            del left[len(left) - 1 - left[::-1].index(toleration)]
    if left:
        put(pod, _TOLERATIONS, left)
    else:
        pod["spec"].pop("tolerations", None)


def _object(toleration: Toleration) -> Object:
    """The toleration as pods write it. Empty fields are left out."""
    fields = {
        "key": toleration.key,
        "operator": toleration.operator,
        "value": toleration.value,
        "effect": toleration.effect,
    }
    return {field: value for field, value in fields.items() if value}


def missing(pod: Object, labels: Mapping[str, str]) -> dict[str, str]:
    """The labels that the author's selector does not mention."""
    there = next(found(pod, _SELECTOR), None) or {}
    return {key: value for key, value in labels.items() if key not in there}


def select(pod: Object, labels: Mapping[str, str]) -> str:
    """Add the labels to the node selector. Returns them as JSON."""
    there = next(found(pod, _SELECTOR), None) or {}
    put(pod, _SELECTOR, {**there, **labels})
    return msgspec.json.encode(labels).decode()


def labels_text(labels: Mapping[str, str]) -> str:
    """The labels as the admission policy reads them. Neither "," nor "=" can occur in a label."""
    return ",".join(f"{key}={value}" for key, value in labels.items())


def select_no_more(pod: Object, added: str) -> None:
    """Remove the added labels, unless another client has changed their values since."""
    ours = json_of(added, dict[str, str])
    there = next(found(pod, _SELECTOR), None)
    if not isinstance(there, dict) or not ours:
        return
    left = {key: value for key, value in there.items() if ours.get(key) != value}
    if left:
        put(pod, _SELECTOR, left)
    else:
        pod["spec"].pop("nodeSelector")
