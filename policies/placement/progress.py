"""How far a gang has come while its members are seated one by one, with its slices: a search goes on from a copy."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from policies.model import Pod
from policies.placement.columns import Codes, Mask
from policies.placement.seating import Seating, Seats
from policies.placement.snapshot import Counts
from policies.placement.wishes import Granted

Layers = Sequence[tuple[int, Codes]]
"""The sizes of the slices of one role and the domains of the nodes, from the largest to the smallest."""


@dataclass(slots=True)
class Begun:
    """How many members are in each domain, layer by layer, and how many are to come. Several slices of a role may be
    begun at a time: a spread may want one member of each in turn.
    """

    layers: Layers
    rest: int
    seated: list[Counts]

    @classmethod
    def none(cls, layers: Layers, count: int) -> Begun:
        return cls(layers, count, [np.zeros(int(codes.max(initial=-1)) + 1, dtype=np.int64) for _, codes in layers])

    def copy(self) -> Begun:
        return Begun(self.layers, self.rest, [one.copy() for one in self.seated])

    def seat(self, row: int, by: int = 1) -> None:
        """One more member is there, or one less."""
        self.rest -= by
        for (_, codes), seated in zip(self.layers, self.seated, strict=True):
            seated[codes[row]] += by

    @property
    def whole(self) -> bool:
        """Whether no slice is begun that is not whole."""
        return not any((seated % size).any() for (size, _), seated in zip(self.layers, self.seated, strict=True))

    def places(self, mask: Mask, room: Counts) -> list[Mask]:
        """Of these nodes those where the next member may go, those that go on with most of the slices that are begun
        first. A slice is begun only where there are members for all of it beside the others, and room at most.
        """
        around, left = np.zeros(len(mask), dtype=np.intp), np.array([self.rest])
        going_on = np.zeros(len(mask), dtype=np.int64)
        for (size, codes), seated in zip(self.layers, self.seated, strict=True):
            missing = -seated % size
            outside = np.zeros(len(seated), dtype=np.intp)
            inside = (codes >= 0) & (around >= 0)
            outside[codes[inside]] = around[inside]
            spare = left - np.bincount(outside, missing, len(left)).astype(np.int64)
            rooms = np.bincount(codes[inside], room[inside], len(seated))
            fresh = (missing == 0) & (spare[outside] >= size) & (rooms >= size)
            mask = mask & inside & np.append(fresh | (missing > 0), np.False_)[codes]
            going_on += np.append(missing > 0, np.False_)[codes]
            around, left = codes, np.append(np.where(missing > 0, missing, size), 0)
        return [mask & (going_on == count) for count in range(len(self.layers), -1, -1)]


class Ranks:
    """The members of one role in rank order, handed out so that consecutive ones share the domains of their slices."""

    def __init__(self, pods: Iterable[Pod], layers: Layers) -> None:
        self._pods, self._layers = deque(pods), layers
        self._slices: dict[tuple[int, int], deque[Pod]] = {}

    def next(self, row: int) -> Pod:
        """Who goes there."""
        return self._begun(len(self._layers) - 1, row).popleft()

    def _begun(self, at: int, row: int) -> deque[Pod]:
        """Who is left of the slice that is begun there; a new one is taken out of the larger one that is."""
        if at < 0:
            return self._pods
        size, codes = self._layers[at]
        begun = self._slices.setdefault((at, int(codes[row])), deque())
        if not begun:
            around = self._begun(at - 1, row)
            begun.extend(around.popleft() for _ in range(min(size, len(around))))
        return begun


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
