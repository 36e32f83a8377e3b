"""Curves as an SVG that is readable on light and dark pages. Pure."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from html import escape

WIDTH, HEIGHT = 960, 420
LEFT, RIGHT, TOP, BOTTOM = 76, 190, 56, 52
LIGHT = ("#0969da", "#cf222e", "#1a7f37", "#9a6700", "#8250df", "#57606a")
DARK = ("#58a6ff", "#ff7b72", "#3fb950", "#d29922", "#bc8cff", "#9da7b3")
DASHES = ("", "7 4", "2 3", "10 3 2 3", "14 4", "4 8")
"""Besides the colour, for readers who do not see it."""
LABEL_APART = 18

STYLE = """
  text { font-family: system-ui, -apple-system, "Segoe UI", Roboto, "Helvetica Neue", Arial, sans-serif; fill: #1f2328 }
  .page { fill: #ffffff } .grid { stroke: #d0d7de } .title { font-size: 19px; font-weight: 600 }
  .small { font-size: 13px; fill: #57606a } .label { font-size: 14px } .curve { fill: none; stroke-width: 2.5 }
"""


@dataclass(frozen=True)
class Curve:
    """A name and its points (x, y), x ascending, neither below 0."""

    name: str
    points: Sequence[tuple[float, float]]


def draw(title: str, x_axis: str, curves: Sequence[Curve]) -> str:
    """The whole picture; each curve is named at its end."""
    x_step, x_end = scale(max(x for curve in curves for x, _ in curve.points))
    y_step, y_end = scale(max(y for curve in curves for _, y in curve.points))

    def at(x: float, y: float) -> tuple[float, float]:
        across = LEFT + x / x_end * (WIDTH - LEFT - RIGHT)
        return across, HEIGHT - BOTTOM - y / y_end * (HEIGHT - TOP - BOTTOM)

    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" width="{WIDTH}" height="{HEIGHT}" '
        f'role="img" aria-label="{escape(title)}">',
        f"<style>{STYLE}{_colours()}</style>",
        f'<rect class="page" width="{WIDTH}" height="{HEIGHT}" rx="8"/>',
        f'<text class="title" x="{LEFT}" y="34">{escape(title)}</text>',
    ]
    for number in range(round(y_end / y_step) + 1):
        x, y = at(0, number * y_step)
        parts.append(f'<line class="grid" x1="{x:.0f}" x2="{WIDTH - RIGHT}" y1="{y:.1f}" y2="{y:.1f}"/>')
        parts.append(
            f'<text class="small" x="{x - 8:.0f}" y="{y + 4:.1f}" text-anchor="end">{number * y_step:,g}</text>'
        )
    for number in range(round(x_end / x_step) + 1):
        x, y = at(number * x_step, 0)
        parts.append(
            f'<text class="small" x="{x:.1f}" y="{y + 20:.0f}" text-anchor="middle">{number * x_step:,g}</text>'
        )
    parts.append(f'<text class="small" x="{LEFT}" y="{HEIGHT - 12}">{escape(x_axis)}</text>')
    ends = [at(*curve.points[-1]) for curve in curves]
    for number, (curve, (x, _), label_y) in enumerate(zip(curves, ends, apart([y for _, y in ends]), strict=True)):
        points = " ".join(f"{x:.1f},{y:.1f}" for x, y in (at(*point) for point in curve.points))
        dash = DASHES[number % len(DASHES)]
        parts.append(
            f'<polyline class="curve stroke-{number % len(LIGHT)}" stroke-dasharray="{dash}" points="{points}"/>'
        )
        parts.append(
            f'<text class="label fill-{number % len(LIGHT)}" x="{x + 8:.1f}" y="{label_y + 5:.1f}">'
            f"{escape(curve.name)}</text>"
        )
    return "\n".join([*parts, "</svg>\n"])


def scale(largest: float) -> tuple[float, float]:
    """(the step between marks, the last mark): round steps of which four to ten cover 0..largest."""
    raw = max(largest, 1e-9) / 5
    magnitude = 10 ** math.floor(math.log10(raw))
    step = next(magnitude * factor for factor in (1, 2, 5, 10) if magnitude * factor >= raw)
    return step, step * math.ceil(round(largest / step, 9))


def apart(heights: Sequence[float], least: float = LABEL_APART) -> list[float]:
    """The heights, moved as little downwards as keeps labels from covering each other."""
    placed: dict[int, float] = {}
    lowest = -math.inf
    for number in sorted(range(len(heights)), key=lambda number: heights[number]):
        lowest = placed[number] = max(heights[number], lowest + least)
    return [placed[number] for number in range(len(heights))]


def _colours() -> str:
    def rules(colours: Sequence[str]) -> str:
        return " ".join(
            f".stroke-{number} {{ stroke: {colour} }} text.fill-{number} {{ fill: {colour} }}"
            for number, colour in enumerate(colours)
        )

    dark = "text { fill: #e6edf3 } .small { fill: #9da7b3 } .page { fill: #0d1117 } .grid { stroke: #3d444d }"
    return f"  {rules(LIGHT)}\n  @media (prefers-color-scheme: dark) {{ {dark} {rules(DARK)} }}\n"
