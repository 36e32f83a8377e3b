"""Start, suspend and clean a decoded job in place, and make a JSON merge patch of the changes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import ceil
from typing import Any

import msgspec

from extender.core.effects import Reserve, StartJob
from extender.kube.dialects import MIN_MEMBER, POD_GROUP
from extender.kube.keys import FLAVORS, IN_VAIN, OWN, PLAN, WORKLOAD
from extender.kube.kinds.kind import Kind, Object, Template, UnreadableJobError, found, put
from extender.kube.kinds.plan import flavors_text, in_vain_text, node_wait_text, plan_text
from extender.kube.kinds.read import templates_of
from extender.kube.kinds.template import originals_of, originals_text, put_on, take_off
from extender.kube.reading.eviction import EVICTED_AT, evictions_text
from extender.kube.reading.objects import Meta
from extender.kube.reading.quantity import duration_s
from extender.kube.reading.reserved import RESERVATIONS, annotation_of
from policies.model import InVain, PlannedNodes, Toleration

_ITSELF = "metadata.annotations"
"""The key of what is kept for the job itself, beside the keys of its templates. No template has that name."""
MOST_BYTES = 256 << 10
"""The API's limit for all annotations of an object together."""
TOO_LARGE = f"its plan does not fit into {MOST_BYTES >> 10} KiB of annotations"
_OWN, _OURS = "own", "written"


def start(kind: Kind, obj: Object, effect: StartJob) -> None:
    """Unsuspend the job, and write its plan and flavors on it and on its templates.

    A job that is started without a plan gets the deadline for its nodes, and the labels of those nodes, instead of a
    plan. Raises UnreadableJobError if the annotations become too large.
    """
    clean(kind, obj)
    forget(obj, IN_VAIN)
    job = effect.job
    marks = {POD_GROUP: job.key.name, MIN_MEMBER: str(effect.minimum), WORKLOAD: job.uid}
    templates = templates_of(kind, obj)
    originals = {
        template.name: put_on(
            template, marks, _nodes(template, effect.plan), _tolerations(template, effect), _labels(template, effect)
        )
        for template in templates
    }
    _carry(kind, obj, templates)
    if effect.node_wait is not None:
        originals[_ITSELF] = wait_longer(kind, obj, effect.awaits_s)
    annotations = _annotations(obj)
    annotations[PLAN] = plan_text(effect.plan) if effect.node_wait is None else node_wait_text(effect.node_wait)
    if effect.flavors:
        annotations[FLAVORS] = flavors_text(effect.flavors)
    if any(originals.values()):
        annotations[OWN] = originals_text({name: original for name, original in originals.items() if original})
    put(obj, kind.suspend, value=False)
    if (
        max(map(_bytes, (annotations, *(template.pod["metadata"]["annotations"] for template in templates))))
        > MOST_BYTES
    ):
        raise UnreadableJobError(TOO_LARGE)


def lead(obj: Object, effect: StartJob) -> None:
    """Write the plan of a job that was started without one on the job alone: its pods exist already.

    Raises UnreadableJobError if the annotations become too large.
    """
    annotations = _annotations(obj)
    annotations[PLAN] = plan_text(effect.plan)
    if _bytes(annotations) > MOST_BYTES:
        raise UnreadableJobError(TOO_LARGE)


def suspend(kind: Kind, obj: Object, evicted: Sequence[float] = (), in_vain: InVain | None = None) -> None:
    """Suspend the job and remove its plan.

    Templates are cleaned only once the job has stopped. Its flavors stay until then, since its pods use their quota
    while they exist. A kind that is shown in another object keeps neither of the following.
    ``evicted``: instants of the job's evictions within the last hour, in seconds since the epoch; written on it.
    ``in_vain``: how long the job backs off after starts that got no nodes; stays on it until it is started.
    """
    forget(obj, PLAN)
    if evicted and kind.shown_in is None:
        _annotations(obj)[EVICTED_AT] = evictions_text(evicted)
    if in_vain is not None and kind.shown_in is None:
        _annotations(obj)[IN_VAIN] = in_vain_text(in_vain)
    put(obj, kind.suspend, value=True)


