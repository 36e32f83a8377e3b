"""The permit gate: bind requests are held until the gang is complete, then its Bindings are posted together.

kube-scheduler gives up each bind request at an instant of its own, and until then the request can be held. The last
Binding is posted when all others are written, and stamps the release as complete. After a restart the stamp tells a
release that broke off from a complete one that has lost a pod.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import inf

from extender.core.answers import BindingPosted, Outcome
from extender.core.causes import Holding, Releasing
from extender.core.effects import Milestone, RevokedFor
from extender.core.events import BindArrived
from extender.core.explain.telling import Reporter
from extender.core.gate.revocations import Revocations
from extender.core.gate.stamps import DOMAIN, NODE, RANK, costs_of, gang_to_stamp, marks_of, ranks_of
from extender.core.gate.steering import Steering
from extender.core.ledger.backfill import Backfills
from extender.core.ledger.claims import Claims
from extender.core.ledger.expected import uncreated
from extender.core.ledger.kube_scheduler import carrying_out
from extender.core.ledger.preemptions import Preemptions, key_of, room_of
from extender.core.ledger.quotas import Quotas
from extender.core.ledger.room import Room
from extender.core.ledger.store import Outbox, Process, Store
from extender.core.limits import Limits
from extender.core.workload.members import Member, MemberState, Step
from extender.core.workload.release import BindCalls, Binding, Hold
from extender.core.workload.slots import Stage
from extender.core.workload.workload import Workload
from policies.model import Pod, Stamp
from policies.placement.fitting import tenant_conflict
from policies.placement.rules import meets_requirements
from policies.words import many


def deadline(workload: Workload, limits: Limits) -> float:
    """The instant by which posting has to start, so that it ends before the first held request expires."""
    needed_s = limits.post_margin_s + limits.post_member_s * len(workload.members.placed)
    return min(workload.members.holds.first_to_expire() - needed_s, patience(workload, limits))


def patience(workload: Workload, limits: Limits) -> float:
    """The instant until which held members wait for the others.

    It is the shorter of the setting and the PodGroup's timeout, and no less than volumes take to be provisioned.
    """
    holds, group = workload.members.holds, workload.group
    if (workload.job is not None and uncreated(workload)) or carrying_out(workload):
        return inf  # its pods are still being created or steered, which has a limit of its own
    began = max(holds.began(), 0.0 if workload.job is None else workload.job.last_pod_at)
    hold_s = limits.hold_s if group is None or group.timeout_s is None else min(limits.hold_s, group.timeout_s)
    return max(began + hold_s, workload.storage_deadline)


def is_late(workload: Workload, limits: Limits, now: float) -> bool:
    """Whether a held request cannot wait any longer."""
    return bool(workload.members.holds) and now >= deadline(workload, limits)


UnknownBinding = tuple[str, float]
"""The node that a pod may have been bound to, and until when the watch may still show that."""


@dataclass(eq=False)
class Bindings:
    """Holds and posts Bindings, and applies their outcomes. ``progress`` is called when a workload is settled."""

    _limits: Limits
    _process: Process
    _store: Store
    _room: Room
    _outbox: Outbox
    _claims: Claims
    _quotas: Quotas
    _preemptions: Preemptions
    _backfills: Backfills
    _binds: BindCalls
    _reporter: Reporter
    _steering: Steering
    _revocations: Revocations

    def arrived(self, event: BindArrived, now: float) -> None:
        """Handle the bind call of a pod that may be bound: hold it, or post the Binding of a pod without a gang."""
        pod = self._store.pods[event.uid]
        entry = self._store.member(event.uid)
        if entry is None:
            return self._bind_alone(pod, event, now)
        workload, member = entry
        if not member.placed or member.node != event.node:
            return self._outbox.answer(event.call, "the gang has no placement with this pod on this node any more")
        self._outbox.answer_hold(workload, member, "superseded by a newer bind request")
        if member.step is Step.LATER:
            workload.members.step(member, Step.STEERED)  # kube-scheduler let it in before its round
        workload.members.hold(member, Hold(event.call, event.node, now, event.expires))
        self._binds.hold(event.call, pod.uid)
        self._store.mark_dirty(workload)
        return workload.status.hold(now)

    def asked_again(self, event: BindArrived, binding: Binding) -> None:
        """Handle another bind call while a Binding is being written.

        It gets the same answer, unless it names another node.
        """
        if binding.node != event.node:
            return self._outbox.answer(event.call, f"a Binding to {binding.node} is being posted")
        if (superseded := binding.await_by(event.call)) is not None:
            self._outbox.answer(superseded, "superseded by a newer bind request")
        return None

    def disconnected(self, call: int, now: float) -> None:
        """Drop a held call that kube-scheduler gave up. The pod will come back through a new scheduling cycle."""
        entry = self._store.member(self._binds.end_call(call))
        if entry is None or entry[1].hold is None:
            return
        workload, member = entry
        workload.members.end_hold(member)
        workload.reason_state.note(now, "a held bind request was given up by kube-scheduler")
        if not workload.members.holds:
            # No held request is left whose deadline would revoke the plan, so the plan gets one.
            self._revocations.extend(workload, now)
        workload.release.wait_no_more_for(member.uid)
        self._store.mark_dirty(workload)

    def posted(self, event: BindingPosted, now: float) -> None:
        """Apply the outcome of a Binding, and answer the calls that wait for it."""
        uid = event.uid
        binding = self._binds.written(uid)
        if binding is None:
            return
        done = event.outcome is Outcome.DONE
        for call in binding.calls:
            self._outbox.answer(call, "" if done else event.detail or "the Binding failed")
        if done:
            self._store.mark_bound(uid, binding)
        if (entry := self._store.member(uid)) is not None:
            self._outcome(*entry, event, now)
            self._store.mark_dirty(entry[0])
        elif (pod := self._store.pods.get(uid)) is None or not pod.node:
            self._outcome_alone(uid, event, now)

    def _outcome_alone(self, uid: str, event: BindingPosted, now: float) -> None:
        """Apply the outcome for a pod without a gang that the watch has not shown as bound."""
        if event.outcome is Outcome.REFUSED:
            self._room.free(uid)
        elif uid in self._store.pods:
            self._binds.mark_unknown(uid, now + self._limits.plan_s)

    def _outcome(self, workload: Workload, member: Member, event: BindingPosted, now: float) -> None:
        """Apply the outcome of a member's Binding.

        A failed Binding frees the member's room. If part of its gang is bound, the room is kept for the replacement.
        While the outcome is unknown, the room stays promised.
        """
        match event.outcome:
            case Outcome.DONE:
                self.bound(workload, member)
            case Outcome.REFUSED if member.state is MemberState.BINDING:
                if member.pod.live:
                    workload.release.fail()
                self._revocations.lose(workload, member, now)
            case Outcome.REFUSED if member.state is MemberState.UNKNOWN:
                self._steering.sweep_later(workload, now)
                self._room.unassume(workload, member)
            case Outcome.UNKNOWN if member.state is MemberState.BINDING:
                workload.reason_state.note(now, f"the Binding of {member.uid} may or may not have been written")
                self._revocations.extend(workload, now)
                if member.pod.live:
                    workload.members.mark_unknown(member, now + self._limits.plan_s)
                else:
                    self._room.unassume(workload, member)
            case Outcome.UNKNOWN if member.state is MemberState.UNKNOWN:
                workload.members.mark_unknown(member, now + self._limits.plan_s)
        workload.members.show(member)

    def bound(self, workload: Workload, member: Member) -> None:
        """Settle a member that is bound: answer its held call, and end its steering."""
        hold, node = member.hold, member.pod.node
        if hold is not None:
            why_not = "" if hold.node == node else f"the pod is already on {node}"
            self._outbox.answer_hold(workload, member, why_not)
        workload.release.wait_no_more_for(member.uid)
        workload.members.show(member)
        self._steering.settle(workload, member)

    def unknown_binding_of(self, uid: str) -> UnknownBinding | None:
        """The node that a Binding which is under way no longer may have bound the pod to; None without one."""
        claim, entry = self._claims.get(uid), self._store.member(uid)
        if claim is not None and (until := self._binds.unknown.get(uid)) is not None:
            return claim.node, until
        if entry is not None and entry[1].state is MemberState.UNKNOWN:
            return entry[1].node, entry[1].doubt_ends
        return None

    def moved_in(self, workload: Workload, member: Member, now: float, doubt: UnknownBinding | None) -> None:
        """Keep the room promised for a member that came from another gang, or from none, after its Binding was asked
        for.
        """
        binding = self._binds.writing.get(member.uid)
        if member.pod.node or not member.pod.live:
            return
        if binding is not None and binding.workload == workload.key:
            workload.members.move(member, MemberState.BINDING, binding.node)
        elif (where := doubt if binding is None else (binding.node, inf)) is not None:
            workload.members.mark_unknown(member, until=where[1], node=where[0])
        else:
            return
        self._claims.assume(member.pod, member.node)
        workload.status.plan(now)
        self._revocations.extend(workload, now)

    def left_gang(self, pod: Pod, doubt: UnknownBinding | None) -> None:
        """Keep the room promised for a pod that has left its gang, after its Binding was asked for."""
        binds, claims = self._binds, self._claims
        if (binding := binds.writing.get(pod.uid)) is not None and not pod.node and pod.live:
            claims.assume(pod, binding.node)
        elif doubt is not None and not pod.node and pod.live:
            claims.assume(pod, doubt[0])
            binds.mark_unknown(pod.uid, doubt[1])

    def progress(self, workload: Workload, now: float) -> None:
        """Continue a release that is under way, or begin one if a quorum is held."""
        members, release = workload.members, workload.release
        if members.holds and (release.complete or self._goes_on(workload)):
            if release.complete:
                release.begin(members.continued, now)
            elif release.last is None and not members.started:
                # The member that was last has returned, and no member is bound yet: it is last again.
                release.wait_for(self._last(workload))
            self._post_held(workload, complete=release.complete)
        if members.binding:
            return
        if release.last is None:
            if members.holds:
                self._release(workload, now)
        elif not workload.outcome_unknown or is_late(workload, self._limits, now):
            self._end_release(workload, release.last, now)

    def _goes_on(self, workload: Workload) -> bool:
        """Whether a release that is under way still has its quorum, counting members whose Binding may be written.

        Without a name it is no release: the Bindings are of gangs that their pods have left.
        """
        if not workload.releasing or not workload.release.name:
            return False
        unknown = (member.pod.identity for member in workload.members.unknown.values() if member.hold is None)
        return workload.has_quorum(Stage.ARRIVED, tuple(unknown))

    def _release(self, workload: Workload, now: float) -> None:
        """Release the gang if its quorum is held, there is time, and the last check of nodes and pods passes."""
        members, release = workload.members, workload.release
        if not workload.has_quorum(Stage.ARRIVED):
            return self._reporter.explain(workload, Holding(workload.share(Stage.ARRIVED), uncreated(workload)), now)
        if now >= deadline(workload, self._limits):
            self._revocations.run_out(workload, "the gang became complete too late to bind it in time", now)
            return None
        if (spoiled := self._spoiled(workload)) is not None:
            return self._revocations.revoke(workload, spoiled, now, RevokedFor.LAST_LOOK)
        last, since = self._last(workload), members.holds.first_arrived()
        release.wait_for(last if len(members.holds) > 1 else None)
        release.begin(members.continued or last, now)
        workload.status.release(now)
        workload.reason_state.note(now, f"released with {many(len(members.holds), 'member')}")
        self._reporter.reached(workload, Milestone.RELEASED, now, since=since)
        self._reporter.explain(workload, Releasing(), now)
        return self._post_held(workload, complete=len(members.holds) == 1)

    def _spoiled(self, workload: Workload) -> str | None:
        """Check every node and pod for the last time before anything is bound. Returns the fault; None without one."""
        placed = []
        for uid, hold in workload.members.holds.items():
            pod = workload.members[uid].pod
            if not pod.live or pod.node:
                return "a held member changed before the release"
            if (unfit := self._claims.unfit(pod, hold.node)) is not None:
                return unfit
            placed.append((workload.constrained(pod), hold.node))
        view = self._claims.snapshot()
        if not meets_requirements(placed, view):
            return "labels of its nodes have changed: the planned nodes do not have the topology that it requires"
        return tenant_conflict(placed, view, [member.pod for member in workload.members if not member.pod.live])

    def _last(self, workload: Workload) -> str:
        return max(workload.members.holds, key=lambda uid: workload.members[uid].pod.rank)

    def _end_release(self, workload: Workload, uid: str, now: float) -> None:
        """Post the last Binding, which stamps the release as complete.

        If no member was bound, revoke what is left instead.
        """
        workload.release.wait_for(None)
        if self._revocations.shut_out(workload, [uid]):
            return self._revocations.drop_broken(workload, now)
        if not workload.members.started:
            if not (workload.release.failed or workload.outcome_unknown):
                self._revocations.drop_too_few(workload, now)
                return self.progress(workload, now)
            why = "none of the gang's Bindings was accepted"
            return self._revocations.revoke(workload, why, now, RevokedFor.BINDINGS_REFUSED, penalty=True)
        whole = workload.min_member is None or workload.has_quorum(Stage.BOUND, (workload.members[uid].pod.identity,))
        return self._post(workload, uid, self._marks(workload, [uid])[uid], complete=whole)

    def _post_held(self, workload: Workload, *, complete: bool) -> None:
        uids = [uid for uid in workload.members.holds if uid != workload.release.last]
        if shut_out := self._revocations.shut_out(workload, uids):
            uids = [uid for uid in uids if uid not in shut_out]
        marks = self._marks(workload, uids) if uids else {}
        for uid in uids:
            self._post(workload, uid, marks[uid], complete=complete)

    def _marks(self, workload: Workload, uids: Sequence[str]) -> dict[str, dict[str, str]]:
        """The annotations of each of these members that depend on the gang as a whole: rank and deletion cost."""
        costs = costs_of(workload, uids, self._claims)
        return {uid: {RANK: str(rank), **costs.get(uid, {})} for uid, rank in ranks_of(workload, uids).items()}

    def _post(self, workload: Workload, uid: str, annotations: Mapping[str, str], *, complete: bool) -> None:
        members, release = workload.members, workload.release
        member, quorum, size = members[uid], workload.min_member or 0, workload.reached(Stage.ARRIVED)
        node, again = member.node, member.state is MemberState.UNKNOWN
        members.move(member, MemberState.BINDING)
        if (hold := members.end_hold(member)) is None:
            return
        self._binds.end_call(hold.call)
        # In milliseconds, as a restart reads it.
        at = 0.0 if release.began is None else round(release.began - self._process.wall_offset, 3)
        queue = self._quotas.local_of(workload.key)
        stamp = Stamp(
            gang_to_stamp(workload), release.name or uid, complete, quorum, size, at, workload.key.name, queue
        )
        marks = {**marks_of(stamp), NODE: node, **annotations}
        if (nearest := next(self._claims.domains(node), None)) is not None:
            marks[DOMAIN] = nearest[1]
        self._room.drop_displaced(node)
        self._outbox.post(member.pod, Binding(node, [hold.call], workload.key, stamp), hold.expires, marks, again=again)

    def _bind_alone(self, pod: Pod, event: BindArrived, now: float) -> None:
        """Bind a pod without a gang at once, unless its room was promised to another after it had passed filter."""
        open_to = self._backfills.rooms_outside(self._backfills.closed_to_pod(pod, now))
        if self._preemptions.blocks(pod, event.node, open_to):
            return self._outbox.answer(event.call, f"the room on {event.node} is kept for a gang that is starting")
        self._room.unreserve_single(pod.uid)
        self._claims.release(room_of(key_of(pod), event.node))
        self._room.assume_alone(pod, event.node)
        again = pod.uid in self._binds.unknown
        self._room.drop_displaced(event.node)
        return self._outbox.post(pod, Binding(event.node, [event.call]), event.expires, {}, again=again)
