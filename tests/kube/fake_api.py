"""An API server that gives the answers of a test: per path, in order, on 127.0.0.1."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from typing import Any

from aiohttp import web
from kubernetes.aio.client import Configuration

from extender.kube.api.connection import Connection
from extender.kube.api.login import OfficialLogin
from extender.kube.client import Kube


@dataclass(frozen=True)
class Answer:
    """``lines`` are sent as a watch, which then ends, or stays open if ``open`` is set. ``cut``: no answer at all."""

    status: int = 200
    body: Any = None
    headers: dict[str, str] = field(default_factory=dict)
    lines: tuple[Any, ...] | None = None
    open: bool = False
    cut: bool = False


CUT = Answer(cut=True)
OK = Answer(body={})


def refused(status: int, reason: str = "", message: str = "", **headers: str) -> Answer:
    body = {"kind": "Status", "code": status, "reason": reason, "message": message}
    return Answer(status, body, {name.replace("_", "-"): text for name, text in headers.items()})


def watch(*lines: Any, stays_open: bool = False) -> Answer:
    return Answer(lines=lines, open=stays_open)


@dataclass(frozen=True)
class Asked:
    method: str
    path: str
    query: dict[str, str]
    body: Any
    content_type: str
    authorization: str = ""
    impersonated: str = ""


class FakeApi:
    """Answers are taken in order, the last one stays. A path without answers is 404."""

    def __init__(self) -> None:
        self.url = ""
        self.asked: list[Asked] = []
        self._answers: dict[tuple[str, str], list[Answer]] = {}
        self._closing = asyncio.Event()

    def on(self, method: str, path: str, *answers: Answer) -> None:
        """``method`` is WATCH for a GET that watches."""
        self._answers[method, path] = list(answers)

    def bodies(self, method: str) -> list[Any]:
        return [request.body for request in self.asked if request.method == method]

    def end_streams(self) -> None:
        """Every watch that is open ends."""
        self._closing.set()
        self._closing = asyncio.Event()

    def close(self) -> None:
        self._closing.set()

    async def handle(self, request: web.Request) -> web.StreamResponse:
        raw = await request.read()
        method = "WATCH" if "watch" in request.query else request.method
        body = json.loads(raw) if raw else None
        caller = request.headers.get("Authorization", "")
        received = Asked(method, request.path, dict(request.query), body, request.content_type, caller)
        received = replace(received, impersonated=request.headers.get("Impersonate-User", ""))
        self.asked.append(received)
        answers = self._answers.get((method, request.path), [refused(404, "NotFound")])
        answer = answers.pop(0) if len(answers) > 1 else answers[0]
        if answer.cut:
            assert request.transport is not None
            request.transport.abort()
            return web.Response()
        if answer.lines is None:
            return web.json_response(answer.body, status=answer.status, headers=answer.headers)
        return await self._stream(request, answer)

    async def _stream(self, request: web.Request, answer: Answer) -> web.StreamResponse:
        response = web.StreamResponse()
        await response.prepare(request)
        for line in answer.lines or ():
            await response.write(line if isinstance(line, bytes) else json.dumps(line).encode() + b"\n")
        if answer.open:
            await self._closing.wait()
        return response


@asynccontextmanager
async def fake_api() -> AsyncIterator[tuple[FakeApi, Kube]]:
    api = FakeApi()
    server = web.AppRunner(web.Application(), shutdown_timeout=1)
    server.app.router.add_route("*", "/{path:.*}", api.handle)
    await server.setup()
    site = web.TCPSite(server, "127.0.0.1", 0)
    await site.start()
    port = server.addresses[0][1]
    api.url = f"http://127.0.0.1:{port}"
    kube = Kube(Connection(OfficialLogin(Configuration(host=api.url))))
    try:
        yield api, kube
    finally:
        api.close()
        await kube.close()
        await server.cleanup()


class FakeTime:
    """A clock that only pauses move."""

    def __init__(self) -> None:
        self.now = 100.0
        self.pauses: list[float] = []

    def clock(self) -> float:
        return self.now

    async def pause(self, seconds: float) -> None:
        self.pauses.append(seconds)
        self.now += seconds
        await asyncio.sleep(0)
