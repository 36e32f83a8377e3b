"""kube-scheduler's four verbs over HTTP: from bytes to bytes, through the core.

This is a plain ASGI application in front of the one for people. Routing, exit stacks and middleware made up half of the
cost of a call, and kube-scheduler makes two calls for every pod.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any

from extender.http import wire
from extender.http.connections import WHOLE
from extender.observe.metrics import Metrics
from extender.runtime.runner import Runner

Scope = MutableMapping[str, Any]
Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]

LARGE = 512 << 10
"""Bytes above which bodies are read and answered one at a time; those of a cluster of 10,000 nodes are smaller."""
LARGEST_BIND = 64 << 10
"""Most bytes of the body of a bind, which has four names."""
_STARTING = "Muster is starting and has not read the cluster yet; kube-scheduler will try again"
_STANDING_BY = (
    "this replica of Muster stands by: its kube-scheduler does not hold the Lease; kube-scheduler will try again"
)
_TAKEOVER_S = 1.0
"""Seconds that a call waits on a replica that stands by, less than the httpTimeout of filter.

Its kube-scheduler calls only once it is elected, and then the Lease will soon show that here, too.
"""


class UnavailableError(Exception):
    """Muster cannot answer now; kube-scheduler should try again."""


class TooLargeError(Exception):
    """The request's body is over the limit."""


