"""The process of the dashboard: the extender keeps it up to date, and browsers and programs ask it."""

from __future__ import annotations

import asyncio
import contextlib
import logging

import uvicorn
import uvloop

from dashboard.access import Reviews, by
from dashboard.app import app
from dashboard.cluster import Cluster
from dashboard.feed import Feed
from dashboard.settings import Settings
from extender.http.tls import Credentials, TlsError
from extender.kube.api.connection import Connection

log = logging.getLogger("muster.dashboard")

_PING_S = 10.0
_LARGEST_UPDATE = 16 << 20
"""Bytes of a message of the extender: it sends pieces of 64 KiB, and one gang of 10,000 members in one."""
_MOST_CONNECTIONS = 2_000


def run(settings: Settings) -> None:
    """Serve until SIGTERM or SIGINT. Raises OSError or ValueError if it cannot start."""
    try:
        with asyncio.Runner(loop_factory=uvloop.new_event_loop) as loop:
            loop.run(_serve(settings))
    except TlsError as error:
        raise ValueError(f"cannot serve HTTPS: {error}") from None


async def _serve(settings: Settings) -> None:
    credentials = None if settings.tls is None else Credentials(settings.tls)
    connection = await Connection.open(settings.kubeconfig)
    try:
        access = Reviews(by(connection), audience=settings.audience, extender=settings.extender)
        cluster = Cluster()
        server = uvicorn.Server(_config(app(cluster, access, Feed(cluster)), settings, credentials))
        log.info("listening on %s:%d", settings.listen_host, settings.listen_port)
        following = None if credentials is None else asyncio.create_task(credentials.follow())
        try:
            await server.serve()
        finally:
            if following is not None:
                following.cancel()
                with contextlib.suppress(asyncio.CancelledError):
                    await following
    finally:
        await connection.close()


def _config(application: object, settings: Settings, credentials: Credentials | None) -> uvicorn.Config:
    config = uvicorn.Config(
        application,  # type: ignore[arg-type]
        host=settings.listen_host,
        port=settings.listen_port,
        loop="none",
        ws="websockets-sansio",
        ws_ping_interval=_PING_S,
        ws_ping_timeout=_PING_S,
        ws_max_size=_LARGEST_UPDATE,
        ws_per_message_deflate=False,
        limit_concurrency=_MOST_CONNECTIONS,
        # Streams of events never end by themselves: they are cut off.
        timeout_graceful_shutdown=1,
        access_log=False,
        log_config=None,
        log_level="warning",
        lifespan="off",
        proxy_headers=False,
        server_header=False,
    )
    config.load()
    config.ssl = None if credentials is None else credentials.context
    return config
