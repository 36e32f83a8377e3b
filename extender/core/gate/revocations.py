"""Take promises back, a whole workload's or one member's. What is held or nominated for them ends as well.

A job whose plan is lost is started over if its pods say that plan.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from extender.core.causes import Forgotten
from extender.core.effects import DEADLINES, Cause, Evict, Milestone
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
from policies.placement.rules import keeps
from policies.steps import finish
from policies.words import without_devices


def take_job_back(workload: Workload, why: str) -> None:
    """What its pods are made of says the plan: it has to be suspended to be planned anew. One that runs goes on if only
    pods that it can do without, which are planned one by one, lose their nodes, and so does one that makes no more."""
    if (job := workload.job) is None:
        return
    if job.plan is None:
        return job.withdraw_start()
    members = workload.members
    promised = (*(member.pod.identity for member in members.placed.values()), *members.slots.planned)
    led = [slot for slot in promised if slot in job.plan]
    if not job.closed and (not workload.whole or any(needs(workload, slot) for slot in led)):
        return job.decide_stop(why)
    return job.let_go(led)


def end_start(workload: Workload, why: str) -> None:
    """It is bound in part. Others may have started its job again, without a plan, before the pods of that start had
    gone: it is suspended all the same."""
    job = workload.job
    if job is not None and job.plan is None and not job.seen.suspended:
        job.decide_stop(why)
    else:
        take_job_back(workload, why)


def needs(workload: Workload, slot: SlotKey) -> bool:
    """Whether too few pods are on nodes: in all, or of the slot's podset."""
    podsets, reached = workload.podsets.podsets if workload.podsets is not None else (), workload.members.slots.reached
    some = (one for one in podsets if slot[0] == one.prefix)
    return not workload.whole or any(reached(Stage.BOUND, one.prefix) < one.least for one in some)


_STOPS = (Cause.JOB_SUSPENDED, Cause.PREEMPTED)
"""Causes whose text says what happens to the workload."""


