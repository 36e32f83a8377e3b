"""Processes that sleep on a virtual clock, alone or in line."""

from __future__ import annotations

from collections import deque
from collections.abc import Generator
from itertools import count
from typing import TypeVar

from extender.simulation.clock import Action, Clock, Timer

ResultT = TypeVar("ResultT")
Process = Generator[float, None, ResultT]
"""A process in virtual time: each ``yield`` sleeps that many seconds."""


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


def spawn(clock: Clock, process: Process[object], done: Action | None = None) -> Task:
    """Start a process; its first step happens before this returns."""
    task = Task(clock, process, done)
    task.go_on()
    return task


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
