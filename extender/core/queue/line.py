"""The line: which workload is next, given what has been admitted so far.

Workloads of a ClusterQueue stand in it by the queue policy. Between queues the one that borrows least goes first, or an
order of shares decides. The order is worked out again after each admission, as far as that could have changed it. In a
queue that is StrictFIFO no workload passes the first one that was refused.

Pods without a gang are placed by kube-scheduler. If they come before a gang they stand in the same line, and their room
is kept. Other pods are kept out of room that is promised to gangs.
"""

from __future__ import annotations

import heapq
from collections import Counter
from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from extender.core.causes import QueueOrder
from extender.core.effects import AnswerFilter, Wake
from extender.core.events import FilterCalled
from extender.core.ledger.backfill import Backfills
from extender.core.ledger.claims import Claims, Owner
from extender.core.ledger.creation import FailedCreation
from extender.core.ledger.devices import Devices
from extender.core.ledger.kube_scheduler import ROOM_RESERVED, KubeQueue
from extender.core.ledger.pending import Amounts, Entry, Own, Pending, Turn, Turns, put_off
from extender.core.ledger.preemptions import Preemptions, key_of, room_of
from extender.core.ledger.queues import QueueSnapshot
from extender.core.ledger.quotas import Quotas
from extender.core.ledger.room import Room
from extender.core.ledger.singles import BlockedSinglePods, WaitingSingle, WaitingSingles
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
from policies.steps import AT_ONCE, Steps, batched, finish


class Line:
    """All waiting workloads and single pods, in the order of ``Turns``.

    A partly released gang goes first: it holds room until it is completed. Among equals the first to come goes first.
    ``queues`` decides between workloads of ClusterQueues.
    """

    def __init__(self, turns: Turns, queues: QueueLines) -> None:
        self._turns = turns
        self._queues = queues
        self._heap: list[tuple[bool, Turn, int, Workload | WaitingSingle]] = []
        self._came = 0
        self.gangs = 0

    def add(self, workload: Workload, number: int, queue: str = "") -> None:
        """Add a workload, in its ClusterQueue if it has one. ``number``: unique, the lower the sooner.

        Raises PolicyError if the policy cannot say when its turn is.
        """
        if workload.release.partial_since is not None:
            queue = ""
        place, turn = self._turns.both(workload, self._queues.object_of(queue) if queue else None)
        self.add_entry((place, number, turn, workload), queue)

    def add_entry(self, entry: Entry, queue: str = "") -> None:
        """Add a workload whose turn is known, in its ClusterQueue if it has one."""
        if queue:
            self._queues.add(queue, entry)
        else:
            _, _, turn, workload = entry
            self._put(workload, turn, whole=workload.release.partial_since is None)
        self.gangs += 1

    def add_all(self, queue: str, entries: Sequence[Entry], waits_for: Amounts) -> None:
        """Add workloads of one ClusterQueue. ``waits_for``: the quota that they lack, as far as is known."""
        self._queues.add_all(queue, entries, waits_for)
        self.gangs += len(entries)

    def add_single(self, single: WaitingSingle) -> None:
        """Add a pod without a gang."""
        self._put(single, self._turns.of(single), whole=True)

    def next(self) -> Workload | WaitingSingle | None:
        """Remove and return the workload or single pod whose turn it is; None when no gang is left."""
        if not self.gangs:
            return None
        queued = self._queues.first()
        if queued is not None and (not self._heap or (True, queued) < self._heap[0][:2]):
            self.gangs -= 1
            return self._queues.pop()
        item = heapq.heappop(self._heap)[-1]
        self.gangs -= isinstance(item, Workload)
        return item

    def postpone(self, workload: Workload, usage: Usage, level: int) -> bool:
        """Push a workload back, as ``QueueLines.postpone`` does."""
        postponed = self._queues.postpone(workload, usage, level)
        self.gangs += postponed
        return postponed

    def has_postponed(self, workload: Workload) -> bool:
        """Whether the workload was pushed back and has another turn."""
        return workload.key in self._queues.postponed

    def rest_of(self, queue: str) -> Iterator[Workload]:
        """Remove all other workloads of that queue, in their order."""
        for workload in self._queues.drain(queue):
            self.gangs -= 1
            yield workload

    def drop_lacking(self, queue: str, waits_for: Amounts | None) -> None:
        """Remove all other workloads of that queue that wait for the same quota, which is not there."""
        self.gangs -= self._queues.drop_lacking(queue, waits_for)

    def _put(self, item: Workload | WaitingSingle, turn: Turn, *, whole: bool) -> None:
        self._came += 1
        heapq.heappush(self._heap, (whole, turn, self._came, item))


