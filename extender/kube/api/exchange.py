"""Requests with short answers, one after the other on kept connections: bytes out, bytes in.

Muster makes three of them for a pod. On aiohttp's session each takes 100 us more; lists, watches and requests by a
proxy use that session.
"""

from __future__ import annotations

import asyncio
import socket
import ssl
import time
from collections.abc import Callable, Mapping
from typing import NamedTuple
from urllib.parse import quote, urlsplit

from aiohappyeyeballs import start_connection
from httptools import HttpParserError, HttpResponseParser

IDLE_S = 15.0
"""Seconds after which an idle connection is not used again, because a middlebox may have forgotten it."""
LARGEST_ANSWER = 64 << 20
"""Most bytes of an answer. A page of 500 ordinary pods has five million."""
_NEXT_ADDRESS_S = 0.25
"""Seconds without an answer after which the next address of a server is tried, as in RFC 8305."""
_WRITTEN = "/:@!$&'()*+,;=~?%"
"""Characters that stay as they are in the target of a request; others could end it."""


class Answer(NamedTuple):
    status: int
    content: bytes
    retry_after: str | None


class Exchanges:
    """Requests to the server at this URL, on ``most`` connections. Without a context: plain text. Redirects are
    answers."""

    def __init__(self, url: str, context: ssl.SSLContext | None, server_name: str | None, *, most: int) -> None:
        address = urlsplit(url)
        self._base = address.path.rstrip("/")
        self._host, self._port = address.hostname or "", address.port or (80 if context is None else 443)
        self._named = address.netloc.rpartition("@")[2]
        self._context = context
        self._server_name = (server_name or self._host) if context is not None else None
        self._turns = asyncio.Semaphore(most)
        self._idle: list[_Exchange] = []  # the one used last is at the end

    async def ask(
        self,
        method: str,
        path: str,
        headers: Mapping[str, str],
        body: bytes,
        *,
        query: str = "",
        timeout_s: float,
        check: Callable[[], None] = lambda: None,
    ) -> Answer:
        """Send a request and return its answer. Raises OSError without an answer in time; the outcome is unknown then.

        ``check``: called once there is a connection, which may take seconds. If it raises, nothing is sent.
        """
        lines = "".join(f"{name}: {value}\r\n" for name, value in headers.items())
        target = quote(self._base + path, safe=_WRITTEN) + query
        head = f"{method} {target} HTTP/1.1\r\nHost: {self._named}\r\n{lines}Content-Length: {len(body)}\r\n\r\n"
        async with asyncio.timeout(timeout_s), self._turns:
            exchange = self._idle_exchange() or await self._connected()
            try:
                check()
                answer = await exchange.ask(head.encode() + body)
            except BaseException:
                exchange.close()
                raise
            self._idle.append(exchange)
            return answer

    def close(self) -> None:
        while self._idle:
            self._idle.pop().close()

    def _idle_exchange(self) -> _Exchange | None:
        while self._idle:
            exchange = self._idle.pop()
            if exchange.usable:
                return exchange
            exchange.close()
        return None

    async def _connected(self) -> _Exchange:
        loop = asyncio.get_running_loop()
        addresses = await loop.getaddrinfo(self._host, self._port, type=socket.SOCK_STREAM)
        connected = await start_connection(addresses, happy_eyeballs_delay=_NEXT_ADDRESS_S)
        connected.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        _, exchange = await loop.create_connection(
            _Exchange, sock=connected, ssl=self._context, server_hostname=self._server_name
        )
        return exchange


class _Exchange(asyncio.Protocol):
    """A connection with at most one request under way."""

    _transport: asyncio.Transport

    def __init__(self) -> None:
        self._parser = HttpResponseParser(self)
        self._answer: asyncio.Future[Answer] | None = None
        self._content = bytearray()
        self._retry_after: str | None = None
        self._used_at = time.monotonic()
        self._ended = False

    @property
    def usable(self) -> bool:
        return not self._ended and time.monotonic() - self._used_at < IDLE_S

    def ask(self, request: bytes) -> asyncio.Future[Answer]:
        self._answer = asyncio.get_running_loop().create_future()
        self._content, self._retry_after = bytearray(), None
        self._transport.write(request)
        return self._answer

    def close(self) -> None:
        self._ended = True
        self._transport.abort()

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        self._transport = transport

    def data_received(self, data: bytes) -> None:
        try:
            self._parser.feed_data(data)
        except HttpParserError as error:
            self._end(ConnectionError(f"the answer is no HTTP: {error}"))
            self.close()

    def connection_lost(self, exc: Exception | None) -> None:
        self._end(exc or ConnectionError("the connection was closed before the answer had come"))

    def on_header(self, name: bytes, value: bytes) -> None:
        if name.lower() == b"retry-after":
            self._retry_after = value.decode("latin-1")

    def on_body(self, body: bytes) -> None:
        self._content += body
        if len(self._content) > LARGEST_ANSWER:
            self._end(ConnectionError(f"the answer has more than {LARGEST_ANSWER} bytes"))
            self.close()

    def on_message_complete(self) -> None:
        status = self._parser.get_status_code()
        if status < 200:
            return
        answer, self._answer = self._answer, None
        self._used_at = time.monotonic()
        self._ended = self._ended or answer is None or not self._parser.should_keep_alive()
        if answer is not None and not answer.done():
            answer.set_result(Answer(status, bytes(self._content), self._retry_after))

    def _end(self, error: Exception) -> None:
        self._ended = True
        answer, self._answer = self._answer, None
        if answer is not None and not answer.done():
            answer.set_exception(error)
