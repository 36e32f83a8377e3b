"""Affinity: prefer nodes near the placed members of the same gang."""

from __future__ import annotations

import numpy as np

from policies.api import NO_OPINION, NOBODY
from policies.model import Pod
from policies.placement.snapshot import Counts, Level, Rows, Snapshot


class Affinity:
    """Score how near a node is to the placed members of the gang, as a mean over these members.

    A node in the nearest domain of all members gets 100. Each level farther out counts half of the one before: of three
    levels, a node in their next domain gets 43, and one in the farthest 15. No opinion if no node is near to any
    member.
    """

    def score(self, pod: Pod, rows: Rows, snapshot: Snapshot, beside: Rows = NOBODY) -> Counts:  # noqa: ARG002
        if not len(beside):
            return NO_OPINION
        levels = snapshot.levels
        near = np.zeros(len(rows))
        for at, level in enumerate(levels):
            near += 0.5**at * _siblings(level, rows, beside)
        if not near.any():
            return NO_OPINION
        best = len(beside) * sum(0.5**at for at in range(len(levels)))
        return np.ceil((100 * near / best).round(6)).astype(np.int64)


def _siblings(level: Level, rows: Rows, beside: Rows) -> Counts:
    """The number of placed members in the domain of each node; 0 for a node without a domain."""
    counts = np.bincount(level.codes[beside] + 1, minlength=len(level.names) + 1)
    counts[0] = 0
    on_rows: Counts = counts[level.codes[rows] + 1]
    return on_rows
