"""Check what a policy returns before it is used. A failing policy costs an attempt, and never the process."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from functools import lru_cache
from itertools import chain, compress
from math import isfinite
from operator import not_
from typing import Any

import numpy as np

from policies.api import (
    NOBODY,
    Choice,
    Counts,
    Domain,
    PlacementRequest,
    Pod,
    PolicyError,
    QueuePolicy,
    Rows,
    ScorePolicy,
    Snapshot,
    SortKey,
    TopologyPolicy,
    WaitingGang,
)

_RAISED = (Exception, SystemExit, GeneratorExit)
"""Exceptions that a policy must not end the process with. Ctrl-C is meant for the process and passes."""
_OBJECT = re.compile(r"<(?:[\w<>]+\.)*(\w+) object at 0x[0-9a-f]+>")
_ADDRESS = re.compile(r" at 0x[0-9a-f]+")
"""How Python shows an object without a text of its own; readers do not need the address."""
_PAUSES = 1000
"""Most pauses in a row. A policy that pauses more often without a choice has failed."""


class GuardedQueue:
    """The ``order`` of a policy, or a PolicyError.

    Each part of a key is preceded by whether it is a string, since numbers and strings cannot be compared.
    """

    def __init__(self, policy: QueuePolicy) -> None:
        self.guarded = policy

    def order(self, gang: WaitingGang) -> SortKey:
        try:
            key = self.guarded.order(gang)
        except _RAISED as error:
            raise PolicyError(self, _raised(error)) from error
        texts = _texts(tuple(map(type, key))) if isinstance(key, tuple) else None
        if texts is None or not _are_finite(compress(key, map(not_, texts))):
            detail = f"order() is to return a tuple of numbers and strings, not {_excerpt(key)}"
            raise PolicyError(self, detail)
        return tuple(chain.from_iterable(zip(texts, key, strict=True)))


class GuardedTopology:
    """The ``domains`` of a policy, or a PolicyError."""

    def __init__(self, policy: TopologyPolicy) -> None:
        self.guarded = policy

    def domains(self, request: PlacementRequest, snapshot: Snapshot) -> Iterator[Choice]:
        pauses, most = 0, len(snapshot.names)
        try:
            choices = iter(self.guarded.domains(request, snapshot))
        except _RAISED as error:
            raise PolicyError(self, _raised(error)) from error
        while True:
            try:
                choice = next(choices)
            except StopIteration:
                return
            except _RAISED as error:
                raise PolicyError(self, _raised(error)) from error
            if not isinstance(choice, tuple) or not all(_is_domain(domain, most) for domain in choice):
                detail = f"domains() is to yield tuples of Domain with rows of the snapshot, not {_excerpt(choice)}"
                raise PolicyError(self, detail)
            pauses = 0 if choice else pauses + 1
            if pauses > _PAUSES:
                raise PolicyError(self, f"domains() has paused {_PAUSES:,} times without a choice")
            yield choice


class GuardedScore:
    """The ``score`` of a policy, or a PolicyError."""

    def __init__(self, policy: ScorePolicy) -> None:
        self.guarded = policy

    def score(self, pod: Pod, rows: Rows, snapshot: Snapshot, beside: Rows = NOBODY) -> Counts:
        try:
            scores = np.asarray(self.guarded.score(pod, rows, snapshot, beside))
        except _RAISED as error:
            raise PolicyError(self, _raised(error)) from error
        kind = scores.dtype.kind
        if (
            scores.shape not in ((0,), (len(rows),))
            or kind not in "iuf"
            or (kind == "f" and not np.isfinite(scores).all())
        ):
            detail = f"score() is to return a number for each of {len(rows)} nodes, or none, not {_excerpt(scores)}"
            raise PolicyError(self, detail)
        return scores.astype(np.int64, copy=False)


@lru_cache
def _texts(kinds: tuple[type, ...]) -> tuple[bool, ...] | None:
    """Whether each part of a key is a string; None if one is neither a string nor a number."""
    if not all(issubclass(kind, (str, int, float)) for kind in kinds):
        return None
    return tuple(issubclass(kind, str) for kind in kinds)


def _are_finite(numbers: Iterable[Any]) -> bool:
    try:
        return all(map(isfinite, numbers))
    except OverflowError:  # an integer that no float can hold
        return False


def _is_domain(domain: object, most: int) -> bool:
    if not isinstance(domain, Domain) or not isinstance(domain.name, str):
        return False
    if not (domain.most is None or isinstance(domain.most, int | np.integer)):
        return False
    if not isinstance(domain.not_for, int | np.integer):
        return False
    rows: Any = domain.rows
    if not isinstance(rows, np.ndarray) or rows.ndim != 1 or rows.dtype.kind not in "iu":
        return False
    return not len(rows) or (int(rows.min()) >= 0 and int(rows.max()) < most)


def _raised(error: BaseException) -> str:
    return f"it raised {_excerpt(error)}"


def _excerpt(value: object) -> str:
    """The value in at most 200 printable characters, whatever it is."""
    try:
        text = repr(value)
    except Exception:
        text = f"something of type {type(value).__name__}"
    text = _ADDRESS.sub("", _OBJECT.sub(r"an object of type \1", text))
    return "".join(char if char.isprintable() else "?" for char in text[:200])
