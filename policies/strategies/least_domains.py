"""Least domains: the fewest domains of the preferred level, anywhere, and of these the roomiest."""

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
    """Look at the preferred level alone, and beyond it only at the required level.

    For gangs that grow, or whose members come and go: free room in the roomiest domains stays close to them.
    """

    def domains(self, request: PlacementRequest, snapshot: Snapshot) -> Iterator[Choice]:
        sliced = bool(request.roles[0].rules.slice_size)
        return choices(request, snapshot, evenly if sliced else roomily, whole_first=False, even=sliced)


def roomily(rooms: Counts, want: int, spare: int, preference: NDArray[np.int64]) -> Shares:
    """Fill the roomiest domains, one after another."""
    count, within = least(rooms, want, spare)
    return filled(np.lexsort((preference, -rooms))[:count], rooms, within)
