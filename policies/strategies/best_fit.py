"""Best fit: a gang that fits into one domain gets one, the tightest; others get the fewest, with little left over."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from policies.api import Choice
from policies.placement.filling import fewest
from policies.placement.request import PlacementRequest
from policies.placement.search import Shares, choices
from policies.placement.snapshot import Counts, Snapshot


class BestFit:
    """First a domain where members of the gang already are; else the one with the least room that still holds the gang,
    of equals the fullest, then by name: first of the preferred level, then of the next one farther out.

    A gang that has to be divided gets the fewest domains, of those sets one that leaves nothing over, else one that
    leaves the largest domains whole. The nodes outside all domains help, and alone may be enough. Slices are shared out
    evenly, as ``Balanced`` does it for all.
    """

    def domains(self, request: PlacementRequest, snapshot: Snapshot) -> Iterator[Choice]:
        sliced = bool(request.roles[0].rules.slice_size)
        return choices(request, snapshot, evenly if sliced else tightly, even=sliced)


def tightly(rooms: Counts, want: int, spare: int, preference: NDArray[np.int64]) -> Shares:
    """The fewest domains, the roomiest filled first."""
    _, within = least(rooms, want, spare)
    return filled(fewest(rooms, within, preference, exact=True)[::-1], rooms, within) if within else []


def evenly(rooms: Counts, want: int, spare: int, preference: NDArray[np.int64]) -> Shares:
    """As many domains as ``tightly`` takes, with equal shares, or one more: the tightest that have room for theirs.

    Where they have not, the roomiest, with shares as equal as their rooms allow.
    """
    return parted(rooms, *least(rooms, want, spare), preference)


def parted(rooms: Counts, count: int, within: int, preference: NDArray[np.int64]) -> Shares:
    """So many members over so many domains, which hold them: equal shares where that is possible."""
    if not count:
        return []
    order = np.lexsort((preference, rooms))
    share, larger = divmod(within, count)
    small = order[rooms[order] >= share][: count - larger]
    roomy = order[rooms[order] > share]
    large = roomy[~np.isin(roomy, small)][:larger]
    chosen = np.concatenate((large, small))
    return levelled(chosen if len(chosen) == count else order[::-1][:count], rooms, within)


def least(rooms: Counts, want: int, spare: int) -> tuple[int, int]:
    """How many domains are needed at least, beside the spare room, and how many members those could take of so many."""
    if want <= spare:
        return 0, 0
    sums = np.cumsum(np.sort(rooms[rooms > 0])[::-1])
    count = min(int(np.searchsorted(sums, want - spare)) + 1, len(sums))
    return count, min(want, int(sums[count - 1])) if count else 0


def filled(codes: NDArray[np.intp], rooms: Counts, want: int) -> Shares:
    """Each of these domains filled before the next."""
    before = np.concatenate(([0], np.cumsum(rooms[codes])[:-1])).astype(np.int64)
    shares = np.minimum(rooms[codes], want - before)
    return list(zip(codes.tolist(), shares.tolist(), strict=True))


def levelled(codes: NDArray[np.intp], rooms: Counts, want: int) -> Shares:
    """Equal shares of these domains, the smaller ones filled and the others taking what is left, the largest first."""
    shares = []
    ordered = codes[np.argsort(rooms[codes], kind="stable")]
    for left, code in zip(range(len(ordered), 0, -1), ordered.tolist(), strict=True):
        seats = min(int(rooms[code]), want // left)
        shares.append((code, seats))
        want -= seats
    return [share for share in shares[::-1] if share[1]]
