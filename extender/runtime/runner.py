"""Run the driver on an event loop: keep the time, send the requests, answer kube-scheduler."""

from __future__ import annotations

import asyncio
import logging
import random
import time
from collections.abc import Callable, Collection, Iterable, Mapping
from itertools import count
from math import inf
from typing import Protocol, TypeVar, assert_never

from extender.core.effects import AnswerBind, AnswerFilter, AnswerPreempt, Hint, Milestone, Reached, Report
from extender.core.engine import Engine
from extender.core.events import (
    BindArrived,
    BindDisconnected,
    Event,
    FilterCalled,
    Paused,
    PodSeen,
    PreemptCalled,
    Synced,
)
from extender.core.ledger.kube_scheduler import LEFT_OUT
from extender.core.limits import STOOD_STILL_S
from extender.runtime.driver import Action, Driver, Observer
from extender.runtime.quarantine import Quarantine, Record, Source
from extender.runtime.requests import UNFORESEEN, ApiCall, Failed, Response, Send
from extender.runtime.together import Together
from policies.model import Pod

log = logging.getLogger("muster")
AnswerT = TypeVar("AnswerT", AnswerFilter, AnswerPreempt)

_CATCH_UP_S = 1.0
"""Seconds for which events are read, before any deadline is checked, after the process has stood still.

What happened meanwhile waits in its connections.
"""


_LEFT_OUT = "Muster has failed on this version of the object, and leaves it out until it changes: docs/self-repair.md"


class Api(Protocol):
    """The API server, one request at a time. Never raises for a server's answer, or for the lack of one."""

    async def send(self, call: ApiCall, timeout_s: float) -> Response: ...


