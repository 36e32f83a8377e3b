"""The line: whose turn is next, given what has been admitted by then.

Workloads of queues stand in it by the queue policy in each queue, and between queues by who need not borrow, or by an
order of shares. The order is worked out anew after each admission, as far as that could have changed it. In a queue
that is StrictFIFO nobody passes the first workload that was refused.

Pods of no gang are kube-scheduler's to place. They stand in the same line where they come before a gang, and their
room is kept; elsewhere they are kept out of room that is promised to gangs.
"""

from __future__ import annotations

import heapq
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from extender.core.causes import QueueOrder
from extender.core.effects import AnswerFilter, Wake
from extender.core.events import FilterCalled
from extender.core.ledger.backfill import Backfills
from extender.core.ledger.claims import Claims, Owner
from extender.core.ledger.creation import FailedCreation
from extender.core.ledger.devices import Devices
from extender.core.ledger.kube_scheduler import KubeQueue
from extender.core.ledger.pending import Amounts, Entry, Own, Pending, Turn, Turns, put_off
from extender.core.ledger.preemptions import Preemptions, key_of, room_of
from extender.core.ledger.quotas import Quotas
from extender.core.ledger.room import Room
from extender.core.ledger.singles import KeptOut, WaitingSingle, WaitingSingles
from extender.core.ledger.store import Counts, Outbox
from extender.core.limits import Limits
from extender.core.queue.planner import Planner
from extender.core.workload.shape import Role
from extender.core.workload.workload import Workload
from policies.api import PolicyError, SortKey
from policies.model import GroupKey, Pod, Requests, Selection
from policies.model.queues import ClusterQueue, Strategy, Usage
from policies.placement.relations import hindrances_of
from policies.placement.request import shape_of
from policies.quota.flavors import Assignment, Fit
from policies.quota.shares import Head, Rank, Requested, fairest
from policies.steps import AT_ONCE, Steps, finish


class Line:
    """In the order of ``Turns``. A half-released gang goes first: it holds room, and only being completed ends
    that. Whoever came first goes first among equals. Those of queues are chosen among by ``queues``.
    """

    def __init__(self, turns: Turns, queues: QueueLines) -> None:
        self._turns = turns
        self._queues = queues
        self._heap: list[tuple[bool, Turn, int, Workload | WaitingSingle]] = []
        self._came = 0
        self.gangs = 0

    def come(self, workload: Workload, number: int, queue: str = "") -> None:
        """It waits for its turn, in that ClusterQueue if any. ``number``: no other one has it, the lower the sooner.
        Raises PolicyError where the policy cannot say when its turn is."""
        if queue and workload.release.partial_since is None:
            place, turn = self._turns.both(workload, self._queues.object_of(queue))
            self._queues.come(queue, (place, number, turn, workload))
        else:
            self._put(workload, whole=workload.release.partial_since is None)
        self.gangs += 1

    def take(self, queue: str, entries: Sequence[Entry], waits_for: Amounts) -> None:
        """All of these wait for their turn in that ClusterQueue, for so much of its quota as far as is known."""
        self._queues.take(queue, entries, waits_for)
        self.gangs += len(entries)

    def join(self, single: WaitingSingle) -> None:
        """So does a pod of no gang."""
        self._put(single, whole=True)

    def next(self) -> Workload | WaitingSingle | None:
        """Whose turn it is now; None when no gang is left."""
        if not self.gangs:
            return None
        queued = self._queues.first()
        if queued is not None and (not self._heap or (True, queued) < self._heap[0][:2]):
            self.gangs -= 1
            return self._queues.pop()
        found = heapq.heappop(self._heap)[-1]
        self.gangs -= isinstance(found, Workload)
        return found

    def postpone(self, workload: Workload, usage: Usage, level: int) -> bool:
        """As ``QueueLines.postpone``."""
        postponed = self._queues.postpone(workload, usage, level)
        self.gangs += postponed
        return postponed

    def has_postponed(self, workload: Workload) -> bool:
        """Whether its turn has come, and comes again."""
        return workload.key in self._queues.postponed

    def rest_of(self, queue: str) -> Iterator[Workload]:
        """All others of that queue leave the line."""
        for workload in self._queues.drain(queue):
            self.gangs -= 1
            yield workload

    def leave(self, queue: str, waits_for: Amounts | None) -> None:
        """All others of that queue that wait for the same quota leave the line: it is not there."""
        self.gangs -= self._queues.leave(queue, waits_for)

    def _put(self, one: Workload | WaitingSingle, *, whole: bool) -> None:
        self._came += 1
        heapq.heappush(self._heap, (whole, self._turns.of(one), self._came, one))


