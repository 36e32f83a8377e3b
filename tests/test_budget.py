"""Who writes next: Bindings before all else, and no gang kept waiting by a large one."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any

import pytest

from extender.budget import Budget, Lane

pytestmark = pytest.mark.anyio


class Writes:
    """Writes through a budget of one, each of which ends when the event loop comes to it."""

    def __init__(self) -> None:
        self.order: list[str] = []
        self._budget = Budget(1)
        self._tasks: list[asyncio.Task[None]] = []

    def ask(self, lane: Lane, gang: str, count: int = 1) -> list[asyncio.Task[None]]:
        tasks = [asyncio.ensure_future(self._write(lane, gang)) for _ in range(count)]
        self._tasks += tasks
        return tasks

    async def finish(self) -> list[str]:
        await asyncio.gather(*self._tasks, return_exceptions=True)
        return self.order

    def _write(self, lane: Lane, gang: str) -> Coroutine[Any, Any, None]:
        async def write() -> None:
            async with self._budget.turn(lane, gang):
                self.order.append(gang)
                await asyncio.sleep(0)

        return write()


async def test_a_large_gang_delays_a_small_one_by_one_round_at_most() -> None:
    writes = Writes()
    writes.ask(Lane.OTHER, "large", 200)
    writes.ask(Lane.OTHER, "small", 8)
    order = await writes.finish()
    last = max(index for index, gang in enumerate(order) if gang == "small")
    assert last < 33 + 8
    assert len(order) == 208


async def test_small_gangs_are_carried_out_one_after_the_other() -> None:
    writes = Writes()
    for gang in ("a", "b", "c"):
        writes.ask(Lane.OTHER, gang, 4)
    assert await writes.finish() == [*"aaaabbbbcccc"]


async def test_a_binding_goes_before_everything_that_waits() -> None:
    writes = Writes()
    writes.ask(Lane.OTHER, "nominations", 3)
    writes.ask(Lane.UNGATE, "gates", 2)
    writes.ask(Lane.BINDING, "bindings", 2)
    writes.ask(Lane.LAST_BINDING, "last")
    order = await writes.finish()
    assert order == ["nominations", "last", "bindings", "bindings", "gates", "gates", "nominations", "nominations"]


async def test_a_turn_that_is_given_up_goes_to_the_next() -> None:
    writes = Writes()
    writes.ask(Lane.OTHER, "first")
    (given_up,) = writes.ask(Lane.OTHER, "given up")
    writes.ask(Lane.OTHER, "last")
    await asyncio.sleep(0)
    given_up.cancel()
    assert await writes.finish() == ["first", "last"]


async def test_as_many_turns_at_once_as_allowed() -> None:
    budget = Budget(3)
    now = most = 0

    async def write() -> None:
        nonlocal now, most
        async with budget.turn(Lane.OTHER, "gang"):
            now += 1
            most = max(most, now)
            await asyncio.sleep(0)
            now -= 1

    await asyncio.gather(*(write() for _ in range(20)))
    assert most == 3
