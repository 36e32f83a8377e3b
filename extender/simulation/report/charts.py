"""The pictures of a report as inline SVG: GPUs over time, waiting times, shares. Colours come from the page's style."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from html import escape

from extender.simulation.report.outcome import Waits
from extender.simulation.report.tables import counted, duration, size_words

WIDTH = 1080
USES = (("productive", "productive"), ("starting", "starting"), ("held", "held without work"))
"""Style and name of the three uses, in the order of the steps."""
BINS = 512
"""Into how many stretches the curves of ``area`` are best cut."""
_LEFT, _RIGHT, _TOP = 84, 12, 12
_AREA, _AXIS = 150, 24
_LONGEST_NAME = 34
_SOONEST_S = 10.0
_UNITS = (("d", 86400.0), ("h", 3600.0), ("min", 60.0))

XOf = Callable[[float | None], float]
"""Where on the axis so long a time is, in pixels; None: never."""


@dataclass(frozen=True, slots=True)
class Share:
    """A part of a bar: its style, its amount, and what it is."""

    style: str
    amount: float
    label: str


def area(title: str, curve: Sequence[Sequence[float]], gpus: int, end_s: float, window_s: float) -> str:
    """GPUs by use, stacked; whatever is not covered is free. ``curve``: the means over equal stretches of 0..end_s.

    The end of ``window_s``, when the last job was submitted, is marked.
    """
    width = WIDTH - _LEFT - _RIGHT
    parts = [
        _open(_TOP + _AREA + _AXIS + 4, title),
        f'<rect class="free" x="{_LEFT}" y="{_TOP}" width="{width}" height="{_AREA}"/>',
    ]
    below = [0.0] * len(curve)
    for use, (style, _) in enumerate(USES):
        above = [under + point[use] for under, point in zip(below, curve, strict=True)]
        if any(point[use] for point in curve):
            parts.append(f'<path class="{style}" d="{_band(below, above, gpus, width)}"/>')
        below = above
    for share, unit in ((0, ""), (0.5, ""), (1, " GPUs")):
        y = _TOP + _AREA * (1 - share)
        parts.append(f'<line class="grid" x1="{_LEFT}" x2="{WIDTH - _RIGHT}" y1="{y:.1f}" y2="{y:.1f}"/>')
        parts.append(
            f'<text class="small" x="{_LEFT - 8}" y="{y + 4:.1f}" text-anchor="end">{gpus * share:,.0f}{unit}</text>'
        )
    if 0 < window_s < end_s:
        x = _LEFT + width * window_s / end_s
        parts.append(f'<line class="mark" x1="{x:.1f}" x2="{x:.1f}" y1="{_TOP}" y2="{_TOP + _AREA}"/>')
    return "\n".join([*parts, *_time_axis(end_s, width), "</svg>"])


def waiting(names: Sequence[str], waits: Sequence[Sequence[Waits]]) -> str:
    """A row for each size and scheduler on a logarithmic axis: a dot at the median, a bar to the 95th percentile."""
    row, gap, top, left = 17, 14, 8, 270
    height = top + len(waits[0]) * (len(names) * row + gap) + _AXIS
    known = [value for one in waits for wait in one for value in (wait.median_s, wait.p95_s) if value is not None]
    latest = 10 ** math.ceil(math.log10(max([*known, 10 * _SOONEST_S])))
    across = WIDTH - left - 70

    def x_of(seconds: float | None) -> float:
        if seconds is None:
            return left + across + 34
        return left + across * math.log(max(seconds, _SOONEST_S) / _SOONEST_S) / math.log(latest / _SOONEST_S)

    parts = [_open(height, "Waiting time by gang size")]
    for seconds, text in _marks(latest):
        x = x_of(seconds)
        parts.append(f'<line class="grid" x1="{x:.1f}" x2="{x:.1f}" y1="{top}" y2="{height - _AXIS}"/>')
        parts.append(f'<text class="small" x="{x:.1f}" y="{height - 6}" text-anchor="middle">{text}</text>')
    parts.append(f'<text class="small" x="{x_of(None):.1f}" y="{height - 6}" text-anchor="middle">never</text>')
    y = float(top)
    for size in range(len(waits[0])):
        one = waits[0][size]
        gpus = "GPU" if one.most_gpus == 1 else "GPUs"
        parts.append(f'<text class="label" x="0" y="{y + row:.1f}">{size_words(one.most_gpus)} {gpus}</text>')
        parts.append(f'<text class="small" x="0" y="{y + row + 17:.1f}">{counted(one.jobs, "job")}</text>')
        for number, name in enumerate(names):
            parts += _range(name, waits[number][size], number, y + row * (number + 0.5), x_of, left)
            y_end = y + row * (number + 1)
        y = y_end + gap
    return "\n".join([*parts, "</svg>"])


def bars(title: str, names: Sequence[str], rows: Sequence[Sequence[Share]], notes: Sequence[str]) -> str:
    """A bar for each scheduler, cut into parts; all have one scale. ``notes`` stand at their ends."""
    row, left, right = 34, 284, 290
    longest = max((sum(part.amount for part in parts) for parts in rows), default=0.0) or 1.0
    drawn = [_open(len(names) * row + 4, title)]
    for number, (name, shares, note) in enumerate(zip(names, rows, notes, strict=True)):
        y, x = number * row + 4, float(left)
        drawn.append(f'<text class="label" x="0" y="{y + 16}">{_short(name)}</text>')
        for share in shares:
            wide = share.amount / longest * (WIDTH - left - right)
            if wide > 0:
                hint = f"<title>{escape(share.label)}</title>"
                drawn.append(
                    f'<rect class="{share.style}" x="{x:.1f}" y="{y}" width="{wide:.1f}" height="22">{hint}</rect>'
                )
            x += wide
        drawn.append(f'<text class="note" x="{x + 10:.1f}" y="{y + 16}">{escape(note)}</text>')
    return "\n".join([*drawn, "</svg>"])


def _short(name: str) -> str:
    """As much of a name as fits beside a bar."""
    return escape(name if len(name) <= _LONGEST_NAME else f"{name[: _LONGEST_NAME - 3]}...")


def _open(height: float, title: str) -> str:
    return f'<svg viewBox="0 0 {WIDTH} {height:.0f}" role="img" aria-label="{escape(title)}">'


def _band(below: Sequence[float], above: Sequence[float], gpus: int, width: float) -> str:
    """A step curve, and back along the one below it."""
    step = width / len(above)

    def points(values: Sequence[float]) -> list[str]:
        found = []
        for number, value in enumerate(values):
            y = _TOP + _AREA * (1 - value / gpus)
            found += [f"{_LEFT + number * step:.1f},{y:.1f}", f"{_LEFT + (number + 1) * step:.1f},{y:.1f}"]
        return found

    return f"M{' '.join(points(above))} L{' '.join(reversed(points(below)))}Z"


def _time_axis(end_s: float, width: float) -> list[str]:
    unit, size = next(((unit, size) for unit, size in _UNITS if end_s >= 3 * size), ("s", 1.0))
    raw = end_s / size / 8
    step = next((step for step in (1, 2, 5, 10, 20, 50, 100, 200, 500) if step >= raw), 1000)
    parts = []
    for number in range(0, int(end_s / size) + 1, step):
        x = _LEFT + width * number * size / end_s
        text = f"{number} {unit}" if number else "0"
        parts.append(f'<text class="small" x="{x:.1f}" y="{_TOP + _AREA + 17}" text-anchor="middle">{text}</text>')
    return parts


def _marks(latest: float) -> list[tuple[float, str]]:
    """Moments that people think in, for the logarithmic axis."""
    marks = [(_SOONEST_S, "10 s or less"), (60.0, "1 min"), (600.0, "10 min"), (3600.0, "1 h"), (36_000.0, "10 h")]
    marks += [(86400.0 * 4, "4 d"), (86400.0 * 40, "40 d"), (86400.0 * 365, "1 y")]
    return [mark for mark in marks if mark[0] <= latest]


def _range(name: str, wait: Waits, number: int, y: float, x_of: XOf, left: float) -> list[str]:
    """One scheduler's row: from the median to the 95th percentile."""
    begin, end = x_of(wait.median_s), x_of(wait.p95_s)
    told = f"{name}: median {duration(wait.median_s)}, 95th percentile {duration(wait.p95_s)}"
    return [
        f'<text class="small" x="{left - 12}" y="{y + 4:.1f}" text-anchor="end">{_short(name)}</text>',
        f'<g class="series-{number % 6}"><title>{escape(told)}</title>'
        f'<line x1="{begin:.1f}" x2="{end:.1f}" y1="{y:.1f}" y2="{y:.1f}"/>'
        f'<circle cx="{begin:.1f}" cy="{y:.1f}" r="5"/>'
        f'<line class="end" x1="{end:.1f}" x2="{end:.1f}" y1="{y - 5:.1f}" y2="{y + 5:.1f}"/></g>',
    ]
