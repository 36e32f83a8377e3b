"""Scoring: add up several score policies by weight, and turn scores into marks for kube-scheduler."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from policies.api import NOBODY, ScorePolicy
from policies.guard import GuardedScore
from policies.model import Pod
from policies.placement.snapshot import Counts, Rows, Snapshot

TOP_MARK = 10
"""The best mark that kube-scheduler accepts (its MaxExtenderPriority)."""


class WeightedSum:
    """Several score policies as one. The weights of policies with an opinion count in proportion; the sum is 0..100."""

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
    """Answer prioritize: marks 0..10 for the candidates, in their order; 0 for an unknown node.

    ``beside``: the nodes of the gang's members, a row for each. Marks are rounded up, so that any score is better than
    none.
    """
    rows = np.array([snapshot.rows.get(name, -1) for name in candidates], dtype=np.intp)
    known = rows >= 0
    marks_of_rows = np.zeros(len(rows), dtype=np.int64)
    scores = scoring.score(pod, rows[known], snapshot, beside)
    # kube-scheduler rejects marks outside this range.
    marks_of_rows[known] = np.clip(-(-scores * TOP_MARK // 100), 0, TOP_MARK)
    result: list[int] = marks_of_rows.tolist()
    return result
