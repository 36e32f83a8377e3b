"""Quota and nodes in one decision: a flavor is used only if it has quota and the plan fits on its nodes. Otherwise the
next flavor is tried."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from itertools import chain

from extender.core.causes import NoQuota, NoRoom, NotThisFlavor, Uncovered, Unplaced
from extender.core.explain.facts import Facts
from extender.core.ledger.backfill import Backfills
from extender.core.ledger.pending import Amounts
from extender.core.ledger.preemptions import Preemptions
from extender.core.ledger.queues import QueueSnapshot
from extender.core.ledger.quotas import Quotas
from extender.core.preemption.reclaim import end_preemptions
from extender.core.queue.demands import Demands, QuotaRequest, by_need, fewest_of
from extender.core.queue.line import Line
from extender.core.queue.planner import Changed, Plan, Planner
from extender.core.queue.shortfalls import Lack, Scope, Shortfalls
from extender.core.workload.shape import Demand, Flavoring, PodSetKey, Shape
from extender.core.workload.workload import Workload
from policies.model import Pod
from policies.model.queues import ClusterQueue, FlavorResource, ResourceGroup
from policies.quota.flavors import Assignment, Choices, Fit, Later, suits
from policies.quota.partial_admission import most_admitted
from policies.quota.parts import PodSetRequest, uncovered
from policies.quota.tree import QuotaNode, QuotaTree
from policies.statement import Statement
from policies.steps import Steps

_TRIES = 16
"""Assignments of flavors that are tried for one workload in one turn."""
_ASSIGN = 10
"""The cost of assigning flavors, in units of ``policies.steps``."""


@dataclass(frozen=True, slots=True)
class Refused:
    """Why a workload cannot be admitted, and for which others that is true.

    ``scope``: the workloads that the shortfall applies to.
    ``rests_on``: the shapes that were tried and had no room.
    ``waits_for``: as in ``extender.core.queue.shortfalls``.
    """

    lack: Lack
    cause: Unplaced
    scope: Scope
    rests_on: tuple[Shape, ...] = ()
    waits_for: Amounts | None = None


@dataclass(eq=False)
class QuotaPlans:
    """Plans for workloads that belong to a ClusterQueue."""

    _pods: Mapping[str, Pod]
    _quotas: Quotas
    _preemptions: Preemptions
    _backfills: Backfills
    _shortfalls: Shortfalls
    _facts: Facts
    _planner: Planner
    _demands: Demands

    def plan(
        self, workload: Workload, demand: Demand, shape: Shape, queue: ClusterQueue, line: Line
    ) -> Steps[Plan | Refused | Changed]:
        """Return a plan with its flavors, whose quota is there; or why there is none.

        ``line``: gets the workload again at a later turn if it only fits where it borrows from farther away.
        """
        outcome = yield from self._plan(workload, demand, shape, queue, line)
        if not isinstance(outcome, Refused) or outcome.lack is not Lack.ROOM or len(demand.pods) <= shape.needed:
            return outcome
        # There is quota for some pods, and the first ones find no room: others may.
        tried_as = dict.fromkeys(outcome.rests_on)
        made = workload.flavoring
        every = yield from self._try(workload, demand, demand.pods, shape, made, tried_as)
        if not isinstance(every, Plan):
            return every if isinstance(every, Changed) else replace(outcome, rests_on=(*tried_as,))
        if len(every.nodes) == len(demand.pods):
            return outcome
        again = yield from self._plan(workload, demand.among(every.nodes), shape, queue, line)
        return replace(outcome, rests_on=(*tried_as, *again.rests_on)) if isinstance(again, Refused) else again

    def _plan(
        self, workload: Workload, demand: Demand, shape: Shape, queue: ClusterQueue, line: Line
    ) -> Steps[Plan | Refused | Changed]:
        snapshot, quotas = self._quotas.queues.snapshot, self._quotas
        quota_request = QuotaRequest(workload, demand.pods, queue, snapshot)
        podsets = quota_request.podsets(demand.pods)
        if names := uncovered(queue, podsets):
            return Refused(Lack.QUOTA, NoQuota(Uncovered(queue.title, tuple(names))), queue.name, waits_for=())
        closed, later = quota_request.closed(), self._later(workload)
        choices: Choices[NotThisFlavor] = Choices(snapshot.tree, snapshot.flavors, queue, closed, later=later)
        fewest = fewest_of(workload, demand.pods, shape.needed)
        tried_as: dict[Shape, None] = {}
        pods = demand.pods
        with quotas.statement(workload.key):
            assignment = choices.first(podsets)
        last: Unplaced | None = None
        kinds = dict[type[Unplaced], None]()
        for _ in range(_TRIES):
            if assignment.fit is not Fit.FITS:
                with quotas.statement(workload.key):
                    pods, assignment = _fewer(
                        workload, demand.pods, fewest, lambda fewer: choices.first(quota_request.podsets(fewer))
                    )
            yield _ASSIGN
            if assignment.fit is not Fit.FITS:
                break
            if tried_as and line.postpone(workload, assignment.usage, assignment.level):
                return Changed()
            made = quota_request.flavorings(assignment)
            tried = yield from self._try(workload, demand, pods, shape, made, tried_as)
            if isinstance(tried, Plan | Changed):
                return tried if self._is_there(workload, queue, quota_request, tried, assignment) else Changed()
            last = tried
            kinds[type(tried)] = None
            with quotas.statement(workload.key):
                assignment = choices.after(assignment, quota_request.podsets(pods), tried)
        lack = Lack.QUOTA if last is None else Lack.ROOM
        least, promised = quota_request.podsets(fewest[0]), later is not None
        held = workload.job is not None and closed
        partial = len(fewest) > 1 or (lack is Lack.ROOM and len(fewest[0]) < len(demand.pods))
        with quotas.statement(workload.key):
            short = self._facts.shortage(workload, queue, least, choices.refused, last, promised=promised)
            known = None if held or partial else awaited(snapshot, queue, least, choices.refused, lack)
        # A problem of the workload itself appears with every flavor; if only room is lacking, another flavor may have
        # it.
        kind = next(iter(kinds)) if len(kinds) == 1 else NoRoom if kinds else NoQuota
        return Refused(lack, kind(short), queue.name, (*tried_as,), known)

    def _later(self, workload: Workload) -> Later | None:
        """Opens the quota as it will be when victims have gone and their preemptors have started; None without any."""
        if not self._preemptions.under_way.keys() - {workload.key}:
            return None

        @contextmanager
        def later() -> Iterator[QuotaTree]:
            statement = Statement(tree=self._quotas.queues.snapshot.tree, of_ledger=True)
            with statement.open():
                end_preemptions(self._pods, self._quotas, self._preemptions, statement, besides=workload.key)
                yield statement.tree

        return later

    def least(self, workload: Workload, demand: Demand, shape: Shape) -> Steps[tuple[Demand, Shape]]:
        """The demand for the pods that have to start together, and no others."""
        must = fewest_of(workload, demand.pods, shape.needed)[0]
        pods, shape = yield from self._demands.flavored(workload, must, shape, workload.flavoring)
        return Demand(demand.version, None, pods, shape), shape

    def level(self, workload: Workload, demand: Demand, queue: ClusterQueue) -> Assignment:
        """The assignment that the workload would get by quota alone."""
        snapshot = self._quotas.queues.snapshot
        quota_request = QuotaRequest(workload, demand.pods, queue, snapshot)
        choices: Choices[NotThisFlavor] = Choices(snapshot.tree, snapshot.flavors, queue, quota_request.closed())
        return choices.first(quota_request.podsets(demand.pods))

    def _try(
        self,
        workload: Workload,
        demand: Demand,
        pods: Sequence[Pod],
        shape: Shape,
        made: Mapping[PodSetKey, Flavoring],
        tried_as: dict[Shape, None],
    ) -> Steps[Plan | Unplaced | Changed]:
        """Plan these pods with the flavors in ``made``."""
        if workload.version != demand.version:
            return Changed()
        constrained, flavored = yield from self._demands.flavored(workload, pods, shape, made)
        if workload.version != demand.version:
            return Changed()
        tried_as[flavored] = None
        ready = self._preemptions.is_ready(workload.key) or workload.key in self._backfills
        if not ready and (known := self._shortfalls.get(flavored)) is not None:
            return known
        outcome = yield from self._planner.plan(
            workload, Demand(demand.version, None, constrained, flavored, made), flavored
        )
        if not isinstance(outcome, Plan | Changed):
            self._shortfalls.cache(Lack.ROOM, flavored, outcome)
        return outcome

    def _is_there(
        self,
        workload: Workload,
        queue: ClusterQueue,
        quota_request: QuotaRequest,
        plan: Plan | Changed,
        assignment: Assignment,
    ) -> bool:
        """Whether the quota of the plan is still there: other workloads may have used it while the plan was made."""
        if isinstance(plan, Changed):
            return True
        usage: dict[tuple[str, str], int] = {}
        for podset in quota_request.podsets(plan.pods):
            for resource, flavor in assignment.flavors[podset.name].items():
                usage[flavor, resource] = usage.get((flavor, resource), 0) + podset.requests.get(resource, 0)
        with self._quotas.statement(workload.key) as statement:
            return not statement.tree.lacks(queue.name, usage)


def _fewer(
    workload: Workload,
    pods: Sequence[Pod],
    fewest: Sequence[Sequence[Pod]],
    assign: Callable[[Sequence[Pod]], Assignment],
) -> tuple[tuple[Pod, ...], Assignment]:
    """Choose as many pods as there is quota for, including all that have to start together.

    ``fewest``: the choices of these, of which the first with quota counts.
    """
    ordered = by_need(workload, pods)

    def most_with(must: Sequence[Pod]) -> tuple[tuple[Pod, ...], Assignment]:
        needed = {pod.uid for pod in must}
        others = [pod.uid for pod in ordered if pod.uid not in needed]

        def chosen_with(count: int) -> tuple[Pod, ...]:
            chosen = needed.union(others[:count])
            return tuple(pod for pod in pods if pod.uid in chosen)

        count, best = most_admitted(len(others), lambda more: assign(chosen_with(more)))
        return chosen_with(count), best

    first = most_with(fewest[0])
    tried = chain([first], map(most_with, fewest[1:]))
    return next((choice for choice in tried if choice[1].fit is Fit.FITS), first)


def awaited(
    snapshot: QueueSnapshot,
    queue: ClusterQueue,
    podsets: Sequence[PodSetRequest],
    refused: Mapping[tuple[str, str], NotThisFlavor],
    lack: Lack,
) -> Amounts | None:
    """The quota that podsets wait for which have to start together, by flavor and resource.

    ``refused``: by podset and flavor, why the flavor was refused, or was tried and had no room. Returns None where one
    amount for each flavor is not enough to tell.
    """
    node = snapshot.tree.queues[queue.name]
    if lack is Lack.ROOM:
        # With several podsets or groups, the flavors of one do not show what was tried.
        if len(podsets) > 1 or len(queue.groups) > 1:
            return None
        return tuple(what for _, what in _of_flavors(snapshot, node, queue.groups[0], podsets[0], refused))
    for podset in podsets:
        for group in queue.groups:
            by_flavor = [*_of_flavors(snapshot, node, group, podset, refused)]
            if not any(there for there, _ in by_flavor) and any(podset.requests.get(name) for name in group.limited):
                return tuple(what for _, what in by_flavor)
    return None


def _of_flavors(
    snapshot: QueueSnapshot,
    node: QuotaNode,
    group: ResourceGroup,
    podset: PodSetRequest,
    refused: Mapping[tuple[str, str], NotThisFlavor],
) -> Iterator[tuple[bool, tuple[FlavorResource, int]]]:
    """Yield for each flavor that the podset might get with more quota: whether its whole request is there, and what
    lacks.

    The second is the first resource that lacks quota, or the first one of the request, with its amount.
    """
    wanted = {name: much for name in group.limited if (much := podset.requests.get(name, 0) * podset.count)}
    for name, quotas in group.flavors:
        flavor = snapshot.flavors.get(name)
        if flavor is None or (podset.name, name) in refused or not suits(flavor, podset.selection):
            continue
        if not wanted or any(
            what not in quotas or much > node.potential((name, what)) for what, much in wanted.items()
        ):
            continue
        short = [(resource, much) for resource, much in wanted.items() if much > node.left((name, resource))]
        resource, much = (short or [*wanted.items()])[0]
        yield not short, ((name, resource), much)
