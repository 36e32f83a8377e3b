"""The report as one self-contained HTML page: figures, pictures and their origin, without scripts or downloads."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from functools import partial
from html import escape

from extender.simulation.report import charts
from extender.simulation.report.charts import Share, share_rows
from extender.simulation.report.outcome import Figures, Outcome, binned
from extender.simulation.report.tables import (
    Input,
    Table,
    counted,
    duration,
    fairness_tables,
    foresight_tables,
    hours,
    never_started,
    preempted_tables,
    tables,
    waited,
)
from extender.simulation.report.verdict import longer_waits, verdict

# The colours of Okabe and Ito, or close to them: they differ for people who see red and green alike, and in lightness.
STYLE = """
:root { color-scheme: light dark; --page: #ffffff; --text: #1f2328; --soft: #59636e; --line: #d1d9e0; --card: #f6f8fa;
  --productive: #56b4e9; --starting: #e6c700; --held: #c44400; --lost: #9a5fb5; --free: #eaeef2;
  --s0: #0072b2; --s1: #d55e00; --s2: #b88600; --s3: #a84f84; --s4: #00805d; --s5: #59636e;
  --n1: #0072b2; --n2: #56b4e9; --n3: #e69f00; --n4: #d55e00 }
@media (prefers-color-scheme: dark) { :root { --page: #0d1117; --text: #e6edf3; --soft: #9198a1; --line: #3d444d;
  --card: #151b23; --productive: #2f86bd; --starting: #f0e442; --held: #ff7a33; --lost: #b07cc6; --free: #212830;
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
svg { width: 100%; min-width: 760px; height: auto; display: block } svg text { fill: var(--text); font-size: 14px }
svg .small { fill: var(--soft); font-size: 12.5px } svg .label { font-weight: 600 } svg .note { fill: var(--soft) }
.entitled { fill: none; stroke: var(--s1); stroke-width: 1.6 } .mark { stroke: var(--soft); stroke-dasharray: 4 3 }
.grid { stroke: var(--line); stroke-width: 1; opacity: .7 } .free { fill: var(--free) }
.productive { fill: var(--productive) } .starting { fill: var(--starting) } .held { fill: var(--held) }
.lost { fill: var(--lost) }
.legend { display: flex; flex-wrap: wrap; gap: 18px; font-size: 13px; color: var(--soft); margin: 6px 0 10px }
.legend i { display: inline-block; width: 12px; height: 12px; border-radius: 3px; margin-right: 6px;
  vertical-align: -1px }
.span-1 { fill: var(--n1) } .span-2 { fill: var(--n2) } .span-3 { fill: var(--n3) } .span-4 { fill: var(--n4) }
table { border-collapse: collapse; width: 100%; font-variant-numeric: tabular-nums; margin: 8px 0 4px }
th, td { text-align: right; padding: 6px 10px; border-bottom: 1px solid var(--line); white-space: nowrap }
th:first-child, td:first-child { text-align: left } th { color: var(--soft); font-weight: 600; font-size: 13px }
td:first-child { min-width: 8em; max-width: 22em; white-space: normal; overflow-wrap: anywhere }
table.words td { text-align: left; white-space: normal; min-width: 7em; overflow-wrap: anywhere }
table.words th { text-align: left }
.verdict { color: var(--text); font-size: 17px } .why { color: var(--text) }
.scroll { overflow-x: auto } .narrow { display: none } .rule { margin: 0; font-size: 13px }
footer { margin-top: 44px; color: var(--soft); font-size: 13px }
@media (max-width: 640px) { .narrow { display: block } .wide { display: none } .phone svg { min-width: 0 }
  main { padding: 20px 16px 40px } h1 { font-size: 22px } h2 { margin-top: 32px }
  .cards { grid-template-columns: 1fr; gap: 10px } th, td { padding: 5px 8px } h3 { overflow-wrap: anywhere }
  th:first-child, td:first-child { position: sticky; left: 0; background: var(--page); font-size: 13px }
  td:first-child { max-width: 11em } }
""" + "\n".join(
    f".series-{number} line {{ stroke: var(--s{number}); stroke-width: 6; stroke-linecap: round; opacity: .38 }} "
    f".series-{number} .end {{ stroke-width: 2.5; opacity: .9 }} .series-{number} circle {{ fill: var(--s{number}) }}"
    for number in range(6)
)

_RULES = {
    "kube-scheduler": "pod by pod, each on the node with the largest share of free GPUs; a gang can hold GPUs in part.",
    "kube-scheduler-packed": "pod by pod, each on the fullest node that has room; a gang can hold GPUs in part.",
    "fifo": "whole gangs, strictly in order of priority and age; while the first has no room, nothing starts.",
    "fifo-quota": "fifo in each queue by itself, within its nominal quota; nothing is lent.",
    "muster-no-queues": "Muster without the queue objects.",
    "ideal": "a bound: one machine with all GPUs, where any gang starts for which there are enough of them.",
}
_USES = [*((f"var(--{style})", name) for style, name in charts.USES), ("var(--free)", "free")]


def page(about: Input, outcomes: Sequence[Outcome], price: float) -> str:
    """The whole page. ``price``: USD per GPU-hour."""
    figures = [outcome.figures for outcome in outcomes]
    every = [*tables(figures, price), *never_started(outcomes), *foresight_tables(outcomes)]
    every += [*preempted_tables(outcomes), *fairness_tables(outcomes)]
    parts = [
        f"<h1>{escape(about.jobs)}</h1>",
        f'<p class="facts">{escape(_facts(about, figures[0]))}</p>',
        f'<p class="verdict">{escape(verdict(outcomes, price))}</p>',
        f'<div class="cards">{"".join(_card(figure, price) for figure in figures)}</div>',
        *(f'<p class="rule">{escape(f"{name}: {rule}")}</p>' for name, rule in _rules(figures)),
        *_over_time(outcomes),
        *_waiting(outcomes),
        *_shares(outcomes),
        *_spans(figures),
        *_cost(figures, price),
        "<h2>All figures</h2>",
        *(_table(table) for table in every),
        f"<footer>{escape(_assumed(about))}</footer>",
    ]
    return _document(f"{about.jobs} on {about.cluster}", parts)


def snapshot_page(title: str, facts: Sequence[str], sections: Sequence[Table]) -> str:
    """The page of Muster's decisions for a cluster: sentences, and a table for each kind of answer."""
    fact_lines = (f'<p class="facts">{escape(fact)}</p>' for fact in facts)
    shown = (_table(table) if table.rows else f"<h3>{escape(table.title)}: none</h3>" for table in sections)
    return _document(title, [f"<h1>{escape(title)}</h1>", *fact_lines, *shown])


def _document(title: str, parts: Sequence[str]) -> str:
    head = (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<title>{escape(title)}</title><style>{STYLE}</style></head><body><main>"
    )
    return "\n".join([head, *parts, "</main></body></html>\n"])


def _facts(about: Input, figures: Figures) -> str:
    load = f", offered load {100 * about.load:.0f} %" if about.window_s else ""
    arriving = f"submitted over {duration(about.window_s)}" if about.window_s else "submitted at once"
    return f"{about.cluster}: {counted(figures.gpus, 'GPU')}. {counted(figures.jobs, 'job')}, {arriving}{load}."


def _rules(figures: Sequence[Figures]) -> list[tuple[str, str]]:
    """The rule of each scheduler on the page, in a sentence."""
    return [(figure.scheduler, _RULES[figure.scheduler]) for figure in figures if figure.scheduler in _RULES]


def _assumed(about: Input) -> str:
    saved = "" if about.checkpoint_s is None else f"; work is saved every {duration(about.checkpoint_s)}"
    patience = "for ever" if about.give_up_s is None else f"for {duration(about.give_up_s)}"
    return (
        f"Simulated: a gang needs {duration(about.start_s)} to start once it is whole; members wait for the others "
        f"{patience}, then fail and are recreated{saved}. Seed {about.seed}. Muster {about.muster} is the code that "
        "decides in production, under a virtual clock; kube-scheduler, fifo and ideal are models of their rules, and "
        "make no API calls."
    )


def _card(figures: Figures, price: float) -> str:
    bad = ' class="bad"' if figures.held >= 1 else ""
    never = f'<b class="bad">{figures.never_started:,}</b>' if figures.never_started else "<b>0</b>"
    return (
        f'<div class="card"><h3>{escape(figures.scheduler)}</h3>'
        f"<b>{waited(figures.overall)}</b>"
        "<span>waiting, median / 95th percentile</span>"
        f"<b{bad}>{hours(figures.held)}</b><span>GPU-hours held without work, {figures.held * price:,.0f} USD</span>"
        f"{never}<span>jobs that never started</span></div>"
    )


def _over_time(outcomes: Sequence[Outcome]) -> list[str]:
    end_s = max(outcome.figures.observed_s for outcome in outcomes)
    parts = [
        "<h2>What the GPUs did</h2>",
        "<p>All GPUs over time. Held without work: a pod has its GPUs, and its gang is not whole. Dashed: the last job "
        "is submitted, and what follows is the drain.</p>",
        '<p class="narrow">Pictures and tables can be moved sideways.</p>',
        _legend(_USES),
    ]
    for outcome in outcomes if end_s else ():
        name, curve = outcome.figures.scheduler, binned(outcome.steps, end_s, charts.BINS)
        chart = charts.area(name, curve, outcome.figures.gpus, end_s, outcome.figures.window_s)
        parts += [f"<h3>{escape(name)}</h3>", _scroll(chart)]
    return parts


def _waiting(outcomes: Sequence[Outcome]) -> list[str]:
    figures, longer = [outcome.figures for outcome in outcomes], longer_waits(outcomes)
    return [
        "<h2>Waiting time by gang size</h2>",
        "<p>From submission until the gang is whole. On a logarithmic axis the dot is the median, and the "
        "bar ends at the 95th percentile.</p>",
        *_pictures(
            partial(charts.waiting, [figure.scheduler for figure in figures], [figure.waits for figure in figures])
        ),
        *(["<h3>Where jobs wait longer, and why</h3>"] if longer else []),
        *(f'<p class="why">{escape(sentence)}</p>' for sentence in longer),
    ]


def _shares(outcomes: Sequence[Outcome]) -> list[str]:
    by_scheduler = [
        (outcome.figures.scheduler, outcome.fairness) for outcome in outcomes if outcome.fairness is not None
    ]
    if not by_scheduler:
        return []
    parts = [
        "<h2>Shares of the queues</h2>",
        "<p>GPUs over time of each queue. The area is what it used, the line what it was entitled to: its max-min fair "
        "part by nominal quota of what its cohort has, among the queues that have jobs. Jain's index is 1 if all had "
        "the same part of their entitlement; the mean over time is shown.</p>",
    ]
    for name, fairness in by_scheduler:
        index = "" if fairness.jain is None else f", Jain's index {fairness.jain:.3f}"
        parts += [
            f"<h3>{escape(name + index)}</h3>",
            *_pictures(partial(share_rows, f"Shares with {name}", fairness.queues)),
        ]
    return parts


def _spans(figures: Sequence[Figures]) -> list[str]:
    placed = [(figure, Counter(dict(figure.spans))) for figure in figures if figure.spans]
    if not placed:
        return []
    counts = sorted({count for _, spanned in placed for count in spanned})
    groups = [(count,) for count in counts[:3]] + ([tuple(counts[3:])] if counts[3:] else [])
    counted = [f"{group[0]}" if len(group) == 1 else f"{group[0]} to {group[-1]}" for group in groups]
    names = [f"{words} {'domain' if words == '1' else 'domains'}" for words in counted]
    parts = list(enumerate(zip(groups, names, strict=True), 1))
    rows = [
        [Share(f"span-{number}", sum(map(spanned.__getitem__, group)), name) for number, (group, name) in parts]
        for _, spanned in placed
    ]
    legend = [(f"var(--n{number})", name) for number, name in enumerate(names, 1)]
    notes = [f"{figures.scattered:,} in more than necessary" for figures, _ in placed]
    return [
        "<h2>Domains spanned</h2>",
        "<p>NVLink domains that each gang of several pods is in; a node in none counts as one by itself.</p>",
        _legend(legend),
        *_pictures(partial(charts.bars, "Domains spanned", [figures.scheduler for figures, _ in placed], rows, notes)),
    ]


def _cost(figures: Sequence[Figures], price: float) -> list[str]:
    rows, notes = [], []
    for figure in figures:
        amounts = (
            ("productive", figure.productive),
            ("starting", figure.starting),
            ("held", figure.held),
            ("lost", figure.lost),
            ("free", figure.free),
        )
        rows.append([Share(style, gpu_h * price, f"{style}: {gpu_h * price:,.0f} USD") for style, gpu_h in amounts])
        notes.append(f"{figure.gpu_hours * price:,.0f} USD, {figure.held * price:,.0f} of it held")
    return [
        "<h2>Cost</h2>",
        f"<p>All GPUs from the first submission to the end, at {price:.2f} USD per GPU-hour, by use.</p>",
        _legend(_USES),
        *_pictures(partial(charts.bars, "Cost", [figure.scheduler for figure in figures], rows, notes)),
    ]


def _legend(entries: Sequence[tuple[str, str]]) -> str:
    parts = (f'<span><i style="background:{colour}"></i>{escape(name)}</span>' for colour, name in entries)
    return f'<div class="legend">{"".join(parts)}</div>'


def _table(table: Table) -> str:
    head = "".join(f"<th>{escape(cell)}</th>" for cell in table.columns)
    body = "".join(f"<tr>{''.join(f'<td>{escape(cell)}</td>' for cell in row)}</tr>" for row in table.rows)
    kind = ' class="words"' if table.words else ""
    return f"<h3>{escape(table.title)}</h3>{_scroll(f'<table{kind}><tr>{head}</tr>{body}</table>')}"


def _pictures(draw: Callable[..., str]) -> list[str]:
    """The picture for a wide screen and for a phone; the style shows one of them."""
    return [
        f'<div class="wide">{_scroll(draw())}</div>',
        f'<div class="narrow phone">{_scroll(draw(phone=True))}</div>',
    ]


def _scroll(wide: str) -> str:
    """A container that scrolls sideways on a narrow screen, while the page stays in place."""
    return f'<div class="scroll">{wide}</div>'