Assign = Callable[[Workload], Assignment | None]
"""What a workload would get by quota alone; None where that is of no use."""


@dataclass(slots=True)
class _Queue:
    """``line``: those of it that wait. ``after``: the lower the sooner, whatever others have. As of ``version``:
    ``level``: from how far away its first one borrows; ``head``: what that one would use, None where its quota is not
    there."""

    name: str
    line: LocalTurns
    after: int
    version: int = -1
    level: int = 0
    head: Head | None = None

    @property
    def place(self) -> tuple[int, int]:
        """Whatever others have: a queue whose first one is put off comes after all others."""
        return self.line.first[0][0], self.after


@dataclass(eq=False)
class QueueLines:
    """For one pass. Whoever was found to be next by ``first`` is taken by ``pop``. ``rank_of``: the order of shares
    between queues, asked for when all have come; None where there is none."""

    _quotas: Quotas
    _assign: Assign
    _rank_of: Callable[[], Rank] | None = None

    def __post_init__(self) -> None:
        self._rank: Rank | None = None
        self._queues: dict[str, _Queue] = {}
        self._renewed: dict[str, _Queue] = {}
        """Those whose first one may be another."""
        self._next: list[tuple[int, int, int, Turn, int, str]] = []
        self._came = 0
        self._taken: tuple[_Queue, Entry, bool] | None = None
        """Whose turn it was last, and whether that had been postponed."""
        self.postponed: dict[GroupKey, Head] = {}
        """Those whose turn comes later than it came: what they will use."""

    def object_of(self, queue: str) -> ClusterQueue:
        """The ClusterQueue of that name."""
        return self._quotas.queues.picture.queues[queue]

    def come(self, queue: str, entry: Entry) -> None:
        """It waits for its turn in that ClusterQueue."""
        self._line_of(queue).push(entry, None)

    def take(self, queue: str, entries: Sequence[Entry], waits_for: Amounts) -> None:
        """So do all of these, for so much of its quota."""
        self._line_of(queue).take(entries, waits_for)

    def first(self) -> Turn | None:
        """The turn of the one whose turn it is; None if nobody is left."""
        queue = self._best()
        return None if queue is None else queue.line.first[2]

    def pop(self) -> Workload:
        """Its turn has come."""
        queue = self._best()
        if queue is None:
            raise LookupError("nobody waits in a queue")
        entry = queue.line.first
        self._renewed[queue.name] = queue
        self._taken = queue, entry, self.postponed.pop(entry[-1].key, None) is not None
        return queue.line.pop()

    def postpone(self, workload: Workload, usage: Usage, level: int) -> bool:
        """It is its turn by what it would get by quota alone. It would use this instead, borrowed from so far away,
        because others give way to it, or its first flavors have no nodes: it waits for the turn that it has by that,
        unless this one is it."""
        if self._taken is None or self._taken[1][-1] is not workload:
            return False
        queue, entry, again = self._taken
        by_share = self._rank_of is not None and not again
        is_it = (queue.head is not None and queue.head.usage == usage) if by_share else level <= queue.level
        if is_it or not any(one.line for one in self._queues.values() if one is not queue):
            return False
        self.postponed[workload.key] = _head(queue, workload, usage, level)
        queue.line.push(entry, None)
        return True

    def drain(self, queue: str) -> Iterator[Workload]:
        """All others of that queue, in their order: it is not their turn."""
        if queue in self._queues:
            yield from self._queues[queue].line.drain()

    def leave(self, queue: str, waits_for: Amounts | None) -> int:
        """All others of that queue that wait for the same quota: it is not there. Returns how many."""
        if (known := self._queues.get(queue)) is None:
            return 0
        self._renewed[queue] = known
        return known.line.leave(waits_for)

    def _line_of(self, queue: str) -> LocalTurns:
        """For whoever comes: the first one of the queue may be another by then."""
        if (known := self._queues.get(queue)) is None:
            said = self.object_of(queue)
            line = LocalTurns(self._quotas if said.by_past_usage else None)
            known = self._queues[queue] = _Queue(queue, line, -said.priority)
        self._renewed[queue] = known
        return known.line

    def _best(self) -> _Queue | None:
        for queue in self._renewed.values():
            queue.version = -1
            self._put(queue, 0)
        self._renewed.clear()
        return self._nearest() if self._rank_of is None else self._fairest(self._rank_of)

    def _nearest(self) -> _Queue | None:
        """What others were admitted with makes nobody borrow from less far away: who is first by what was known of it,
        and is by what is known now, is first."""
        while self._next:
            *_, level, turn, _, name = self._next[0]
            queue = self._queues[name]
            if not queue.line or queue.line.first[2] != turn:
                heapq.heappop(self._next)
                continue
            self._look(queue)
            if queue.level <= level:
                return queue
            heapq.heappop(self._next)
            self._put(queue, queue.level)
        return None

    def _fairest(self, rank_of: Callable[[], Rank]) -> _Queue | None:
        """Those whose quota is not there are told so first: they are in nobody's way."""
        waiting = [one for one in self._queues.values() if one.line]
        soonest = min((one.place for one in waiting), default=None)
        some = [one for one in waiting if one.place == soonest]
        for one in some:
            self._look(one)
            if one.head is None:
                return one
        heads = {one.name: one.head for one in some if one.head is not None}
        if not heads:
            return None
        self._rank = self._rank or rank_of()
        found = fairest(self._quotas.queues.picture.tree, heads, self._rank)
        return None if found is None else self._queues[found.queue]

    def _look(self, queue: _Queue) -> None:
        if queue.version == self._quotas.uses.version:
            return
        workload = queue.line.first[-1]
        queue.version, queue.head = self._quotas.uses.version, self.postponed.get(workload.key)
        if queue.head is None:
            found = self._assign(workload)
            if found is not None and found.fit is Fit.FITS:
                queue.head = _head(queue, workload, found.usage, found.level)
        queue.level = 0 if queue.head is None else queue.head.level

    def _put(self, queue: _Queue, level: int) -> None:
        if queue.line:
            turn = queue.line.first[2]
            self._came += 1
            heapq.heappush(self._next, (turn[0], queue.after, level, turn, self._came, queue.name))


