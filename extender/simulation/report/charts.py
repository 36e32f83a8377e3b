"""The pictures of a report as inline SVG: GPUs over time, waiting times, shares. The page's style has the colours."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from html import escape

from extender.simulation.report.fairness import QueueShare
from extender.simulation.report.outcome import Waits
from extender.simulation.report.tables import counted, duration, size_words

WIDTH, PHONE = 1080, 350
"""Widths of a picture in pixels: on a screen, and on a phone, where labels stand above the bars."""
USES = (
    ("productive", "productive"),
    ("starting", "starting"),
    ("held", "held without work"),
    ("lost", "lost to preemption"),
)
"""Style and name of the uses, in the order of the steps."""
BINS = 512
"""The best number of stretches for the curves of ``area``."""
_LEFT, _RIGHT, _TOP = 84, 12, 12
_AREA, _AXIS = 150, 24
_LONGEST_NAME, _LONGEST_QUEUE = 34, 22
_LETTER = 7.5
"""The largest width of a letter of a mark, in pixels."""
_SOONEST_S = 10.0
_MARKS = (
    (_SOONEST_S, "10 s or less"), (60.0, "1 min"), (600.0, "10 min"), (3600.0, "1 h"), (36_000.0, "10 h"),
    (86400.0 * 4, "4 d"), (86400.0 * 40, "40 d"), (86400.0 * 365, "1 y"),
)  # fmt: skip
"""Familiar durations, for marks on the logarithmic axis."""
_UNITS = (("d", 86400.0), ("h", 3600.0), ("min", 60.0))

XOf = Callable[[float | None], float]
"""Maps seconds to the place on the axis, in pixels; None: never."""


@dataclass(frozen=True, slots=True)
class Share:
    """A part of a bar: its style, its amount, and its label."""

    style: str
    amount: float
    label: str


def area(title: str, curve: Sequence[Sequence[float]], gpus: int, end_s: float, window_s: float) -> str:
    """A picture of GPUs by use, stacked; the rest is free.

    ``curve``: the means over equal stretches of 0..end_s. The end of ``window_s``, the last submission, is marked.
    """
    width = WIDTH - _LEFT - _RIGHT
    parts = [f'<rect class="free" x="{_LEFT}" y="{_TOP}" width="{width}" height="{_AREA}"/>']
    below = [0.0] * len(curve)
    for use, (style, _) in enumerate(USES):
        above = [under + point[use] for under, point in zip(below, curve, strict=True)]
        if any(point[use] for point in curve):
            parts.append(f'<path class="{style}" d="{_band(below, above, gpus, width)}"/>')
        below = above
    for share, unit in ((0, ""), (0.5, ""), (1, " GPUs")):
        y = _TOP + _AREA * (1 - share)
        parts.append(_line("grid", _LEFT, y, WIDTH - _RIGHT, y))
        parts.append(_text("small", _LEFT - 8, y + 4, f"{gpus * share:,.0f}{unit}", "end"))
    if 0 < window_s < end_s:
        x = _LEFT + width * window_s / end_s
        parts.append(_line("mark", x, _TOP, x, _TOP + _AREA))
    return _drawing(_TOP + _AREA + _AXIS + 4, title, [*parts, *_time_axis(end_s, width)])


def waiting(names: Sequence[str], waits: Sequence[Sequence[Waits]], *, phone: bool = False) -> str:
    """A picture with a row for each size and scheduler: a dot at the median, a bar to the 95th percentile.

    The axis is logarithmic.
    """
    row, gap, top, left, size_height, width = (34, 14, 8, 8, 24, PHONE) if phone else (17, 14, 8, 270, 0, WIDTH)
    height = top + len(waits[0]) * (size_height + len(names) * row + gap) + _AXIS
    known = [
        value
        for of_scheduler in waits
        for wait in of_scheduler
        for value in (wait.median_s, wait.p95_s)
        if value is not None
    ]
    latest = 10 ** math.ceil(math.log10(max([*known, 10 * _SOONEST_S])))
    across = width - left - (56 if phone else 70)

    def x_of(seconds: float | None) -> float:
        if seconds is None:
            return left + across + 34.0
        return left + across * math.log(max(seconds, _SOONEST_S) / _SOONEST_S) / math.log(latest / _SOONEST_S)

    parts = [_text("small", x_of(None), height - 6, "never", "middle")]
    marks = [(x_of(seconds), text) for seconds, text in _MARKS if seconds <= latest]
    shown_to = -math.inf
    for x, text in marks:
        parts.append(_line("grid", x, top, x, height - _AXIS))
        begin = max(x - _LETTER * len(text) / 2, 0.0)
        if begin >= shown_to and begin + _LETTER * len(text) <= x_of(None) - 2.5 * _LETTER:
            parts.append(_text("small", begin + _LETTER * len(text) / 2, height - 6, text, "middle"))
            shown_to = begin + _LETTER * (len(text) + 1)
    y = float(top)
    for size, wait_of_size in enumerate(waits[0]):
        gpus = f"{size_words(wait_of_size.most_gpus)} {'GPU' if wait_of_size.most_gpus == 1 else 'GPUs'}"
        jobs = counted(wait_of_size.jobs, "job")
        parts.append(_text("label", 0, y + 17, f"{gpus}, {jobs}" if phone else gpus))
        if not phone:
            parts.append(_text("small", 0, y + row + 17, jobs))
        y += size_height
        for number, name in enumerate(names):
            if phone:
                parts.append(_text("small", 0, y + row * number + 14, _short(name)))
            else:
                parts.append(_text("small", left - 12, y + row * (number + 0.5) + 4, _short(name), "end"))
            parts += _range(name, waits[number][size], number, y + row * (number + (0.75 if phone else 0.5)), x_of)
        y += row * len(names) + gap
    return _drawing(height, "Waiting time by gang size", parts, width)


def bars(
    title: str, names: Sequence[str], rows: Sequence[Sequence[Share]], notes: Sequence[str], *, phone: bool = False
) -> str:
    """A picture with a bar of parts for each scheduler, on one scale. ``notes``: texts at the ends of the bars."""
    row, left, right, width = (70, 0, 0, PHONE) if phone else (34, 284, 290, WIDTH)
    longest = max((sum(segment.amount for segment in parts) for parts in rows), default=0.0) or 1.0
    drawn = []
    for number, (name, shares, note) in enumerate(zip(names, rows, notes, strict=True)):
        y, x = number * row + 4 + (20 if phone else 0), float(left)
        drawn.append(_text("label", 0, y - 6 if phone else y + 16, _short(name)))
        for share in shares:
            wide = share.amount / longest * (width - left - right)
            if wide > 0:
                place = f'class="{share.style}" x="{x:.1f}" y="{y}" width="{wide:.1f}" height="22"'
                drawn.append(f"<rect {place}><title>{escape(share.label)}</title></rect>")
            x += wide
        at = (0.0, y + 38.0) if phone else (x + 10, y + 16.0)
        drawn.append(_text("note", *at, note))
    return _drawing(len(names) * row + 4, title, drawn, width)


def share_rows(title: str, queues: Sequence[QueueShare], *, phone: bool = False) -> str:
    """A picture with a row for each queue over time: its use as an area, its entitlement as a line.

    Each row has its own scale, up to the most that its queue used or was entitled to.
    """
    row, gap, top, left, right, all_width = (34, 34, 28, 0, 0, PHONE) if phone else (34, 12, 6, 200, 90, WIDTH)
    width, parts = all_width - left - right, []
    for number, queue in enumerate(queues):
        y = top + number * (row + gap)
        most = max((value for point in queue.curve for value in point), default=0.0)
        parts.append(_text("label", 0, y - 8 if phone else y + 20, _short(queue.queue, _LONGEST_QUEUE)))
        parts.append(f'<rect class="free" x="{left}" y="{y}" width="{width}" height="{row}"/>')
        if most:
            used, entitled = ([point[at] / most for point in queue.curve] for at in (0, 1))
            bottom = y + row
            line = " ".join(_steps(used, left, width, bottom, row))
            parts.append(f'<path class="productive" d="M{left},{bottom} L{line} L{all_width - right},{bottom}Z"/>')
            line = " ".join(_steps(entitled, left, width, bottom, row))
            parts.append(f'<polyline class="entitled" points="{line}"/>')
        end = (
            (all_width, y - 8, f"{most:,.0f} GPUs", "end")
            if phone
            else (WIDTH - right + 8, y + 14, f"{most:,.0f} GPUs")
        )
        parts.append(_text("small", *end))
    return _drawing(top + len(queues) * (row + gap), title, parts, all_width)


def _short(name: str, longest: int = _LONGEST_NAME) -> str:
    """The name, shortened to fit beside a bar."""
    return name if len(name) <= longest else f"{name[: longest - 3]}..."


def _drawing(height: float, title: str, parts: Sequence[str], width: int = WIDTH) -> str:
    head = f'<svg viewBox="0 0 {width} {height:.0f}" role="img" aria-label="{escape(title)}">'
    return "\n".join([head, *parts, "</svg>"])


def _line(style: str, x1: float, y1: float, x2: float, y2: float) -> str:
    return f'<line class="{style}" x1="{x1:.1f}" x2="{x2:.1f}" y1="{y1:.1f}" y2="{y2:.1f}"/>'


def _text(style: str, x: float, y: float, text: str, anchor: str = "start") -> str:
    return f'<text class="{style}" x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}">{escape(text)}</text>'


def _band(below: Sequence[float], above: Sequence[float], gpus: int, width: float) -> str:
    """The path along a step curve, and back along the one below it."""
    there, back = (
        _steps([value / gpus for value in values], _LEFT, width, _TOP + _AREA, _AREA) for values in (above, below)
    )
    return f"M{' '.join(there)} L{' '.join(reversed(back))}Z"


def _steps(values: Sequence[float], left: float, width: float, bottom: float, height: float) -> list[str]:
    """The points of a step curve from left to right; a value of 1 has the full height."""
    step, points = width / len(values), []
    for number, value in enumerate(values):
        y = bottom - height * value
        points += [f"{left + number * step:.1f},{y:.1f}", f"{left + (number + 1) * step:.1f},{y:.1f}"]
    return points


def _time_axis(end_s: float, width: float) -> list[str]:
    unit, size = next(((unit, size) for unit, size in _UNITS if end_s >= 3 * size), ("s", 1.0))
    raw = end_s / size / 8
    step = next((step for step in (1, 2, 5, 10, 20, 50, 100, 200, 500) if step >= raw), 1000)
    parts = []
    for number in range(0, int(end_s / size) + 1, step):
        x = _LEFT + width * number * size / end_s
        parts.append(_text("small", x, _TOP + _AREA + 17, f"{number} {unit}" if number else "0", "middle"))
    return parts


def _range(name: str, wait: Waits, number: int, y: float, x_of: XOf) -> list[str]:
    """The bar of a scheduler, from the median to the 95th percentile."""
    begin, end = x_of(wait.median_s), x_of(wait.p95_s)
    title = f"{name}: median {duration(wait.median_s)}, 95th percentile {duration(wait.p95_s)}"
    return [
        f'<g class="series-{number % 6}"><title>{escape(title)}</title>',
        _line("range", begin, y, end, y),
        f'<circle cx="{begin:.1f}" cy="{y:.1f}" r="5"/>',
        _line("end", end, y - 5, end, y + 5) + "</g>",
    ]
