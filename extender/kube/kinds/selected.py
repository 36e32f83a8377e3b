"""The node labels that the pods of a template ask for besides, for their flavor: put on it, and taken off again."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from extender.kube.kinds.kind import Object, found, put
from extender.kube.objects import UNDECODABLE

SELECTED = "nodeSelector"
"""What ``select`` has added is kept under this name."""
_PATH = "spec.nodeSelector"


def select(pod: Object, labels: Mapping[str, str]) -> str:
    """Add those of which its author says nothing. Returns what was added, as JSON; "" for nothing."""
    there = next(found(pod, _PATH), None) or {}
    added = {key: value for key, value in labels.items() if key not in there}
    if not added:
        return ""
    put(pod, _PATH, {**there, **added})
    return msgspec.json.encode(added).decode()


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