def _head(queue: _Queue, workload: Workload, usage: Usage, level: int) -> Head:
    return Head(queue.name, usage, workload.priority, workload.created, str(workload.key), level)


def requested(workloads: Mapping[GroupKey, Workload], quotas: Quotas, pending: Pending) -> Requested:
    """Who is not known to be plannable asks for nothing."""
    found: dict[str, Counter[str]] = {}
    for name, node in quotas.queues.picture.tree.queues.items():
        total = found[name] = Counter[str]()
        for (_, resource), amount in node.used.items():
            total[resource] += amount
        for key in quotas.members.of(name):
            demand = workloads[key].asked if key in pending.keys else None
            for (requests, *_), count in demand.shape.roles if demand is not None and demand.shape is not None else ():
                for resource, amount in requests:
                    total[resource] += amount * count
    return found


Part = tuple[str, str, Amounts | None]
"""Namespace and name of a LocalQueue, both empty where past usage does not count, and the quota that is waited for."""


class LocalTurns:
    """``quotas`` tell what LocalQueues have used; None where that does not count. The first one stays the first until
    somebody comes or it is taken, whatever is used meanwhile."""

    def __init__(self, quotas: Quotas | None) -> None:
        self._quotas = quotas
        self._lines: dict[Part, list[Entry]] = {}
        self._chosen: Part | None = None

    def __bool__(self) -> bool:
        return bool(self._lines)

    def push(self, entry: Entry, waits_for: Amounts | None) -> None:
        """``waits_for``: for how much quota, as far as is known."""
        part: Part = "", "", waits_for
        if self._quotas is not None:
            key = entry[-1].key
            part = key.namespace, self._quotas.local_of(key), waits_for
        heapq.heappush(self._lines.setdefault(part, []), entry)
        self._chosen = None

    def take(self, entries: Sequence[Entry], waits_for: Amounts) -> None:
        """All of them come, and wait for so much quota."""
        if self._quotas is not None:
            for entry in entries:
                self.push(entry, waits_for)
            return
        line = self._lines.setdefault(("", "", waits_for), [])
        line += entries
        heapq.heapify(line)
        self._chosen = None

    @property
    def first(self) -> Entry:
        """Raises LookupError if nobody waits."""
        return self._lines[self._first()][0]

    def pop(self) -> Workload:
        """The first one leaves."""
        part = self._first()
        workload = heapq.heappop(self._lines[part])[-1]
        if not self._lines[part]:
            del self._lines[part]
        self._chosen = None
        return workload

    def leave(self, waits_for: Amounts | None) -> int:
        """Those that wait for that quota leave, if it is known. Returns how many."""
        self._chosen = None
        gone = [part for part in self._lines if part[-1] == waits_for is not None]
        return sum(len(self._lines.pop(part)) for part in gone)

    def drain(self) -> Iterator[Workload]:
        while self._lines:
            yield self.pop()

    def _first(self) -> Part:
        if self._chosen is None:
            if not self._lines:
                raise LookupError("nobody waits in the queue")
            self._chosen = min(self._lines, key=self._rank)
        return self._chosen

    def _rank(self, part: Part) -> tuple[int, float, tuple[Turn, int]]:
        past, first = 0.0 if self._quotas is None else self._quotas.past.value(part[:2]), self._lines[part][0]
        return first[0][0], past, first[:2]


