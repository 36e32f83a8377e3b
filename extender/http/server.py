"""The HTTP server: kube-scheduler's verbs (``verbs.py``), the API (``api.py``), the pages of health and metrics."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from functools import partial

from fastapi import FastAPI, Request, Response

from extender.http.api import api
from extender.http.hosts import Hosts
from extender.http.verbs import Receive, Scope, Send, Verbs, refuse
from extender.http.wire import MAX_CANDIDATES
from extender.observe.metrics import Metrics
from extender.observe.sight import Sight
from extender.observe.utilisation import UNASKED, Utilisation
from extender.runtime.runner import Runner
from extender.runtime.verifier import Verifier

App = Callable[[Scope, Receive, Send], Awaitable[None]]


def create_app(
    runner: Runner,
    metrics: Metrics,
    *,
    verifier: Verifier | None = None,
    utilisation: Callable[[], Utilisation] = lambda: UNASKED,
    bind_timeout_s: float,
    max_body: int,
    max_candidates: int = MAX_CANDIDATES,
    sight: Sight | None = None,
    hosts: Hosts | None = None,
    notice: Callable[[], str] = lambda: "",
) -> App:
    """The ASGI application.

    ``bind_timeout_s``: kube-scheduler's own limit for a bind.
    ``max_body``: bytes.
    ``notice``: a text about a replica that is ready; empty for nothing.
    """
    names = hosts or Hosts()
    verbs = Verbs(runner, metrics, bind_timeout_s=bind_timeout_s, max_body=max_body, max_candidates=max_candidates)
    pages = _pages(runner, metrics, sight or Sight(), notice, api(runner, verifier, utilisation))

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        if (refusal := names.refusal(scope["headers"])) is not None:
            metrics.refused("host")
            return await refuse(send, *refusal)
        return await (verbs if verbs.knows(scope) else pages)(scope, receive, send)

    return app


def _pages(runner: Runner, metrics: Metrics, sight: Sight, notice: Callable[[], str], pages: FastAPI) -> FastAPI:
    """All paths except the verbs. Probes and Prometheus read plain text, which is no part of the API."""
    text = {"/healthz": partial(_healthz, runner), "/readyz": partial(_readyz, runner, sight, notice)}
    for path, answer in text.items():
        pages.add_route(path, _page(answer), include_in_schema=False)
    pages.add_route("/metrics", partial(_metrics, metrics), include_in_schema=False)
    return pages


def _page(answer: Callable[[Request], Response]) -> Callable[[Request], Awaitable[Response]]:
    """A page on the event loop, where the core is: Starlette would call a plain function in a thread."""

    async def page(request: Request) -> Response:
        return answer(request)

    return page


def _healthz(runner: Runner, _: Request) -> Response:
    return Response("failed\n", 500) if runner.failed.is_set() else Response("ok\n")


def _readyz(runner: Runner, sight: Sight, notice: Callable[[], str], request: Request) -> Response:
    """Whether the replica is ready. One that stands by is: a rollout must not wait for it to lead."""
    text, status = "ok, standing by\n" if runner.standing_by else "ok\n", 200
    if dark := sight.dark():
        silent = ", ".join(f"{kind} for {age:.0f} s" for kind, age in sorted(dark.items()))
        text, status = f"the API server has said nothing about {silent}: what Muster knows is old\n", 503
    if paused := runner.quarantine.pause_notice:
        text, status = f"{paused}\n", 503
    if left_out := runner.quarantine.left_out_notice:
        text += f"{left_out}\n"
    if runner.failed.is_set() or not (runner.core.state.process.recovered or runner.standing_by):
        text, status = "the cluster has not been read yet\n", 503
    if notice_text := notice():
        text += f"{notice_text}\n"
    if "verbose" in request.query_params:
        text += f"serves schedulerName {', '.join(sorted(runner.core.state.schedulers))}\n"
        text += "".join(f"{kind}: last heard of {age:.0f} s ago\n" for kind, age in sorted(sight.ages().items()))
    return Response(text, status)


async def _metrics(metrics: Metrics, _: Request) -> Response:
    return Response(await metrics.page(), media_type="text/plain; version=0.0.4")
