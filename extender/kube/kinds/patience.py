"""Kinds whose controller makes pods anew that do not run in time: while a job that was let go awaits its nodes, it is
told to give them so much longer."""

from __future__ import annotations

import re
from collections.abc import Mapping
from math import ceil

from extender.kube.kinds.kind import Kind, Object, found, put

_METADATA = "metadata.annotations"
_UNITS = {"h": 3600.0, "m": 60.0, "s": 1.0, "ms": 1e-3, "us": 1e-6, "µs": 1e-6, "ns": 1e-9}
_PART = re.compile(r"([0-9]{1,9}(?:\.[0-9]{0,9})?|\.[0-9]{1,9})(h|ms|us|µs|ns|m|s)")
_LONGEST = 100
"""Characters of a duration."""
_OWN, _OURS = "own", "written"


def wait_longer(kind: Kind, obj: Object, more_s: float) -> dict[str, str]:
    """By so much than its author or the kind says. Returns what ``wait_as_before`` needs to know."""
    if kind.patience is None:
        return {}
    annotations = dict(next(found(obj, _METADATA), None) or {})
    key, default_s = kind.patience
    own = annotations.get(key)
    ours = f"{ceil(_seconds(own, default_s) + more_s)}s"
    put(obj, _METADATA, annotations | {key: ours})
    return {_OURS: ours} if own is None else {_OURS: ours, _OWN: own}


def wait_as_before(kind: Kind, obj: Object, kept: Mapping[str, str]) -> None:
    """Unless somebody has changed it since."""
    annotations = next(found(obj, _METADATA), None)
    if kind.patience is None or not isinstance(annotations, dict):
        return
    key = kind.patience[0]
    if key in annotations and annotations[key] == kept.get(_OURS):
        del annotations[key]
        if _OWN in kept:
            annotations[key] = kept[_OWN]


def _seconds(said: str | None, default_s: float) -> float:
    """Of a duration as Go reads it; of what is none, the default."""
    parts = _PART.findall(said) if said is not None and len(said) <= _LONGEST else []
    if not parts or "".join(map("".join, parts)) != said:
        return default_s
    return sum(float(number) * _UNITS[unit] for number, unit in parts)
