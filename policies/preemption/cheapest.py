"""Choose the candidates whose eviction costs least, as far as that can be found out.

``Costed`` is the order of preference. A ``VictimSet`` is tried in a statement. It says whether the preemptor has all
that it needs when these candidates are gone.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from functools import cached_property, partial
from typing import Protocol

from policies.placement.snapshot import Amounts, Rows, Snapshot
from policies.preemption.allowed import Why
from policies.preemption.candidates import Candidate, Unit
from policies.statement import Statement
from policies.steps import Steps, metered

HOUR_S = 3600
_MOST_USED = 1 << 62
"""A LocalQueue whose weight is 0 has used without bound."""

Level = tuple[int, int, int]
"""A priority, with that of the queue; how many device-hours victims of it lose, rounded down; and how many they are."""
Size = tuple[int, int, int]
"""Devices, cpu and memory."""
Cost = tuple[int, tuple[Level, ...], int, int, int, int, Size, int, tuple[str, ...]]
"""Compared as Python compares tuples, and the smaller one is better: the highest unit; what each priority loses, the
highest first; what their LocalQueues have used, as less than nothing; the domains that are broken and need not be; the
ages in seconds, added up, then how long they have run; how much they have; their turns in their workloads; the names.
Where the ages are compared, both have the same number of victims, so the time of day does not matter."""


class Costed:
    """A candidate, with what its eviction costs at one moment. ``domains``: of the nearest level, where it has room."""

    def __init__(self, candidate: Candidate, now: float, snapshot: Snapshot) -> None:
        self.candidate = candidate
        self.name = candidate.name
        self.unit = candidate.unit
        self.priority = candidate.standing
        self.hours = int(candidate.lost(now) // HOUR_S)
        self.past = int(min(candidate.past, _MOST_USED))
        self.age = -int(candidate.created)
        self.run = self.age if candidate.started is None else -int(candidate.started)
        self.size = candidate.size
        self.turn = candidate.turn
        self._snapshot = snapshot

    @cached_property
    def domains(self) -> frozenset[int]:
        levels, rows = self._snapshot.levels, self._snapshot.rows
        if not levels:
            return frozenset()
        there = [row for held in self.candidate.claims if (row := rows.get(held.node)) is not None]
        return frozenset(levels[0].codes[there].tolist()) - {-1}

    @property
    def value(self) -> tuple[int, int, int, int, int, int, Size, int, str]:
        """The order in which candidates are given up, each seen alone."""
        return self.priority, self.unit, self.hours, *self.merit, self.name

    @property
    def merit(self) -> tuple[int, int, int, Size, int]:
        """The key that decides between two candidates that lose equally much, each seen alone."""
        return -self.past, self.age, self.run, self.size, self.turn


def cost(gone: Sequence[Costed], home: Collection[int] = ()) -> Cost:
    """What it costs to evict all of them. ``home``: domains that the preemptor is to be in; these are needed."""
    broken: set[int] = set()
    for one in gone:
        broken |= one.domains
    return (
        max((one.unit for one in gone), default=Unit.POD),
        levels_of(gone),
        -sum(one.past for one in gone),
        len(broken.difference(home)),
        sum(one.age for one in gone),
        sum(one.run for one in gone),
        _added([one.size for one in gone]),
        sum(one.turn for one in gone),
        tuple(sorted(one.name for one in gone)),
    )


def _added(sizes: Sequence[Size]) -> Size:
    return sum(one[0] for one in sizes), sum(one[1] for one in sizes), sum(one[2] for one in sizes)


def levels_of(gone: Iterable[Costed]) -> tuple[Level, ...]:
    """What each priority loses, the highest first."""
    sums: dict[int, tuple[int, int]] = {}
    for one in gone:
        hours, count = sums.get(one.priority, (0, 0))
        sums[one.priority] = hours + one.hours, count + 1
    return tuple((priority, *sums[priority]) for priority in sorted(sums, reverse=True))


class Room(Protocol):
    """Whether the preemptor has a node for each member, as candidates go and come back, by number."""

    def recount(self, number: int) -> None:
        """The room of this candidate is free now, or is taken again."""
        ...

    def fits(self, gone: Collection[int]) -> Steps[bool]: ...


class Rules(Protocol):
    """Who may go beside those that go already, and whether that is enough, nodes apart."""

    def may(self, candidate: Candidate) -> bool:
        """Whether it may go now."""
        ...

    def evict(self, candidate: Candidate) -> None:
        """Give its quota back in the statement."""
        ...

    def restore(self, candidate: Candidate) -> None:
        """Undo ``evict`` out of turn."""
        ...

    def enough(self) -> bool:
        """Whether all is free that the preemptor needs beside nodes."""
        ...

    def lack(self) -> str:
        """What of it is not, for people; empty if all is."""
        ...

    def helps(self, candidate: Candidate) -> bool:
        """Whether its eviction frees some of that."""
        ...

    def why(self, gone: Sequence[Candidate]) -> Mapping[str, Why] | None:
        """By which rule each of those that are gone may go, by name; None if they may not go together."""
        ...


class VictimSet:
    """The candidates that are taken as gone. Numbers are those of the ``options``.

    It changes the ``statement``: when the statement drops a block, the set is again what it was before that.
    ``freed``: the rows and amounts that each candidate frees.
    """

    def __init__(
        self,
        options: Sequence[Costed],
        statement: Statement,
        freed: Mapping[int, tuple[Rows, Amounts]],
        room: Room,
        rules: Rules,
    ) -> None:
        self.options = options
        self.statement = statement
        self.gone: dict[int, None] = {}
        self._freed = freed
        self._room = room
        self._rules = rules
        rest = {one.name: at for at, one in enumerate(options) if one.unit is Unit.WORKLOAD}
        self.rest = {
            at: rest[one.candidate.workload]
            for at, one in enumerate(options)
            if one.unit is Unit.SURPLUS and one.candidate.workload in rest
        }
        """Of a surplus: the rest of its workload. It does not stay when that goes."""
        self._surplus: dict[int, list[int]] = {}
        for at, whole in self.rest.items():
            self._surplus.setdefault(whole, []).append(at)

    def may(self, number: int) -> bool:
        return self._rules.may(self.options[number].candidate)

    def evict(self, number: int) -> None:
        """Take a candidate as gone, with its surplus."""
        for at in (*self._surplus.get(number, ()), number):
            if at not in self.gone:
                self.gone[at] = None
                self.statement.on_drop(partial(self.gone.pop, at))
                if at in self._freed:
                    self._move(at, self.statement.add)
                self._rules.evict(self.options[at].candidate)

    def restore(self, number: int) -> bool:
        """Take a candidate as there again. Returns whether it can be: it cannot without the rest of its workload."""
        if number not in self.gone or self.rest.get(number) in self.gone:
            return False
        del self.gone[number]
        self.statement.on_drop(partial(self.gone.setdefault, number))
        if number in self._freed:
            self._move(number, self.statement.take)
        self._rules.restore(self.options[number].candidate)
        return True

    def fits(self) -> Steps[bool]:
        """Whether the preemptor has all that it needs. Who may go is not asked here."""
        return self._rules.enough() and (yield from self._room.fits(self.gone))

    def allowed(self) -> bool:
        """Whether those that are gone may go together."""
        return self._rules.why([self.options[number].candidate for number in self.gone]) is not None

    def chosen(self) -> list[Costed]:
        return [self.options[number] for number in self.gone]

    def _move(self, number: int, change: Callable[[Rows, Amounts], None]) -> None:
        # The statement undoes the last change first, so this counts again when the amounts are what they were.
        recount = partial(self._room.recount, number)
        self.statement.on_drop(recount)
        change(*self._freed[number])
        recount()


MOST_TO_COMPARE = 24
"""Of up to so many candidates every choice is worth a look."""
EXCHANGES = 64
"""How many exchanges of one victim for another are tried where there are more candidates."""


def cheapest(
    victims: VictimSet, orders: Iterable[Sequence[int]], home: Collection[int], effort: int
) -> Steps[list[Costed] | None]:
    """The best that is found; None if nobody's eviction helps. In the end nobody is gone.

    ``orders`` in which candidates are given up are tried out, and of a few candidates every choice, as long as that
    costs no more than the ``effort``, in units of ``policies.steps``. So of a few candidates it is the best there is.
    """
    best: list[Costed] | None = None
    for order in orders:
        with victims.statement.open():
            found = yield from _in_order(victims, order)
        if found is not None and (best is None or cost(found, home) < cost(best, home)):
            best = found
    with victims.statement.open():
        if len(victims.options) > MOST_TO_COMPARE:
            return None if best is None else (yield from _exchanged(victims, best, home))
        every = _Every(victims, best, home, effort)
        yield from every.search()
    return every.best


def _in_order(victims: VictimSet, order: Sequence[int]) -> Steps[list[Costed] | None]:
    """One after the other goes until there is room. Then whoever is not needed comes back, the last one first: so
    nobody who comes late in the order goes where any number of those before it do."""
    fits, checks = False, 1
    for number in order:
        if number not in victims.gone and victims.may(number):
            victims.evict(number)
            if len(victims.gone) >= checks:
                checks *= 2
                if fits := (yield from victims.fits()):
                    break
    if not fits and not (yield from victims.fits()):
        return None
    yield from _restore_spare(victims, [number for number in reversed(order) if number in victims.gone])
    return victims.chosen() if victims.allowed() else None


def _restore_spare(victims: VictimSet, order: Sequence[int]) -> Steps[None]:
    """Restore whoever is not needed. It is tried with several at once: most often most of them are not."""
    at, block = 0, 1
    while at < len(order):
        with victims.statement.open():
            spare = not [number for number in order[at : at + block] if victims.restore(number)]
            if spare := spare or (yield from victims.fits()):
                victims.statement.commit()
        if spare:
            at, block = at + block, block * 2
        else:
            at, block = (at + 1, 1) if block == 1 else (at, block // 2)


def _exchanged(victims: VictimSet, best: list[Costed], home: Collection[int]) -> Steps[list[Costed]]:
    """Exchange victims for candidates that lose as much and are better to give up, as smaller ones are.

    The victim that is given up last is exchanged first. Workloads with a surplus are left as they are.
    """
    options, left, price = victims.options, EXCHANGES, cost(best, home)
    fixed = {*victims.rest, *victims.rest.values()}
    numbers = [at for at, one in enumerate(options) if one in best]
    for number in numbers:
        victims.evict(number)
    replaceable = [at for at in numbers if at not in fixed]
    for number in sorted(replaceable, key=lambda at: options[at].value, reverse=True):
        mine = options[number]
        loss = mine.priority, mine.unit, mine.hours
        others = [
            at
            for at, one in enumerate(options)
            if (one.priority, one.unit, one.hours) == loss
            and one.merit < mine.merit
            and at not in victims.gone
            and at not in fixed
        ]
        for other in sorted(others, key=lambda at: options[at].value)[:left]:
            left -= 1
            with victims.statement.open():
                victims.restore(number)
                if not victims.may(other):
                    continue
                victims.evict(other)
                found = victims.chosen()
                if cost(found, home) < price and (yield from victims.fits()) and victims.allowed():
                    victims.statement.commit()
                    best, price = found, cost(found, home)
                    break
    return best


class _Every:
    """Every choice that may be better than the best so far. Without any of the rest there must be room."""

    def __init__(self, victims: VictimSet, best: list[Costed] | None, home: Collection[int], effort: int) -> None:
        self.best = best
        self._victims = victims
        self._home = home
        self._cost: Cost | None = None if best is None else cost(best, home)
        self._left = effort
        options = victims.options
        by_value = sorted(range(len(options)), key=lambda at: options[at].value, reverse=True)
        # The rest of a workload is decided before its surplus.
        self._order = sorted(by_value, key=lambda at: at in victims.rest)

    def search(self) -> Steps[None]:
        for number in self._order:
            self._victims.evict(number)
        if (yield from self._victims.fits()):
            yield from self._from(0, [])

    def _from(self, at: int, chosen: list[Costed]) -> Steps[None]:
        """All choices for those from this one on in the order; the ones before it are decided, the others are gone."""
        self._left -= 1
        if self._left < 0 or (self._cost is not None and levels_of(chosen) > self._cost[1]):
            return
        if at == len(self._order):
            self._note(chosen)
            return
        number = self._order[at]
        with self._victims.statement.open():
            if self._victims.restore(number):
                fits, spent = yield from metered(self._victims.fits())
                self._left -= spent
                if fits:
                    yield from self._from(at + 1, chosen)
        yield from self._from(at + 1, [*chosen, self._victims.options[number]])

    def _note(self, chosen: list[Costed]) -> None:
        found = cost(chosen, self._home)
        if (self._cost is None or found < self._cost) and self._victims.allowed():
            self.best, self._cost = chosen, found