Assign = Callable[[Workload], Assignment | None]
"""The assignment that a workload would get by quota alone; None if it is of no use."""


@dataclass(slots=True)
class _Queue:
    """The workloads of one ClusterQueue.

    ``line``: the workloads, in their order.
    ``after``: the fixed part of the queue's place, the lower the sooner.
    ``version``: the version of the quota that the next two fields are right for.
    ``level``: the distance from which its first workload borrows.
    ``head``: the quota that this one would use; None if there is not enough.
    """

    name: str
    line: LocalTurns
    after: int
    version: int = -1
    level: int = 0
    head: Head | None = None

    @property
    def place(self) -> tuple[int, int]:
        """The queue's place whatever quota is used. A queue whose first workload is put off comes after all others."""
        return self.line.first[0][0], self.after


@dataclass(eq=False)
class QueueLines:
    """The waiting workloads of all ClusterQueues, for one pass.

    ``pop`` takes the workload that ``first`` has found.
    ``_snapshot``: the queues, and how much of their quota is used: now, or at an instant that is foreseen.
    ``_version``: a number that changes with that use.
    ``_rank_of``: the order of shares between queues, asked for once all have come; None if shares do not count.
    """

    _quotas: Quotas
    _snapshot: QueueSnapshot
    _version: Callable[[], int]
    _assign: Assign
    _rank_of: Callable[[], Rank] | None = None

    def __post_init__(self) -> None:
        self._rank: Rank | None = None
        self._queues: dict[str, _Queue] = {}
        self._renewed: dict[str, _Queue] = {}
        """Queues whose first workload may have changed."""
        self._next: list[tuple[int, int, int, Turn, int, str]] = []
        self._came = 0
        self._last_turn: tuple[_Queue, Entry, bool] | None = None
        """The last turn: its queue, its entry, and whether it had been pushed back."""
        self.postponed: dict[GroupKey, Head] = {}
        """Workloads that were pushed back, with the quota that they will use."""

    def object_of(self, queue: str) -> ClusterQueue:
        """The ClusterQueue of that name."""
        return self._snapshot.queues[queue]

    def add(self, queue: str, entry: Entry) -> None:
        """Add a workload to that ClusterQueue."""
        self._line_of(queue).push(entry, None)

    def add_all(self, queue: str, entries: Sequence[Entry], waits_for: Amounts) -> None:
        """Add workloads that lack the same quota to that ClusterQueue."""
        self._line_of(queue).push_all(entries, waits_for)

    def first(self) -> Turn | None:
        """The turn of the next workload; None if no workload is left."""
        queue = self._best()
        return None if queue is None else queue.line.first[2]

    def pop(self) -> Workload:
        """Remove and return the next workload. Raises LookupError if there is none."""
        queue = self._best()
        if queue is None:
            raise LookupError("nobody waits in a queue")
        entry = queue.line.first
        self._renewed[queue.name] = queue
        self._last_turn = queue, entry, self.postponed.pop(entry[-1].key, None) is not None
        return queue.line.pop()

    def postpone(self, workload: Workload, usage: Usage, level: int) -> bool:
        """Push a workload back after its turn, unless it would be next again. Returns whether it was pushed back.

        It was next by the assignment that it would get by quota alone. It would really use ``usage`` and borrow from
        ``level``, since it evicts others, or its first flavors have no nodes. That usage decides when it is next.
        """
        if self._last_turn is None or self._last_turn[1][-1] is not workload:
            return False
        queue, entry, again = self._last_turn
        by_share = self._rank_of is not None and not again
        is_it = (queue.head is not None and queue.head.usage == usage) if by_share else level <= queue.level
        if is_it or not any(other.line for other in self._queues.values() if other is not queue):
            return False
        self.postponed[workload.key] = _head(queue, workload, usage, level)
        queue.line.push(entry, None)
        return True

    def drain(self, queue: str) -> Iterator[Workload]:
        """Remove all other workloads of that queue, in their order."""
        if queue in self._queues:
            yield from self._queues[queue].line.drain()

    def drop_lacking(self, queue: str, waits_for: Amounts | None) -> int:
        """Remove all other workloads of that queue that wait for the same quota. Returns how many."""
        if (known := self._queues.get(queue)) is None:
            return 0
        self._renewed[queue] = known
        return known.line.drop_lacking(waits_for)

    def _line_of(self, queue: str) -> LocalTurns:
        """The line of a queue to add workloads to. Its first one may change by that."""
        if (known := self._queues.get(queue)) is None:
            settings = self.object_of(queue)
            line = LocalTurns(self._quotas if settings.by_past_usage else None)
            known = self._queues[queue] = _Queue(queue, line, -settings.priority)
        self._renewed[queue] = known
        return known.line

    def _best(self) -> _Queue | None:
        for queue in self._renewed.values():
            queue.version = -1
            self._put(queue, 0)
        self._renewed.clear()
        return self._nearest() if self._rank_of is None else self._fairest(self._rank_of)

    def _nearest(self) -> _Queue | None:
        """The queue whose first workload borrows least.

        Admissions only raise a queue's level, so stored levels are lower bounds. A queue whose level has not risen when
        it is worked out again is the minimum.
        """
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
        """The queue that is next by shares. Workloads without quota go first: they are refused and block no other."""
        waiting = [queue for queue in self._queues.values() if queue.line]
        soonest = min((queue.place for queue in waiting), default=None)
        queues = [queue for queue in waiting if queue.place == soonest]
        for queue in queues:
            self._look(queue)
            if queue.head is None:
                return queue
        heads = {queue.name: queue.head for queue in queues if queue.head is not None}
        if not heads:
            return None
        self._rank = self._rank or rank_of()
        head = fairest(self._snapshot.tree, heads, self._rank)
        return None if head is None else self._queues[head.queue]

    def _look(self, queue: _Queue) -> None:
        if queue.version == (version := self._version()):
            return
        workload = queue.line.first[-1]
        queue.version, queue.head = version, self.postponed.get(workload.key)
        if queue.head is None:
            assignment = self._assign(workload)
            if assignment is not None and assignment.fit is Fit.FITS:
                queue.head = _head(queue, workload, assignment.usage, assignment.level)
        queue.level = 0 if queue.head is None else queue.head.level

    def _put(self, queue: _Queue, level: int) -> None:
        if queue.line:
            turn = queue.line.first[2]
            self._came += 1
            heapq.heappush(self._next, (turn[0], queue.after, level, turn, self._came, queue.name))


