"""How far a gang has come while its members are seated one by one: a search goes on from a copy of it."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from policies.placement.seating import Seating, Seats
from policies.placement.slices import Begun
from policies.placement.wishes import Granted


@dataclass(slots=True)
class Progress:
    """Where the gang stands: who sits where, which nodes each role prefers now, which slices are begun, and what has
    become of its wishes.
    """

    seating: Seating
    seats: Seats = field(default_factory=list)
    seated: list[int] = field(default_factory=list)
    keys: list[NDArray[np.int64]] = field(default_factory=list)
    begun: list[Begun] = field(default_factory=list)
    granted: list[Granted | None] = field(default_factory=list)

    def copy(self) -> Progress:
        keys, granted = [one.copy() for one in self.keys], [one and one.copy() for one in self.granted]
        begun = [one.copy() for one in self.begun]
        return Progress(self.seating.copy(), list(self.seats), list(self.seated), keys, begun, granted)
