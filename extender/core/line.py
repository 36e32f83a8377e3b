"""Who is next: a line that is asked for one after the other, given what has been admitted by then."""

from __future__ import annotations

import heapq

from extender.core.waiting_singles import WaitingSingle
from extender.core.workload import Workload
from policies.api import QueuePolicy, SortKey


class Line:
    """In the order of the queue policy. A half-released gang goes first: it holds room, and only being completed ends
    that. Whoever came first goes first among equals.
    """

    def __init__(self, policy: QueuePolicy) -> None:
        self._policy = policy
        self._heap: list[tuple[bool, SortKey, int, Workload | WaitingSingle]] = []
        self._came = 0
        self.gangs = 0

    def come(self, workload: Workload) -> None:
        """It waits for its turn. Raises PolicyError where the policy cannot say when that is."""
        self._put(workload, whole=workload.release.partial_since is None)
        self.gangs += 1

    def join(self, single: WaitingSingle) -> None:
        """So does a pod of no gang."""
        self._put(single, whole=True)

    def next(self) -> Workload | WaitingSingle | None:
        """Whose turn it is now; None when no gang is left."""
        if not self.gangs:
            return None
        found = heapq.heappop(self._heap)[-1]
        self.gangs -= isinstance(found, Workload)
        return found

    def _put(self, one: Workload | WaitingSingle, *, whole: bool) -> None:
        self._came += 1
        heapq.heappush(self._heap, (whole, self._policy.order(one), self._came, one))
