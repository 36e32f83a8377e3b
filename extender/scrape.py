"""/metrics alone, where Prometheus can reach it: Muster itself listens on the loopback of its pod.

What is told there are numbers by verb, state, cause and level. No name of a namespace, gang or pod is among them, and
nothing can be asked for or changed, which is why it may do without a certificate. Where Muster has one, and an
authority for its callers, this page has them, too.
"""

from __future__ import annotations

import socket
import ssl
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from aiohttp import web

from extender.metrics import Metrics

_FRESH_S = 1.0


@asynccontextmanager
async def metrics_page(
    metrics: Metrics, listener: socket.socket, tls: ssl.SSLContext | None = None
) -> AsyncIterator[None]:
    """Serve it on that socket while the block lasts."""
    page, rendered = b"", -_FRESH_S

    async def scrape(_: web.Request) -> web.Response:
        nonlocal page, rendered
        # Working it out takes the time of kube-scheduler's questions: whoever asks often gets what there is.
        if time.monotonic() - rendered >= _FRESH_S:
            page, rendered = metrics.render(), time.monotonic()
        return web.Response(body=page, headers={"Content-Type": "text/plain; version=0.0.4"})

    app = web.Application(client_max_size=1)
    app.router.add_get("/metrics", scrape)
    runner = web.AppRunner(app, access_log=None, shutdown_timeout=1)
    await runner.setup()
    try:
        await web.SockSite(runner, listener, ssl_context=tls).start()
        yield
    finally:
        await runner.cleanup()
