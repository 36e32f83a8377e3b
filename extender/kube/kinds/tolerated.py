"""What the pods of a template tolerate and select besides, for the flavor that they get: put on, taken off again."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import msgspec

from extender.kube.kinds.kind import Object, found, put
from extender.kube.reading.annotated import json_of
from policies.model import Toleration

TOLERATED = "tolerations"
"""What ``tolerate`` has added is kept under this name."""
_TOLERATIONS = "spec.tolerations"
SELECTED = "nodeSelector"
"""What ``select`` has added is kept under this name."""
_SELECTOR = "spec.nodeSelector"


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
