"""The HTTP face: kube-scheduler's four verbs, health, metrics, and /gangs for people."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from typing import Any

from fastapi import FastAPI, HTTPException, Request, Response

from extender import wire
from extender.metrics import Metrics
from extender.runner import Runner
from extender.views import GangView, view
from policies.model import GroupKey

_STARTING = "Muster is starting and has not read the cluster yet; kube-scheduler will try again"
_JSON = "application/json"


class _TooLargeError(Exception):
    """The request's body is over the limit."""


def create_app(runner: Runner, metrics: Metrics, *, bind_timeout_s: float, max_body: int) -> FastAPI:
    """The application. ``bind_timeout_s`` is kube-scheduler's own limit for a bind, ``max_body`` is in bytes."""
    app = FastAPI(title="Muster", docs_url=None, redoc_url=None, openapi_url=None)
    verbs = _Verbs(runner, bind_timeout_s)

    def route(name: str, verb: Callable[[bytes], bytes], failure: Callable[[str], bytes]) -> None:
        async def answer(request: Request) -> Response:
            started = time.perf_counter()
            try:
                content, outcome = verb(await _body(request, max_body)), "ok"
            except _TooLargeError:
                return Response(f"the body is larger than {max_body} bytes\n", 413)
            except (wire.WireError, _UnavailableError) as error:
                content, outcome = failure(str(error)), "error"
            metrics.verb_calls.labels(name, outcome).inc()
            metrics.verb_seconds.labels(name).observe(time.perf_counter() - started)
            return Response(content, media_type=_JSON)

        app.post(f"/{name}")(answer)

    route("filter", verbs.filter, wire.encode_filter_error)
    route("prioritize", verbs.prioritize, lambda _: wire.encode_priorities({}))
    route("preempt", verbs.preempt, lambda _: wire.encode_preempt({}, None))

    @app.post("/bind")
    async def bind(request: Request) -> Response:
        started = time.perf_counter()
        try:
            error = await verbs.bind(await _body(request, max_body), request)
        except _TooLargeError:
            return Response(f"the body is larger than {max_body} bytes\n", 413)
        except (wire.WireError, _UnavailableError) as unreadable:
            error = str(unreadable)
        outcome = "gone" if error is None else "error" if error else "ok"
        metrics.verb_calls.labels("bind", outcome).inc()
        metrics.verb_seconds.labels("bind").observe(time.perf_counter() - started)
        return Response(wire.encode_bind(error or ""), media_type=_JSON)

    _add_inspection(app, runner, metrics)
    return app


def _add_inspection(app: FastAPI, runner: Runner, metrics: Metrics) -> None:
    state = runner.core.state

    @app.get("/healthz")
    async def healthz() -> Response:
        return Response("failed\n", 500) if runner.failed.is_set() else Response("ok\n")

    @app.get("/readyz")
    async def readyz() -> Response:
        ready = state.synced and not runner.failed.is_set()
        return Response("ok\n") if ready else Response("the cluster has not been read yet\n", 503)

    @app.get("/metrics")
    async def scrape() -> Response:
        return Response(metrics.render(), media_type="text/plain; version=0.0.4")

    @app.get("/gangs")
    async def gangs() -> list[GangView]:
        now = runner.clock()
        return [view(gang, now) for _, gang in sorted(state.gangs.items())]

    @app.get("/gangs/{namespace}/{name}")
    async def gang(namespace: str, name: str) -> GangView:
        found = state.gangs.get(GroupKey(namespace, name))
        if found is None:
            raise HTTPException(404, f"there is no gang {namespace}/{name}")
        return view(found, runner.clock())


class _UnavailableError(Exception):
    """Muster cannot answer now; kube-scheduler is told to try again."""


class _Verbs:
    """From bytes to bytes, through the core."""

    def __init__(self, runner: Runner, bind_timeout_s: float) -> None:
        self._runner = runner
        self._bind_timeout_s = bind_timeout_s

    def filter(self, body: bytes) -> bytes:
        request = wire.decode_filter(body)
        self._require_ready()
        answer = self._runner.filter(request.pod, request.candidates)
        if answer is None:
            raise _UnavailableError(_STARTING)
        return wire.encode_filter(answer, request)

    def prioritize(self, body: bytes) -> bytes:
        """Planned pods never get here (one node is left), and single pods are kube-scheduler's to score."""
        return wire.encode_priorities(dict.fromkeys(wire.decode_filter(body).candidates, 0))

    def preempt(self, body: bytes) -> bytes:
        request = wire.decode_preempt(body)
        self._require_ready()
        answer = self._runner.preempt(request.pod, request.victims)
        return wire.encode_preempt(answer.victims if answer else {}, request)

    async def bind(self, body: bytes, request: Request) -> str | None:
        """The error, empty on success; None when kube-scheduler stopped waiting."""
        wanted = wire.decode_bind(body)
        self._require_ready()
        call, answer = self._runner.bind(wanted.uid, wanted.namespace, wanted.name, wanted.node, self._bind_timeout_s)
        if answer.done():
            return answer.result()
        gone: asyncio.Future[Any] = asyncio.ensure_future(_disconnected(request))
        try:
            await asyncio.wait([answer, gone], return_when=asyncio.FIRST_COMPLETED)
        finally:
            gone.cancel()
        if answer.done():
            return answer.result()
        self._runner.give_up(call)
        return None

    def _require_ready(self) -> None:
        if not self._runner.core.state.synced or self._runner.failed.is_set():
            raise _UnavailableError(_STARTING)


async def _disconnected(request: Request) -> None:
    while (await request.receive())["type"] != "http.disconnect":
        pass


async def _body(request: Request, limit: int) -> bytes:
    if int(request.headers.get("content-length") or 0) > limit:
        raise _TooLargeError
    chunks: list[bytes] = []
    size = 0
    async for chunk in request.stream():
        size += len(chunk)
        if size > limit:
            raise _TooLargeError
        chunks.append(chunk)
    return b"".join(chunks)
