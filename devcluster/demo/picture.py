"""The timeline of both runs as an SVG: a row per node, a colour per use, readable on light and dark pages. Pure."""

import math
from collections.abc import Sequence
from html import escape

from devcluster.demo.ledger import Spell, Use, spells
from devcluster.demo.outcome import Run
from devcluster.demo.scenario import JOBS, Case

WIDTH, LEFT, RIGHT = 960, 96, 24
ROW, GAP = 30, 6
HEAD, FOOT = 58, 34  # of one run: its title and figures above the rows, the axis below
TOP, LEGEND = 60, 66
NARROWEST_LABEL = 80  # a job's name is written into spells that are at least this wide

CLASSES = {Use.WORKING: "working", Use.STARTING: "starting", Use.HELD: "held"}
STYLE = """
  text { font-family: system-ui, -apple-system, "Segoe UI", Roboto, "Helvetica Neue", Arial, sans-serif; fill: #1f2328 }
  .page { fill: #ffffff } .free { fill: #eaeef2 } .grid { stroke: #d0d7de } .frame { fill: none; stroke: #d0d7de }
  .title { font-size: 19px; font-weight: 600 } .head { font-size: 16px; font-weight: 600 }
  .body { font-size: 14px } .small { font-size: 13px; fill: #57606a }
  .working { fill: #2da44e } .starting { fill: #bf8700 } .held { fill: url(#stripes) }
  .stripe-a { fill: #ffd8d3 } .stripe-b { stroke: #cf222e }
  .on-working { font-size: 14px; font-weight: 600; fill: #ffffff }
  .on-held { font-size: 14px; font-weight: 600; fill: #1f2328 }
  @media (prefers-color-scheme: dark) {
    text { fill: #e6edf3 } .small { fill: #9da7b3 }
    .page { fill: #0d1117 } .free { fill: #21262d } .grid, .frame { stroke: #3d444d }
    .working { fill: #238636 } .starting { fill: #d29922 }
    .stripe-a { fill: #5a1e1b } .stripe-b { stroke: #f85149 }
    .on-held { fill: #ffffff }
  }
"""


def draw(runs: Sequence[Run], case: Case, factor: float) -> str:
    """The whole picture."""
    panel = HEAD + case.nodes * (ROW + GAP) + FOOT
    height = TOP + len(runs) * panel + LEGEND
    end_s = math.ceil(max(run.totals.observed_s for run in runs) / 600) * 600
    title = f"Two jobs of {case.work.workers} pods on {case.nodes} nodes with {case.gpus_per_node} GPUs each"
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" width="{WIDTH}" height="{height}" '
        f'role="img" aria-label="{escape(title)}">',
        f"<style>{STYLE}</style>",
        '<defs><pattern id="stripes" width="9" height="9" patternUnits="userSpaceOnUse" patternTransform="rotate(45)">'
        '<rect class="stripe-a" width="9" height="9"/>'
        '<line class="stripe-b" x1="0" y1="0" x2="0" y2="9" stroke-width="6"/></pattern></defs>',
        f'<rect class="page" width="{WIDTH}" height="{height}" rx="8"/>',
        f'<text class="title" x="{LEFT}" y="36">{escape(title)}</text>',
    ]
    for number, run in enumerate(runs):
        parts += _panel(run, case, TOP + number * panel, end_s)
    parts += _legend(height - LEGEND + 14, factor)
    return "\n".join([*parts, "</svg>\n"])


def _panel(run: Run, case: Case, top: float, end_s: float) -> list[str]:
    seen = spells(run.pods, case.work, run.totals.observed_s)
    rows = {node: top + HEAD + i * (ROW + GAP) for i, node in enumerate(_nodes(seen, case))}
    bottom = top + HEAD + case.nodes * (ROW + GAP) - GAP
    parts = [
        f'<text class="head" x="{LEFT}" y="{top + 22}">{escape(run.title)}</text>',
        f'<text class="body" x="{LEFT}" y="{top + 43}">{escape(_figures(run))}</text>',
    ]
    for minute in range(0, round(end_s / 60) + 1, 10):
        x = _x(minute * 60, end_s)
        parts.append(f'<line class="grid" x1="{x:.1f}" y1="{top + HEAD}" x2="{x:.1f}" y2="{bottom + 6}"/>')
        parts.append(f'<text class="small" x="{x:.1f}" y="{bottom + 22}" text-anchor="middle">{minute} min</text>')
    for node, y in rows.items():
        width = _x(run.totals.observed_s, end_s) - LEFT
        parts.append(f'<text class="body" x="{LEFT - 12}" y="{y + 20}" text-anchor="end">{escape(node)}</text>')
        parts.append(f'<rect class="free" x="{LEFT}" y="{y}" width="{width:.1f}" height="{ROW}" rx="3"/>')
    for spell in seen:
        parts += _spell(spell, rows[spell.node], end_s)
    return parts


def _spell(spell: Spell, y: float, end_s: float) -> list[str]:
    begin, end = _x(spell.begin_s, end_s), _x(spell.end_s, end_s)
    tip = (
        f"{spell.job}: {spell.use}, {spell.gpus} GPUs, {_minutes(spell.begin_s)} to {_minutes(spell.end_s)}, "
        f"{spell.gpu_hours:.2f} GPU-hours"
    )
    parts = [
        f'<rect class="{CLASSES[spell.use]}" x="{begin:.2f}" y="{y}" width="{max(end - begin, 0.5):.2f}" '
        f'height="{ROW}"><title>{escape(tip)}</title></rect>'
    ]
    if end - begin >= NARROWEST_LABEL and spell.use is not Use.STARTING:
        kind = "on-held" if spell.use is Use.HELD else "on-working"
        middle, name = (begin + end) / 2, escape(spell.job)
        if spell.use is Use.HELD:  # stripes behind letters are hard to read
            parts.append(f'<rect class="stripe-a" x="{middle - 36:.1f}" y="{y + 5}" width="72" height="20" rx="3"/>')
        parts.append(f'<text class="{kind}" x="{middle:.1f}" y="{y + 20}" text-anchor="middle">{name}</text>')
    return parts


def _legend(y: float, factor: float) -> list[str]:
    parts, x = [], float(LEFT)
    for kind, label in (*((CLASSES[use], str(use)) for use in Use), ("free", "free")):
        parts.append(f'<rect class="{kind}" x="{x:.0f}" y="{y - 12}" width="22" height="15" rx="2"/>')
        parts.append(f'<text class="body" x="{x + 30:.0f}" y="{y}">{label}</text>')
        x += 56 + 7.5 * len(label)
    note = f"Measured on a real control plane, time compressed {factor:g} times."
    parts.append(f'<text class="small" x="{LEFT}" y="{y + 24}">{note}</text>')
    return parts


def _figures(run: Run) -> str:
    totals = run.totals
    done = f"{totals.jobs_completed} of {len(JOBS)} jobs completed"
    if totals.makespan_s is not None:
        done += f" in {totals.makespan_s / 60:.1f} min"
    return f"{done}, {totals.productive:.2f} GPU-hours productive, {totals.held:.2f} held without work"


def _nodes(seen: Sequence[Spell], case: Case) -> list[str]:
    """The nodes that were used, and as many nameless rows as others exist."""
    used = sorted({spell.node for spell in seen})
    return used + [" " * (i + 1) for i in range(case.nodes - len(used))]


def _x(at_s: float, end_s: float) -> float:
    return LEFT + (WIDTH - LEFT - RIGHT - 12) * at_s / end_s


def _minutes(at_s: float) -> str:
    return f"{int(at_s) // 60}:{int(at_s) % 60:02d}"
