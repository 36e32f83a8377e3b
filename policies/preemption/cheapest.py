"""Choose the candidates whose eviction costs least, as far as the effort allows.

``Costed`` is the order of preference. A ``VictimSet`` is tried in a statement. It tells whether the preemptor has all
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
"""The bound for past use; a LocalQueue of weight 0 has used infinitely much."""

Level = tuple[int, int, int]
"""A priority with that of the queue, the device-hours that its victims lose, rounded down, and their number."""
Size = tuple[int, int, int]
"""Devices, cpu and memory."""
Cost = tuple[int, tuple[Level, ...], int, int, int, int, Size, int, tuple[str, ...]]
"""The cost of a set of victims, compared as a tuple; the smaller one is better.

In order: the highest unit; the loss at each priority, the highest first; the past use of their LocalQueues, negated;
the number of domains that are broken without need; the sum of ages in seconds, then of running times; their sizes;
their turns in their workloads; their names. Ages are only compared between sets of the same size, so the time of day
does not matter.
"""


class Costed:
    """A candidate with the cost of its eviction at one moment. ``domains``: those of the nearest level with its
    room."""

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
        """The order in which single candidates are given up."""
        return self.priority, self.unit, self.hours, *self.merit, self.name

    @property
    def merit(self) -> tuple[int, int, int, Size, int]:
        """The key that decides between two candidates with equal loss."""
        return -self.past, self.age, self.run, self.size, self.turn


def cost(gone: Sequence[Costed], home: Collection[int] = ()) -> Cost:
    """The cost of evicting all of them. ``home``: domains that the preemptor needs anyway."""
    broken: set[int] = set()
    for costed in gone:
        broken |= costed.domains
    return (
        max((costed.unit for costed in gone), default=Unit.POD),
        levels_of(gone),
        -sum(costed.past for costed in gone),
        len(broken.difference(home)),
        sum(costed.age for costed in gone),
        sum(costed.run for costed in gone),
        _added([costed.size for costed in gone]),
        sum(costed.turn for costed in gone),
        tuple(sorted(costed.name for costed in gone)),
    )


def _added(sizes: Sequence[Size]) -> Size:
    return sum(size[0] for size in sizes), sum(size[1] for size in sizes), sum(size[2] for size in sizes)


def levels_of(gone: Iterable[Costed]) -> tuple[Level, ...]:
    """The loss at each priority, the highest first."""
    sums: dict[int, tuple[int, int]] = {}
    for costed in gone:
        hours, count = sums.get(costed.priority, (0, 0))
        sums[costed.priority] = hours + costed.hours, count + 1
    return tuple((priority, *sums[priority]) for priority in sorted(sums, reverse=True))


class Room(Protocol):
    """Tells whether each member has a node, as candidates go and come back. Candidates are named by their numbers."""

    def recount(self, number: int) -> None:
        """Take note that the room of this candidate is free now, or is taken again."""
        ...

    def fits(self, gone: Collection[int]) -> Steps[bool]: ...


class Rules(Protocol):
    """Decides who may be evicted in addition to the victims so far, and whether that is enough apart from nodes."""

    def may(self, candidate: Candidate) -> bool:
        """Whether the candidate may be evicted now."""
        ...

    def evict(self, candidate: Candidate) -> None:
        """Count the candidate as evicted, and give its quota back in the statement."""
        ...

    def restore(self, candidate: Candidate) -> None:
        """Undo ``evict`` in any order."""
        ...

    def enough(self) -> bool:
        """Whether all is free that the preemptor needs apart from nodes."""
        ...

    def lack(self) -> str:
        """The part that is still lacking, for people; empty if none is."""
        ...

    def helps(self, candidate: Candidate) -> bool:
        """Whether the candidate's eviction frees a part of that."""
        ...

    def why(self, gone: Sequence[Candidate]) -> Mapping[str, Why] | None:
        """The rule for each victim, by name; None if they may not go together."""
        ...


