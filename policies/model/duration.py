"""How long a workload runs, as far as that is known before it ends, and from which source."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum
from functools import lru_cache
from typing import NamedTuple

from policies.words import lasting, many


class RunTerms(NamedTuple):
    """Statements about a running time, in seconds; None: not stated.

    ``expected_s``: how long its author expects it to run.
    ``deadline_s``: when its controller, or for a pod the kubelet, ends it.
    """

    expected_s: float | None = None
    deadline_s: float | None = None

    def over(self, other: RunTerms) -> RunTerms:
        """The terms, completed by the other ones."""
        expected_s = other.expected_s if self.expected_s is None else self.expected_s
        return RunTerms(expected_s, other.deadline_s if self.deadline_s is None else self.deadline_s)


NO_RUN_TERMS = RunTerms()


def longest(run_terms: Iterable[RunTerms]) -> RunTerms:
    """The terms of a workload that ends with the last of these parts. It has a deadline only if all of them have."""
    parts = list(run_terms)
    expected = [run_terms.expected_s for run_terms in parts if run_terms.expected_s is not None]
    deadlines = [run_terms.deadline_s for run_terms in parts if run_terms.deadline_s is not None]
    return RunTerms(max(expected, default=None), max(deadlines, default=None) if len(deadlines) == len(parts) else None)


class Basis(StrEnum):
    """The source of an expected duration."""

    ESTIMATE = "estimate"
    """The author's estimate."""
    DEADLINE = "deadline"
    """The deadline after which the workload is ended (``activeDeadlineSeconds``)."""
    QUEUE_LIMIT = "queue limit"
    """The longest run that its queue allows."""
    HISTORY = "history"
    """Past running times of workloads of similar size in its LocalQueue."""


@dataclass(frozen=True, slots=True)
class Duration:
    """An expected duration. Of ``HISTORY``: ``percent`` of ``runs`` workloads of up to ``gpus`` GPUs took no longer."""

    seconds: float
    basis: Basis
    percent: int = 0
    runs: int = 0
    gpus: int = 0

    def __str__(self) -> str:
        """The duration in words, as in "it rests on its author's estimate of 6 h"."""
        span = lasting(self.seconds)
        match self.basis:
            case Basis.ESTIMATE:
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
    """The author's estimate, cut to the nearest bound; else that bound; else None.

    The bounds are the deadline, and ``limit_s``, the longest run that the queue allows.
    """
    bounds = [(run.deadline_s, Basis.DEADLINE), (limit_s, Basis.QUEUE_LIMIT)]
    known = [Duration(seconds, basis) for seconds, basis in bounds if seconds is not None]
    durations = [] if run.expected_s is None else [Duration(run.expected_s, Basis.ESTIMATE)]
    return min([*durations, *known], key=lambda duration: duration.seconds, default=None)
