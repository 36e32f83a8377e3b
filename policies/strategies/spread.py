"""Spread: use as many domains as possible, for members that must not all be lost together."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from policies.api import Choice
from policies.placement.request import PlacementRequest
from policies.placement.search import Shares, choices
from policies.placement.snapshot import Counts, Snapshot
from policies.strategies.best_fit import levelled


class Spread:
    """Equal shares in all domains of the preferred level; the roomiest if there are more domains than members.

    Requirements still hold: the domains are those inside the required one.
    """

    def domains(self, request: PlacementRequest, snapshot: Snapshot) -> Iterator[Choice]:
        return choices(request, snapshot, widely, whole_first=False)


def widely(rooms: Counts, want: int, _spare: int, preference: NDArray[np.int64]) -> Shares:
    """Equal shares of as many domains as possible."""
    order = np.lexsort((preference, -rooms))[:want]
    within = min(want, int(rooms.sum()))
    return levelled(order[rooms[order] > 0], rooms, within)
