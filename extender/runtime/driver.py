"""Decide which write goes out when, and report to the core how each ended.

Of several writes to one job or pod, one is sent at a time, and the newest counts.

Pure: the caller keeps the time, carries out the returned actions, and reports the answers. The event loop of ``Runner``
and the simulator run the same driver, so both order writes alike. The caller's duties:

1. Call ``handle``, ``answered`` and ``wake`` from one thread, with a ``now`` that never goes back.
2. Carry out what they return, in order. Send every request, and give its answer, once, to ``answered``.
3. Call ``wake`` no later than ``next_wake()``.
"""

from __future__ import annotations

import heapq
from collections import deque
from collections.abc import Callable, Hashable, Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import count
from typing import Any, assert_never

from extender.core.answers import (
    BindingPosted,
    Deallocated,
    Enqueued,
    JobWritten,
    Nominated,
    Outcome,
    PodTried,
    ReportFailed,
    Reserved,
    Ungated,
    Unwritten,
)
from extender.core.effects import (
    AnswerBind,
    AnswerFilter,
    AnswerPreempt,
    CleanJob,
    Confirm,
    Deallocate,
    Effect,
    Enqueue,
    Evict,
    Hint,
    JobEffect,
    Nominate,
    PostBinding,
    Reached,
    Report,
    Reserve,
    StartJob,
    SuspendJob,
    TryPod,
    Ungate,
    Wake,
    Write,
)
from extender.core.engine import Engine
from extender.core.events import BindArrived, BindDisconnected, Event, Tick
from extender.core.gate.stamps import RELEASE_COMPLETE
from extender.runtime.budget import Budget, Lane
from extender.runtime.compare import Kind
from extender.runtime.requests import OK, Failed, Pause, Response, Send
from extender.runtime.writes import Procedure, Writes
from policies.model import GroupKey


class Observer:
    """Receives the runner's news, for metrics; this one ignores them."""

    def wrote(self, kind: str, outcome: str) -> None:
        """Count a write to the API server that has ended."""

    def retried(self, kind: str) -> None:
        """Count a write to the API server that is sent again."""

    def reached(self, effect: Reached) -> None:
        """Record that a gang has reached a step of its lifecycle."""

    def passed(self, seconds: float) -> None:
        """Record how long an admission pass took, without what came in between."""

    def verified(self, outcome: str, seconds: float) -> None:
        """Count a self-check that has ended: agrees, differs or failed."""

    def drifted(self, kinds: Sequence[Kind]) -> None:
        """Count the kinds of the differences that two self-checks have found."""

    def restarted(self) -> None:
        """Count a restart of the core because of drift."""


Action = Send | AnswerFilter | AnswerPreempt | AnswerBind | Reached | Report | Failed
"""The caller's tasks: requests, answers to kube-scheduler, and lines for the log."""
Watcher = Callable[[Event, list[Effect]], None]
"""Receives every event that the core has handled, with the effects that followed."""


@dataclass(slots=True)
class _Write:
    """A write that waits for its lane, is under way or pauses. ``ended``: receives the result of the procedure."""

    procedure: Procedure[Any]
    ended: Callable[[Any], None]


