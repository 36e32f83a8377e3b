"""Stands between one client and the API server, on loopback: it can delay, stop or strike at what it passes on.

It speaks plain HTTP to its client, whose bearer token it passes on, so that every request can be told from the
others.
"""

from __future__ import annotations

import asyncio
import re
import ssl
import threading
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum

import aiohttp
from aiohttp import web

from devcluster.threaded import Threaded


class Write(StrEnum):
    """The kinds of writes that the extender makes."""

    NOMINATE = "nominate"
    UNGATE = "ungate"
    BIND = "bind"
    STATUS = "podgroup status"
    EVENT = "event"
    EVICT = "evict"
    OTHER = "other"


_KINDS = (
    (Write.NOMINATE, "PATCH", re.compile(r"/pods/[^/]+/status$")),
    (Write.UNGATE, "PATCH", re.compile(r"/pods/[^/]+$")),
    (Write.BIND, "POST", re.compile(r"/pods/[^/]+/binding$")),
    (Write.STATUS, "PATCH", re.compile(r"/podgroups/[^/]+/status$")),
    (Write.EVENT, "POST", re.compile(r"/events$")),
    (Write.EVICT, "POST", re.compile(r"/pods/[^/]+/eviction$")),
)
_HOP = {"host", "connection", "transfer-encoding", "content-length", "content-encoding", "keep-alive"}


@dataclass
class Strike:
    """An action at a write, such as killing a process.

    ``kind``, ``within``, ``left``: the write is the one after ``left`` writes of that kind whose path contains
      ``within``.
    ``after``: whether the write is carried out first. If the action kills, the write or else its answer is lost.
    """

    kind: Write
    left: int
    action: Callable[[], object]
    after: bool
    within: str


class Proxy(Threaded):
    """Runs in a thread of its own from ``with`` to the end of the block. ``delay_s`` meets every request."""

    def __init__(self, server: str, authority: str) -> None:
        self.url = ""
        self.delay_s = 0.0
        self.writes: Counter[Write] = Counter()
        self.struck = threading.Event()
        self.lost_reads = ""
        """Every GET whose path has this in it is lost."""
        self.refused_writes: tuple[str, int, str] = ("", 0, "")
        """Every write whose path has the first of these in it is answered with this status, and that page."""
        self.refused = 0
        """How many writes were answered so."""
        self._server = server
        self._tls = ssl.create_default_context(cafile=authority)
        self._strike: Strike | None = None
        self._still = asyncio.Lock()
        self._refusals = 0
        self._retry_after_s = 0
        self._silenced = 0
        super().__init__()

    def strike(
        self, kind: Write, number: int, action: Callable[[], object], *, after: bool = False, namespace: str = ""
    ) -> None:
        """Call ``action`` once, at the ``number``-th write of that kind from now on; then ``struck`` is set.

        With a namespace only the writes in it count.
        """
        self.struck.clear()
        within = f"/namespaces/{namespace}/" if namespace else "/"
        self._strike = Strike(kind, number - 1, action, after, within)

    def silence_watches(self) -> None:
        """The watches that are open now stay open, and nothing more comes through them."""
        self._silenced += 1

    def refuse_watches(self, count: int, *, retry_after_s: int) -> None:
        """Answer the next ``count`` watches with 429 and that Retry-After."""
        self._refusals, self._retry_after_s = count, retry_after_s

    @property
    def refusals_left(self) -> int:
        return self._refusals

    async def _serve(self) -> None:
        runner = web.AppRunner(web.Application(client_max_size=1 << 26), handler_cancellation=True, shutdown_timeout=1)
        runner.app.router.add_route("*", "/{path:.*}", self._pass_on)
        connector = aiohttp.TCPConnector(ssl=self._tls, limit=0)
        async with aiohttp.ClientSession(connector=connector, auto_decompress=False) as self._session:
            await runner.setup()
            await web.TCPSite(runner, "127.0.0.1", 0).start()
            self.url = f"http://127.0.0.1:{runner.addresses[0][1]}"
            self._ready.set()
            await self._stop.wait()
            await runner.cleanup()

    async def _pass_on(self, request: web.Request) -> web.StreamResponse:
        await asyncio.sleep(self.delay_s)
        async with self._still:
            strike = self._due(request)
        if strike is not None and not strike.after:
            await self._carry_out(strike)
            return _cut(request)
        if self.lost_reads and request.method == "GET" and self.lost_reads in request.path:
            return _cut(request)
        within, status, page = self.refused_writes
        if status and request.method != "GET" and within in request.path:
            self.refused += 1
            return web.Response(status=status, text=page, content_type="text/html")
        if "watch" in request.query and self._refusals:
            self._refusals -= 1
            return web.json_response({}, status=429, headers={"Retry-After": str(self._retry_after_s)})
        headers = {name: text for name, text in request.headers.items() if name.lower() not in _HOP}
        try:
            async with self._session.request(
                request.method,
                self._server + request.raw_path,
                headers=headers,
                data=await request.read(),
                timeout=aiohttp.ClientTimeout(total=None),
            ) as answer:
                if strike is not None and strike.after:
                    await self._carry_out(strike)
                return await self._copy(request, answer)
        except aiohttp.ClientError:
            return _cut(request)

    async def _copy(self, request: web.Request, answer: aiohttp.ClientResponse) -> web.StreamResponse:
        kept = _HOP - {"content-encoding"}
        headers = {name: text for name, text in answer.headers.items() if name.lower() not in kept}
        response = web.StreamResponse(status=answer.status, headers=headers)
        await response.prepare(request)
        began = self._silenced
        async for chunk in answer.content.iter_any():
            if "watch" not in request.query or began == self._silenced:
                await response.write(chunk)
        if "watch" in request.query and began != self._silenced:
            # Until the client gives up, which cancels this.
            await self._stop.wait()
        await response.write_eof()
        return response

    def _due(self, request: web.Request) -> Strike | None:
        if request.method == "GET":
            return None
        kinds = (kind for kind, method, path in _KINDS if request.method == method and path.search(request.path))
        kind = next(kinds, Write.OTHER)
        self.writes[kind] += 1
        strike = self._strike
        if strike is None or kind is not strike.kind or strike.within not in request.path:
            return None
        if strike.left:
            strike.left -= 1
            return None
        self._strike = None
        return strike

    async def _carry_out(self, strike: Strike) -> None:
        def act() -> None:
            strike.action()
            self.struck.set()

        # The action runs in a thread to its end, even if it kills the client, which cancels this handler. Later
        # requests wait, so that the action meets the state of the strike.
        async with self._still:
            await asyncio.get_running_loop().run_in_executor(None, act)


def _cut(request: web.Request) -> web.Response:
    if request.transport is not None:
        request.transport.abort()
    return web.Response(status=502)
