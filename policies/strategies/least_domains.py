"""Least domains: the fewest of the preferred level wherever they are, and of those the ones with most room."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from policies.api import Choice
from policies.placement.request import PlacementRequest
from policies.placement.search import Shares, choices
from policies.placement.snapshot import Counts, Snapshot
from policies.strategies.best_fit import evenly, filled, least


class LeastDomains:
    """It looks at the preferred level alone, and farther out only at what is required: not a step nearer or farther.

    For gangs that grow, or whose members come and go: what the roomiest domains have left is near.
    """

    def domains(self, request: PlacementRequest, snapshot: Snapshot) -> Iterator[Choice]:
        sliced = bool(request.roles[0].rules.slice_size)
        return choices(request, snapshot, evenly if sliced else roomily, whole_first=False, even=sliced)


def roomily(rooms: Counts, want: int, spare: int, preference: NDArray[np.int64]) -> Shares:
    """The roomiest domains, each filled before the next."""
    count, within = least(rooms, want, spare)
    return filled(np.lexsort((preference, -rooms))[:count], rooms, within)
