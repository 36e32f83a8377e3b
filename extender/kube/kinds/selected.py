"""The node labels that the pods of a template ask for besides, for their flavor: put on it, and taken off again."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from extender.kube.kinds.kind import Object, found, put
from extender.kube.reading.objects import UNDECODABLE

SELECTED = "nodeSelector"
"""What ``select`` has added is kept under this name."""
_PATH = "spec.nodeSelector"


def missing(pod: Object, labels: Mapping[str, str]) -> dict[str, str]:
    """Those of which its author says nothing."""
    there = next(found(pod, _PATH), None) or {}
    return {key: value for key, value in labels.items() if key not in there}


def select(pod: Object, labels: Mapping[str, str]) -> str:
    """Add them. Returns what was added, as JSON."""
    there = next(found(pod, _PATH), None) or {}
    put(pod, _PATH, {**there, **labels})
    return msgspec.json.encode(labels).decode()


def labels_text(labels: Mapping[str, str]) -> str:
    """As the admission policy reads it. Neither keys nor values of labels have either sign."""
    return ",".join(f"{key}={value}" for key, value in labels.items())


def select_no_more(pod: Object, added: str) -> None:
    """Take off what was added, unless somebody has changed it since."""
    try:
        ours = msgspec.json.decode(added, type=dict[str, str])
    except UNDECODABLE:
        return
    there = next(found(pod, _PATH), None)
    if not isinstance(there, dict) or not ours:
        return
    left = {key: value for key, value in there.items() if ours.get(key) != value}
    if left:
        put(pod, _PATH, left)
    else:
        pod["spec"].pop("nodeSelector")
