"""The workloads of the person who looks: why each waits, when it is expected to start, and what would help."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from fastapi import APIRouter, Request, Response

from dashboard.asking import Viewer
from dashboard.pages.meanings import REASONS
from dashboard.pages.rendering import PHASES, part_of, phase, render
from dashboard.pages.sharing import shared
from dashboard.views import Brief, Seen
from policies.words import many

router = APIRouter()
_SIZE = 50
_ORDER = {name: at for at, name in enumerate(PHASES)}


@router.get("/")
@shared
async def workloads(request: Request, seen: Viewer) -> Response:
    """Return the list, filtered by the parameters ``namespace``, ``text``, ``phase`` and ``reason``."""
    parameters = {name: request.query_params.get(name, "")[:200] for name in ("namespace", "text", "phase", "reason")}
    every, words = seen.briefs(), parameters["text"].lower().split()
    chosen = [
        brief
        for brief in every
        if parameters["namespace"] in ("", brief.namespace)
        and parameters["reason"] in ("", brief.state)
        and _has(words, brief, seen)
    ]
    counts = Counter(phase(brief.status) for brief in chosen)
    counts[""], counts["idle"] = len(chosen), sum(brief.idle for brief in chosen)
    listed = sorted((brief for brief in chosen if parameters["phase"] in _phases(brief)), key=_urgency)
    briefs, page = part_of(listed, number_of(request), _SIZE)
    gangs = [gang for brief in briefs if (gang := seen.gang(brief.namespace, brief.name)) is not None]
    return render(
        request,
        seen,
        "workloads.html",
        gangs=gangs,
        part=page,
        counts=counts,
        total=len(every),
        summary=_summary(every),
        namespaces=sorted({brief.namespace for brief in every} | ({parameters["namespace"]} - {""})),
        namespace=parameters["namespace"],
        text=parameters["text"],
        phase=parameters["phase"],
        code=parameters["reason"],
        helps=REASONS,
        any_expected=any(gang.expected for gang in gangs),
        any_loads=any(gang.utilisation for gang in gangs),
    )


def number_of(request: Request) -> int:
    """Return which page of a long list is asked for."""
    number = request.query_params.get("part", "1")
    return int(number) if number.isascii() and number.isdigit() and len(number) < 10 else 1


def _has(words: Sequence[str], brief: Brief, seen: Seen) -> bool:
    """Whether it has every word in its name or its reason. Its message is looked at only where that matters."""
    named = f"{brief.namespace}/{brief.name} {brief.state} {brief.status}".lower()
    left = [word for word in words if word not in named]
    message = seen.message(brief.namespace, brief.name).lower() if left else ""
    return all(word in message for word in left)


def _phases(brief: Brief) -> tuple[str, ...]:
    """Return the tabs in which it is listed."""
    return ("", phase(brief.status), "idle") if brief.idle else ("", phase(brief.status))


def _urgency(brief: Brief) -> tuple[object, ...]:
    """The order of workloads: waiting ones first, the one that has waited longest at the top."""
    return _ORDER[phase(brief.status)], -brief.for_s, brief.namespace, brief.name


def _summary(briefs: Sequence[Brief]) -> str:
    counts = Counter(phase(brief.status) for brief in briefs)
    waiting, running = counts["waiting"], counts["running"]
    if not waiting:
        return f"None of your workloads waits. {many(running, 'workload')} {'runs' if running == 1 else 'run'}."
    return f"{waiting} of your {many(len(briefs), 'workload')} {'waits' if waiting == 1 else 'wait'}, {running} run."
