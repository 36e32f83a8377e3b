"""Members of one shape: whether all of them have room is a sum over nodes, kept up to date by increments.

Nothing is placed here. Where members are of several shapes, or demand something of other pods, the placement itself
is asked (``choosing.py``).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from policies.placement.capacity import whole
from policies.placement.request import Cap, Role, shape_of
from policies.placement.snapshot import PLENTY, Amounts, Counts, Level, Rows, Snapshot, slots
from policies.preemption.freed import Freed, add
from policies.steps import Steps

_CHECK = 3
"""What it costs to evict somebody, or to put it back, in units of ``policies.steps``."""


def counted(roles: Sequence[Role]) -> bool:
    """Whether sums tell all about these roles."""
    return len(roles) == 1 and roles[0].relations is None


class Ask:
    """What one role asks for, and where it may go. ``lines`` of the snapshot are those that it asks for."""

    def __init__(self, role: Role, needed: int, caps: Sequence[Cap], snapshot: Snapshot) -> None:
        """``role``: as it is with all candidates gone: where it has no room then it never has."""
        demand = snapshot.demand(role.requests) or []
        self.lines = [line for line, _ in demand]
        self.demand = [(at, amount) for at, (_, amount) in enumerate(demand)]
        self.needed = needed
        self.rules = role.rules
        self.levels = snapshot.levels
        self.snapshot = snapshot
        self.most = np.where(role.room > 0, PLENTY, 0)
        for cap in caps:
            if cap.shape == shape_of(role.pods[0]) and (row := snapshot.rows.get(cap.node)) is not None:
                self.most[row] = min(self.most[row], cap.most)

    @property
    def required(self) -> Level | None:
        return None if self.rules.required is None else self.levels[self.rules.required]

    def room(self, free: Amounts, rows: Rows | slice = slice(None)) -> Counts:
        """How many members each of these nodes takes. ``free``: the lines that are asked for, on these nodes."""
        return np.minimum(slots(free, self.demand), self.most[rows])

    def free(self, rows: Rows | slice = slice(None)) -> Amounts:
        """What is free on these nodes now, of the lines that are asked for: a copy."""
        return self.snapshot.free[self.lines][:, rows].copy()

    def free_without(self, freed: Freed) -> Amounts:
        """The same of all nodes, when these entries are free, too."""
        free = self.free()
        add(free, freed)
        return free

    def by_domain(self, room: Counts) -> Counts:
        """How many members each domain of the required level takes; in a list of one, the cluster where none is."""
        if self.rules.required is not None:
            return whole(room, self.rules.slices, self.rules.required, self.levels)
        if self.rules.slice_size:
            return np.array([whole(room, self.rules.slices, self.rules.slice_level, self.levels).sum()])
        return np.array([room.sum()])


class Counting:
    """The nodes of one domain, as candidates go and are put back. Numbers are those of the candidates in ``freed``."""

    def __init__(self, ask: Ask, rows: Rows, freed: Mapping[int, tuple[Rows, Amounts]]) -> None:
        """``rows`` in ascending order. ``freed``: entries of these alone."""
        self._ask = ask
        self._rows = rows
        self._free = ask.free(rows)
        self._room = ask.room(self._free, rows)
        self._total = int(self._room.sum())
        self._of = {number: (np.searchsorted(rows, there), amounts) for number, (there, amounts) in freed.items()}

    def change(self, number: int, sign: int) -> None:
        """It goes, or with -1 it is put back."""
        if (known := self._of.get(number)) is None:
            return
        at, amounts = known
        here = self._free[:, at] + amounts * sign
        self._free[:, at] = here
        room = self._ask.room(here, self._rows[at])
        self._total += int(room.sum() - self._room[at].sum())
        self._room[at] = room

    def fits(self) -> Steps[bool]:
        """Whether as many as are needed have room now."""
        yield _CHECK
        if self._total < self._ask.needed or not self._ask.rules.slices:
            return self._total >= self._ask.needed
        room = np.zeros(len(self._ask.most), dtype=np.int64)
        room[self._rows] = self._room
        return int(self._ask.by_domain(room).max(initial=0)) >= self._ask.needed
