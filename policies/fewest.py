"""The fewest that hold so many, and of those the tightest: nodes of a domain, domains of a cluster."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from policies.snapshot import Counts, Rows


def fewest(room: Counts, want: int, preference: NDArray[np.int64]) -> Rows:
    """Positions in ``room`` whose sum is at least ``want``, ascending by room; all that have room when none suffices.

    No smaller number of positions would do. Of those that do, neighbours in size are taken, as small as possible, and
    the smallest of them is exchanged for the smallest that still suffices: little is left over, and what is large stays
    whole. So one position is best fit. Among equal rooms the lower ``preference`` goes first (below 2^31, none twice).
    Costs one sort.
    """
    some = np.flatnonzero(room)
    order = some[np.argsort((room[some] << 31) + preference[some], kind="stable")]
    sizes = room[order]
    sums = np.concatenate(([0], np.cumsum(sizes)))
    spare = int(sums[-1]) - want
    if spare <= 0:
        return order
    count = len(sizes) + 1 - int(np.searchsorted(sums, spare, side="right"))
    if count <= 0:
        return order[:0]
    first = int(np.searchsorted(sums[count:] - sums[:-count], want))
    return order[_tighten(sizes, first, first + count, want)]


def _tighten(sizes: Counts, first: int, end: int, want: int) -> Rows:
    """The window of sorted sizes, its lowest ones exchanged for preferred equals and its smallest for a tighter one."""
    chosen = np.arange(first, end)
    lowest = sizes[first]
    equals = int(np.searchsorted(sizes[first:end], lowest, side="right"))
    chosen[:equals] += int(np.searchsorted(sizes, lowest)) - first
    tighter = int(np.searchsorted(sizes, lowest - (int(sizes[first:end].sum()) - want)))
    if sizes[tighter] < lowest:
        chosen[1:equals] = chosen[: equals - 1].copy()
        chosen[0] = tighter
    return chosen
