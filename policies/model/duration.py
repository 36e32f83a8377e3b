"""How long a workload runs, as far as anybody can tell before it ends, and how that is known."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum
from functools import lru_cache
from typing import NamedTuple

from policies.words import lasting, many


class RunTerms(NamedTuple):
    """``expected_s``: how long its author expects it to run. ``deadline_s``: after so long its controller, or for a pod
    the kubelet, ends it. None where nothing is said."""

    expected_s: float | None = None
    deadline_s: float | None = None

    def over(self, other: RunTerms) -> RunTerms:
        """Return these, and what the other ones say where these say nothing."""
        expected_s = other.expected_s if self.expected_s is None else self.expected_s
        return RunTerms(expected_s, other.deadline_s if self.deadline_s is None else self.deadline_s)


NO_RUN_TERMS = RunTerms()


def longest(some: Iterable[RunTerms]) -> RunTerms:
    """Return the terms of a workload that ends with the last of these parts. It has a deadline if all of them have."""
    parts = list(some)
    expected = [one.expected_s for one in parts if one.expected_s is not None]
    deadlines = [one.deadline_s for one in parts if one.deadline_s is not None]
    return RunTerms(max(expected, default=None), max(deadlines, default=None) if len(deadlines) == len(parts) else None)


class Basis(StrEnum):
    """What an expected duration rests on."""

    SAID = "said"
    """What the author expects."""
    DEADLINE = "deadline"
    """After so long the workload is ended (``activeDeadlineSeconds``)."""
    QUEUE_LIMIT = "queue limit"
    """The longest run that its queue allows."""
    HISTORY = "history"
    """What workloads of like size in its LocalQueue took."""


@dataclass(frozen=True, slots=True)
class Duration:
    """An expected duration. Of ``HISTORY``: ``percent`` of ``runs`` workloads of up to ``gpus`` GPUs took no longer."""

    seconds: float
    basis: Basis
    percent: int = 0
    runs: int = 0
    gpus: int = 0

    def __str__(self) -> str:
        """For people, as in "it rests on its author's estimate of 6 h"."""
        span = lasting(self.seconds)
        match self.basis:
            case Basis.SAID:
                return f"its author's estimate of {span}"
            case Basis.DEADLINE:
                return f"its deadline after {span}"
            case Basis.QUEUE_LIMIT:
                return f"the longest run of its queue, {span}"
            case Basis.HISTORY:
                which = "the middle one" if self.percent == 50 else f"{self.percent} %"
                size = f"jobs of up to {many(self.gpus, 'GPU')}" if self.gpus else "jobs without GPUs"
                return f"{span}, which {which} of {self.runs} {size} in its queue took at most"


@lru_cache(maxsize=4096)
def expected(run: RunTerms, limit_s: float | None) -> Duration | None:
    """Return the author's estimate, no longer than a bound; else the nearest bound; else None.

    The bounds are the deadline, and ``limit_s``, the longest run that the queue allows.
    """
    bounds = [(run.deadline_s, Basis.DEADLINE), (limit_s, Basis.QUEUE_LIMIT)]
    known = [Duration(seconds, basis) for seconds, basis in bounds if seconds is not None]
    said = [] if run.expected_s is None else [Duration(run.expected_s, Basis.SAID)]
    return min([*said, *known], key=lambda one: one.seconds, default=None)
