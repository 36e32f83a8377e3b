"""Work in slices: other work comes in between, and may stop it."""

from __future__ import annotations

import asyncio

import pytest

from extender.runtime import slices
from extender.runtime.slices import Slices, StoppedError
from policies.steps import Steps

pytestmark = pytest.mark.anyio


@pytest.fixture(autouse=True)
def one_step(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each slice is one step."""
    monkeypatch.setattr(slices, "SLICE_S", 0.0)


class Work:
    """Three steps, which note what has happened before each."""

    def __init__(self) -> None:
        self.seen: list[int] = []
        self.turns = 0
        self.closed = False

    def steps(self) -> Steps[str]:
        try:
            for _ in range(3):
                self.seen.append(self.turns)
                yield 1
            return "done"
        finally:
            self.closed = True

    async def turn(self) -> None:
        while True:
            self.turns += 1
            await asyncio.sleep(0)


async def test_other_work_has_its_turn_after_each_slice() -> None:
    work, pauses = Work(), list[int]()
    others = asyncio.create_task(work.turn())
    running = Slices(lambda: pauses.append(work.turns))
    assert await running.run(work.steps()) == "done"
    others.cancel()
    assert len(set(work.seen)) == 3
    assert pauses == work.seen, "nothing else came between a step and what is done before its pause"
    assert running.spent_s > 0


async def test_work_that_may_not_go_on_is_ended() -> None:
    work = Work()
    with pytest.raises(StoppedError):
        await Slices().run(work.steps(), lambda: len(work.seen) < 2)
    assert len(work.seen) == 2
    assert work.closed
