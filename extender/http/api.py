"""The API for people and programs, read-only: each path answers with a model of ``extender.api.models``.

docs/api.md describes it. Every failure is answered as a Problem.
"""

from __future__ import annotations

from collections.abc import Callable
from http import HTTPStatus
from typing import Annotated, Any

from fastapi import APIRouter, FastAPI, HTTPException, Path, Request, Response
from starlette.exceptions import HTTPException as AnyHTTPException

from extender.api.models import (
    BY_STATUS,
    NO_SUCH_GANG,
    PREFIX,
    PROBLEM,
    VERSION,
    ComputeDomainView,
    DefragView,
    DomainStock,
    Explanation,
    GangView,
    Problem,
    QueueView,
    TopologyView,
    UtilisationReport,
    VerifyView,
)
from extender.core.workload.workload import Workload
from extender.http.verbs import Receive, Scope, Send
from extender.observe.defrag import defrag
from extender.observe.explain.explanation import with_all_names
from extender.observe.explain.slices import RestlessError, explained
from extender.observe.queues import queues
from extender.observe.topology import compute_domains, domains, topology
from extender.observe.utilisation import UNASKED, Utilisation
from extender.observe.verified import UNCHECKED, verified
from extender.observe.views import view
from extender.runtime.runner import Runner
from extender.runtime.slices import Slices
from extender.runtime.verifier import Verifier
from policies.model import GroupKey
from policies.steps import Steps

Namespace = Annotated[str, Path(description="Namespace of the gang.", examples=["team-a"])]
Name = Annotated[str, Path(description="Name of the gang; of a job, its kind and name.", examples=["job-train"])]


_VIEW = 60
"""The cost of the view of a gang, in units of ``Steps``."""
_REFUSED: dict[int | str, dict[str, Any]] = {
    "default": {"model": Problem, "description": "Why the request was not answered."}
}


class NoSuchGangError(HTTPException):
    """Muster knows no gang of that name."""

    def __init__(self, key: GroupKey) -> None:
        super().__init__(404, f"there is no gang {key.namespace}/{key.name}")


