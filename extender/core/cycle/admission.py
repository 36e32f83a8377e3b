"""The queues' part of a cycle: which workloads get a turn, which is next, and which have to wait."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from extender.core.causes import NoQuota, NoRoom, QueueOrder, Unplaced, with_facts
from extender.core.cycle.flavors import QuotaPlans, Refused
from extender.core.explain.facts import rises
from extender.core.explain.reports import declared
from extender.core.ledger.backfill import Backfills
from extender.core.ledger.claims import Claims
from extender.core.ledger.creation import Creation, FailedCreation
from extender.core.ledger.pending import (
    ANY_ROOM,
    Amounts,
    FreedQuota,
    Nodes,
    Own,
    Pending,
    QuotaFor,
    RoomFor,
    Time,
    Turns,
)
from extender.core.ledger.preemptions import Preemptions
from extender.core.ledger.quotas import Quotas
from extender.core.ledger.store import Store
from extender.core.limits import Limits, Preempts
from extender.core.preemption.reclaim import evicts
from extender.core.queue.line import Line, QueueLines, StrictOrder, requested
from extender.core.queue.planner import Changed, Plan, Planner
from extender.core.queue.shortfalls import EVERYBODY, Lack, Shortfalls
from extender.core.workload.shape import Demand, Shape
from extender.core.workload.workload import Workload
from policies.api import PolicyError
from policies.chosen import Policies
from policies.model import GroupKey
from policies.model.queues import ClusterQueue, Strategy
from policies.order import FairSharing
from policies.quota.flavors import Assignment
from policies.steps import AT_ONCE, Steps


class QueueAdmission:
    """Admission through queues. Workloads outside of ClusterQueues are planned as though there were no queues."""

    def __init__(
        self,
        limits: Limits,
        store: Store,
        claims: Claims,
        quotas: Quotas,
        preemptions: Preemptions,
        backfills: Backfills,
        creation: Creation,
        failed_creation: FailedCreation,
        pending: Pending,
        shortfalls: Shortfalls,
        planner: Planner,
        plans: QuotaPlans,
        policies: Policies,
    ) -> None:
        self._limits = limits
        self._store = store
        self._claims = claims
        self._quotas = quotas
        self._preemptions = preemptions
        self._creation = creation
        self._pending = pending
        self.turns = Turns(failed_creation, policies.queue, FairSharing() if limits.fair_sharing else policies.between)
        self._shortfalls = shortfalls
        self._planner = planner
        self._plans = plans
        self.strict = StrictOrder(store.workloads, quotas, preemptions, backfills, pending, self.turns)
        self._outdated: dict[str, float] = {}
        """Trees whose use of quota has changed since their reasons were made, with the instant of the next update."""

    @property
    def has_news(self) -> bool:
        """Whether a workload may get quota that did not get it before."""
        quotas = self._quotas
        waits = bool(self._pending.keys)
        return quotas.queues.stale or (
            waits
            and bool(
                quotas.uses.freed
                or self.strict.first.keys() & quotas.members.changed_queues.keys()
                or quotas.past.reorders(self.strict.first)
            )
        )

    @property
    def due(self) -> float | None:
        """The instant at which reasons are updated with current numbers; None if no tree is outdated."""
        return next(iter(self._outdated.values()), None) if self._pending.keys else None

    def _prove(self) -> None:
        """Settle the jobs whose quota could not be checked at their start: now it can."""
        for workload in self._store.workloads.values():
            if workload.job is not None and workload.job.unproven:
                self._store.mark_dirty(workload)

    def review(self, now: float) -> Steps[None]:
        """Wake the workloads that may have quota now. The first part of a cycle."""
        quotas = self._quotas
        if quotas.queues.stale:
            others = quotas.rebuild()
            self._preemptions.note_quota_change()
            self._redrawn(others)
            self._prove()
        below = quotas.queues.snapshot.tree.below
        for name in [name for root in quotas.uses.take_freed() for name in below(root)]:
            yield from self._given_back(name)
        self._outdated |= dict.fromkeys(quotas.uses.take_changed(self._outdated), now + self._limits.refresh_s)
        if (due := self.due) is not None and now >= due:
            # One tree at a time, so that a workload that can start does not wait for the updates of all.
            for name in below(root := next(iter(self._outdated))):
                if self._shortfalls.reopen(name):
                    yield from self.strict.reset(name)
            del self._outdated[root]
        for name in quotas.past.take_reordered():
            if name in self.strict.first:
                yield from self.strict.reset(name)
        for of in (*quotas.members.take_changed_queues(), *map(quotas.members.queue_of, [*self._pending.due])):
            held_up = self.strict.first.get(of or "")
            if held_up and (held_up.first not in self._pending.keys or held_up.first in self._pending.due):
                yield from self.strict.reset(held_up.queue)

    def lines(self) -> QueueLines:
        """The lines of the queues for one cycle."""

        def assign(workload: Workload) -> Assignment | None:
            demand, queue = workload.current_demand, self._quotas.queue_of(workload.key)
            if demand is None or demand.shape is None or queue is None:
                return None
            if not self._quotas.has_own(workload.key):
                self._shortfalls.confirm(demand.shape, queue.name, self._quotas.is_there(queue.name))
                if self._shortfalls.get(demand.shape, queue.name) is not None:
                    return None
            return self._level(workload, demand, queue)

        quotas, snapshot, between = self._quotas, self._quotas.queues.snapshot, self.turns.between

        def version() -> int:
            return quotas.uses.version

        if between is None:
            return QueueLines(quotas, snapshot, version, assign)
        return QueueLines(
            quotas,
            snapshot,
            version,
            assign,
            lambda: between.rank(snapshot.tree, requested(self._store.workloads, quotas, self._pending)),
        )

    def refused(self, workload: Workload, shape: Shape) -> Unplaced | QueueOrder | None:
        """Why the workload cannot be admitted, as far as is known; None if nothing is known."""
        queue = self._quotas.queue_of(workload.key)
        if queue is None:
            return self._shortfalls.get(shape)
        if (why := self.strict.waits_behind(workload)) is not None or self._quotas.has_own(workload.key):
            return why  # The shortfall of others of its shape does not include the quota that it has.
        return self._shortfalls.get(shape, queue.name)

    def still_lacks_quota(self, workload: Workload) -> bool:
        """Whether the quota that was given back is used again, so that the reported cause stands."""
        if (queue := self._quotas.queue_of(workload.key)) is None:
            return False
        demand = workload.current_demand
        if demand is None or demand.shape is None or self._preemptions.is_ready(workload.key):
            return False
        if queue.strategy is Strategy.STRICT or self._may_evict(queue) or self._quotas.has_own(workload.key):
            return False
        why = self._shortfalls.confirm(demand.shape, queue.name, self._quotas.is_there(queue.name))
        if isinstance(why, NoQuota | NoRoom):
            why = with_facts(why, *rises(workload, queue))
        return why is not None and why == workload.reason_state.cause

    def park(self, workload: Workload, now: float) -> None:
        """Park a workload after its turn until the cause of its shortfall ends. Free room does not wake one that lacks
        only quota."""
        demand, queue = workload.current_demand, self._quotas.queue_of(workload.key)
        ends = workload.retries.not_before, self._creation.rests_until(workload.key)
        times = [Time(at) for at in ends if at > now]
        if demand is None or demand.shape is None or now < workload.retries.not_before:
            return self._pending.park(workload, *times)
        lacks = self._lacks(workload, demand.shape, queue)
        if isinstance(lacks, QuotaFor):
            try:
                return self._pending.park(workload, lacks, *times, turns=self.turns.both(workload, queue))
            except PolicyError:
                lacks = ANY_ROOM  # the next cycle asks the policy again, and reports the error
        return self._pending.park(workload, lacks, *times)

    def _lacks(self, workload: Workload, shape: Shape, queue: ClusterQueue | None) -> RoomFor | QuotaFor:
        known = self._shortfalls.wake_on
        if queue is None:
            return known(Lack.ROOM, shape, EVERYBODY) or ANY_ROOM
        if self._quotas.has_own(workload.key):
            return ANY_ROOM
        quota = known(Lack.QUOTA, shape, queue.name)
        if quota is None and self.strict.waits_behind(workload) is not None:
            quota = QuotaFor(queue.name, shape)
        if quota is not None:
            # A workload that goes before all others gets a turn whenever anything comes free: only the turn shows what
            # helps.
            return ANY_ROOM if workload.resumes else quota
        return known(Lack.ROOM, shape, EVERYBODY) or known(Lack.ROOM, shape, queue.name) or ANY_ROOM

    def plan(self, workload: Workload, demand: Demand, shape: Shape, line: Line) -> Steps[Plan | Refused | Changed]:
        """Return a plan that can be committed now, or why there is none.

        A partly released gang is completed whatever quota is left. Its members beyond that wait for quota as usual.
        """
        queue = self._quotas.queue_of(workload.key)
        broken = workload.release.partial_since is not None and not workload.has_promised_quorum
        if queue is not None and not broken:
            planning = self._plans.plan(workload, demand, shape, queue, line)
            return (yield from self._with_reserved(workload, planning))
        if queue is not None or (broken and self._quotas.route(workload).why is not None):
            outcome = yield from self._plan_least(workload, demand, shape)
        else:
            outcome = yield from self._planner.plan(workload, demand, shape)
        return outcome if isinstance(outcome, Plan | Changed) else Refused(Lack.ROOM, outcome, EVERYBODY)

    def _plan_least(self, workload: Workload, demand: Demand, shape: Shape) -> Steps[Plan | Unplaced | Changed]:
        """Plan only the pods that have to start together: the first ones, or the first that find room when all are
        tried."""
        outcome = yield from self._planner.plan(workload, *(yield from self._plans.least(workload, demand, shape)))
        if isinstance(outcome, Plan | Changed) or len(demand.pods) <= shape.needed:
            return outcome
        every = yield from self._planner.plan(workload, demand, shape)
        if not isinstance(every, Plan):
            return every
        least = yield from self._plans.least(workload, demand.among(every.nodes), shape)
        return (yield from self._planner.plan(workload, *least))

    def _with_reserved(
        self, workload: Workload, planning: Steps[Plan | Refused | Changed]
    ) -> Steps[Plan | Refused | Changed]:
        """Run ``planning`` with the quota that the workload has without nodes: kept for it, or counted for its pods."""
        quotas = self._quotas
        reserved = quotas.reserved(workload.key)
        outcome = yield from planning
        if isinstance(outcome, Plan):
            quotas.spend_own(workload.key)
        return replace(outcome, waits_for=None) if isinstance(outcome, Refused) and reserved else outcome

    def has_quota(self, workload: Workload, plan: Plan) -> bool:
        """Whether there is still quota for a plan that was read from nominations. A partly released gang needs none."""
        quotas, queue = self._quotas, self._quotas.queue_of(workload.key)
        if queue is None or quotas.node_of(queue.name) is None or workload.release.partial_since is not None:
            return True
        usage = quotas.counting.of_placed(zip(plan.pods, plan.nodes.values(), strict=True), queue.name)
        with quotas.statement(workload.key) as statement:
            return not statement.tree.lacks(queue.name, usage)

    def quota_taken(self, workload: Workload) -> Steps[None]:
        """Update shortfalls after a workload got quota without nodes: others of its queue may lack that quota."""
        if (name := self._quotas.members.queue_of(workload.key)) is not None:
            self._shortfalls.reopen(name)
            yield from self.strict.reset(name)

    def _level(self, workload: Workload, demand: Demand, queue: ClusterQueue) -> Assignment:
        """The assignment by quota alone, including the quota that the workload has without nodes."""
        with self._quotas.statement(workload.key):
            return self._plans.level(workload, demand, queue)

    def _redrawn(self, others: Mapping[str, None] | None) -> None:
        """Drop what changed queue objects make uncertain. ``others``: the queues that this is about; None for all."""
        quotas = self._quotas
        if self._claims.declare(declared(quotas.queues)):
            # Workloads that ask for a topology level may fit now, or name a level that is unknown now.
            self._pending.wake(Nodes())
        if others is None:
            self._shortfalls.clear(Lack.QUOTA)
        self.strict.forget(others)
        for name in quotas.queues.snapshot.tree.queues if others is None else others:
            self._shortfalls.reopen(name)
        for key in [key for key in self._pending.keys if quotas.local_of(key)]:
            local = quotas.queues.local(key.namespace, quotas.local_of(key))
            if others is None or local is None or local.queue in others:
                self._pending.wake(Own(key, recompute=True))
        for workload in self._store.workloads.values():
            if workload.job is not None and (workload.job.awaits_nodes or quotas.route(workload).drained):
                self._store.mark_dirty(workload)

    def _given_back(self, queue: str) -> Steps[None]:
        """Wake the workloads of the queue that may use quota which was given back.

        In a StrictFIFO queue that is all of them, if the first one may.
        """
        known = self._quotas.queues.snapshot.queues[queue]
        evicts, held_up = self._may_evict(known), self.strict.first.get(queue)
        for key in (*self._quotas.fully_reserved, *self._quotas.counted):
            if self._quotas.members.queue_of(key) == queue:
                self._pending.wake(Own(key))
        reopened = self._shortfalls.reopen(queue, None if evicts else self._quotas.is_there(queue))
        yield len(reopened) // 4
        if evicts or (held_up is not None and not self._known_of(held_up.first, queue)):
            yield from self.strict.reset(queue)
        elif reopened:
            yield from self._reopened(known, reopened)

    def _reopened(self, queue: ClusterQueue, shapes: Mapping[Shape, Amounts | None]) -> Steps[None]:
        """Wake workloads of the queue that may get quota.

        ``shapes``: the shapes, with the amounts they wait for; None if they wait for something else, too.
        """
        together: dict[Amounts, list[Shape]] = {}
        for count, (shape, amounts) in enumerate(shapes.items(), 1):
            if not count % AT_ONCE:
                yield AT_ONCE // 4
            if amounts is None or queue.strategy is Strategy.STRICT:
                yield from self._pending.wake_in_steps(QuotaFor(queue.name, shape))
            else:
                together.setdefault(amounts, []).append(shape)
        for amounts, alike in together.items():
            self._pending.wake(FreedQuota(queue.name, amounts, tuple(alike)))
        for count, key in enumerate(self._pending.parked(ANY_ROOM), 1):
            if not count % AT_ONCE:
                yield AT_ONCE // 4
            workload = self._store.workloads.get(key)  # it may have gone since the last step
            if workload is None or self._quotas.members.queue_of(key) != queue.name:
                continue
            demand = workload.current_demand
            if demand is not None and demand.shape in shapes and self.strict.held_up(workload) is None:
                self._pending.wake(Own(key))

    def _known_of(self, key: GroupKey, queue: str) -> bool:
        """Whether the reason why the workload cannot be admitted is known."""
        workload = self._store.workloads.get(key)
        demand = None if workload is None else workload.current_demand
        return demand is not None and demand.shape is not None and self._shortfalls.get(demand.shape, queue) is not None

    def _may_evict(self, queue: ClusterQueue) -> bool:
        """Whether quota may be had by evicting victims: which ones changes whenever a workload uses less."""
        return self._limits.preemption is not Preempts.OFF and evicts(queue)
