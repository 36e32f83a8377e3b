"""What the pods of a template tolerate besides, for the flavor that they get: put on it, and taken off again."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from extender.kube.kinds.kind import Object, found, put
from extender.kube.reading.objects import UNDECODABLE
from policies.model import Toleration

TOLERATED = "tolerations"
"""What ``tolerate`` has added is kept under this name."""
_PATH = "spec.tolerations"


def tolerate(pod: Object, tolerations: Sequence[Toleration]) -> str:
    """Add those that are not there, behind those of its author. Returns what was added, as JSON; "" for nothing."""
    there = list(next(found(pod, _PATH), None) or ())
    wanted = [_object(one) for one in dict.fromkeys(tolerations)]
    added = [one for one in wanted if one not in there]
    if not added:
        return ""
    put(pod, _PATH, [*there, *added])
    return msgspec.json.encode(added).decode()


def tolerate_no_more(pod: Object, added: str) -> None:
    """Take off what was added, the last of several that are alike: those before it are its author's."""
    try:
        ours = msgspec.json.decode(added, type=list[Object])
    except UNDECODABLE:
        return
    if not ours:
        return
    left = list(next(found(pod, _PATH), None) or ())
    for one in ours:
        if one in left:
            del left[len(left) - 1 - left[::-1].index(one)]
    if left:
        put(pod, _PATH, left)
    else:
        pod["spec"].pop("tolerations", None)


def _object(one: Toleration) -> Object:
    """As it is written in a pod; what is empty there says nothing."""
    said = {"key": one.key, "operator": one.operator, "value": one.value, "effect": one.effect}
    return {field: value for field, value in said.items() if value}
