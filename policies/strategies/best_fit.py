"""Best fit: the tightest domain for a gang that fits into one; for others the fewest, with little left over."""

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
    """Prefer a domain with members of the gang; else the one with the least room that still holds the gang.

    Of equals the fullest comes first, then the name decides. The preferred level is searched first, then the next one
    farther out. A gang that has to be divided gets the fewest domains: a set without spare room, else one that leaves
    the largest domains whole. Nodes outside all domains help, and may be enough alone. Slices are divided evenly, as
    ``Balanced`` does it for all gangs.
    """

    def domains(self, request: PlacementRequest, snapshot: Snapshot) -> Iterator[Choice]:
        sliced = bool(request.roles[0].rules.slice_size)
        return choices(request, snapshot, evenly if sliced else tightly, even=sliced)


def tightly(rooms: Counts, want: int, spare: int, preference: NDArray[np.int64]) -> Shares:
    """Use the fewest domains; the roomiest are filled first."""
    _, within = least(rooms, want, spare)
    return filled(fewest(rooms, within, preference, exact=True)[::-1], rooms, within) if within else []


def evenly(rooms: Counts, want: int, spare: int, preference: NDArray[np.int64]) -> Shares:
    """Divide equally over as many domains as ``tightly`` takes, with the tightest that have room for their shares.

    Shares may differ by one. If no domains have room for them, the roomiest are used, with shares as equal as possible.
    """
    return parted(rooms, *least(rooms, want, spare), preference)


def parted(rooms: Counts, count: int, within: int, preference: NDArray[np.int64]) -> Shares:
    """Divide ``within`` members over ``count`` domains that hold them, with equal shares if possible."""
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
    """The fewest domains that are needed beside the spare room, and how many members these could take."""
    if want <= spare:
        return 0, 0
    sums = np.cumsum(np.sort(rooms[rooms > 0])[::-1])
    count = min(int(np.searchsorted(sums, want - spare)) + 1, len(sums))
    return count, min(want, int(sums[count - 1])) if count else 0


def filled(codes: NDArray[np.intp], rooms: Counts, want: int) -> Shares:
    """Fill the domains one after another."""
    before = np.concatenate(([0], np.cumsum(rooms[codes])[:-1])).astype(np.int64)
    shares = np.minimum(rooms[codes], want - before)
    return list(zip(codes.tolist(), shares.tolist(), strict=True))


def levelled(codes: NDArray[np.intp], rooms: Counts, want: int) -> Shares:
    """Equal shares of these domains, the largest first: smaller domains are filled, and the others take the rest."""
    shares = []
    ordered = codes[np.argsort(rooms[codes], kind="stable")]
    for left, code in zip(range(len(ordered), 0, -1), ordered.tolist(), strict=True):
        share = min(int(rooms[code]), want // left)
        shares.append((code, share))
        want -= share
    return [share for share in shares[::-1] if share[1]]