def _head(queue: _Queue, workload: Workload, usage: Usage, level: int) -> Head:
    return Head(queue.name, usage, workload.priority, workload.created, str(workload.key), level)


def requested(workloads: Mapping[GroupKey, Workload], quotas: Quotas, pending: Pending) -> Requested:
    """The requests of each queue by resource: what it uses, and what its plannable waiting workloads ask for."""
    totals: dict[str, Counter[str]] = {}
    for name, node in quotas.queues.snapshot.tree.queues.items():
        total = totals[name] = Counter[str]()
        for (_, resource), amount in node.used.items():
            total[resource] += amount
        for key in quotas.members.of(name):
            demand = workloads[key].current_demand if key in pending.keys else None
            for (requests, *_), count in demand.shape.roles if demand is not None and demand.shape is not None else ():
                for resource, amount in requests:
                    total[resource] += amount * count
    return totals


LineKey = tuple[str, str, Amounts | None]
"""Namespace and name of a LocalQueue, both empty if past usage does not count, and the quota that is waited for."""


class LocalTurns:
    """The workloads of one ClusterQueue, by LocalQueue and by the quota that they lack.

    ``quotas``: tell the past usage of LocalQueues; None if it does not count. The first workload stays first until
    another comes or it is taken, whatever is used meanwhile.
    """

    def __init__(self, quotas: Quotas | None) -> None:
        self._quotas = quotas
        self._lines: dict[LineKey, list[Entry]] = {}
        self._chosen: LineKey | None = None

    def __bool__(self) -> bool:
        return bool(self._lines)

    def push(self, entry: Entry, waits_for: Amounts | None) -> None:
        """Add a workload. ``waits_for``: the quota that it lacks, as far as is known."""
        line_key: LineKey = "", "", waits_for
        if self._quotas is not None:
            key = entry[-1].key
            line_key = key.namespace, self._quotas.local_of(key), waits_for
        heapq.heappush(self._lines.setdefault(line_key, []), entry)
        self._chosen = None

    def push_all(self, entries: Sequence[Entry], waits_for: Amounts) -> None:
        """Add workloads that lack the same quota."""
        if self._quotas is not None:
            for entry in entries:
                self.push(entry, waits_for)
            return
        line = self._lines.setdefault(("", "", waits_for), [])
        for entry in entries:
            heapq.heappush(line, entry)
        self._chosen = None

    @property
    def first(self) -> Entry:
        """The first workload. Raises LookupError if there is none."""
        return self._lines[self._first()][0]

    def pop(self) -> Workload:
        """Remove and return the first workload."""
        line_key = self._first()
        workload = heapq.heappop(self._lines[line_key])[-1]
        if not self._lines[line_key]:
            del self._lines[line_key]
        self._chosen = None
        return workload

    def drop_lacking(self, waits_for: Amounts | None) -> int:
        """Remove the workloads that wait for that quota, if it is known. Returns how many."""
        self._chosen = None
        gone = [line_key for line_key in self._lines if line_key[-1] == waits_for is not None]
        return sum(len(self._lines.pop(line_key)) for line_key in gone)

    def drain(self) -> Iterator[Workload]:
        while self._lines:
            yield self.pop()

    def _first(self) -> LineKey:
        if self._chosen is None:
            if not self._lines:
                raise LookupError("nobody waits in the queue")
            self._chosen = min(self._lines, key=self._rank)
        return self._chosen

    def _rank(self, line_key: LineKey) -> tuple[int, float, tuple[Turn, int]]:
        past, first = 0.0 if self._quotas is None else self._quotas.past.value(line_key[:2]), self._lines[line_key][0]
        return first[0][0], past, first[:2]


