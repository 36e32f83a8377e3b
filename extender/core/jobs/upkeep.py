"""An admitted job while it runs: its slots keep their nodes, and some events make it start again.

A slot keeps its node while the job is admitted, so a failed pod leaves its room to its replacement. A slot that the
status of the job calls done needs no node, even when its pod is gone.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from extender.core.effects import RevokedFor
from extender.core.gate.revocations import Revocations, needs
from extender.core.gate.steering import Steering
from extender.core.ledger.claims import Claims, ClaimState, SlotOf
from extender.core.ledger.creation import PROBATION_S, TRIAL_S, FailedCreation, Trials
from extender.core.ledger.devices import Devices
from extender.core.ledger.expected import ExpectedPods, uncreated
from extender.core.ledger.pending import Pending
from extender.core.ledger.room import Room
from extender.core.ledger.singles import BlockedSinglePods
from extender.core.ledger.store import Outbox, Process
from extender.core.limits import STOOD_STILL_S, Limits
from extender.core.queue.line import others_wait
from extender.core.workload.additions import Additions
from extender.core.workload.job import JobRecord
from extender.core.workload.members import Member, MemberState
from extender.core.workload.workload import Workload
from policies.model import GroupKey, Job, Pod, SlotKey
from policies.placement.fitting import lets_in, tenant_conflict
from policies.words import counted

REMOVED = "the plan that it was started with was removed"
_FALLS_SHORT = "none of its pods is on a node any more, and its plan has a node for too few of them"


@dataclass(eq=False)
class Upkeep:
    """Keeps the nodes of started jobs. Called for each one whenever its workload is settled."""

    _limits: Limits
    _process: Process
    _workloads: Mapping[GroupKey, Workload]
    _room: Room
    _outbox: Outbox
    _claims: Claims
    _devices: Devices
    _failed_creation: FailedCreation
    _trials: Trials
    _additions: Additions
    _pending: Pending
    _blocked_singles: BlockedSinglePods
    _expected: ExpectedPods
    _steering: Steering
    _revocations: Revocations

    def promise_again(self, workload: Workload, record: JobRecord, now: float) -> None:
        """Promise each slot without a node the node that it has in the plan, whatever happened to its pod."""
        plan, slots = record.plan or {}, workload.members.slots
        if record.stop or self._revocations.leave_namespace(workload, now):
            return
        for slot in list(slots.lacking):
            node = plan.get(slot, "")
            if slot not in slots.templates or not node:
                continue
            if not self._process.recovered and self._makes_room(workload, node):
                continue  # its predecessor may still use that room: other plans come first (``Recovery.end``)
            pod = workload.constrained(workload.members.pod_for(slot))
            needed, admitted = needs(workload, slot), self._claims.admits(node, pod.selection)
            known = self._claims.nodes.get(node)
            # The free room of a left-out node is unknown: before the restart it was planned with all of it.
            if (known is not None and known.bare and not self._process.recovered) or (
                admitted
                and self._claims.fits(node, pod.requests)
                and (
                    lets_in([(pod, node)], self._claims.snapshot(), (pod,))
                    or (needed and not self._makes_room(workload, node))
                )
            ):
                self._promise(workload, slot, pod, node, now)
            elif (admitted and self._makes_room(workload, node)) or self._expected.cede_slots(workload, record, [slot]):
                continue
            elif not needed or record.over or record.closed:
                record.drop_slots((slot,))
            elif not self._may_stay_empty(workload, slot):
                closed = self._claims.why_closed(node, pod.selection)
                room, now_is = ("the room on ", "is gone") if admitted else ("", closed)
                why = f"{room}node {node}, on which a pod of it was to run, {now_is}"
                if differs := self._additions.difference(record.seen.podsets):
                    why = (
                        f"{differs}: node {node}, on which one was to run, {'has no room' if admitted else 'is closed'}"
                    )
                return record.decide_stop(why)

    def bound(self, workload: Workload, member: Member, now: float) -> None:
        """Exchange two slots after a pod was bound to the node of another slot of its podset.

        An earlier leader may have bound it so. The other slot has no bound pod yet. Pods with an index are not
        exchanged.
        """
        record, slots, pod = workload.job, workload.members.slots, member.pod
        plan = record.plan if record is not None and not workload.being_started else None
        if record is None or not plan or pod.identity[0] in slots.indexed or plan.get(pod.identity) in (None, pod.node):
            return
        others = [slot for slot, node in plan.items() if (slot[0], node) == (pod.identity[0], pod.node)]
        free = [slot for slot in others if not any(map(self._is_bound, self._standing(workload, slot)))]
        if not free:
            return
        other = min(free, key=lambda slot: len(slots.pods(slot)))
        record.exchange(pod.identity, other)
        if other in slots.planned:
            self._room.assume_slot(workload, other, "")
        for standing in self._standing(workload, other):
            self._outbox.answer_hold(workload, standing, f"another pod was bound to {pod.node}")
            self._revocations.revoke_member(workload, standing, now)

    @staticmethod
    def _standing(workload: Workload, slot: SlotKey) -> list[Member]:
        return [workload.members[uid] for uid in workload.members.slots.pods(slot)]

    @staticmethod
    def _is_bound(member: Member) -> bool:
        """Whether the member is bound, or may be."""
        return member.state in (MemberState.BOUND, MemberState.BINDING, MemberState.UNKNOWN)

    def _makes_room(self, workload: Workload, node: str) -> bool:
        """Whether a pod of the job, its devices, or the Binding of a pod that is gone have yet to leave the node."""
        for owner, claim in self._claims.on(node):
            if claim.workload != workload.key or isinstance(owner, SlotOf):
                continue
            member = workload.members.get(owner)
            if claim.state is ClaimState.TERMINATING or member is None or not member.pod.live:
                return True
        return self._devices.are_coming_back(node, workload.key)

    @staticmethod
    def _may_stay_empty(workload: Workload, slot: SlotKey) -> bool:
        """Whether the slot may get no pod any more.

        Pods without an index have ended well, and the status of the job has yet to say how many more will come.
        """
        members, prefix = workload.members, slot[0]
        if prefix in members.slots.indexed or members.slots.pods(slot):
            return False
        pods = (member.pod for member in members)
        return any(pod.phase == "Succeeded" and f"{pod.owner}{pod.series}" == prefix for pod in pods)

    def _promise(self, workload: Workload, slot: SlotKey, pod: Pod, node: str, now: float) -> None:
        member = workload.members.get(pod.uid)  # None for the template of a slot without a pod
        if member is None:
            self._room.assume_slot(workload, slot, node)
        else:
            self._steering.await_uptake(workload, now)
            self._steering.promise(workload, member, node)

    def still_holds(self, workload: Workload, record: JobRecord, now: float) -> bool:
        """Recheck a delayed plan before starting the job. Returns False, and revokes it, if it does not hold any more.

        Other pods may conflict with its pods now, or pods that they have affinity to may be gone.
        """
        if record.plan is not None:
            return True
        members = workload.members
        promised = [*((member.pod, member.node) for member in members.placed.values()), *members.slots.promises()]
        placed = [(workload.constrained(pod), node) for pod, node in promised]
        view = self._claims.snapshot()
        if lets_in(placed, view, [pod for pod, _ in placed]):
            return True
        why = tenant_conflict(placed, view) or "its nodes are no longer what its pods demand with regard to other pods"
        self._revocations.revoke(workload, why, now, RevokedFor.LAST_LOOK)
        return False

    def failure(self, workload: Workload, record: JobRecord, now: float) -> str:
        """Why the job has to be suspended and started again; empty while it goes on."""
        limits, plan = self._limits, record.plan or {}
        for node, since in list(record.lost.items()):
            if now < since + limits.node_loss_s:
                continue
            # Pods without a slot of the plan are replaced one by one.
            if not record.closed and any(pod.node == node and pod.identity in plan for pod in workload.bound):
                there = node in self._claims.nodes
                lost = f"has been silent for {limits.node_loss_s:.0f} s" if there else "is gone"
                return f"node {node}, on which pods of it run, {lost}"
            # Members that are being bound there are checked when that has ended.
            if not any(member.node == node for member in workload.members.placed.values()):
                record.regain(node)
        if why := self._not_created(workload, record, now):
            return why
        if not record.ran or record.closed or _runs(workload, record.seen):
            return ""
        # This happens after a restart, when the plan and the dropped slots are unknown.
        if record.seen.plan is None and has_pods_of_lost_plan(workload, record.seen):
            return REMOVED
        return _FALLS_SHORT if record.falls_short else ""

    def _not_created(self, workload: Workload, record: JobRecord, now: float) -> str:
        """Why pods of the job were not created in time; empty if none is late."""
        refused = record.seen.no_pods and not workload.members.live
        if refused:
            record.bring_deadline_forward(now + PROBATION_S)  # its controller has tried already
        lacking, until = uncreated(workload), record.next_pod_deadline
        if not lacking or workload.release.complete or not 0.0 < until <= now:
            return ""
        if until < now - STOOD_STILL_S:
            self._expected.await_pods(record, now)
            return ""
        in_full = now >= record.full_until
        may_fail_early = refused or self._failed_creation.on_probation(workload.key.namespace)
        if not in_full and not (
            may_fail_early
            and others_wait(self._workloads, self._failed_creation, self._pending, self._blocked_singles, workload, now)
        ):
            record.expect(min(record.full_until, now + PROBATION_S), record.full_until)
            return ""
        if not record.tries_again and self._trials.try_again(workload.key, record.seen.podsets, now):
            record.await_trial(now + TRIAL_S)
            return ""
        self._expected.fail_creation(workload, now, in_full=in_full)
        if record.seen.backs_off:
            # Within this time it tries once more: each start that it does not see doubles its pause.
            workload.retries.pause(now + self._limits.creation_s)
        if record.seen.delay:
            return record.seen.delay
        total = len(workload.members.slots.templates)
        return (
            f"{lacking} of {counted(total, 'pod', 'was', 'were')} not created in time: a ResourceQuota, an "
            "admission webhook or the controller of the job keeps them from being created (its events say which)"
        )


def has_pods_of_lost_plan(workload: Workload, job: Job) -> bool:
    """Whether all of its pods wait, and were made for a plan of Muster that is lost: with its nodes and minMember."""
    return job.marked and job.uid in workload.members.declared.owners and not _runs(workload, job)


def _runs(workload: Workload, job: Job) -> bool:
    """Whether a pod of the job is bound, or some pod of its gang may be soon."""
    bound = workload.members.bound.values()
    return workload.releasing or workload.outcome_unknown or any(member.pod.owner == job.uid for member in bound)
