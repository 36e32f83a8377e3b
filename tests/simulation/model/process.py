"""The extender's process around the core, one life of it: watches in, calls in, writes out, ticks when they are due."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from itertools import count
from typing import assert_never

from extender.core.answers import CapacityAnswered
from extender.core.effects import AnswerBind, AnswerFilter, AnswerPreempt, Reached, Report
from extender.core.engine import Engine
from extender.core.events import (
    BindArrived,
    BindDisconnected,
    CapacityServed,
    Event,
    FilterCalled,
    Paused,
    PodSeen,
    PreemptCalled,
    Synced,
)
from extender.core.jobs.elastic import CapacityAsk
from extender.core.ledger.kube_scheduler import LEFT_OUT
from extender.runtime.driver import Action, Driver, Watcher
from extender.runtime.quarantine import Quarantine, Record, Source
from extender.runtime.requests import Failed, Response, Send
from extender.runtime.together import Together
from extender.simulation.clock import Timer
from policies.model import Pod
from tests.simulation.model import facts
from tests.simulation.model.apiserver import ApiServer
from tests.simulation.model.changes import Change, Kind
from tests.simulation.model.cycle import BindRequest
from tests.simulation.model.informer import Informer
from tests.simulation.model.network import Network
from tests.simulation.model.requests import carry_out
from tests.simulation.model.tasks import Process, spawn

_MADE_BY = (Kind.GROUP_JOBS, Kind.JOBS, Kind.OWNERS)
_OPTIONAL = (Kind.GROUP_JOBS, Kind.OWNERS, Kind.BUDGETS, Kind.STORAGE, Kind.DEVICES, Kind.CLAIMS)


class InjectedError(Exception):
    """Stands for a bug of the core that one object brings to light."""


@dataclass(slots=True)
class Files:
    """The files that one pod of the deployment keeps while its containers end and start."""

    record: Record = field(default_factory=Record)

    def save(self, record: Record) -> None:
        """Keep it for the next life."""
        self.record = record


def _source(change: Change) -> Source:
    return Source(change.kind.name, change.uid, str(change.version))


class Extender:
    """A process that has just been started; it answers once it has read every list."""

    def __init__(
        self,
        core: Engine,
        api: ApiServer,
        network: Network,
        *,
        bind_timeout_s: float,
        start_s: float = 0.0,
        watcher: Watcher | None = None,
        stands_by: bool = False,
        writes_at_once: int = 64,
        served: Collection[Kind] = (),
        slice_s: float = 0.0,
        files: Files | None = None,
        ended: Callable[[Source], None] = lambda _: None,
    ) -> None:
        """Start a life of the process.

        ``files``: what outlives it in its pod.
        ``ended``: is called when the core has failed on an object, and the process has ended by itself.
        ``stands_by``: whether it only reads until it leads.
        ``served``: the optional kinds that the API has.
        ``slice_s``: the pause before it continues with what it has begun.
        """
        self.driver = Driver(core, writes_at_once=writes_at_once, watcher=watcher)
        self.calls: dict[int, BindRequest] = {}
        self._api = api
        self._network = network
        self._clock = network.clock
        self._bind_timeout_s = bind_timeout_s
        self._stands_by = stands_by
        self._slice_s = slice_s
        self.behind: set[str] = set()
        """UIDs of queues that have changed without its knowing when it began to lead."""
        self.misread: dict[int, tuple[Event, Event]] = {}
        """Pods and nodes that it has read in another way than they were written, by identity: as read, and as meant."""
        self._read: dict[str, Event] = {}
        """The last of each object that is read as it is written, by UID."""
        self._numbers = count(1)
        self._killed = False
        self._thaw = 0.0
        self._late: list[Callable[[], object]] = []
        self._ended = ended
        files = files or Files()
        self.quarantine = Quarantine(files.record, files.save, lambda: self._clock.now)
        self._tried = False
        self._trial: Timer | None = None
        self._together = Together()
        """Pods that were read at this instant."""
        self._timer: Timer | None = None
        self._wake_at: float | None = None
        self._watches = [
            Informer(api, network, kind, self._seen, self._gone)
            for kind in (
                Kind.STORAGE,
                Kind.BUDGETS,
                Kind.QUEUES,
                Kind.DEVICES,
                Kind.CLAIMS,
                Kind.NODES,
                Kind.GROUPS,
                *_MADE_BY,
                Kind.PODS,
            )
            if kind not in _OPTIONAL or kind in served
        ]
        self._starting: Timer | None = self._clock.after(start_s, self._list)

    @property
    def core(self) -> Engine:
        return self.driver.core

    @property
    def frozen(self) -> bool:
        return self._clock.now < self._thaw

    def kill(self) -> None:
        """Kill the process: sent requests may still land, and every open connection is closed."""
        for watch in self._watches:
            watch.stop()
        self._killed = True
        self._late.clear()
        for timer in (self._timer, self._starting, self._trial):
            if timer is not None:
                timer.cancel()
        for call in list(self.calls):
            self._answer(call, "connection closed")

    def freeze(self, seconds: float) -> None:
        """The process stands still, as after SIGSTOP or while its machine is suspended; then time has passed."""
        if not self.frozen:
            self._clock.after(seconds, self._go_on)
            self._thaw = self._clock.now + seconds
            self.interrupt(seconds, relist=False)

    def interrupt(self, seconds: float, *, relist: bool, kind: Kind | None = None) -> None:
        """Break one watch for that long, or all of them."""
        for watch in self._watches:
            if kind is None or watch.kind is kind:
                watch.interrupt(seconds, relist=relist)

    def watch(self, kind: Kind) -> Informer:
        return next(watch for watch in self._watches if watch.kind is kind)

    def shown(self, kind: Kind) -> Mapping[str, Change]:
        """The objects that the watch has shown so far: UID -> the last version of each existing object."""
        return self.watch(kind).known

    # Calls of kube-scheduler

    def filter(self, pod: Pod, candidates: tuple[str, ...]) -> AnswerFilter | None:
        answer = self._ask(FilterCalled(next(self._numbers), pod, candidates))
        assert answer is None or isinstance(answer, AnswerFilter)
        return answer

    @property
    def recovered(self) -> bool:
        """Whether the extender answers calls."""
        return self.driver.core.state.process.recovered

    def preempt(self, pod: Pod, victims: Mapping[str, tuple[str, ...]]) -> AnswerPreempt | None:
        answer = self._ask(PreemptCalled(next(self._numbers), pod, victims))
        assert answer is None or isinstance(answer, AnswerPreempt)
        return answer

    def bind(self, request: BindRequest) -> None:
        if self.frozen:
            self._late.append(lambda: self.bind(request))
            return
        if not self.recovered:
            self._clock.after(self._network.hop(), lambda: request.answer("Muster is starting"))
            return
        call, pod = next(self._numbers), request.pod
        self.calls[call] = request
        expires = self._clock.now + self._bind_timeout_s
        self._dispatch(BindArrived(call, pod.uid, pod.namespace, pod.name, request.node, expires))

    def tell_whether_nodes_can_be_asked_for(self, *, served: bool) -> None:
        """Report whether the API server has ProvisioningRequests."""
        self._dispatch(CapacityServed(served))

    def tell_what_has_become_of(self, ask: CapacityAsk, *, granted: bool) -> None:
        """Report the outcome of a capacity request."""
        detail = "" if granted else "there are no such nodes"
        self._dispatch(CapacityAnswered(ask.key, ask.attempt, granted, detail))

    def hang_up(self, request: BindRequest) -> None:
        """The other end of a bind's connection is closed."""
        if self.frozen:
            self._late.append(lambda: self.hang_up(request))
            return
        for call in [call for call, open_request in self.calls.items() if open_request is request]:
            del self.calls[call]
            self._dispatch(BindDisconnected(call))

    def _ask(self, event: FilterCalled | PreemptCalled) -> AnswerFilter | AnswerPreempt | None:
        if self.frozen:
            # The caller has gone at that time, but the core is asked all the same.
            self._late.append(lambda: self._dispatch(event))
            return None
        if not self.recovered:
            return None
        if self.quarantine.holds(event.pod.uid):
            if isinstance(event, FilterCalled):
                return AnswerFilter(event.call, (), event.candidates, LEFT_OUT)
            return AnswerPreempt(event.call, {})
        actions = self._dispatch(event)
        if self._killed:
            return None
        return next(action for action in actions if isinstance(action, AnswerFilter | AnswerPreempt))

    # Events of the watches

    def _list(self) -> None:
        self._starting = None
        for watch in self._watches:
            watch.list()
        if not self._stands_by:
            self._begin()

    def lead(self, watcher: Watcher | None) -> None:
        """Act from now on. The core begins with what the watches have shown so far, which may be old."""
        self._stands_by, self.driver.watcher = False, watcher
        for watch in self._watches:
            for change in list(watch.known.values()):
                self._seen(change, None)
        if self._starting is None:
            self._begin()

    def _begin(self) -> None:
        if (pause_s := self.quarantine.pause_s) > 0:
            self._dispatch(Paused(self._clock.now + pause_s))
        self._dispatch(Synced(self._clock.now))

    def _seen(self, change: Change, before: Change | None) -> None:
        if self._stands_by or self._killed:
            return
        if before is not None and before.value == change.value and not change.written:
            return
        event, source = facts.seen(change), _source(change)
        if change.written:
            if before is not None and self._read.get(change.uid) == event:
                return
            self._read[change.uid] = event
            if event != (meant := facts.as_meant(change)):
                self.misread[id(facts.shown_in(event))] = event, meant
        shown = self.quarantine.admit(event, source)
        if shown is event:
            self._show(event, source)
            return
        if shown is not None:
            self._show_alone(shown, source)
        self._await_trial()

    def _gone(self, last: Change) -> None:
        self._read.pop(last.uid, None)
        if not self._stands_by:
            self.quarantine.gone(last.uid)
            self._dispatch(facts.gone(last))

    def objects(self) -> list[Event]:
        """The events that the core was shown for each existing object, in the order of a start."""
        self._show_together()
        changes = [change for watch in self._watches for change in watch.known.values()]
        shown = (self.quarantine.as_shown(facts.seen(change), _source(change)) for change in changes)
        return [event for event in shown if event is not None]

    # The driver, and its requests

    def _show(self, event: Event, source: Source) -> None:
        """Pods that are read at one instant are shown to the core together, as by ``Runner``."""
        if not isinstance(event, PodSeen):
            self._show_alone(event, source)
            return
        if not self._together.takes(event.pod):
            self._show_together()
        if not self._together:
            self._clock.after(0.0, self._show_together)
        self._together.put(event, source)

    def _show_together(self) -> None:
        seen = self._together.take()
        if seen is not None:
            self._handle(*seen)

    def _show_alone(self, event: Event, source: Source) -> None:
        self._show_together()
        self._handle(event, [(event, source)])

    def _handle(self, event: Event, shown: Collection[tuple[Event, Source]]) -> None:
        """Let the core see objects. One that it fails on ends the process, as by ``Runner``."""
        if self._killed:
            return
        failing = next((source for event, source in shown if self._api.fails_the_core(event, source)), None)
        if failing is not None:
            self.quarantine.blame(shown, InjectedError(f"{failing} fails the core"), self.driver.core.state)
            return self._ended(failing)
        self._do(self.driver.handle(event, self._clock.now))

    def _dispatch(self, event: Event) -> list[Action]:
        self._show_together()
        return [] if self._killed else self._do(self.driver.handle(event, self._clock.now))

    def _look_at_what_was_left_out(self) -> None:
        self.quarantine.forget_unseen()
        self._try_suspects()

    def _await_trial(self) -> None:
        """Schedule the next trial of suspects, as ``Runner`` does."""
        if self._tried and not self._killed and (seconds := self.quarantine.next_trial_s) is not None:
            if self._trial is not None:
                self._trial.cancel()
            self._trial = self._clock.after(seconds, self._try_suspects)

    def _try_suspects(self) -> None:
        for event, source in self.quarantine.on_trial():
            self._show_alone(event, source)
            if self._killed:
                return
            self.quarantine.acquit(source.uid)
        self._await_trial()

    def _do(self, actions: list[Action]) -> list[Action]:
        for action in actions:
            match action:
                case Send():
                    spawn(self._clock, self._send(action))
                case AnswerBind(call, error):
                    self._answer(call, error)
                case AnswerFilter() | AnswerPreempt() | Report() | Reached() | Failed():
                    pass  # the first two are results of the call, the others are for people
                case _:
                    assert_never(action)
        if self.recovered and not self._tried:
            self._tried = True
            self._clock.after(0.0, self._look_at_what_was_left_out)
        self._set_timer()
        return actions

    def _answer(self, call: int, error: str) -> None:
        request = self.calls.pop(call, None)
        if request is not None:
            self._clock.after(self._network.hop(), lambda: request.answer(error))

    def _send(self, request: Send) -> Process[None]:
        """Send a request. It lands even if this process ends; a frozen process reads the answer later."""
        response = yield from carry_out(request.call, request.timeout_s, self._api, self._network, self._rests)
        self._answered(request.ticket, response)

    def _rests(self) -> float:
        """How long the process pauses. A killed process sends nothing any more."""
        return math.inf if self._killed else max(0.0, self._thaw - self._clock.now)

    def _answered(self, ticket: int, response: Response) -> None:
        if self.frozen:
            self._late.append(lambda: self._answered(ticket, response))
        elif not self._killed:
            self._show_together()
            if not self._killed:
                self._do(self.driver.answered(ticket, response, self._clock.now))

    def _set_timer(self) -> None:
        at = self.driver.next_wake()
        if at is not None and self._slice_s and at <= self._clock.now:
            soon = self._clock.now + self._slice_s
            at = soon if self._wake_at is None else min(soon, self._wake_at)
        if at == self._wake_at:
            return
        if self._timer is not None:
            self._timer.cancel()
        self._wake_at = at
        self._timer = None if at is None else self._clock.at(at, self._on_timer)

    def _on_timer(self) -> None:
        self._timer, self._wake_at = None, None
        if self.frozen:
            self._wake_at = self._thaw
            self._timer = self._clock.at(self._thaw, self._on_timer)
        else:
            self._show_together()
            if not self._killed:
                self._do(self.driver.wake(self._clock.now))

    def _go_on(self) -> None:
        late, self._late = self._late, []
        for action in late:
            action()
