"""Find drift: build a second core from the objects that the running one was shown, and compare the two.

Pure: ``Verifier`` and the simulator run the same check. It takes small steps, and the running core works in between.
The second core writes nothing: its effects are dropped.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from extender.core.engine import Engine
from extender.core.events import CapacityServed, Event, Paused, Synced, Tick
from extender.runtime.compare import Comparison, Difference, Moment

AGAIN_S = 30.0
"""Seconds after which a second check must find the same difference for it to count."""
SLICE_UNITS = 25
"""The length of the second core's slices, in units of ``Limits.slice_units``; it has no time limit."""
_SETTLES_S = 1.0
"""The second core runs cycles due within that many seconds of its own clock."""


class Check:
    """A check of the running core, as of the instant at which this is made.

    ``objects``: the events of each existing object that the running core was shown, in the order of a start.
    ``fresh``: a core without any state; it is taken apart at the end.
    """

    def __init__(self, running: Engine, fresh: Engine, objects: Iterable[Event], now: float) -> None:
        self._running = running
        self._fresh = fresh
        self._objects = objects
        self._now = now
        self.comparison = Comparison(running, fresh, Moment.of(running, now))
        self._done = 0

    @property
    def progress(self) -> float:
        """The share that is done, roughly: each object is read, compared and freed."""
        known = self._running.state
        return min(0.99, self._done / (4.0 * (1 + len(known.pods) + len(known.claims.nodes))))

    def steps(self) -> Iterator[None]:
        """Build the second core, compare, and free it."""
        for _ in self._walk():
            self._done += 1
            yield

    def _walk(self) -> Iterator[None]:
        fresh, now = self._fresh, self._now
        for event in self._objects:
            fresh.handle(event, now)
            yield
        yield from self._carry_over()
        ends = now + _SETTLES_S
        while (cycle := fresh.next_cycle()) is not None and cycle <= ends:
            now = max(now, cycle)
            fresh.handle(Tick(), now)
            yield
        yield from self.comparison.steps()
        yield from fresh.state.take_apart()

    def _carry_over(self) -> Iterator[None]:
        """Have the second core learn what no object shows of the running core's state, and decides as well."""
        running, fresh, now = self._running.state, self._fresh.state, self._now
        for key in list(fresh.workloads):
            if (workload := running.workloads.get(key)) is not None:
                known, retries = workload.retries, fresh.workloads[key].retries
                retries.nodes.update(known.nodes)
                retries.pause(known.not_before)
                for node, _ in known.nodes:
                    fresh.refusing.remember(node, key)
                yield
        fresh.trials.learn(running.trials)
        fresh.preemptions.learn(running.preemptions, now)
        fresh.failed_creation.learn(running.failed_creation)
        if running.process.paused_until > now:
            self._fresh.handle(Paused(running.process.paused_until), now)
        if (served := self._running.capacity_served) is not None:
            self._fresh.handle(CapacityServed(served), now)
        self._fresh.handle(Synced(now - running.process.wall_offset), now)
        yield


def confirmed(first: Sequence[Difference], second: Sequence[Difference]) -> list[Difference]:
    """The differences that both checks have found."""
    return [difference for difference in second if difference in first]
