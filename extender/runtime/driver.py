"""Between the core and the world: which write goes out when, and what the core is told of how it ended.

Pure: whoever runs it keeps the time, carries out what it returns, and reports the answers. It is run by the event loop
of ``Runner`` and by the simulator, so that both order writes alike. The caller's duties:

1. Call ``handle``, ``answered`` and ``wake`` from one thread, with a ``now`` that never goes back.
2. Carry out what they return, in order. Send every request, and give its answer, once, to ``answered``.
3. Call ``wake`` no later than ``next_wake()``.
"""

from __future__ import annotations

import heapq
from collections import deque
from collections.abc import Callable, Hashable, Iterable
from dataclasses import dataclass
from itertools import count
from typing import Any, assert_never

from extender.core.answers import BindingPosted, Outcome, PodTried, Ungated, Untold, Unwritten
from extender.core.effects import (
    AnswerBind,
    AnswerFilter,
    AnswerPreempt,
    CleanJob,
    Confirm,
    Effect,
    Enqueue,
    Evict,
    Hint,
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
from extender.runtime.in_order import JobWrites, Nominations, Place, Reports
from extender.runtime.observer import Observer
from extender.runtime.requests import OK, Failed, Pause, Response, Send
from extender.runtime.writes import Procedure, Writes
from policies.model import GroupKey

Action = Send | AnswerFilter | AnswerPreempt | AnswerBind | Reached | Report | Failed
"""What the caller carries out: requests, answers to kube-scheduler, and lines for the log."""
Watcher = Callable[[Event, list[Effect]], None]
"""Is shown every event that the core has handled, and what the core asked for in consequence."""


@dataclass(slots=True)
class _Write:
    """A write that is in line, under way or pausing. ``ended`` is given what its procedure returns."""

    procedure: Procedure[Any]
    ended: Callable[[Any], None]


class Driver:
    """``jitter`` gives a factor for each pause between attempts, 0.5 to 1."""

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
        """Bind calls that somebody waits for."""
        self._nominations = Nominations(self._writes, self._observer, self._start, self._feed)
        self._jobs = JobWrites(self._writes, self._observer, self._start, self._feed, self._noted)
        self._reports = Reports()
        self._events: deque[Event] = deque()
        self._busy = False
        self._actions: list[Action] = []

    def handle(self, event: Event, now: float) -> list[Action]:
        """Something has happened."""
        self.now = now
        if isinstance(event, BindArrived):
            self._calls[event.call] = None
        elif isinstance(event, BindDisconnected):
            self._calls.pop(event.call, None)
        self._feed(event)
        return self._taken()

    def hint(self, effect: Hint, now: float) -> list[Action]:
        """Tell of an object that the core is not shown."""
        self.now = now
        self._write(effect)
        return self._taken()

    def answered(self, ticket: int, response: Response, now: float) -> list[Action]:
        """A request has ended."""
        self.now = now
        self._writes.heard(response)
        self._go_on(ticket, response)
        return self._taken()

    def wake(self, now: float) -> list[Action]:
        """Time has passed: writes that paused go on, and the core looks at its timers."""
        self.now = now
        while self._pauses and self._pauses[0][0] <= now:
            self._go_on(heapq.heappop(self._pauses)[1], OK)
        if (due := self.core.next_wake()) is not None and due <= now:
            self._feed(Tick())
        return self._taken()

    def next_wake(self) -> float | None:
        """The instant by which ``wake`` is due, or None while nothing is pending."""
        due = self.core.next_wake()
        if not self._pauses:
            return due
        return self._pauses[0][0] if due is None else min(due, self._pauses[0][0])

    def _taken(self) -> list[Action]:
        actions, self._actions = self._actions, []
        return actions

    def _feed(self, event: Event) -> None:
        """Let the core see it. What follows from carrying out its effects is seen after they have been carried out."""
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
            case StartJob() | SuspendJob() | CleanJob() | Enqueue() | Reserve():
                self._jobs.ask(effect)
            case Report():
                self._actions.append(effect)
                self._report(effect)
            case TryPod():
                self._start(Lane.OTHER, "trial", self._writes.try_pod(effect), self._tried)
            case Hint():
                self._start(Lane.REPORT, "hint", self._writes.tell(effect), self._repeated(effect, "hint"))
            case _:
                assert_never(effect)

    def _bind(self, effect: PostBinding) -> None:
        # A gang's Bindings go out together, gang after gang; one that was asked for singly is a gang of its own.
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
                self._feed(Untold(key))

        lane = Lane.OTHER if warning else Lane.REPORT
        self._start(lane, "report", self._newest_report(key, warning), ended)

    def _newest_report(self, key: GroupKey, warning: bool) -> Procedure[str | None]:
        """Write what is the newest of the gang by the time that this has its turn, if that has not been written."""
        effect = self._reports.take(key, warning=warning)
        return None if effect is None else (yield from self._writes.tell(effect))

    def _persist(self, effect: Wake | Confirm | Evict, kind: str, gang: Hashable) -> None:
        ended = self._noted(kind) if isinstance(effect, Evict) else self._repeated(effect, kind)
        self._start(Lane.OTHER, gang, self._writes.persist(effect, kind), ended)

    def _repeated(self, effect: Wake | Confirm | Hint, kind: str) -> Callable[[str], None]:
        """Note the end of a write that the core asks for again if it could not be made."""
        noted = self._noted(kind)

        def ended(detail: str) -> None:
            noted(detail)
            if detail:
                self._feed(Unwritten(effect))

        return ended

    def _noted(self, kind: str) -> Callable[[str | None], None]:
        """For a write whose end the core does not wait for; None: nothing was written."""

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
            self._go_on(ticket, None)

    def _go_on(self, ticket: int, response: Response | None) -> None:
        """Give the write its answer, or None to begin it; whoever gets the turn of one that ends begins, too."""
        begins: int | None = ticket
        while begins is not None:
            begins, response = self._step(begins, response), None

    def _step(self, ticket: int, response: Response | None) -> int | None:
        """One step of a write. Returns the ticket of the write that can begin for it, if this one has ended."""
        write = self._under_way[ticket]
        try:
            asked = next(write.procedure) if response is None else write.procedure.send(response)
        except StopIteration as end:
            del self._under_way[ticket]
            write.ended(end.value)
            return self._budget.give_back()
        if isinstance(asked, Pause):
            heapq.heappush(self._pauses, (self.now + asked.seconds, ticket))
        else:
            self._actions.append(Send(ticket, asked.asked, asked.timeout_s))
        return None
