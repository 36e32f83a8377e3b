"""How a bug of the driver is planted: its answers and its requests are changed."""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from itertools import count
from typing import Any

import pytest

from extender.core.events import Event
from extender.runtime.driver import Action, Driver
from extender.runtime.requests import OK, ApiCall, Response, Send
from tests.simulation.plants.mutants import Plant

Answers = Callable[[ApiCall, Response, "Boundary"], Response | None]
Sends = Callable[[Send, "Boundary"], Iterable[Send]]


@dataclass(eq=False)
class Boundary:
    """A life of a driver with a bug.

    ``open``: each request and when it was sent, by ticket.
    ``notes``: the bug's own.
    """

    now: float = 0.0
    open: dict[int, tuple[Send, float]] = field(default_factory=dict)
    notes: dict[Any, Any] = field(default_factory=dict)
    forged: list[tuple[int, Response]] = field(default_factory=list)
    late: list[tuple[float, int, Send]] = field(default_factory=list)
    numbers: count[int] = field(default_factory=count)

    def forge(self, send: Send, response: Response = OK) -> None:
        """Let the driver believe that it was answered."""
        self.forged.append((send.ticket, response))

    def send_later(self, send: Send, seconds: float) -> None:
        heapq.heappush(self.late, (self.now + seconds, next(self.numbers), send))


class DriverBug:
    """A change of each driver's requests by ``sends``, and of its answers by ``answers``; None: no answer."""

    def __init__(self, sends: Sends | None = None, answers: Answers | None = None) -> None:
        self._sends = sends
        self._answers = answers
        self._boundaries: dict[Driver, Boundary] = {}
        self._handle, self._answered = Driver.handle, Driver.answered
        self._wake, self._next_wake = Driver.wake, Driver.next_wake

    def plant(self, patch: pytest.MonkeyPatch) -> None:
        bug = self
        patch.setattr(Driver, "handle", lambda self, event, now: bug.handle(self, event, now))
        patch.setattr(Driver, "answered", lambda self, ticket, response, now: bug.answered(self, ticket, response, now))
        patch.setattr(Driver, "wake", lambda self, now: bug.wake(self, now))
        patch.setattr(Driver, "next_wake", lambda self: bug.next_wake(self))

    def handle(self, driver: Driver, event: Event, now: float) -> list[Action]:
        return self._let_out(driver, self._handle(driver, event, now), now)

    def wake(self, driver: Driver, now: float) -> list[Action]:
        return self._let_out(driver, self._wake(driver, now), now)

    def answered(self, driver: Driver, ticket: int, response: Response, now: float) -> list[Action]:
        boundary = self._boundary(driver)
        boundary.now = now
        if ticket not in boundary.open:
            return []
        call = boundary.open[ticket][0].call
        altered = response if self._answers is None else self._answers(call, response, boundary)
        if altered is None:
            return []
        del boundary.open[ticket]
        return self._let_out(driver, self._answered(driver, ticket, altered, now), now)

    def next_wake(self, driver: Driver) -> float | None:
        due, late = self._next_wake(driver), self._boundary(driver).late
        return min([at for at in (due, late[0][0] if late else None) if at is not None], default=None)

    def _boundary(self, driver: Driver) -> Boundary:
        return self._boundaries.setdefault(driver, Boundary())

    def _let_out(self, driver: Driver, actions: list[Action], now: float) -> list[Action]:
        boundary = self._boundary(driver)
        boundary.now = now
        out = self._changed(boundary, actions)
        while boundary.forged:
            ticket, response = boundary.forged.pop(0)
            del boundary.open[ticket]
            out += self._changed(boundary, self._answered(driver, ticket, response, now))
        while boundary.late and boundary.late[0][0] <= now:
            out.append(heapq.heappop(boundary.late)[2])
        return out

    def _changed(self, boundary: Boundary, actions: list[Action]) -> list[Action]:
        out: list[Action] = []
        for action in actions:
            if not isinstance(action, Send):
                out.append(action)
                continue
            boundary.open[action.ticket] = action, boundary.now
            out += [action] if self._sends is None else self._sends(action, boundary)
        return out


def sends(edit: Sends) -> Plant:
    """A bug in the driver's requests."""
    return _plant(edit.__name__, sends=edit)


def answers(edit: Answers) -> Plant:
    """A bug in the driver's use of answers."""
    return _plant(edit.__name__, answers=edit)


def _plant(name: str, sends: Sends | None = None, answers: Answers | None = None) -> Plant:
    def plant(patch: pytest.MonkeyPatch) -> None:
        DriverBug(sends, answers).plant(patch)

    plant.__name__ = name
    return plant