@dataclass(frozen=True, slots=True)
class HeldUp:
    """The reason why the other workloads of a queue wait: its first one does."""

    queue: str
    first: GroupKey
    cause: QueueOrder


@dataclass(eq=False)
class StrictOrder:
    """StrictFIFO queues. ``first``: for each of them the workload that the others wait for."""

    _workloads: Mapping[GroupKey, Workload]
    _quotas: Quotas
    _preemptions: Preemptions
    _backfills: Backfills
    _pending: Pending
    _turns: Turns

    def __post_init__(self) -> None:
        self.first: dict[str, HeldUp] = {}

    def record_turn(self, workload: Workload, now: float) -> Steps[HeldUp | None]:
        """Record that a workload had its turn. Returns the new order if it still waits and its queue is StrictFIFO."""
        queue = self._quotas.queue_of(workload.key)
        if queue is None or queue.strategy is not Strategy.STRICT:
            return None
        demand, known = workload.current_demand, self.first.get(queue.name)
        plannable = demand is None or demand.shape is not None
        if not plannable or workload.has_promised_quorum or now < workload.retries.not_before:
            if known is not None and known.first == workload.key:
                yield from self.reset(queue.name)
            return None
        if self.held_up(workload) is None and (known is None or known.first != workload.key):
            new = self.first[queue.name] = HeldUp(queue.name, workload.key, QueueOrder(workload.key, queue.title))
            if known is not None:
                yield from self._wake_all(queue.name, but=workload.key)  # each has to name the new first one
            return new
        return known

    def held_up(self, workload: Workload) -> QueueOrder | None:
        """Why the workload waits if an earlier one waits and its queue is StrictFIFO; else None."""
        known = self.first.get(self._quotas.members.queue_of(workload.key) or "")
        first = self._workloads.get(known.first) if known is not None else None
        if known is None or first is None or first is workload or known.first not in self._pending.keys:
            return None
        try:
            return known.cause if self._place(first) < self._place(workload) else None
        except PolicyError:
            return None

    def waits_behind(self, workload: Workload) -> QueueOrder | None:
        """Why the workload waits behind the first of its StrictFIFO queue; None if it need not."""
        why = self.held_up(workload)
        return None if why is None or self.has_had_turn(workload, why.first) else why

    def has_had_turn(self, workload: Workload, first: GroupKey) -> bool:
        """Whether the workload has had its turn, and need not wait behind the ``first`` of its queue.

        It has quota without nodes, victims are evicted for it, or room is reserved for it or its lost members. The
        first of a higher priority goes before a workload that has a reservation.
        """
        if workload.resumes or workload.key in self._preemptions.under_way or self._quotas.has_own(workload.key):
            return True
        reservation, other = self._backfills.of.get(workload.key), self._workloads.get(first)
        return reservation is not None and (other is None or other.priority <= reservation.priority)

    def forget(self, queues: Container[str] | None) -> None:
        """Forget which workloads those of these queues wait for; None for all queues. The caller wakes them."""
        self.first = {
            name: held_up for name, held_up in self.first.items() if queues is not None and name not in queues
        }

    def reset(self, queue: str) -> Steps[None]:
        """Forget which workload the others of a queue wait for. Each of them is looked at again."""
        self.first.pop(queue, None)
        yield from self._wake_all(queue)

    def _wake_all(self, queue: str, but: GroupKey | None = None) -> Steps[None]:
        """Wake the workloads of a queue, but one, batch by batch: any number may wait."""
        for keys in batched([*self._quotas.members.of(queue)]):
            for key in keys:
                if key != but:
                    self._pending.wake(Own(key))
            yield len(keys) // 4

    def _place(self, workload: Workload) -> tuple[int, float, SortKey]:
        put_off, order = self._turns.within(workload, self._quotas.queue_of(workload.key))
        return put_off, self._quotas.past_of(workload.key), order


