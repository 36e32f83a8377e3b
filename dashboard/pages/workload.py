"""The page of one workload: its reason, what would help, the room for it, its members and its story."""

from __future__ import annotations

from itertools import pairwise

from fastapi import APIRouter, HTTPException, Request, Response

from dashboard.asking import Viewer
from dashboard.cluster import UnansweredError
from dashboard.pages.meanings import REASONS, STATUSES
from dashboard.pages.rendering import part_of, phase, render
from dashboard.pages.sharing import shared
from dashboard.pages.workloads import number_of
from dashboard.views import Seen
from extender.api.models import Explanation, GangView

router = APIRouter()
_MEMBERS = 100


@router.get("/workloads/{namespace}/{name:path}")
@shared
async def workload(request: Request, seen: Viewer, namespace: str, name: str) -> Response:
    """Return its page."""
    gang = _known(seen, namespace, name)
    explanation, problem = await _explained(seen, gang)
    members, page = part_of(gang.pods, number_of(request), _MEMBERS)
    return render(
        request,
        seen,
        "workload.html",
        gang=gang,
        explanation=explanation,
        problem=problem,
        members=members,
        part=page,
        meaning=REASONS.get(gang.state, {}),
        statuses=STATUSES,
        steps=_steps(gang),
        story=list(reversed(gang.story)),
    )


@router.get("/help/{namespace}/{name:path}")
async def help_for(request: Request, seen: Viewer, namespace: str, name: str) -> Response:
    """Return what would help it, for its row in the list of workloads."""
    gang = _known(seen, namespace, name)
    explanation, problem = await _explained(seen, gang)
    meaning = REASONS.get(gang.state, {})
    return render(request, seen, "help.html", gang=gang, explanation=explanation, problem=problem, meaning=meaning)


def _known(seen: Seen, namespace: str, name: str) -> GangView:
    """Raises HTTPException (404) also where the person may not see it: that it exists is not said."""
    if (gang := seen.gang(namespace, name)) is None:
        raise HTTPException(404, f"There is no workload {namespace}/{name}, or you may not see it.")
    return gang


async def _explained(seen: Seen, gang: GangView) -> tuple[Explanation | None, str]:
    """Return the explanation, or why there is none."""
    try:
        return await seen.explain(gang.namespace, gang.name), ""
    except UnansweredError as error:
        return None, str(error)


def _steps(gang: GangView) -> list[tuple[str, str, float, float]]:
    """Return its statuses, oldest first: status, phase, when it began and when it ended, in seconds ago."""
    begun = [*gang.statuses, (0.0, "")]
    return [(status, phase(status), ago, until) for (ago, status), (until, _) in pairwise(begun)]
