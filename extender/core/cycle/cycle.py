"""The admission cycle: quota, then nodes, then commit, evict, ask for nodes, or wait. Read this file first.

All waiting workloads are in one line, and each gets a turn. One without room does not block those behind it.

1. ``listen``: after every event, decides whether a cycle is due, and when: a moment after the change that calls for it.
2. ``tick``: begins a cycle, or goes on with one for a slice. Other events get in between slices, and what they change
   is for the next cycle.
3. ``_begin``: wakes the workloads that may have quota, and takes the changes since the last cycle. So it finds the
   workloads that get a turn.
4. ``_run``: the rest of the cycle. It drops old shortfalls that no longer hold, makes the line, and gives each workload
   in it a turn.
5. ``_turn``: finds what can be done for one workload (``_why_not_plannable``, ``_plan``, ``_fallback``), and does it
   (``_carry_out``).

The shortfall of a shape is cached until something changes that it depends on. So a cycle over thousands of waiting
workloads costs nothing where nothing has changed for them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from math import inf
from typing import Protocol

from extender.core.causes import Cause, Creating, OtherScheduler, PolicyFailed, Preempted, SharedSpread, Unplaced
from extender.core.cycle.admission import QueueAdmission
from extender.core.cycle.backfill import Backfilling
from extender.core.cycle.commit import Commit
from extender.core.cycle.flavors import Refused
from extender.core.effects import Milestone
from extender.core.explain.facts import Facts
from extender.core.explain.telling import Reporter
from extender.core.gate.allocations import Allocations
from extender.core.jobs.elastic import AskNodes, Elastic
from extender.core.jobs.makers import fills_up
from extender.core.ledger.backfill import Backfills
from extender.core.ledger.claims import Claims
from extender.core.ledger.creation import Creation, FailedCreation
from extender.core.ledger.device_users import DeviceUsers
from extender.core.ledger.pending import (
    ANY_ROOM,
    EVERY_ROOM,
    Changes,
    Config,
    Freed,
    Nodes,
    Own,
    Pending,
    QuotaFor,
    RoomFor,
    Starting,
    concerns,
    put_off,
)
from extender.core.ledger.preemptions import Preemptions
from extender.core.ledger.quotas import Quotas
from extender.core.ledger.singles import BlockedSinglePods, WaitingSingle
from extender.core.ledger.store import Counts, Process, Store
from extender.core.limits import Limits
from extender.core.preemption.preempt import Evict, Later, Preempting
from extender.core.preemption.reservations import Reservations
from extender.core.queue.demands import Demands
from extender.core.queue.forecast import Forecast
from extender.core.queue.line import Line, SinglePodReservations, in_need
from extender.core.queue.planner import Changed, Plan, Planner
from extender.core.queue.shortfalls import Lack, Shortfalls
from extender.core.workload.shape import Demand, Shape
from extender.core.workload.workload import Workload
from policies.api import PolicyError
from policies.model import GroupKey, Pod
from policies.steps import AT_ONCE, Steps, metered

Act = Plan | Changed | PolicyError | Later | Evict | AskNodes
Outcome = Act | Cause
"""The outcome of a workload's turn. A Cause means that the workload waits because of it."""

LOOK, TRY, SEAT, TELL = 2, 50, 4, 14
"""The cost of considering a workload, of trying to place it, of each member, and of a new reason, in units of about 5
microseconds. A workload with a new reason is settled before the slice ends."""
_REST_S, _REST_MAX_S = 2e-5, 2.0
"""Freed room starts the next cycle no sooner than 20 us for each unit that the last one has wasted, 2 s at most."""


class RestartRecovery(Protocol):
    """Recovery after a restart, in slices (``extender.core.lifecycle``)."""

    def begin(self) -> None:
        """Begin once all devices and volumes are counted."""

    def recover_all(self, now: float) -> Steps[None]:
        """Recover the state of every workload."""

    def end(self, now: float) -> Steps[None]:
        """Have calls answered from now on."""

    def clear(self, now: float) -> Steps[None]:
        """Clear what is left of plans that do not hold."""


