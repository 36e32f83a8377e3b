"""The connections of callers: how many, how long each may take, and how many bytes of incomplete requests are kept.

This is uvicorn's protocol with bounds. A caller that sends slowly or much does not block others. With too many
connections, or too many bytes of incomplete requests, the connection that has kept Muster waiting longest is closed. A
call of kube-scheduler arrives in milliseconds.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import uvicorn
from uvicorn.protocols.http.httptools_impl import STATUS_LINE, HttpToolsProtocol

log = logging.getLogger("muster")

MAX_HEAD = 16 << 10
"""Most bytes of a request without its body; kube-scheduler sends about 200."""
MAX_HEADERS = 100
WHOLE = "muster.whole"
"""An extension of a request's scope: its ``send`` takes a whole JSON answer.

uvicorn sends head and content in two packets, which takes 60 us more.
"""
IDLE_S = 150.0
"""Seconds that an idle connection is kept.

kube-scheduler's idle pool keeps connections for 90 s, and never repeats a POST that hits a closed one.
"""
ARRIVAL_S = 10.0
"""Most seconds from the first byte of a request to its last."""
DRAIN_S = 10.0
"""Seconds that an answer is kept while the caller does not read it."""
BACKLOG = 8192
"""Waiting connections. Each held bind has one, and a burst of thousands must not be refused."""
_SLICE = 16 << 10
_JSON = b"content-type: application/json\r\ncontent-length: %d\r\n%b\r\n"
_TOO_LARGE = f"the head of a request has at most {MAX_HEAD} bytes and {MAX_HEADERS} headers\n"
_TOO_SLOW = f"the request did not arrive within {ARRIVAL_S:.0f} s\n"


class Connections:
    """All connections together. ``refused``: called with the cause whenever one is closed."""

    def __init__(
        self, most: int = 16_384, most_bytes: int = 64 << 20, refused: Callable[[str], None] = lambda _: None
    ) -> None:
        self.refused = refused
        self.arriving_bytes = 0
        """Bytes kept of incomplete requests."""
        self._most = most
        self._most_bytes = most_bytes
        self._open: set[BoundedProtocol] = set()
        self._waiting: dict[BoundedProtocol, None] = {}
        """Connections that wait for a request or the rest of it; the longest first."""
        self._arriving: dict[BoundedProtocol, int] = {}
        """The bytes of each arriving request; the longest first."""

    def opened(self, bounded_protocol: BoundedProtocol) -> None:
        self._open.add(bounded_protocol)
        self.waits(bounded_protocol)
        if len(self._open) > self._most:
            next(iter(self._waiting)).evict()

    def closed(self, bounded_protocol: BoundedProtocol) -> None:
        self._open.discard(bounded_protocol)
        self.answering(bounded_protocol)

    def waits(self, bounded_protocol: BoundedProtocol) -> None:
        """Record that the connection waits for its next request."""
        self._waiting[bounded_protocol] = None

    def begins(self, bounded_protocol: BoundedProtocol) -> None:
        """Record that a request has begun to arrive."""
        self.answering(bounded_protocol)
        self._waiting[bounded_protocol] = None
        self._arriving[bounded_protocol] = 0

    def grows(self, bounded_protocol: BoundedProtocol, size: int) -> None:
        """Record that ``size`` more bytes of a request have arrived."""
        self._arriving[bounded_protocol] += size
        self.arriving_bytes += size
        while self.arriving_bytes > self._most_bytes:
            next(iter(self._arriving)).evict()

    def answering(self, bounded_protocol: BoundedProtocol) -> None:
        """Record that the request has arrived in full."""
        self._waiting.pop(bounded_protocol, None)
        self.arriving_bytes -= self._arriving.pop(bounded_protocol, 0)


class BoundedProtocol(HttpToolsProtocol):
    """A connection with bounds.

    ``shared``: the connections with which it shares bounds.
    ``allowed``: with names, only a caller whose certificate has one of them is answered.
    """

    def __init__(self, *args: Any, shared: Connections, allowed: tuple[str, ...] = (), **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.shared = shared
        self._allowed = allowed
        self._refused = False
        self._arriving = False
        self._received = self._body = self._head = 0
        self._deadline: asyncio.TimerHandle | None = None
        self._unread: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._within(IDLE_S, self.transport.close)
        self.shared.opened(self)
        names = list(_names(transport.get_extra_info("peercert") or {})) if self._allowed else []
        if self._allowed and not any(name in self._allowed for name in names):
            log.warning("refused a caller whose certificate is for %s", ", ".join(map(repr, names)) or "nobody")
            self._refused = True
            transport.abort()

    def connection_lost(self, exc: Exception | None) -> None:
        self.shared.closed(self)
        self._within(None)
        self.resume_writing()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        # In slices, so that nothing is parsed after a refusal.
        for at in range(0, len(data), _SLICE):
            if self._refused or self.transport.is_closing():
                return
            piece = data[at : at + _SLICE]
            super().data_received(piece)
            if self._arriving and not self._refused:
                self._received += len(piece)
                if self._received - self._body > MAX_HEAD + self._body // 8:
                    self._refuse("headers", 431, _TOO_LARGE)
                else:
                    self.shared.grows(self, len(piece))

    def on_message_begin(self) -> None:
        if self._refused:
            return None
        if self.cycle is not None and not self.cycle.response_complete:
            return self._answer_the_last()
        super().on_message_begin()
        self._arriving = True
        self._received = self._body = self._head = 0
        self.shared.begins(self)
        self._within(ARRIVAL_S, lambda: self._refuse("slow", 408, _TOO_SLOW))

    def on_url(self, url: bytes) -> None:
        if not self._refused:
            self._head += len(url)
            super().on_url(url)

    def on_header(self, name: bytes, value: bytes) -> None:
        self._head += len(name) + len(value)
        if self._refused:
            return
        if self._head > MAX_HEAD or len(self.headers) >= MAX_HEADERS:
            self._refuse("headers", 431, _TOO_LARGE)
        else:
            super().on_header(name, value)

    def on_headers_complete(self) -> None:
        if not self._refused:
            self.scope["extensions"] = {WHOLE: {"send": self.answer}}
            super().on_headers_complete()

    def on_body(self, body: bytes) -> None:
        if not self._refused:
            self._body += len(body)
            super().on_body(body)

    def on_message_complete(self) -> None:
        if not self._refused:
            self._arriving = False
            self._within(None)
            self.shared.answering(self)
            super().on_message_complete()

    def answer(self, content: bytes) -> None:
        """Send this, as JSON, to the request under way."""
        cycle = self.cycle
        if cycle.disconnected or cycle.response_started:
            return
        cycle.response_started = cycle.response_complete = True
        cycle.message_event.set()
        end = b"" if cycle.keep_alive else b"connection: close\r\n"
        self.transport.write(STATUS_LINE[200] + _JSON % (len(content), end) + content)
        if not cycle.keep_alive:
            self.transport.close()
        cycle.on_response()

    def on_response_complete(self) -> None:
        if self._arriving:
            # The answer came before the request arrived in full; the rest is not read.
            self.transport.close()
        super().on_response_complete()
        if self.transport.is_closing():
            self._within(DRAIN_S, self.transport.abort)
        else:
            self._within(IDLE_S, self.transport.close)
            self.shared.waits(self)

    def pause_writing(self) -> None:
        super().pause_writing()
        if self._unread is None:
            self._unread = self.loop.call_later(DRAIN_S, self._nobody_reads)

    def resume_writing(self) -> None:
        super().resume_writing()
        if self._unread is not None:
            self._unread.cancel()
            self._unread = None

    def send_400_response(self, msg: str) -> None:
        self._refuse("malformed", 400, f"{msg}\n")

    def evict(self) -> None:
        """Close the connection, because others need the room."""
        self._refuse("connections")
        self.shared.closed(self)
        self.transport.abort()

    def _answer_the_last(self) -> None:
        """Answer the request under way, then close. kube-scheduler never sends a request before the last answer."""
        self._refused = True
        self.shared.refused("malformed")
        self.cycle.keep_alive = False
        # uvicorn copies this header of the request to the answer.
        self.cycle.scope["headers"] = [*self.cycle.scope["headers"], (b"connection", b"close")]

    def _nobody_reads(self) -> None:
        self.shared.refused("slow")
        self.transport.abort()

    def _refuse(self, cause: str, status: int | None = None, text: str = "") -> None:
        """Close the connection, with an answer where that is possible; nothing more is read."""
        if self._refused:
            return
        self._refused = True
        self.shared.refused(cause)
        self.shared.answering(self)
        if status is not None and (
            self.cycle is None or self.cycle.response_complete or not self.cycle.response_started
        ):
            if self.cycle is not None:
                self.cycle.disconnected = True
                self.cycle.message_event.set()
            head = b"content-type: text/plain; charset=utf-8\r\nconnection: close\r\ncontent-length: %d\r\n\r\n"
            self.transport.write(STATUS_LINE[status] + head % len(text) + text.encode())
        self.transport.close()
        self._within(DRAIN_S, self.transport.abort)

    def _within(self, seconds: float | None, then: Callable[[], object] = lambda: None) -> None:
        """Call ``then`` after ``seconds`` unless this is called again before; None: no limit."""
        if self._deadline is not None:
            self._deadline.cancel()
        self._deadline = None if seconds is None else self.loop.call_later(seconds, then)


def http_config(app: Any, protocol: Callable[..., BoundedProtocol]) -> uvicorn.Config:
    """The loaded configuration with which uvicorn serves the application, on bounded connections."""
    config = uvicorn.Config(
        app,
        interface="asgi3",
        http=protocol,  # type: ignore[arg-type]
        ws="none",
        loop="none",
        timeout_keep_alive=int(IDLE_S),
        timeout_graceful_shutdown=5,
        backlog=BACKLOG,
        access_log=False,
        log_config=None,  # its loggers write to Muster's log
        log_level="error",  # callers that send no HTTP are counted, and do not fill the log
        lifespan="off",
        proxy_headers=False,
        server_header=False,
        date_header=False,
    )
    config.load()
    return config


def _names(certificate: Mapping[str, Any]) -> Iterator[str]:
    """Yield the common names of the subject, and its DNS and URI names."""
    for attributes in certificate.get("subject", ()):
        yield from (value for key, value in attributes if key == "commonName")
    yield from (value for kind, value in certificate.get("subjectAltName", ()) if kind in ("DNS", "URI"))