class Driver:
    """Orders the writes. ``jitter``: a factor from 0.5 to 1 for each pause between attempts."""

    def __init__(
        self,
        core: Engine,
        *,
        writes_at_once: int = 64,
        observer: Observer | None = None,
        jitter: Callable[[], float] = lambda: 1.0,
        watcher: Watcher | None = None,
    ) -> None:
        self.core = core
        self.now = 0.0
        self.watcher = watcher
        self._observer = observer or Observer()
        self._writes = Writes(lambda: self.now, jitter, self._observer.retried)
        self._budget = Budget(writes_at_once)
        self._tickets = count(1)
        self._under_way: dict[int, _Write] = {}
        self._pauses: list[tuple[float, int]] = []
        self._calls: dict[int, None] = {}
        """Bind calls for whose answer kube-scheduler waits."""
        self._nominations = Nominations(self._writes, self._observer, self._start, self._feed)
        self._jobs = JobWrites(self._writes, self._observer, self._start, self._feed, self._noted)
        self._reports = Reports()
        self._events: deque[Event] = deque()
        self._busy = False
        self._actions: list[Action] = []

    def handle(self, event: Event, now: float) -> list[Action]:
        """Hand an event to the core; returns the actions to carry out."""
        self.now = now
        if isinstance(event, BindArrived):
            self._calls[event.call] = None
        elif isinstance(event, BindDisconnected):
            self._calls.pop(event.call, None)
        self._feed(event)
        return self._take_actions()

    def hint(self, effect: Hint, now: float) -> list[Action]:
        """Write a hint about an object that the core is not shown."""
        self.now = now
        self._write(effect)
        return self._take_actions()

    def answered(self, ticket: int, response: Response, now: float) -> list[Action]:
        """Continue the write whose request was answered."""
        self.now = now
        self._writes.heard(response)
        self._advance(ticket, response)
        return self._take_actions()

    def wake(self, now: float) -> list[Action]:
        """Continue writes whose pause is over, and let the core look at its timers."""
        self.now = now
        while self._pauses and self._pauses[0][0] <= now:
            self._advance(heapq.heappop(self._pauses)[1], OK)
        if (due := self.core.next_wake()) is not None and due <= now:
            self._feed(Tick())
        return self._take_actions()

    def next_wake(self) -> float | None:
        """The instant by which ``wake`` is due; None if nothing is pending."""
        due = self.core.next_wake()
        if not self._pauses:
            return due
        return self._pauses[0][0] if due is None else min(due, self._pauses[0][0])

    def _take_actions(self) -> list[Action]:
        actions, self._actions = self._actions, []
        return actions

    def _feed(self, event: Event) -> None:
        """Hand an event to the core. Events that follow from its effects are handed over once all effects are carried
        out."""
        self._events.append(event)
        if self._busy:
            return
        self._busy = True
        while self._events:
            following = self._events.popleft()
            effects = self.core.handle(following, self.now)
            if self.watcher is not None:
                self.watcher(following, effects)
            self._carry_out(effects)
        self._busy = False

    def _carry_out(self, effects: Iterable[Effect]) -> None:
        for effect in effects:
            match effect:
                case AnswerFilter() | AnswerPreempt():
                    self._actions.append(effect)
                case AnswerBind(call):
                    if self._calls.pop(call, False) is None:
                        self._actions.append(effect)
                case Reached():
                    self._observer.reached(effect)
                    self._actions.append(effect)
                case _:
                    self._write(effect)

    def _write(self, effect: Write) -> None:
        match effect:
            case PostBinding():
                self._bind(effect)
            case Nominate():
                self._nominations.ask(effect)
            case Ungate(uid):
                ungating = self._writes.persist(effect, "ungate")
                self._start(Lane.UNGATE, effect.group, ungating, lambda detail: self._ungated(uid, detail))
            case Confirm():
                self._persist(effect, "confirmation", effect.group)
            case Wake() | Evict():
                kind = "wake" if isinstance(effect, Wake) else "eviction"
                self._persist(effect, kind, kind)
            case StartJob() | SuspendJob() | CleanJob() | Enqueue() | Reserve() | Deallocate():
                self._jobs.ask(effect)
            case Report():
                self._actions.append(effect)
                self._report(effect)
            case TryPod():
                self._start(Lane.OTHER, "trial", self._writes.try_pod(effect), self._tried)
            case Hint():
                self._start(Lane.REPORT, "hint", self._writes.report(effect), self._repeated(effect, "hint"))
            case _:
                assert_never(effect)

    def _bind(self, effect: PostBinding) -> None:
        # A gang's Bindings go out together, gang after gang. A Binding of no release counts as a gang of its own.
        lane = Lane.LAST_BINDING if RELEASE_COMPLETE in effect.annotations else Lane.BINDING
        calls, posting = self._calls, self._writes.bind(effect, lambda: any(call in calls for call in effect.calls))

        def ended(ending: tuple[Outcome, str]) -> None:
            outcome, detail = ending
            self._observer.wrote("binding", outcome.name.lower())
            self._feed(BindingPosted(effect.uid, outcome, detail))

        self._start(lane, effect.group or effect.uid, posting, ended)

    def _tried(self, event: PodTried) -> None:
        self._observer.wrote("trial", event.verdict.name.lower())
        self._feed(event)

    def _ungated(self, uid: str, detail: str) -> None:
        self._observer.wrote("ungate", "failed" if detail else "done")
        self._feed(Ungated(uid, detail))

    def _report(self, effect: Report) -> None:
        if (place := self._reports.offer(effect)) is not None:
            self._write_report(place)

    def _write_report(self, place: Place) -> None:
        key, warning = place
        noted = self._noted("report")

        def ended(detail: str | None) -> None:
            if detail is None:
                return
            noted(detail)
            if (following := self._reports.written(key)) is not None:
                self._write_report(following)
            elif detail:
                self._feed(ReportFailed(key))

        lane = Lane.OTHER if warning else Lane.REPORT
        self._start(lane, "report", self._newest_report(key, warning), ended)

    def _newest_report(self, key: GroupKey, warning: bool) -> Procedure[str | None]:
        """Write the gang's newest report as of the write's turn, unless another writer has written it."""
        effect = self._reports.take(key, warning=warning)
        return None if effect is None else (yield from self._writes.report(effect))

    def _persist(self, effect: Wake | Confirm | Evict, kind: str, gang: Hashable) -> None:
        ended = self._noted(kind) if isinstance(effect, Evict) else self._repeated(effect, kind)
        self._start(Lane.OTHER, gang, self._writes.persist(effect, kind), ended)

    def _repeated(self, effect: Wake | Confirm | Hint, kind: str) -> Callable[[str], None]:
        """Report the end of a write; the core asks for it again if it failed."""
        noted = self._noted(kind)

        def ended(detail: str) -> None:
            noted(detail)
            if detail:
                self._feed(Unwritten(effect))

        return ended

    def _noted(self, kind: str) -> Callable[[str | None], None]:
        """Report the end of a write for which the core does not wait. ``detail`` None: nothing was written."""

        def ended(detail: str | None) -> None:
            if detail is not None:
                self._observer.wrote(kind, "failed" if detail else "done")
            if detail:
                self._actions.append(Failed(kind, detail))

        return ended

    def _start(self, lane: Lane, gang: Hashable, procedure: Procedure[Any], ended: Callable[[Any], None]) -> None:
        ticket = next(self._tickets)
        self._under_way[ticket] = _Write(procedure, ended)
        if self._budget.take(lane, gang, ticket):
            self._advance(ticket, None)

    def _advance(self, ticket: int, response: Response | None) -> None:
        """Give the write its answer, or None to begin it. If it ends, the next write of the lane begins, too."""
        begins: int | None = ticket
        while begins is not None:
            begins, response = self._step(begins, response), None

    def _step(self, ticket: int, response: Response | None) -> int | None:
        """Run one step of a write. If that ended it, returns the ticket of the write that can begin in its place."""
        write = self._under_way[ticket]
        try:
            procedure = next(write.procedure) if response is None else write.procedure.send(response)
        except StopIteration as end:
            del self._under_way[ticket]
            write.ended(end.value)
            return self._budget.give_back()
        if isinstance(procedure, Pause):
            heapq.heappush(self._pauses, (self.now + procedure.seconds, ticket))
        else:
            self._actions.append(Send(ticket, procedure.call, procedure.timeout_s))
        return None


