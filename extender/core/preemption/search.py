"""The victim search for one workload: gathers candidates and asks the search, in a queue flavor by flavor."""

from __future__ import annotations

import math
from collections.abc import Container, Mapping, Sequence
from dataclasses import dataclass, field, replace

from extender.core.ledger.pending import Pending
from extender.core.ledger.preemptions import Preemptions
from extender.core.ledger.quotas import Quotas
from extender.core.ledger.store import Process
from extender.core.limits import Limits
from extender.core.preemption.candidates import Candidates, Concerns
from extender.core.preemption.reclaim import Option, Reclaiming
from extender.core.queue.demands import Demands, left_short, placed_beside, to_complete
from extender.core.queue.planner import Planner, Statements
from extender.core.workload.shape import Demand, Shape
from extender.core.workload.workload import Workload
from policies.model import GroupKey, Pod, Victim
from policies.model.queues import ClusterQueue, Usage
from policies.placement.request import Sibling
from policies.preemption.candidates import Candidate, Request
from policies.preemption.candidates import Limits as Protection
from policies.preemption.reclaim import Queues
from policies.preemption.victims import Choice, Refusal, searching
from policies.statement import Statement
from policies.steps import Steps, finish

_OPTIONS = 4
"""Assignments of flavors that are searched for one workload."""


@dataclass(frozen=True, slots=True)
class Found:
    """The result of a victim search.

    ``chosen``: the victims, or why there are none; None if no flavor can be had by evicting.
    ``pods``: the pods that start then.
    ``usage``: the quota that they use.
    ``victims``: the victims as a reservation names them.
    ``ripe_at``: when the next candidate has run for its minimum, in seconds since the epoch.
    ``lowest``: the lowest priority of all candidates; None in a queue.
    ``level``: the distance from which its queue borrows then.
    """

    chosen: Choice | Refusal | None = None
    pods: Sequence[Pod] = ()
    usage: Usage = field(default_factory=dict)
    victims: Sequence[Victim] = ()
    ripe_at: float = math.inf
    lowest: int | None = None
    level: int = 0


