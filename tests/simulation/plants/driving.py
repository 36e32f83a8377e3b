"""Bugs of the driver and of the watches: the time of its requests, and its use of answers, lines and silence."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

import pytest

from extender.core.effects import Evict, Nominate, PostBinding
from extender.runtime.driver import Driver
from extender.runtime.requests import OK, ApiCall, LookAtPod, Response, Send
from extender.runtime.writes import Patience
from tests.simulation.model.apiserver import INVALID
from tests.simulation.model.informer import Informer
from tests.simulation.plan import Plan
from tests.simulation.plants.boundary import Boundary, answers, sends

STREAM_S = 20
"""How long a watch lasts at least: a watch that is silent for longer has died."""

# Answers.


@answers
def write_that_hangs_keeps_its_lane(call: ApiCall, response: Response, driver: Boundary) -> Response | None:
    """The time that the write has been under way is not checked."""
    hung = any(send.call is call and driver.now - at >= send.timeout_s - 1e-6 for send, at in driver.open.values())
    return None if hung and response.status == 0 else response


@answers
def unanswered_look_taken_for_an_unbound_pod(call: ApiCall, response: Response, driver: Boundary) -> Response | None:
    return Response(200, node="") if isinstance(call, LookAtPod) and not response.done else response


@answers
def unanswered_binding_taken_for_refused(call: ApiCall, response: Response, driver: Boundary) -> Response | None:
    lost = isinstance(call, PostBinding) and response.status == 0
    return replace(response, status=INVALID) if lost else response


@answers
def overload_taken_for_done(call: ApiCall, response: Response, driver: Boundary) -> Response | None:
    return OK if response.status == 429 else response


@answers
def answer_given_to_another_write(call: ApiCall, response: Response, driver: Boundary) -> Response | None:
    if isinstance(call, PostBinding):
        response, driver.notes["last"] = driver.notes.get("last", response), response
    return response


def time_counts_in_which_nobody_is_answered(patch: pytest.MonkeyPatch) -> None:
    """The time counts for how long a write is repeated."""
    is_over = Patience.is_over
    patch.setattr(Patience, "is_over", lambda self, now, heard_at: is_over(self, now, now))


# Requests.


@sends
def writes_sent_twice(send: Send, driver: Boundary) -> Iterable[Send]:
    return (send, send) if isinstance(send.call, PostBinding) else (send,)


@sends
def older_nomination_overtakes(send: Send, driver: Boundary) -> Iterable[Send]:
    """A nomination counts as written when it is sent, and is really sent some time later."""
    if isinstance(send.call, Nominate) and send.call.node is not None:
        driver.forge(send)
        driver.send_later(send, 20.0)
    else:
        yield send


@sends
def bindings_linger_before_they_are_sent(send: Send, driver: Boundary) -> Iterable[Send]:
    """Whether a call waits was checked only when they were requested."""
    if isinstance(send.call, PostBinding):
        driver.send_later(send, 5.0)
    else:
        yield send


@sends
def evictions_never_sent(send: Send, driver: Boundary) -> Iterable[Send]:
    if isinstance(send.call, Evict):
        driver.forge(send)
    else:
        yield send


def lanes_without_bounds(patch: pytest.MonkeyPatch) -> None:
    begin = Driver.__init__

    def begin_wide(self: Driver, *facts: object, **more: object) -> None:
        begin(self, *facts, **{**more, "writes_at_once": 1_000})  # type: ignore[arg-type]

    patch.setattr(Driver, "__init__", begin_wide)


def pauses_never_end(patch: pytest.MonkeyPatch) -> None:
    """A write that is to be sent once more is not, unless the core has something to do."""
    patch.setattr(Driver, "next_wake", lambda self: self.core.next_wake())


# Watches.


def half_a_line_taken_for_the_whole(patch: pytest.MonkeyPatch) -> None:
    """The watch continues after it."""
    torn = Informer.torn

    def read(self: Informer) -> None:
        torn(self)
        self.skip()

    patch.setattr(Informer, "torn", read)


def watch_given_up_after_410_in_a_loop(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Informer, "expire", lambda self, times: self.interrupt(float("inf"), relist=False))


def silent_watch_never_opened_anew(patch: pytest.MonkeyPatch) -> None:
    interrupt = Informer.interrupt

    def sleep_on(self: Informer, seconds: float, *, relist: bool) -> None:
        interrupt(self, seconds if seconds < STREAM_S or relist else float("inf"), relist=relist)

    patch.setattr(Informer, "interrupt", sleep_on)


# Settings.


def crowd_too_small(patch: pytest.MonkeyPatch) -> None:
    """In a namespace the core looks at one waiting gang fewer than allowed."""
    core = Plan.core

    def small(self: Plan) -> object:
        return core(replace(self, limits=replace(self.limits, waiting=self.limits.waiting - 1)))

    patch.setattr(Plan, "core", small)
