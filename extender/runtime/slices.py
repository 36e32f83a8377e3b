"""Long work on the event loop in slices: between two of them kube-scheduler's calls are answered.

A thread would delay them by more: it gives up the interpreter every 5 ms, and inside one call into C not at all.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from typing import TypeVar

from policies.steps import Steps

T = TypeVar("T")

SLICE_S = 0.001
"""Processor time of a slice."""


class StoppedError(Exception):
    """The work was stopped before its end."""


class Slices:
    """Runs steps. After each slice as much time is left to other work.

    ``pausing``: called before each pause.
    ``spent_s``: the processor time so far.
    """

    def __init__(self, pausing: Callable[[], object] = lambda: None) -> None:
        self._pausing = pausing
        self.spent_s = 0.0

    async def run(self, steps: Steps[T], goes_on: Callable[[], bool] = lambda: True) -> T:
        """Return the result of the steps. Raises StoppedError once ``goes_on`` says no after a pause."""
        while True:
            began = time.thread_time()
            try:
                next(steps)
                while time.thread_time() - began < SLICE_S:
                    next(steps)
            except StopIteration as end:
                result: T = end.value
                return result
            finally:
                slice_s = time.thread_time() - began
                self.spent_s += slice_s
            self._pausing()
            await asyncio.sleep(slice_s)
            if not goes_on():
                steps.close()
                raise StoppedError
