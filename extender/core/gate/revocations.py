"""Revoke promises: those of a whole workload, or of one member. Held binds fail and nominations are cleared.

A job whose plan is lost is suspended if its pods carry that plan, and planned again.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from extender.core.causes import Forgotten
from extender.core.effects import DEADLINES, Evict, Milestone, RevokedFor
from extender.core.explain.reasons import text_of
from extender.core.explain.telling import Reporter
from extender.core.gate.steering import Steering
from extender.core.ledger.claims import Claim, Claims, Owner, SlotOf
from extender.core.ledger.devices import Devices
from extender.core.ledger.preemptions import Preemptions
from extender.core.ledger.quotas import Quotas
from extender.core.ledger.room import Room
from extender.core.ledger.store import Namespaces, Outbox, Store
from extender.core.limits import Limits
from extender.core.queue.demands import siblings
from extender.core.workload.members import Member, MemberState, Step, ended_well
from extender.core.workload.slots import Stage
from extender.core.workload.workload import Workload
from policies.model import Pod, SlotKey
from policies.placement.rules import meets_requirements
from policies.steps import finish


def revoke_job_plan(workload: Workload, why: str) -> None:
    """Drop the plan of the workload's job. The job's template carries the plan, so it is suspended to be planned again.

    A running job goes on if it needs none of the pods that lose their nodes: those are planned one by one. A job that
    makes no more pods goes on, too.
    """
    if (job := workload.job) is None:
        return
    if job.plan is None:
        return job.withdraw_start()
    members = workload.members
    promised = (*(member.pod.identity for member in members.placed.values()), *members.slots.planned)
    led = [slot for slot in promised if slot in job.plan]
    if not job.closed and (not workload.has_bound_quorum or any(needs(workload, slot) for slot in led)):
        return job.decide_stop(why)
    return job.drop_slots(led)


def end_start(workload: Workload, why: str) -> None:
    """End the start of a workload that is bound in part.

    Another client may have started its job again without a plan, before the pods of the broken start were gone. Such a
    job is suspended too.
    """
    job = workload.job
    if job is not None and job.plan is None and not job.seen.suspended:
        job.decide_stop(why)
    else:
        revoke_job_plan(workload, why)


def needs(workload: Workload, slot: SlotKey) -> bool:
    """Whether too few pods are on nodes: in all, or of the slot's podset."""
    podsets, reached = workload.podsets.podsets if workload.podsets is not None else (), workload.members.slots.reached
    of_slot = (podset for podset in podsets if slot[0] == podset.prefix)
    return not workload.has_bound_quorum or any(
        reached(Stage.BOUND, podset.prefix) < podset.least for podset in of_slot
    )


_STOPS = (RevokedFor.JOB_SUSPENDED, RevokedFor.PREEMPTED)
"""Causes whose text says what happens to the workload."""


