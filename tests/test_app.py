"""The composition root: a part that fails in an unforeseen way ends the process, and is not quietly missed."""

from __future__ import annotations

import asyncio

import pytest

from extender.app import _essential
from tests.running import running

pytestmark = pytest.mark.anyio


async def test_the_process_ends_when_a_part_fails_in_an_unforeseen_way() -> None:
    async def fail() -> None:
        raise RecursionError

    async with running() as one, asyncio.timeout(10):
        task = _essential(fail(), one.runner)
        await one.runner.failed.wait()
        assert task.done()


async def test_a_part_that_is_cancelled_has_not_failed() -> None:
    async def stay() -> None:
        await asyncio.Event().wait()

    async with running() as one:
        task = _essential(stay(), one.runner)
        await asyncio.sleep(0)
        task.cancel()
        await asyncio.wait([task])
        assert not one.runner.failed.is_set()
