"""Which write goes out when of several to a job, a pod or of one gang: one at a time, and the newest counts."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Hashable
from dataclasses import replace
from typing import Any

from extender.core.answers import Enqueued, JobWritten, Nominated, Outcome, Reserved, Unwritten
from extender.core.effects import Enqueue, JobEffect, Nominate, Report, Reserve
from extender.core.events import Event
from extender.runtime.budget import Lane
from extender.runtime.observer import Observer
from extender.runtime.writes import Procedure, Writes
from policies.model import GroupKey

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
        self._reserving: dict[GroupKey, deque[Reserve]] = {}
        """Workloads on which a reservation is being written -> those that are to follow."""

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
        """What is written on one workload goes out in order: each when the one before it has ended."""
        if effect.key in self._reserving:
            self._reserving[effect.key].append(effect)
        else:
            self._reserving[effect.key] = deque()
            self._reserve(effect)

    def _reserve(self, effect: Reserve) -> None:
        def ended(detail: str) -> None:
            self._noted("reservation")(detail)
            if following := self._reserving[effect.key]:
                self._reserve(following.popleft())
            else:
                del self._reserving[effect.key]
            self._feed(Reserved(effect.key, effect.pod, effect.job, effect.reservation, detail))

        self._start(Lane.OTHER, effect.key, self._writes.reserve(effect), ended)


class Nominations:
    """A nomination that is set and one that is cleared never overtake each other."""

    def __init__(self, writes: Writes, observer: Observer, start: Start, feed: Callable[[Event], None]) -> None:
        self._writes = writes
        self._observer = observer
        self._start = start
        self._feed = feed
        self._newest: dict[str, Nominate | None] = {}
        """Pods that are being nominated, by UID -> the newest nomination asked for; None while it is being written."""

    def ask(self, effect: Nominate) -> None:
        """Have it written now, or as soon as the last write to that pod has ended."""
        running = effect.uid in self._newest
        self._newest[effect.uid] = effect
        if not running:
            self._next(effect.uid)

    def _next(self, uid: str) -> None:
        effect = self._newest[uid]
        if effect is None:
            del self._newest[uid]
            return

        cleared = replace(effect, node=None)

        def ended(written: tuple[str | None, str]) -> None:
            node, detail = written
            self._observer.wrote("nomination", "failed" if detail else "done")
            if node is not None and self._newest[uid] is None:
                self._feed(Nominated(uid, node, detail))
            elif detail and self._newest[uid] is None:
                self._feed(Unwritten(cleared))
            self._next(uid)

        self._start(Lane.OTHER, effect.group or uid, self._write(uid), ended)

    def _write(self, uid: str) -> Procedure[tuple[str | None, str]]:
        """The newest, when its turn has come. Returns that node, and the error if there is one."""
        effect = self._newest[uid]
        assert effect is not None  # noqa: S101
        self._newest[uid] = None
        detail = yield from self._writes.nominate(effect)
        return effect.node, detail


Place = tuple[GroupKey, bool]
"""Whose report a writer is to write, and whether it is one with a warning."""


class Reports:
    """The newest report of each gang that is still to be written, and who waits for a turn to write it.

    Of each gang one report is written at a time: an older one would be the last to arrive now and then.
    """

    def __init__(self) -> None:
        self._newest: dict[GroupKey, Report] = {}
        self._waiting: dict[Place, None] = {}
        """For each gang at most one with a warning, one without."""
        self._writing: set[GroupKey] = set()

    def offer(self, report: Report) -> Place | None:
        """It is the newest now. Returns the place of a new writer, if one is needed."""
        self._newest[report.key] = report
        return self._place(report)

    def take(self, key: GroupKey, *, warning: bool) -> Report | None:
        """The writer's turn has come. None when the newest is for another one, has been written, or has to wait for the
        one that is being written."""
        del self._waiting[key, warning]
        report = self._newest.get(key)
        if report is None or report.warning is not warning or key in self._writing:
            return None
        self._writing.add(key)
        return self._newest.pop(key)

    def written(self, key: GroupKey) -> Place | None:
        """What was taken is written, or could not be. Returns the place of the next writer, if one is needed."""
        self._writing.discard(key)
        report = self._newest.get(key)
        return None if report is None else self._place(report)

    def _place(self, report: Report) -> Place | None:
        place = report.key, report.warning
        if place in self._waiting or report.key in self._writing:
            return None
        self._waiting[place] = None
        return place
