"""Shares over time as a picture: a row for each queue, what it used as an area and its entitlement as a line."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape

from extender.simulation.report.charts import WIDTH
from extender.simulation.report.fairness import QueueShare

_LEFT, _RIGHT, _ROW, _GAP = 200, 90, 34, 12


def share_rows(title: str, queues: Sequence[QueueShare]) -> str:
    """Inline SVG. Each row has its own scale, up to the most that its queue used or was entitled to."""
    parts = []
    for number, one in enumerate(queues):
        top = number * (_ROW + _GAP) + 6
        most = max((value for point in one.curve for value in point), default=0.0)
        parts.append(f'<text class="label" x="0" y="{top + 20}">{escape(_short(one.queue))}</text>')
        parts.append(f'<rect class="free" x="{_LEFT}" y="{top}" width="{WIDTH - _LEFT - _RIGHT}" height="{_ROW}"/>')
        if most:
            used, entitled = ([point[at] / most for point in one.curve] for at in (0, 1))
            bottom = top + _ROW
            end = WIDTH - _RIGHT
            area = f"M{_LEFT},{bottom} L{_points(used, bottom)} L{end},{bottom}Z"
            parts.append(f'<path class="productive" d="{area}"/>')
            parts.append(f'<polyline class="entitled" points="{_points(entitled, bottom)}"/>')
        parts.append(f'<text class="small" x="{WIDTH - _RIGHT + 8}" y="{top + 14}">{most:,.0f} GPUs</text>')
    height = len(queues) * (_ROW + _GAP) + 6
    head = f'<svg viewBox="0 0 {WIDTH} {height}" role="img" aria-label="{escape(title)}">'
    return "\n".join([head, *parts, "</svg>"])


def _points(values: Sequence[float], bottom: float) -> str:
    """Steps from the left to the right edge."""
    width = (WIDTH - _LEFT - _RIGHT) / len(values)
    found = []
    for number, value in enumerate(values):
        y = bottom - _ROW * value
        found += [f"{_LEFT + number * width:.1f},{y:.1f}", f"{_LEFT + (number + 1) * width:.1f},{y:.1f}"]
    return " ".join(found)


def _short(name: str) -> str:
    return name if len(name) <= 22 else f"{name[:19]}..."
