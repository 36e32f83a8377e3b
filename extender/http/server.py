"""The HTTP face: kube-scheduler's verbs (``verbs.py``), and health, metrics and /gangs for people."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from functools import partial

from pydantic_core import to_json
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from extender.http.hosts import Hosts
from extender.http.verbs import Receive, Scope, Send, Verbs, refuse
from extender.http.wire import MAX_CANDIDATES
from extender.observe.explain.explanation import explain
from extender.observe.metrics import Metrics
from extender.observe.queues import queues
from extender.observe.sight import Sight
from extender.observe.topology import domains, topology
from extender.observe.views import view
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


def _pages(runner: Runner, metrics: Metrics, sight: Sight, notice: Callable[[], str]) -> Starlette:
    asked = {
        "/healthz": partial(_healthz, runner),
        "/readyz": partial(_readyz, runner, sight, notice),
        "/metrics": partial(_metrics, metrics),
        "/topology": partial(_topology, runner),
        "/domains": partial(_domains, runner),
        "/queues": partial(_queues, runner),
        "/gangs": partial(_gangs, runner),
        "/gangs/{namespace}/{name}": partial(_gang, runner),
        "/explain/{namespace}/{name:path}": partial(_explain, runner),
    }
    return Starlette(routes=[Route(path, _page(answer)) for path, answer in asked.items()])


def _page(answer: Callable[[Request], Response]) -> Callable[[Request], Awaitable[Response]]:
    """On the event loop, where the core is: Starlette would call a plain function in a thread."""

    async def page(request: Request) -> Response:
        return answer(request)

    return page


def _healthz(runner: Runner, _: Request) -> Response:
    return Response("failed\n", 500) if runner.failed.is_set() else Response("ok\n")


def _readyz(runner: Runner, sight: Sight, notice: Callable[[], str], request: Request) -> Response:
    """A replica that stands by is ready: a rollout must not wait for it to lead."""
    text, status = "ok, standing by\n" if runner.standing_by else "ok\n", 200
    if dark := sight.dark():
        silent = ", ".join(f"{kind} for {age:.0f} s" for kind, age in sorted(dark.items()))
        text, status = f"the API server has said nothing about {silent}: what Muster knows is old\n", 503
    if paused := runner.quarantine.pause_notice:
        text, status = f"{paused}\n", 503
    if left_out := runner.quarantine.left_out_notice:
        text += f"{left_out}\n"
    if runner.failed.is_set() or not (runner.core.state.recovered or runner.standing_by):
        text, status = "the cluster has not been read yet\n", 503
    if said := notice():
        text += f"{said}\n"
    if "verbose" in request.query_params:
        text += f"serves schedulerName {', '.join(sorted(runner.core.state.schedulers))}\n"
        text += "".join(f"{kind}: last heard of {age:.0f} s ago\n" for kind, age in sorted(sight.ages().items()))
    return Response(text, status)


def _metrics(metrics: Metrics, _: Request) -> Response:
    return Response(metrics.render(), media_type="text/plain; version=0.0.4")


def _topology(runner: Runner, _: Request) -> Response:
    ledger = runner.core.state.claims
    return _told(topology(ledger.snapshot(), configured=bool(ledger.configured)))


def _domains(runner: Runner, _: Request) -> Response:
    return _told(domains(runner.core.state))


def _queues(runner: Runner, _: Request) -> Response:
    return _told(queues(runner.core, runner.clock()))


def _gangs(runner: Runner, _: Request) -> Response:
    now = runner.clock()
    return _told([view(gang, now) for _, gang in sorted(runner.core.state.workloads.items())])


def _gang(runner: Runner, request: Request) -> Response:
    found = runner.core.state.workloads.get(key := _key(request))
    return _unknown(key) if found is None else _told(view(found, runner.clock()))


def _explain(runner: Runner, request: Request) -> Response:
    core, now = runner.core, runner.clock()
    found = core.state.workloads.get(key := _key(request))
    return _unknown(key) if found is None else _told(explain(core.state, found, now, core.outlook(found, now)))


def _key(request: Request) -> GroupKey:
    return GroupKey(request.path_params["namespace"], request.path_params["name"])


def _unknown(key: GroupKey) -> Response:
    return _told({"detail": f"there is no gang {key.namespace}/{key.name}"}, 404)


def _told(content: object, status: int = 200) -> Response:
    """``content``: views, or what else becomes JSON."""
    return Response(to_json(content, inf_nan_mode="null"), status, media_type="application/json")