@dataclass(eq=False)
class VictimSearch:
    """Searches victims. ``find`` takes up to tens of milliseconds for each set of flavors, and changes nothing.

    ``tells``: the search is for people. A refusal counts protected workloads as well, and all is done in small steps:
    nothing is evicted on what was found, so candidates may be of different moments.
    """

    _limits: Limits
    _process: Process
    _pods: Mapping[str, Pod]
    _workloads: Mapping[GroupKey, Workload]
    _quotas: Quotas
    _preemptions: Preemptions
    _pending: Pending
    _candidates: Candidates
    _statements: Statements
    _planner: Planner
    _demands: Demands
    _tells: bool = field(default=False, kw_only=True)

    def find(self, workload: Workload, demand: Demand, shape: Shape, now: float) -> Steps[Found | None]:
        """Search victims for a workload; None if it has changed meanwhile.

        Candidates are as of now: events are handled before they are gathered, and not after.
        """
        beside, whole_demand = (yield from placed_beside(workload, self._workloads)), demand
        if workload.current_demand is not whole_demand:
            return None
        if workload.incomplete:
            # Victims are evicted only for members that complete the quorum, and for none beyond it.
            demand = demand.among({pod.identity for pod in to_complete(workload, demand.pods)})
            shape = replace(shape, needed=len(demand.pods))
        if (queue := self._quotas.queue_of(workload.key)) is None:
            yield 100 + len(self._pods) // 8
            if workload.current_demand is not whole_demand:
                return None
            least = left_short(workload, demand.pods, ())
            alone = Option(least or demand.pods, shape, {}, len(least) or shape.needed)
            return (yield from self._paced(self._search(workload, alone, beside, None, now)))
        reclaiming = self._reclaiming(workload, demand, queue, now)
        outcome = yield from self._by_options(reclaiming, workload, demand, shape, beside, now)
        if workload.version != demand.version:
            return None
        if outcome is None or not isinstance(outcome.chosen, Refusal) or not outcome.usage:
            return outcome
        if len(demand.pods) <= shape.needed or len(shape.roles) < 2:
            return outcome
        # The first pods find no nodes, whatever victims go. Others may.
        every = Option(demand.pods, shape, outcome.usage, shape.needed)
        reach = reclaiming.reach(outcome.usage)
        search_every = self._search(workload, every, beside, reclaiming, now, reach)
        chosen = (yield from self._paced(search_every)).chosen
        if not isinstance(chosen, Choice) or left_short(workload, demand.pods, chosen.nodes):
            return outcome
        placed_demand = demand.among({pod.identity for pod in demand.pods if pod.uid in chosen.nodes})
        reclaiming = self._reclaiming(workload, placed_demand, queue, now)
        again = yield from self._by_options(reclaiming, workload, placed_demand, shape, beside, now)
        return outcome if again is not None and isinstance(again.chosen, Refusal) else again

    def _reclaiming(self, workload: Workload, demand: Demand, queue: ClusterQueue, now: float) -> Reclaiming:
        by_quota = _ByQuota(self._quotas, self._candidates, workload, self._protection(now - self._process.wall_offset))
        return Reclaiming(
            self._limits,
            self._pods,
            self._workloads,
            self._quotas,
            self._preemptions,
            self._pending,
            self._demands,
            workload,
            demand,
            queue,
            by_quota.find,
            in_steps=self._tells,
        )

    def _by_options(
        self,
        reclaiming: Reclaiming,
        workload: Workload,
        demand: Demand,
        shape: Shape,
        beside: Sequence[Sibling],
        now: float,
    ) -> Steps[Found | None]:
        """Search victims for the first pods that can start together, by one assignment of flavors after the other."""
        outcome, why, version, queues = Found(), "", self._quotas.version, self._quotas.queues.snapshot
        for _ in range(_OPTIONS):
            option = yield from reclaiming.next(shape, why)
            # A preview for people may be a moment old, as long as there are the same queues.
            same = self._quotas.queues.snapshot is queues if self._tells else self._quotas.version == version
            if workload.version != demand.version or not same:
                return None
            if option is None:
                break
            reach = reclaiming.reach(option.usage)
            if not self._tells and (why := reclaiming.hopeless(option.usage, reach)):
                outcome = Found(Refusal(why))
                continue
            outcome = yield from self._paced(self._search(workload, option, beside, reclaiming, now, reach))
            if isinstance(outcome.chosen, Choice):
                outcome = replace(outcome, level=reclaiming.level(option.usage, outcome.chosen))
            if not isinstance(outcome.chosen, Refusal):
                break
            why = outcome.chosen.text
            yield 100 + len(self._pods) // 8
        return outcome

    def _protection(self, wall: float) -> Protection:
        often = self._limits.evictions_per_hour or None
        return Protection(wall, self._limits.min_runtime_s, often, self._candidates.budgets_left())

    def _paced(self, steps: Steps[Found]) -> Steps[Found]:
        """Run the steps as a single one, unless the search is for people."""
        return (yield from steps) if self._tells else finish(steps)

    def _search(
        self,
        workload: Workload,
        option: Option,
        beside: Sequence[Sibling],
        reclaiming: Reclaiming | None,
        now: float,
        reach: Container[str] = (),
    ) -> Steps[Found]:
        """Search victims for one option."""
        queues = None if reclaiming is None else reclaiming.queues
        wall, shape, priority = now - self._process.wall_offset, option.shape, workload.priority
        concerns = (lambda *_: True) if self._tells else _concerns(priority, queues, reach)
        units = yield from self._candidates.find(concerns, wall, related=shape.related)
        others = (yield from self._candidates.protected()) if self._tells else []
        request = Request(
            str(workload.key),
            option.pods,
            option.needed,
            priority,
            since=workload.created,
            queue=self._quotas.members.queue_of(workload.key) or "",
            usage=option.usage,
            caps=shape.caps,
            beside=beside,
        )
        least = self._limits.min_runtime_s
        candidates = [*(candidate for candidate, _ in units), *others]
        tree = None if reclaiming is None else self._quotas.queues.snapshot.tree
        if tree is not None and self._tells:
            tree = tree.copy()  # others use the tree between two steps
        with self._statements.of(workload, tree) as statement:
            if reclaiming is not None:
                reclaiming.prepare(statement)
            with statement.open():
                protection, policies = self._protection(wall), self._planner.policies
                chosen = yield from searching(request, statement, candidates, protection, policies, queues)
        named = {candidate.name: victim for candidate, victim in units}
        victims = [named[candidate.name] for candidate in chosen.victims] if isinstance(chosen, Choice) else []
        ripe_at = min(
            _ripe_at([candidate for candidate, _ in units], least, wall),
            self._preemptions.evictions.next_forgotten(wall),
        )
        lowest = min((candidate.priority for candidate, _ in units), default=priority) if queues is None else None
        return Found(chosen, option.pods, option.usage, victims, ripe_at, lowest)


@dataclass(eq=False)
class _ByQuota:
    """Finds victims of one workload for quota alone, on whatever nodes. Candidates are gathered at the first call."""

    _quotas: Quotas
    _candidates: Candidates
    _workload: Workload
    _protection: Protection

    def __post_init__(self) -> None:
        self._in_queues: list[Candidate] | None = None

    def find(self, usage: Usage, statement: Statement, queues: Queues) -> Steps[Choice | Refusal]:
        workload, queue = self._workload, self._quotas.members.queue_of(self._workload.key) or ""
        if self._in_queues is None:
            concerns = _concerns(workload.priority, queues, queues.queues)
            everybody = yield from self._candidates.find(concerns, self._protection.now, related=False)
            self._in_queues = [candidate for candidate, _ in everybody if candidate.queue]
        candidates = [candidate for candidate in self._in_queues if candidate.usage.keys() & usage.keys()]
        request = Request(str(workload.key), (), 0, workload.priority, since=workload.created, queue=queue, usage=usage)
        with statement.open():
            return (yield from searching(request, statement, candidates, self._protection, queues=queues))


def _concerns(priority: int, queues: Queues | None, reach: Container[str]) -> Concerns:
    """The test whether a candidate matters. In a queue its rules decide, else the priority."""
    return lambda of, queue: of < priority if queues is None or not queue else queue in reach


def _ripe_at(candidates: Sequence[Candidate], least: float, wall: float) -> float:
    ends = (
        candidate.started + (least if candidate.min_runtime_s is None else candidate.min_runtime_s)
        for candidate in candidates
        if candidate.started is not None
    )
    return min((at for at in ends if at > wall), default=math.inf)