Start = Callable[[Lane, Hashable, Procedure[Any], Callable[[Any], None]], None]
"""Runs a procedure once its lane has room, and reports its result."""


class JobWrites:
    """Orders the writes to jobs.

    ``noted``: counts and logs how a write of that kind has ended.
    The core asks for the next write once it has seen the last one's outcome, so it learns the outcome of the newest
    alone.
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
        """Jobs with a write under way, by UID, and the write that follows."""
        self._reserving: dict[GroupKey, deque[Reserve]] = {}
        """Workloads on which a reservation is being written, and the writes that follow."""

    def ask(self, effect: JobEffect | Enqueue | Reserve | Deallocate) -> None:
        """Have the effect written."""
        match effect:
            case Enqueue():
                self.enqueue(effect)
            case Reserve():
                self.reserve(effect)
            case Deallocate():
                self.deallocate(effect)
            case _:
                self.write(effect)

    def write(self, effect: JobEffect) -> None:
        """Write to the job now, or once the last write to it has ended."""
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
        """Enqueue a PodGroup. All count as one gang of the lane: at the start there may be thousands, most of other
        owners."""

        def ended(ending: tuple[Outcome, str]) -> None:
            _, detail = ending
            self._noted("enqueue")(detail)
            self._feed(Enqueued(effect.key, detail))

        self._start(Lane.OTHER, "enqueue", self._writes.job(effect, lambda: True), ended)

    def deallocate(self, effect: Deallocate) -> None:
        """Clear an allocation. Claims of one gang do not wait for each other."""

        def ended(detail: str) -> None:
            self._noted("deallocation")(detail)
            self._feed(Deallocated(effect, detail))

        self._start(Lane.OTHER, "deallocation", self._writes.deallocate(effect), ended)

    def reserve(self, effect: Reserve) -> None:
        """Write a reservation. The writes to one workload go out in order, each once the one before has ended."""
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
            answered = Reserved(effect.key, effect.pod, effect.job, effect.reservation, detail, effect.backfill)
            self._feed(answered)

        self._start(Lane.OTHER, effect.key, self._writes.reserve(effect), ended)


class Nominations:
    """Orders nominations, so that setting one and clearing it never overtake each other."""

    def __init__(self, writes: Writes, observer: Observer, start: Start, feed: Callable[[Event], None]) -> None:
        self._writes = writes
        self._observer = observer
        self._start = start
        self._feed = feed
        self._newest: dict[str, Nominate | None] = {}
        """Pods being nominated, by UID, and the newest nomination asked for; None while that is being written."""

    def ask(self, effect: Nominate) -> None:
        """Have the nomination written now, or once the last write to that pod has ended."""
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
        """Write the newest nomination as of the write's turn. Returns its node, and the error, if any."""
        effect = self._newest[uid]
        assert effect is not None  # noqa: S101
        self._newest[uid] = None
        detail = yield from self._writes.nominate(effect)
        return effect.node, detail


