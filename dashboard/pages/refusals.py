"""The page that a browser gets in place of one that it cannot have: why, and what to do."""

from __future__ import annotations

from http import HTTPStatus

from fastapi import Request, Response
from fastapi.exception_handlers import http_exception_handler
from starlette.exceptions import HTTPException

from dashboard.pages.rendering import render
from extender.api.models import PREFIX


async def refused(request: Request, error: Exception) -> Response:
    """Answer a request that was refused: programs get JSON, browsers a page."""
    assert isinstance(error, HTTPException)  # noqa: S101 - it is registered for these
    if request.url.path.startswith(f"{PREFIX}/"):
        return await http_exception_handler(request, error)
    title = HTTPStatus(error.status_code).phrase
    answer = render(request, None, "refused.html", status=error.status_code, title=title, detail=error.detail)
    answer.headers.update(error.headers or {})
    return answer
