"""Who gives way to a workload of a ClusterQueue, by the rules of its queue: quota and nodes are taken back together."""

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
from extender.core.queue.demands import Asked, Demands, in_whole_slices
from extender.core.queue.line import requested
from extender.core.workload.shape import Demand, Shape, told_by
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
from policies.steps import Steps

_FAIR = (FairStrategy.FINAL, FairStrategy.INITIAL)
"""Those that Kueue takes by default, in its order."""


ByQuota = Callable[[Usage, Statement, Queues], Choice | Refusal]


@dataclass(frozen=True, slots=True)
class Option:
    """Flavors for which others may give way. ``pods``: those that may start, held to the nodes of these flavors, of
    which so many are ``needed``; ``shape``: theirs. ``usage``: the quota that they would use."""

    pods: Sequence[Pod]
    shape: Shape
    usage: Usage
    needed: int


class Reclaiming:
    """The options of one workload, from the one that is tried first on. ``by_quota``: who would go for that quota."""

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
        picture, self._fair = quotas.queues.picture, limits.fair_sharing
        self._tree = picture.tree
        self._requested = requested(workloads, quotas, pending) if queue.open else None
        self._asked = Asked(workload, demand.pods, queue, picture)
        self._choices: Choices[NotThisFlavor | str] = Choices(
            self._tree, picture.flavors, queue, self._asked.closed(), self._preempts, fair=self._fair
        )
        self._tried: Assignment | None = None

    def prepare(self, statement: Statement) -> None:
        """Try the quota as it is for this workload: its own is free, and other preemptions have come to their end."""
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
        """What the search for victims has to know."""
        known, saturation = self._quotas.queues.picture.queues, self._limits.saturation
        queues = {name: known[name] for name in self._tree.around(self._queue.name)}
        return Queues(queues, _FAIR if self._fair else (), saturation)

    def next(self, shape: Shape, why: str) -> Steps[Option | None]:
        """The best option that was not tried yet. ``why`` the last one will not do. None when there is none left, or
        when the workload has become another one."""
        workload = self._workload
        if workload.version != self._demand.version:
            return None
        must = in_whole_slices(workload, self._demand.pods, shape)
        podsets = self._asked.podsets(must)
        tried = self._tried
        with self._statement() as self._trying:
            found = self._choices.first(podsets) if tried is None else self._choices.after(tried, podsets, why)
        if not self._choices.will_do(found):
            return None
        self._tried = found
        pods, flavored = yield from self._demands.flavored(workload, must, shape, self._asked.flavorings(found))
        return Option(pods, flavored, found.usage, len(pods)) if workload.version == self._demand.version else None

    def reach(self, usage: Usage) -> Collection[str]:
        """The queues whose workloads may be evicted for it, as far as that shows without a look at anybody or at any
        node."""
        queues, own, pods = self.queues, self._queue, self._demand.pods
        request = Request(str(self._workload.key), pods, 0, self._workload.priority, queue=own.name, usage=usage)
        alone = not self._may_evict_in_queue(own.preemption.within)
        with self._statement() as statement:
            reclaim = Reclaim(request, statement, queues, Protection(), fair=queues.fair)
            return {name for name in queues.queues if reclaim.reaches(name, alone=alone)}

    def hopeless(self, usage: Usage, reach: Collection[str]) -> str:
        """Why nobody's eviction gives it the quota that it lacks, as far as that shows without a look at anybody: it
        would borrow, and nobody in its own queue may go. Empty if somebody may, or if it lacks none."""
        rules, own = self._queue.preemption, self._tree.queues[self._queue.name]
        with self._statement() as statement:
            lacks = statement.tree.lacks(own.name, usage)
            near = any(statement.tree.level(own.name, what, usage[what])[0] < own.root.height for what in lacks)
        if not lacks or own.name in reach:
            return ""
        if self._fair:
            others = "no other queue borrows with so large a share"
            return "" if reach else f"nobody may be evicted: {others}, and nobody in queue {own.name} may go"
        if rules.borrow is not Evicts.NEVER or (near and rules.reclaim is not Evicts.NEVER):
            return ""
        return f"nobody may be evicted: queue {own.name} would use more than its own, and nobody in it may go"

    def level(self, usage: Usage, found: Choice) -> int:
        """From how far away its queue borrows that when the victims have gone."""
        with self._statement() as statement:
            return offered(statement, self._queue.name, usage, found)[1]

    def _may_evict_in_queue(self, policy: Evicts) -> bool:
        """Whether somebody in its queue has such a priority."""
        least = self._workload.priority + (policy is Evicts.LOWER_OR_NEWER)
        workloads, members = self._workloads, self._quotas.members.of(self._queue.name)
        return policy is not Evicts.NEVER and any(workloads[key].priority < least for key in members)

    def _preempts(self, queue: ClusterQueue, what: FlavorResource, amount: int) -> tuple[Fit, int]:
        """Where there is another flavor, by who would go for that quota alone; it comes last if nobody may. Else all
        that counts is whether somebody may be evicted at all."""
        if not evicts(queue):
            return Fit.NO_CANDIDATES, 0
        if not any(len(group.flavors) > 1 for group in queue.groups if what[0] in dict(group.flavors)):
            return Fit.PREEMPT, 0
        found = self._by_quota({what: amount}, self._trying, self.queues)
        if isinstance(found, Choice):
            return offered(self._trying, queue.name, {what: amount}, found)
        return Fit.PREEMPT, self._tree.queues[queue.name].root.height + 1