class VictimSet:
    """The candidates that are evicted for trial. Numbers are those of the ``options``.

    The set changes the ``statement``. When the statement drops a block, the set is again as it was before.

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
        rest = {option.name: at for at, option in enumerate(options) if option.unit is Unit.WORKLOAD}
        self.rest = {
            at: rest[option.candidate.workload]
            for at, option in enumerate(options)
            if option.unit is Unit.SURPLUS and option.candidate.workload in rest
        }
        """The number of the rest of the workload for each surplus. If the rest goes, the surplus goes, too."""
        self._surplus: dict[int, list[int]] = {}
        for at, whole in self.rest.items():
            self._surplus.setdefault(whole, []).append(at)

    def may(self, number: int) -> bool:
        return self._rules.may(self.options[number].candidate)

    def evict(self, number: int) -> None:
        """Evict a candidate for trial, with its surplus."""
        for at in (*self._surplus.get(number, ()), number):
            if at not in self.gone:
                self.gone[at] = None
                self.statement.on_drop(partial(self.gone.pop, at))
                if at in self._freed:
                    self._move(at, self.statement.add)
                self._rules.evict(self.options[at].candidate)

    def restore(self, number: int) -> bool:
        """Restore a candidate. Returns whether that is possible: it is not while the rest of its workload is
        evicted."""
        if number not in self.gone or self.rest.get(number) in self.gone:
            return False
        del self.gone[number]
        self.statement.on_drop(partial(self.gone.setdefault, number))
        if number in self._freed:
            self._move(number, self.statement.take)
        self._rules.restore(self.options[number].candidate)
        return True

    def fits(self) -> Steps[bool]:
        """Whether the preemptor has all that it needs. The rules about victims are not checked here."""
        return self._rules.enough() and (yield from self._room.fits(self.gone))

    def allowed(self) -> bool:
        """Whether the victims may go together."""
        return self._rules.why([self.options[number].candidate for number in self.gone]) is not None

    def chosen(self) -> list[Costed]:
        return [self.options[number] for number in self.gone]

    def _move(self, number: int, change: Callable[[Rows, Amounts], None]) -> None:
        # The statement undoes the last change first, so the recount comes when the amounts are as before.
        recount = partial(self._room.recount, number)
        self.statement.on_drop(recount)
        change(*self._freed[number])
        recount()


MOST_TO_COMPARE = 24
"""Up to this number of candidates every choice is compared."""
EXCHANGES = 64
"""The most exchanges of one victim for another that are tried with more candidates."""


def cheapest(
    victims: VictimSet, orders: Iterable[Sequence[int]], home: Collection[int], effort: int
) -> Steps[list[Costed] | None]:
    """The best choice that is found; None if no eviction helps. In the end no candidate is evicted.

    ``orders``: in which candidates are given up; all are tried.
    ``effort``: in units of ``policies.steps``, what may be spent on comparing every choice of a few candidates. Within
    it the result is the best there is.
    """
    best: list[Costed] | None = None
    for order in orders:
        with victims.statement.open():
            victims_here = yield from _in_order(victims, order)
        if victims_here is not None and (best is None or cost(victims_here, home) < cost(best, home)):
            best = victims_here
    with victims.statement.open():
        if len(victims.options) > MOST_TO_COMPARE:
            return None if best is None else (yield from _exchanged(victims, best, home))
        every = _Every(victims, best, home, effort)
        yield from every.search()
    return every.best


def _in_order(victims: VictimSet, order: Sequence[int]) -> Steps[list[Costed] | None]:
    """Evict one candidate after another until there is room. Then restore all that are not needed, the last one first.

    So no candidate is evicted that any number of earlier ones in the order can replace.
    """
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
    """Restore victims that are not needed. Several are tried at once, since most often most of them are not needed."""
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

    The victim that is given up last is exchanged first. Workloads with a surplus are not exchanged.
    """
    options, left, price = victims.options, EXCHANGES, cost(best, home)
    fixed = {*victims.rest, *victims.rest.values()}
    numbers = [at for at, option in enumerate(options) if option in best]
    for number in numbers:
        victims.evict(number)
    replaceable = [at for at in numbers if at not in fixed]
    for number in sorted(replaceable, key=lambda at: options[at].value, reverse=True):
        mine = options[number]
        loss = mine.priority, mine.unit, mine.hours
        others = [
            at
            for at, option in enumerate(options)
            if (option.priority, option.unit, option.hours) == loss
            and option.merit < mine.merit
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
                exchanged = victims.chosen()
                if cost(exchanged, home) < price and (yield from victims.fits()) and victims.allowed():
                    victims.statement.commit()
                    best, price = exchanged, cost(exchanged, home)
                    break
    return best


class _Every:
    """Compares every choice that may be better than the best so far. With all candidates evicted there must be room."""

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
        """Try all choices for the candidates from this one on; earlier ones are decided, and later ones are evicted."""
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
        price = cost(chosen, self._home)
        if (self._cost is None or price < self._cost) and self._victims.allowed():
            self.best, self._cost = chosen, price
