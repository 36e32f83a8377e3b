"""Reservations of workloads that wait until running ones end, and the room that others may use until then.

A reservation names the nodes that its workload is to have, and the instant by which enough claims there are expected
to end. Claims that end by that instant go on, and new ones that do may be made: EASY backfilling (D. Lifka, "The
ANL/IBM SP Scheduling System", 1995). The reservation keeps whatever those leave, as a claim that no other workload may
use.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from math import inf

from extender.core.causes import RoomReserved, RoomReservedForOthers
from extender.core.ledger.claims import Claim, Claims, ClaimState, Owner, SlotOf
from extender.core.ledger.durations import Durations, End
from extender.core.ledger.preemptions import Preemptions
from extender.core.ledger.store import Process
from extender.core.limits import Limits
from extender.core.workload.workload import Workload
from policies.model import Duration, GroupKey, Pod, Requests, Reservation


@dataclass(slots=True)
class Backfill:
    """The reservation of one workload.

    ``rooms``: what the workload is to have on each node.
    ``start_by``: when enough claims are expected to end, by the core's clock; infinite where no duration tells.
    ``since``: when the reservation was made.
    ``tree``: the queue tree in which the workload waits, by its root; empty outside of queues.
    ``after``: the workload whose end comes last before the start; None where nothing has to end.
    ``written_on``: the UID of the pod that the reservation is written on; empty for a job.
    """

    rooms: Mapping[str, Counter[str]]
    start_by: float
    since: float
    tree: str = ""
    priority: int = 0
    after: GroupKey | None = None
    written_on: str = ""

    @property
    def drains(self) -> bool:
        """Whether the nodes are drained, because the ends of their claims are not known."""
        return self.start_by == inf

    def does_better_than(self, other: Backfill) -> bool:
        """Whether this reservation starts earlier.

        Other drained nodes count as better: they may be free by chance.
        """
        return self.start_by < other.start_by or (self.drains and self.rooms != other.rooms)

    def move_to(self, carrier: str) -> None:
        """Record that the reservation is written on another object: a pod by its UID, or the job."""
        self.written_on = carrier

    def wait_no_more(self) -> None:
        """Record that the workload that it starts after has ended early: reasons must not name it."""
        self.after = None

    def amount(self, resource: str) -> int:
        """How much of the resource is reserved on all nodes together."""
        return sum(wanted[resource] for wanted in self.rooms.values())


class Backfills:
    """Reservations by workload, and the claims that keep their room.

    ``claim_freed`` claims what has come free on reserved nodes. Nothing is recorded while there is no reservation.
    """

    def __init__(
        self,
        limits: Limits,
        process: Process,
        pods: Mapping[str, Pod],
        workloads: Mapping[GroupKey, Workload],
        claims: Claims,
        durations: Durations,
        preemptions: Preemptions,
    ) -> None:
        self.of: dict[GroupKey, Backfill] = {}
        self.now = 0.0
        """The instant of the cycle under way. Reserved room is open to workloads that start then and end in time."""
        self.used = False
        """Whether any reservation was ever made. From then on shapes contain durations (``lane``)."""
        self._limits = limits
        self.idle = Counter[str]()
        """The idle amounts that are kept now, by resource."""
        self._idle_s: Mapping[str, float] = {}
        self._idle_since = 0.0
        self._process = process
        self.invalid: dict[GroupKey, None] = {}
        """Reservations that have lost a node, or of which a node is closed."""
        self.improvable: dict[GroupKey, None] = {}
        """Reservations that may get their room earlier on another node, where some has come free."""
        self._pods = pods
        self._workloads = workloads
        self._claims = claims
        self._durations = durations
        self._preemptions = preemptions
        self._moved: dict[str, None] = {}
        self._ends: dict[str, dict[GroupKey | Owner, float]] = {}
        """The expected ends by which the room of each reserved node is divided: of single pods, of workloads that run,
        and of workloads that start there."""
        self._durations_as_of = 0
        """The version of the durations that these ends rest on."""
        self._relied_on: dict[str, float] = {}
        """The earliest expected end, by node, among the claims that are to give their room back before the reservation
        starts."""
        self._grown: dict[GroupKey, None] = {}

    def begin_cycle(self, now: float) -> None:
        """Set the instant of the cycle under way: reserved room is open to workloads that start now and end in time."""
        self.now = now

    def begin(self, key: GroupKey, reservation: Backfill, now: float) -> None:
        """Reserve the room, in place of an earlier reservation of the workload."""
        self.of[key], self.used = reservation, True
        self._claims.note_change()
        if any(map(self._is_lost, reservation.rooms)):
            self.invalid[key] = None  # a node has gone since the room was found, or while no process ran
        self._moved |= dict.fromkeys(reservation.rooms)
        self.claim_freed(now)

    def end(self, key: GroupKey, now: float) -> Backfill | None:
        """Forget the reservation of the workload and return it. The caller frees its claims."""
        for owner in self.rooms(key):
            self._idle_changes(self._claimed_by(owner), (), now)
        self.invalid.pop(key, None)
        self.improvable.pop(key, None)
        if (reservation := self.of.pop(key, None)) is None:
            return None
        self._claims.note_change()
        self._moved |= dict.fromkeys(reservation.rooms)
        if not self.of:
            self._moved.clear()
            self._ends.clear()
            self._relied_on.clear()
        return reservation

    def follow(self, workload: Workload, now: float) -> None:
        """Follow a workload that was settled: room is divided again where its expected end counts and has moved."""
        if not self._ends:
            return
        if (reservation := self.of.get(workload.key)) is not None:
            end, nodes = self.end_of(workload.key, reservation), list(reservation.rooms)
        elif workload.began is not None:
            end, nodes = _instant(self._end_of(workload, now)), workload.member_nodes
        else:
            return
        self._moved |= {
            node: None for node in nodes if node in self._ends and self._ends[node].get(workload.key) != end
        }

    def note_end(self, node: str) -> None:
        """Record that the expected end of a single pod on the node has moved."""
        if node in self._ends:
            self._moved[node] = None

    def moved(self, _: Owner, claim: Claim, __: bool) -> None:
        """Record that room on the node has changed hands."""
        if self.of:
            self._moved[claim.node] = None

    def node_changed(self, node: str, _: bool) -> None:
        """Record that a node came, went or changed."""
        if not self.of:
            return
        self._moved[node] = None
        if self._is_lost(node):
            self.invalid |= {key: None for key, reservation in self.of.items() if node in reservation.rooms}

    def _is_lost(self, node: str) -> bool:
        known = self._claims.nodes.get(node)
        return known is None or known.unschedulable or not known.ready

    def __contains__(self, key: GroupKey) -> bool:
        """Whether the workload has a reservation. If so, the shortfall of other workloads of its shape does not apply
        to it."""
        return key in self.of

    def idle_s(self, now: float) -> Mapping[str, float]:
        """The idle amounts multiplied by the seconds for which they were kept, by resource."""
        passed_s = max(0.0, now - self._idle_since)
        return {name: self._idle_s.get(name, 0.0) + amount * passed_s for name, amount in self.idle.items()}

    def _idle_changes(self, before: Requests, after: Requests, now: float) -> None:
        self._idle_s, self._idle_since = self.idle_s(now), now
        self.idle.subtract(dict(before))
        self.idle.update(dict(after))

    def take_grown(self) -> dict[GroupKey, None]:
        """Return the workloads for which more room is kept than at the last call."""
        grown, self._grown = self._grown, {}
        return grown

    def rooms(self, key: GroupKey) -> list[SlotOf]:
        """The owners of the claims that keep room for the workload."""
        reservation = self.of.get(key)
        return [] if reservation is None else [reserved_on(key, node) for node in reservation.rooms]

    def open_to(self, workload: Workload) -> list[SlotOf]:
        """The owners of the claims whose room the workload may use.

        That is its own room, room of a lower priority, and room whose owner starts no sooner than the workload would
        end.
        """
        return self.rooms_outside(self._closed_to(workload), workload.key) if self.of else []

    def closed_to_pod(self, pod: Pod, now: float) -> AbstractSet[str]:
        """The nodes whose reserved room a pod in no gang may not use, whether any of it is free or not.

        A pod of a DaemonSet belongs to its node, and may use all reserved room.
        """
        if not self.of or pod.stays:
            return frozenset()
        return self._closed(None, pod.priority, self._durations.of_pod(pod), now)

    def rooms_outside(self, closed: AbstractSet[str], own: GroupKey | None = None) -> list[SlotOf]:
        """The owners of the claims that keep reserved room on nodes outside ``closed``, or for the workload ``own``."""
        return [
            reserved_on(other, node)
            for other, reservation in self.of.items()
            for node in reservation.rooms
            if other == own or node not in closed
        ]

    def closed_to(self, workload: Workload) -> list[tuple[GroupKey, Backfill]]:
        """The reservations whose room the workload may not use."""
        closed = self._closed_to(workload)
        return [(key, reservation) for key, reservation in self.of.items() if not closed.isdisjoint(reservation.rooms)]

    def _closed_to(self, workload: Workload) -> AbstractSet[str]:
        if workload.release.partial_since is not None:
            return frozenset()  # it holds room until it is completed, so nothing may keep it waiting
        return self._closed(workload.key, workload.priority, self._durations.of(workload), self.now)

    def _closed(self, key: GroupKey | None, priority: int, duration: Duration | None, now: float) -> AbstractSet[str]:
        """The nodes whose reserved room is closed to a workload or pod.

        Several workloads may reserve one node, each from another instant on. The node is closed if one of these
        reservations closes it, whichever of them keeps the free room.
        """
        # kube-scheduler may take up to ``plan_s`` until it binds the pods of a plan.
        end = inf if duration is None else now + self._limits.plan_s + duration.seconds
        return {
            node
            for other, reservation in self.of.items()
            if not (other == key or reservation.priority < priority or end <= reservation.start_by < inf)
            for node in reservation.rooms
        }

    def start_of(self, reservation: Backfill) -> float | None:
        """The expected start on the wall clock; None where it is not known."""
        return None if reservation.drains else reservation.start_by - self._process.wall_offset

    def as_written(self, key: GroupKey, written_on: str) -> Reservation | None:
        """The text of the reservation that the pod of this UID is to have, or the job; None if it is to have none."""
        reservation = self.of.get(key)
        if reservation is None or reservation.written_on != written_on:
            return None
        rooms = tuple((node, tuple(sorted(wanted.items()))) for node, wanted in reservation.rooms.items())
        return Reservation(rooms, (), self.start_of(reservation) or 0.0)

    def fact_of(self, reservation: Backfill) -> RoomReserved:
        """The reservation as a fact of a reason, which names instants on the wall clock."""
        workload = None if reservation.after is None else self._workloads.get(reservation.after)
        duration = None if workload is None else self._durations.of(workload)
        nodes, rests_on = tuple(sorted(reservation.rooms)), "" if duration is None else str(duration)
        return RoomReserved(nodes, self.start_of(reservation), reservation.after, rests_on)

    def fact_for_others(self, key: GroupKey, reservation: Backfill) -> RoomReservedForOthers:
        """The reservation as a fact of a reason, for a workload that may not use the room."""
        return RoomReservedForOthers(key, tuple(sorted(reservation.rooms)), self.start_of(reservation))

    def claim_freed(self, now: float) -> None:
        """Claim the reserved room that has come free, and give back room that is used by claims that end in time."""
        self._moved |= {node: None for node, at in self._relied_on.items() if at <= now}
        if self._durations_as_of != (version := self._durations.version):
            self._durations_as_of, self._moved = version, self._moved | dict.fromkeys(self._ends)
        while self._moved:
            moved, self._moved = self._moved, {}
            in_order = sorted(self.of.items(), key=lambda item: (-item[1].priority, item[1].start_by, item[0]))
            for node in moved:
                self._ends.pop(node, None)
                self._relied_on.pop(node, None)
                self._claim_freed_on(node, [item for item in in_order if node in item[1].rooms], now)
                for key, reservation in in_order:
                    if node not in reservation.rooms and self._could_use(key, reservation, node):
                        self.improvable[key] = None

    def _claim_freed_on(self, node: str, in_order: Sequence[tuple[GroupKey, Backfill]], now: float) -> None:
        """Divide what has to be kept of a node among its reservations: the highest priority first, then the earliest
        start.

        So each of them may use its share at any time.
        """
        before = {key: self._claimed_by(reserved_on(key, node)) for key, _ in in_order}
        if in_order:
            claims = [(owner, claim) for owner, claim in self._claims.on(node) if claim.state is not ClaimState.AWAITED]
            ends = {claim.workload or owner: self.ends_at(owner, claim, now) for owner, claim in claims}
            self._ends[node] = {key: self.end_of(key, reservation) for key, reservation in in_order} | ends
        left = Counter(self._claims.room(node))
        for share in before.values():
            left.update(dict(share))
        left &= self._to_keep(node, in_order)
        changed = dict[GroupKey, Requests]()
        for key, reservation in in_order:
            amounts = {name: min(much, left[name]) for name, much in reservation.rooms[node].items()}
            share = tuple(sorted((name, amount) for name, amount in amounts.items() if amount > 0))
            left.subtract(dict(share))
            if share != before[key]:
                changed[key] = share
        for key in changed:
            self._claims.release(reserved_on(key, node))
        for key, share in changed.items():
            own = dict(before[key])
            self._idle_changes(before[key], share, now)
            if any(amount > own.get(name, 0) for name, amount in share):
                self._grown[key] = None
            if share:
                self._claims.await_room(reserved_on(key, node), node, share)

    def _to_keep(self, node: str, in_order: Sequence[tuple[GroupKey, Backfill]]) -> Counter[str]:
        """The amounts that have to stay free on the node, so that there is room for each reservation when it begins.

        Claims that have ended before give their room to one of the reservations, and not to each.
        """
        most, ahead = Counter[str](), list[tuple[float, Counter[str]]]()
        for key, reservation in in_order:
            needed = Counter(reservation.rooms[node])
            for end, wanted in ahead:
                if end > reservation.start_by + _ROUNDING_S:
                    needed.update(wanted)
            needed.subtract(self._left_by(node, reservation.start_by))
            most |= needed
            ahead.append((self._ends[node][key], reservation.rooms[node]))
        return most

    def end_of(self, key: GroupKey, reservation: Backfill) -> float:
        """When a workload that starts at its instant is expected to end; infinite where it is not known."""
        workload = self._workloads.get(key)
        duration = None if workload is None else self._durations.of(workload)
        return inf if duration is None else reservation.start_by + duration.seconds

    def _could_use(self, key: GroupKey, reservation: Backfill, node: str) -> bool:
        """Whether the node has room now that another node of the reservation still lacks."""
        free = self._claims.room(node)
        return any(
            self._claimed_by(reserved_on(key, other)) != tuple(sorted(wanted.items()))
            for other, wanted in reservation.rooms.items()
            if all(amount <= free.get(name, 0) for name, amount in wanted.items())
        )

    def _claimed_by(self, owner: SlotOf) -> Requests:
        claim = self._claims.get(owner)
        return () if claim is None else claim.requests

    def _left_by(self, node: str, instant: float) -> Counter[str]:
        """Return the amounts that claims on the node are expected to give back by the instant; all of them if it is
        infinite."""
        left, ends = Counter[str](), self._ends[node]
        for owner, claim in self._claims.on(node):
            if claim.state is not ClaimState.AWAITED and (at := ends[claim.workload or owner]) <= instant:
                left.update(dict(claim.requests))
                self._relied_on[node] = min(at, self._relied_on.get(node, inf))
        return left

    @property
    def next_end(self) -> float:
        """The earliest end that a reservation relies on. If the claim does not end then, the reservation keeps more
        room."""
        return min(self._relied_on.values(), default=inf)

    def ends_at(self, owner: Owner, claim: Claim, now: float) -> float:
        """When the claim is expected to end, by the core's clock; infinite where it is not known."""
        return _instant(self.end_of_claim(owner, claim, now))

    def end_of_claim(self, owner: Owner, claim: Claim, now: float) -> End | None:
        """The expected end of the claim; None where it is not known.

        The end of a victim is not known, too: its room is for its preemptor, and no reservation can get it.
        """
        if claim.workload is not None:
            workload = self._workloads.get(claim.workload)
            return None if workload is None else self._end_of(workload, now)
        pod = self._pods.get(owner) if isinstance(owner, str) else None
        return None if pod is None else self._durations.end_of_pod(pod, now)

    def lane(self, workload: Workload) -> tuple[object, ...]:
        """Return the part of a shape that separates workloads by the reserved room that they may use.

        Once any reservation was made, durations are part of the shape, in steps of a fifth.
        """
        if not self.used:
            return ()
        duration = self._durations.of(workload)
        step = None if duration is None else math.ceil(math.log2(max(duration.seconds, 1.0)) * _STEPS)
        return "reserved", workload.key if workload.key in self.of else None, step

    def _end_of(self, workload: Workload, now: float) -> End | None:
        """When the workload is expected to end; one whose pods have yet to be bound is taken to begin now."""
        if workload.key in self._preemptions.leaving:
            return None
        if workload.began is not None:
            return self._durations.end(workload, now)
        duration = self._durations.of(workload)
        return None if duration is None else End(now + duration.seconds, duration, has_begun=False)


def _instant(end: End | None) -> float:
    return inf if end is None else end.at


_ROUNDING_S = 1e-3
"""An instant that was written and read again may be later by less than this."""
_STEPS = 4
"""Steps of a duration until it is twice as long."""


def reserved_on(key: GroupKey, node: str) -> SlotOf:
    """The owner of the claim that keeps room for the workload on a node."""
    return SlotOf(key, f"reserved on {node}")
