"""Who is next among the workloads of queues: in each queue by the queue policy, between queues by who need not borrow,
or by an order of shares. It is worked out anew after each admission, as far as that could have changed it.
"""

from __future__ import annotations

import heapq
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from extender.core.quota.quotas import Quotas
from extender.core.state import State
from extender.core.waiting.shortfalls import Amounts
from extender.core.waiting.waiting import Entry, Turn
from extender.core.workload import Workload
from policies.model import GroupKey
from policies.model.queues import Usage
from policies.quota.flavors import Assignment, Fit
from policies.quota.shares import Head, Rank, Requested, fairest

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


class QueueLines:
    """For one pass. Whoever was found to be next by ``first`` is taken by ``pop``. ``rank_of``: the order of shares
    between queues, asked for when all have come; None where there is none."""

    def __init__(self, quotas: Quotas, assign: Assign, rank_of: Callable[[], Rank] | None = None) -> None:
        self._quotas = quotas
        self._assign = assign
        self._rank_of = rank_of
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

    def come(self, queue: str, entry: Entry) -> None:
        """It waits for its turn in that ClusterQueue."""
        self._line_of(queue).push(entry, None)

    def take(self, queue: str, entries: Sequence[Entry], waits_for: Amounts) -> None:
        """So do all of these, for so much of its quota."""
        self._line_of(queue).take(entries, waits_for)

    def first(self) -> Turn | None:
        """The turn of the one whose turn it is; None if nobody is left."""
        queue = self._best()
        return None if queue is None else queue.line.first[0]

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
            said = self._quotas.queues.picture.queues[queue]
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
            if not queue.line or queue.line.first[0] != turn:
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
            turn = queue.line.first[0]
            self._came += 1
            heapq.heappush(self._next, (turn[0], queue.after, level, turn, self._came, queue.name))


def _head(queue: _Queue, workload: Workload, usage: Usage, level: int) -> Head:
    return Head(queue.name, usage, workload.priority, workload.created, str(workload.key), level)


def requested(state: State) -> Requested:
    """Who is not known to be plannable asks for nothing."""
    found: dict[str, Counter[str]] = {}
    for name, node in state.quotas.queues.picture.tree.queues.items():
        total = found[name] = Counter[str]()
        for (_, resource), amount in node.used.items():
            total[resource] += amount
        for key in state.quotas.members.of(name):
            demand = state.workloads[key].asked if key in state.waiting.keys else None
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