@dataclass(eq=False)
class Revocations:
    """Takes room back."""

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
        self, workload: Workload, why: str, now: float, cause: Cause, *, penalty: bool = False, noted: bool = False
    ) -> None:
        """Take every promise back: held binds fail, assumed room is free, nominations are cleared. ``noted``: its
        history says why already."""
        members = workload.members
        take_job_back(workload, why)
        if members.placed or members.holds:
            # Whoever is to clear their nominations, we or kube-scheduler, may fail: time to look.
            self._steering.sweep_later(workload, now)
        if members.placed or members.holds or (members.slots.planned and not workload.release.complete):
            self._reporter.reached(workload, Milestone.FORGOTTEN, now, cause=cause, detail=why)
        for member in list(members.placed.values()):
            if not _is_on_its_way(member, now):
                claim = self._claims.get(member.uid)
                self._steering.stop(workload, member)
                self._outbox.answer_hold(workload, member, why)
                self._room.unassume(workload, member)
                self._keep_promised(workload, member.pod, claim, now)
        for uid in list(members.holds):
            self._outbox.answer_hold(workload, members[uid], why)
        for slot in list(members.slots.planned):
            claim = self._claims.get(SlotOf(workload.key, slot))
            self._room.assume_slot(workload, slot, "")
            self._keep_promised(workload, members.slots.templates[slot], claim, now)
        workload.release.wait_for(None)
        if penalty:
            workload.retries.fail(now, self._limits.retry_max_s)
        self._say(workload, why, now, cause, noted=noted)
        self._store.mark_dirty(workload)

    def _say(self, workload: Workload, why: str, now: float, cause: Cause, *, noted: bool) -> None:
        if workload.members.slots.lacking and not workload.whole:
            self._reporter.explain(workload, Forgotten(why), now)
            if cause in DEADLINES:
                self._reporter.report(workload, now)
        elif not noted:
            workload.telling.note(now, why if cause in _STOPS else f"forgotten: {why}")

    def lose(self, workload: Workload, member: Member, now: float) -> None:
        """Take the room of a lost member back, unless part of its gang is bound, or may be by now: then its replacement
        gets the room. The slots of an admitted job keep their nodes by themselves, a suspended one replaces no pod.
        """
        members = workload.members
        others = (*members.binding.values(), *members.unknown.values())
        started = members.started or any(one is not member for one in others)
        claim = self._claims.get(member.uid) if member.placed else None
        self.take_back(workload, member, now)
        self._keep_promised(workload, member.pod, claim, now)
        if claim is not None and started and not (workload.release.complete or workload.admitted or workload.paused):
            self._room.reserve(workload, member.pod, claim, now + self._limits.partial_s)

    def keep_room(self, workload: Workload, lost: Pod, claim: Claim, now: float) -> None:
        """Keep the room of a member that has ended, from now on: its gang runs, and is to run whole again.

        A job that was started by a plan keeps its nodes slot by slot. Nothing is kept for what Muster itself has
        evicted, nor for a gang of which nothing runs any more, unless its owner makes all of it anew.
        """
        release = workload.release
        ours = lost.stamp is not None and workload.members.is_ours(lost)
        if ours and lost.uid not in self._preemptions.pods and not ended_well(lost):
            release.keep(now + self._limits.replacement_s)
            self._keep_promised(workload, lost, claim, now)

    def _keep_promised(self, workload: Workload, lost: Pod, claim: Claim | None, now: float) -> None:
        """Keep it as long as that of the last lost member: a replacement that loses its promise gets no more time."""
        release = workload.release
        goes_on = (workload.members.started and release.complete) or (release.gone_whole and bool(workload.remade))
        runs = goes_on and not (workload.admitted or workload.paused or release.given_back)
        ends = workload.key in self._preemptions.leaving or (workload.group is not None and workload.group.deleting)
        if claim is None or not runs or ends or now >= release.kept_until:
            return
        if self._devices.has_devices(lost.uid):
            # They are in use until Kubernetes has deleted the claims: ``drop_kept`` keeps them from then on.
            claim = claim._replace(requests=without_devices(claim.requests))
        if self._claims.fits(claim.node, claim.requests) and len(workload.reserved) < workload.missing:
            self._room.reserve(workload, lost, claim, release.kept_until)
            workload.telling.note(now, f"the room of {lost.name} on {claim.node} is kept for its replacement")
            self._store.mark_dirty(workload)

    def drop_kept(self, workload: Workload) -> None:
        """Give up room that is kept for more members than are missing, on a node that is gone, or taken by others. A
        cordoned node counts: it may be drained, and open again before the replacement comes. The devices of a lost
        member are kept once its claims have given them back."""
        claims = self._claims
        while (surplus := workload.surplus_reserved) is not None:
            self._room.unreserve(workload, surplus)
        for slot in list(workload.reserved):
            claim = claims.get(SlotOf(workload.key, slot))
            if claim is None or claim.node not in claims.nodes or claims.overcommitted(claim.node, claim.requests):
                self._room.unreserve(workload, slot)
            else:
                self._room.reserve_devices(workload, slot, claim)

    def take_back(self, workload: Workload, member: Member, now: float) -> None:
        """Take the room of one member back, for whoever comes first."""
        self._steering.stop(workload, member)
        self._steering.sweep_later(workload, now)
        self._room.unassume(workload, member)

    def take_back_unlike_bound(self, workload: Workload, now: float) -> None:
        """Its start broke off: whoever completes it gets the flavors of its bound members, and some had others."""
        if workload.job is None:
            for member in map(workload.members.__getitem__, self._quotas.unlike_bound(workload)):
                if not _is_on_its_way(member, now):
                    self._outbox.answer_hold(workload, member, "its gang is completed with the flavors of those bound")
                    self.take_back(workload, member, now)

    def leave_namespace(self, workload: Workload, now: float) -> bool:
        """Take every promise back if its namespace is being deleted: no pod comes to that room. What its pods use on
        nodes is theirs until they end, so a job of which some are bound is not suspended. Returns whether it is."""
        members, job = workload.members, workload.job
        if (why := self._namespaces.ending(workload.key.namespace)) is None:
            return False
        if workload.releasing:
            return True
        self._room.unreserve_all(workload)
        promised = [one for one in members.placed.values() if not _is_on_its_way(one, now)]
        if not (promised or members.holds or members.slots.planned):
            return True
        if job is None or job.plan is None or not members.bound:
            self.revoke(workload, text_of(why), now, Cause.NAMESPACE_DELETED)
            return True
        job.let_go([*members.slots.planned, *(one.pod.identity for one in promised)])
        for slot in list(members.slots.planned):
            self._room.assume_slot(workload, slot, "")
        for one in promised:
            self._outbox.answer_hold(workload, one, text_of(why))
            self.take_back(workload, one, now)
        return True

    def evict_bound(self, workload: Workload, why: str) -> None:
        """Evict all members that Muster has bound, never a part of them."""
        for pod in workload.bound:
            if pod.stamp is not None:
                self.evict(pod, why)

    def evict(self, pod: Pod, why: str) -> None:
        """Evict a pod: the only way in which the core ends one."""
        self._outbox.append(Evict(pod.uid, pod.namespace, pod.name, why))

    def drop_too_few(self, workload: Workload, now: float) -> None:
        """Those that are promised a node are too few to start: a member is gone, or more are asked for by now."""
        started = workload.release.complete or workload.releasing or workload.members.started or workload.doubtful
        # A slot of an admitted job keeps its node for the next pod.
        if not (workload.admitted or workload.filling or started or workload.seated):
            why = "members were deleted, or more are asked for: too few have a node to start"
            self.revoke(workload, why, now, Cause.MEMBER_LOST)

    def give_way(
        self, node: str, now: float, why: str = "was taken by another pod", cause: Cause = Cause.ROOM_TAKEN
    ) -> None:
        """Planned room is gone (to a pod of higher priority, another scheduler): the youngest promises give way."""
        for owner, claim in reversed(list(self._claims.promised_on(node))):
            workload = self._store.workloads.get(claim.workload) if claim.workload is not None else None
            if workload is not None and isinstance(owner, SlotOf) and owner.slot in workload.reserved:
                self.drop_kept(workload)
                continue
            if workload is None or not self._is_promised(workload, owner):
                continue
            if not self._claims.overcommitted(node, claim.requests):
                continue
            if workload.releasing or self._in_doubt(workload, owner):
                workload.unsettled[node] = None
            else:
                self._revoke_for(workload, owner, f"the room planned on node {node} {why}", now, cause)

    def _revoke_for(self, workload: Workload, owner: Owner, why: str, now: float, cause: Cause) -> None:
        """That one has lost its node. Beyond the plan of its job it is planned again by itself."""
        plan = None if workload.job is None else workload.job.plan
        member = None if isinstance(owner, SlotOf) else workload.members[owner]
        if plan is None or member is None or member.pod.identity in plan:
            return self.revoke(workload, why, now, cause)
        self._outbox.answer_hold(workload, member, why)
        self.take_back(workload, member, now)

    def check(self, node: str, now: float, *, relabelled: bool = False) -> None:
        """A node changed: placements on it that no longer hold are taken back, and planned anew.

        ``relabelled``: it may be in another domain than its workload requires. The last look before a first start sees
        that. Of a gang that has started a member that comes later is bound without one, so it is found out now. A job
        is not started over for a label, which may be back in seconds.
        """
        for owner, claim in list(self._claims.promised_on(node)):
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
                self._revoke_for(workload, owner, why, now, Cause.NODE_CHANGED)
        self.give_way(node, now, "is gone: the node has less than before", Cause.NODE_CHANGED)

    def recheck(self, workload: Workload, member: Member) -> None:
        """It asks for other nodes than when it was promised one: the pin of a plan that was taken back came late."""
        if not self._claims.admits(member.node, member.pod.selection):
            workload.unsettled[member.node] = None
            self._store.mark_dirty(workload)

    def note_bound(self, workload: Workload, member: Member, node: str) -> None:
        """If it was not promised that node, somebody else has bound it, an earlier leader say: what the others are
        promised may not fit that."""
        if member.node != node:
            workload.unsettled[node] = None

    def shut_out(self, workload: Workload, uids: Sequence[str]) -> set[str]:
        """Which of these members at bind a release that is under way has to go on without: their room was taken
        meanwhile, or others were bound out of the domain that they require. That a node has closed or is gone does not
        stop a release.
        """
        if not workload.unsettled or not uids:
            return set()
        claims, looked_at = self._claims, workload.unsettled
        there = [(pod, node) for pod, node in finish(siblings(workload)) if node in claims.nodes]
        apart = not keeps(there, claims.snapshot())
        sure = [one for one in map(workload.members.__getitem__, uids) if one.state is not MemberState.UNKNOWN]
        return {
            one.uid
            for one in sure
            if apart or (one.node in looked_at and claims.overcommitted(one.node, one.pod.requests))
        }

    def drop_broken(self, workload: Workload, now: float) -> None:
        """No promise is taken back while a release is under way or in doubt: what was noticed meanwhile counts now."""
        if workload.members.steps[Step.FAILED]:
            self._drop_unled(workload, now)
        if not workload.admitted:  # else ``Upkeep.keep`` does that
            self.leave_namespace(workload, now)
        if workload.unsettled:
            self._drop_unfit(workload, now)
        if workload.members.placed:
            self.drop_too_few(workload, now)

    def _drop_unled(self, workload: Workload, now: float) -> None:
        """Whom nobody leads to his node would keep it for ever."""
        for member in workload.members.placed.values():
            if member.step is Step.FAILED and member.state is not MemberState.UNKNOWN:
                why = f"pod {member.pod.name} could not be nominated or ungated while others were bound"
                return self.revoke(workload, why, now, Cause.WRITE_FAILED, penalty=True)

    def _drop_unfit(self, workload: Workload, now: float) -> None:
        """The nodes that have changed, or that members are bound on who were not promised them."""
        members, claims = workload.members, self._claims
        for node in list(workload.unsettled):
            for owner, claim in list(claims.promised_on(node)):
                if claim.workload != workload.key or not self._is_promised(workload, owner):
                    continue
                if (unfit := claims.unfit(self._pod_of(workload, owner), node)) is None:
                    continue
                if not self._in_doubt(workload, owner):
                    self._revoke_for(workload, owner, unfit, now, Cause.NODE_CHANGED)
        if (members.placed or members.slots.planned) and not keeps(finish(siblings(workload)), claims.snapshot()):
            why = (
                "its members would not share the domain that they require: one is bound on another node than planned, "
                "or the labels of a planned node have changed"
            )
            self.revoke(workload, why, now, Cause.BOUND_ELSEWHERE)
        if not workload.doubtful:
            workload.unsettled.clear()

    def run_out(self, workload: Workload, why: str, now: float) -> bool:
        """Those that are held can wait no longer. Whether every promise is taken back: not those of a job that is being
        started, whose pods come to bind again."""
        if workload.being_started:
            self.let_go(workload, why, now)
            return False
        self.revoke(workload, why, now, Cause.HOLD_DEADLINE, penalty=True)
        return True

    def let_go(self, workload: Workload, why: str, now: float) -> None:
        """The binds that are held fail, and have to come again: the nodes stay promised."""
        for uid in list(workload.members.holds):
            self._outbox.answer_hold(workload, workload.members[uid], why)
        workload.release.wait_for(None)
        self.extend(workload, now)

    def extend(self, workload: Workload, now: float) -> None:
        """kube-scheduler has a full plan's time again to take the placement up."""
        workload.wait_until(now + self._limits.plan_s)

    @staticmethod
    def _pod_of(workload: Workload, owner: Owner) -> Pod:
        """Who is promised the room, or what will ask for it."""
        members = workload.members
        return workload.asking(members.slots.templates[owner.slot] if isinstance(owner, SlotOf) else members[owner].pod)

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
