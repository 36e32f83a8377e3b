"""The extender's HTTP server on loopback, for tests of its clients."""

from __future__ import annotations

import socket
import threading
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager

import uvicorn


@contextmanager
def listening(app: Callable[..., Awaitable[None]]) -> Iterator[str]:
    """The URL under which the app answers, to the end of the block."""
    server = uvicorn.Server(uvicorn.Config(app, lifespan="off", log_level="error"))
    with socket.create_server(("127.0.0.1", 0)) as listener:
        thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]})
        thread.start()
        yield f"http://127.0.0.1:{listener.getsockname()[1]}"
        server.should_exit = True
        thread.join()
