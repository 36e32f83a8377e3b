"""The admission pass: who is looked at, in which order, and when. A pass is walked in slices."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence

from extender.core.commit import Commit
from extender.core.gang.demands import Demands
from extender.core.gang.owners import fills_up
from extender.core.planner import Planner
from extender.core.preemption import Preempting
from extender.core.quota.elastic import Elastic
from extender.core.quota.queued import Queued
from extender.core.recovery import Recovery
from extender.core.singles.singles import Ahead
from extender.core.singles.waiting import WaitingSingle
from extender.core.state import State
from extender.core.victims.outlook import Foresight
from extender.core.victims.reservations import Reservations
from extender.core.waiting.attempts import LOOK, SEAT, TRY, Attempts
from extender.core.waiting.changes import Freed, concerns
from extender.core.waiting.line import Line
from extender.core.waiting.shortfalls import Lack, Shortfalls
from extender.core.workload import Workload
from policies.api import PolicyError
from policies.chosen import Policies
from policies.model import GroupKey, Pod
from policies.steps import AT_ONCE, Steps, metered

_REST_S, _REST_MAX_S = 2e-5, 2.0
"""Whatever room comes free after a walk waits so long for each unit that the walk has spent in vain."""


class Admission:
    """One pass looks at every waiting workload once; one without room does not block those behind it.

    A pass starts a moment after the change that calls for it. Each Tick walks a slice, so that other events get in
    between; what they change is for the next pass. What was found for a shape stands until something changes that it
    rests on, so a pass over thousands who wait costs nothing where nothing has changed for them.
    """

    def __init__(
        self, state: State, policies: Policies, commit: Commit, reservations: Reservations, elastic: Elastic
    ) -> None:
        self._state = state
        self._planner = Planner(state, policies)
        self._ahead = Ahead(state, self._planner)
        self._demands = Demands(state)
        self._commit = commit
        self._shortfalls = Shortfalls()
        self._queued = queued = Queued(state, self._planner, self._demands, policies)
        self._reservations = reservations
        self._preempting = preempting = Preempting(state, self._planner, self._demands, reservations)
        self.foresight = Foresight(state, self._planner, self._demands)
        self._attempts = Attempts(
            state, self._planner, self._demands, commit, queued, self._shortfalls, preempting, elastic
        )
        self.passes = 0
        self._walk: Steps[None] | None = None
        self._now = 0.0
        self._began = 0.0
        self._due: float | None = None
        self._rest_until = 0.0
        self._refresh_at = 0.0

    @property
    def walking(self) -> bool:
        return self._walk is not None

    def wake(self) -> float | None:
        """The instant by which a Tick is wanted; at once while a walk is under way."""
        return self._due if self._walk is None else self._began

    def listen(self, now: float) -> None:
        """After every event: see whether it calls for a walk, and when."""
        state = self._state
        if self._walk is not None or not state.synced:
            return
        hopeful = state.changes.hopeful
        if not state.waiting.keys and (hopeful or state.changes.taken):
            # Whoever comes is looked at for the first time, so nothing of the past matters any more.
            self._shortfalls.keep(())
            hopeful = False
            state.take_changes()
        at = max(now + state.limits.coalesce_s, state.paused_until)
        if hopeful:
            at = max(at, self._rest_until)
        elif self._queued.has_news:
            pass
        elif not state.waiting.stale and not state.kept_out.reopened:
            if (appointed := self._appointed(at)) is None:
                return
            at = appointed
        if self._due is None or at < self._due:
            self._due = at

    def _appointed(self, at: float) -> float | None:
        """The first instant from ``at`` on at which somebody wants to be looked at though nothing has changed."""
        state = self._state
        wanted = [self._queued.due, state.creation.due]
        if state.changes.taken:
            wanted.append(self._refresh_at)
        if state.waiting.keys:
            wanted.append(self._preempting.due(at))
        return min((max(at, due) for due in wanted if due is not None), default=None)

    def tick(self, now: float) -> bool:
        """Walk on, or start a walk that is due. Returns whether one has ended: what is free now, nobody wanted."""
        self._now = now
        self._ahead.lapse(now)
        if self._walk is None and self._due is not None and now >= self._due:
            self._due = None
            self._begin(now)
        return self._go_on()

    def recover(self, now: float, recovery: Recovery) -> None:
        """After a restart, in slices: find out about each workload, take over the plans that hold, have calls answered
        from then on, plan the others, and clear what is left of plans that do not hold.
        """
        self._now = self._began = now
        self._walk = self._recovering(recovery)
        self._go_on()

    def _go_on(self) -> bool:
        left = self._state.limits.slice_units
        while self._walk is not None and left > 0:
            try:
                left -= next(self._walk)
            except StopIteration:
                self._walk = None
                self.passes += 1
                return True
        if self._walk is not None:
            # A plan may be half made: what it has seen of the nodes stays as it is until it is done.
            self._state.claims.lend()
        return False

    def _begin(self, now: float) -> None:
        state, changes = self._state, self._state.changes
        if changes.hopeful and now < self._rest_until:
            return
        self._demands.review()
        for namespace in state.failed_creation.lapse(now):
            state.reorder(namespace)
        self._queued.review(self._shortfalls, now)
        for key in state.creation.take_refused(now):
            state.waiting.look_again(key)
        self._attempts.begin()
        self._began = now
        refresh = changes.taken and now >= self._refresh_at
        freed, met, gone, everybody = list[Freed](), list[Pod](), False, self._preempting.review(now)
        ended: Mapping[str, None] = {}
        if changes.hopeful or refresh:
            state.take_changes()
            if changes.nodes or refresh:
                self._shortfalls.clear(Lack.ROOM)
                self._refresh_at = now + state.limits.refresh_s
                everybody = True
            else:
                freed, met, gone = changes.in_the_end(state.claims.room), changes.met, bool(changes.freed)
                ended, state.changes.taken = changes.ended, True  # what stands now grows old
        self._walk = self._pass(freed, met, ended, gone=gone, everybody=everybody)

    def _pass(
        self, freed: list[Freed], met: list[Pod], ended: Mapping[str, None], *, gone: bool, everybody: bool
    ) -> Steps[None]:
        """Look at old shortfalls in the light of what has changed, then at the workloads that have none.

        Unless for ``everybody`` nothing has changed for those who have one. ``gone``: somebody has given room back.
        ``ended``: who has, for those whose reason names them.
        """
        state = self._state
        for scope, shape in self._shortfalls.shapes(Lack.ROOM) if met or gone else ():
            concerned, cost = yield from metered(concerns(freed, met, shape, state.claims, gone=gone))
            if concerned or self._shortfalls.names(Lack.ROOM, shape, scope, ended):
                self._shortfalls.drop(Lack.ROOM, shape, scope)
                everybody = True
            self._attempts.vain += cost
        yield from self._shortfalls.forget(state)
        keys = state.waiting.open() if everybody else list(state.waiting.stale)
        line = yield from self._line(keys)
        for count, (queue, entries, waits_for) in enumerate(self._queued.take_hopeful(), 1):
            line.take(queue, entries, waits_for)
            if not count % AT_ONCE:
                yield LOOK * AT_ONCE
        yield from self._ahead.join(line, self._now)
        excess: Counter[str] = Counter()
        while (workload := line.next()) is not None:
            if isinstance(workload, WaitingSingle):
                yield from self._ahead.keep(workload.pod.uid, self._now)
            elif state.workloads.get(workload.key) is not workload or workload.key not in state.waiting.keys:
                yield LOOK
            elif excess[workload.key.namespace] > state.limits.excess_units:
                state.waiting.look_again(workload.key)
                yield LOOK
            elif self._queued.passes_by(workload, self._shortfalls):
                yield from self._pass_by(line, workload)
            else:
                excess[workload.key.namespace] += yield from self._admit(line, workload)
        state.changes.wary = state.changes.wary and any(
            shape.related for _, shape in self._shortfalls.shapes(Lack.ROOM)
        )
        self._rest_until = self._now + min(_REST_S * self._attempts.vain, _REST_MAX_S)
        yield LOOK

    def _admit(self, line: Line, workload: Workload) -> Steps[int]:
        """It is its turn, unless that comes later by what is found now. Returns what ``Attempts.admit`` does."""
        self._state.waiting.look_again(workload.key)  # what it lacks from now on may be room
        spent = yield from self._attempts.admit(workload, line, self._now)
        if not line.has_postponed(workload):
            self._queued.park(workload, self._shortfalls)
            yield from self._hold_up(line, workload)
        return spent

    def _recovering(self, recovery: Recovery) -> Steps[None]:
        state = self._state
        self._queued.review(self._shortfalls, self._now)
        yield from recovery.all(self._now)
        self._reservations.restore(self._now)
        line = yield from self._line(list(state.waiting.keys))
        while isinstance(workload := line.next(), Workload):
            yield from self._resume(workload)
            yield LOOK + SEAT * len(workload.members.placed)
        yield from recovery.end(self._now)
        state.quotas.past.begin(state.epoch, self._now)
        if self._now < state.paused_until:
            state.changes.nodes = True  # everybody is looked at when the pause is over
            return (yield from recovery.clear(self._now))
        line = yield from self._line([key for key in state.waiting.keys if fills_up(state.workloads[key])])
        while isinstance(workload := line.next(), Workload):
            # Nobody else gets the room that was kept for its pods that come later.
            yield from self._attempts.admit(workload, line, self._now)
        self._refresh_at = self._now + state.limits.refresh_s
        yield from self._pass([], [], {}, gone=False, everybody=True)
        yield from recovery.clear(self._now)

    def _line(self, keys: Sequence[GroupKey]) -> Steps[Line]:
        """Those about whom something may be found out."""
        state = self._state
        line = Line(self._queued.turns, self._queued.lines(self._shortfalls))
        for at in range(0, len(keys), AT_ONCE):
            some = [one for key in keys[at : at + AT_ONCE] if (one := state.workloads.get(key)) is not None]
            for workload in some:
                if workload.key in state.waiting.stale or self._is_open(workload):
                    queue = state.quotas.queue_of(workload.key)
                    if queue is not None and workload.asked is None and not workload.releasing:
                        yield from self._demands.ask(workload)
                    self._come(line, workload)
            self._attempts.vain += len(some)
            yield LOOK * len(some)
        return line

    def _come(self, line: Line, workload: Workload) -> None:
        if (number := self._state.waiting.keys.get(workload.key)) is None:
            return
        try:
            line.come(workload, number, self._state.quotas.members.queue_of(workload.key) or "")
        except PolicyError as error:
            self._attempts.blame(workload, error, self._now)

    def _is_open(self, workload: Workload) -> bool:
        """Whether there may be anything to be found out about it."""
        demand = workload.asked
        if demand is None:
            return True
        if demand.shape is None or self._now < workload.retries.not_before:
            return False
        if self._queued.refused(workload, demand.shape, self._shortfalls) is None:
            return True
        if self._preempting.wants(workload, demand.shape):
            return True
        self._queued.park(workload, self._shortfalls)
        return False

    def _pass_by(self, line: Line, workload: Workload) -> Steps[None]:
        """So are those of its queue that wait for the same quota."""
        queue, demand = self._state.quotas.members.queue_of(workload.key), workload.asked
        if queue is not None and demand is not None and demand.shape is not None:
            line.leave(queue, self._shortfalls.waits_for(demand.shape, queue))
        yield LOOK

    def _hold_up(self, line: Line, workload: Workload) -> Steps[None]:
        """If it was refused, nobody passes it by in a queue that is StrictFIFO, but for those that have had their turn:
        others give way to them, or they have quota and await nodes."""
        state = self._state
        if (why := self._queued.strict.see(workload, self._now)) is None:
            return
        for other in line.rest_of(why.queue):
            had_turn = other.key in state.preemptions.under_way or state.quotas.has_own(other.key) or other.resumes
            if had_turn and state.workloads.get(other.key) is other:
                yield from self._attempts.admit(other, line, self._now)
                continue
            if other.asked is not None or other.releasing:  # else it has changed: the next pass looks at it
                state.waiting.looked_at(other.key)
                asked = other.asked
                own = None if asked is None or asked.shape is not None else asked.trouble
                self._attempts.tell(other, own or why.reason, LOOK, self._now)
            yield LOOK

    def _resume(self, workload: Workload) -> Steps[None]:
        """Take the nominations of its members as the plan."""
        members = workload.members
        if workload.releasing or not any(one.pod.nominated_node and not one.pod.node for one in members.live.values()):
            return
        if workload.asked is None:
            yield from self._demands.ask(workload)
        yield 2 * TRY
        plan = yield from self._planner.nominated(workload)
        if plan is not None and self._queued.has_quota(workload, plan):
            yield from self._commit.commit(workload, plan, self._planner.holds, self._now)
