"""A victim gives its room back as a whole: a job is suspended, pods without one are evicted together; why it goes."""

from __future__ import annotations

from collections.abc import Collection
from typing import assert_never

from extender.core.claim import Owner, SlotOf
from extender.core.effects import Evict
from extender.core.gang.milestones import Cause
from extender.core.gang.surplus import gang_of, runs_without, surplus_of
from extender.core.quota.reclaiming import may_not_evict
from extender.core.revocations import Revocations
from extender.core.state import State
from extender.core.victims.candidates import going, is_evictable, is_evictable_alone
from extender.core.workload import Workload
from policies.model import Pod, Victim
from policies.model.queues import ClusterQueue
from policies.preemption.allowed import Why


class GivingWay:
    """Nothing of it counts as a failure: a suspended job goes back into its queue with the age that it has."""

    def __init__(self, state: State, revocations: Revocations) -> None:
        self._state = state
        self._revocations = revocations

    def may(self, victim: Victim, priority: int, nodes: Collection[str], preemptor: Workload | None = None) -> bool:
        """After a restart: whether it is the one that was chosen, may be evicted for somebody of that priority, and has
        room on one of these nodes, or quota that the queue of the ``preemptor`` may take back. One that has started
        again since is another one."""
        state = self._state
        pod = state.pods.get(victim.pod)
        if pod is not None and pod.group_key is None:
            lower = pod.node in nodes and pod.priority < priority
            return lower and (pod.deleting or is_evictable_alone(state, pod))
        workload = state.workloads.get(gang_of(state, victim))
        if workload is None or (preemptor is None and workload.priority >= priority):
            return False
        if preemptor is not None and may_not_evict(state, preemptor, workload):
            return False
        by_quota = preemptor is not None and self.rule(victim, preemptor) is not Why.PRIORITY
        if pod is not None:
            return (by_quota or pod.node in nodes) and (
                pod.deleting or pod in surplus_of(workload, state.preemptions.pods)
            )
        stamps = [member.pod.stamp for member in workload.members if by_quota or member.pod.node in nodes]
        ours = any(stamp is not None and stamp.release in victim.releases for stamp in stamps)
        return ours and (is_evictable(state, workload) or not workload.whole or workload.paused)

    def rule(self, victim: Victim, preemptor: Workload) -> Why:
        """By which rule it may be evicted, as far as the queues of both tell."""
        keys = preemptor.key, gang_of(self._state, victim)
        ours, theirs = map(self._state.quotas.members.queue_of, keys)
        if ours is None or theirs is None:
            return Why.PRIORITY
        return Why.IN_QUEUE if ours == theirs else Why.RECLAIM

    def has_room(self, victim: Victim) -> bool:
        """Whether it has yet to go."""
        claims = self._state.claims
        if victim.pod:
            return claims.get(victim.pod) is not None
        workload = self._state.workloads.get(victim.key)
        if workload is None:
            return False
        owners: list[Owner] = [member.uid for member in workload.members]
        owners += [SlotOf(victim.key, slot) for slot in workload.members.slots.planned]
        return any(claims.get(owner) is not None for owner in owners)

    def tell(self, victim: Victim, why: str, now: float) -> None:
        """Once more if it was told already."""
        if victim.pod:
            for pod in going(self._state, victim):
                if pod.live and not self.needs(victim):
                    self._evict(pod, why)
        elif (workload := self._state.workloads.get(victim.key)) is not None:
            self._tell_whole(workload, why, now)

    def needs(self, victim: Victim) -> str:
        """Why a surplus may not go alone any more; empty if it may, or is none."""
        state, pod = self._state, self._state.pods.get(victim.pod)
        workload = None if pod is None else state.workload_of(pod)
        if workload is None or workload.key in state.preemptions.leaving:
            return ""
        if runs_without(workload, state.preemptions.pods):
            return ""
        return f"{victim.mention} is no surplus any more: its gang has too few members without it"

    def spare(self, victim: Victim, why: str) -> None:
        """It need not go for that any more: a job that was not suspended yet runs on."""
        workload = None if victim.pod else self._state.workloads.get(victim.key)
        if workload is not None and workload.job is not None:
            workload.job.spare(why)
            self._state.nudge(workload)

    def _tell_whole(self, workload: Workload, why: str, now: float) -> None:
        state, job = self._state, workload.job
        state.nudge(workload)
        if job is not None:
            if job.plan is not None and not job.seen.suspended and not job.stop:
                job.take_back(why)
            return
        state.unreserve_all(workload)
        if not workload.releasing:
            self._revocations.revoke(workload, why, now, Cause.PREEMPTED)
        for pod in workload.bound:
            if pod.stamp is not None:
                self._evict(pod, why)

    def _evict(self, pod: Pod, why: str) -> None:
        self._state.out.append(Evict(pod.uid, pod.namespace, pod.name, why))


def preempted_by(state: State, workload: Workload, victim: Victim, rule: Why) -> str:
    """What a victim is told: for whom it goes, and by which rule of whose queue."""
    return f"preempted by {workload.key.mention}, {_why(state, workload, victim, rule)}"


def _why(state: State, workload: Workload, victim: Victim, rule: Why) -> str:
    ours, theirs = state.quotas.queue_of(workload.key), state.quotas.queue_of(gang_of(state, victim))
    if ours is None or theirs is None or rule is Why.PRIORITY:
        return f"which has priority {workload.priority} and lacked room"
    match rule:
        case Why.IN_QUEUE:
            return f"which comes before it in {ours.title} (withinClusterQueue: {ours.preemption.within})"
        case Why.RECLAIM:
            return f"{_lacked(state, ours, theirs)} (reclaimWithinCohort: {ours.preemption.reclaim})"
        case Why.WHILE_BORROWING:
            return f"{_lacked(state, ours, theirs)} (borrowWithinCohort: {ours.preemption.borrow})"
        case Why.FAIR:
            return f"{_lacked(state, ours, theirs)}, and has the smaller share (fair sharing)"
        case _:
            assert_never(rule)


def _lacked(state: State, ours: ClusterQueue, theirs: ClusterQueue) -> str:
    if ours.open:
        return f"whose {ours.title} deserves what {theirs.title} uses beyond what that deserves"
    if ours.cohort == theirs.cohort:
        return f"whose ClusterQueue {ours.name} needs what {theirs.name} has borrowed in cohort {theirs.cohort}"
    # Of cohorts in each other: where both borrow.
    paths = (_path(state, one) for one in (ours, theirs))
    return "whose ClusterQueue {} needs what {} has borrowed".format(*paths)


def _path(state: State, queue: ClusterQueue) -> str:
    """Its cohorts from the root down, and itself."""
    node = state.quotas.queues.picture.tree.queues[queue.name]
    return "/".join(reversed([one.name for one in node.path()]))
