"""/metrics alone, in plain HTTP, where Prometheus can reach it: Muster itself listens on the loopback of its pod.

What is told there are numbers by verb, state, cause and level. No name of a namespace, gang or pod is among them, and
nothing can be asked for or changed, which is why it needs no certificate.
"""

from __future__ import annotations

import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from aiohttp import web

from extender.metrics import Metrics


@asynccontextmanager
async def metrics_page(metrics: Metrics, listener: socket.socket) -> AsyncIterator[None]:
    """Serve it on that socket while the block lasts."""

    async def scrape(_: web.Request) -> web.Response:
        return web.Response(body=metrics.render(), headers={"Content-Type": "text/plain; version=0.0.4"})

    app = web.Application(client_max_size=1)
    app.router.add_get("/metrics", scrape)
    runner = web.AppRunner(app, access_log=None, shutdown_timeout=1)
    await runner.setup()
    try:
        await web.SockSite(runner, listener).start()
        yield
    finally:
        await runner.cleanup()