@dataclass(eq=False)
class Cycle:
    """The cycle, and when it runs."""

    _limits: Limits
    _process: Process
    _counts: Counts
    _store: Store
    _claims: Claims
    _quotas: Quotas
    _preemptions: Preemptions
    _backfills: Backfills
    _creation: Creation
    _failed_creation: FailedCreation
    _pending: Pending
    _starting: Starting
    _changes: Changes
    _blocked_singles: BlockedSinglePods
    _device_users: DeviceUsers
    _reporter: Reporter
    _facts: Facts
    _planner: Planner
    _demands: Demands
    _single_reservations: SinglePodReservations
    _admission: QueueAdmission
    _shortfalls: Shortfalls
    _preempting: Preempting
    _commit: Commit
    _reservations: Reservations
    _backfilling: Backfilling
    _forecast: Forecast
    _elastic: Elastic
    _allocations: Allocations

    def __post_init__(self) -> None:
        self.passes = 0
        """How many cycles have ended."""
        self._walk: Steps[None] | None = None
        """The cycle that is under way."""
        self._now = 0.0
        self._began = 0.0
        self._due: float | None = None
        self._rest_until = 0.0
        self._refresh_at = 0.0
        self._wasted_units = 0
        """Units that this cycle has spent on workloads that could not be admitted."""
        self._in_need: tuple[str, ...] | None = None

    @property
    def walking(self) -> bool:
        """Whether a cycle is under way."""
        return self._walk is not None

    @property
    def shortfalls_outdated(self) -> bool:
        """Whether room or quota was taken since shortfalls were cached: the next refresh may find others."""
        return self._changes.room_taken or self._admission.due is not None

    def wake(self) -> float | None:
        """Return the instant by which a Tick is wanted; at once while a cycle is under way."""
        return self._due if self._walk is None else self._began

    def listen(self, now: float) -> None:
        """Schedule a cycle if the event calls for one. Called after every event."""
        if self._walk is not None or not self._process.synced:
            return
        may_unblock = self._changes.may_unblock
        if not self._pending.keys and (may_unblock or self._changes.room_taken):
            # The next workload gets its first turn, so earlier changes and shortfalls do not matter.
            self._shortfalls.retain(())
            may_unblock = False
            self._changes.clear()
        at = max(now + self._limits.coalesce_s, self._process.paused_until)
        if may_unblock:
            at = max(at, self._rest_until)
        elif self._admission.has_news:
            pass
        elif not self._pending.due and not self._blocked_singles.reopened:
            if (appointed := self._appointed(at)) is None:
                return
            at = appointed
        if self._due is None or at < self._due:
            self._due = at

    def _appointed(self, at: float) -> float | None:
        """The first instant from ``at`` on at which a workload wants a turn although nothing has changed."""
        wanted = [self._admission.due]
        if self._changes.room_taken:
            wanted.append(self._refresh_at)
        if self._pending.keys:
            wanted += self._preempting.due(at), self._backfilling.due(), self._forecast.due()
        return min((max(at, due) for due in wanted if due is not None), default=None)

    def tick(self, now: float) -> bool:
        """Go on, or begin a cycle that is due. Returns whether one has ended: single pods get the room that is left."""
        self._now = now
        self._single_reservations.lapse(now)
        if self._walk is None and self._due is not None and now >= self._due:
            self._due = None
            if not self._changes.may_unblock or now >= self._rest_until:
                self._began, self._walk = now, self._begin(now)
        return self._go_on()

    def _go_on(self) -> bool:
        left = self._limits.slice_units
        while self._walk is not None and left > 0:
            try:
                left -= next(self._walk)
            except StopIteration:
                self._walk = None
                self.passes += 1
                return True
        if self._walk is not None:
            # A plan may be half made: its view of the nodes stays the same until it is done.
            self._claims.lend()
        return False

    def _begin(self, now: float) -> Steps[None]:
        """Run a cycle with the changes since the last one."""
        changes = self._changes
        self._demands.review()
        for namespace in self._failed_creation.lapse(now):
            self._pending.wake(Config(namespace))
        yield from self._admission.review(now)
        self._wasted_units, self._in_need = 0, None
        self._backfills.begin_cycle(now)
        refresh = changes.room_taken and now >= self._refresh_at
        freed, changed, gone, victims = list[Freed](), list[Pod](), False, self._preempting.review(now)
        ended: Mapping[str, None] = {}
        every = False
        if changes.may_unblock or refresh:
            changes = changes.take()
            if changes.nodes or refresh:
                self._shortfalls.clear(Lack.ROOM)
                self._refresh_at = now + self._limits.refresh_s
                every = True
            else:
                freed, changed, gone = changes.net_freed(self._claims.room), changes.changed_pods, bool(changes.freed)
                ended, self._changes.room_taken = changes.ended, True  # the numbers in reasons are outdated from now on
        yield from self._run(freed, changed, ended, gone=gone, every=every, victims=victims)

    def _run(
        self,
        freed: list[Freed],
        changed: list[Pod],
        ended: Mapping[str, None],
        *,
        gone: bool,
        every: bool,
        victims: bool,
    ) -> Steps[None]:
        """Run one cycle: drop shortfalls that the changes end, then give each workload without one a turn.

        ``freed``: nodes with more room than before.
        ``changed``: pods that got a node, or whose labels changed.
        ``ended``: the workloads that gave room back, to update reasons that name them.
        ``gone``: whether room was given back.
        ``every``: whether all workloads that lack room get a turn.
        ``victims``: whether workloads that may evict victims get one, too.
        """
        if (yield from self._device_users.settle()):
            return
        dropped = yield from self._drop_shortfalls(freed, changed, ended, gone=gone)
        if every or dropped or victims:
            yield from self._pending.wake_in_steps(EVERY_ROOM if every else ANY_ROOM)
            self._wake_for_victims(quota=victims)
        yield from self._backfilling.renew(self._now)
        line = yield from self._whole_line()
        excess: Counter[str] = Counter()  # what the turns of each namespace have cost beyond plain ones
        while (workload := line.next()) is not None:
            if isinstance(workload, WaitingSingle):
                yield from self._single_reservations.reserve(workload.pod.uid, self._now)
            elif self._store.workloads.get(workload.key) is not workload or workload.key not in self._pending.keys:
                yield LOOK
            elif excess[workload.key.namespace] > self._limits.excess_units:
                self._pending.wake(Own(workload.key))
                yield LOOK
            elif self._admission.still_lacks_quota(workload):
                yield from self._pass_by(line, workload)
            elif self._has_known_shortfall(workload, workload.reason_state.cause):
                self._put_back(workload)
                self._wasted_units += LOOK
                yield LOOK
            else:
                excess[workload.key.namespace] += yield from self._call_up(workload, line)
        # Changes of other pods matter only while a shape waits that depends on other pods.
        self._changes.has_affinity_waiters = self._changes.has_affinity_waiters and any(
            shape.related for _, shape in self._shortfalls.shapes(Lack.ROOM)
        )
        yield from self._backfilling.review(self._now)
        yield from self._forecast.review(self._now)
        self._rest_until = self._now + min(_REST_S * self._wasted_units, _REST_MAX_S)
        yield LOOK

    def _drop_shortfalls(
        self, freed: list[Freed], changed: list[Pod], ended: Mapping[str, None], *, gone: bool
    ) -> Steps[bool]:
        """Drop the shortfalls of shapes that do not hold any more. Returns whether any was dropped."""
        dropped = False
        for scope, shape in self._shortfalls.shapes(Lack.ROOM) if changed or gone else ():
            concerned, cost = yield from metered(concerns(freed, changed, shape, self._claims, gone=gone))
            if concerned or self._shortfalls.names(Lack.ROOM, shape, scope, ended):
                for roomy in self._shortfalls.drop(Lack.ROOM, shape, scope):
                    yield from self._pending.wake_in_steps(RoomFor(*roomy))
                dropped = True
            self._wasted_units += cost
        yield from self._shortfalls.forget(self._pending.keys, self._store.workloads)
        return dropped

    def _wake_for_victims(self, *, quota: bool) -> None:
        """Wake workloads that may evict victims. ``quota``: including the ones that lack only quota."""
        helps_above = self._preempting.helps_above
        if helps_above == inf:
            return
        for kind in (RoomFor, QuotaFor) if quota else (RoomFor,):
            for lacks, shape in self._pending.shapes(kind):
                if shape.priority[0] > helps_above:
                    self._pending.wake(lacks)

    def _whole_line(self) -> Steps[Line]:
        """Return the line of the due workloads, of workloads that quota was given back for, and single pods."""
        line = yield from self._line(self._pending.take_due())
        for queue, entries, waits_for in self._pending.take_invited():
            line.add_all(queue, entries, waits_for)
            yield LOOK + len(entries) // 4
        yield from self._single_reservations.add_to_line(line, self._now)
        return line

    def _call_up(self, workload: Workload, line: Line) -> Steps[int]:
        """Give a workload its turn, then park it unless it has another one. Returns the cost beyond a plain turn."""
        if workload.key not in self._pending.due:  # it was invited, and may lack something else from now on
            self._pending.wake(Own(workload.key))
        excess = yield from self._turn(workload, line)
        if not line.has_postponed(workload):
            self._park(workload)
            yield from self._hold_up(line, workload)
        return excess

    def _turn(self, workload: Workload, line: Line) -> Steps[int]:
        """Find what can be done for a workload, and do it. Returns the cost beyond a plain turn.

        A workload that changes meanwhile gets another turn in the next cycle. A turn that would have to borrow more may
        come again later in ``line``. All slices of the turn use the instant of its beginning.
        """
        now = self._now
        if (current_demand := (yield from self._current_demand(workload, now))) is None:
            return 0
        demand, shape = current_demand
        outcome: Outcome | None = self._why_not_plannable(workload, demand, shape, now)
        least, spent = LOOK, 0
        if outcome is None:
            least = TRY + SEAT * len(demand.pods)
            outcome, spent = yield from metered(self._plan(workload, demand, shape, line))
        if not isinstance(outcome, Act):
            self._wasted_units += max(spent, least)
            outcome = yield from self._fallback(workload, shape, outcome, line, now)
        spent += yield from self._carry_out(workload, shape, outcome, now)
        if spent < least:
            yield min(least - spent, self._limits.slice_units)
        return max(0, spent - least)

    def _carry_out(self, workload: Workload, shape: Shape, outcome: Outcome, now: float) -> Steps[int]:
        """Carry out the outcome of a turn. Returns the cost of a commit, else 0."""
        match outcome:
            case Plan():
                _, cost = yield from metered(self._commit.commit(workload, outcome, self._planner.holds, now))
                self._quotas.count_unseen(workload)  # before any other workload is planned
                return cost
            case Changed():
                self._pending.wake(Own(workload.key))
            case PolicyError():
                self._blame(workload, outcome, now)
            case Later():
                pass  # the line has it again
            case Evict():
                self._report(workload, self._reservations.begin(workload, outcome.found, outcome.choice, now), now)
            case AskNodes():
                self._report(workload, self._elastic.begin(workload, shape, outcome, now), now)
                yield from self._admission.quota_taken(workload)
            case why:
                yield self._report(workload, why, now)
        return 0

    def _current_demand(self, workload: Workload, now: float) -> Steps[tuple[Demand, Shape] | None]:
        """Return what the workload asks of the planner; None if it asks for nothing now."""
        if workload.releasing:
            self._pending.dequeue(workload.key)
            yield LOOK
            return None
        if (demand := workload.current_demand) is None:
            yield from self._demands.ask(workload)
            if (demand := workload.current_demand) is None:
                return None
        self._pending.dequeue(workload.key)
        if demand.trouble is not None:
            self._explain(workload, demand.trouble, now)
        if demand.shape is None or now < workload.retries.not_before:
            yield LOOK
            return None
        return demand, demand.shape

    def _why_not_plannable(self, workload: Workload, demand: Demand, shape: Shape, now: float) -> Cause | None:
        """Return why the workload cannot be admitted, as far as is known without a plan."""
        why = (
            until_created(self._limits, self._creation, workload, now)
            or self._until_proven(workload, now)
            or until_gone(self._preemptions, workload)
        )
        if why is not None:
            return why
        known: Cause | None = None
        if workload.key in self._backfills:  # the shortfall of its shape was cached before its room came free
            known = self._admission.strict.waits_behind(workload)
        elif not self._preempting.is_ready(workload.key):
            known = self._admission.refused(workload, shape)
        return known or until_started(self._starting, workload, demand, related=shape.related)

    def _plan(
        self, workload: Workload, demand: Demand, shape: Shape, line: Line
    ) -> Steps[Plan | Changed | PolicyError | Unplaced]:
        """Return a plan that can be committed now, or why there is none. A shortfall is cached for the shape."""
        self._changes.has_affinity_waiters |= shape.related
        try:
            outcome = yield from self._admission.plan(workload, demand, shape, line)
        except PolicyError as error:
            return error
        if not isinstance(outcome, Refused):
            return outcome
        workload.unadvise()
        cause, reported = outcome.cause, workload.reason_state.cause
        if isinstance(reported, Unplaced) and reported == cause:
            cause = reported  # others of its shape have this very object: comparing it costs nothing
        # The shortfall of a workload with quota of its own does not apply to others of its shape.
        scope = f"{outcome.scope}/{workload.key}" if self._quotas.has_own(workload.key) else outcome.scope
        self._shortfalls.cache(outcome.lack, shape, cause, scope, outcome.rests_on, outcome.waits_for)
        return cause

    def _fallback(
        self, workload: Workload, shape: Shape, why: Cause, line: Line, now: float
    ) -> Steps[Later | Evict | AskNodes | Cause]:
        """Return the fallback for a workload without room or quota: evict victims, ask for nodes, or wait."""
        if (awaiting := self._elastic.continue_asking(workload, shape)) is not None:
            return awaiting
        fallback = yield from self._preempting.fallback(workload, shape, why, line, now)
        if isinstance(fallback, Later | Evict):
            return fallback
        return self._backfilling.with_facts(workload, self._elastic.fallback(workload, fallback, now))

    def _until_proven(self, workload: Workload, now: float) -> Creating | None:
        """Why a job whose pods may never be created has to wait, while workloads of other namespaces wait.

        Only one such job has room at a time. Two that alternate would never leave the room free at once that a larger
        gang waits for.
        """
        namespace = workload.key.namespace
        if not put_off(self._failed_creation, workload) or not self._creation.others_may_never_come(workload.key):
            return None
        if self._in_need is None:  # delayed jobs come last in the line, so the others have had their turn
            self._in_need = tuple(
                islice(
                    dict.fromkeys(
                        in_need(self._store.workloads, self._failed_creation, self._pending, self._blocked_singles, now)
                    ),
                    2,
                )
            )
        if all(other == namespace for other in self._in_need):
            return None
        self._creation.refuse(workload.key, now)
        return Creating()

    def _report(self, workload: Workload, why: Cause, now: float) -> int:
        """Report the cause, unless it is reported already, or the gang has started and grows. Returns the cost."""
        if why == workload.reason_state.cause or (workload.has_promised_quorum and not workload.has_bound_quorum):
            return 0
        self._explain(workload, why, now)
        return TELL

    def _explain(self, workload: Workload, why: Cause, now: float) -> None:
        """Report why members wait: all of them, or those beyond the quorum of a gang that runs."""
        why = self._facts.in_full(workload, why)
        if (workload.has_bound_quorum or workload.grows) and not isinstance(why, OtherScheduler):
            workload.reason_state.explain_surplus(why)
            why = self._facts.running(workload)
        self._reporter.explain(workload, why, now)

    def _blame(self, workload: Workload, error: PolicyError, now: float) -> None:
        """Handle the error of a policy: the workload loses its turn and rests for a while."""
        self._pending.dequeue(workload.key)
        self._counts.blame(error.policy)
        self._reporter.reached(workload, Milestone.DELAYED, now, detail=str(error))
        workload.retries.fail(now, self._limits.retry_max_s)
        self._park(workload)
        self._explain(workload, PolicyFailed(str(error)), now)
        self._store.mark_dirty(workload)

    def _pass_by(self, line: Line, workload: Workload) -> Steps[None]:
        """Skip the workload, and with it those of its queue that wait for the same quota."""
        if not self._pending.is_parked(workload.key):  # else it was invited, and waits for the same as before
            self._put_back(workload)
        queue, demand = self._quotas.members.queue_of(workload.key), workload.current_demand
        if queue is not None and demand is not None and demand.shape is not None:
            line.drop_lacking(queue, self._shortfalls.waits_for(demand.shape, queue))
        yield LOOK

    def _hold_up(self, line: Line, workload: Workload) -> Steps[None]:
        """Have the others of a StrictFIFO queue wait behind a workload that was refused, with that as their reason.

        Workloads that have had their turn get another one.
        """
        if (why := (yield from self._admission.strict.record_turn(workload, self._now))) is None:
            return
        for other in line.rest_of(why.queue):
            had_turn = self._admission.strict.has_had_turn(other, workload.key)
            if had_turn and self._store.workloads.get(other.key) is other:
                yield from self._turn(other, line)
                self._park(other)
                continue
            # Else it has changed, and the next cycle considers it.
            if other.current_demand is not None or other.releasing:
                self._put_back(other)
                demand = other.current_demand
                own = None if demand is None or demand.shape is not None else demand.trouble
                self._wasted_units += LOOK
                yield self._report(other, own or why.cause, self._now)
            yield LOOK

    def _line(self, keys: Sequence[GroupKey]) -> Steps[Line]:
        """Return the line of these workloads, without those whose shortfall is known."""
        line = Line(self._admission.turns, self._admission.lines())
        for at in range(0, len(keys), AT_ONCE):
            known = (self._store.workloads.get(key) for key in keys[at : at + AT_ONCE])
            workloads = [workload for workload in known if workload is not None]
            for workload in workloads:
                if self._has_known_shortfall(workload):
                    self._put_back(workload)
                else:
                    queue = self._quotas.queue_of(workload.key)
                    if queue is not None and workload.current_demand is None and not workload.releasing:
                        yield from self._demands.ask(workload)
                    self._come(line, workload)
            self._wasted_units += len(workloads)
            yield LOOK * len(workloads)
        return line

    def _come(self, line: Line, workload: Workload) -> None:
        """Put a workload into the line, at the turn that the queue policy gives it."""
        if (number := self._pending.keys.get(workload.key)) is None:
            return
        try:
            line.add(workload, number, self._quotas.members.queue_of(workload.key) or "")
        except PolicyError as error:
            self._blame(workload, error, self._now)

    def _has_known_shortfall(self, workload: Workload, explained: Cause | None = None) -> bool:
        """Return whether a workload that is due for its shape alone has a known shortfall.

        ``explained``: the cause that its shortfall has to have; None for any.
        """
        demand = workload.current_demand
        if not self._pending.is_due_for_shape(workload.key) or demand is None or demand.shape is None:
            return False
        why = self._admission.refused(workload, demand.shape)
        if why is None or (explained is not None and why != explained):
            return False
        return not self._preempting.may_have_victims(workload, demand.shape)

    def _put_back(self, workload: Workload) -> None:
        """Park a workload without a turn."""
        self._pending.dequeue(workload.key)
        self._park(workload)

    def _park(self, workload: Workload) -> None:
        """Park a workload after its turn. It drops the devices of an earlier start."""
        self._admission.park(workload, self._now)
        self._backfilling.wait(workload)
        self._allocations.settle(workload)

    def recover(self, now: float, recovery: RestartRecovery) -> None:
        """Recover after a restart, in slices.

        Recovers each workload, takes over the plans that hold, and has calls answered from then on. Then plans the
        others, and clears what is left of plans that do not hold.
        """
        self._now = self._began = now
        self._backfills.begin_cycle(now)
        self._walk = self._recovering(recovery)
        self._go_on()

    def _recovering(self, recovery: RestartRecovery) -> Steps[None]:
        yield from self._admission.review(self._now)
        yield from self._device_users.settle_all()
        recovery.begin()
        yield from recovery.recover_all(self._now)
        yield from self._reservations.restore(self._now)
        yield from self._backfilling.restore(self._now)
        line = yield from self._line(list(self._pending.keys))
        while isinstance(workload := line.next(), Workload):
            yield from self._resume(workload)
            yield LOOK + SEAT * len(workload.members.placed)
        yield from recovery.end(self._now)
        self._quotas.past.begin(self._process.wall_offset, self._now)
        if self._now < self._process.paused_until:
            self._pending.wake(Nodes())  # all workloads get a turn when the pause is over
            return (yield from recovery.clear(self._now))
        line = yield from self._line([key for key in self._pending.keys if fills_up(self._store.workloads[key])])
        while isinstance(workload := line.next(), Workload):
            # No other workload gets the room that is kept for its later pods.
            yield from self._turn(workload, line)
            self._park(workload)
        self._refresh_at = self._now + self._limits.refresh_s
        yield from self._run([], [], {}, gone=False, every=True, victims=False)
        yield from recovery.clear(self._now)

    def _resume(self, workload: Workload) -> Steps[None]:
        """Take the nominations of the workload's members as its plan."""
        members = workload.members
        pods = (member.pod for member in members.live.values())
        if workload.releasing or not any(pod.nominated_node and not pod.node for pod in pods):
            return
        if workload.current_demand is None:
            yield from self._demands.ask(workload)
        yield 2 * TRY
        plan = yield from self._planner.nominated(workload)
        if plan is not None and self._admission.has_quota(workload, plan):
            yield from self._commit.commit(workload, plan, self._planner.holds, self._now)


def until_created(limits: Limits, creation: Creation, workload: Workload, now: float) -> Creating | None:
    """Why a job waits for the pods of admitted jobs that are still being created: its room would be kept for long."""
    podsets = workload.podsets
    if podsets is None or creation.allows(workload.key, podsets.minimum, now, limits.creation_s):
        return None
    return creation.cause


def until_gone(preemptions: Preemptions, workload: Workload) -> Preempted | None:
    """Why a workload waits whose own pods, as victims of another one, have yet to go."""
    if (preemptor := preemptions.leaving.get(workload.key)) is None:
        return None
    return Preempted(preemptor)


def until_started(starting: Starting, workload: Workload, demand: Demand, *, related: bool) -> SharedSpread | None:
    """Why a workload waits for one that is being started, because a topology spread of one counts pods of the other.

    A partly released gang does not wait.
    """
    if workload.release.partial_since is not None:
        return None
    return starting.ahead(workload.key, demand.pods, related=related)
