"""Virtual time: a heap of timed actions, and processes that sleep on it. Nothing here knows the wall clock."""

from __future__ import annotations

import heapq
from collections import deque
from collections.abc import Callable, Generator
from itertools import count
from typing import TypeVar

ResultT = TypeVar("ResultT")
Process = Generator[float, None, ResultT]
"""Something that goes on in time: each ``yield`` sleeps that many seconds."""

Action = Callable[[], object]


class Timer:
    """An action that has yet to happen."""

    __slots__ = ("action",)

    def __init__(self, action: Action) -> None:
        self.action: Action | None = action

    def cancel(self) -> None:
        self.action = None


class Task:
    """A process under way; ``done`` is called when it has ended by itself."""

    __slots__ = ("_clock", "_done", "_process", "_timer")

    def __init__(self, clock: Clock, process: Process[object], done: Action | None) -> None:
        self._clock = clock
        self._process = process
        self._done = done
        self._timer: Timer | None = None

    def cancel(self) -> None:
        """Stop it where it is, as a process that is killed."""
        if self._timer is not None:
            self._timer.cancel()
        self._process.close()

    def go_on(self) -> None:
        try:
            delay_s = next(self._process)
        except StopIteration:
            if self._done is not None:
                self._done()
            return
        self._timer = self._clock.after(delay_s, self.go_on)


class Clock:
    """``now`` is in seconds. Actions of one instant happen in the order in which they were asked for."""

    def __init__(self, now: float = 0.0) -> None:
        self.now = now
        self._heap: list[tuple[float, int, Timer]] = []
        self._numbers = count()

    def at(self, when: float, action: Action) -> Timer:
        """Have it happen at that instant, or now if that is past."""
        timer = Timer(action)
        heapq.heappush(self._heap, (max(when, self.now), next(self._numbers), timer))
        return timer

    def after(self, delay_s: float, action: Action) -> Timer:
        return self.at(self.now + delay_s, action)

    def spawn(self, process: Process[object], done: Action | None = None) -> Task:
        """Start a process; its first step happens before this returns."""
        task = Task(self, process, done)
        task.go_on()
        return task

    def step(self, until: float) -> bool:
        """Let the next action happen, if it is due by ``until``; False if none is."""
        heap = self._heap
        while heap and heap[0][0] <= until:
            when, _, timer = heapq.heappop(heap)
            if timer.action is not None:
                self.now = when
                timer.action()
                return True
        return False

    def run(self, until: float) -> None:
        """Let everything happen up to that instant, which is ``now`` afterwards."""
        while self.step(until):
            pass
        self.now = max(self.now, until)


class Lane:
    """Processes in line: at most ``width`` of them are under way at once."""

    def __init__(self, clock: Clock, width: int) -> None:
        self._clock = clock
        self._width = width
        self._line: deque[Process[object]] = deque()
        self._tasks: dict[int, Task] = {}
        self._numbers = count()

    def submit(self, process: Process[object]) -> None:
        self._line.append(process)
        self._start()

    def cancel(self) -> None:
        """Stop everything under way and in line."""
        for process in self._line:
            process.close()
        self._line.clear()
        tasks, self._tasks = self._tasks, {}
        for task in tasks.values():
            task.cancel()

    def _start(self) -> None:
        while self._line and len(self._tasks) < self._width:
            number = next(self._numbers)
            task = Task(self._clock, self._line.popleft(), lambda number=number: self._ended(number))  # type: ignore[misc]
            self._tasks[number] = task
            task.go_on()

    def _ended(self, number: int) -> None:
        if self._tasks.pop(number, None) is not None:
            self._start()
