"""Where members of one shape could go if enough candidates went, the most promising domains first."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from policies.placement.snapshot import Amounts, Counts, Rows
from policies.preemption.costs import Costed
from policies.preemption.counting import Ask
from policies.preemption.freed import Freed


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
            holding = np.flatnonzero(self._by_domain(self._ask.free()) >= self._ask.needed)
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
