"""Choose the victims for a workload such that all of it fits afterwards.

Victims are searched in each domain that can be made to hold the whole plan.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial

from policies.chosen import OURS, Policies
from policies.model.queues import ClusterQueue, Evicts, Usage
from policies.placement.place import Placed, Shortfall, placing
from policies.placement.request import roles_of
from policies.placement.rules import Unclear, seen_by
from policies.preemption.allowed import Budgets, Why, allowed
from policies.preemption.candidates import Candidate, Limits, Request, Unit
from policies.preemption.cheapest import Cost, Costed, Rules, VictimSet, cheapest, cost
from policies.preemption.domains import Ask, Counting, Target, counted, targets
from policies.preemption.freed import Freed, freed_by, hide, leave_out
from policies.preemption.lacking import lacking_on_nodes
from policies.preemption.reclaim import Queues, attempts
from policies.quota.flavors import Fit
from policies.statement import Statement
from policies.steps import BUDGET, Steps, finish, metered
from policies.words import listed, many

DOMAINS = 24
"""The most domains that are searched for the cheapest victims, those with the least expected loss first."""
_EFFORT = 4_000
"""The effort for comparing every choice of a few candidates by sums, in units of ``policies.steps``.

If each question takes a placement of all members, ``BUDGET`` is the limit instead.
"""


_NOBODY = "nothing may be evicted"


@dataclass(frozen=True, slots=True)
class Choice:
    """The victims of a workload.

    ``victims``: by name; empty if there is room already.
    ``why``: the rule by which each victim may be evicted, by name.
    ``nodes``: the plan that fits once they are gone, from the UID of a pod to its node.
    ``text``: for people.
    """

    victims: tuple[Candidate, ...]
    why: Mapping[str, Why]
    nodes: Mapping[str, str]
    text: str


@dataclass(frozen=True, slots=True)
class Refusal:
    """No eviction would help.

    ``why``: for people.
    ``nobody``: no candidate may be evicted.
    ``beside``: the text to add where the lack of room is already explained; empty: use ``text``.
    """

    why: str
    nobody: bool = False
    beside: str = field(default="", compare=False)

    @property
    def text(self) -> str:
        return f"{_NOBODY}: {self.why}" if self.nobody else self.why


def search(
    request: Request,
    statement: Statement,
    candidates: Sequence[Candidate],
    limits: Limits,
    policies: Policies = OURS,
    queues: Queues | None = None,
) -> Choice | Refusal:
    """Run ``searching`` at once. The statement stays unchanged."""
    with statement.open():
        return finish(searching(request, statement, candidates, limits, policies, queues))


def searching(
    request: Request,
    statement: Statement,
    candidates: Sequence[Candidate],
    limits: Limits,
    policies: Policies = OURS,
    queues: Queues | None = None,
) -> Steps[Choice | Refusal]:
    """Return the victims with the least cost (``Costed``), and the plan that fits once they are gone.

    The plan has nodes and, with ``queues``, quota. The search tries evictions in the statement. Its quota tree has the
    usage of all candidates, and not that of the request. For a few candidates, and members of one shape, the choice is
    the best there is. For many candidates it is a good one, without any unnecessary victim.
    """
    tree = statement.tree
    by_queue = queues if request.queue in tree.queues else None
    known = {} if by_queue is None else {name: by_queue.queues[name] for name in tree.around(request.queue)}
    statement.show(seen_by([*request.pods, *[pod for pod, _ in request.beside]], statement.snapshot))
    snapshot = statement.snapshot
    may = allowed(request, candidates, limits, known)
    chosen = sorted(may.candidates, key=lambda candidate: candidate.name)
    freed = freed_by(chosen, snapshot)
    yield len(chosen)
    rules: Sequence[Sequence[Rules]] = [[Budgets(statement, limits)]]
    if by_queue is not None:
        on_nodes = (yield from lacking_on_nodes(request, statement, chosen, freed)) if request.pods else {}
        rules = attempts(request, statement, by_queue, limits, on_nodes)
    placing = Placing(request, statement, chosen, freed, policies)
    plan = yield from placing.plan(())
    if isinstance(plan, Placed) and any(rule.enough() for group in rules for rule in group):
        return Choice((), {}, plan.nodes, "it fits without an eviction")
    options = [Costed(candidate, limits.now, snapshot) for candidate in chosen]
    for most in Unit:
        numbers = [at for at, option in enumerate(options) if option.unit <= most]
        if not any(options[at].unit == most for at in numbers):
            continue
        plan = yield from placing.plan(numbers)
        if isinstance(plan, Placed):
            pool = [options[at] for at in numbers]
            choose = partial(Chooser, request, statement, pool, freed.among(numbers), policies)
            victims = yield from _first(rules, choose)
            if victims is not None:
                return Choice(victims.candidates, victims.why, victims.nodes, _summary(victims.candidates))
    lack = _near(plan) if isinstance(plan, Shortfall) else _lacking(rules, options)
    above = "" if queues is None or queues.fair else _above_threshold(request, chosen, known)
    return _refused(request, lack, len(chosen), may.protected, above, of_room=isinstance(plan, Shortfall))


def _first(rules: Sequence[Sequence[Rules]], choose: Callable[[Rules], Chooser]) -> Steps[Victims | None]:
    """The cheapest victims by the first list of rules that allow any."""
    for alternatives in rules:
        results = []
        for option in alternatives:
            victims = yield from choose(option).best()
            if victims is not None:
                results.append(victims)
        if results:
            return min(results, key=lambda victims: victims.cost)
    return None


def _summary(victims: Sequence[Candidate]) -> str:
    return f"evicts {many(len(victims), 'victim')}: {listed(candidate.name for candidate in victims)}"


def _near(shortfall: Shortfall) -> str:
    near = "" if shortfall.nearest is None else f"{shortfall.nearest.text}; "
    return f"{shortfall.placed} of {shortfall.needed} members fit at once: {near}{shortfall.explanation}"


def _lacking(rules: Sequence[Sequence[Rules]], options: Sequence[Costed]) -> str:
    """The quota that is lacking in the last attempt with all of these evicted; empty if none is."""
    last = rules[-1][0]
    for option in options:
        last.evict(option.candidate)
    return last.lack()


def _above_threshold(request: Request, candidates: Sequence[Candidate], queues: Mapping[str, ClusterQueue]) -> str:
    """Tell how many candidates a threshold protects if the queue has to borrow in the end; empty if none."""
    if (own := queues.get(request.queue)) is None or (threshold := own.preemption.threshold) is None:
        return ""
    others = [candidate.priority for candidate in candidates if candidate.queue != own.name]
    count = sum(threshold < priority < request.priority for priority in others)
    if not count or own.preemption.borrow is Evicts.NEVER:
        return ""
    text = f"borrowWithinCohort.maxPriorityThreshold of queue {own.name} is {threshold}"
    return f"; {many(count, 'candidate')} may not if it has to borrow: {text}"


def _refused(
    request: Request, lack: str, count: int, protected: Mapping[str, int], above: str, *, of_room: bool
) -> Refusal:
    """The refusal for a request. ``of_room``: nodes are lacking, not quota."""
    if not request.preempts:
        return Refusal(f"the preemptionPolicy of its PriorityClass is Never{above}")
    those, others = f"the {many(count, 'candidate')} that may be evicted for it", _protection(protected) + above
    if not lack:
        return Refusal(f"of {those}, not enough may go together{others}")
    if count:
        return Refusal(f"even without {those}: {lack}{others}")
    return Refusal(lack + others, nobody=True, beside=_NOBODY + others if of_room else "")


def _protection(protected: Mapping[str, int]) -> str:
    """Tell who may not be evicted, the most frequent reason first."""
    most_first = sorted(protected.items(), key=lambda reason_count: (-reason_count[1], reason_count[0]))
    reasons_text = listed(f"{many(much, 'candidate')} may not: {why}" for why, much in most_first)
    return f"; {reasons_text}" if reasons_text else ""


def offered(statement: Statement, queue: str, usage: Usage, choice: Choice) -> tuple[Fit, int]:
    """Whether only workloads of other queues are evicted, and how far away the queue borrows once they are gone."""
    with statement.open():
        for victim in choice.victims:
            statement.give_back(victim.queue, victim.usage)
        level = max((statement.tree.level(queue, what, amount)[0] for what, amount in usage.items()), default=0)
    own = any(victim.queue == queue for victim in choice.victims)
    return (Fit.PREEMPT if own else Fit.RECLAIM), level


@dataclass(frozen=True, slots=True)
class Victims:
    """Victims by name, with the rule for each, their cost, and the plan once they are gone."""

    candidates: tuple[Candidate, ...]
    why: Mapping[str, Why]
    cost: Cost
    nodes: Mapping[str, str]


class Chooser:
    """Chooses victims in a pool that makes room if all of it goes. The pool is in the order of names."""

    def __init__(
        self,
        request: Request,
        statement: Statement,
        pool: Sequence[Costed],
        freed: Freed,
        policies: Policies,
        rules: Rules,
    ) -> None:
        """``freed``: the room that each candidate of the pool frees, in all lines."""
        self._request = request
        self._statement = statement
        self._pool = pool
        self._rules = rules
        self._freed = freed
        self._by_owner = freed.by_owner()
        self._placing = Placing(request, statement, [costed.candidate for costed in pool], freed, policies)
        self._helpers = {at for at, costed in enumerate(pool) if rules.helps(costed.candidate)}

    def best(self) -> Steps[Victims | None]:
        """The cheapest victims; None if the rules forbid every choice."""
        request, statement = self._request, self._statement
        with statement.open():
            leave_out(statement, [costed.candidate for costed in self._pool], self._freed)
            roles = yield from roles_of(request.pods, request.caps, statement.snapshot, request.beside)
        if not isinstance(roles, Unclear) and counted(roles):
            counted_victims = yield from self._by_counting(
                Ask(roles[0], request.needed, request.caps, statement.snapshot)
            )
            planned = None if counted_victims is None else (yield from self._planned(*counted_victims))
            if counted_victims is None or planned is not None:
                return planned
        victims = VictimSet(self._pool, statement, self._by_owner, self._placing, self._rules)
        by_value = sorted(range(len(self._pool)), key=lambda at: self._pool[at].value)
        gone = yield from cheapest(victims, [by_value], (), BUDGET)
        return None if gone is None else (yield from self._planned(cost(gone), gone))

    def _planned(self, price: Cost, gone: Sequence[Costed]) -> Steps[Victims | None]:
        """Add the plan to victims; None if it does not fit after all."""
        names = {costed.name for costed in gone}
        numbers = [at for at, costed in enumerate(self._pool) if costed.name in names]
        candidates = tuple(self._pool[at].candidate for at in numbers)
        plan = yield from self._placing.plan(numbers)
        with self._statement.open():
            for candidate in candidates:
                self._rules.evict(candidate)
            why = self._rules.why(candidates)
        return Victims(candidates, why, price, plan.nodes) if why is not None and isinstance(plan, Placed) else None

    def _by_counting(self, ask: Ask) -> Steps[tuple[Cost, list[Costed]] | None]:
        """The cheapest victims over all domains, if sums are enough to decide about room."""
        best: tuple[Cost, list[Costed]] | None = None
        effort = _EFFORT
        yield 50 + len(self._pool) // 4
        for tried, target in enumerate(targets(ask, self._pool, self._freed.of_lines(ask.lines))):
            if best is not None and (tried >= DOMAINS or _goes_no_higher(best[0], target.beyond)):
                break
            priced, spent = yield from metered(self._inside(target, ask, effort))
            effort = max(0, effort - spent)
            if priced is not None and (best is None or cost(priced, target.home) < best[0]):
                best = cost(priced, target.home), priced
        return best

    def _inside(self, target: Target, ask: Ask, effort: int) -> Steps[list[Costed] | None]:
        """The cheapest victims for one domain."""
        numbers = self._concerned(target)
        options = [self._pool[number] for number in numbers]
        freed = {at: target.freed[number] for at, number in enumerate(numbers) if number in target.freed}
        all_freed = {at: self._by_owner[number] for at, number in enumerate(numbers) if number in self._by_owner}
        victims = VictimSet(options, self._statement, all_freed, Counting(ask, target.rows, freed), self._rules)
        gains = [target.gains.get(number, 0) for number in numbers]
        yield 10 + len(target.rows) // 100 + len(numbers)
        return (yield from cheapest(victims, _orders(options, gains), target.home, effort))

    def _concerned(self, target: Target) -> list[int]:
        """Candidates with room in the domain, candidates that go with them, and candidates that free other needed
        things."""
        rests = {self._pool[number].name for number in target.freed if self._pool[number].unit is Unit.WORKLOAD}
        return [
            at
            for at, costed in enumerate(self._pool)
            if at in target.freed or costed.candidate.workload in rests or at in self._helpers
        ]


def _goes_no_higher(price: Cost, beyond: int | None) -> bool:
    """Whether no victim has a priority above ``beyond``. A lack of quota may need one, whatever nodes decide."""
    levels = price[1]
    return beyond is not None and (not levels or levels[0][0] <= beyond)


def _orders(options: Sequence[Costed], gains: Sequence[int]) -> Iterator[list[int]]:
    """Yield two orders of giving candidates up: by value, and by the loss for each member that gets room.

    In the second one large candidates go first, so that fewer go. Candidates without useful room come last in both.
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
    """Places the request without some candidates. Numbers are those of the candidates, in their order.

    ``freed``: the room that each candidate frees, in all lines.
    """

    def __init__(
        self,
        request: Request,
        statement: Statement,
        candidates: Sequence[Candidate],
        freed: Freed,
        policies: Policies,
    ) -> None:
        self._request = request
        self._statement = statement
        self._candidates = candidates
        self._freed = freed
        self._policies = policies

    def recount(self, number: int) -> None:
        """Do nothing, since nothing is counted: ``fits`` looks at the statement."""

    def fits(self, gone: Collection[int]) -> Steps[bool]:
        """Whether all members have a node now. The room of the evicted candidates is free already."""
        with self._statement.open():
            hide(self._statement, [self._candidates[number] for number in gone])
            place = yield from self._place()
        return isinstance(place, Placed)

    def plan(self, gone: Sequence[int]) -> Steps[Placed | Shortfall]:
        """The plan without these candidates, or what is lacking even so. Their numbers ascend."""
        with self._statement.open():
            leave_out(self._statement, [self._candidates[number] for number in gone], self._freed.among(gone))
            return (yield from self._place())

    def _place(self) -> Steps[Placed | Shortfall]:
        """Place the request; a request without pods needs no nodes."""
        request, view = self._request, self._statement.snapshot
        if not request.pods:
            return Placed({})
        yield 20 + len(view.names) // 50
        return (yield from placing(request.pods, request.needed, view, request.caps, request.beside, self._policies))
