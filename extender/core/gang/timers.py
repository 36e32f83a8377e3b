"""When which workload is to be looked at again: one instant for each. Whoever is woken too early sets the next."""

from __future__ import annotations

import heapq

from policies.model import GroupKey

_AT_ONCE = 256


class Timers:
    """A heap with at most two entries for each workload that has a timer."""

    def __init__(self) -> None:
        self._next: dict[GroupKey, float] = {}
        self._heap: list[tuple[float, GroupKey]] = []

    def set(self, key: GroupKey, at: float) -> None:
        """Have it looked at no later than that."""
        known = self._next.get(key)
        if known is not None and known <= at:
            return
        self._next[key] = at
        if len(self._heap) > 2 * len(self._next) + 64:
            self._heap = [(instant, whose) for whose, instant in self._next.items()]
            heapq.heapify(self._heap)
        else:
            heapq.heappush(self._heap, (at, key))

    def due(self, now: float) -> list[GroupKey]:
        """Who is to be looked at by now; not all at once if they are many."""
        found: list[GroupKey] = []
        while self._heap and self._heap[0][0] <= now and len(found) < _AT_ONCE:
            at, key = heapq.heappop(self._heap)
            if self._next.get(key) == at:
                del self._next[key]
                found.append(key)
        return found

    def first(self) -> float | None:
        """The instant of the next one."""
        while self._heap and self._next.get(self._heap[0][1]) != self._heap[0][0]:
            heapq.heappop(self._heap)
        return self._heap[0][0] if self._heap else None

    def __len__(self) -> int:
        return len(self._heap)
