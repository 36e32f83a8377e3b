"""A caller and a server on real sockets."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial

from uvicorn.server import ServerState

from extender.http.connections import WHOLE, BoundedProtocol, Connections, http_config
from extender.http.verbs import Receive, Scope, Send, reply

REQUEST = b"GET / HTTP/1.1\r\nHost: localhost\r\n"


class Caller:
    """The other side of one connection."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer

    async def send(self, *pieces: bytes) -> None:
        """Send the pieces until the other side takes no more."""
        try:
            for piece in pieces:
                self._writer.write(piece)
                await self._writer.drain()
        except ConnectionError:
            pass

    async def status(self) -> int:
        """The status of the answer; 0 when the connection was closed without one."""
        try:
            async with asyncio.timeout(10):
                head = await self._reader.readuntil(b"\r\n\r\n")
        except (asyncio.IncompleteReadError, ConnectionError):
            return 0
        length = next(int(line[15:]) for line in head.lower().split(b"\r\n") if line.startswith(b"content-length:"))
        await self._reader.readexactly(length)
        return int(head.split()[1])

    async def get(self) -> int:
        await self.send(REQUEST + b"\r\n")
        return await self.status()

    async def rest(self) -> bytes:
        """The bytes until the connection is closed."""
        async with asyncio.timeout(10):
            return await self._reader.read()

    async def closed(self) -> bool:
        try:
            async with asyncio.timeout(10):
                return await self._reader.read() == b""
        except ConnectionError:
            return True

    def close(self) -> None:
        self._writer.close()


class Served:
    """A server with these bounds, whose application reads the body, and waits at /held until ``go_on`` is set."""

    def __init__(self, shared: Connections) -> None:
        self.shared = shared
        self.refusals: Counter[str] = Counter()
        self.requests = 0
        self.body = 0
        self.go_on = asyncio.Event()
        self.protocols: list[BoundedProtocol] = []
        self._port = 0
        self._callers: list[Caller] = []
        shared.refused = lambda cause: self.refusals.update([cause])

    async def app(self, scope: Scope, receive: Receive, send: Send) -> None:
        self.requests += 1
        if scope["path"] == "/unread":
            return await reply(send, b"no")
        more = True
        while more:
            message = await receive()
            self.body += len(message.get("body", b""))
            more = message.get("more_body", False)
        if scope["path"] == "/held":
            await self.go_on.wait()
        if scope["path"] == "/whole":
            return scope["extensions"][WHOLE]["send"](b"[1]")  # type: ignore[no-any-return]
        return await reply(send, b"x" * (64 << 20) if scope["path"] == "/large" else b"ok")

    @asynccontextmanager
    async def serving(self) -> AsyncIterator[Served]:
        protocol = partial(BoundedProtocol, shared=self.shared)
        config, state = http_config(self.app, protocol), ServerState()

        def new() -> BoundedProtocol:
            self.protocols.append(protocol(config=config, server_state=state, app_state={}))
            return self.protocols[-1]

        server = await asyncio.get_running_loop().create_server(new, "127.0.0.1", 0)
        self._port = server.sockets[0].getsockname()[1]
        try:
            yield self
        finally:
            self.go_on.set()
            server.close()
            for caller in self._callers:
                caller.close()
            for connection in self.protocols:
                connection.transport.abort()

    async def caller(self) -> Caller:
        caller = Caller(*await asyncio.open_connection("127.0.0.1", self._port))
        self._callers.append(caller)
        return caller
