"""Who is next: a line that is asked for one workload after the other, given what has been admitted by then."""

from __future__ import annotations

import heapq

from extender.core.workload import Workload
from policies.api import QueuePolicy, SortKey


class Line:
    """In the order of the queue policy. A half-released gang goes first: it holds room, and only being completed ends
    that. Whoever came first goes first among equals.
    """

    def __init__(self, policy: QueuePolicy) -> None:
        self._policy = policy
        self._heap: list[tuple[bool, SortKey, int, Workload]] = []
        self._came = 0

    def come(self, workload: Workload) -> None:
        """It waits for its turn. Raises PolicyError where the policy cannot say when that is."""
        whole = workload.release.partial_since is None
        self._came += 1
        heapq.heappush(self._heap, (whole, self._policy.order(workload), self._came, workload))

    def next(self) -> Workload | None:
        """Whose turn it is now; None when nobody is left."""
        return heapq.heappop(self._heap)[-1] if self._heap else None