@dataclass(eq=False)
class Revocations:
    """Revokes plans and promises, and frees their room."""

    _limits: Limits
    _store: Store
    _room: Room
    _outbox: Outbox
    _claims: Claims
    _devices: Devices
    _quotas: Quotas
    _preemptions: Preemptions
    _namespaces: Namespaces
    _reporter: Reporter
    _steering: Steering

    def revoke(
        self, workload: Workload, why: str, now: float, cause: RevokedFor, *, penalty: bool = False, noted: bool = False
    ) -> None:
        """Revoke every promise: held binds fail, promised room becomes free, nominations are cleared.

        ``penalty``: the workload pauses before it is tried again. ``noted``: its history has the reason already.
        """
        members = workload.members
        revoke_job_plan(workload, why)
        if members.placed or members.holds:
            # The write that clears a nomination may fail, Muster's as well as kube-scheduler's: check it later.
            self._steering.sweep_later(workload, now)
        if members.placed or members.holds or (members.slots.planned and not workload.release.complete):
            self._reporter.reached(workload, Milestone.FORGOTTEN, now, cause=cause, detail=why)
        for member in list(members.placed.values()):
            if not _is_on_its_way(member, now):
                claim = self._claims.get(member.uid)
                self._steering.stop(workload, member)
                self._outbox.answer_hold(workload, member, why)
                self._room.unassume(workload, member)
                self._reserve_promised(workload, member.pod, claim, now)
        for uid in list(members.holds):
            self._outbox.answer_hold(workload, members[uid], why)
        for slot in list(members.slots.planned):
            claim = self._claims.get(SlotOf(workload.key, slot))
            self._room.assume_slot(workload, slot, "")
            self._reserve_promised(workload, members.slots.templates[slot], claim, now)
        workload.release.wait_for(None)
        if penalty:
            workload.retries.fail(now, self._limits.retry_max_s)
        self._say(workload, why, now, cause, noted=noted)
        self._store.mark_dirty(workload)

    def _say(self, workload: Workload, why: str, now: float, cause: RevokedFor, *, noted: bool) -> None:
        if workload.members.slots.lacking and not workload.has_bound_quorum:
            self._reporter.explain(workload, Forgotten(why), now)
            if cause in DEADLINES:
                self._reporter.report(workload, now)
        elif not noted:
            workload.reason_state.note(now, why if cause in _STOPS else f"forgotten: {why}")

    def lose(self, workload: Workload, member: Member, now: float) -> None:
        """Take the room of a lost member. Its replacement gets it if other members are bound, or may be.

        Slots of an admitted job keep their nodes anyway. A suspended job makes no replacement.
        """
        members = workload.members
        others = (*members.binding.values(), *members.unknown.values())
        started = members.started or any(other is not member for other in others)
        claim = self._claims.get(member.uid) if member.placed else None
        self.revoke_member(workload, member, now)
        self._reserve_promised(workload, member.pod, claim, now)
        if claim is not None and started and not (workload.release.complete or workload.admitted or workload.paused):
            self._room.reserve(workload, member.pod, claim, now + self._limits.partial_s)

    def reserve_room(self, workload: Workload, lost: Pod, claim: Claim, now: float) -> None:
        """Keep the room of a member that has ended in a running gang, so that the gang can run complete again.

        A job that was started by a plan keeps its nodes slot by slot. Nothing is kept for a member that Muster has
        evicted, nor for a gang of which no member runs, unless its owner makes all of its pods again.
        """
        release = workload.release
        ours = lost.stamp is not None and workload.members.is_ours(lost)
        if ours and lost.uid not in self._preemptions.pods and not ended_well(lost):
            release.reserve_rooms(now + self._limits.replacement_s)
            self._reserve_promised(workload, lost, claim, now)

    def _reserve_promised(self, workload: Workload, lost: Pod, claim: Claim | None, now: float) -> None:
        """Keep the room of a lost member until ``release.reserved_until``.

        A replacement that loses its promise gets no more time.
        """
        release = workload.release
        goes_on = workload.members.started and release.complete
        comes_again = bool(workload.remade) and (release.complete or release.gone_whole)
        runs = (goes_on or comes_again) and not (workload.admitted or workload.paused or release.given_back)
        ends = workload.key in self._preemptions.leaving or (workload.group is not None and workload.group.deleting)
        if claim is None or not runs or ends or now >= release.reserved_until:
            return
        if self._devices.has_devices(lost.uid):
            # The devices are in use until Kubernetes has deleted the claims. ``drop_reserved`` keeps them from then on.
            claim = claim._replace(requests=self._devices.without_counted(claim.requests))
        if self._claims.fits(claim.node, claim.requests) and len(workload.reserved) < workload.missing:
            self._room.reserve(workload, lost, claim, release.reserved_until)
            workload.reason_state.note(now, f"the room of {lost.name} on {claim.node} is kept for its replacement")
            self._store.mark_dirty(workload)

    def drop_reserved(self, workload: Workload) -> None:
        """Give up kept room that is no longer needed, is on a node that is gone, or was taken by others.

        A cordoned node keeps it: the node may be drained, and open again before the replacement comes. Devices of a
        lost member are kept once its claims have released them.
        """
        claims = self._claims
        while (surplus := workload.surplus_reserved) is not None:
            self._room.unreserve(workload, surplus)
        for slot in list(workload.reserved):
            claim = claims.get(SlotOf(workload.key, slot))
            if claim is None or claim.node not in claims.nodes or claims.overcommitted(claim.node, claim.requests):
                self._room.unreserve(workload, slot)
            else:
                self._room.reserve_devices(workload, slot, claim)

    def revoke_member(self, workload: Workload, member: Member, now: float) -> None:
        """Revoke the promise to one member. Its room is free for any workload."""
        self._steering.stop(workload, member)
        self._steering.sweep_later(workload, now)
        self._room.unassume(workload, member)

    def revoke_unlike_bound(self, workload: Workload, now: float) -> None:
        """Revoke promises in a broken start whose flavors differ from those of its bound members.

        A gang is completed with the flavors of its bound members.
        """
        if workload.job is None:
            for member in map(workload.members.__getitem__, self._quotas.unlike_bound(workload)):
                if not _is_on_its_way(member, now):
                    self._outbox.answer_hold(workload, member, "its gang is completed with the flavors of those bound")
                    self.revoke_member(workload, member, now)

    def leave_namespace(self, workload: Workload, now: float) -> bool:
        """Revoke every promise of a workload whose namespace is being deleted. Returns whether it is.

        No pod can be created there any more. A job with bound pods is not suspended: the pods keep what they use until
        they end.
        """
        members, job = workload.members, workload.job
        if (why := self._namespaces.ending(workload.key.namespace)) is None:
            return False
        if workload.releasing:
            return True
        self._room.unreserve_all(workload)
        promised = [member for member in members.placed.values() if not _is_on_its_way(member, now)]
        if not (promised or members.holds or members.slots.planned):
            return True
        if job is None or job.plan is None or not members.bound:
            self.revoke(workload, text_of(why), now, RevokedFor.NAMESPACE_DELETED)
            return True
        job.drop_slots([*members.slots.planned, *(member.pod.identity for member in promised)])
        for slot in list(members.slots.planned):
            self._room.assume_slot(workload, slot, "")
        for member in promised:
            self._outbox.answer_hold(workload, member, text_of(why))
            self.revoke_member(workload, member, now)
        return True

    def evict_bound(self, workload: Workload, why: str) -> None:
        """Evict all members that Muster has bound, never only some."""
        for pod in workload.bound:
            if pod.stamp is not None:
                self.evict(pod, why)

    def evict(self, pod: Pod, why: str) -> None:
        """Evict a pod. This is the only way in which the core ends one."""
        self._outbox.append(Evict(pod.uid, pod.namespace, pod.name, why))

    def drop_too_few(self, workload: Workload, now: float) -> None:
        """Revoke the promises if too few members have one to start: members were deleted, or more are asked for now."""
        started = (
            workload.release.complete or workload.releasing or workload.members.started or workload.outcome_unknown
        )
        # A slot of an admitted job keeps its node for the next pod.
        if not (workload.admitted or workload.filling or started or workload.has_promised_quorum):
            why = "members were deleted, or more are asked for: too few have a node to start"
            self.revoke(workload, why, now, RevokedFor.MEMBER_LOST)

    def revoke_newest(
        self, node: str, now: float, why: str = "was taken by another pod", cause: RevokedFor = RevokedFor.ROOM_TAKEN
    ) -> None:
        """Revoke the newest promises on a node whose room was taken by another pod, or that has less than before."""
        for owner, claim in reversed(self._claims.promised_on(node)):
            workload = self._store.workloads.get(claim.workload) if claim.workload is not None else None
            if workload is not None and isinstance(owner, SlotOf) and owner.slot in workload.reserved:
                self.drop_reserved(workload)
                continue
            if workload is None or not self._is_promised(workload, owner):
                continue
            if not self._claims.overcommitted(node, claim.requests):
                continue
            if workload.releasing or self._in_doubt(workload, owner):
                workload.unsettled[node] = None
            else:
                self._revoke_for(workload, owner, f"the room planned on node {node} {why}", now, cause)

    def _revoke_for(self, workload: Workload, owner: Owner, why: str, now: float, cause: RevokedFor) -> None:
        """Revoke the plan because this owner has lost its node; only its own promise if its job's plan does not have
        it.
        """
        plan = None if workload.job is None else workload.job.plan
        member = None if isinstance(owner, SlotOf) else workload.members[owner]
        if plan is None or member is None or member.pod.identity in plan:
            return self.revoke(workload, why, now, cause)
        self._outbox.answer_hold(workload, member, why)
        self.revoke_member(workload, member, now)

    def check(self, node: str, now: float, *, relabelled: bool = False) -> None:
        """Revoke promises on a changed node that no longer hold.

        ``relabelled``: the node may be in another domain than a workload requires. The last check before a first start
        finds that. A member that joins a started gang is bound without that check, so its workload is checked now. A
        job is not started again because of a label, which may be back in seconds.
        """
        for owner, claim in self._claims.promised_on(node):
            workload = self._store.workloads.get(claim.workload) if claim.workload is not None else None
            if workload is None or not self._is_promised(workload, owner):
                continue
            selection = self._pod_of(workload, owner).selection
            if self._claims.admits(node, selection):
                if relabelled and workload.release.complete and not workload.admitted:
                    workload.unsettled[node] = None
                    self._store.mark_dirty(workload)
                continue
            if workload.releasing or self._in_doubt(workload, owner):
                workload.unsettled[node] = None
            else:
                why = f"node {node} {self._claims.why_closed(node, selection)}"
                self._revoke_for(workload, owner, why, now, RevokedFor.NODE_CHANGED)
        self.revoke_newest(node, now, "is gone: the node has less than before", RevokedFor.NODE_CHANGED)

    def recheck(self, workload: Workload, member: Member) -> None:
        """Check a member's promise after its node selection changed: the pin of a revoked plan was written late."""
        if not self._claims.admits(member.node, member.pod.selection):
            workload.unsettled[member.node] = None
            self._store.mark_dirty(workload)

    def note_bound(self, workload: Workload, member: Member, node: str) -> None:
        """Have the plan checked if a member was bound to another node than it was promised.

        Another client bound it, such as an earlier leader. The nodes promised to other members may not go with that.
        """
        if member.node != node:
            workload.unsettled[node] = None

    def shut_out(self, workload: Workload, uids: Sequence[str]) -> set[str]:
        """UIDs of members at bind that a release under way has to leave out.

        Their room was taken meanwhile, or members were bound outside the domain that they require. A node that was
        closed or deleted stops no release.
        """
        if not workload.unsettled or not uids:
            return set()
        claims, looked_at = self._claims, workload.unsettled
        there = [(pod, node) for pod, node in finish(siblings(workload)) if node in claims.nodes]
        apart = not meets_requirements(there, claims.snapshot())
        sure = [member for member in map(workload.members.__getitem__, uids) if member.state is not MemberState.UNKNOWN]
        return {
            member.uid
            for member in sure
            if apart or (member.node in looked_at and claims.overcommitted(member.node, member.pod.requests))
        }

    def drop_broken(self, workload: Workload, now: float) -> None:
        """Apply what was noticed during a release or an unknown Binding, when no promise could be revoked."""
        if workload.members.steps[Step.FAILED]:
            self._drop_unled(workload, now)
        if not workload.admitted:  # ``Upkeep.promise_again`` does that for an admitted job
            self.leave_namespace(workload, now)
        if workload.unsettled:
            self._drop_unfit(workload, now)
        if workload.members.placed:
            self.drop_too_few(workload, now)

    def _drop_unled(self, workload: Workload, now: float) -> None:
        """Revoke the plan if a nomination or ungating failed: the member would keep its claim indefinitely."""
        for member in workload.members.placed.values():
            if member.step is Step.FAILED and member.state is not MemberState.UNKNOWN:
                why = f"pod {member.pod.name} could not be nominated or ungated while others were bound"
                return self.revoke(workload, why, now, RevokedFor.WRITE_FAILED, penalty=True)

    def _drop_unfit(self, workload: Workload, now: float) -> None:
        """Revoke promises on nodes that have changed, or that members are bound on without a promise."""
        members, claims = workload.members, self._claims
        for node in list(workload.unsettled):
            for owner, claim in claims.promised_on(node):
                if claim.workload != workload.key or not self._is_promised(workload, owner):
                    continue
                if (unfit := claims.unfit(self._pod_of(workload, owner), node)) is None:
                    continue
                if not self._in_doubt(workload, owner):
                    self._revoke_for(workload, owner, unfit, now, RevokedFor.NODE_CHANGED)
        if (members.placed or members.slots.planned) and not meets_requirements(
            finish(siblings(workload)), claims.snapshot()
        ):
            why = (
                "its members would not share the domain that they require: one is bound on another node than planned, "
                "or the labels of a planned node have changed"
            )
            self.revoke(workload, why, now, RevokedFor.BOUND_ELSEWHERE)
        if not workload.outcome_unknown:
            workload.unsettled.clear()

    def run_out(self, workload: Workload, why: str, now: float) -> bool:
        """End the wait of held members that cannot wait any longer. Returns whether every promise was revoked.

        A job that is being started keeps its promises, since its pods come to bind again.
        """
        if workload.being_started:
            self.fail_held_binds(workload, why, now)
            return False
        self.revoke(workload, why, now, RevokedFor.HOLD_DEADLINE, penalty=True)
        return True

    def fail_held_binds(self, workload: Workload, why: str, now: float) -> None:
        """Fail the held binds, which have to come again. The nodes stay promised."""
        for uid in list(workload.members.holds):
            self._outbox.answer_hold(workload, workload.members[uid], why)
        workload.release.wait_for(None)
        self.extend(workload, now)

    def extend(self, workload: Workload, now: float) -> None:
        """Give kube-scheduler the full time again to take up the plan."""
        workload.wait_until(now + self._limits.plan_s)

    @staticmethod
    def _pod_of(workload: Workload, owner: Owner) -> Pod:
        """The pod that is promised the room, or the template of the slot."""
        members = workload.members
        return workload.constrained(
            members.slots.templates[owner.slot] if isinstance(owner, SlotOf) else members[owner].pod
        )

    @staticmethod
    def _in_doubt(workload: Workload, owner: Owner) -> bool:
        return not isinstance(owner, SlotOf) and workload.members[owner].state is MemberState.UNKNOWN

    @staticmethod
    def _is_promised(workload: Workload, owner: Owner) -> bool:
        if isinstance(owner, SlotOf):
            return owner.slot in workload.members.slots.planned
        return owner in workload.members.placed


def _is_on_its_way(member: Member, now: float) -> bool:
    """Whether its Binding is being written, or may have been."""
    in_doubt = member.state is MemberState.UNKNOWN and now < member.doubt_ends
    return in_doubt or member.state is MemberState.BINDING
