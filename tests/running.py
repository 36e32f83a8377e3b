"""A running extender with everything but a cluster: who writes for it, and who calls it."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import httpx

from extender.core.effects import Evict, Nominate, PostBinding, Report, Ungate, Wake
from extender.core.events import NodeSeen, Outcome, PodSeen, Synced
from extender.core.scheduler import Scheduler
from extender.metrics import Metrics
from extender.runner import Runner
from extender.server import create_app
from policies.model import Dialect, GroupRef, Node, Pod

GPUS = (("nvidia.com/gpu", 8), ("pods", 1))


class Written:
    """A writer that succeeds at once and remembers."""

    def __init__(self) -> None:
        self.bindings: list[PostBinding] = []
        self.bound: dict[str, str] = {}
        """Pod UID -> node."""
        self.reports: list[Report] = []
        self.nominated = asyncio.Event()

    async def write_binding(self, effect: PostBinding, still_wanted: Callable[[], bool]) -> tuple[Outcome, str]:
        if not still_wanted():
            return Outcome.REFUSED, "given up"
        self.bindings.append(effect)
        self.bound[effect.uid] = effect.node
        return Outcome.DONE, ""

    async def write_nomination(self, effect: Nominate) -> str | None:
        self.nominated.set()
        return None

    async def write_ungate(self, effect: Ungate) -> str | None:
        return None

    async def write_wake(self, effect: Wake) -> str | None:
        return None

    async def write_eviction(self, effect: Evict) -> str | None:
        return None

    async def write_report(self, effect: Report) -> str | None:
        self.reports.append(effect)
        return None


class Extender:
    """A running extender without a cluster, and a client of it."""

    def __init__(self) -> None:
        self.core = Scheduler()
        self.written = Written()
        self.runner = Runner(self.core, self.written)
        app = create_app(self.runner, Metrics(lambda: self.core.state), bind_timeout_s=30, max_body=4 << 20)
        self.client = httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://muster")

    async def post(self, verb: str, body: Any) -> httpx.Response:
        content = body if isinstance(body, bytes) else json.dumps(body).encode()
        return await self.client.post(f"/{verb}", content=content)

    def member(self, name: str, size: int = 2) -> Pod:
        pod = Pod(name, "ns", name, GPUS, group=GroupRef("gang", Dialect.ANNOTATION, size))
        self.runner.dispatch(PodSeen(pod))
        return pod

    async def planned(self) -> None:
        """Wait for the pass that follows a change."""
        await self.written.nominated.wait()


@asynccontextmanager
async def running(*nodes: Node) -> AsyncIterator[Extender]:
    """One that has read a cluster of these nodes."""
    one = Extender()
    for node in nodes:
        one.runner.dispatch(NodeSeen(node))
    one.runner.dispatch(Synced())
    yield one
    await one.runner.drain()
    await one.client.aclose()
