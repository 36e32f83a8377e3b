"""The workloads of the person who looks: why each waits, when it is expected to start, and what would help."""

from __future__ import annotations

from collections import Counter
from typing import Any

from fastapi import APIRouter, Request, Response

from dashboard.asking import Viewer
from dashboard.pages.meanings import REASONS
from dashboard.pages.rendering import PHASES, part_of, phase, render
from extender.api.models import GangView
from policies.words import many

router = APIRouter()
_SIZE = 50
_ORDER = {name: at for at, name in enumerate(PHASES)}


@router.get("/")
async def workloads(request: Request, seen: Viewer) -> Response:
    """Return the list, filtered by the parameters ``namespace``, ``text``, ``phase`` and ``reason``."""
    asked = {name: request.query_params.get(name, "")[:200] for name in ("namespace", "text", "phase", "reason")}
    every = seen.gangs()
    chosen = [gang for gang in every if _matches(gang, asked)]
    counts = Counter(phase(gang.status) for gang in chosen)
    counts[""] = len(chosen)
    listed = sorted((gang for gang in chosen if asked["phase"] in ("", phase(gang.status))), key=_urgency)
    gangs, part = part_of(listed, number_of(request), _SIZE)
    return render(
        request,
        seen,
        "workloads.html",
        gangs=gangs,
        part=part,
        counts=counts,
        total=len(every),
        summary=_summary(every),
        namespaces=sorted({gang.namespace for gang in every} | ({asked["namespace"]} - {""})),
        namespace=asked["namespace"],
        text=asked["text"],
        phase=asked["phase"],
        code=asked["reason"],
        helps=REASONS,
        expected=expected,
        any_expected=any(expected(gang) for gang in gangs),
    )


def expected(gang: GangView) -> Any:
    """When it is expected to start; None where that is unknown."""
    return getattr(gang, "expected", None)


def number_of(request: Request) -> int:
    """Return which page of a long list is asked for."""
    number = request.query_params.get("part", "1")
    return int(number) if number.isascii() and number.isdigit() and len(number) < 10 else 1


def _matches(gang: GangView, asked: dict[str, str]) -> bool:
    """Whether it is in the namespace, has the reason, and has every word of the text in its name or its reason."""
    if asked["namespace"] not in ("", gang.namespace) or asked["reason"] not in ("", gang.state):
        return False
    texts = f"{gang.namespace}/{gang.name} {gang.state} {gang.status} {gang.message} {' '.join(gang.objects)}".lower()
    return all(word in texts for word in asked["text"].lower().split())


def _urgency(gang: GangView) -> tuple[object, ...]:
    """Those that wait first, and of these the one that has waited longest."""
    return _ORDER[phase(gang.status)], -gang.for_s, gang.namespace, gang.name


def _summary(gangs: list[GangView]) -> str:
    counts = Counter(phase(gang.status) for gang in gangs)
    waiting, running = counts["waiting"], counts["running"]
    if not waiting:
        return f"None of your workloads waits. {many(running, 'workload')} {'runs' if running == 1 else 'run'}."
    return f"{waiting} of your {many(len(gangs), 'workload')} {'waits' if waiting == 1 else 'wait'}, {running} run."
