"""Affinity: near the members of the same gang that have a node already."""

from __future__ import annotations

import numpy as np

from policies.api import NO_OPINION, NOBODY
from policies.model import Pod
from policies.snapshot import Counts, Level, Rows, Snapshot


class Affinity:
    """How many of the levels a node shares with a placed member of the gang, in the mean over those members.

    A node in the nearest domain of all of them gets 100; of three levels, one in their next domain 67 and then 34. No
    opinion where no node is near to any of them.
    """

    def score(self, pod: Pod, rows: Rows, snapshot: Snapshot, beside: Rows = NOBODY) -> Counts:  # noqa: ARG002
        shared = sum((_siblings(level, rows, beside) for level in snapshot.levels), np.zeros(len(rows), dtype=np.int64))
        return -(-100 * shared // (len(beside) * len(snapshot.levels))) if shared.any() else NO_OPINION


def _siblings(level: Level, rows: Rows, beside: Rows) -> Counts:
    """How many of them are in the domain of each node; none are in the domain of a node that has none."""
    counts = np.bincount(level.codes[beside] + 1, minlength=len(level.names) + 1)
    counts[0] = 0
    found: Counts = counts[level.codes[rows] + 1]
    return found
