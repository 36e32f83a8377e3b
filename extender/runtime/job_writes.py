"""Which write to a job goes out when: one at a time, and what a newer one replaces is not repeated."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import Any

from extender.core.answers import Enqueued, JobWritten, Outcome, Reserved
from extender.core.effects import Enqueue, JobEffect, Reserve
from extender.core.events import Event
from extender.runtime.budget import Lane
from extender.runtime.observer import Observer
from extender.runtime.writes import Procedure, Writes

Start = Callable[[Lane, Hashable, Procedure[Any], Callable[[Any], None]], None]
"""Takes the procedure up when its lane has room, and tells how it has ended."""


class JobWrites:
    """``noted``: counts and logs how a write of that kind has ended.

    The core asks for the next write when it has seen enough of the last one: it is told of the newest alone.
    """

    def __init__(
        self,
        writes: Writes,
        observer: Observer,
        start: Start,
        feed: Callable[[Event], None],
        noted: Callable[[str], Callable[[str | None], None]],
    ) -> None:
        self._writes = writes
        self._observer = observer
        self._start = start
        self._feed = feed
        self._noted = noted
        self._following: dict[str, JobEffect | None] = {}
        """Jobs that are being written to, by UID -> the write that is to follow."""

    def ask(self, effect: JobEffect | Enqueue | Reserve) -> None:
        """Have it written."""
        match effect:
            case Enqueue():
                self.enqueue(effect)
            case Reserve():
                self.reserve(effect)
            case _:
                self.write(effect)

    def write(self, effect: JobEffect) -> None:
        """Now, or as soon as the last write to that job has ended."""
        uid = effect.job.uid

        def ended(ending: tuple[Outcome, str]) -> None:
            outcome, detail = ending
            self._observer.wrote("job", outcome.name.lower())
            if (following := self._following.pop(uid)) is not None:
                self.write(following)
            else:
                self._feed(JobWritten(effect.job.key, uid, outcome, detail))

        if uid in self._following:
            self._following[uid] = effect
        else:
            self._following[uid] = None
            writing = self._writes.job(effect, lambda: self._following[uid] is None)
            self._start(Lane.OTHER, effect.job.key, writing, ended)

    def enqueue(self, effect: Enqueue) -> None:
        """All of them are one gang to the lane: there may be thousands at the start, most of them others'."""

        def ended(ending: tuple[Outcome, str]) -> None:
            _, detail = ending
            self._noted("enqueue")(detail)
            self._feed(Enqueued(effect.key, detail))

        self._start(Lane.OTHER, "enqueue", self._writes.job(effect, lambda: True), ended)

    def reserve(self, effect: Reserve) -> None:
        """What is written on one workload goes out in order."""

        def ended(detail: str) -> None:
            self._noted("reservation")(detail)
            self._feed(Reserved(effect.key, effect.pod, effect.job, effect.reservation, detail))

        self._start(Lane.OTHER, effect.key, self._writes.reserve(effect), ended)