@dataclass(frozen=True, slots=True)
class HeldUp:
    """Why the others of a queue wait: the first one of it does."""

    queue: str
    first: GroupKey
    cause: QueueOrder


@dataclass(eq=False)
class StrictOrder:
    """``first``: of each such queue, whom the others wait for."""

    _workloads: Mapping[GroupKey, Workload]
    _quotas: Quotas
    _preemptions: Preemptions
    _pending: Pending
    _turns: Turns

    def __post_init__(self) -> None:
        self.first: dict[str, HeldUp] = {}

    def see(self, workload: Workload, now: float) -> HeldUp | None:
        """It was looked at: if it waits still, and its queue is StrictFIFO, those behind it wait for it."""
        queue, demand = self._quotas.queue_of(workload.key), workload.asked
        if queue is None or queue.strategy is not Strategy.STRICT:
            return None
        known = self.first.get(queue.name)
        plannable = demand is None or demand.shape is not None
        if not plannable or workload.seated or now < workload.retries.not_before:
            if known is not None and known.first == workload.key:
                self.begin_anew(queue.name)
            return None
        if self.held_up(queue.name, workload) is None and (known is None or known.first != workload.key):
            self._take_place_of(known, workload.key)
            known = self.first[queue.name] = HeldUp(queue.name, workload.key, QueueOrder(workload.key, queue.title))
        return known

    def held_up(self, queue: str, workload: Workload) -> QueueOrder | None:
        """Somebody before it waits, and its queue is StrictFIFO."""
        known = self.first.get(queue)
        first = self._workloads.get(known.first) if known is not None else None
        if known is None or first is None or first is workload or known.first not in self._pending.keys:
            return None
        try:
            return known.cause if self._place(first) < self._place(workload) else None
        except PolicyError:
            return None

    def waits_behind(self, queue: str, workload: Workload) -> QueueOrder | None:
        """The same. A workload has had its turn if others are evicted for it, or room is kept for its lost members."""
        had_turn = workload.resumes or workload.key in self._preemptions.under_way
        return None if had_turn else self.held_up(queue, workload)

    def begin_anew(self, queue: str) -> None:
        """Forget whom the others of a queue wait for: each is looked at."""
        self.first.pop(queue, None)
        for key in self._quotas.members.of(queue):
            self._pending.wake(Own(key))

    def _take_place_of(self, before: HeldUp | None, key: GroupKey) -> None:
        """Look again at all others of the queue, the one that was first too: each has to name the new first one."""
        for other in self._quotas.members.of(before.queue) if before is not None else ():
            if other != key:
                self._pending.wake(Own(other))

    def _place(self, workload: Workload) -> tuple[int, float, SortKey]:
        put_off, order = self._turns.within(workload, self._quotas.queue_of(workload.key))
        return put_off, self._quotas.past_of(workload.key), order


