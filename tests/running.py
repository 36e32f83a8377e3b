"""A running extender with everything but a cluster: its writer, and its callers."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import httpx

from extender.core.effects import Nominate, PostBinding, Report
from extender.core.engine import Engine
from extender.core.events import NodeSeen, PodsSeen, Synced
from extender.http.hosts import Hosts
from extender.http.server import App, create_app
from extender.observe.metrics import Metrics
from extender.observe.utilisation import UNASKED, Utilisation
from extender.runtime.requests import OK, ApiCall, Response
from extender.runtime.runner import Runner
from policies.model import Dialect, GroupRef, Node, Pod

GPUS = (("nvidia.com/gpu", 8), ("pods", 1))


async def eventually(holds: Callable[[], bool]) -> None:
    """Poll ``holds``, which looks at state of this event loop: all other tasks get a turn between two looks."""
    async with asyncio.timeout(10):
        while not holds():  # noqa: ASYNC110 - several parts bring it about, none of which has an event for it
            await asyncio.sleep(0)


class Written:
    """An API server that carries out everything at once and remembers."""

    def __init__(self) -> None:
        self.bindings: list[PostBinding] = []
        self.bound: dict[str, str] = {}
        """Pod UID -> node."""
        self.reports: list[Report] = []
        self.asked: list[ApiCall] = []
        self.nominated = asyncio.Event()

    async def send(self, asked: ApiCall, timeout_s: float) -> Response:
        self.asked.append(asked)
        match asked:
            case PostBinding():
                self.bindings.append(asked)
                self.bound[asked.uid] = asked.node
            case Nominate():
                self.nominated.set()
            case Report():
                self.reports.append(asked)
        return OK


def app_of(
    core: Engine,
    *,
    standing_by: bool = False,
    clock: Callable[[], float] = time.monotonic,
    name: str = "localhost",
    utilisation: Utilisation = UNASKED,
) -> App:
    """Return the application around a core that the caller drives. ``name``: the host that it answers as."""
    runner = Runner(core, Written(), clock=clock)
    runner.standing_by = standing_by
    metrics = Metrics(lambda: core.state)
    return create_app(
        runner,
        metrics,
        utilisation=lambda: utilisation,
        bind_timeout_s=30,
        max_body=1 << 20,
        hosts=Hosts((name,)),
    )


class Extender:
    """A running extender without a cluster, and a client of it."""

    def __init__(self) -> None:
        self.core = Engine()
        self.written = Written()
        self.runner = Runner(self.core, self.written)
        metrics = Metrics(lambda: self.core.state, quarantine=lambda: self.runner.quarantine)
        self.app = create_app(self.runner, metrics, bind_timeout_s=30, max_body=4 << 20)
        self.client = httpx.AsyncClient(transport=httpx.ASGITransport(self.app), base_url="http://127.0.0.1")

    async def post(self, verb: str, body: Any) -> httpx.Response:
        content = body if isinstance(body, bytes) else json.dumps(body).encode()
        return await self.client.post(f"/{verb}", content=content)

    def member(self, name: str, size: int = 2) -> Pod:
        pod = Pod(name, "ns", name, GPUS, group=GroupRef("gang", Dialect.ANNOTATION, size))
        self.runner.dispatch(PodsSeen((pod,)))
        return pod

    async def planned(self) -> None:
        """Wait for the pass that follows a change."""
        await self.written.nominated.wait()


@asynccontextmanager
async def running(*nodes: Node) -> AsyncIterator[Extender]:
    """An extender that has read a cluster of these nodes."""
    extender = Extender()
    for node in nodes:
        extender.runner.dispatch(NodeSeen(node))
    extender.runner.dispatch(Synced())
    yield extender
    await extender.runner.drain()
    await extender.client.aclose()
