"""The event loop around the driver: when time is up, and what is heard before."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any, cast

import pytest

from extender.core.effects import Effect
from extender.core.engine import Engine
from extender.core.events import Event, NodeGone, Tick
from extender.runtime.runner import Api, Runner

pytestmark = pytest.mark.anyio


class Core:
    """Has one deadline, and remembers what it hears."""

    def __init__(self, due: float) -> None:
        self.state = SimpleNamespace(recovered=False)
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