def others_wait(
    workloads: Mapping[GroupKey, Workload],
    failed_creation: FailedCreation,
    pending: Pending,
    kept_out: KeptOut,
    workload: Workload,
    now: float,
) -> bool:
    """Whether somebody of another namespace waits whose turn is before that of those that are put off."""
    return any(
        namespace != workload.key.namespace for namespace in in_need(workloads, failed_creation, pending, kept_out, now)
    )


def in_need(
    workloads: Mapping[GroupKey, Workload],
    failed_creation: FailedCreation,
    pending: Pending,
    kept_out: KeptOut,
    now: float,
) -> Iterator[str]:
    """The namespace of each workload that is not put off and waits for room or quota, and of each pod of no gang that
    promised room keeps out."""
    for pod in kept_out.pods.values():
        yield pod.namespace
    for key in pending.keys:
        waits = workloads[key]
        plannable = waits.demand is None or waits.demand.shape is not None
        if plannable and now >= waits.retries.not_before and not put_off(failed_creation, waits):
            yield key.namespace


ROOM_KEPT = "Muster: the room here is kept for a gang that is starting"
"""Constant on purpose: kube-scheduler retries a pod at once when the text of its refusal changes."""
_LOOK = 2


@dataclass(eq=False)
class Singles:
    """Keeps them out of promised room, and wakes those who were kept out when a promise of such room ends."""

    _pods: Mapping[str, Pod]
    _outbox: Outbox
    _claims: Claims
    _preemptions: Preemptions
    _backfills: Backfills
    _devices: Devices
    _singles: WaitingSingles
    _kept_out: KeptOut

    def filter(self, event: FilterCalled, pod: Pod, now: float) -> None:
        """Every node that has room beside what is promised; whatever else is to be said is kube-scheduler's to say.

        Of what is reserved kube-scheduler may see something come free earlier than Muster does.
        """
        promised, reserved = self._claims.promised_nodes, self._backfills.closed_to_pod(pod, now)
        if not (promised or reserved):
            self._outbox.append(AnswerFilter(event.call, event.candidates))
            return
        open_to = self._backfills.rooms_outside(reserved)
        with self._claims.statement() as statement:
            self._claims.leave_out(statement, open_to)
            view = statement.snapshot
            roomy = (view.slots(self._devices.classes.listed(pod.requests, view)) > 0).tolist()
        own = self._preemptions.of_pod(pod)
        refused = {
            node: None
            for node in event.candidates
            if (node in promised or node in reserved)
            and pod.uid not in promised.get(node, ())
            and not ((row := view.rows.get(node)) is not None and roomy[row])
            and (own is None or self._preemptions.keeps_out(pod, node, open_to))
        }
        if refused:
            self._kept_out.add(pod)
            self._singles.wake(pod.uid)
        passed = tuple(node for node in event.candidates if node not in refused)
        self._outbox.append(AnswerFilter(event.call, passed, tuple(refused), ROOM_KEPT))

    def may_preempt(self, pod: Pod, node: str, victims: Iterable[Owner], *, surely: bool = False) -> bool:
        """Say whether the pod fits on the node, beside what is promised, once the victims are gone.

        Evicting them is useless where ``filter`` rejects the pod, or where another preemptor gets their room. Where
        nothing is promised to others, kube-scheduler decides about room, unless the pod has to fit ``surely``.
        """
        claims, preemptions = self._claims, self._preemptions
        if not preemptions.pods.isdisjoint(uids := (pod.uid, *victims)):
            return False
        leaving: dict[Owner, None] = dict.fromkeys((*uids, room_of(key_of(pod), node)))
        unpromised = not surely and claims.promised_nodes.get(node, {}).keys() <= leaving.keys()
        return (unpromised or self._has_room(pod, node, leaving)) and not self._is_hindered(pod, node)

    def _has_room(self, pod: Pod, node: str, leaving: Iterable[Owner]) -> bool:
        claims = self._claims
        room = claims.room(node)
        for owner in leaving:
            if (claim := claims.get(owner)) is not None and claim.node == node:
                room |= {name: room.get(name, 0) + amount for name, amount in claim.requests}
        return all(room.get(name, 0) >= amount for name, amount in pod.requests if amount)

    def _is_hindered(self, pod: Pod, node: str) -> bool:
        """Say whether a pod that stays keeps it away, by ports or anti-affinity. Only this check sees promised members:
        kube-scheduler sees them once they are bound."""
        claims = self._claims
        if not claims.promised_nodes:
            return False
        view = claims.snapshot()
        row = view.rows.get(node)
        return row is not None and any(one.rows[row] for one in finish(hindrances_of(pod, view)))

    def wake(self) -> None:
        """Touch, once, each that was kept out and that some room would take whose promise has ended."""
        reopened = self._kept_out.take_reopened()
        takes: dict[tuple[Requests, Selection], bool] = {}
        for uid, shown in list(self._kept_out.pods.items()) if reopened else ():
            pod = self._pods.get(uid, shown)
            if pod.node or not pod.live:
                self._kept_out.drop(uid)
                continue
            kind = pod.requests, pod.selection
            if kind not in takes:
                takes[kind] = any(
                    self._claims.fits(node, pod.requests) and self._claims.admits(node, pod.selection)
                    for node in reopened
                )
            if takes[kind]:
                self._kept_out.drop(uid)
                self._outbox.append(Wake(uid, pod.namespace, pod.name))


