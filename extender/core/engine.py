"""handle(): the one way in. An event and the time go in, effects come out, nothing else ever changes the core.

Three steps: the event is applied to its member or workload; each workload that was touched is settled; and the
admission pass sees whether there is anything for it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import assert_never

from extender.core.admission import Admission
from extender.core.advisory import Advisory, Mode
from extender.core.apply import Apply
from extender.core.binding import Bindings
from extender.core.calls import Calls
from extender.core.claims import Claims
from extender.core.commit import Commit
from extender.core.effects import Effect
from extender.core.events import (
    BindArrived,
    BindDisconnected,
    BindingPosted,
    ClaimGone,
    ClaimSeen,
    Event,
    FilterCalled,
    GroupGone,
    GroupSeen,
    JobGone,
    JobSeen,
    JobWritten,
    NodeGone,
    NodeSeen,
    Nominated,
    PodGone,
    PodSeen,
    PreemptCalled,
    Synced,
    Tick,
    Ungated,
)
from extender.core.hints import Hints
from extender.core.invariants import told
from extender.core.jobs import Jobs
from extender.core.lifecycle import Lifecycle
from extender.core.limits import Limits
from extender.core.member import IllegalTransitionError
from extender.core.recovery import Recovery
from extender.core.refusals import Refusals
from extender.core.revocations import Revocations
from extender.core.singles import Singles
from extender.core.state import State
from extender.core.steering import Leading, Steering, SteeringMode
from extender.core.turns import Cause
from extender.core.workload import Workload
from policies.api import PolicyError
from policies.chosen import OURS, Policies
from policies.model import Pod
from policies.model.levels import LevelKey
from policies.placement.request import rows_of
from policies.strategies.scoring import marks

Objects = PodSeen | PodGone | NodeSeen | NodeGone | GroupSeen | GroupGone
Others = JobSeen | JobGone | ClaimSeen | ClaimGone
Asked = FilterCalled | PreemptCalled | BindArrived | BindDisconnected
Written = BindingPosted | Nominated | Ungated | JobWritten


class Engine:
    """The core. ``handle`` mutates ``state`` and returns what is to be done about it, in order."""

    def __init__(
        self,
        schedulers: tuple[str, ...] = ("muster",),
        limits: Limits | None = None,
        policies: Policies = OURS,
        steering: SteeringMode = SteeringMode.NOMINATE,
        levels: tuple[LevelKey, ...] = (),
        mode: Mode = Mode.ENFORCE,
    ) -> None:
        advising, limits, policies = mode is Mode.ADVISE, limits or Limits(), policies.guarded()
        if advising:
            limits = replace(limits, evict_partial=False)
        self.state = state = State(schedulers, limits, claims=Claims(levels))
        advisory = Advisory(state) if advising else None
        self._steering: Leading = advisory or Steering(state, steering)
        self._revocations = Revocations(state, self._steering)
        self._bindings = Bindings(state, self._steering, self._revocations)
        refusals = Refusals(state, self._revocations)
        self._jobs = Jobs(state, self._steering, self._revocations)
        self._lifecycle = Lifecycle(state, self._steering, self._revocations, self._bindings, refusals, self._jobs)
        self._singles, hints = Singles(state), Hints(state)
        self._calls = Calls(state, self._bindings, refusals, self._singles, advisory)
        self._recovery = Recovery(state, self._lifecycle, self._steering, hints)
        self._apply = Apply(
            state,
            self._steering,
            self._revocations,
            self._bindings,
            refusals,
            self._lifecycle,
            self._calls,
            hints,
            self._jobs,
        )
        commit = Commit(state, self._steering, self._revocations)
        self._admission = Admission(state, policies, commit)
        self._scoring = policies.scoring

    def handle(self, event: Event, now: float) -> list[Effect]:
        """Apply one event at ``now`` (seconds, monotonic). Never raises for what the outside can send."""
        state = self.state
        try:
            self._handle(event, now)
            self._settle(now)
        except IllegalTransitionError as error:
            for workload in map(state.workloads.get, state.touched):
                if workload is not None:
                    error.add_note(told(workload))
            raise
        self._admission.listen(now)
        return state.drain()

    def _settle(self, now: float) -> None:
        """Each workload that was touched, once; and whom that touches."""
        state = self.state
        while state.touched:
            key = next(iter(state.touched))
            if (workload := state.workloads.get(key)) is not None:
                self._lifecycle.settle(workload, now)
            state.settled(key)
        for key in list(state.led):
            if (workload := state.workloads.get(key)) is not None:
                self._lifecycle.lead_on(workload, now)
            state.settled(key)

    def prioritize(self, pod: Pod, candidates: Sequence[str]) -> list[int]:
        """How good each candidate is for a pod that no plan has placed: 0..10. A question, not an event."""
        state = self.state
        pod, view = state.pods.get(pod.uid, pod), state.claims.snapshot()
        workload = state.workload_of(pod)
        beside = rows_of([] if workload is None else workload.seats, view)
        try:
            return marks(pod, candidates, view, self._scoring, beside)
        except PolicyError as error:
            state.blame(error.policy)
            return [0] * len(candidates)

    @property
    def passes(self) -> tuple[int, bool]:
        """How many admission passes have ended, and whether one is under way."""
        return self._admission.passes, self._admission.walking

    def next_wake(self) -> float | None:
        """The instant by which a Tick is due, or None while nothing is pending."""
        instants = [self._admission.wake(), self.state.timers.first()]
        instants += [until for _, until in self.state.binds.unseen.values()]
        return min((instant for instant in instants if instant is not None), default=None)

    def _handle(self, event: Event, now: float) -> None:
        match event:
            case PodSeen() | PodGone() | NodeSeen() | NodeGone() | GroupSeen() | GroupGone():
                self._seen(event, now)
            case JobSeen() | JobGone() | ClaimSeen() | ClaimGone():
                self._told(event, now)
            case FilterCalled() | PreemptCalled() | BindArrived() | BindDisconnected():
                self._asked(event, now)
            case BindingPosted() | Nominated() | Ungated() | JobWritten():
                self._written(event, now)
            case Synced(wall):
                self._recovery.begin(now - wall)
                self._admission.recover(now, self._recovery)
            case Tick():
                self._tick(now)
            case _:
                assert_never(event)

    def _seen(self, event: Objects, now: float) -> None:
        """A watch shows a pod, a node or a PodGroup."""
        apply, state = self._apply, self.state
        match event:
            case PodSeen(pod):
                self._recovery.find_out(pod.group_key, now)
                apply.pod_seen(pod, now)
            case PodGone(uid):
                known = state.pods.get(uid)
                self._recovery.find_out(known.group_key if known is not None else None, now)
                apply.pod_gone(uid, now)
            case NodeSeen(node):
                apply.node_seen(node, now)
            case NodeGone(name):
                apply.node_gone(name, now)
            case GroupSeen(group):
                self._recovery.find_out(group.key, now)
                apply.group_seen(group, now)
            case GroupGone(key, uid):
                self._recovery.find_out(key, now)
                apply.group_gone(key, uid, now)

    def _told(self, event: Others, now: float) -> None:
        """A watch shows something that pods will come from, or that they need."""
        match event:
            case JobSeen(job):
                self._recovery.find_out(job.key, now)
                self._jobs.seen(job, now)
            case JobGone(key, uid):
                self._recovery.find_out(key, now)
                self._jobs.gone(key, uid, now)
            case ClaimSeen(namespace, name, bound):
                self.state.set_volume(namespace, name, bound)
            case ClaimGone(namespace, name):
                self.state.set_volume(namespace, name, None)

    def _asked(self, event: Asked, now: float) -> None:
        """kube-scheduler calls, or gives a call up."""
        match event:
            case FilterCalled():
                self._calls.filter(event, now)
            case PreemptCalled():
                self._calls.preempt(event)
            case BindArrived():
                self._calls.bind(event, now)
            case BindDisconnected(call):
                self._calls.disconnected(call, now)

    def _written(self, event: Written, now: float) -> None:
        """A write has ended."""
        match event:
            case BindingPosted():
                self._bindings.posted(event, now)
            case Nominated():
                self._led(event, self._steering.nominated(event, now), "nominated", now)
            case Ungated():
                self._led(event, self._steering.ungated(event, now), "ungated", now)
            case JobWritten():
                self._jobs.written(event, now)

    def _tick(self, now: float) -> None:
        state = self.state
        self._calls.expire(now)
        for key in state.timers.due(now):
            self._recovery.find_out(key, now)
            if (workload := state.workloads.get(key)) is not None:
                self._lifecycle.expire(workload, now)
                self._lifecycle.settle(workload, now)
        if self._admission.tick(now):
            self._singles.wake()

    def _led(self, event: Nominated | Ungated, failed: Workload | None, what: str, now: float) -> None:
        """``failed``: the workload that cannot be led any further without this write."""
        if failed is None:
            return
        if failed.releasing:
            self._steering.failed(failed, failed.members[event.uid])
        else:
            why = f"pod {failed.members[event.uid].pod.name} could not be {what}: {event.detail}"
            self._revocations.revoke(failed, why, now, Cause.WRITE_FAILED, penalty=True)