def evicts(queue: ClusterQueue) -> bool:
    """Whether its rules let its workloads evict anybody of a queue."""
    rules = queue.preemption
    return any(one is not Evicts.NEVER for one in (rules.within, rules.reclaim, rules.borrow))


def may_not_evict(quotas: Quotas, preemptor: Workload, victim: Workload) -> str:
    """Why the rules forbid it whatever quota there is; empty if they do not."""
    ours, theirs = (quotas.members.queue_of(one.key) or "" for one in (preemptor, victim))
    request = Request(str(preemptor.key), (), 0, preemptor.priority, since=preemptor.created, queue=ours)
    candidate = Candidate(str(victim.key), Unit.WORKLOAD, victim.priority, victim.created, queue=theirs)
    tree, known = quotas.queues.picture.tree, quotas.queues.picture.queues
    return forbids(request, candidate, {name: known[name] for name in tree.below(tree.root_of(ours))})


def end_preemptions(
    pods: Mapping[str, Pod],
    quotas: Quotas,
    preemptions: Preemptions,
    statement: Statement,
    besides: GroupKey | None = None,
) -> None:
    """Try the quota as it will be when all victims have gone, and their preemptors have started. ``besides``: but for
    that preemptor, which may start before that."""
    for key, preemption in preemptions.under_way.items():
        if key == besides:
            continue
        for victim in preemption.left:
            for use in _used_by(pods, quotas, victim):
                statement.give_back(use.queue, use.usage)
        if (own := quotas.members.queue_of(key)) is not None:
            statement.give_back(own, quotas.kept(key))
            statement.use(own, preemption.usage)


def to_keep(pods: Mapping[str, Pod], quotas: Quotas, preemption: Preemption) -> Usage:
    """Of the quota that a preemptor is to have, what its victims do not use any more."""
    left = Counter(preemption.usage)
    for victim in preemption.left:
        for use in _used_by(pods, quotas, victim):
            left.subtract(use.usage)
    return {what: left[what] for what in preemption.usage if left[what] > 0}


def _used_by(pods: Mapping[str, Pod], quotas: Quotas, victim: Victim) -> list[Use]:
    uses = quotas.uses.of(gang_of(pods, victim))
    return [use for owner, use in uses.items() if victim.pod in ("", owner)]


def told_by_rooms(claims: Claims, quotas: Quotas, key: GroupKey, rooms: Iterable[tuple[str, Requests]]) -> Usage:
    """After a restart: the quota of the room that is kept for a workload, by the flavors of the nodes."""
    queue, picture, usage = quotas.queue_of(key), quotas.queues.picture, Counter[FlavorResource]()
    for name, requests in rooms if queue is not None else ():
        if queue is not None and (node := claims.nodes.get(name)) is not None:
            flavors = told_by(node, queue, picture.flavors)
            usage.update({(flavors[one], one): amount for one, amount in requests if one in flavors})
    return usage
