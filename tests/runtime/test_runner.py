"""The event loop around the driver: the order of deadlines and events."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any, cast

import pytest

from extender.core.effects import Effect, Nominate
from extender.core.engine import Engine
from extender.core.events import Event, NodeGone, PodGone, PodSeen, PodsSeen, Tick
from extender.runtime.requests import OK, ApiCall, Response
from extender.runtime.runner import Api, Runner
from policies.model import Pod
from tests.runtime.driven import Told

pytestmark = pytest.mark.anyio


class Core:
    """A core with one deadline that remembers its events."""

    def __init__(self, due: float | None) -> None:
        self.state = SimpleNamespace(process=SimpleNamespace(recovered=False))
        self.passes = 0, False
        self.heard: list[Event] = []
        self.ticked = asyncio.Event()
        self._due: float | None = due

    def next_wake(self) -> float | None:
        return self._due

    def handle(self, event: Event, _: float) -> list[Effect]:
        self.heard.append(event)
        if isinstance(event, Tick):
            self._due = None
            self.ticked.set()
        return []


async def test_what_has_happened_while_the_process_stood_still_is_heard_before_time_is_up() -> None:
    clock = SimpleNamespace(now=100.0)
    core = Core(due=100.01)
    runner = Runner(cast(Engine, core), cast(Api, cast(Any, None)), clock=lambda: clock.now)
    runner.dispatch(NodeGone("before"))
    clock.now += 60
    asyncio.get_running_loop().call_later(0.1, runner.dispatch, NodeGone("meanwhile"))
    async with asyncio.timeout(10):
        await core.ticked.wait()
    assert core.heard == [NodeGone("before"), NodeGone("meanwhile"), Tick()]


def _running(core: Core) -> Runner:
    return Runner(cast(Engine, core), cast(Api, cast(Any, None)))


async def test_pods_that_are_seen_in_one_turn_of_the_loop_are_shown_to_the_core_together() -> None:
    core = Core(due=None)
    runner = _running(core)
    first, second = Pod("a", "ns", "a"), Pod("b", "ns", "b")
    runner.dispatch(PodSeen(first))
    runner.dispatch(PodSeen(second))
    assert core.heard == []
    await asyncio.sleep(0)
    assert core.heard == [PodsSeen((first, second))]


async def test_what_comes_after_pods_is_heard_after_them() -> None:
    core = Core(due=None)
    runner = _running(core)
    runner.dispatch(PodSeen(Pod("a", "ns", "a")))
    runner.dispatch(PodGone("a"))
    assert core.heard == [PodsSeen((Pod("a", "ns", "a"),)), PodGone("a")]


async def test_a_pod_that_has_changed_twice_is_shown_twice() -> None:
    core = Core(due=None)
    runner = _running(core)
    once, twice = Pod("a", "ns", "a"), Pod("a", "ns", "a", node="n")
    runner.dispatch(PodSeen(once))
    runner.dispatch(PodSeen(twice))
    await asyncio.sleep(0)
    assert core.heard == [PodsSeen((once,)), PodsSeen((twice,))]


async def test_many_pods_are_shown_in_steps() -> None:
    core = Core(due=None)
    runner = _running(core)
    for number in range(1000):
        runner.dispatch(PodSeen(Pod(f"{number}", "ns", f"{number}")))
    await asyncio.sleep(0)
    sizes = [len(event.pods) for event in core.heard if isinstance(event, PodsSeen)]
    assert sum(sizes) == 1000
    assert max(sizes) == 64


async def test_a_core_that_starts_over_is_not_shown_what_its_predecessor_was_to_see() -> None:
    before, after = Core(due=None), Core(due=None)
    runner = _running(before)
    runner.dispatch(PodSeen(Pod("a", "ns", "a")))
    runner.start_over(cast(Engine, after), cast(Api, cast(Any, None)), "another leads")
    await asyncio.sleep(0)
    assert after.heard == []


class _Failing:
    """Fails once in an unforeseen way, as with a body that cannot be encoded."""

    def __init__(self) -> None:
        self.asked = 0
        self.done = asyncio.Event()

    async def send(self, asked: ApiCall, timeout_s: float) -> Response:
        self.asked += 1
        if self.asked == 1:
            raise UnicodeEncodeError("utf-8", "\ud800", 0, 1, "surrogates not allowed")
        self.done.set()
        return OK


async def test_a_write_that_fails_in_an_unforeseen_way_ends_nothing_and_is_sent_again() -> None:
    core, api = Told(), _Failing()
    runner = Runner(core, api)
    core.asks = [Nominate("u", "ns", "p", "n")]
    runner.dispatch(Tick())
    async with asyncio.timeout(10):
        await api.done.wait()
    assert (api.asked, runner.failed.is_set()) == (2, False)
