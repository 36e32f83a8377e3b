"""The HTTP face: kube-scheduler's verbs (``verbs.py``), and health, metrics and /gangs for people."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from fastapi import FastAPI, HTTPException, Response

from extender.http.hosts import Hosts
from extender.http.verbs import Receive, Scope, Send, Verbs, refuse
from extender.http.wire import MAX_CANDIDATES
from extender.observe.explain.domains import DomainStock, domains
from extender.observe.explain.explanation import Explanation, explain
from extender.observe.metrics import Metrics
from extender.observe.queues import QueueView, queues
from extender.observe.sight import Sight
from extender.observe.topology import TopologyView, topology
from extender.observe.views import GangView, view
from extender.runtime.runner import Runner
from policies.model import GroupKey

App = Callable[[Scope, Receive, Send], Awaitable[None]]


def create_app(
    runner: Runner,
    metrics: Metrics,
    *,
    bind_timeout_s: float,
    max_body: int,
    max_candidates: int = MAX_CANDIDATES,
    sight: Sight | None = None,
    hosts: Hosts | None = None,
    notice: Callable[[], str] = lambda: "",
) -> App:
    """The ASGI application. ``bind_timeout_s`` is kube-scheduler's own limit for a bind, ``max_body`` is in bytes.
    ``notice``: what is worth saying of a replica that is ready; empty for nothing."""
    names = hosts or Hosts()
    verbs = Verbs(runner, metrics, bind_timeout_s=bind_timeout_s, max_body=max_body, max_candidates=max_candidates)
    pages = _pages(runner, metrics, sight or Sight(), notice)

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        if (refusal := names.refusal(scope["headers"])) is not None:
            metrics.refused("host")
            return await refuse(send, *refusal)
        return await (verbs if verbs.knows(scope) else pages)(scope, receive, send)

    return app


def _pages(runner: Runner, metrics: Metrics, sight: Sight, notice: Callable[[], str]) -> FastAPI:
    pages = FastAPI(title="Muster", docs_url=None, redoc_url=None, openapi_url=None)
    _tell_health(pages, runner, sight, notice)

    @pages.get("/metrics")
    async def scrape() -> Response:
        return Response(metrics.render(), media_type="text/plain; version=0.0.4")

    @pages.get("/topology")
    async def levels() -> TopologyView:
        ledger = runner.core.state.claims
        return topology(ledger.snapshot(), configured=bool(ledger.configured))

    @pages.get("/queues")
    async def all_queues() -> list[QueueView]:
        return queues(runner.core, runner.clock())

    @pages.get("/gangs")
    async def gangs() -> list[GangView]:
        now = runner.clock()
        return [view(gang, now) for _, gang in sorted(runner.core.state.workloads.items())]

    @pages.get("/gangs/{namespace}/{name}")
    async def gang(namespace: str, name: str) -> GangView:
        found = runner.core.state.workloads.get(GroupKey(namespace, name))
        if found is None:
            raise HTTPException(404, f"there is no gang {namespace}/{name}")
        return view(found, runner.clock())

    _answer_questions(pages, runner)
    return pages


def _tell_health(pages: FastAPI, runner: Runner, sight: Sight, notice: Callable[[], str]) -> None:
    @pages.get("/healthz")
    async def healthz() -> Response:
        return Response("failed\n", 500) if runner.failed.is_set() else Response("ok\n")

    @pages.get("/readyz")
    async def readyz(verbose: str | None = None) -> Response:
        """A replica that stands by is ready: a rollout must not wait for it to lead."""
        text, status = "ok, standing by\n" if runner.standing_by else "ok\n", 200
        if dark := sight.dark():
            silent = ", ".join(f"{kind} for {age:.0f} s" for kind, age in sorted(dark.items()))
            text, status = f"the API server has said nothing about {silent}: what Muster knows is old\n", 503
        if runner.failed.is_set() or not (runner.core.state.recovered or runner.standing_by):
            text, status = "the cluster has not been read yet\n", 503
        if said := notice():
            text += f"{said}\n"
        if verbose is not None:
            text += "".join(f"{kind}: last heard of {age:.0f} s ago\n" for kind, age in sorted(sight.ages().items()))
        return Response(text, status)


def _answer_questions(pages: FastAPI, runner: Runner) -> None:
    @pages.get("/explain/{namespace}/{name:path}")
    async def explained(namespace: str, name: str) -> Explanation:
        core, now = runner.core, runner.clock()
        found = core.state.workloads.get(GroupKey(namespace, name))
        if found is None:
            raise HTTPException(404, f"there is no gang {namespace}/{name}")
        return explain(core.state, found, now, core.outlook(found, now))

    @pages.get("/domains")
    async def stock() -> list[DomainStock]:
        return domains(runner.core.state)
