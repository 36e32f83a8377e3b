"""Of those who may go the ones to evict: looked for in each domain that can be made to hold the whole plan."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from policies.chosen import Policies
from policies.placement.place import Placed, Shortfall, placing
from policies.placement.request import roles_of
from policies.placement.rules import Unclear
from policies.placement.snapshot import Snapshot
from policies.preemption.allowed import Why
from policies.preemption.candidates import Candidate, Request, Unit
from policies.preemption.cheapest import cheapest
from policies.preemption.costs import Cost, Costed, cost
from policies.preemption.counting import Ask, Counting, counted
from policies.preemption.domains import Target, targets
from policies.preemption.freed import Freed, without
from policies.preemption.trial import Rules, Trial
from policies.steps import BUDGET, Steps, metered

DOMAINS = 24
"""In so many domains, those where the least seems to be lost, the cheapest victims are looked for."""
_EFFORT = 4_000
"""What may be spent on comparing every choice of a few candidates by sums, in units of ``policies.steps``. Where
members are placed anew for each question that takes longer, and ``BUDGET`` counts."""


@dataclass(frozen=True, slots=True)
class Victims:
    """By name, each with the rule by which it may be evicted; what they cost; and the plan once they are gone."""

    candidates: tuple[Candidate, ...]
    why: Mapping[str, Why]
    cost: Cost
    nodes: Mapping[str, str]


class Chooser:
    """Whom to evict of a pool, in order of their names, of those who, if all of them went, would make room."""

    def __init__(
        self,
        request: Request,
        snapshot: Snapshot,
        pool: Sequence[Costed],
        freed: Freed,
        policies: Policies,
        rules: Rules,
    ) -> None:
        """``freed``: what each of the pool frees, of all lines."""
        self._request = request
        self._snapshot = snapshot
        self._pool = pool
        self._rules = rules
        self._freed = freed
        self._placing = Placing(request, snapshot, [one.candidate for one in pool], freed, policies)
        self._helpers = {at for at, one in enumerate(pool) if rules.helps(one.candidate)}

    def best(self) -> Steps[Victims | None]:
        """None if the rules forbid every choice."""
        asked, emptied = self._request, self._placing.without(range(len(self._pool)))
        roles = yield from roles_of(asked.pods, asked.caps, emptied, asked.beside)
        if not isinstance(roles, Unclear) and counted(roles):
            found = yield from self._by_counting(Ask(roles[0], asked.needed, asked.caps, self._snapshot))
            victims = None if found is None else (yield from self._planned(*found))
            if found is None or victims is not None:
                return victims
        trial = Trial(self._pool, self._placing, self._rules)
        by_value = sorted(range(len(self._pool)), key=lambda at: self._pool[at].value)
        gone = yield from cheapest(trial, [by_value], (), BUDGET)
        return None if gone is None else (yield from self._planned(cost(gone), gone))

    def _planned(self, price: Cost, gone: Sequence[Costed]) -> Steps[Victims | None]:
        """With the plan; None if it does not fit after all."""
        names = {one.name for one in gone}
        numbers = [at for at, one in enumerate(self._pool) if one.name in names]
        candidates = tuple(self._pool[at].candidate for at in numbers)
        found = yield from self._placing.plan(numbers)
        for one in candidates:
            self._rules.change(one, 1)
        why = self._rules.why(candidates)
        for one in candidates:
            self._rules.change(one, -1)
        return Victims(candidates, why, price, found.nodes) if why is not None and isinstance(found, Placed) else None

    def _by_counting(self, ask: Ask) -> Steps[tuple[Cost, list[Costed]] | None]:
        """The cheapest of all domains, where sums tell where there is room."""
        best: tuple[Cost, list[Costed]] | None = None
        effort = _EFFORT
        yield 50 + len(self._pool) // 4
        for tried, target in enumerate(targets(ask, self._pool, self._freed.of_lines(ask.lines))):
            if best is not None and (tried >= DOMAINS or _goes_no_higher(best[0], target.beyond)):
                break
            found, spent = yield from metered(self._inside(target, ask, effort))
            effort = max(0, effort - spent)
            if found is not None and (best is None or cost(found, target.home) < best[0]):
                best = cost(found, target.home), found
        return best

    def _inside(self, target: Target, ask: Ask, effort: int) -> Steps[list[Costed] | None]:
        """The cheapest in one domain."""
        numbers = self._concerned(target)
        options = [self._pool[number] for number in numbers]
        freed = {at: target.freed[number] for at, number in enumerate(numbers) if number in target.freed}
        trial = Trial(options, Counting(ask, target.rows, freed), self._rules)
        gains = [target.gains.get(number, 0) for number in numbers]
        yield 10 + len(target.rows) // 100 + len(numbers)
        return (yield from cheapest(trial, _orders(options, gains), target.home, effort))

    def _concerned(self, target: Target) -> list[int]:
        """Who has room in the domain; and who goes with them, or helps by what else it frees."""
        rests = {self._pool[number].name for number in target.freed if self._pool[number].unit is Unit.WORKLOAD}
        return [
            at
            for at, one in enumerate(self._pool)
            if at in target.freed or one.candidate.workload in rests or at in self._helpers
        ]


def _goes_no_higher(price: Cost, beyond: int | None) -> bool:
    """Whether nobody above that priority goes. Somebody may have to for the sake of quota, whatever nodes decide."""
    levels = price[1]
    return beyond is not None and (not levels or levels[0][0] <= beyond)


def _orders(options: Sequence[Costed], gains: Sequence[int]) -> Iterator[list[int]]:
    """Yield two orders of giving candidates up: by value, and by the loss for each member that gets room.

    In the second one the large ones go first, so that fewer go. Candidates whose room is of no use come last in both.
    """
    every = range(len(options))
    yield sorted(every, key=lambda at: (not gains[at], options[at].value))
    yield sorted(
        every,
        key=lambda at: (
            not gains[at],
            options[at].priority,
            options[at].hours / max(1, gains[at]),
            -gains[at],
            options[at].merit[:3],
            [-much for much in options[at].size],
            options[at].value,
        ),
    )


class Placing:
    """Numbers are those of the candidates, in their order. ``freed``: what each of them frees, of all lines."""

    def __init__(
        self, request: Request, snapshot: Snapshot, candidates: Sequence[Candidate], freed: Freed, policies: Policies
    ) -> None:
        self._request = request
        self._snapshot = snapshot
        self._candidates = candidates
        self._freed = freed
        self._policies = policies
        self._gone: dict[int, None] = {}

    def change(self, number: int, sign: int) -> None:
        """It goes, or with -1 it is put back."""
        if sign > 0:
            self._gone[number] = None
        else:
            del self._gone[number]

    def fits(self) -> Steps[bool]:
        """Whether all have a node now."""
        found = yield from self.plan(sorted(self._gone))
        return isinstance(found, Placed)

    def without(self, gone: Sequence[int]) -> Snapshot:
        """The cluster without these; their numbers ascend."""
        return without(self._snapshot, [self._candidates[number] for number in gone], self._freed.among(gone))

    def plan(self, gone: Sequence[int]) -> Steps[Placed | Shortfall]:
        """The plan without them, or what is lacking even so. Nobody needs no nodes."""
        asked = self._request
        if not asked.pods:
            return Placed({})
        view = self.without(gone)
        yield 20 + len(view.names) // 50
        return (yield from placing(asked.pods, asked.needed, view, asked.caps, asked.beside, self._policies))