Place = tuple[GroupKey, bool]
"""A writer's gang, and whether its report is a warning."""


class Reports:
    """The newest unwritten report of each gang, and the writers that wait for a turn.

    One report of a gang is written at a time; otherwise an older one could arrive last.
    """

    def __init__(self) -> None:
        self._newest: dict[GroupKey, Report] = {}
        self._waiting: dict[Place, None] = {}
        """Each gang has at most one entry with a warning, and one without."""
        self._writing: set[GroupKey] = set()

    def offer(self, report: Report) -> Place | None:
        """Record the newest report. Returns the place of a new writer, if one is needed."""
        self._newest[report.key] = report
        return self._place(report)

    def take(self, key: GroupKey, *, warning: bool) -> Report | None:
        """The report for a writer whose turn has come.

        None if the newest has the other level of warning, has been written, or waits for a report being written.
        """
        del self._waiting[key, warning]
        report = self._newest.get(key)
        if report is None or report.warning is not warning or key in self._writing:
            return None
        self._writing.add(key)
        return self._newest.pop(key)

    def written(self, key: GroupKey) -> Place | None:
        """Record that a taken report is written, or failed. Returns the place of the next writer, if one is needed."""
        self._writing.discard(key)
        report = self._newest.get(key)
        return None if report is None else self._place(report)

    def _place(self, report: Report) -> Place | None:
        place = report.key, report.warning
        if place in self._waiting or report.key in self._writing:
            return None
        self._waiting[place] = None
        return place
