"""The report as one self-contained HTML page: figures, pictures and how they came about; no script, nothing fetched."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape

from extender.simulate import charts
from extender.simulate.charts import Share
from extender.simulate.outcome import SECONDS_PER_HOUR, Figures, Outcome, binned
from extender.simulate.report import Input, Table, duration, hours, tables

_SPANS = ("span-1", "span-2", "span-3", "span-4")

# The colours of Okabe and Ito, or close to them: told apart by people who see red and green alike, and by their light.
STYLE = """
:root { color-scheme: light dark; --page: #ffffff; --text: #1f2328; --soft: #59636e; --line: #d1d9e0; --card: #f6f8fa;
  --productive: #56b4e9; --starting: #e6c700; --held: #c44400; --free: #eaeef2;
  --s0: #0072b2; --s1: #d55e00; --s2: #b88600; --s3: #a84f84; --s4: #00805d; --s5: #59636e;
  --n1: #0072b2; --n2: #56b4e9; --n3: #e69f00; --n4: #d55e00 }
@media (prefers-color-scheme: dark) { :root { --page: #0d1117; --text: #e6edf3; --soft: #9198a1; --line: #3d444d;
  --card: #151b23; --productive: #2f86bd; --starting: #f0e442; --held: #ff7a33; --free: #212830;
  --s0: #56b4e9; --s1: #ff7a33; --s2: #e69f00; --s3: #d98cb3; --s4: #2fc79a; --s5: #9198a1;
  --n1: #2f86bd; --n2: #8fd0f5; --n3: #e69f00; --n4: #ff7a33 } }
* { box-sizing: border-box }
body { margin: 0; background: var(--page); color: var(--text); font: 15px/1.5 system-ui, -apple-system, "Segoe UI",
  Roboto, "Helvetica Neue", Arial, sans-serif }
main { max-width: 1160px; margin: 0 auto; padding: 32px 40px 56px }
h1 { font-size: 26px; margin: 0 0 4px } h2 { font-size: 19px; margin: 44px 0 4px }
h3 { font-size: 15px; margin: 18px 0 2px }
p { margin: 0 0 10px; color: var(--soft); max-width: 78ch } p.facts { color: var(--text); max-width: none }
.cards { display: grid; grid-template-columns: repeat(auto-fit, minmax(190px, 1fr)); gap: 14px; margin: 24px 0 }
.card { background: var(--card); border: 1px solid var(--line); border-radius: 10px; padding: 14px 16px }
.card h3 { margin: 0 0 8px; overflow-wrap: anywhere }
.card b { display: block; font-size: 21px; line-height: 1.25; font-variant-numeric: tabular-nums }
.card span { display: block; color: var(--soft); font-size: 13px; margin-bottom: 8px } .card .bad { color: var(--held) }
svg { width: 100%; height: auto; display: block } svg text { fill: var(--text); font-size: 14px }
svg .small { fill: var(--soft); font-size: 12.5px } svg .label { font-weight: 600 } svg .note { fill: var(--soft) }
.mark { stroke: var(--soft); stroke-dasharray: 4 3 }
.grid { stroke: var(--line); stroke-width: 1; opacity: .7 } .free { fill: var(--free) }
.productive { fill: var(--productive) } .starting { fill: var(--starting) } .held { fill: var(--held) }
.legend { display: flex; flex-wrap: wrap; gap: 18px; font-size: 13px; color: var(--soft); margin: 6px 0 10px }
.legend i { display: inline-block; width: 12px; height: 12px; border-radius: 3px; margin-right: 6px;
  vertical-align: -1px }
.span-1 { fill: var(--n1) } .span-2 { fill: var(--n2) } .span-3 { fill: var(--n3) } .span-4 { fill: var(--n4) }
table { border-collapse: collapse; width: 100%; font-variant-numeric: tabular-nums; margin: 8px 0 4px }
th, td { text-align: right; padding: 6px 10px; border-bottom: 1px solid var(--line); white-space: nowrap }
th:first-child, td:first-child { text-align: left } th { color: var(--soft); font-weight: 600; font-size: 13px }
.scroll { overflow-x: auto } footer { margin-top: 44px; color: var(--soft); font-size: 13px }
""" + "\n".join(
    f".series-{number} line {{ stroke: var(--s{number}); stroke-width: 6; stroke-linecap: round; opacity: .38 }} "
    f".series-{number} .end {{ stroke-width: 2.5; opacity: .9 }} .series-{number} circle {{ fill: var(--s{number}) }}"
    for number in range(6)
)


def page(about: Input, outcomes: Sequence[Outcome], price: float) -> str:
    """The whole page; ``price`` in USD per GPU-hour."""
    figures = [one.figures for one in outcomes]
    parts = [
        "<!doctype html>",
        '<html lang="en"><head><meta charset="utf-8">',
        '<meta name="viewport" content="width=device-width, initial-scale=1">',
        f"<title>{escape(about.jobs)} on {escape(about.cluster)}</title><style>{STYLE}</style></head><body><main>",
        f"<h1>{escape(about.jobs)}</h1>",
        f'<p class="facts">{escape(_facts(about, figures[0]))}</p>',
        f'<div class="cards">{"".join(_card(one, price) for one in figures)}</div>',
        *_over_time(outcomes),
        *_waiting(figures),
        *_spans(figures),
        *_cost(figures, price),
        "<h2>All figures</h2>",
        *(_table(table) for table in tables(figures, price)),
        f"<footer>{escape(_assumed(about))}</footer>",
        "</main></body></html>\n",
    ]
    return "\n".join(parts)


def _facts(about: Input, one: Figures) -> str:
    load = f", offered load {100 * about.load:.0f} %" if about.window_s else ""
    arriving = f"submitted over {duration(about.window_s)}" if about.window_s else "submitted at once"
    return f"{about.cluster}: {one.gpus:,} GPUs. {one.jobs:,} jobs, {arriving}{load}."


def _assumed(about: Input) -> str:
    patience = "for ever" if about.give_up_s is None else f"for {duration(about.give_up_s)}"
    return (
        f"Simulated: a gang needs {duration(about.start_s)} to start once it is whole; members wait for the others "
        f"{patience}, then fail and are made anew. Seed {about.seed}. Muster {about.muster} is the code that decides "
        "in production, under a virtual clock; kube-scheduler, fifo and ideal are models of their rules, and make no "
        "API calls."
    )


def _card(one: Figures, price: float) -> str:
    bad = ' class="bad"' if one.held >= 1 else ""
    never = f'<b class="bad">{one.never_started:,}</b>' if one.never_started else "<b>0</b>"
    return (
        f'<div class="card"><h3>{escape(one.scheduler)}</h3>'
        f"<b>{duration(one.overall.median_s)} / {duration(one.overall.p95_s)}</b>"
        "<span>waiting, median / 95th percentile</span>"
        f"<b{bad}>{hours(one.held)}</b><span>GPU-hours held without work, {one.held * price:,.0f} USD</span>"
        f"{never}<span>jobs that never started</span></div>"
    )


def _over_time(outcomes: Sequence[Outcome]) -> list[str]:
    end_s = max(one.figures.observed_s for one in outcomes)
    parts = [
        "<h2>What the GPUs did</h2>",
        "<p>All GPUs over time. Held without work: a pod has its GPUs, and its gang is not whole. Dashed: the last job "
        "is submitted, and what follows is the drain.</p>",
        _legend([(f"var(--{style})", name) for style, name in charts.USES] + [("var(--free)", "free")]),
    ]
    for one in outcomes:
        curve = binned(one.steps, end_s, charts.BINS) if end_s else []
        if curve:
            name = one.figures.scheduler
            parts += [
                f"<h3>{escape(name)}</h3>",
                charts.area(name, curve, one.figures.gpus, end_s, one.figures.window_s),
            ]
    return parts


def _waiting(figures: Sequence[Figures]) -> list[str]:
    return [
        "<h2>Waiting time by gang size</h2>",
        "<p>From submission until the gang is whole. On a logarithmic axis the dot is the median, and the "
        "bar ends at the 95th percentile.</p>",
        charts.waiting([one.scheduler for one in figures], [one.waits for one in figures]),
    ]


def _spans(figures: Sequence[Figures]) -> list[str]:
    placed = [(one, dict(one.spans)) for one in figures if one.spans]
    if not placed:
        return []
    counts = sorted({count for _, spanned in placed for count in spanned})
    groups = [(count,) for count in counts[:3]] + ([tuple(counts[3:])] if counts[3:] else [])
    counted = [f"{group[0]}" if len(group) == 1 else f"{group[0]} to {group[-1]}" for group in groups]
    names = [f"{words} {'domain' if words == '1' else 'domains'}" for words in counted]
    rows = [
        [
            Share(style, sum(spanned.get(count, 0) for count in group), name)
            for style, group, name in zip(_SPANS, groups, names, strict=False)
        ]
        for _, spanned in placed
    ]
    legend = [(f"var(--n{number})", name) for number, name in enumerate(names, 1)]
    notes = [f"{one.scattered:,} in more than necessary" for one, _ in placed]
    return [
        "<h2>Domains spanned</h2>",
        "<p>NVLink domains that each gang of several pods is in; a node in none counts as one by itself.</p>",
        _legend(legend),
        charts.bars("Domains spanned", [one.scheduler for one, _ in placed], rows, notes),
    ]


def _cost(figures: Sequence[Figures], price: float) -> list[str]:
    rows, notes = [], []
    for one in figures:
        amounts = (("productive", one.productive), ("starting", one.starting), ("held", one.held), ("free", one.free))
        rows.append([Share(style, gpu_h * price, f"{style}: {gpu_h * price:,.0f} USD") for style, gpu_h in amounts])
        whole = one.gpus * one.observed_s / SECONDS_PER_HOUR * price
        notes.append(f"{whole:,.0f} USD, {one.held * price:,.0f} of it held")
    return [
        "<h2>Cost</h2>",
        f"<p>All GPUs from the first submission to the end, at {price:.2f} USD per GPU-hour, by use.</p>",
        _legend([(f"var(--{style})", name) for style, name in charts.USES] + [("var(--free)", "free")]),
        charts.bars("Cost", [one.scheduler for one in figures], rows, notes),
    ]


def _legend(entries: Sequence[tuple[str, str]]) -> str:
    parts = (f'<span><i style="background:{colour}"></i>{escape(name)}</span>' for colour, name in entries)
    return f'<div class="legend">{"".join(parts)}</div>'


def _table(table: Table) -> str:
    head = "".join(f"<th>{escape(cell)}</th>" for cell in table.columns)
    body = "".join(f"<tr>{''.join(f'<td>{escape(cell)}</td>' for cell in row)}</tr>" for row in table.rows)
    return f'<h3>{escape(table.title)}</h3><div class="scroll"><table><tr>{head}</tr>{body}</table></div>'