class Runner:
    """Feeds the core and carries out its effects. Everything runs on one event loop, so nothing here is locked."""

    def __init__(
        self,
        core: Engine,
        api: Api,
        *,
        writes_at_once: int = 64,
        observer: Observer | None = None,
        quarantine: Quarantine | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.clock = clock
        self.quarantine = quarantine or Quarantine(Record(), lambda _: None, time.time)
        self.failed = asyncio.Event()
        self.acting = asyncio.Event()
        """Set while the core decides: it has seen the whole cluster, and this replica leads."""
        self.standing_by = False
        """Whether another replica leads, while this one is in sync with the cluster and silent."""
        self.on_reached: tuple[Callable[[Reached], None], ...] = ()
        """Called with every milestone of a workload."""
        self._observer = observer or Observer()
        self._writes_at_once = writes_at_once
        self._api = api
        self._driver = self._new_driver(core)
        self._calls = count(1)
        self._answers: dict[int, AnswerFilter | AnswerPreempt] = {}
        self._binds: dict[int, asyncio.Future[str]] = {}
        self._seen = Together()
        self._tasks: set[asyncio.Task[None]] = set()
        self._timer: asyncio.TimerHandle | None = None
        self._wake_at: float | None = None
        self._trial: asyncio.TimerHandle | None = None
        self._timing = False
        self._resumes_at = -inf
        self._pass_s = 0.0

    @property
    def core(self) -> Engine:
        return self._driver.core

    def show(self, event: Event, source: Source) -> None:
        """Hand an object that a watch shows to the core, or the part of it that the core can bear."""
        shown = self.quarantine.admit(event, source)
        if shown is event:
            self.dispatch(event, source)
            return
        if shown is not None:
            self._show_alone(shown, source)
        self._await_trial()

    def lose(self, event: Event, source: Source) -> None:
        """Tell the core that an object is gone."""
        self.quarantine.gone(source.uid)
        self.dispatch(event)

    def dispatch(self, event: Event, source: Source | None = None) -> None:
        """Hand an event to the core at once.

        Pods of one turn of the loop are handed over together, before any other event. ``source``: the object of the
        event.
        """
        if not isinstance(event, PodSeen):
            shown = [] if source is None else [(event, source)]
            return self._do(lambda driver, now: driver.handle(event, now), shown)
        if not self._seen.takes(event.pod):
            self._show()
        if not self._seen:
            asyncio.get_running_loop().call_soon(self._show)
        return self._seen.put(event, source)

    def _show_alone(self, event: Event, source: Source) -> None:
        self._do(lambda driver, now: driver.handle(event, now), [(event, source)])

    def _show(self) -> None:
        if (seen := self._seen.take()) is not None:
            event, sources = seen
            self._do(lambda driver, now: driver.handle(event, now), sources)

    def show_all(self) -> None:
        """Hand over at once what a watch has shown in this turn of the loop."""
        self._show()

    def act(self) -> None:
        """Let the core decide from now on: it knows the whole cluster."""
        self.standing_by = False
        if (pause_s := self.quarantine.pause_s) > 0:
            log.error("the core has failed too often: for %.0f s nothing is planned that is not planned yet", pause_s)
            self.dispatch(Paused(self.clock() + pause_s))
        self.dispatch(Synced(time.time()))

    def start_over(self, core: Engine, api: Api, why: str) -> None:
        """Continue with a new core without any state, as after a restart; held calls are answered with ``why``.

        Writes under way are broken off. A request that was sent may still be carried out. As with a process that was
        killed, the new core finds the result on the pods.
        """
        self.acting.clear()
        self._break_off(why)
        self._api, self._driver = api, self._new_driver(core)
        self.quarantine.start_over()
        self._binds, self._tasks, self._seen = {}, set(), Together()

    def filter(self, pod: Pod, candidates: tuple[str, ...]) -> AnswerFilter | None:
        """The core's answer; None if the core has failed."""
        if self.quarantine.holds(pod.uid):
            return AnswerFilter(next(self._calls), (), candidates, LEFT_OUT)
        return self._ask(lambda call: FilterCalled(call, pod, candidates), AnswerFilter)

    def preempt(self, pod: Pod, victims: Mapping[str, tuple[str, ...]]) -> AnswerPreempt | None:
        """The core's answer; None if the core has failed."""
        if self.quarantine.holds(pod.uid):
            return AnswerPreempt(next(self._calls), {})
        return self._ask(lambda call: PreemptCalled(call, pod, victims), AnswerPreempt)

    def bind(self, uid: str, namespace: str, name: str, node: str, timeout_s: float) -> tuple[int, asyncio.Future[str]]:
        """Start a bind. The future gets the call's error, empty on success, when the core answers."""
        call = next(self._calls)
        future: asyncio.Future[str] = asyncio.get_running_loop().create_future()
        self._binds[call] = future
        self.dispatch(BindArrived(call, uid, namespace, name, node, self.clock() + timeout_s))
        return call, future

    def give_up(self, call: int) -> None:
        """End a bind: kube-scheduler no longer listens."""
        future = self._binds.pop(call, None)
        if future is not None:
            future.cancel()
            self.dispatch(BindDisconnected(call))

    async def drain(self) -> None:
        """Stop: cancel writes under way, and fail held binds so that kube-scheduler tries again elsewhere."""
        tasks = self._break_off("Muster is stopping; try again")
        await asyncio.gather(*tasks, return_exceptions=True)

    def _ask(self, question: Callable[[int], Event], kind: type[AnswerT]) -> AnswerT | None:
        call = next(self._calls)
        self.dispatch(question(call))
        answer = self._answers.pop(call, None)
        return answer if isinstance(answer, kind) else None

    def _new_driver(self, core: Engine) -> Driver:
        return Driver(
            core,
            writes_at_once=self._writes_at_once,
            observer=self._observer,
            jitter=lambda: random.uniform(0.5, 1.0),  # noqa: S311 - so that clients do not all come back at once
        )

    def _break_off(self, why: str) -> list[asyncio.Task[None]]:
        """Cancel writes under way and fail held binds. Returns the tasks, which end a moment later."""
        for timer in (self._timer, self._trial):
            if timer is not None:
                timer.cancel()
        self._timer, self._trial, self._wake_at = None, None, None
        for task in self._tasks:
            task.cancel()
        for future in self._binds.values():
            if not future.done():
                future.set_result(why)
        return list(self._tasks)

    def _do(
        self, step: Callable[[Driver, float], Iterable[Action]], shown: Collection[tuple[Event, Source]] = ()
    ) -> None:
        """Run one step of the driver. An exception in it is a bug: the process must end and rebuild from the cluster.

        ``shown``: the events of the step, with the objects from which they were read.
        """
        self._show()
        if self.failed.is_set():
            return
        try:
            actions = step(self._driver, self.clock())
        except Exception as error:
            log.exception("the core failed; ending, to start again from what is bound")
            self.failed.set()
            return self._blame(error, shown)
        for action in actions:
            self._carry_out(action)
        if self.core.state.process.recovered and not self.acting.is_set():
            self.acting.set()
            asyncio.get_running_loop().call_soon(self._look_at_what_was_left_out)
        if not self._timing:
            self._timing = True
            asyncio.get_running_loop().call_soon(self._set_timer)

    def _blame(self, error: Exception, shown: Collection[tuple[Event, Source]]) -> None:
        """Record the objects that the next start has to leave out, or a failure without an object to blame."""
        quarantine, state = self.quarantine, self.core.state
        if shown:
            names = quarantine.blame(shown, error, state)
            log.error("the core failed on %s; the next start shows it no more of this version than it has to", names)
        elif state.process.recovered:
            quarantine.blame_nobody()
        elif name := quarantine.blame_workload(state, error):
            log.error("the core failed on what it read of %s; the next start looks for the object", name)

    def _look_at_what_was_left_out(self) -> None:
        """Show the objects that were left out during the start in full, since the core answers now."""
        self.quarantine.forget_unseen()
        self._try_suspects()
        if not self.failed.is_set():
            self._report_left_out()

    def _try_suspects(self) -> None:
        """Show the objects on trial in full, one after the other."""
        for event, source in self.quarantine.on_trial():
            self._show_alone(event, source)
            if self.failed.is_set():
                return
            self.quarantine.acquit(source.uid)
        self._await_trial()

    def _await_trial(self) -> None:
        """Schedule the next trial of a changed object that has failed repeatedly."""
        if not self.acting.is_set() or (seconds := self.quarantine.next_trial_s) is None:
            return
        if self._trial is not None:
            self._trial.cancel()
        self._trial = asyncio.get_running_loop().call_later(seconds, self._try_suspects)

    def _report_left_out(self) -> None:
        for left_out in self.quarantine.left_out():
            log.warning("%s is left out until it changes: the core failed on it (%s)", left_out, left_out.error)
            self.write_event(Hint("", left_out.namespace, left_out.object.name, _LEFT_OUT, left_out.object, "LeftOut"))

    def write_event(self, hint: Hint) -> None:
        """Write an Event on an object, whether the core knows it or not."""
        self._do(lambda driver, now: driver.hint(hint, now))

    def _carry_out(self, action: Action) -> None:
        match action:
            case Send():
                self._spawn(action)
            case AnswerFilter(call) | AnswerPreempt(call):
                self._answers[call] = action
            case AnswerBind(call, error):
                future = self._binds.pop(call, None)
                if future is not None and not future.done():
                    future.set_result(error)
            case Reached():
                log_milestone(log, action)
                for follow in self.on_reached:
                    follow(action)
            case Report():
                log_report(log, action)
            case Failed(kind, detail):
                log.warning("%s could not be written: %s", kind, detail)
            case _:
                assert_never(action)

    def _spawn(self, request: Send) -> None:
        task = asyncio.get_running_loop().create_task(self._send(request))
        self._tasks.add(task)
        task.add_done_callback(self._ended)

    async def _send(self, request: Send) -> None:
        try:
            response = await self._api.send(request.call, request.timeout_s)
        except Exception as error:  # A fault in one object must not end the process for all others.
            log.exception("a write failed in an unforeseen way: %s", type(request.call).__name__)
            response = Response(UNFORESEEN, f"it failed in an unforeseen way: {type(error).__name__}: {error}")
        self._do(lambda driver, now: driver.answered(request.ticket, response, now))

    def _ended(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            log.error("a write failed in an unforeseen way; ending", exc_info=error)
            self.failed.set()

    def _set_timer(self) -> None:
        """Set the timer once for everything that has happened in a turn of the loop."""
        self._timing = False
        at = self._driver.next_wake()
        if at is not None:
            at = max(at, self._resumes_at)
        if at == self._wake_at:
            return
        if self._timer is not None:
            self._timer.cancel()
        self._wake_at = at
        self._timer = None
        if at is not None:
            self._timer = asyncio.get_running_loop().call_later(max(0.0, at - self.clock()), self._on_timer)

    def _on_timer(self) -> None:
        due, now = self._wake_at, self.clock()
        self._timer, self._wake_at = None, None
        if due is not None and self._resumes_at < due < now - STOOD_STILL_S:
            self._resumes_at = now + _CATCH_UP_S
            return self._set_timer()
        before, _ = self.core.passes
        began = time.perf_counter()
        self._do(lambda driver, now: driver.wake(now))
        after, walking = self.core.passes
        if walking or after != before:
            self._pass_s += time.perf_counter() - began
        if after != before:
            self._observer.passed(self._pass_s)
            self._pass_s = 0.0


def log_milestone(log: logging.Logger, effect: Reached) -> None:
    """Log the milestone on one line, with its facts as fields. A pod without a gang is named as a pod."""
    kind, lead = ("pod", "") if effect.alone else ("gang", "gang ")
    fields = {
        kind: str(effect.key),
        "milestone": str(effect.milestone),
        "size": effect.size,
        "after_s": round(effect.after_s, 3),
    }
    if effect.cause is not None:
        fields["cause"] = str(effect.cause)
    log.info("%s%s %s", lead, effect.key, _in_words(effect), extra={"fields": fields})


def log_report(log: logging.Logger, report: Report) -> None:
    """Log a reported reason on one line; as a warning if a person has to act."""
    level = logging.WARNING if report.warning else logging.INFO
    fields = {"gang": str(report.key), "reason": report.code, "members": report.members, "bound": report.bound}
    log.log(level, "gang %s: %s: %s", report.key, report.code, report.full or report.message, extra={"fields": fields})


def _in_words(effect: Reached) -> str:
    """The milestone in words that follow the gang's name."""
    match effect.milestone:
        case Milestone.FORGOTTEN:
            return f"was forgotten ({effect.cause}): {effect.detail}"
        case Milestone.PREEMPTING | Milestone.WOULD_PREEMPT:
            return f"{effect.milestone}: {effect.detail}"
        case Milestone.UNRESERVED:
            return f"has no room kept any more: {effect.detail}"
        case Milestone.RESERVED:
            return f"waits, and {effect.detail}"
        case Milestone.DELAYED:
            return f"was not planned: {effect.detail}"
        case Milestone.BROKEN:
            return "was released in part: its release broke off"
        case Milestone.RELEASED:
            return f"was released: {effect.size} members, {effect.after_s:.1f} s after its first bind request"
        case _:
            since = f"{effect.after_s:.1f} s after the first of them was seen"
            return f"was {effect.milestone}: {effect.size} members, {since}"