def others_wait(
    workloads: Mapping[GroupKey, Workload],
    failed_creation: FailedCreation,
    pending: Pending,
    blocked_singles: BlockedSinglePods,
    workload: Workload,
    now: float,
) -> bool:
    """Whether a workload or single pod of another namespace waits whose turn is before that of put-off workloads."""
    return any(
        namespace != workload.key.namespace
        for namespace in in_need(workloads, failed_creation, pending, blocked_singles, now)
    )


def in_need(
    workloads: Mapping[GroupKey, Workload],
    failed_creation: FailedCreation,
    pending: Pending,
    blocked_singles: BlockedSinglePods,
    now: float,
) -> Iterator[str]:
    """The namespaces of waiting workloads that are not put off, and of single pods that promised room keeps out."""
    for pod in blocked_singles.pods.values():
        yield pod.namespace
    for key in pending.keys:
        waits = workloads[key]
        plannable = waits.demand is None or waits.demand.shape is not None
        if plannable and now >= waits.retries.not_before and not put_off(failed_creation, waits):
            yield key.namespace


_LOOK = 2


@dataclass(eq=False)
class Singles:
    """Keeps single pods out of promised room, and wakes them when a promise of such room ends."""

    _pods: Mapping[str, Pod]
    _outbox: Outbox
    _claims: Claims
    _preemptions: Preemptions
    _backfills: Backfills
    _devices: Devices
    _singles: WaitingSingles
    _blocked_singles: BlockedSinglePods

    def filter(self, event: FilterCalled, pod: Pod, now: float) -> None:
        """Answer a filter call: accept each node with room beside what is promised. kube-scheduler checks all else.

        kube-scheduler may see reserved room become free earlier than Muster does.
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
            and (own is None or self._preemptions.blocks(pod, node, open_to))
        }
        if refused:
            self._blocked_singles.add(pod)
            self._singles.wake(pod.uid)
        passed = tuple(node for node in event.candidates if node not in refused)
        self._outbox.append(AnswerFilter(event.call, passed, tuple(refused), ROOM_RESERVED))

    def may_preempt(self, pod: Pod, node: str, victims: Iterable[Owner], *, surely: bool = False) -> bool:
        """Whether the pod fits on the node, beside what is promised, once the victims are gone.

        Evicting them is useless if ``filter`` rejects the pod, or if another preemptor gets their room. If nothing is
        promised to others, kube-scheduler decides about room, unless the pod has to fit ``surely``.
        """
        claims, preemptions = self._claims, self._preemptions
        if not preemptions.pods.isdisjoint(uids := (pod.uid, *victims)):
            return False
        leaving: dict[Owner, None] = dict.fromkeys((*uids, room_of(key_of(pod), node)))
        unpromised = not surely and claims.promised_nodes.get(node, {}).keys() <= leaving.keys()
        return (unpromised or self._has_room(pod, node, leaving)) and not self._is_blocked(pod, node)

    def _has_room(self, pod: Pod, node: str, leaving: Iterable[Owner]) -> bool:
        claims = self._claims
        room = claims.room(node)
        for owner in leaving:
            if (claim := claims.get(owner)) is not None and claim.node == node:
                room |= {name: room.get(name, 0) + amount for name, amount in claim.requests}
        return all(room.get(name, 0) >= amount for name, amount in pod.requests if amount)

    def _is_blocked(self, pod: Pod, node: str) -> bool:
        """Whether ports or anti-affinity of a pod that stays keep the pod away.

        Only this check sees promised members: kube-scheduler sees them once they are bound.
        """
        claims = self._claims
        if not claims.promised_nodes:
            return False
        view = claims.snapshot()
        row = view.rows.get(node)
        return row is not None and any(obstacle.rows[row] for obstacle in finish(hindrances_of(pod, view)))

    def wake(self) -> None:
        """Wake each pod, once, that was kept out and that fits into room whose promise has ended."""
        reopened = self._blocked_singles.take_reopened()
        takes: dict[tuple[Requests, Selection], bool] = {}
        for uid, shown in list(self._blocked_singles.pods.items()) if reopened else ():
            pod = self._pods.get(uid, shown)
            if pod.node or not pod.live:
                self._blocked_singles.drop(uid)
                continue
            kind = pod.requests, pod.selection
            if kind not in takes:
                takes[kind] = any(
                    self._claims.fits(node, pod.requests) and self._claims.admits(node, pod.selection)
                    for node in reopened
                )
            if takes[kind]:
                self._blocked_singles.drop(uid)
                self._outbox.append(Wake(uid, pod.namespace, pod.name))


@dataclass(eq=False)
class SinglePodReservations:
    """Keeps room for single pods that come before a gang. kube-scheduler chooses their nodes and binds them.

    Room is kept for ``plan_s``, and longer while kube-scheduler takes earlier pods of its queue. A pod that has not
    taken it in that time is refused for a reason that Muster does not know, and is ignored for a while.
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
        """Roles that this walk has found no room for: none becomes free while it lasts."""

    def add_to_line(self, line: Line, now: float) -> Steps[None]:
        """Add the single pods that there may be room for to the line. Without a gang in it they need no room kept."""
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
                        self._add_to_line(line, pod)
                yield AT_ONCE

    def _add_to_line(self, line: Line, pod: Pod) -> None:
        try:
            line.add_single(WaitingSingle(pod))
        except PolicyError as error:
            self._counts.blame(error.policy)

    def reserve(self, uid: str, now: float) -> Steps[None]:
        """Keep room for the single pod whose turn it is: what was kept for it, or what it finds now.

        Pods behind it lose what an earlier walk kept for them there, if that leaves too little.
        """
        pod = self._singles.get(uid)
        if pod is None or self._claims.get(uid) is not None:
            yield _LOOK  # the pod is bound, or is being bound
            return
        self._singles.take_turn(uid)
        role = shape_of(pod)
        if uid in self._singles.reserved or role in self._short:
            yield _LOOK
            return
        try:
            node = yield from self._planner.plan_single(pod)
        except PolicyError as error:
            self._counts.blame(error.policy)
            return
        if node is None:
            self._short[role] = None
        elif self._singles.get(uid) is pod and self._claims.get(uid) is None:
            self._singles.reserve(pod, node, now + self._limits.plan_s)
            self._claims.expect(pod, node)
            self._room.drop_displaced(node)

    def lapse(self, now: float) -> None:
        """Give up room that was kept for too long."""
        plan_s, queue = self._limits.plan_s, self._kube_queue
        for uid in self._singles.late(now):
            pod = self._singles.get(uid)
            if pod is not None and now < queue.new_pod_at + plan_s and queue.has_yet_to_try(pod):
                self._singles.extend(uid, now + plan_s)
                continue
            node = self._singles.reserved[uid].node
            self._room.unreserve_single(uid)
            self._singles.rest(uid, node, now, plan_s)
