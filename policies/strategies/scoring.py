"""Scores as they are used: several policies added up by weight, and the marks that kube-scheduler is given."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from policies.api import NOBODY, ScorePolicy
from policies.guard import GuardedScore
from policies.model import Pod
from policies.placement.snapshot import Counts, Rows, Snapshot

TOP_MARK = 10
"""The best score on the wire (kube-scheduler's MaxExtenderPriority)."""


class WeightedSum:
    """Several score policies as one. The weights of those with an opinion count in proportion; the sum is 0..100."""

    def __init__(self, weighted: Sequence[tuple[ScorePolicy, int]]) -> None:
        self._weighted = tuple((GuardedScore(policy), weight) for policy, weight in weighted)

    def score(self, pod: Pod, rows: Rows, snapshot: Snapshot, beside: Rows = NOBODY) -> Counts:
        total, weights = np.zeros(len(rows), dtype=np.int64), 0
        for policy, weight in self._weighted:
            scores = policy.score(pod, rows, snapshot, beside)
            if len(scores):
                total += weight * np.minimum(np.maximum(scores, 0), 100)
                weights += weight
        return -(-total // weights) if weights else total


def marks(
    pod: Pod, candidates: Sequence[str], snapshot: Snapshot, scoring: ScorePolicy, beside: Rows = NOBODY
) -> list[int]:
    """The answer to prioritize: 0..10 for each candidate, in their order; 0 for a node that is not known.

    ``beside``: where members of the pod's gang are, a row for each. Rounded up, so that any score is better than none.
    """
    rows = np.array([snapshot.rows.get(name, -1) for name in candidates], dtype=np.intp)
    known = rows >= 0
    found = np.zeros(len(rows), dtype=np.int64)
    scores = scoring.score(pod, rows[known], snapshot, beside)
    # kube-scheduler takes nothing that lies outside.
    found[known] = np.clip(-(-scores * TOP_MARK // 100), 0, TOP_MARK)
    result: list[int] = found.tolist()
    return result
