"""The last day in bins of five minutes: starts, waits, evictions, and the GPUs in use, as pictures and as a table."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

from fastapi import APIRouter, Request, Response
from markupsafe import Markup

from dashboard.asking import Viewer
from dashboard.cluster import BIN_S, DAY_S, Bin
from dashboard.pages.rendering import render, span
from dashboard.pages.sharing import shared

router = APIRouter()
_BINS = int(DAY_S / BIN_S)
_HEIGHT = 100
_HOUR_S = 3600.0
_MARK_S = 4 * _HOUR_S


@dataclass(frozen=True)
class Chart:
    """A picture of one amount over the day. ``top``: what its height means, in words."""

    name: str
    about: str
    top: str
    picture: Markup
    summary: str


@dataclass(frozen=True)
class Hour:
    """An hour of the day as a line of the table."""

    at: float
    starts: int
    evictions: int
    mean_wait_s: float
    longest_wait_s: float
    waiting: int
    gpus_used: int
    gpus: int


@router.get("/day")
@shared
async def day(request: Request, seen: Viewer) -> Response:
    """Return the page. Its counts are of the whole cluster."""
    bins, begins = seen.history(), (math.floor(seen.now / BIN_S) + 1) * BIN_S - DAY_S
    starts, waited = sum(interval.starts for interval in bins), sum(interval.waited_s for interval in bins)
    return render(
        request,
        seen,
        "day.html",
        charts=_charts(bins, begins),
        hours=_hours(bins),
        marks=_marks(begins),
        starts=starts,
        evictions=sum(interval.evictions for interval in bins),
        mean_wait=span(waited / starts) if starts else "",
        longest_wait=span(max((interval.longest_wait_s for interval in bins), default=0.0)),
        every="10s",
    )


def _charts(bins: Sequence[Bin], begins: float) -> list[Chart]:
    gpus = max((interval.gpus for interval in bins), default=0)

    def chart(
        name: str, about: str, kind: str, value: Callable[[Bin], float], as_text: Callable[[float], str]
    ) -> Chart:
        most = max(map(value, bins), default=0.0)
        top = max(most, gpus if name == "GPUs in use" else 0.0)
        return Chart(name, about, as_text(top), _picture(bins, begins, value, top, kind), f"at most {as_text(most)}")

    return [
        chart("GPUs in use", "GPUs of pods that are on nodes", "used", lambda interval: interval.gpus_used, _count),
        chart("Waiting", "workloads that wait", "waits", lambda interval: interval.waiting, _count),
        chart("Starts", "workloads that started, in five minutes", "used", lambda interval: interval.starts, _count),
        chart("Wait before the start", "mean of those that started", "waits", _mean, span),
        chart(
            "Evictions",
            "workloads that were evicted, in five minutes",
            "evicted",
            lambda interval: interval.evictions,
            _count,
        ),
    ]


def _count(much: float) -> str:
    return f"{much:,.0f}"


def _mean(one: Bin) -> float:
    return one.waited_s / one.starts if one.starts else 0.0


def _picture(bins: Sequence[Bin], begins: float, value: Callable[[Bin], float], top: float, kind: str) -> Markup:
    """The bars as a single path: a bin is 10 wide, and the picture is stretched to the width of the page."""
    path, width = [], _BINS * 10
    for interval in bins:
        at, height = round((interval.at - begins) / BIN_S), round(_HEIGHT * value(interval) / top) if top else 0
        if 0 <= at < _BINS and height:
            path.append(f"M{at * 10} {_HEIGHT}v-{height}h9v{height}z")
    hours = "".join(f"M{width * at:.0f} 0v{_HEIGHT}" for at, _ in _marks(begins))
    return Markup(
        '<svg class="chart" viewBox="0 0 {} {}" preserveAspectRatio="none" aria-hidden="true" focusable="false">'
        '<path class="grid" d="M0 {}h{}{}"/><path class="{}" d="{}"/></svg>'
    ).format(width, _HEIGHT, _HEIGHT // 2, width, hours, kind, "".join(path))


def _marks(begins: float) -> list[tuple[float, str]]:
    """The hours at which the axis is marked: how far along it each is, from 0 to 1, and its time of the day."""
    first = math.ceil(begins / _MARK_S) * _MARK_S
    times = [first + number * _MARK_S for number in range(int(DAY_S / _MARK_S))]
    return [((at - begins) / DAY_S, f"{datetime.fromtimestamp(at, UTC):%H:%M}") for at in times]


def _hours(bins: Sequence[Bin]) -> list[Hour]:
    """The hours in which something was heard, newest first."""
    by_hour: dict[float, list[Bin]] = {}
    for interval in bins:
        by_hour.setdefault(math.floor(interval.at / _HOUR_S) * _HOUR_S, []).append(interval)
    return [_hour(at, those) for at, those in sorted(by_hour.items(), reverse=True)]


def _hour(at: float, bins: Sequence[Bin]) -> Hour:
    starts, last = sum(interval.starts for interval in bins), bins[-1]
    return Hour(
        at=at,
        starts=starts,
        evictions=sum(interval.evictions for interval in bins),
        mean_wait_s=sum(interval.waited_s for interval in bins) / starts if starts else 0.0,
        longest_wait_s=max(interval.longest_wait_s for interval in bins),
        waiting=last.waiting,
        gpus_used=last.gpus_used,
        gpus=last.gpus,
    )
