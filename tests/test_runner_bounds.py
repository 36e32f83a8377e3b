"""What is to be told while the API server is away waits in bounded space."""

from __future__ import annotations

import asyncio

from extender.core.effects import Report
from extender.core.scheduler import Scheduler
from extender.runner import Runner
from policies.model import GroupKey
from tests.running import Written


class Slow(Written):
    """Lets nothing through until it is told to."""

    def __init__(self) -> None:
        super().__init__()
        self.back = asyncio.Event()

    async def write_report(self, effect: Report) -> str | None:
        await self.back.wait()
        return await super().write_report(effect)


def report(number: int, *, warning: bool) -> Report:
    return Report(GroupKey("ns", "gang"), None, ("u", "p"), f"Code{number}", f"number {number}", warning)


def test_reports_of_one_gang_do_not_pile_up_while_the_api_server_is_away() -> None:
    async def scenario() -> tuple[int, list[str]]:
        writer = Slow()
        runner = Runner(Scheduler(), writer, writes_at_once=1)
        for number in range(10_000):
            runner._carry_out(report(number, warning=number % 2 == 0))
            await asyncio.sleep(0)
        waiting = len(runner._tasks)
        writer.back.set()
        while runner._tasks:
            await asyncio.gather(*runner._tasks)
        return waiting, [one.code for one in writer.reports]

    waiting, told = asyncio.run(scenario())
    assert waiting <= 3
    assert told[-1] == "Code9999", "the newest is told"
    assert len(told) <= 3