def clean(kind: Kind, obj: Object, *, for_good: bool = False) -> None:
    """Restore the job as its author wrote it, except templates that the API server no longer lets anybody write.

    A running job is left alone.
    ``for_good``: copies of the templates are cleaned, too, so annotations are removed instead of emptied.
    """
    suspended, finished = kind.is_suspended(obj), kind.has_finished(obj)
    if not suspended and not finished:
        return
    if suspended or not kind.frozen:
        originals = originals_of(msgspec.convert(obj.get("metadata"), Meta))
        templates = templates_of(kind, obj)
        for template in templates:
            take_off(template, originals.get(template.name, {}), emptied=template.emptied and not for_good)
        _carry(kind, obj, templates)
        wait_as_before(kind, obj, originals.get(_ITSELF, {}))
    forget(obj, PLAN, OWN, FLAVORS, *RESERVATIONS)


def reserve(obj: Object, effect: Reserve) -> None:
    """Write the reservation on the job, or remove it. Raises UnreadableJobError if the annotations become too large."""
    key, text = annotation_of(effect)
    if text is None:
        return forget(obj, key)
    annotations = _annotations(obj)
    annotations[key] = text
    if _bytes(annotations) > MOST_BYTES:
        raise UnreadableJobError(TOO_LARGE)
    return None


def merge_patch(before: Mapping[str, Any], after: Mapping[str, Any]) -> Object:
    """The RFC 7396 merge patch that turns ``before`` into ``after``. Lists are replaced as a whole."""
    patch: Object = dict.fromkeys(key for key in before if key not in after)
    for key, value in after.items():
        was = before.get(key)
        if isinstance(was, dict) and isinstance(value, dict):
            if changed := merge_patch(was, value):
                patch[key] = changed
        elif key not in before or was != value:
            patch[key] = value
    return patch


def _tolerations(template: Template, effect: StartJob) -> list[Toleration]:
    """Tolerations of all podsets that are made of the template."""
    return [toleration for name in template.series for toleration in effect.tolerations.get(name, ())]


def _labels(template: Template, effect: StartJob) -> dict[str, str]:
    """Labels that the flavors of the template's podsets ask of nodes."""
    return dict(label for name in template.series for label in effect.labels.get(name, ()))


def _carry(kind: Kind, obj: Object, templates: list[Template]) -> None:
    if kind.carry is not None:
        kind.carry(obj, {template.name: template for template in templates})


def _nodes(template: Template, plan: PlannedNodes) -> list[list[str]]:
    """The node of every slot in order, for each podset of the template; "" where the plan has none.

    Empty without a plan.
    """
    planned = [plan.get(name, ()) for name in template.series] if plan else []
    return [[nodes[at] if at < len(nodes) else "" for at in range(template.count)] for nodes in planned]


def _annotations(obj: Object) -> dict[str, str]:
    annotations = next(found(obj, "metadata.annotations"), None)
    if not isinstance(annotations, dict):
        annotations = obj["metadata"]["annotations"] = {}
    return annotations


def forget(obj: Object, *keys: str) -> None:
    """Remove these annotations from the object."""
    annotations = next(found(obj, "metadata.annotations"), None) or {}
    for key in keys:
        annotations.pop(key, None)
    if annotations == {} and "annotations" in obj["metadata"]:
        del obj["metadata"]["annotations"]


def _bytes(annotations: Mapping[str, str]) -> int:
    return sum(len(key.encode()) + len(value.encode()) for key, value in annotations.items())


def wait_longer(kind: Kind, obj: Object, more_s: float) -> dict[str, str]:
    """Give the pods of a job without a plan more time before its controller deletes and remakes them.

    ``more_s``: seconds to add to what the author or the kind allows, so that awaited nodes can arrive. Returns what
    ``wait_as_before`` needs.
    """
    if kind.patience is None:
        return {}
    annotations = dict(next(found(obj, _ITSELF), None) or {})
    key, default_s = kind.patience
    own = annotations.get(key)
    own_s = None if own is None else duration_s(own)
    ours = f"{ceil((default_s if own_s is None else own_s) + more_s)}s"
    put(obj, _ITSELF, annotations | {key: ours})
    return {_OURS: ours} if own is None else {_OURS: ours, _OWN: own}


def wait_as_before(kind: Kind, obj: Object, originals: Mapping[str, str]) -> None:
    """Restore what ``wait_longer`` changed, unless another client has changed it since."""
    annotations = next(found(obj, _ITSELF), None)
    if kind.patience is None or not isinstance(annotations, dict):
        return
    key = kind.patience[0]
    if key in annotations and annotations[key] == originals.get(_OURS):
        del annotations[key]
        if _OWN in originals:
            annotations[key] = originals[_OWN]
