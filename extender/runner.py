"""The only caller of the core: one event loop, one writer. It keeps the time and carries effects out."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable, Coroutine, Mapping
from itertools import count
from typing import Any, Protocol, TypeVar, assert_never

from extender.budget import Budget, Lane
from extender.core.effects import (
    AnswerBind,
    AnswerFilter,
    AnswerPreempt,
    Effect,
    Evict,
    Nominate,
    PostBinding,
    Report,
    Turned,
    Ungate,
    Wake,
)
from extender.core.events import (
    BindArrived,
    BindDisconnected,
    BindingPosted,
    Event,
    FilterCalled,
    Nominated,
    Outcome,
    PreemptCalled,
    Synced,
    Tick,
    Ungated,
)
from extender.core.releases import RELEASE_COMPLETE
from extender.core.scheduler import Scheduler
from extender.observer import Observer, log_report, log_turn
from policies.model import GroupKey, Pod

log = logging.getLogger("muster")
AnswerT = TypeVar("AnswerT", AnswerFilter, AnswerPreempt)


class Writer(Protocol):
    """Writes to the API server. Each method retries what is worth retrying and never raises for what a server says."""

    async def write_binding(self, effect: PostBinding, still_wanted: Callable[[], bool]) -> tuple[Outcome, str]: ...

    async def write_nomination(self, effect: Nominate) -> str | None: ...

    async def write_ungate(self, effect: Ungate) -> str | None: ...

    async def write_wake(self, effect: Wake) -> str | None: ...

    async def write_eviction(self, effect: Evict) -> str | None: ...

    async def write_report(self, effect: Report) -> str | None: ...


class Runner:
    """Feeds the core and does what it asks. Everything runs on one event loop, so nothing here is locked."""

    def __init__(
        self,
        core: Scheduler,
        writer: Writer,
        *,
        writes_at_once: int = 64,
        observer: Observer | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.core = core
        self.clock = clock
        self.failed = asyncio.Event()
        self.acting = asyncio.Event()
        """Set while the core decides: it has seen the whole cluster, and this replica leads."""
        self.standing_by = False
        """In sync with the cluster, and silent: another replica leads."""
        self._writer = writer
        self._observer = observer or Observer()
        self._budget = Budget(writes_at_once)
        self._calls = count(1)
        self._answers: dict[int, AnswerFilter | AnswerPreempt] = {}
        self._binds: dict[int, asyncio.Future[str]] = {}
        self._nominations: dict[str, Nominate | None] = {}
        self._newest: dict[GroupKey, Report] = {}
        self._telling: dict[tuple[GroupKey, bool], None] = {}
        """Who waits for a turn to tell the newest: for each gang one with a warning, one without."""
        self._tasks: set[asyncio.Task[None]] = set()
        self._tick: asyncio.TimerHandle | None = None
        self._tick_at: float | None = None
        self._pass_s = 0.0

    def dispatch(self, event: Event) -> None:
        """Let the core see an event. An exception in it is a bug: the process must end and rebuild from the cluster."""
        if self.failed.is_set():
            return
        try:
            effects = self.core.handle(event, self.clock())
        except Exception:
            log.exception("the core failed on %r; ending, to start again from what is bound", event)
            self.failed.set()
            return
        for effect in effects:
            self._carry_out(effect)
        self._set_tick()

    def act(self) -> None:
        """The core knows the whole cluster, and may decide from now on."""
        self.standing_by = False
        self.dispatch(Synced())
        self.acting.set()

    def start_over(self, core: Scheduler, writer: Writer, why: str) -> None:
        """Go on with a new core, which knows nothing yet, as after a restart; whoever is held is told ``why``.

        Writes under way are broken off. A request that has been sent may still be carried out: like those of a process
        that was killed, it is found on the pods.
        """
        self.acting.clear()
        self._break_off(why)
        self.core, self._writer = core, writer
        self._binds, self._nominations, self._newest, self._telling, self._tasks = {}, {}, {}, {}, set()

    def filter(self, pod: Pod, candidates: tuple[str, ...]) -> AnswerFilter | None:
        """The core's answer, or None when the core has failed."""
        return self._ask(lambda call: FilterCalled(call, pod, candidates), AnswerFilter)

    def preempt(self, pod: Pod, victims: Mapping[str, tuple[str, ...]]) -> AnswerPreempt | None:
        """The core's answer, or None when the core has failed."""
        return self._ask(lambda call: PreemptCalled(call, pod, victims), AnswerPreempt)

    def bind(self, uid: str, namespace: str, name: str, node: str, timeout_s: float) -> tuple[int, asyncio.Future[str]]:
        """Start a bind; the future ends with its error, empty on success, when the core releases it."""
        call = next(self._calls)
        future: asyncio.Future[str] = asyncio.get_running_loop().create_future()
        self._binds[call] = future
        self.dispatch(BindArrived(call, uid, namespace, name, node, self.clock() + timeout_s))
        return call, future

    def give_up(self, call: int) -> None:
        """kube-scheduler no longer listens to this bind."""
        future = self._binds.pop(call, None)
        if future is not None:
            future.cancel()
            self.dispatch(BindDisconnected(call))

    async def drain(self) -> None:
        """Stop: cancel what is under way and fail what is held, so that kube-scheduler tries again elsewhere."""
        tasks = self._break_off("Muster is stopping; try again")
        await asyncio.gather(*tasks, return_exceptions=True)

    def _ask(self, question: Callable[[int], Event], kind: type[AnswerT]) -> AnswerT | None:
        call = next(self._calls)
        self.dispatch(question(call))
        answer = self._answers.pop(call, None)
        return answer if isinstance(answer, kind) else None

    def _break_off(self, why: str) -> list[asyncio.Task[None]]:
        """Cancel what is under way and fail what is held. Returns what will have ended a moment later."""
        if self._tick is not None:
            self._tick.cancel()
        self._tick, self._tick_at = None, None
        for task in self._tasks:
            task.cancel()
        for future in self._binds.values():
            if not future.done():
                future.set_result(why)
        return list(self._tasks)

    def _carry_out(self, effect: Effect) -> None:
        match effect:
            case AnswerFilter(call) | AnswerPreempt(call):
                self._answers[call] = effect
            case AnswerBind(call, error):
                future = self._binds.pop(call, None)
                if future is not None and not future.done():
                    future.set_result(error)
            case PostBinding():
                self._spawn(self._bind(effect))
            case Nominate():
                self._queue_nomination(effect)
            case Ungate():
                self._spawn(self._ungate(effect))
            case Wake():
                self._spawn(self._write("wake", lambda: self._writer.write_wake(effect)))
            case Evict():
                self._spawn(self._write("eviction", lambda: self._writer.write_eviction(effect)))
            case Turned() | Report():
                self._tell(effect)
            case _:
                assert_never(effect)

    def _tell(self, effect: Turned | Report) -> None:
        """Those who count, those who read the log, and those who look at the cluster."""
        if isinstance(effect, Turned):
            self._observer.turned(effect)
            log_turn(log, effect)
        else:
            log_report(log, effect)
            self._newest[effect.key] = effect
            place = effect.key, effect.warning
            if place not in self._telling:
                self._telling[place] = None
                self._spawn(self._report(*place))

    async def _bind(self, effect: PostBinding) -> None:
        # A gang's Bindings go out together, gang after gang; one that was asked for singly is a gang of its own.
        lane = Lane.LAST_BINDING if RELEASE_COMPLETE in effect.annotations else Lane.BINDING
        async with self._budget.turn(lane, effect.group or effect.uid):
            outcome, detail = await self._writer.write_binding(
                effect, lambda: any(call in self._binds for call in effect.calls)
            )
        self._observer.wrote("binding", outcome.name.lower())
        self.dispatch(BindingPosted(effect.uid, outcome, detail))

    def _queue_nomination(self, effect: Nominate) -> None:
        """One writer per pod, and only the newest wish counts: a set and a clear must not overtake each other."""
        running = effect.uid in self._nominations
        self._nominations[effect.uid] = effect
        if not running:
            self._spawn(self._nominate(effect.uid))

    async def _nominate(self, uid: str) -> None:
        wishes = self._nominations  # those of this core: a task that is broken off ends when there is a new one
        try:
            while (effect := wishes.get(uid)) is not None:
                wishes[uid] = None
                async with self._budget.turn(Lane.OTHER, effect.group):
                    detail = await self._writer.write_nomination(effect)
                self._observer.wrote("nomination", "failed" if detail else "done")
                if effect.node is not None and wishes[uid] is None:
                    self.dispatch(Nominated(uid, effect.node, detail or ""))
        finally:
            del wishes[uid]

    async def _ungate(self, effect: Ungate) -> None:
        async with self._budget.turn(Lane.UNGATE, effect.group):
            detail = await self._writer.write_ungate(effect)
        self._observer.wrote("ungate", "failed" if detail else "done")
        self.dispatch(Ungated(effect.uid, detail or ""))

    async def _report(self, key: GroupKey, warning: bool) -> None:
        """Tell what is the newest of the gang by the time that this has its turn, if that has not been told."""
        async with self._budget.turn(Lane.OTHER if warning else Lane.NEWS, "report"):
            del self._telling[key, warning]
            effect = self._newest.get(key)
            if effect is None or effect.warning is not warning:
                return
            del self._newest[key]
            detail = await self._writer.write_report(effect)
        self._note("report", detail)

    async def _write(self, kind: str, write: Callable[[], Awaitable[str | None]]) -> None:
        async with self._budget.turn(Lane.OTHER, kind):
            detail = await write()
        self._note(kind, detail)

    def _note(self, kind: str, detail: str | None) -> None:
        self._observer.wrote(kind, "failed" if detail else "done")
        if detail:
            log.warning("%s could not be written: %s", kind, detail)

    def _spawn(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._ended)

    def _ended(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            log.error("a write failed in an unforeseen way; ending", exc_info=error)
            self.failed.set()

    def _set_tick(self) -> None:
        at = self.core.next_wake()
        if at == self._tick_at:
            return
        if self._tick is not None:
            self._tick.cancel()
        self._tick_at = at
        self._tick = None
        if at is not None:
            self._tick = asyncio.get_running_loop().call_later(max(0.0, at - self.clock()), self._on_tick)

    def _on_tick(self) -> None:
        self._tick, self._tick_at = None, None
        before, _ = self.core.passes
        began = time.perf_counter()
        self.dispatch(Tick())
        after, walking = self.core.passes
        if walking or after != before:
            self._pass_s += time.perf_counter() - began
        if after != before:
            self._observer.passed(self._pass_s)
            self._pass_s = 0.0
