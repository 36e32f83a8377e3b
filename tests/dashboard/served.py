"""The dashboard of a script's cluster on a port of loopback, for a browser."""

from __future__ import annotations

import asyncio
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import uvicorn

from dashboard.access import Access
from dashboard.app import app
from dashboard.cluster import Cluster
from extender.api.feed import Update


class Served:
    """A dashboard that runs in a thread of its own, until ``stop``."""

    def __init__(self, cluster: Cluster, access: Access) -> None:
        self.cluster = cluster
        listening = socket.create_server(("127.0.0.1", 0))
        self.address = f"http://127.0.0.1:{listening.getsockname()[1]}"
        config = uvicorn.Config(app(cluster, access), log_level="critical", timeout_graceful_shutdown=1)
        self._server = uvicorn.Server(config)
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._run, args=(listening,), daemon=True)
        self._thread.start()

    def _run(self, listening: socket.socket) -> None:
        asyncio.set_event_loop(self._loop)
        self._loop.run_until_complete(self._server.serve([listening]))
        self._loop.run_until_complete(_end_streams())
        self._loop.close()

    def take(self, update: Update) -> None:
        """The extender sends an update."""
        self._call(self.cluster.take(update))

    def lose(self) -> None:
        """The extender is not connected any more."""
        self._call(self.cluster.lose())

    def stop(self) -> None:
        self._server.should_exit = True
        self._thread.join()

    def _call(self, coroutine: Any) -> None:
        asyncio.run_coroutine_threadsafe(coroutine, self._loop).result()


async def _end_streams() -> None:
    """Close the connections whose streams the server has cancelled, as the end of a process does."""
    streams = asyncio.all_tasks() - {asyncio.current_task()}
    await asyncio.gather(*streams, return_exceptions=True)
    await asyncio.sleep(0)


@contextmanager
def serving(cluster: Cluster, access: Access) -> Iterator[Served]:
    """Serve the dashboard meanwhile."""
    served = Served(cluster, access)
    try:
        yield served
    finally:
        served.stop()
