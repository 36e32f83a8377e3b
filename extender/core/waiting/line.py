"""Who is next: a line that is asked for one after the other, given what has been admitted by then."""

from __future__ import annotations

import heapq
from collections.abc import Iterator, Sequence

from extender.core.quota.lines import QueueLines
from extender.core.singles.waiting import WaitingSingle
from extender.core.waiting.shortfalls import Amounts
from extender.core.waiting.turns import Turns
from extender.core.waiting.waiting import Entry, Turn
from extender.core.workload import Workload
from policies.model.queues import Usage


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
            self._queues.come(queue, (self._turns.of(workload), number, workload))
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
