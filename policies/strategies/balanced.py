"""Balanced: a gang that has to be divided gets equal shares, since a ring is only as fast as its smallest part."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from policies.api import Choice
from policies.placement.request import PlacementRequest
from policies.placement.search import Shares, choices
from policies.placement.snapshot import Counts, Snapshot
from policies.strategies.best_fit import evenly, least, parted


class Balanced:
    """Best fit for a gang that fits into one domain; else the fewest domains, with shares that differ by one at
    most."""

    def domains(self, request: PlacementRequest, snapshot: Snapshot) -> Iterator[Choice]:
        return choices(request, snapshot, evenly, even=True)


class EqualShares:
    """Best fit for a gang that fits into one domain; else equal shares over as few domains as allow that.

    Shares may differ by one. If no number of domains allows equal shares, as ``Balanced``. The difference: ``Balanced``
    puts fewer domains first, ``EqualShares`` equal shares.
    """

    def domains(self, request: PlacementRequest, snapshot: Snapshot) -> Iterator[Choice]:
        return choices(request, snapshot, equally, even=True)


def equally(rooms: Counts, want: int, spare: int, preference: NDArray[np.int64]) -> Shares:
    """Divide over the fewest domains that can have equal shares, else as ``evenly``."""
    count, within = least(rooms, want, spare)
    descending = np.sort(rooms[rooms > 0])[::-1]
    numbers = np.arange(max(count, 1), min(len(descending), within) + 1)
    share, larger = np.divmod(within, numbers)
    equal = (descending[numbers - 1] >= share) & ((larger == 0) | (descending[larger - 1] > share))
    return parted(rooms, int(numbers[equal.argmax()]) if equal.any() else count, within, preference)
