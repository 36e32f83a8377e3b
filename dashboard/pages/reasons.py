"""The page of reason codes and statuses: their meaning, and what helps, in the texts of docs/waiting.md."""

from __future__ import annotations

from fastapi import APIRouter, Request, Response

from dashboard.asking import Viewer
from dashboard.pages.meanings import REASONS, STATUSES
from dashboard.pages.rendering import render

router = APIRouter()


@router.get("/reasons")
async def reasons(request: Request, seen: Viewer) -> Response:
    """Return the page. It does not change while it is read."""
    return render(request, seen, "reasons.html", reasons=REASONS, statuses=STATUSES, live=False)
