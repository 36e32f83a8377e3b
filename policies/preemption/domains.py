"""Find where members of one shape could go if enough candidates went, the most promising domains first.

Whether all members have room is a sum over nodes, which is updated step by step. Nothing is placed here. If members
have several shapes, or demands on other pods, ``victims.py`` asks the placement itself.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from policies.placement.capacity import sliced_room
from policies.placement.request import Cap, Role, shape_of
from policies.placement.snapshot import PLENTY, Amounts, Counts, Level, Rows, Snapshot, slots
from policies.preemption.cheapest import Costed
from policies.preemption.freed import Freed, add
from policies.steps import Steps

_CHECK = 3
"""The cost of evicting a candidate, or of restoring it, in units of ``policies.steps``."""


def counted(roles: Sequence[Role]) -> bool:
    """Whether sums are enough to decide about these roles."""
    return len(roles) == 1 and roles[0].relations is None


class Ask:
    """The request of one role, and where its members may go. ``lines``: the lines of the snapshot that it requests."""

    def __init__(self, role: Role, needed: int, caps: Sequence[Cap], snapshot: Snapshot) -> None:
        """``role``: with the room that it has without any candidate; nodes without room then are never used."""
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
        """How many members each of these nodes can take. ``free``: the requested lines on these nodes."""
        return np.minimum(slots(free, self.demand), self.most[rows])

    def free(self, rows: Rows) -> Amounts:
        """A copy of the requested lines that are free on these nodes now."""
        return self.snapshot.free[np.ix_(self.lines, rows)]

    def free_without(self, freed: Freed) -> Amounts:
        """The requested lines that are free on all nodes once these entries are free, too."""
        free = self.snapshot.free[self.lines]
        add(free, freed)
        return free

    def by_domain(self, room: Counts) -> Counts:
        """How many members each domain of the required level takes; without one, a list of one for the cluster."""
        if self.rules.required is not None:
            return sliced_room(room, self.rules.slices, self.rules.required, self.levels)
        if self.rules.slice_size:
            return np.array([sliced_room(room, self.rules.slices, self.rules.slice_level, self.levels).sum()])
        return np.array([room.sum()])


class Counting:
    """The room in one domain, as candidates go and come back. Numbers are those of the candidates in ``freed``."""

    def __init__(self, ask: Ask, rows: Rows, freed: Mapping[int, tuple[Rows, Amounts]]) -> None:
        """``rows``: in ascending order. ``freed``: only entries of these rows."""
        self._ask = ask
        self._rows = rows
        self._room = ask.room(ask.free(rows), rows)
        self._total = int(self._room.sum())
        self._of = {number: (np.searchsorted(rows, there), there) for number, (there, _) in freed.items()}

    def recount(self, number: int) -> None:
        """Update the sums: the room of this candidate is free now, or is taken again."""
        if (known := self._of.get(number)) is None:
            return
        at, rows = known
        room = self._ask.room(self._ask.free(rows), rows)
        self._total += int(room.sum() - self._room[at].sum())
        self._room[at] = room

    def fits(self, gone: Collection[int]) -> Steps[bool]:  # noqa: ARG002
        """Whether as many members as needed have room now."""
        yield _CHECK
        if self._total < self._ask.needed or not self._ask.rules.slices:
            return self._total >= self._ask.needed
        room = np.zeros(len(self._ask.most), dtype=np.int64)
        room[self._rows] = self._room
        return int(self._ask.by_domain(room).max(initial=0)) >= self._ask.needed


@dataclass(frozen=True, slots=True)
class Target:
    """A domain, or the cluster, that can be made to hold all members.

    ``rows``: its usable nodes.
    ``freed``: the room that each candidate frees there, by number.
    ``gains``: how many fewer members have room if only this candidate stays, by number.
    ``home``: the domains of the nearest level inside it.
    ``beyond``: another domain needs only victims up to this priority, as far as nodes decide; None if no domain needs
    less.
    """

    rows: Rows
    freed: Mapping[int, tuple[Rows, Amounts]]
    gains: Mapping[int, int]
    home: frozenset[int] = frozenset()
    beyond: int | None = None


def targets(ask: Ask, options: Sequence[Costed], freed: Freed) -> Iterator[Target]:
    """The cluster, or each domain of the required level that can be made to hold all members.

    Domains with the least loss, if candidates could be divided, come first.
    """
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
    """How many fewer members have room at each entry if only its candidate stays."""
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
    """The loss that each domain of the required level would need, by the highest priority of its victims."""

    def __init__(self, ask: Ask, options: Sequence[Costed], freed: Freed) -> None:
        self._ask = ask
        self._freed = freed
        self._priorities = np.array([option.priority for option in options], dtype=np.int64)[freed.owners]
        self._hours = np.array([option.hours for option in options], dtype=np.int64)
        # Keys, by candidate, that decide between domains with equal loss.
        merits = [(-option.past, option.age, option.run, *option.size) for option in options]
        self._merits = np.array(merits, dtype=np.float64).reshape(len(options), -1).T
        self._steps = np.unique(self._priorities)

    def domains(self) -> Iterator[tuple[int, int | None]]:
        """Yield the codes of domains, best first, with the highest priority that another one needs if that is lower."""
        if not len(self._steps):
            # No candidate has useful room: only quota is lacking.
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
        """The lowest priority such that some domain holds all members once all candidates up to it have gone.

        The highest priority if even that is not enough.
        """
        low, high = 0, len(self._steps) - 1
        while low < high:
            middle = (low + high) // 2
            if self._by_domain(self._without(middle)).max(initial=0) >= self._ask.needed:
                high = middle
            else:
                low = middle + 1
        return low

    def _without(self, step: int) -> Amounts:
        """The free amounts once all candidates up to that priority have gone."""
        chosen = self._priorities <= self._steps[step] if step >= 0 else np.zeros(len(self._priorities), dtype=np.bool_)
        return self._ask.free_without(self._freed.at(np.flatnonzero(chosen)))

    def _by_domain(self, free: Amounts) -> Counts:
        return self._ask.by_domain(self._ask.room(free))

    def _ordered(self, step: int) -> list[int]:
        """Domains that hold all members without candidates up to that priority, those with the least loss at it
        first."""
        level = self._ask.levels[self._ask.rules.required or 0]
        below = self._without(step - 1)
        lack = self._ask.needed - self._by_domain(below)
        lost = self._lost(step, below, level.codes, lack)
        codes = np.flatnonzero(self._by_domain(self._without(step)) >= self._ask.needed)
        order = np.lexsort((level.rank[codes], *lost[::-1, codes]))
        code: list[int] = codes[order].tolist()
        return code

    def _lost(self, step: int, below: Amounts, codes: Rows, lack: Counts) -> NDArray[np.float64]:
        """The loss of each domain at that priority if candidates could be divided.

        Keys in order: hours, candidates, and the keys that decide between equal ones.
        """
        freed = self._freed.at(np.flatnonzero(self._priorities == self._steps[step]))
        here = below[:, freed.rows]
        more = self._ask.room(here + freed.amounts, freed.rows) - self._ask.room(here, freed.rows)
        # One number for each pair of a candidate and a domain.
        pairs, which = np.unique(codes[freed.rows] * len(self._hours) + freed.owners, return_inverse=True)
        gain = np.bincount(which, more, len(pairs))
        pairs, gain = pairs[gain > 0], gain[gain > 0]
        domain, owners = pairs // len(self._hours), pairs % len(self._hours)
        order = np.lexsort((-gain, self._hours[owners] / gain, domain))
        domain, gain, owners = domain[order], gain[order], owners[order]
        before = np.cumsum(gain) - gain
        start = before[np.searchsorted(domain, domain)]
        portion = np.clip((lack[domain] - (before - start)) / gain, 0, 1)
        each = (self._hours[owners], np.ones(len(owners)), *self._merits[:, owners])
        return np.array([np.bincount(domain, portion * amount, len(lack)) for amount in each])
