"""Packing: fill nodes and cliques that are partly used, so that whole ones stay whole."""

from __future__ import annotations

from functools import cache

import numpy as np
from numpy.typing import NDArray

from policies.api import NOBODY
from policies.model import Pod
from policies.placement.snapshot import Counts, Rows, Snapshot, fullness, scarce

BROKEN, BROKEN_AROUND, NODE_BROKEN, FULL, NODE_FULL = 40.0, 10.0, 20.0, 20.0, 10.0
"""The parts of a score of 100: the nearest domain is in use; farther ones are; the node is; then how full they are."""


class Packing:
    """Prefer nodes and domains that are in use already, and of these the fuller ones, in scarce resources of the pod.

    Use of the node's nearest domain counts most, so that no unused clique is broken while a used one has room. Then
    comes use of the node itself; levels farther out each count half of the one before. A node in no domain of a level
    counts as one in a full domain, since its use breaks none.
    """

    def score(self, pod: Pod, rows: Rows, snapshot: Snapshot, beside: Rows = NOBODY) -> Counts:  # noqa: ARG002
        amounts = scarce(pod.requests, snapshot)
        if not len(amounts):
            return np.zeros(len(rows), dtype=np.int64)
        node = fullness(amounts.take(rows, 1))
        if not snapshot.levels:
            return np.ceil(50 * (node > 0) + 50 * node).astype(np.int64)
        around = fullness(np.stack([level.sums_around(amounts, rows) for level in snapshot.levels], 1))
        around[np.stack([level.codes.take(rows) < 0 for level in snapshot.levels])] = 1.0
        broken, full = _shares(len(snapshot.levels))
        total = NODE_BROKEN * (node > 0) + NODE_FULL * node + broken @ (around > 0) + full @ around
        # Rounding errors must not lift an unused node above 0.
        return np.ceil(total.round(6)).astype(np.int64)


@cache
def _shares(levels: int) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """The points of each level if it is in use, and if it is full."""
    halves = [0.5**at for at in range(levels)]
    farther = [half / sum(halves[1:]) * BROKEN_AROUND for half in halves[1:]]
    broken = [BROKEN, *farther] if farther else [BROKEN + BROKEN_AROUND]
    return np.array(broken), np.array([half / sum(halves) * FULL for half in halves])
