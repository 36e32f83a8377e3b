"""Reservations for waiting workloads: which of them get one, and when it ends.

The first workload of a queue tree that cannot start gets one once it has waited for ``reserve_after_s``. Workloads
behind it start only where they leave its room alone, or end in time (``extender.core.ledger.backfill``). A reservation
stays with its workload until that starts, is held or deleted, or a workload of a higher priority needs the place.

Where the durations of running workloads are not known, the nodes are drained, for one workload of a tree at a time. All
drained nodes together have at most ``drain_share`` of the GPUs, unless a single workload needs more.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, replace
from math import inf

from extender.core.answers import Reserved
from extender.core.causes import Cause, Lacks, NoRoom, with_facts
from extender.core.cycle.admission import QueueAdmission
from extender.core.effects import Milestone, Reserve
from extender.core.explain.reasons import fact_text
from extender.core.explain.telling import Reporter
from extender.core.gate.steering import Repeats
from extender.core.jobs.elastic import AskNodes
from extender.core.ledger.backfill import Backfill, Backfills, reserved_on
from extender.core.ledger.claims import Claims
from extender.core.ledger.durations import Durations
from extender.core.ledger.pending import Nodes, Own, Pending
from extender.core.ledger.preemptions import Preemptions
from extender.core.ledger.quotas import Quotas
from extender.core.ledger.room import Room
from extender.core.ledger.store import Outbox, Process, Store
from extender.core.limits import Limits
from extender.core.preemption.reservations import asks_for, written_on_it
from extender.core.queue.endings import Endings, Opening
from extender.core.workload.job import JobWrite
from extender.core.workload.workload import Workload
from policies.api import PolicyError
from policies.model import GroupKey
from policies.placement.snapshot import kinds
from policies.steps import AT_ONCE, Steps, ordered

_REVIEW_S = 60.0
"""Seconds until the next search for a workload for which no room was found."""
_REST_S = 1.0
"""Seconds between two reviews: each goes through every workload that waits."""
_SEARCHES = 16
"""Searches for room in one review: each takes as long as a dozen plans."""


@dataclass(eq=False)
class Backfilling:
    """Makes reservations in the cycle (``review``), and follows them after every event (``follow``)."""

    _limits: Limits
    _process: Process
    _store: Store
    _outbox: Outbox
    _room: Room
    _claims: Claims
    _quotas: Quotas
    _durations: Durations
    _preemptions: Preemptions
    _backfills: Backfills
    _pending: Pending
    _reporter: Reporter
    _admission: QueueAdmission
    _endings: Endings
    _repeats: Repeats

    def __post_init__(self) -> None:
        self._enabled = self._limits.reserve_after_s < inf
        self._due = inf
        """The instant of the next review; infinite if none is due."""
        self._reviewed_at = -inf
        self._searches = 0
        """How many more workloads this review may search room for."""
        self._unwritten: dict[tuple[GroupKey, str], None] = {}
        """The workloads whose reservation has changed, each with what it is written on: a pod's UID, or empty for a
        job."""

    def due(self) -> float | None:
        """When the next review is due; None if none is."""
        return max(self._due, self._reviewed_at + _REST_S) if self._due < inf else None

    def wait(self, workload: Workload) -> None:
        """Record that a workload waits: it may get a reservation when it has waited for long enough."""
        if not self._enabled:
            return
        tree = self._tree_of(workload.key)
        rivals = [reservation.priority for reservation in self._backfills.of.values() if reservation.tree == tree]
        if len(rivals) < self._limits.reservations or min(rivals) < workload.priority:
            self._due = min(self._due, max(self._old_enough(workload), self._reviewed_at + _REVIEW_S))

    def review(self, now: float) -> Steps[None]:
        """Reserve room for workloads that have waited long enough."""
        if (due := self.due()) is None or now < due:
            return
        self._due, self._reviewed_at, self._searches = inf, now, _SEARCHES
        trees: dict[str, list[Workload]] = {}
        for count, key in enumerate(list(self._pending.keys), 1):
            if not count % AT_ONCE:
                yield AT_ONCE // 4
            if (workload := self._store.workloads.get(key)) is not None and self._may_have_one(workload):
                trees.setdefault(self._tree_of(key), []).append(workload)
        for tree, waiting in trees.items():
            yield from self._review_tree(tree, waiting, now)

    def renew(self, now: float) -> Steps[None]:
        """Choose the nodes of a reservation again if it was overrun or has lost a node, or if others may do earlier.

        It comes before the turns of a cycle, as these would use the room that has come free.
        """
        if (due := self.due()) is None or now < due:
            return
        of, invalid, improvable = self._backfills.of, self._backfills.invalid, self._backfills.improvable
        for key, reservation in list(of.items()):
            stands = now < reservation.start_by and key not in invalid
            if (not stands or key in improvable) and of.get(key) is reservation and self._waits(key):
                invalid.pop(key, None)
                improvable.pop(key, None)
                yield from self._renew(self._store.workloads[key], now, stands=stands)

    def written(self, event: Reserved, now: float) -> None:
        """Handle the outcome of writing a reservation, or of removing it: a write that failed is repeated.

        A write may land after its reservation has ended. Then the reservation is removed from the object.
        """
        if event.detail:
            self._repeats.repeat_later(Reserve(event.key, event.pod, event.job, None, backfill=True), now)
        elif event.reservation is not None and event.key not in self._backfills.of:
            self._unwritten[event.key, "" if event.pod is None else event.pod.uid] = None

    def follow(self, now: float) -> None:
        """End the reservations of workloads that wait no more, and keep room that has come free. Called after every
        event."""
        backfills = self._backfills
        if not backfills.of and not self._unwritten:
            return
        for key in [key for key in backfills.of if not self._waits(key)]:
            self._end(key, now)
        for key, reservation in backfills.of.items():
            if (carrier := self._carrier(self._store.workloads[key], reservation.written_on)) != reservation.written_on:
                self._unwritten |= {(key, reservation.written_on): None, (key, carrier): None}
                reservation.move_to(carrier)
        self._write_changes()
        if not backfills.of:
            return
        for key, reservation in backfills.of.items():
            if reservation.after is not None and reservation.after not in self._store.workloads:
                reservation.wait_no_more()
                self._pending.wake(Own(key, recompute=True))
        backfills.claim_freed(now)
        for key in backfills.take_grown():
            self._pending.wake(Own(key))
        soonest = min((backfills.next_end, *(reservation.start_by for reservation in backfills.of.values())))
        self._due = min(self._due, now if backfills.invalid or backfills.improvable else soonest)

    def restore(self, now: float) -> Steps[None]:
        """Take over the reservations that are written on waiting workloads, after a restart.

        Any user can write one. So it may reserve no more than the workload asks for, and no tree gets more
        reservations, or more drained nodes, than its limit. All others are removed from their objects.
        """
        in_turn = [*self._pending.keys, *(key for key in self._store.workloads if key not in self._pending.keys)]
        for key in in_turn:
            if (workload := self._store.workloads.get(key)) is None:
                continue  # it has gone meanwhile
            for written_on, reservation in written_on_it(workload, "backfill"):
                tree = self._tree_of(key)
                start_by = reservation.until + self._process.wall_offset if reservation.until else inf
                rooms = {node: Counter(dict(requests)) for node, requests in reservation.rooms}
                new = Backfill(rooms, start_by, now, tree, workload.priority, None, written_on)
                there = sum(other.tree == tree for other in self._backfills.of.values())
                may = self._enabled and key not in self._backfills.of and there < self._limits.reservations
                may = may and self._waits(key) and asks_for(workload, reservation.rooms)
                if may and (not new.drains or self._may_drain(key, new)):
                    self._backfills.begin(key, new, now)
                else:
                    self._unwritten[key, written_on] = None
            yield 1 + len(workload.members) // 4

    def with_facts(self, workload: Workload, outcome: AskNodes | Cause) -> AskNodes | Cause:
        """Add to the cause why a workload waits: its own reservation, and reservations of others that it may not
        use."""
        if not self._backfills.of or not isinstance(outcome, Lacks):
            return outcome
        if (own := self._backfills.of.get(workload.key)) is not None:
            return with_facts(outcome, self._backfills.fact_of(own))
        if not isinstance(outcome, NoRoom):
            return outcome  # without quota no room is of use
        others = (self._backfills.fact_for_others(key, held) for key, held in self._backfills.closed_to(workload))
        return with_facts(outcome, *others)

    def _review_tree(self, tree: str, waiting: list[Workload], now: float) -> Steps[None]:
        """Give the first of the waiting workloads reservations, as many as the tree may have."""
        backfills = self._backfills
        free = self._limits.reservations - sum(reservation.tree == tree for reservation in backfills.of.values())
        for workload in (yield from self._in_order(waiting)):
            if workload.key in backfills.of:
                continue
            if free <= 0 and not (rival := self._rival(tree, workload.priority)):
                return
            if not self._searches:
                self._due = now  # for the next cycle: other workloads need not wait for all searches
                return
            if (at := self._old_enough(workload)) > now:
                self._due = min(self._due, at)
                return
            self._searches -= 1
            if not (yield from self._reserve(workload, tree, now)):
                self._due = min(self._due, now + _REVIEW_S)
                continue
            if free > 0:
                free -= 1
            elif rival:
                self._end(rival, now)

    def _in_order(self, waiting: list[Workload]) -> Steps[list[Workload]]:
        """Sort the workloads by the queue policy, and equal ones by when they came."""
        turns, numbers = self._admission.turns, self._pending.keys
        try:
            return (yield from ordered(waiting, lambda workload: (turns.of(workload), numbers.get(workload.key, 0))))
        except PolicyError:
            return []  # the turn of the workload reports the error

    def _rival(self, tree: str, priority: int) -> GroupKey | None:
        """The workload of the tree whose reservation has the lowest priority, if that is lower than this one; else
        None."""
        # A reservation that was made earlier in this review may have ended between two slices: then there is none.
        held = self._backfills.of.items()
        lower = [(other.priority, key) for key, other in held if other.tree == tree and other.priority < priority]
        return min(lower)[1] if lower else None

    def _reserve(self, workload: Workload, tree: str, now: float) -> Steps[bool]:
        """Reserve the earliest room for the workload. Returns whether there is any."""
        opening = yield from self._opening(workload, now)
        if opening is None or not self._waits(workload.key):
            return False
        written_on = self._carrier(workload)
        reservation = Backfill(opening.rooms, opening.start_by, now, tree, workload.priority, opening.after, written_on)
        if reservation.drains and not self._may_drain(workload.key, reservation):
            return False
        is_first = not self._backfills.used
        self._backfills.begin(workload.key, reservation, now)
        self._unwritten[workload.key, written_on] = None
        self._reporter.reached(
            workload, Milestone.RESERVED, now, detail=fact_text(self._backfills.fact_of(reservation))
        )
        for key in list(self._pending.keys) if is_first else [workload.key]:
            self._pending.wake(Own(key, recompute=True))
        return True

    def _renew(self, workload: Workload, now: float, *, stands: bool) -> Steps[None]:
        """Choose the nodes of a reservation again. If it ``stands`` as it is, no later start replaces it."""
        before = self._backfills.of[workload.key]
        opening = yield from self._opening(workload, now)
        if self._backfills.of.get(workload.key) is not before or not self._waits(workload.key):
            return
        after = None
        if opening is not None:
            after = replace(
                before, rooms=opening.rooms, start_by=opening.start_by, priority=workload.priority, after=opening.after
            )
            if after.drains and not self._may_drain(workload.key, after):
                after = None
        if stands and (after is None or not after.does_better_than(before)):
            return
        self._end(workload.key, now)
        if after is None:
            return
        self._backfills.begin(workload.key, after, now)
        self._pending.wake(Own(workload.key, recompute=True))
        if after.start_by > before.start_by:
            # A workload that would have ended too late for the former start may end in time now.
            self._pending.wake(Nodes())

    def _opening(self, workload: Workload, now: float) -> Steps[Opening | None]:
        demand = workload.current_demand
        if demand is None or demand.shape is None:
            return None
        return (yield from self._endings.find(workload, demand, demand.shape, now))

    def _may_have_one(self, workload: Workload) -> bool:
        """Whether the workload waits because it lacks room or quota, and no preemption for it is under way."""
        demand = workload.current_demand
        return (
            self._waits(workload.key)
            and isinstance(workload.reason_state.cause, Lacks)
            and demand is not None
            and demand.shape is not None
            and workload.key not in self._preemptions.under_way
        )

    def _may_drain(self, key: GroupKey, reservation: Backfill) -> bool:
        """Whether nodes may be drained for the workload, besides the nodes that are drained already."""
        drained = [holder for other, holder in self._backfills.of.items() if holder.drains and other != key]
        if not drained:
            return True
        if any(holder.tree == reservation.tree for holder in drained):
            return False
        view = self._claims.snapshot()
        resources = {name for wanted in reservation.rooms.values() for name in kinds(tuple(wanted.items()))}
        return all(
            sum(holder.amount(name) for holder in (*drained, reservation))
            <= self._limits.drain_share * view.allocatable[view.resources[name]].sum()
            for name in resources
            if name in view.resources
        )

    def _old_enough(self, workload: Workload) -> float:
        """When the workload will have waited for long enough, by the core's clock."""
        return workload.created + self._process.wall_offset + self._limits.reserve_after_s

    def _tree_of(self, key: GroupKey) -> str:
        return self._quotas.queues.snapshot.tree.root_of(self._quotas.members.queue_of(key) or "")

    def _waits(self, key: GroupKey) -> bool:
        """Whether the workload waits for its start, is not held, and has no problem of its own.

        One that has started may wait for room for more members, or for lost ones. It needs no reservation for those.
        """
        workload = self._store.workloads.get(key)
        if workload is None or key not in self._pending.keys:
            return False
        if workload.has_promised_quorum or workload.resumes or workload.release.complete:
            return False
        if self._admission.strict.waits_behind(workload) is not None:
            return False  # room alone does not start it, and the first of its queue may need that room
        return workload.demand is None or workload.demand.trouble is None

    def _end(self, key: GroupKey, now: float) -> None:
        """End a reservation: its room is free for all workloads, and the next one may get a reservation."""
        if (reservation := self._backfills.end(key, now)) is None:
            return
        for node in reservation.rooms:
            self._room.free(reserved_on(key, node))
        self._unwritten[key, reservation.written_on] = None
        self._due = min(self._due, now)

    @staticmethod
    def _carrier(workload: Workload, former: str = "") -> str:
        """Return what a reservation is written on: empty for the job, else the UID of a member.

        The ``former`` member stays while it lives. Then the first member takes its place.
        """
        if workload.job is not None or former in workload.members.live:
            return "" if workload.job is not None else former
        return "" if workload.members.first is None else workload.members.first.uid

    def _write_changes(self) -> None:
        """Write the reservations that have changed, each on the job of its workload or on a pod, or take them off.

        While the write that starts a job is under way, its outcome is awaited.
        """
        store = self._store
        for key, written_on in list(self._unwritten):
            workload, pod = store.workloads.get(key), store.pods.get(written_on)
            record = None if workload is None or written_on else workload.job
            if record is not None and record.writing is JobWrite.START:
                continue
            del self._unwritten[key, written_on]
            if pod is not None or record is not None:
                seen = None if record is None else record.seen
                self._outbox.append(Reserve(key, pod, seen, self._backfills.as_written(key, written_on), backfill=True))
