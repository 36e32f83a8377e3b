"""What preemption costs, and what it gives: evictions, and how long jobs of each priority wait and take."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from extender.simulation.replay.course import Life
from extender.simulation.report.quantiles import quantile

_PRIORITIES = 5
"""So many are told apart, the highest; the others are told as one."""


@dataclass(frozen=True, slots=True)
class Times:
    """Of the jobs of a priority, or of those of them that are ``gangs`` of several pods; None: of all lower ones. In
    seconds, ``waited`` until they were whole for the first time, ``took`` from submission to the
    end, each as the median, the 95th percentile and the longest; None: never."""

    priority: int | None
    gangs: bool
    jobs: int
    waited: tuple[float | None, ...]
    took: tuple[float | None, ...]


@dataclass(frozen=True, slots=True)
class Preempted:
    """``evictions`` of so many ``jobs``, and at most so many of one of them."""

    evictions: int = 0
    jobs: int = 0
    most: int = 0
    priorities: tuple[Times, ...] = ()

    @property
    def several(self) -> bool:
        """Whether jobs have different priorities."""
        return len({one.priority for one in self.priorities}) > 1


NOBODY = Preempted()


def preempted(lives: Sequence[Life]) -> Preempted:
    """Of a course that has been played."""
    counts = [life.evictions for life in lives if life.evictions]
    priorities = sorted({life.arrival.priority for life in lives}, reverse=True)
    found = []
    for priority in priorities[:_PRIORITIES]:
        found += _times(priority, [one for one in lives if one.arrival.priority == priority])
    found += _times(None, [one for one in lives if one.arrival.priority in priorities[_PRIORITIES:]])
    return Preempted(sum(counts), len(counts), max(counts, default=0), tuple(found))


def _times(priority: int | None, lives: Sequence[Life]) -> list[Times]:
    parts = ((False, lives), (True, [one for one in lives if one.arrival.pods > 1]))
    return [
        Times(priority, gangs, len(some), _told([one.waited_s for one in some]), _took(some))
        for gangs, some in parts
        if some
    ]


def _took(lives: Sequence[Life]) -> tuple[float | None, ...]:
    ends = ((None if one.failed else one.ended_s, one.arrival.submit_s) for one in lives)
    return _told([math.inf if end is None else end - submitted for end, submitted in ends])


def _told(values: Sequence[float]) -> tuple[float | None, ...]:
    return tuple(quantile(values, share) for share in (0.5, 0.95, 1.0))
