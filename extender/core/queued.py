"""What queues have to say in an admission pass: who of them is looked at again, who is next, and who has to wait."""

from __future__ import annotations

from dataclasses import dataclass

from extender.core.demands import Demands
from extender.core.planner import Changed, Plan, Planner
from extender.core.queue_lines import QueueLines
from extender.core.quota_plans import QuotaPlans, Refused
from extender.core.reasons import Reason
from extender.core.requested import requested
from extender.core.shape import Demand, Shape
from extender.core.shortfalls import EVERYBODY, Lack, Shortfalls
from extender.core.state import State
from extender.core.workload import Workload
from policies.api import PolicyError, SortKey
from policies.chosen import Policies
from policies.model import GroupKey
from policies.model.queues import Strategy
from policies.order import FairSharing
from policies.quota.flavors import Assignment
from policies.steps import Steps


@dataclass(frozen=True, slots=True)
class HeldUp:
    """Why the others of a queue wait: the first one of it does."""

    queue: str
    first: GroupKey
    reason: Reason


class Queued:
    """Workloads that belong to no ClusterQueue are planned as if there were none."""

    def __init__(self, state: State, planner: Planner, demands: Demands, policies: Policies) -> None:
        self._state = state
        self._policy = policies.queue
        self._between = FairSharing() if state.limits.fair_sharing else policies.between
        self._planner = planner
        self._plans = QuotaPlans(state, planner, demands)
        self._first: dict[str, HeldUp] = {}
        """Of queues that are StrictFIFO and whose first workload was refused."""

    @property
    def has_news(self) -> bool:
        """Whether somebody may get quota who did not."""
        quotas = self._state.quotas
        waits = bool(self._state.waiting.keys)
        return quotas.queues.stale or (
            waits
            and bool(
                quotas.uses.freed
                or self._first.keys() & quotas.members.moved_on.keys()
                or quotas.past.reorders(self._first)
            )
        )

    def review(self, shortfalls: Shortfalls) -> None:
        """To be called before a pass: whoever may get quota by now is looked at in it."""
        state, quotas = self._state, self._state.quotas
        if quotas.queues.stale:
            quotas.redraw()
            state.preemptions.redrawn()
            self._redrawn(shortfalls)
        for root in quotas.uses.take_freed():
            for name in quotas.queues.picture.tree.below(root):
                if shortfalls.reopen(name) or name in self._first:
                    self._look_again(name)
        quotas.members.take_moved_on()
        for name in quotas.past.take_reordered():
            if name in self._first:
                self._look_again(name)
        for name, held_up in list(self._first.items()):
            if held_up.first not in state.waiting.keys or held_up.first in state.waiting.stale:
                self._look_again(name)

    def lines(self, shortfalls: Shortfalls) -> QueueLines:
        """For one pass."""

        def assign(workload: Workload) -> Assignment | None:
            demand, queue = workload.asked, self._state.quotas.queue_of(workload.key)
            if demand is None or demand.shape is None or queue is None:
                return None
            known = shortfalls.get(demand.shape, queue.name)
            return None if known is not None else self._plans.level(workload, demand, queue)

        between, quotas = self._between, self._state.quotas
        if between is None:
            return QueueLines(quotas, assign)
        return QueueLines(quotas, assign, lambda: between.rank(quotas.queues.picture.tree, requested(self._state)))

    def refused(self, workload: Workload, shape: Shape, shortfalls: Shortfalls) -> Reason | None:
        """Why it cannot be admitted, as far as is known."""
        queue = self._state.quotas.queue_of(workload.key)
        if queue is None:
            return shortfalls.get(shape)
        return shortfalls.get(shape, queue.name) or self._held_up(queue.name, workload)

    def lacks_quota(self, workload: Workload, shape: Shape, shortfalls: Shortfalls) -> bool:
        """Whether it was refused for that alone: no room helps it."""
        queue = self._state.quotas.queue_of(workload.key)
        return queue is not None and (
            shortfalls.lacks(Lack.QUOTA, shape, queue.name) or self._held_up(queue.name, workload) is not None
        )

    def plan(
        self, workload: Workload, demand: Demand, shape: Shape, shortfalls: Shortfalls
    ) -> Steps[Plan | Refused | Changed]:
        """A plan that can be committed now. What is half released is completed whatever quota is left; its members
        beyond that wait for quota as ever."""
        queue = self._state.quotas.queue_of(workload.key)
        broken = workload.release.partial_since is not None and not workload.seated
        if queue is not None and not broken:
            return (yield from self._with_kept(workload, self._plans.plan(workload, demand, shape, queue, shortfalls)))
        if queue is not None or (broken and self._state.quotas.route(workload).why is not None):
            demand, shape = yield from self._plans.least(workload, demand, shape)
        found = yield from self._planner.plan(workload, demand, shape)
        return Refused(Lack.ROOM, found, EVERYBODY) if isinstance(found, Reason) else found

    def _with_kept(
        self, workload: Workload, planning: Steps[Plan | Refused | Changed]
    ) -> Steps[Plan | Refused | Changed]:
        """Also with the quota that is kept for it since others give way to it."""
        kept, found = self._state.quotas.lift(workload.key), None
        try:
            found = yield from planning
        finally:
            if not isinstance(found, Plan):
                self._state.quotas.keep(workload.key, kept)
        return found

    def strict(self, workload: Workload, now: float) -> HeldUp | None:
        """It was looked at: if it waits still, and its queue is StrictFIFO, those behind it wait for it."""
        queue, demand = self._state.quotas.queue_of(workload.key), workload.asked
        if queue is None or queue.strategy is not Strategy.STRICT:
            return None
        known = self._first.get(queue.name)
        plannable = demand is None or demand.shape is not None
        if not plannable or workload.seated or now < workload.retries.not_before:
            if known is not None and known.first == workload.key:
                self._look_again(queue.name)
            return None
        if self._held_up(queue.name, workload) is None and (known is None or known.first != workload.key):
            text = f"{workload.key} is before it in ClusterQueue {queue.name}, which is {Strategy.STRICT}"
            known = self._first[queue.name] = HeldUp(queue.name, workload.key, Reason("QueueOrder", text))
        return known

    def _held_up(self, queue: str, workload: Workload) -> Reason | None:
        """Somebody before it waits, and its queue is StrictFIFO."""
        known = self._first.get(queue)
        first = self._state.workloads.get(known.first) if known is not None else None
        if known is None or first is None or first is workload or known.first not in self._state.waiting.keys:
            return None
        try:
            return known.reason if self._place(first) < self._place(workload) else None
        except PolicyError:
            return None

    def _place(self, workload: Workload) -> tuple[float, SortKey]:
        return self._state.quotas.past_of(workload.key), self._policy.order(workload)

    def _redrawn(self, shortfalls: Shortfalls) -> None:
        """Queue objects have changed: whatever was found may be wrong."""
        state, quotas = self._state, self._state.quotas
        shortfalls.clear(Lack.QUOTA)
        self._first.clear()
        for key in [key for key in state.waiting.keys if quotas.local_of(key)]:
            state.nudge(state.workloads[key])
            state.waiting.look_again(key)
        for workload in state.workloads.values():
            if workload.job is not None and quotas.route(workload).drained:
                state.touch(workload)

    def _look_again(self, queue: str) -> None:
        """At all who wait in it."""
        self._first.pop(queue, None)
        for key in self._state.quotas.members.of(queue):
            self._state.waiting.look_again(key)
