"""Find where members of one shape could go if enough candidates went, the most promising domains first.

Whether all of them have room is a sum over nodes, kept up to date by increments. Nothing is placed here. Where members
are of several shapes, or demand something of other pods, ``victims.py`` asks the placement itself.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from policies.placement.capacity import whole
from policies.placement.request import Cap, Role, shape_of
from policies.placement.snapshot import PLENTY, Amounts, Counts, Level, Rows, Snapshot, slots
from policies.preemption.cheapest import Costed
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
        self.lines = np.array([line for line, _ in demand], dtype=np.intp)
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

    def free(self, rows: Rows) -> Amounts:
        """What is free on these nodes now, of the lines that are asked for: a copy."""
        return self.snapshot.free[np.ix_(self.lines, rows)]

    def free_without(self, freed: Freed) -> Amounts:
        """The same of all nodes, when these entries are free, too."""
        free = self.snapshot.free[self.lines]
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
    """The nodes of one domain, as candidates go and come back. Numbers are those of the candidates in ``freed``."""

    def __init__(self, ask: Ask, rows: Rows, freed: Mapping[int, tuple[Rows, Amounts]]) -> None:
        """``rows`` in ascending order. ``freed``: entries of these alone."""
        self._ask = ask
        self._rows = rows
        self._room = ask.room(ask.free(rows), rows)
        self._total = int(self._room.sum())
        self._of = {number: (np.searchsorted(rows, there), there) for number, (there, _) in freed.items()}

    def recount(self, number: int) -> None:
        """The room of this candidate is free now, or is taken again."""
        if (known := self._of.get(number)) is None:
            return
        at, rows = known
        room = self._ask.room(self._ask.free(rows), rows)
        self._total += int(room.sum() - self._room[at].sum())
        self._room[at] = room

    def fits(self, gone: Collection[int]) -> Steps[bool]:  # noqa: ARG002
        """Whether as many as are needed have room now."""
        yield _CHECK
        if self._total < self._ask.needed or not self._ask.rules.slices:
            return self._total >= self._ask.needed
        room = np.zeros(len(self._ask.most), dtype=np.int64)
        room[self._rows] = self._room
        return int(self._ask.by_domain(room).max(initial=0)) >= self._ask.needed


@dataclass(frozen=True, slots=True)
class Target:
    """``rows``: the nodes of a domain that may be used. ``freed``: what each candidate frees there, by number.

    ``gains``: for how many members less there is room if it alone stays. ``home``: the domains of the nearest level
    that it consists of. ``beyond``: somebody of a higher priority than this has to go for it, and, as far as nodes
    decide, nobody for another domain; None where no domain takes less.
    """

    rows: Rows
    freed: Mapping[int, tuple[Rows, Amounts]]
    gains: Mapping[int, int]
    home: frozenset[int] = frozenset()
    beyond: int | None = None


def targets(ask: Ask, options: Sequence[Costed], freed: Freed) -> Iterator[Target]:
    """The cluster, or the domains of the required level that can be made to hold all: first those where the least would
    be lost if candidates could be divided."""
    usable = ask.most > 0
    freed = freed.at(np.flatnonzero(usable[freed.rows]))
    gains = _gains(ask, freed)
    if ask.required is None:
        yield _target(np.flatnonzero(usable), freed, gains)
        return
    order = _Promise(ask, options, freed)
    codes = ask.required.codes[freed.rows]
    for code, beyond in order.domains():
        rows = ask.required.domain(code).rows
        rows = np.sort(rows[usable[rows]])
        home = frozenset(ask.levels[0].codes[rows].tolist())
        here = np.flatnonzero(codes == code)
        yield _target(rows, freed.at(here), gains[here], home, beyond)


def _gains(ask: Ask, freed: Freed) -> Counts:
    """For each entry: how many members less have room there if it alone stays."""
    emptied = ask.free_without(freed)[:, freed.rows]
    return ask.room(emptied, freed.rows) - ask.room(emptied - freed.amounts, freed.rows)


def _target(
    rows: Rows, freed: Freed, gains: Counts, home: frozenset[int] = frozenset(), beyond: int | None = None
) -> Target:
    owners, which = np.unique(freed.owners, return_inverse=True)
    sums = np.bincount(which, gains, len(owners)).astype(np.int64)
    by_owner = dict(zip(owners.tolist(), sums.tolist(), strict=True))
    return Target(rows, freed.by_owner(), by_owner, home, beyond)


class _Promise:
    """What each domain of the required level would take, by priorities that go."""

    def __init__(self, ask: Ask, options: Sequence[Costed], freed: Freed) -> None:
        self._ask = ask
        self._freed = freed
        self._priorities = np.array([one.priority for one in options], dtype=np.int64)[freed.owners]
        self._hours = np.array([one.hours for one in options], dtype=np.int64)
        # These decide, by candidate, between domains in which equally much is lost.
        merits = [(-one.past, one.age, one.run, *one.size) for one in options]
        self._merits = np.array(merits, dtype=np.float64).reshape(len(options), -1).T
        self._steps = np.unique(self._priorities)

    def domains(self) -> Iterator[tuple[int, int | None]]:
        """Domains by their codes, best first; with the highest priority that another one needs where that is lower."""
        if not len(self._steps):
            # Nobody has room that is of use: what it lacks is quota alone.
            holding = np.flatnonzero(self._by_domain(self._ask.snapshot.free[self._ask.lines]) >= self._ask.needed)
            rank = self._ask.levels[self._ask.rules.required or 0].rank
            yield from ((code, None) for code in holding[np.argsort(rank[holding])].tolist())
            return
        first = self._lowest()
        seen: dict[int, None] = {}
        for step in dict.fromkeys((first, len(self._steps) - 1)):
            for code in self._ordered(step):
                if code not in seen:
                    seen[code] = None
                    yield code, None if step == first else int(self._steps[first])

    def _lowest(self) -> int:
        """The lowest priority up to which all have to go for some domain to hold all; the highest where that is not
        enough."""
        low, high = 0, len(self._steps) - 1
        while low < high:
            middle = (low + high) // 2
            if self._by_domain(self._without(middle)).max(initial=0) >= self._ask.needed:
                high = middle
            else:
                low = middle + 1
        return low

    def _without(self, step: int) -> Amounts:
        """What is free when everybody is gone up to that priority."""
        chosen = self._priorities <= self._steps[step] if step >= 0 else np.zeros(len(self._priorities), dtype=np.bool_)
        return self._ask.free_without(self._freed.at(np.flatnonzero(chosen)))

    def _by_domain(self, free: Amounts) -> Counts:
        return self._ask.by_domain(self._ask.room(free))

    def _ordered(self, step: int) -> list[int]:
        """Domains that hold all when everybody up to that priority is gone: where the least is lost of it."""
        level = self._ask.levels[self._ask.rules.required or 0]
        below = self._without(step - 1)
        lack = self._ask.needed - self._by_domain(below)
        lost = self._lost(step, below, level.codes, lack)
        codes = np.flatnonzero(self._by_domain(self._without(step)) >= self._ask.needed)
        order = np.lexsort((level.rank[codes], *lost[::-1, codes]))
        found: list[int] = codes[order].tolist()
        return found

    def _lost(self, step: int, below: Amounts, codes: Rows, lack: Counts) -> NDArray[np.float64]:
        """The loss of each domain at that priority if candidates could be divided: hours, then candidates, then the
        keys that decide where those are equal."""
        freed = self._freed.at(np.flatnonzero(self._priorities == self._steps[step]))
        here = below[:, freed.rows]
        more = self._ask.room(here + freed.amounts, freed.rows) - self._ask.room(here, freed.rows)
        # One number for each candidate in each domain.
        pairs, which = np.unique(codes[freed.rows] * len(self._hours) + freed.owners, return_inverse=True)
        gain = np.bincount(which, more, len(pairs))
        pairs, gain = pairs[gain > 0], gain[gain > 0]
        domain, owners = pairs // len(self._hours), pairs % len(self._hours)
        order = np.lexsort((-gain, self._hours[owners] / gain, domain))
        domain, gain, owners = domain[order], gain[order], owners[order]
        before = np.cumsum(gain) - gain
        start = before[np.searchsorted(domain, domain)]
        part = np.clip((lack[domain] - (before - start)) / gain, 0, 1)
        each = (self._hours[owners], np.ones(len(owners)), *self._merits[:, owners])
        return np.array([np.bincount(domain, part * amount, len(lack)) for amount in each])
