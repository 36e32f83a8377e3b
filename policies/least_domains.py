"""Least domains: the fewest of the preferred level wherever they are, and the roomiest, to leave the gang some air."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from policies.api import Choice
from policies.ask import Ask
from policies.climb import Shares, choices
from policies.snapshot import Counts, Snapshot
from policies.topology import evenly, least


class LeastDomains:
    """It looks at the preferred level alone, and farther out only at what is required: not a step nearer or farther.

    For gangs that grow, or whose members come and go: what the roomiest domains have left is near.
    """

    def domains(self, ask: Ask, snapshot: Snapshot) -> Iterator[Choice]:
        sliced = bool(ask.roles[0].rules.slice_size)
        return choices(ask, snapshot, evenly if sliced else roomily, climbs=False, even=sliced)


def roomily(rooms: Counts, want: int, spare: int, preference: NDArray[np.int64]) -> Shares:
    """The roomiest domains, each filled before the next."""
    count, within = least(rooms, want, spare)
    shares = []
    for code in np.lexsort((preference, -rooms))[:count].tolist():
        seats = min(int(rooms[code]), within)
        shares.append((code, seats))
        within -= seats
    return shares
