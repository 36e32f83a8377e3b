"""Settle a workload: determine its state after all that has happened, and call the act that follows.

A start is completed, broken off, or lapses; a gang that stays incomplete is ended. No gang stays bound in part: a start
that broke off is completed in time, or its members are evicted. All acts and their callers: ``tests/core/acts.md``.

After a restart, ``Recovery`` reads the stamps of bound pods and the nominations, workload by workload. A nomination is
a hint: it is taken where the whole gang still fits, else cleared. A gang whose release broke off is planned before all
others and completed.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from math import inf

from extender.core.calls import Calls
from extender.core.causes import Ended, InvalidJob, MembersMissing, Partial, Share
from extender.core.cycle.commit import Books
from extender.core.effects import Milestone
from extender.core.explain.facts import Facts
from extender.core.explain.problems import foreign, of_earlier, too_few
from extender.core.explain.telling import Hints, Reporter
from extender.core.gate.allocations import Allocations
from extender.core.gate.binding import Bindings, deadline, is_late, patience
from extender.core.gate.refusals import Refusals
from extender.core.gate.revocations import Revocations, end_start
from extender.core.gate.stamps import recover_release, was_whole
from extender.core.gate.steering import Steering
from extender.core.jobs.jobs import Jobs
from extender.core.jobs.makers import PodMakers
from extender.core.ledger.backfill import Backfills
from extender.core.ledger.claims import Claim, Claims, ClaimState, SlotOf
from extender.core.ledger.device_users import DeviceUsers
from extender.core.ledger.durations import Durations
from extender.core.ledger.expected import ExpectedPods, uncreated
from extender.core.ledger.kube_scheduler import KubeQueue, awaits_uptake, is_still_queued, too_few_held, too_slow
from extender.core.ledger.pending import Changes, Pending, Timers
from extender.core.ledger.room import Room
from extender.core.ledger.store import Outbox, Process, Store
from extender.core.limits import Limits
from extender.core.preemption.candidates import named
from extender.core.preemption.kube_preemption import KubePreemption
from extender.core.preemption.reservations import VictimEviction
from extender.core.workload.members import Member, MemberState, Step
from extender.core.workload.names import MovedPods
from extender.core.workload.slots import Stage
from extender.core.workload.workload import Workload
from policies.model import GroupKey
from policies.model.eviction import together
from policies.steps import Steps

_OVERRUN_CHECK_S = 60.0
"""How often it is looked at whether room is reserved where a workload runs that has run for too long."""


@dataclass(eq=False)
class Lifecycle:
    """The state of workloads, and their deadlines.

    ``settle`` is called once for each workload that an event made dirty; ``expire`` before it, when a deadline has
    passed.
    """

    _schedulers: tuple[str, ...]
    _limits: Limits
    _process: Process
    _store: Store
    _room: Room
    _outbox: Outbox
    _claims: Claims
    _moved_pods: MovedPods
    _timers: Timers
    _device_users: DeviceUsers
    _durations: Durations
    _backfills: Backfills
    _kube_queue: KubeQueue
    _reporter: Reporter
    _facts: Facts
    _expected: ExpectedPods
    _books: Books
    _steering: Steering
    _revocations: Revocations
    _bindings: Bindings
    _refusals: Refusals
    _jobs: Jobs
    _makers: PodMakers
    _allocations: Allocations
    _victim_eviction: VictimEviction

    def __post_init__(self) -> None:
        self._ours = frozenset(self._schedulers)

    def settle(self, workload: Workload, now: float) -> None:
        """Determine the state of the workload, and call the acts that follow. A second call changes nothing."""
        members = workload.members
        if self._process.counted:
            self._jobs.settle(workload, now)
            self._makers.settle(workload, now)
            if _has_begun(workload):
                self._continue_start(workload, now)
            else:
                self._revocations.drop_broken(workload, now)
                if not members.slots.lacking:
                    self._report_state(workload, now)
            if workload.reserved:
                self._revocations.drop_reserved(workload)
            if members.steps[Step.LATER]:
                self._steering.steer_next_round(workload, now)
            if members.steps[Step.READY]:
                self._steering.ungate(workload)
        else:
            self._device_users.recount(workload.key)
        workload.status.follow(workload.status_by_facts, now)
        self._durations.follow(workload, now)
        self._backfills.follow(workload, now)
        if not self._books.enter(workload):
            self._makers.forget(workload.key)
        elif self._process.counted:
            self._set_timer(workload, now)
        self._allocations.settle(workload)

    def _continue_start(self, workload: Workload, now: float) -> None:
        """Continue its start, or what is left of it."""
        members, release = workload.members, workload.release
        if not workload.releasing:
            self._lapse(workload)
            self._resume_release(workload, now)
            self._revocations.drop_broken(workload, now)
        # The podsets of a job that is being suspended are not known.
        has_quorum = workload.has_bound_quorum and not workload.paused
        starts = not release.complete and (has_quorum or _is_stamped_complete(workload))
        if starts and not self._has_other_scheduler(workload):
            # Even if a member is lost before the last answer of its release has come.
            self._complete(workload, now)
        if members.holds or release.last is not None:
            self._bindings.progress(workload, now)
        if not workload.releasing:
            self._lapse(workload)  # a release may have ended just now
            self._report_state(workload, now)
        if release.complete:
            self._steering.confirm(workload)

    def recover(self, workload: Workload, now: float) -> None:
        """Recover from the stamps of its members after a restart: it has started as a whole, or its start broke off."""
        self._jobs.adopt(workload, now)
        recover_release(self._process, self._store.pods, self._moved_pods, workload, now)
        for pod in sorted(
            (member.pod for member in workload.members if member.pod.terminal), key=lambda pod: -pod.created
        ):
            if pod.node:  # the pods that are left show what ended before
                claim = Claim(pod.node, pod.requests, ClaimState.BOUND, workload.key)
                self._revocations.reserve_room(workload, pod, claim, now)
        if workload.members.started and not workload.release.complete:
            began = workload.release.began
            # A restart gives no more time than was left, except what kube-scheduler needs to complete the gang.
            least = now - max(0.0, self._limits.partial_s - self._limits.plan_s)
            self._break_off(workload, now if began is None else max(began, least), now)
        self._store.mark_dirty(workload)

    def lost(self, workload: Workload, member: Member, now: float) -> None:
        """Handle a member that terminates or has ended: its hold ends, and the gang may not be able to start."""
        members, release = workload.members, workload.release
        self._outbox.answer_hold(workload, member, "the pod is being deleted or has ended")
        self._store.mark_dirty(workload)
        if member.state is MemberState.BINDING:
            return
        release.wait_no_more_for(member.uid)
        if member.placed:
            self._revocations.lose(workload, member, now)
        members.show(member)
        self._steering.settle(workload, member)

    def expire(self, workload: Workload, now: float) -> None:
        """Check every deadline; called when one may have passed."""
        self._reporter.report_if_due(workload, now)
        if workload.sweep_at and now >= workload.sweep_at:
            self._steering.sweep(workload, now)
        for slot in list(workload.reserved):
            claim = self._claims.get(SlotOf(workload.key, slot))
            if claim is None or (claim.until is not None and now >= claim.until):
                self._room.unreserve(workload, slot)
        self._end_incomplete(workload, now)
        self._end_overrun(workload, now)
        workload.retries.expire(now)
        self._expire_holds(workload, now)
        if awaits_uptake(workload) and now >= workload.plan_deadline:
            self._refusals.not_taken_up(workload, now)
        self._store.mark_dirty(workload)

    def _expire_holds(self, workload: Workload, now: float) -> None:
        members = workload.members
        if is_late(workload, self._limits, now) and is_still_queued(workload, self._kube_queue):
            members.holds.wait_from(self._kube_queue.new_pod_at)
        late = is_late(workload, self._limits, now)
        over = [member for member in members.unknown.values() if now >= member.doubt_ends]
        if over or (workload.outcome_unknown and late):
            # Whatever the outcome of those Bindings, the other members wait no longer. Their own room stays promised
            # for a while.
            for member in over:
                members.move(member, MemberState.ASSUMED if member.hold is None else MemberState.HELD)
                workload.release.fail()
            self._bindings.progress(workload, now)
        if not late or not members.holds:
            return
        if members.binding:
            # The outcome of the Binding that hangs decides about the last one: its bind has to come again.
            self._revocations.fail_held_binds(workload, "another Binding of its gang has not ended in time", now)
        elif not workload.releasing:
            lacking = uncreated(workload) if workload.admitted else 0
            cut_short = now < patience(workload, self._limits)
            why = too_slow(workload, lacking) if lacking else too_few_held(workload, cut_short=cut_short)
            if not (lacking or workload.being_started) and self._refusals.turned_down(workload, why, now):
                return
            if self._revocations.run_out(workload, why, now) and lacking:
                self._expected.fail_creation(workload, now, in_full=True)
                # Every try creates all of its pods, and the next one ends no better before a user acts.
                workload.retries.rest_long(now, self._limits.retry_max_s)

    def _set_timer(self, workload: Workload, now: float) -> None:
        """Set the timer of the workload to the first of its deadlines."""
        members, release = workload.members, workload.release
        at = [
            workload.reason_state.report_due(self._limits.report_s),
            workload.retries.next_end(),
            workload.sweep_at or inf,
        ]
        at += workload.job.deadlines(self._limits.node_loss_s, now) if workload.job is not None else ()
        at += self._makers.deadlines(workload, now)
        if members.placed:
            awaited = awaits_uptake(workload)
            if not awaited:
                # Other actors than kube-scheduler have to act first: afterwards it has a moment at least.
                workload.wait_until(max(workload.plan_deadline, now + self._limits.report_s))
            if members.holds:
                at.append(deadline(workload, self._limits))
            if awaited:
                at.append(workload.plan_deadline)
            at.extend(member.doubt_ends for member in members.unknown.values())
        for slot in workload.reserved:
            claim = self._claims.get(SlotOf(workload.key, slot))
            at.append(inf if claim is None or claim.until is None else claim.until)
        if not workload.releasing:
            at.append(inf if release.partial_since is None else release.partial_since + self._limits.partial_s)
            lost = release.incomplete_since
            at.append(inf if lost is None else lost + self._limits.incomplete_s)
        # Room may be reserved there later.
        at.append(overrun if (overrun := self._ends_overrun_at(workload)) > now else now + _OVERRUN_CHECK_S)
        if (first := min(at)) < inf:
            self._timers.set(workload.key, first)

    def _has_other_scheduler(self, workload: Workload) -> bool:
        """Whether members have another scheduler. Muster does not evict what another scheduler has bound."""
        return not self._ours.issuperset(workload.members.declared.schedulers)

    def _lapse(self, workload: Workload) -> None:
        """End the start of a gang without bound members, unless its finished members complete it."""
        if workload.members.started or (workload.has_bound_quorum and workload.members.continued):
            return
        workload.release.lapse(whole=bool(workload.members.bound), outcome_unknown=workload.outcome_unknown)
        if not (workload.outcome_unknown or (workload.release.gone_whole and workload.remade)):
            self._room.unreserve_all(workload)

    def _resume_release(self, workload: Workload, now: float) -> None:
        """Resume the release that the stamps of bound members show, if all of them are of another than the known one.

        Members of an earlier PodGroup count again when the later one of its name is gone.
        """
        members = workload.members
        another = members.started and workload.release.name not in members.declared.releases
        if another and not workload.outcome_unknown:
            workload.release.start_anew()
            recover_release(self._process, self._store.pods, self._moved_pods, workload, now)

    def _report_state(self, workload: Workload, now: float) -> None:
        """Report the state of a workload while no Binding of it is under way."""
        if workload.paused:
            return
        if self._has_other_scheduler(workload):
            if (elsewhere := foreign(workload, self._schedulers)) is not None:
                self._reporter.explain(workload, elsewhere, now)
            return
        members, slots = workload.members, workload.members.slots
        self._note_missing(workload, now)
        if not slots.lacking:
            workload.reason_state.explain_surplus(None)
        if not (members.live or slots.templates):
            self._report_over(workload, now)
        elif workload.has_bound_quorum:
            self._complete(workload, now)
            self._reporter.explain(workload, self._facts.running(workload), now)
        elif members.started and not workload.release.complete:
            if not workload.outcome_unknown:
                self._break_off(workload, now, now)
        elif not (members.holds or slots.lacking):
            self._report_without_quorum(workload, now)

    def _report_without_quorum(self, workload: Workload, now: float) -> None:
        """Report a workload without its quorum of which no member lacks a node: it runs, or members are missing."""
        if workload.release.complete:
            self._reporter.explain(workload, self._facts.running(workload), now)
        elif not workload.starting and (why := too_few(workload)) is not None:
            self._reporter.explain(workload, why, now)

    @staticmethod
    def _note_missing(workload: Workload, now: float) -> None:
        """Record since when a gang that has started lacks members."""
        if not workload.incomplete or _has_every_pod(workload):
            workload.release.miss(None)
        elif workload.release.incomplete_since is None and not workload.outcome_unknown:
            workload.release.miss(now)

    def _complete(self, workload: Workload, now: float) -> None:
        """Complete the start: the gang has its quorum of bound members, for the first time or again."""
        if not workload.release.complete and workload.members.live:
            self._reporter.reached(workload, Milestone.STARTED, now)
        if not (workload.release.complete and (workload.starting or workload.members.slots.lacking)):
            workload.retries.start()  # else members beyond its quorum may be refused again and again
        if workload.release.partial_since is not None:
            workload.bump_version()  # its other members are planned by other rules from now on
        workload.release.become_whole()
        workload.begin(None)

    def _break_off(self, workload: Workload, since: float, now: float) -> None:
        """Break off the start: a part of the quorum is bound, and no Binding is under way.

        The gang is completed in time, or its bound members are evicted.
        """
        if workload.min_member is None:
            return  # without a known quorum no member is evicted for lacking one
        count, release = workload.reached(Stage.BOUND), workload.release
        if release.partial_since is None:
            if was_whole(self._store.pods, self._moved_pods, workload, release.name):
                return self._complete(workload, now)  # by the quorum of its beginning, as after a restart
            self._reporter.reached(workload, Milestone.BROKEN, now)
            self._revocations.revoke_unlike_bound(workload, now)
            workload.bump_version()  # it is to be completed now, whatever happens to its queue
        elif release.partial_count == count and (workload.starting or workload.members.slots.lacking):
            return  # that was reported; a later report is about its replacements
        release.break_off(since if release.partial_since is None else release.partial_since, count)
        self._reporter.explain(workload, Partial(workload.share(Stage.BOUND)), now)

    def _end_incomplete(self, workload: Workload, now: float) -> None:
        """End a gang that stayed incomplete for too long: its start broke off, or it has lost members since.

        Its job is suspended, or its bound members are evicted. Bindings that are under way may complete it before.
        """
        if workload.releasing:
            return None
        limits, release = self._limits, workload.release
        broken, lost = release.partial_since, release.incomplete_since
        if broken is not None and not release.complete and now >= broken + limits.partial_s:
            release.break_off(now, release.partial_count)
            if workload.job is not None:
                return end_start(workload, "its start broke off, and was not completed in time")
            if limits.evict_partial:
                self._evict(workload, "its gang never became whole", now)
        elif lost is not None and now >= lost + limits.incomplete_s:
            release.miss(now)
            text = f"it has run with {workload.share(Stage.BOUND)} for {now - lost:.0f} s"
            if workload.job is not None:
                # The pods end with the job: each pod that another client deletes counts as a failure.
                return end_start(workload, text)
            if evicts_incomplete(workload, limits):
                release.give_back()
                self._room.unreserve_all(workload)
                self._evict(workload, text.replace("it has", "its gang has", 1), now)
        return None

    def _end_overrun(self, workload: Workload, now: float) -> None:
        """End a workload that runs longer than expected, if it declares that and its room is reserved for another one.

        Its job is suspended, or its bound members are evicted. It waits again, with the age that it has.
        """
        if now < self._ends_overrun_at(workload) or workload.paused or workload.releasing:
            return
        nodes = {pod.node for pod in workload.bound if not pod.deleting}
        waiting = [
            key
            for key, reservation in self._backfills.of.items()
            if key != workload.key and not nodes.isdisjoint(reservation.rooms)
            # A higher priority would take the room back.
            if reservation.priority >= workload.priority
        ]
        if not waiting:
            return
        text = f"it has run longer than its author expected, and its room is reserved for {waiting[0].mention}"
        workload.release.give_back()
        self._victim_eviction.evict(named(workload), waiting[0], text, now)

    def _ends_overrun_at(self, workload: Workload) -> float:
        """When the workload has run for too long by its own declaration; infinite if nothing ends it then."""
        if self._limits.overrun_s == inf:  # before a walk over the members
            return inf
        expected_s, began = workload.run_terms.expected_s, workload.began
        if expected_s is None or began is None:
            return inf
        declared = [pod.eviction for pod in workload.bound]
        if workload.job is not None:
            declared.append(workload.job.seen.eviction)
        ends = together(declared).when_overrun
        return began + self._process.wall_offset + expected_s + self._limits.overrun_s if ends else inf

    def _evict(self, workload: Workload, why: str, now: float) -> None:
        """Evict the bound members."""
        workload.reason_state.note(now, f"evicting the bound members: {why}")
        self._revocations.evict_bound(workload, why)

    def _report_over(self, workload: Workload, now: float) -> None:
        """Report a workload without waiting or running pods: they have ended, or belong to an earlier PodGroup of its
        name."""
        members = workload.members
        if workload.reserved:
            return self._reporter.explain(workload, Ended(reserved=self._facts.reserved_for(workload)), now)
        ours = [member.pod for member in members if members.is_ours(member.pod)]
        if ended := [pod for pod in ours if pod.terminal]:
            failed = sum(pod.phase == "Failed" for pod in ended)
            self._reporter.explain(workload, Ended(len(ended), failed), now)
        elif len(members) and not ours:
            missing = MembersMissing(Share(0, workload.min_member), of_earlier(workload), none_left=True)
            self._reporter.explain(workload, missing, now)
        elif workload.job is not None and workload.job.seen.finished:
            self._reporter.explain(workload, Ended(), now)
        elif workload.job is not None and workload.job.seen.problem:
            self._reporter.explain(workload, InvalidJob(workload.job.seen.problem), now)
        elif ours:
            self._reporter.explain(workload, Ended(deleting=len(ours)), now)


def _has_begun(workload: Workload) -> bool:
    """Whether members are held, being bound or bound, or have been."""
    members, release = workload.members, workload.release
    known = release.name or release.complete or release.partial_since is not None
    return bool(known or members.holds or members.binding or members.slots.reached(Stage.BOUND))


def _has_every_pod(workload: Workload) -> bool:
    """Whether its job is about to end, or has a pod on a node for each slot that is not done."""
    job, members = workload.job, workload.members
    waits = members.slots.lacking or members.slots.planned or members.placed
    return job is not None and (job.over or job.closed or not waits)


def evicts_incomplete(workload: Workload, limits: Limits) -> bool:
    """Whether pods are evicted when the gang stays incomplete: as they declare, else by the settings.

    Pods of a StatefulSet and the like serve with fewer replicas, too: for them the settings do not count.
    """
    declared = together(pod.eviction for pod in workload.bound).when_incomplete
    owned = any(pod.group is not None and pod.group.owner for pod in workload.bound)
    return limits.evict_incomplete and not owned if declared is None else declared


def _is_stamped_complete(workload: Workload) -> bool:
    """Whether a bound member is stamped as complete for this release. The quorum of that time counts, whatever is
    needed now."""
    stamps = (member.pod.stamp for member in workload.members.confirmed.values())
    return any(stamp is not None and stamp.release == workload.release.name for stamp in stamps)


_LOOK = 2


@dataclass(eq=False)
class Recovery:
    """Recovery after a restart, in slices.

    Events come in between: their workloads are recovered first.
    """

    _process: Process
    _workloads: Mapping[GroupKey, Workload]
    _pending: Pending
    _changes: Changes
    _lifecycle: Lifecycle
    _steering: Steering
    _calls: Calls
    _hints: Hints
    _kube_preemption: KubePreemption

    def __post_init__(self) -> None:
        self._unrecovered: dict[GroupKey, None] = {}

    def begin(self) -> None:
        """Begin once all devices and volumes are counted: plans are tested by what their pods ask for."""
        self._process.counted = True
        self._unrecovered = dict.fromkeys(self._workloads)

    def recover_workload(self, key: GroupKey | None, now: float) -> None:
        """Recover the workload from its bound pods, unless that was done."""
        if key is None or key not in self._unrecovered:
            return
        del self._unrecovered[key]
        if (workload := self._workloads.get(key)) is None:
            return
        subject, self._process.subject = self._process.subject, key
        self._lifecycle.recover(workload, now)
        self._lifecycle.settle(workload, now)
        self._process.subject = subject
        if workload.release.complete or not (workload.members.live or workload.job is not None):
            # It started before the restart, which was reported then.
            workload.begin(None)
            if workload.group is None or not workload.group.starting:
                workload.reason_state.reported(now)

    def recover_all(self, now: float) -> Steps[None]:
        """Recover every workload."""
        for key in list(self._unrecovered):
            workload = self._workloads.get(key)
            self.recover_workload(key, now)
            yield _LOOK + (len(workload.members) if workload is not None else 0)

    def end(self, now: float) -> Steps[None]:
        """Have calls answered from now on.

        Room that recovered plans leave over is offered to pods of jobs that replace terminating ones.
        """
        yield from self._kube_preemption.restore(now)
        self._process.recovered = True
        self._changes.clear()
        # Of jobs that cannot all have been started, the last in order was not: it is judged first.
        jobs = [(key, workload) for key, workload in self._workloads.items() if workload.job is not None]
        for key, workload in sorted(jobs, key=lambda job: (job[1].priority, -job[1].created)):
            job = workload.job
            if self._workloads.get(key) is not workload or job is None:
                continue
            if job.unproven or job.awaits_nodes or (workload.admitted and key in self._pending.keys):
                self._process.subject = key
                self._lifecycle.settle(workload, now)
                self._process.subject = None
                yield _LOOK + len(workload.members)

    def clear(self, now: float) -> Steps[None]:
        """Clear the nominations of pods that are promised no node, and take up refusals of an earlier process."""
        for key in list(self._workloads):
            if (workload := self._workloads.get(key)) is not None:
                self._steering.sweep(workload, now)
                yield _LOOK + len(workload.members) // 4
        yield from self._calls.recover()
        yield from self._hints.recover(now)
