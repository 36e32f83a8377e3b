"""Pods as they are written and as watches read them."""

from __future__ import annotations

from dataclasses import replace

from policies.model import Pod, Requirement, Selection

WOKEN = ("muster.dev/woken", "true")


def as_read(pod: Pod) -> Pod:
    """The pod as the extender reads it: without the label that wakes it."""
    if WOKEN not in pod.labels:
        return pod
    return replace(pod, labels=tuple(label for label in pod.labels if label != WOKEN))


def pinned(selection: Selection, pin: tuple[str, ...]) -> Selection:
    """A pin is a list of terms that stands in place of the pod's own, if it has any."""
    if not pin:
        return selection
    terms = tuple((Requirement("metadata.name", "In", (node,), is_field=True),) for node in pin)
    return replace(selection, affinity=terms)
