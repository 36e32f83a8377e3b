"""Victims for a workload of a ClusterQueue, by the rules of its queue: quota and nodes are freed together."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

from extender.core.causes import NotThisFlavor
from extender.core.ledger.claims import Claims
from extender.core.ledger.pending import Pending
from extender.core.ledger.preemptions import Preemption, Preemptions
from extender.core.ledger.quotas import Quotas, Use
from extender.core.limits import Limits
from extender.core.preemption.candidates import gang_of
from extender.core.queue.demands import Demands, QuotaRequest, in_whole_slices
from extender.core.queue.line import requested
from extender.core.workload.shape import Demand, Shape, flavors_of_node
from extender.core.workload.workload import Workload
from policies.model import GroupKey, Pod, Requests, Victim
from policies.model.queues import ClusterQueue, Evicts, FairStrategy, FlavorResource, Usage
from policies.preemption.allowed import forbids
from policies.preemption.candidates import Candidate, Request, Unit
from policies.preemption.candidates import Limits as Protection
from policies.preemption.reclaim import Queues, Reclaim
from policies.preemption.victims import Choice, Refusal, offered
from policies.quota.flavors import Assignment, Choices, Fit
from policies.quota.proportion import deserve
from policies.statement import Statement
from policies.steps import Steps, finish

_FAIR = (FairStrategy.FINAL, FairStrategy.INITIAL)
"""The fair-sharing strategies that Kueue takes by default, in its order."""


ByQuota = Callable[[Usage, Statement, Queues], Steps[Choice | Refusal]]


@dataclass(frozen=True, slots=True)
class Option:
    """Flavors for which victims may be evicted.

    ``pods``: the pods that may start, restricted to nodes of these flavors.
    ``shape``: their shape.
    ``usage``: the quota that they would use.
    ``needed``: how many of them have to start.
    """

    pods: Sequence[Pod]
    shape: Shape
    usage: Usage
    needed: int


class Reclaiming:
    """The options of one workload, in the order of trial.

    ``by_quota``: finds victims for quota alone.
    ``in_steps``: others may use the ledger's quota between two steps of ``next``, which works on a copy.
    """

    def __init__(
        self,
        limits: Limits,
        pods: Mapping[str, Pod],
        workloads: Mapping[GroupKey, Workload],
        quotas: Quotas,
        preemptions: Preemptions,
        pending: Pending,
        demands: Demands,
        workload: Workload,
        demand: Demand,
        queue: ClusterQueue,
        by_quota: ByQuota,
        *,
        in_steps: bool,
    ) -> None:
        self._limits = limits
        self._workloads = workloads
        self._quotas = quotas
        self._by_quota = by_quota
        self._demands = demands
        self._workload = workload
        self._demand = demand
        self._queue = queue
        self._pods = pods
        self._preemptions = preemptions
        snapshot, self._fair = quotas.queues.snapshot, limits.fair_sharing
        self._in_steps = in_steps
        self._tree = snapshot.tree.copy() if in_steps else snapshot.tree
        self._requested = requested(workloads, quotas, pending) if queue.open else None
        self._request = QuotaRequest(workload, demand.pods, queue, snapshot)
        self._choices: Choices[NotThisFlavor | str] = Choices(
            self._tree, snapshot.flavors, queue, self._request.closed(), self._preempts, fair=self._fair
        )
        self._tried: Assignment | None = None

    def prepare(self, statement: Statement) -> None:
        """Change the statement to the quota that this workload can try: its own is free, preemptions have ended."""
        end_preemptions(self._pods, self._quotas, self._preemptions, statement)
        if self._requested is not None:
            deserve(statement, self._queue.name, self._requested)
        self._quotas.give_back_own(statement, self._workload.key)

    @contextmanager
    def _statement(self) -> Iterator[Statement]:
        statement = Statement(tree=self._tree, of_ledger=True)
        with statement.open():
            self.prepare(statement)
            yield statement

    @property
    def queues(self) -> Queues:
        """The facts about queues that the victim search needs."""
        known, saturation = self._quotas.queues.snapshot.queues, self._limits.saturation
        queues = {name: known[name] for name in self._tree.around(self._queue.name)}
        return Queues(queues, _FAIR if self._fair else (), saturation)

    def next(self, shape: Shape, why: str) -> Steps[Option | None]:
        """The best option not tried yet; None when none is left, or the workload has changed.

        ``why``: why the last option did not do.
        """
        workload = self._workload
        if workload.version != self._demand.version:
            return None
        must = in_whole_slices(workload, self._demand.pods, shape)
        podsets = self._request.podsets(must)
        with self._statement() as self._trying:
            steps = self._choices.choosing(podsets, self._tried, why)
            assignment = (yield from steps) if self._in_steps else finish(steps)
        if not self._choices.will_do(assignment):
            return None
        self._tried = assignment
        pods, flavored = yield from self._demands.flavored(workload, must, shape, self._request.flavorings(assignment))
        return Option(pods, flavored, assignment.usage, len(pods)) if workload.version == self._demand.version else None

    def reach(self, usage: Usage) -> Collection[str]:
        """The queues whose workloads may be evicted for that quota, as far as their rules and usage tell."""
        queues, own, pods = self.queues, self._queue, self._demand.pods
        request = Request(str(self._workload.key), pods, 0, self._workload.priority, queue=own.name, usage=usage)
        alone = not self._may_evict_in_queue(own.preemption.within)
        with self._statement() as statement:
            reclaim = Reclaim(request, statement, queues, Protection(), fair=queues.fair)
            return {name for name in queues.queues if reclaim.reaches(name, alone=alone)}

    def hopeless(self, usage: Usage, reach: Collection[str]) -> str:
        """Why no eviction gives the workload the quota that it lacks; empty if one may, or if it lacks none.

        Only rules and usage of queues are compared. For example, it would borrow, and no workload of its own queue may
        be evicted.
        """
        rules, own = self._queue.preemption, self._tree.queues[self._queue.name]
        with self._statement() as statement:
            lacks = statement.tree.lacks(own.name, usage)
            near = any(statement.tree.level(own.name, what, usage[what])[0] < own.root.height for what in lacks)
        if not lacks or own.name in reach:
            return ""
        if self._fair:
            others = "no other queue borrows with so large a share"
            return "" if reach else f"nothing may be evicted: {others}, and nothing in queue {own.name} may go"
        if rules.borrow is not Evicts.NEVER or (near and rules.reclaim is not Evicts.NEVER):
            return ""
        return f"nothing may be evicted: queue {own.name} would use more than its own, and nothing in it may go"

    def level(self, usage: Usage, choice: Choice) -> int:
        """The distance from which its queue borrows that quota once the victims have gone."""
        with self._statement() as statement:
            return offered(statement, self._queue.name, usage, choice)[1]

    def _may_evict_in_queue(self, policy: Evicts) -> bool:
        """Whether a workload in its own queue has a priority that the policy lets it evict."""
        least = self._workload.priority + (policy is Evicts.LOWER_OR_NEWER)
        workloads, members = self._workloads, self._quotas.members.of(self._queue.name)
        return policy is not Evicts.NEVER and any(workloads[key].priority < least for key in members)

    def _preempts(self, queue: ClusterQueue, what: FlavorResource, amount: int) -> Steps[tuple[Fit, int]]:
        """Rank a flavor that lacks quota, by the victims for that quota alone; it comes last if there are none.

        With one flavor only, all that counts is whether the queue may evict at all.
        """
        if not evicts(queue):
            return Fit.NO_CANDIDATES, 0
        if not any(len(group.flavors) > 1 for group in queue.groups if what[0] in dict(group.flavors)):
            return Fit.PREEMPT, 0
        victims = yield from self._by_quota({what: amount}, self._trying, self.queues)
        if isinstance(victims, Choice):
            return offered(self._trying, queue.name, {what: amount}, victims)
        return Fit.PREEMPT, self._tree.queues[queue.name].root.height + 1


def evicts(queue: ClusterQueue) -> bool:
    """Whether its rules let the queue evict any workload of a queue."""
    rules = queue.preemption
    return any(rule is not Evicts.NEVER for rule in (rules.within, rules.reclaim, rules.borrow))


def may_not_evict(quotas: Quotas, preemptor: Workload, victim: Workload) -> str:
    """Why the rules forbid the eviction whatever quota there is; empty if they allow it."""
    ours, theirs = (quotas.members.queue_of(workload.key) or "" for workload in (preemptor, victim))
    request = Request(str(preemptor.key), (), 0, preemptor.priority, since=preemptor.created, queue=ours)
    candidate = Candidate(str(victim.key), Unit.WORKLOAD, victim.priority, victim.created, queue=theirs)
    tree, known = quotas.queues.snapshot.tree, quotas.queues.snapshot.queues
    return forbids(request, candidate, {name: known[name] for name in tree.below(tree.root_of(ours))})


def end_preemptions(
    pods: Mapping[str, Pod],
    quotas: Quotas,
    preemptions: Preemptions,
    statement: Statement,
    besides: GroupKey | None = None,
) -> None:
    """Change the statement to the quota after all preemptions: victims have gone and preemptors have started.

    ``besides``: a preemptor to leave out, since it may start earlier.
    """
    for key, preemption in preemptions.under_way.items():
        if key == besides:
            continue
        for victim in preemption.left:
            for use in _used_by(pods, quotas, victim):
                statement.give_back(use.queue, use.usage)
        if (own := quotas.members.queue_of(key)) is not None:
            statement.give_back(own, quotas.reserved(key))
            statement.use(own, preemption.usage)


def quota_to_reserve(pods: Mapping[str, Pod], quotas: Quotas, preemption: Preemption) -> Usage:
    """The part of a preemptor's quota that its victims no longer use."""
    left = Counter(preemption.usage)
    for victim in preemption.left:
        for use in _used_by(pods, quotas, victim):
            left.subtract(use.usage)
    return {what: left[what] for what in preemption.usage if left[what] > 0}


def _used_by(pods: Mapping[str, Pod], quotas: Quotas, victim: Victim) -> list[Use]:
    uses = quotas.uses.of(gang_of(pods, victim))
    return [use for owner, use in uses.items() if victim.pod in ("", owner)]


def quota_of_rooms(claims: Claims, quotas: Quotas, key: GroupKey, rooms: Iterable[tuple[str, Requests]]) -> Usage:
    """The quota of the room kept for a workload, by the flavors of its nodes. Used after a restart."""
    queue, snapshot, usage = quotas.queue_of(key), quotas.queues.snapshot, Counter[FlavorResource]()
    for name, requests in rooms if queue is not None else ():
        if queue is not None and (node := claims.nodes.get(name)) is not None:
            flavors = flavors_of_node(node, queue, snapshot.flavors)
            usage.update(
                {(flavors[resource], resource): amount for resource, amount in requests if resource in flavors}
            )
    return usage
