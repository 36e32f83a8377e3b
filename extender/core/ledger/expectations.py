"""Expected starts of waiting workloads: the last one found, the one written on objects, and how accurate they were."""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from extender.core.causes import Lacks, QueueOrder
from extender.core.ledger.pending import Pending
from extender.core.ledger.quotas import Quotas
from extender.core.workload.workload import Workload
from policies.model import GroupKey

Foreseen = Lacks | QueueOrder
"""The causes of waits whose end is foreseen. A workload for which others are evicted starts once these have gone."""
UNSURE = 2.0
"""The factor by which a wait may be shorter or longer, as long as too few starts were compared."""
_REMEMBERED, _FEW = 100, 10
"""Starts of a queue that are compared with their expectations: at most, and before the comparison counts."""
_SURE = 1.05
"""The smallest factor: the watch shows ends some seconds after they come."""
_MOVES_S, _MOVES_BY = 60.0, 0.1
"""The change from which a new start is written on objects: more than these seconds and this part of the wait."""


@dataclass(frozen=True, slots=True)
class Expectation:
    """The expected start of a workload. Instants are by the core's clock.

    ``as_of``: when it was found.
    ``after``: the workload after whose end the start comes; None where that is unknown, or the end of a single pod.
    ``rests_on``: the source of that workload's duration, as a text.
    ``spread``: the factor by which the wait from ``as_of`` on may be shorter or longer.
    """

    start: float
    as_of: float
    after: GroupKey | None = None
    rests_on: str = ""
    spread: float = UNSURE

    @property
    def earliest(self) -> float:
        """The beginning of the span in which the start is likely."""
        return self.as_of + (self.start - self.as_of) / self.spread

    @property
    def latest(self) -> float:
        """The end of the span in which the start is likely."""
        return self.as_of + (self.start - self.as_of) * self.spread


class Expectations:
    """Expected starts by workload.

    ``of``: the last ones found.
    ``stated``: the ones on objects in the cluster, which change seldom.
    ``unknown``: workloads that start after ends which are not known.
    ``errors``: by ClusterQueue, for its last starts: the real wait divided by the first expected one.
    """

    def __init__(self, workloads: Mapping[GroupKey, Workload], quotas: Quotas, pending: Pending) -> None:
        self._workloads = workloads
        self._quotas = quotas
        self._pending = pending
        self._first: dict[GroupKey, Expectation] = {}
        """The first expectation of each workload, with which its start is compared."""
        self.of: dict[GroupKey, Expectation] = {}
        self.stated: dict[GroupKey, Expectation] = {}
        self.unknown: dict[GroupKey, None] = {}
        self.errors: dict[str, deque[float]] = {}
        self.on_change: tuple[Callable[[GroupKey], None], ...] = ()
        """Called with each workload that has another expected start than before, by more than its ``as_of``."""

    def renew(self, expectations: dict[GroupKey, Expectation], unknown: dict[GroupKey, None]) -> float:
        """Replace all earlier expectations by these. Returns when the same ones would change what is stated."""
        before = self.of
        self.of = {key: expected for key, expected in expectations.items() if self._may_have_one(key)}
        self.unknown = {key: None for key in unknown if self._may_have_one(key)}
        self.stated = {key: _stated(self.stated.get(key), expected) for key, expected in self.of.items()}
        for key, expected in self.of.items():
            self._first.setdefault(key, expected)
        for key in before | self.of if self.on_change else ():
            if _start(before.get(key)) != _start(self.of.get(key)):
                for follow in self.on_change:
                    follow(key)
        return min((_moves_at(self.stated[key], expected) for key, expected in self.of.items()), default=math.inf)

    def forget(self, key: GroupKey) -> None:
        """Forget when the workload is expected to start, until the next play. It still counts for the error."""
        self.of.pop(key, None)
        self.stated.pop(key, None)
        self.unknown.pop(key, None)

    def follow(self, now: float) -> None:
        """Forget the expectations of workloads that wait no more, and learn from the ones that have started."""
        for key in self._pending.take_left():
            if key in self._pending.keys:
                continue
            self.forget(key)
            expected, workload = self._first.pop(key, None), self._workloads.get(key)
            if expected is None or workload is None or not workload.has_promised_quorum:
                continue
            if (wait := expected.start - expected.as_of) > 0:
                queue = self._quotas.members.queue_of(key) or ""
                self.errors.setdefault(queue, deque(maxlen=_REMEMBERED)).append((now - expected.as_of) / wait)

    def _may_have_one(self, key: GroupKey) -> bool:
        return key in self._pending.keys and isinstance(self._workloads[key].reason_state.cause, Foreseen)

    def spread(self, queue: str) -> float:
        """The factor within which nine of ten starts of the ClusterQueue came."""
        errors = self.errors.get(queue, ())
        if len(errors) < _FEW:
            return UNSURE
        sizes = sorted(abs(math.log(max(error, 1e-3))) for error in errors)
        return max(_SURE, math.exp(sizes[int(0.9 * (len(sizes) - 1))]))


def _start(expected: Expectation | None) -> tuple[int, GroupKey | None, str] | None:
    """Return the start as people read it, to the second, without the time at which it was found."""
    return None if expected is None else (round(expected.start), expected.after, expected.rests_on)


def _stated(before: Expectation | None, now: Expectation) -> Expectation:
    """Return the expectation for objects, where ``before`` was written on them until now."""
    return now if before is None or _moves_at(before, now) <= now.as_of else before


def _moves_at(before: Expectation, now: Expectation) -> float:
    """The first instant at which objects name this start instead of the one ``before``; infinite if none does.

    The wait gets shorter with the time, and the start has moved by a larger part of it.
    """
    moved = abs(now.start - before.start)
    return max(before.as_of + _MOVES_S, now.start - moved / _MOVES_BY) if moved > _MOVES_S else math.inf
