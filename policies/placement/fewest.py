"""The fewest that hold so many, and of those the tightest: nodes of a domain, domains of a cluster."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from policies.placement.snapshot import Counts, Rows

_EXACT_STEPS = 4000
"""Sets without anything left over are looked for as long as the positions, times those to be taken, are no more."""


def fewest(room: Counts, want: int, preference: NDArray[np.int64], *, exact: bool = False) -> Rows:
    """Positions in ``room`` whose sum is at least ``want``, ascending by room; all that have room when none suffices.

    No smaller number of positions would do. Of those that do, neighbours in size are taken, as small as possible, and
    the smallest of them is exchanged for the smallest that still suffices: little is left over, and what is large stays
    whole. So one position is best fit. With ``exact`` those that leave nothing over go first, if there are any, of them
    the ones whose largest is smallest. Among equal rooms the lower ``preference`` goes first (below 2^31, none twice).
    Costs one sort, or none where one position suffices.
    """
    enough = (room >= want).nonzero()[0]
    if want > 0 and len(enough):
        here = room[enough]
        equals: Rows = enough[here == here.min()]
        best = int(preference[equals].argmin())
        return equals[best : best + 1]
    some = room.nonzero()[0]
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
    tight = _tighten(sizes, first, first + count, want)
    if exact and int(sizes[tight].sum()) > want and count * len(sizes) <= _EXACT_STEPS:
        found = _exactly(sizes.tolist(), want, count)
        return order[found if found is not None else tight]
    return order[tight]


def _exactly(sizes: list[int], want: int, count: int) -> Rows | None:
    """So many of these sorted sizes that sum up to exactly so much; of those the ones whose largest is smallest.

    ``sums`` has a field of bits for each number of sizes: bit ``s`` of field ``k`` is set when ``k`` of the sizes
    looked at so far sum up to ``s``. A field has room for what goes beyond ``want``, which ``within`` takes away.
    """
    field = want + sizes[-1] + 1
    within = sum(((1 << want + 1) - 1) << k * field for k in range(count + 1))
    sums, history = 1, [1]
    for size in sizes:
        sums |= sums << field + size & within
        history.append(sums)
        if sums >> count * field + want & 1:
            break
    else:
        return None
    chosen = []
    for at in range(len(history) - 2, -1, -1):
        if count and not history[at] >> count * field + want & 1:
            chosen.append(at)
            want, count = want - sizes[at], count - 1
    return np.array(chosen[::-1], dtype=np.intp)


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
