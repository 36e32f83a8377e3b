"""The dashboard's application: the pages, the tenants' API with the extender's own models, and the stream of events."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

from fastapi import APIRouter, FastAPI, HTTPException, Request
from fastapi.responses import PlainTextResponse, StreamingResponse
from starlette.exceptions import HTTPException as AnyHTTPException

from dashboard import pages
from dashboard.access import Access
from dashboard.asking import Viewer
from dashboard.cluster import Cluster, UnansweredError
from dashboard.feed import Feed, router
from extender.api.models import PREFIX, DomainStock, Explanation, GangView, QueueView, TopologyView

KEEPALIVE_S = 15.0
"""A proxy closes a stream that is silent for long."""


def app(cluster: Cluster, access: Access, feed: Feed | None = None) -> FastAPI:
    """Return the application. Each request needs a token that ``access`` knows. ``feed``: where updates come in."""
    served = FastAPI(title="Muster dashboard", docs_url=None, redoc_url=None, openapi_url=None, redirect_slashes=False)
    served.state.cluster, served.state.access, served.state.contents = cluster, access, pages.Contents()
    served.include_router(_api(), prefix=PREFIX)
    if feed is not None:
        served.include_router(router(feed, access.is_extender))
    for path in ("/healthz", "/readyz"):
        served.add_api_route(path, _well, include_in_schema=False, response_class=PlainTextResponse)
    served.include_router(_events(cluster))
    served.include_router(pages.router)
    served.add_exception_handler(AnyHTTPException, pages.refused)
    return served


async def _well() -> str:
    """Answer probes. Without an extender the pages say so: a Service has to lead the extender here before that."""
    return "ok\n"


def _api() -> APIRouter:
    router = APIRouter()

    @router.get("/gangs")
    async def list_gangs(seen: Viewer) -> list[GangView]:
        return seen.gangs()

    @router.get("/gangs/{namespace}/{name:path}")
    async def get_gang(seen: Viewer, namespace: str, name: str) -> GangView:
        if (gang := seen.gang(namespace, name)) is None:
            raise HTTPException(404, f"there is no gang {namespace}/{name}, or you may not see it")
        return gang

    @router.get("/explain/{namespace}/{name:path}")
    async def explain_gang(seen: Viewer, namespace: str, name: str) -> Explanation:
        try:
            explanation = await seen.explain(namespace, name)
        except UnansweredError as error:
            raise HTTPException(503, str(error)) from None
        if explanation is None:
            raise HTTPException(404, f"there is no gang {namespace}/{name}, or you may not see it")
        return explanation

    @router.get("/queues")
    async def list_queues(seen: Viewer) -> list[QueueView]:
        return seen.queues()

    @router.get("/domains")
    async def list_domains(seen: Viewer) -> list[DomainStock]:
        return seen.domains()

    @router.get("/topology")
    async def get_topology(seen: Viewer) -> TopologyView:
        return seen.topology()

    return router


def _events(cluster: Cluster) -> APIRouter:
    """Each event is `change` with the version as its data: pages ask again for what they show.

    All browsers get it at the same instant, and share what is rendered. The extender sends changes twice a second.
    """
    router = APIRouter(include_in_schema=False)

    @router.get("/events")
    async def events(request: Request, _: Viewer) -> StreamingResponse:
        async def stream() -> AsyncIterator[str]:
            version = _seen_by(request, cluster.version)
            yield f"retry: 2000\nid: {version}\nevent: hello\ndata: {version}\n\n"
            while True:
                try:
                    await asyncio.wait_for(cluster.changes(version), KEEPALIVE_S)
                except TimeoutError:
                    yield ": alive\n\n"
                    continue
                version = cluster.version
                yield f"id: {version}\nevent: change\ndata: {version}\n\n"

        return StreamingResponse(stream(), media_type="text/event-stream", headers={"Cache-Control": "no-store"})

    return router


def _seen_by(request: Request, newest: int) -> int:
    """The version that the page shows; anything newer is sent at once.

    A number of an earlier process does not count.
    """
    shown = request.headers.get("last-event-id") or request.query_params.get("seen", "")
    if not (shown.isascii() and shown.isdigit() and len(shown) < 16):
        return newest
    return int(shown) if int(shown) <= newest else 0