@dataclass(eq=False)
class Ahead:
    """kube-scheduler chooses their nodes and binds them as ever. Room is kept for ``plan_s`` at most, and on while it
    takes others that were before them in its queue: whoever has not taken it by then is refused for a reason that
    Muster does not know, and is left aside for a while.
    """

    _limits: Limits
    _counts: Counts
    _room: Room
    _claims: Claims
    _singles: WaitingSingles
    _kube_queue: KubeQueue
    _planner: Planner

    def __post_init__(self) -> None:
        self._short: dict[Role, None] = {}
        """Those that the walk has found no room for: none comes free while it lasts."""

    def join(self, line: Line, now: float) -> Steps[None]:
        """Those that there may be room for stand in the line. Where no gang does they are no concern of ours."""
        self._short = {}
        self._singles.line_up()
        if not line.gangs:
            return
        for role, pods in self._singles.roles():
            yield AT_ONCE // 8
            yield from self._claims.snapshot().evaluated(role[1])
            if not self._claims.snapshot().room(role[0], role[1]).any():
                continue
            for at in range(0, len(pods), AT_ONCE):
                for pod in pods[at : at + AT_ONCE]:
                    if not self._singles.rests_at(pod.uid, now):
                        self._join(line, pod)
                yield AT_ONCE

    def _join(self, line: Line, pod: Pod) -> None:
        try:
            line.join(WaitingSingle(pod))
        except PolicyError as error:
            self._counts.blame(error.policy)

    def keep(self, uid: str, now: float) -> Steps[None]:
        """Its turn has come: the room that is kept for it, or that it finds now, is for nobody behind it. Those behind
        it lose what an earlier walk has kept for them there, if that leaves too little.
        """
        pod = self._singles.get(uid)
        if pod is None or self._claims.get(uid) is not None:
            yield _LOOK  # it is bound, or is being bound
            return
        self._singles.take_turn(uid)
        role = shape_of(pod)
        if uid in self._singles.kept or role in self._short:
            yield _LOOK
            return
        try:
            node = yield from self._planner.seat(pod)
        except PolicyError as error:
            self._counts.blame(error.policy)
            return
        if node is None:
            self._short[role] = None
        elif self._singles.get(uid) is pod and self._claims.get(uid) is None:
            self._singles.keep(pod, node, now + self._limits.plan_s)
            self._claims.expect(pod, node)
            self._room.crowd_out(node)

    def lapse(self, now: float) -> None:
        """Give back what was kept for too long."""
        plan_s, queue = self._limits.plan_s, self._kube_queue
        for uid in self._singles.late(now):
            pod = self._singles.get(uid)
            if pod is not None and now < queue.taken_at + plan_s and queue.has_yet_to_try(pod):
                self._singles.keep_on(uid, now + plan_s)
                continue
            node = self._singles.kept[uid].node
            self._room.end_kept(uid)
            self._singles.rest(uid, node, now, plan_s)
