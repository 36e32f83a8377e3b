"""Commit a plan that was checked: every slot is promised its node, for a large gang some slots at a time.

No other code turns a plan into promises. From here on the room and the quota of the plan are claimed.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from extender.core.causes import Carrier, Placed
from extender.core.effects import Milestone, RevokedFor
from extender.core.explain.telling import Reporter
from extender.core.gate.revocations import Revocations
from extender.core.gate.steering import Steering
from extender.core.ledger.backfill import Backfills
from extender.core.ledger.claims import Claims
from extender.core.ledger.kube_scheduler import awaits_uptake
from extender.core.ledger.pending import Own, Pending, Starting
from extender.core.ledger.preemptions import Preemptions
from extender.core.ledger.quotas import Quotas
from extender.core.ledger.room import Room
from extender.core.ledger.store import Process, Store
from extender.core.preemption.candidates import Candidates
from extender.core.queue.planner import Plan
from extender.core.workload.workload import Workload
from policies.model import Pod, SlotKey
from policies.placement.request import shape_of
from policies.steps import Steps

_AT_ONCE = 100
"""Slots that are promised their nodes in one step."""
_PROMISE = 4
"""The cost of each slot, in units of ``policies.steps``."""

Holds = Callable[[Workload, Plan], bool]
PodOnNode = tuple[Pod, str]


@dataclass(eq=False)
class Commit:
    """Turns plans into promises."""

    _store: Store
    _room: Room
    _claims: Claims
    _preemptions: Preemptions
    _backfills: Backfills
    _starting: Starting
    _reporter: Reporter
    _books: Books
    _steering: Steering
    _revocations: Revocations

    def commit(self, workload: Workload, plan: Plan, holds: Holds, now: float) -> Steps[None]:
        """Promise every slot of the plan its node.

        ``holds``: whether the rest of a plan can still be promised, after other events were handled in between.
        """
        promises = list(zip(plan.pods, plan.nodes.values(), strict=True))
        if plan.flavors is not None:
            workload.set_flavors(plan.flavors)
        workload.follow_commit(fills=len(promises) > _AT_ONCE)
        if workload.job is not None:
            workload.job.withdraw_start()  # so that a partly committed plan does not start the job
        self._starting.begin(workload.key, plan.pods)
        for at in range(0, len(promises), _AT_ONCE):
            step = promises[at : at + _AT_ONCE]
            if at:
                self._books.enter(workload)
                as_of, version = self._claims.changes, workload.version
                # With the second hundred the cost of checking the whole plan is counted.
                yield _PROMISE * _AT_ONCE + (len(promises) // 4 if at == _AT_ONCE else 0)
                changed = (as_of, version) != (self._claims.changes, workload.version)
                if changed and not (
                    self._still_promised(workload, promises[:at]) and self._goes_on(workload, step, holds)
                ):
                    self._end(workload)
                    return self._give_up(workload, now)
            self._fill(workload, step, plan.turns, now)
        self._end(workload)
        if not workload.has_bound_quorum:
            self._reporter.reached(workload, Milestone.PLANNED, now)
            starts = workload.job is not None and workload.job.plannable
            carrier = Carrier.JOB if starts else self._steering.carrier
            self._reporter.explain(workload, Placed(len(promises), carrier), now)
        self._store.mark_dirty(workload)
        return None

    @staticmethod
    def _end(workload: Workload) -> None:
        """Finish the commit. A job without a written plan is started with this one."""
        workload.follow_commit(fills=False)
        if workload.job is not None and workload.job.plan is None:
            workload.job.decide_start("its plan is committed")

    def _still_promised(self, workload: Workload, promised: Sequence[PodOnNode]) -> bool:
        """Whether each pod that was promised a node still has the promise or is bound there."""
        members, planned = workload.members, workload.members.slots.planned
        for pod, node in promised:
            member = members.get(pod.uid)
            if (planned.get(pod.identity) if member is None else member.node or member.pod.node) != node:
                return False
        return True

    def _goes_on(self, workload: Workload, rest: Sequence[PodOnNode], holds: Holds) -> bool:
        """Whether the next slots can be promised their nodes: nothing relevant has changed meanwhile."""
        if workload.releasing or self._store.workloads.get(workload.key) is not workload:
            return False
        members = workload.members
        for pod, _ in rest:
            if pod.identity not in members.slots.lacking:
                return False
            if shape_of(workload.constrained(members.pod_for(pod.identity))) != shape_of(pod):
                return False
        return holds(workload, Plan([pod for pod, _ in rest], {pod.identity: node for pod, node in rest}))

    def _give_up(self, workload: Workload, now: float) -> None:
        """End a commit that cannot go on. A gang that has yet to start loses the promises made so far."""
        release = workload.release
        started = release.complete or workload.releasing or release.partial_since is not None
        promised = workload.members.placed or (workload.members.slots.planned and not workload.admitted)
        if promised and not started and not workload.has_promised_quorum:
            why = "the cluster or the gang changed while its members were given their nodes"
            self._revocations.revoke(workload, why, now, RevokedFor.NODE_CHANGED)
        self._store.mark_dirty(workload)

    def _fill(
        self, workload: Workload, promises: Sequence[PodOnNode], turns: Mapping[SlotKey, int], now: float
    ) -> None:
        """Promise the nodes. A replacement uses up room that is kept on its node; the rest stays kept."""
        members = workload.members
        self._preemptions.use(workload.key, ((node, pod.requests) for pod, node in promises))
        placed = len(members.placed)
        # Members that are steered later do not extend the time of earlier ones, which kube-scheduler may have refused.
        goes_on = awaits_uptake(workload) and all(pod.identity in turns for pod, _ in promises)
        for pod, node in promises:
            if workload.reserved:
                self._room.use_reserved(workload, pod, node)
            if (member := members.get(pod.uid)) is not None:
                self._steering.promise(workload, member, node, turns.get(pod.identity, 0))
            else:
                self._room.assume_slot(workload, pod.identity, node, turns.get(pod.identity, 0))
        if members.placed or members.slots.planned:  # in advisory mode nothing is promised
            workload.status.plan(now)
        if len(members.placed) > placed and not goes_on:
            self._steering.await_uptake(workload, now)
        self._backfills.claim_freed(now)  # less is kept where these end in time
        self._room.drop_displaced(*(node for _, node in promises))
        self._revocations.drop_reserved(workload)


@dataclass(eq=False)
class Books:
    """Enters settled workloads into the books of the ledger."""

    _process: Process
    _store: Store
    _room: Room
    _quotas: Quotas
    _preemptions: Preemptions
    _pending: Pending
    _starting: Starting
    _candidates: Candidates

    def enter(self, workload: Workload) -> bool:
        """Enter a settled workload into the books: whether it waits, what quota it uses, and whether it may be evicted.

        A workload without pods and job is forgotten, but not while a restart counts devices: pods that are to come
        are not expected before that. Returns whether it stays.
        """
        key, slots, stays = workload.key, workload.members.slots, True
        empty = self._process.counted and not len(workload.members) and not (workload.reserved and workload.remade)
        if empty and workload.job is None and workload.podsets is None:
            self._room.unreserve_all(workload)
            self._store.forget(key)
            self._quotas.forget(key)
            self._preemptions.forget(key)
            stays = False
        else:
            self._quotas.update(workload)
            pods = len(workload.members.bound) if self._candidates.is_evictable(workload) else 0
            self._preemptions.set_evictable(key, workload.priority, pods)
        if key in self._starting:
            for other in self._starting.update(workload):
                self._pending.wake(Own(other))
        if slots.lacking and not workload.paused:
            self._pending.come(key, changed=workload.current_demand is None and not workload.releasing)
        elif key in self._pending.keys and (following := self._pending.leave(key)) is not None:
            self._pending.wake(Own(following, recompute=True))
        return stays
