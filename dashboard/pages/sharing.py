"""Pages that are rendered once for all who ask for the same and see the same.

At a change of the cluster all open pages ask at once. They ask for the content alone: the name of the person stands
outside of it.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Awaitable, Callable
from functools import wraps

from fastapi import Request, Response

from dashboard.pages.rendering import wants_whole
from dashboard.views import Seen

KEPT_S = 1.0
"""Times on a page are relative to when it was rendered."""
_MOST = 64
"""The most contents that are kept: one of a large map is half a MiB."""
Page = Callable[..., Awaitable[Response]]
"""Takes the request, the sight of the cluster, and the parameters of the path."""


class Contents:
    """The contents of pages as of the present version of the cluster."""

    def __init__(self) -> None:
        self._known: OrderedDict[tuple[object, ...], tuple[float, int, asyncio.Future[Response]]] = OrderedDict()

    async def get(
        self, render: Callable[[Request, Seen], Awaitable[Response]], request: Request, seen: Seen
    ) -> Response:
        """Return what ``render`` makes of the request, or made of an equal one just now."""
        now = asyncio.get_running_loop().time()
        while self._known and not self._is_current(now, seen.version):
            self._known.popitem(last=False)
        anybody = seen.without_name()
        key = anybody.person, request.scope.get("root_path"), request.scope.get("raw_path"), request.url.query
        if key not in self._known:
            self._known[key] = now, seen.version, asyncio.ensure_future(render(request, anybody))
            if len(self._known) > _MOST:
                self._known.popitem(last=False)
        return await asyncio.shield(self._known[key][2])

    def _is_current(self, now: float, version: int) -> bool:
        """Whether the oldest content may be sent."""
        at, its, _ = next(iter(self._known.values()))
        return its == version and now - at < KEPT_S


def shared(page: Page) -> Page:
    """Let the content of the page be shared. A visit of the page is answered with a page of its own."""

    @wraps(page)
    async def answer(request: Request, seen: Seen, **path: str) -> Response:
        if wants_whole(request):
            return await page(request, seen, **path)
        contents: Contents = request.app.state.contents
        return await contents.get(lambda request, seen: page(request, seen, **path), request, seen)

    return answer
