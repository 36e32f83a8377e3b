"""A driver whose core makes the requests of a test, and whose requests the test answers."""

from __future__ import annotations

from collections.abc import Iterable

from extender.core.effects import Effect, Nominate, PostBinding, Report
from extender.core.engine import Engine
from extender.core.events import BindArrived, Event, Tick
from extender.runtime.driver import Action, Driver
from extender.runtime.requests import Response, Send
from policies.model import GroupKey


class Told(Engine):
    """A core that makes the requests of a test, and remembers its events."""

    def __init__(self) -> None:
        super().__init__()
        self.events: list[Event] = []
        self.asks: list[Effect] = []

    def handle(self, event: Event, now: float) -> list[Effect]:
        self.events.append(event)
        effects, self.asks = self.asks, []
        return effects

    def next_wake(self) -> float | None:
        return None


class World:
    """A driver, and the requests that it has sent."""

    def __init__(self, at_once: int = 64) -> None:
        self.core = Told()
        self.driver = Driver(self.core, writes_at_once=at_once)
        self.sent: list[Send] = []
        self.now = 0.0

    def ask(self, *effects: Effect) -> list[Action]:
        """The actions that the driver makes of these effects."""
        self.core.asks = [*effects]
        return self.take(self.driver.handle(Tick(), self.now))

    def answer(self, response: Response, index: int = 0) -> list[Action]:
        return self.take(self.driver.answered(self.sent.pop(index).ticket, response, self.now))

    def wake(self) -> list[Action]:
        due = self.driver.next_wake()
        assert due is not None
        self.now = due
        return self.take(self.driver.wake(due))

    def take(self, actions: Iterable[Action]) -> list[Action]:
        taken = list(actions)
        self.sent += [action for action in taken if isinstance(action, Send)]
        return taken

    @property
    def told(self) -> list[Event]:
        return [event for event in self.core.events if not isinstance(event, Tick)]


def nominate(node: str | None, uid: str = "u", *, renew: bool = False) -> Nominate:
    return Nominate(uid, "team", uid, node, renew, GroupKey("team", "train"))


def binding(call: int, uid: str = "u", marks: dict[str, str] | None = None) -> PostBinding:
    return PostBinding(uid, "team", uid, "n1", (call,), 30.0, marks or {}, GroupKey("team", "train"))


def arrived(world: World, call: int) -> None:
    world.take(world.driver.handle(BindArrived(call, "u", "team", "u", "n1", 30.0), world.now))


def report(code: str, gang: str = "gang", *, warning: bool = True) -> Report:
    return Report(GroupKey("ns", gang), None, None, code, "", warning)
