"""Pages made of templates: what all pages share, how times and amounts are written, and the headers of answers."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TypeVar
from urllib.parse import quote, urlencode

from fastapi import Request
from fastapi.responses import HTMLResponse
from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup, escape

from dashboard.pages.static import HASHES
from dashboard.views import Seen
from policies.words import amount, many

ItemT = TypeVar("ItemT")

HEADERS = {
    "Cache-Control": "no-store",
    "Content-Security-Policy": "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; "
    "connect-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'",
    "Referrer-Policy": "same-origin",
    "X-Content-Type-Options": "nosniff",
}
"""No script, style or request but the dashboard's own: a name that slips through unescaped can do nothing."""

PHASES = {
    "waiting": ("PENDING",),
    "starting": ("PLANNED", "STARTING", "HOLDING", "RELEASING", "PARTIAL"),
    "running": ("RUNNING",),
    "ending": ("STOPPING", "ENDED"),
}
"""The words that people filter by, and the statuses that belong to each."""
_PHASE_OF = {status: phase for phase, statuses in PHASES.items() for status in statuses}


def render(request: Request, seen: Seen | None, template: str, *, status: int = 200, **shown: object) -> HTMLResponse:
    """Return the page that the template makes, or its content alone.

    ``seen``: None on a page that shows nothing of the cluster.
    """
    links = Links(request)
    about = {"seen": seen, "to": links.to, "here": links.here, "page": template, "whole": wants_whole(request)}
    text = _TEMPLATES.get_template(template).render(**about, **shown)
    return HTMLResponse(text, status, HEADERS)


def wants_whole(request: Request) -> bool:
    """Whether the whole page is asked for, and not the content of one that is open."""
    return "hx-request" not in request.headers or "hx-history-restore-request" in request.headers


class Links:
    """Links from the page that is asked for. All are relative, so that the pages work below any path of a proxy."""

    def __init__(self, request: Request) -> None:
        raw: bytes = request.scope.get("raw_path") or request.url.path.encode()
        path = raw.decode("ascii", "replace").partition("?")[0]
        self._root = "../" * (path.removeprefix(request.scope.get("root_path", "")).count("/") - 1) or "./"
        self._query = request.query_params

    def to(self, path: str, **query: object) -> str:
        """Return the link to a path of the dashboard, with those parameters that are not empty."""
        parameters = urlencode({name: value for name, value in query.items() if value not in ("", None)})
        return f"{self._root}{quote(path)}{'?' * bool(parameters)}{parameters}"

    def here(self, **changed: object) -> str:
        """Return the link to the page itself with other parameters; "" takes one away."""
        query = {**self._query, **changed}
        parameters = urlencode({name: value for name, value in query.items() if value not in ("", None)})
        return f"?{parameters}"


@dataclass(frozen=True)
class Part:
    """A page of a long list. ``first`` and ``last`` count from 1."""

    number: int
    pages: int
    first: int
    last: int
    total: int


def part_of(items: Sequence[ItemT], number: int, size: int) -> tuple[Sequence[ItemT], Part]:
    """Return the items of that page, which counts from 1; the nearest one where there is none of that number."""
    pages = max(1, math.ceil(len(items) / size))
    number = min(max(1, number), pages)
    chosen = items[(number - 1) * size : number * size]
    first = (number - 1) * size + 1 if items else 0
    return chosen, Part(number, pages, first, first + len(chosen) - 1 if items else 0, len(items))


def phase(status: str) -> str:
    """Return waiting, starting, running or ending: what the status means for people."""
    return _PHASE_OF.get(status, "waiting")


def span(seconds: float) -> str:
    """``"45 s"``, ``"12 min"``, ``"3 h 20 min"``, ``"2 d 4 h"``."""
    minutes, rest = divmod(max(0, round(seconds)), 60)
    hours, minutes = divmod(minutes, 60)
    days, hours = divmod(hours, 24)
    if days:
        return f"{days} d {hours} h" if hours else f"{days} d"
    if hours:
        return f"{hours} h {minutes} min" if minutes else f"{hours} h"
    return f"{minutes} min" if minutes else f"{rest} s"


def when(at: float, now: float) -> Markup:
    """The time in words relative to ``now``, both in seconds since 1970; machines and tooltips get it absolute."""
    moment = datetime.fromtimestamp(at, UTC)
    words = f"in {span(at - now)}" if at > now else f"{span(now - at)} ago"
    return Markup('<time datetime="{}" title="{}">{}</time>').format(
        f"{moment:%Y-%m-%dT%H:%M:%SZ}", f"{moment:%Y-%m-%d %H:%M:%S} UTC", words
    )


def lasting(at: float, now: float) -> Markup:
    """Like ``when``, without "ago": for a state that has lasted since then."""
    moment = datetime.fromtimestamp(at, UTC)
    return Markup('<time data-lasting datetime="{}" title="since {}">{}</time>').format(
        f"{moment:%Y-%m-%dT%H:%M:%SZ}", f"{moment:%Y-%m-%d %H:%M:%S} UTC", span(now - at)
    )


def clock(at: float) -> Markup:
    """The time of the day."""
    moment = datetime.fromtimestamp(at, UTC)
    return Markup('<time data-clock datetime="{}">{}</time>').format(f"{moment:%Y-%m-%dT%H:%M:%SZ}", f"{moment:%H:%M}")


def quantity(much: int, resource: str) -> str:
    """An amount in the unit that people use, without the name of the resource."""
    return amount(resource, much).removesuffix(resource).strip()


def short(resource: str) -> str:
    """``"GPUs"`` for the resource of any vendor's device plugin, else the name."""
    return "GPUs" if resource.endswith("/gpu") else resource


def code(text: str) -> Markup:
    """The text with what stands in backticks as code."""
    parts = str(text).split("`")
    return Markup("").join(
        Markup("<code>{}</code>").format(piece) if at % 2 else escape(piece) for at, piece in enumerate(parts)
    )


def clauses(message: str) -> list[str]:
    """The parts of a reason's message, which semicolons divide outside of parentheses."""
    parts, depth, begin = [], 0, 0
    for at, letter in enumerate(message):
        depth += (letter == "(") - (letter == ")")
        if letter == ";" and depth <= 0:
            parts.append(message[begin:at].strip())
            begin = at + 1
    return [clause for clause in (*parts, message[begin:].strip()) if clause]


def percent(some: float, whole: float) -> float:
    """Return the share in percent, from 0 to 100, for the width of a bar."""
    return round(100 * min(1.0, max(0.0, some / whole)), 2) if whole > 0 else 0.0


_TEMPLATES = Environment(
    loader=PackageLoader("dashboard.pages"),
    autoescape=True,
    undefined=StrictUndefined,
    trim_blocks=True,
    lstrip_blocks=True,
    auto_reload=False,
)
_TEMPLATES.filters |= {
    "clauses": clauses,
    "code": code,
    "percent": percent,
    "phase": phase,
    "quantity": quantity,
    "short": short,
    "span": span,
}
_TEMPLATES.globals |= {"clock": clock, "HASHES": HASHES, "lasting": lasting, "many": many, "when": when}