class Verbs:
    """Answers ``POST /filter``, ``/prioritize``, ``/preempt`` and ``/bind``; failures go in the body of a 200.

    ``bind_timeout_s``: kube-scheduler's own limit for a bind.
    ``max_body``: bytes.
    ``max_candidates``: nodes.
    """

    def __init__(
        self,
        runner: Runner,
        metrics: Metrics,
        *,
        bind_timeout_s: float,
        max_body: int,
        max_candidates: int = wire.MAX_CANDIDATES,
    ) -> None:
        self._runner = runner
        self._metrics = metrics
        self._bind_timeout_s = bind_timeout_s
        self._max_body = max_body
        self._max_candidates = max_candidates
        self._large = asyncio.Lock()
        self._answers = {"filter": self._filter, "prioritize": self._prioritize, "preempt": self._preempt}
        self._failures: dict[str, Callable[[str], bytes]] = {
            "filter": wire.encode_filter_error,
            "prioritize": lambda _: wire.encode_priorities((), ()),
            "preempt": lambda _: wire.encode_preempt({}, None),
            "bind": wire.encode_bind,
        }

    def knows(self, scope: Scope) -> bool:
        """Whether this request is for one of the verbs."""
        return scope["type"] == "http" and scope["path"][1:] in self._failures

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["method"] != "POST":
            return await refuse(send, 405, "kube-scheduler calls this with POST\n")
        if any(name == b"origin" for name, _ in scope["headers"]):
            # A web page must not bind pods through a forwarded port.
            self._metrics.refused("browser")
            return await refuse(send, 403, "not for browsers\n")
        verb = scope["path"][1:]
        limit = min(self._max_body, LARGEST_BIND) if verb == "bind" else self._max_body
        started = time.perf_counter()
        body = Body(scope, receive, limit)
        try:
            if await body.read(LARGE):
                return await self._reply_to(verb, body, scope, receive, send, started)
            async with self._large:
                await body.read(limit)
                began = time.perf_counter()
                await self._reply_to(verb, body, scope, receive, send, started)
                # Leave as much time for other requests before the next large one.
                await asyncio.sleep(time.perf_counter() - began)
        except TooLargeError:
            self._metrics.refused("body")
            await refuse(send, 413, f"the body is larger than {limit} bytes\n")

    async def _reply_to(
        self, verb: str, body: Body, scope: Scope, receive: Receive, send: Send, started: float
    ) -> None:
        try:
            if self._runner.standing_by or self._recovering():
                await self._take_over()
            content, outcome = await self._answer(verb, bytes(body.content), receive)
        except (wire.WireError, UnavailableError) as error:
            content, outcome = self._failures[verb](str(error)), "error"
        self._metrics.answered(verb, outcome, time.perf_counter() - started)
        if (whole := scope.get("extensions", {}).get(WHOLE)) is not None:
            whole["send"](content)
        else:
            await reply(send, content)

    async def _answer(self, verb: str, body: bytes, receive: Receive) -> tuple[bytes, str]:
        if verb != "bind":
            return self._answers[verb](body), "ok"
        error = await self._bind(body, receive)
        return wire.encode_bind(error or ""), "gone" if error is None else "error" if error else "ok"

    def _filter(self, body: bytes) -> bytes:
        request = wire.decode_filter(body, self._max_candidates)
        self._require_ready()
        answer = self._runner.filter(request.pod, request.candidates)
        if answer is None:
            raise UnavailableError(_STARTING)
        return wire.encode_filter(answer, request)

    def _prioritize(self, body: bytes) -> bytes:
        """Mark nodes for pods without a plan. For a planned pod one node is left, and kube-scheduler does not ask."""
        request = wire.decode_filter(body, self._max_candidates)
        self._require_ready()
        marks = self._runner.core.prioritize(request.pod, request.candidates)
        return wire.encode_priorities(request.candidates, marks)

    def _preempt(self, body: bytes) -> bytes:
        request = wire.decode_preempt(body, self._max_candidates)
        self._require_ready()
        answer = self._runner.preempt(request.pod, request.victims)
        return wire.encode_preempt(answer.victims if answer else {}, request)

    async def _bind(self, body: bytes, receive: Receive) -> str | None:
        """The error of the bind, empty on success; None if kube-scheduler stopped waiting."""
        wanted = wire.decode_bind(body)
        self._require_ready()
        call, answer = self._runner.bind(wanted.uid, wanted.namespace, wanted.name, wanted.node, self._bind_timeout_s)
        if not answer.done():
            self._metrics.holds.inc()
            watching = asyncio.ensure_future(self._give_up_when_gone(call, receive))
            try:
                await asyncio.wait([answer])
            finally:
                watching.cancel()
        return None if answer.cancelled() else answer.result()

    async def _give_up_when_gone(self, call: int, receive: Receive) -> None:
        while (await receive())["type"] != "http.disconnect":
            pass
        self._runner.give_up(call)

    def _recovering(self) -> bool:
        """Whether the core has read the cluster, and still recovers what was started before a restart, which takes
        moments."""
        state = self._runner.core.state
        return state.process.synced and not state.process.recovered and not self._runner.failed.is_set()

    async def _take_over(self) -> None:
        try:
            await asyncio.wait_for(self._runner.acting.wait(), _TAKEOVER_S)
        except TimeoutError:
            raise UnavailableError(_STANDING_BY) from None

    def _require_ready(self) -> None:
        if not self._runner.core.state.process.recovered or self._runner.failed.is_set():
            raise UnavailableError(_STARTING)


class Body:
    """The body of a request, as far as it has been read."""

    def __init__(self, scope: Scope, receive: Receive, limit: int) -> None:
        self.content = bytearray()
        self._receive = receive
        self._limit = limit
        self._more = True
        stated = next((value for name, value in scope["headers"] if name == b"content-length"), b"0")
        self._stated = int(stated[:20]) if stated.isdigit() else 0

    async def read(self, most: int) -> bool:
        """Read to the end, or to ``most`` bytes; False if there is more. Raises TooLargeError."""
        while self._more and max(len(self.content), self._stated) <= min(most, self._limit):
            message = await self._receive()
            self.content += message.get("body", b"")
            self._more = message.get("more_body", False)
        if max(len(self.content), self._stated) > self._limit:
            raise TooLargeError
        return not self._more


async def reply(send: Send, content: bytes, *, status: int = 200, kind: bytes = b"application/json") -> None:
    """Send the whole answer to a request."""
    headers = [(b"content-type", kind), (b"content-length", str(len(content)).encode())]
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": content})


async def refuse(send: Send, status: int, text: str) -> None:
    """Answer in plain text a request that is no call of kube-scheduler."""
    await reply(send, text.encode(), status=status, kind=b"text/plain")
