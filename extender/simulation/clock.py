"""Virtual time: a heap of timed actions. Nothing here reads the wall clock."""

from __future__ import annotations

import heapq
from collections.abc import Callable
from itertools import count

Action = Callable[[], object]


class Timer:
    """An action that has yet to happen."""

    __slots__ = ("action",)

    def __init__(self, action: Action) -> None:
        self.action: Action | None = action

    def cancel(self) -> None:
        self.action = None


class Clock:
    """Virtual time in seconds. Actions of one instant run in the order in which they were scheduled."""

    def __init__(self, now: float = 0.0) -> None:
        self.now = now
        self._heap: list[tuple[float, int, Timer]] = []
        self._numbers = count()

    def at(self, when: float, action: Action) -> Timer:
        """Schedule the action for that instant, or for now if that is past."""
        timer = Timer(action)
        heapq.heappush(self._heap, (max(when, self.now), next(self._numbers), timer))
        return timer

    def after(self, delay_s: float, action: Action) -> Timer:
        return self.at(self.now + delay_s, action)

    def step(self, until: float) -> bool:
        """Run the next action if it is due by ``until``; False if none is."""
        heap = self._heap
        while heap and heap[0][0] <= until:
            when, _, timer = heapq.heappop(heap)
            if timer.action is not None:
                self.now = when
                timer.action()
                return True
        return False

    def run(self, until: float) -> None:
        """Run all actions up to that instant, which is ``now`` afterwards."""
        while self.step(until):
            pass
        self.now = max(self.now, until)