class Api(FastAPI):
    """The application, without FastAPI's own pages, which load their scripts from the internet."""

    def __init__(self) -> None:
        super().__init__(
            title="Muster",
            version=VERSION,
            summary="Gangs, queues and topology of one cluster, read-only.",
            openapi_url=f"{PREFIX}/openapi.json",
            docs_url=None,
            redoc_url=None,
            redirect_slashes=False,
            generate_unique_id_function=lambda route: route.name,
            exception_handlers={AnyHTTPException: _refused, Exception: _failed},
        )

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer HEAD like GET. The server leaves out the body by the scope that it has kept."""
        if scope.get("method") == "HEAD":
            scope = {**scope, "method": "GET"}
        await super().__call__(scope, receive, send)

    def openapi(self) -> dict[str, Any]:
        """The OpenAPI document, with the content type of problems."""
        if self.openapi_schema is None:
            for path in super().openapi()["paths"].values():
                for status, answer in path["get"]["responses"].items():
                    if status != "200":
                        answer["content"] = {PROBLEM: answer["content"]["application/json"]}
        assert self.openapi_schema is not None  # noqa: S101 - the caller above has made it
        return self.openapi_schema


def api(
    runner: Runner, verifier: Verifier | None = None, utilisation: Callable[[], Utilisation] = lambda: UNASKED
) -> Api:
    """The application. Long lists are made in slices: each entry describes a moment since the request."""
    gangs = _Gangs(runner, utilisation)
    routes = _gang_routes(runner, gangs), _cluster_routes(runner, gangs)
    app = Api()
    for router in (*routes, _utilisation(runner, utilisation)):
        app.include_router(router, prefix=PREFIX)
    app.include_router(_self_check(runner, verifier), prefix=PREFIX)
    # Paths from before the API had versions.
    for route in routes:
        app.include_router(route, include_in_schema=False)
    return app


class _Gangs:
    """The gangs as they are shown, with their utilisation."""

    def __init__(self, runner: Runner, utilisation: Callable[[], Utilisation]) -> None:
        self._runner, self._utilisation = runner, utilisation

    def all(self) -> Steps[bytes]:
        """All gangs as JSON."""
        state, now = self._runner.core.state, self._runner.clock()
        texts: list[str] = []
        for key in sorted(state.workloads):
            if (gang := state.workloads.get(key)) is not None:
                texts.append(self._measured(view(state, gang, now), gang, now).model_dump_json())
            yield _VIEW
        return f"[{','.join(texts)}]".encode()

    def one(self, key: GroupKey) -> GangView:
        """Raises NoSuchGangError."""
        gang, now = self.of(key), self._runner.clock()
        return self._measured(view(self._runner.core.state, gang, now), gang, now)

    async def explained(self, key: GroupKey) -> Explanation:
        """Raises NoSuchGangError, and HTTPException (503) if the gang changes all the time."""
        try:
            explanation, _ = await explained(self._runner, key)
        except RestlessError as error:
            raise HTTPException(503, str(error)) from None
        if explanation is None:
            raise NoSuchGangError(key)
        shown = with_all_names(explanation)
        self._measured(shown.gang, self.of(key), self._runner.clock())
        return shown

    async def queues(self) -> list[QueueView]:
        """The queues, with the utilisation of all their gangs."""
        core, now = self._runner.core, self._runner.clock()
        slices = Slices()
        loads = await slices.run(self._utilisation().by_queue(core.state, now))
        shown = await slices.run(queues(core, now))
        for queue in shown:
            queue.utilisation = loads.get(queue.name) if queue.kind == "ClusterQueue" else None
        return shown

    def of(self, key: GroupKey) -> Workload:
        """Raises NoSuchGangError."""
        if (gang := self._runner.core.state.workloads.get(key)) is None:
            raise NoSuchGangError(key)
        return gang

    def _measured(self, shown: GangView, gang: Workload, now: float) -> GangView:
        shown.utilisation = self._utilisation().of_gang(self._runner.core.state, gang, now)
        return shown


def _gang_routes(runner: Runner, gangs: _Gangs) -> APIRouter:
    """The routes about gangs.

    Each function is a coroutine, because FastAPI calls plain ones in a thread, away from the core's loop.
    """
    router = APIRouter(responses=_REFUSED)
    unknown: dict[int | str, dict[str, Any]] = {404: {"model": Problem, "description": "There is no such gang."}}

    @router.get("/gangs", summary="List all gangs, by namespace and name", response_model=list[GangView])
    async def list_gangs() -> Response:
        return Response(await Slices().run(gangs.all()), media_type="application/json")

    @router.get("/gangs/{namespace}/{name:path}", summary="Show one gang", responses=unknown)
    async def get_gang(namespace: Namespace, name: Name) -> GangView:
        return gangs.one(GroupKey(namespace, name))

    @router.get(
        "/explain/{namespace}/{name:path}",
        summary="Explain why a gang waits or where it runs, and what would make it start",
        responses=unknown,
    )
    async def explain_gang(namespace: Namespace, name: Name) -> Explanation:
        return await gangs.explained(GroupKey(namespace, name))

    @router.get(
        "/defrag/{namespace}/{name:path}",
        summary="Show which restartable workloads would have to move so that a waiting gang has room",
        responses=unknown,
    )
    async def defrag_gang(namespace: Namespace, name: Name) -> DefragView:
        gang = gangs.of(GroupKey(namespace, name))
        return defrag(gang, runner.core.moves_for(gang, runner.clock()))

    return router


def _cluster_routes(runner: Runner, gangs: _Gangs) -> APIRouter:
    """The routes about queues and nodes."""
    router = APIRouter(responses=_REFUSED)

    @router.get("/queues", summary="List Cohorts, then ClusterQueues, then LocalQueues, by name")
    async def list_queues() -> list[QueueView]:
        return await gangs.queues()

    @router.get("/domains", summary="List all topology domains, the nearest level first")
    async def list_domains() -> list[DomainStock]:
        return domains(runner.core.state)

    @router.get("/compute-domains", summary="List all ComputeDomains of NVIDIA's driver, by namespace and name")
    async def list_compute_domains() -> list[ComputeDomainView]:
        return compute_domains(runner.core.state)

    @router.get("/topology", summary="Show the levels of the topology and their domains")
    async def get_topology() -> TopologyView:
        ledger = runner.core.state.claims
        return topology(ledger.snapshot(), configured=bool(ledger.configured))

    return router


def _utilisation(runner: Runner, utilisation: Callable[[], Utilisation]) -> APIRouter:
    """The route of the utilisation of nodes."""
    router = APIRouter(responses=_REFUSED)

    @router.get("/utilisation", summary="Show how busy the GPUs of each node are, and where that is known from")
    async def get_utilisation() -> UtilisationReport:
        return await Slices().run(utilisation().report(runner.core.state, runner.clock()))

    return router


def _self_check(runner: Runner, verifier: Verifier | None) -> APIRouter:
    """The route of the self-check. ``begin`` may have any value, like ``verbose`` of /readyz, so no request is
    malformed."""
    router = APIRouter(responses=_REFUSED)
    text = "Begin a round of checks, unless one is under way; any value."
    begin = {"name": "begin", "in": "query", "required": False, "description": text, "schema": {"type": "string"}}

    @router.get(
        "/verify",
        summary="Show what the last self-check found, and begin another one if asked to",
        openapi_extra={"parameters": [begin]},
    )
    async def get_verify(request: Request) -> VerifyView:
        if verifier is None:
            return UNCHECKED
        if "begin" in request.query_params:
            verifier.begin()
        return verified(verifier, runner.clock())

    return router


async def _refused(request: Request, error: Exception) -> Response:
    """Answer a request that this API does not serve."""
    assert isinstance(error, AnyHTTPException)  # noqa: S101 - it is registered for these
    match error:
        case NoSuchGangError():
            return _problem(404, error.detail, kind=NO_SUCH_GANG)
        case AnyHTTPException(status_code=404):
            detail = f"there is nothing at {request.url.path}: {PREFIX}/openapi.json lists what there is"
        case AnyHTTPException(status_code=405):
            detail = f"{request.method} is not answered: this API can be read, and nothing else"
        case _:
            detail = error.detail
    return _problem(error.status_code, detail, headers=error.headers)


async def _failed(request: Request, _: Exception) -> Response:
    """Answer a request on which Muster has failed. The server logs the exception."""
    return _problem(500, f"Muster failed to answer {request.url.path}: its log says why")


def _problem(status: int, detail: str, *, kind: str = BY_STATUS, headers: Any = None) -> Response:
    problem = Problem(type=kind, title=HTTPStatus(status).phrase, status=status, detail=detail)
    return Response(problem.model_dump_json(), status, headers, media_type=PROBLEM)
