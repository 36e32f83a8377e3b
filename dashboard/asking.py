"""The cluster as the person who sends a request may see it.

@router.get("/")
async def overview(seen: Viewer) -> Response: ...
"""

from __future__ import annotations

from typing import Annotated

from fastapi import Depends, HTTPException, Request

from dashboard.access import Access, UndecidedError, UnknownPersonError
from dashboard.cluster import Cluster
from dashboard.views import Seen

_BEARER = "bearer "
THROUGH_PROXY = "x-muster-authorization"
"""In place of Authorization: the API server's proxy to Services takes that one off."""


def token_of(request: Request) -> str:
    """Return the bearer token of a request. Raises HTTPException (401) where there is none."""
    authorization = request.headers.get("authorization") or request.headers.get(THROUGH_PROXY, "")
    if not authorization.lower().startswith(_BEARER):
        raise HTTPException(401, "no token: open the dashboard with `muster ui`", {"WWW-Authenticate": "Bearer"})
    return authorization[len(_BEARER) :].strip()


async def seen(request: Request) -> Seen:
    """Return what the person who asks may see. Raises HTTPException: 401, or 503 if the API server does not answer."""
    cluster: Cluster = request.app.state.cluster
    access: Access = request.app.state.access
    try:
        return Seen(cluster, await access.person(token_of(request), cluster.namespaces()))
    except UnknownPersonError:
        raise HTTPException(401, "the cluster does not know this token", {"WWW-Authenticate": "Bearer"}) from None
    except UndecidedError as error:
        raise HTTPException(503, f"your rights cannot be looked up: {error}") from None


Viewer = Annotated[Seen, Depends(seen)]
