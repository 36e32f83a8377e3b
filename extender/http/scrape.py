"""Serve /metrics alone where Prometheus can reach it: Muster itself listens on the loopback of its pod.

The page has numbers by verb, state, cause and level, and no name of a namespace, gang or pod. Nothing can be requested
or changed there, so it needs no certificate. If Muster has one, and an authority for its callers, this page uses them.
"""

from __future__ import annotations

import asyncio
import socket
import ssl
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial

from uvicorn.server import ServerState

from extender.http.connections import BoundedProtocol, Connections, http_config
from extender.http.verbs import Receive, Scope, Send, refuse, reply
from extender.observe.metrics import Metrics

_FRESH_S = 1.0
_HANDSHAKE_S = 10.0
_MOST = 64
"""Most connections; each Prometheus has one."""
_MOST_BYTES = 1 << 20


class MetricsPage:
    """The application: one page."""

    def __init__(self, metrics: Metrics) -> None:
        self._metrics = metrics
        self._page, self._rendered = b"", -_FRESH_S

    async def __call__(self, scope: Scope, _: Receive, send: Send) -> None:
        if scope["path"] != "/metrics":
            return await refuse(send, 404, "only /metrics is here\n")
        if scope["method"] not in ("GET", "HEAD"):
            return await refuse(send, 405, "/metrics can be read, and nothing else\n")
        # Rendering takes time from kube-scheduler's calls, so frequent requests get the last result.
        if time.monotonic() - self._rendered >= _FRESH_S:
            self._page, self._rendered = await self._metrics.page(), time.monotonic()
        return await reply(send, self._page, kind=b"text/plain; version=0.0.4")


@asynccontextmanager
async def metrics_page(
    metrics: Metrics, listener: socket.socket, tls: ssl.SSLContext | None = None
) -> AsyncIterator[None]:
    """Serve the page on that socket while the block lasts."""
    protocol = partial(BoundedProtocol, shared=Connections(_MOST, _MOST_BYTES, metrics.refused))
    config, state = http_config(MetricsPage(metrics), protocol), ServerState()
    server = await asyncio.get_running_loop().create_server(
        lambda: protocol(config=config, server_state=state, app_state={}),
        sock=listener,
        ssl=tls,
        ssl_handshake_timeout=None if tls is None else _HANDSHAKE_S,
    )
    try:
        yield
    finally:
        server.close()
        for connection in list(state.connections):
            connection.shutdown()
        await server.wait_closed()
