"""The outcomes of several schedulers on the same jobs, side by side: tables for people, values for programs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from extender.simulation.replay.muster import Expected
from extender.simulation.report.fairness import Fairness, QueueShare, Windows
from extender.simulation.report.outcome import Figures, Outcome, Preempted, Times, Waits, binned

CURVE_BINS = 240
_SHOWN = 10
PRIORITY_WAITING = "Waiting by priority: median / 95th percentile / longest"
TOOK = "From submission to the end, by priority: median / 95th percentile / longest"
QUEUE_WAITING = "Waiting by queue: median / 90th percentile / longest"
WINDOWS = (
    "Busy hours (demand beyond the entitlement): how often each queue got its fair share within 5 %, and its worst "
    "shortfall; docs/simulate.md says how it is counted"
)
_MINUTE_S = 60.0
EXPECTED = (
    "Expected starts: the wait that came over the wait that was expected, 10th percentile / median / 90th percentile "
    "(starts)"
)
SHARES = "Shares of the queues: GPU-hours that each used, and what it was short of its entitlement"


@dataclass(frozen=True, slots=True)
class Table:
    """A table. ``rows``: a cell for each column, the first a heading. ``words``: the other cells are text, not
    figures."""

    title: str
    columns: tuple[str, ...]
    rows: Sequence[tuple[str, ...]]
    words: bool = False


@dataclass(frozen=True, slots=True)
class Input:
    """The simulated input, in words and numbers, and the version of Muster.

    ``load``: infinite if all jobs were submitted at once.
    """

    jobs: str
    cluster: str
    load: float
    window_s: float
    start_s: float
    give_up_s: float | None
    seed: int
    muster: str
    checkpoint_s: float | None = None


def tables(figures: Sequence[Figures], price: float) -> list[Table]:
    """The runs side by side. ``price``: USD per GPU-hour."""
    always = [waiting(figures), uses(figures, price)]
    return [*always, spans(figures)] if any(figure.spans for figure in figures) else always


def waiting(figures: Sequence[Figures]) -> Table:
    """The median and 95th percentile of the waiting time, by gang size and scheduler."""
    sizes = zip(*(figure.waits for figure in figures), strict=True)
    rows = [(size_words(waits[0].most_gpus), f"{waits[0].jobs:,}", *map(waited, waits)) for waits in sizes]
    rows.append(("all", f"{figures[0].jobs:,}", *(waited(figure.overall) for figure in figures)))
    names = tuple(figure.scheduler for figure in figures)
    return Table("Waiting until the gang is whole: median / 95th percentile", ("GPUs", "jobs", *names), rows)


def uses(figures: Sequence[Figures], price: float) -> Table:
    """The outcome of the jobs, and the use of the GPUs."""
    rows: list[tuple[str, Callable[[Figures], str]]] = [
        ("Jobs completed", lambda figures: f"{figures.completed:,} of {figures.jobs:,}"),
        ("Jobs that never started", lambda figures: f"{figures.never_started:,}"),
        ("Arrival window", lambda figures: duration(figures.window_s)),
        ("Drain after the last arrival", lambda figures: duration(figures.drain_s)),
        ("Makespan (arrival window and drain)", lambda figures: duration(figures.makespan_s)),
        ("Observed for", lambda figures: duration(figures.observed_s)),
        ("Productive GPU-hours", lambda figures: hours(figures.productive)),
        ("Starting GPU-hours (start-up of whole gangs)", lambda figures: hours(figures.starting)),
        ("GPU-hours held while waiting for members (rendezvous)", lambda figures: hours(figures.rendezvous)),
        ("GPU-hours held by gangs that never became complete", lambda figures: hours(figures.held_in_vain)),
        ("GPU-hours lost to preemption (work that had to be done again)", lambda figures: hours(figures.lost)),
        ("Free GPU-hours", lambda figures: hours(figures.free)),
        ("GPUs held without work, at the worst moment", lambda figures: f"{figures.held_at_most:,}"),
        ("Utilisation (productive GPUs) while jobs arrive", lambda figures: share(figures.utilisation)),
        (f"Cost of GPUs held without work, at {price:.2f} USD", lambda figures: f"{figures.held * price:,.0f} USD"),
        (f"Cost of the whole cluster, at {price:.2f} USD", lambda figures: f"{figures.gpu_hours * price:,.0f} USD"),
    ]
    cells = [(label, *(figure(of_scheduler) for of_scheduler in figures)) for label, figure in rows]
    return Table("What the GPUs did", ("", *(figure.scheduler for figure in figures)), cells)


def spans(figures: Sequence[Figures]) -> Table:
    """The number of NVLink domains of each gang of several pods."""
    placed = [(figure, dict(figure.spans)) for figure in figures if figure.spans is not None]
    counts = sorted({count for _, spanned in placed for count in spanned})
    rows = [(f"{count}", *(f"{spanned.get(count, 0):,}" for _, spanned in placed)) for count in counts]
    rows.append(("more than necessary", *(f"{figures.scattered:,}" for figures, _ in placed)))
    names = tuple(figures.scheduler for figures, _ in placed)
    return Table("Gangs of several pods, by the number of NVLink domains that they span", ("domains", *names), rows)


def never_started(outcomes: Sequence[Outcome]) -> list[Table]:
    """The jobs that Muster never starts, and why."""
    reason_tables = []
    for outcome in outcomes:
        if reason := list(outcome.reasons.items())[:_SHOWN]:
            more = f" (the first {_SHOWN} of {len(outcome.reasons):,})" if len(outcome.reasons) > _SHOWN else ""
            title = f"Never started with {outcome.figures.scheduler}{more}"
            reason_tables.append(Table(title, ("job", "why"), reason, words=True))
    return reason_tables


def as_json(about: Input, outcomes: Sequence[Outcome], price: float) -> dict[str, Any]:
    """All results for programs. ``curve``: the mean GPUs in each use over equal stretches of the observation."""
    schedulers = []
    for outcome in outcomes:
        curve = binned(outcome.steps, outcome.figures.observed_s, CURVE_BINS) if outcome.figures.observed_s else []
        shared = None if outcome.fairness is None else asdict(outcome.fairness)
        points = [[round(value, 2) for value in point] for point in curve]
        more = {
            "curve": points,
            "fairness": shared,
            "preempted": asdict(outcome.preempted),
            "reasons": dict(outcome.reasons),
        }
        more["foresight"] = None if outcome.foresight is None else asdict(outcome.foresight)
        schedulers.append(asdict(outcome.figures) | more)
    about_input = asdict(about) | {"load": about.load if about.window_s else None}
    return {"input": about_input, "price_usd_per_gpu_hour": price, "schedulers": schedulers}


def size_words(most_gpus: int) -> str:
    """The range of a size: 2 -> "2", 8 -> "5-8"."""
    least = most_gpus // 2 + 1
    return f"{most_gpus}" if least >= most_gpus else f"{least}-{most_gpus}"


def duration(seconds: float | None) -> str:
    """A duration with at most three figures, for people: 0 s, 42 s, 3.5 min, 12.4 h, 9.2 d; None: never."""
    if seconds is None:
        return "never"
    if seconds < 100:
        return f"{seconds:.0f} s"
    for unit, size, most in (("min", 60.0, 100), ("h", 3600.0, 100)):
        if seconds / size < most:
            return f"{seconds / size:.1f} {unit}"
    return f"{seconds / 86400:.1f} d"


def waited(waits: Waits) -> str:
    """The median and the 95th percentile."""
    return f"{duration(waits.median_s)} / {duration(waits.p95_s)}"


def counted(count: int, thing: str) -> str:
    """A count with its noun: 1 job, 2 jobs, 15,802 jobs."""
    return f"{count:,} {thing}{'s' * (count != 1)}"


def share(fraction: float | None) -> str:
    return "-" if fraction is None else f"{100 * fraction:.1f} %"


def hours(amount: float) -> str:
    return f"{amount:,.0f}" if amount >= 1000 else f"{amount:.2f}"


def preempted_tables(outcomes: Sequence[Outcome]) -> list[Table]:
    """The tables of preemption; empty if no job was evicted and all have one priority."""
    by_scheduler = [outcome.preempted for outcome in outcomes]
    names = tuple(outcome.figures.scheduler for outcome in outcomes)
    evicted = any(preempted.evictions for preempted in by_scheduler)
    if not evicted and not any(preempted.several for preempted in by_scheduler):
        return []
    tables = [Table("Preemption", ("", *names), _evictions(outcomes))] if evicted else []
    head = ("jobs", "count", *names)
    tables.append(Table(PRIORITY_WAITING, head, _by_priority(by_scheduler, lambda times: times.waited)))
    tables.append(Table(TOOK, head, _by_priority(by_scheduler, lambda times: times.took)))
    return tables


def _evictions(outcomes: Sequence[Outcome]) -> list[tuple[str, ...]]:
    rows: list[tuple[str, Callable[[Outcome], str]]] = [
        ("Evictions of whole jobs", lambda outcome: f"{outcome.preempted.evictions:,}"),
        ("Jobs that were evicted", lambda outcome: f"{outcome.preempted.jobs:,}"),
        ("Evictions of one job, at most", lambda outcome: f"{outcome.preempted.most:,}"),
        ("GPU-hours lost to preemption", lambda outcome: hours(outcome.figures.lost)),
        ("The same as a part of what jobs had", lambda outcome: share(_part(outcome.figures))),
    ]
    return [(label, *map(cell, outcomes)) for label, cell in rows]


def _part(figures: Figures) -> float | None:
    had = figures.productive + figures.starting + figures.held + figures.lost
    return figures.lost / had if had else None


def _by_priority(
    by_scheduler: Sequence[Preempted], of: Callable[[Times], tuple[float | None, ...]]
) -> list[tuple[str, ...]]:
    by_priority = zip(*(preempted.priorities for preempted in by_scheduler), strict=True)
    return [(_words(row[0]), f"{row[0].jobs:,}", *(_durations(of(times)) for times in row)) for row in by_priority]


def _words(times: Times) -> str:
    priority = "lower priorities" if times.priority is None else f"priority {times.priority}"
    return f"{priority}, {'gangs of several pods' if times.gangs else 'all jobs'}"


def _durations(times: tuple[float | None, ...]) -> str:
    return " / ".join(map(duration, times))


def foresight_tables(outcomes: Sequence[Outcome]) -> list[Table]:
    """The tables of reservations and of expected starts; each only if there were any."""
    by_scheduler = [
        (outcome.figures.scheduler, outcome.foresight) for outcome in outcomes if outcome.foresight is not None
    ]
    names = tuple(name for name, _ in by_scheduler)
    tables = []
    if any(foresight.kept or foresight.backfilled for _, foresight in by_scheduler):
        rows = [
            ("Reserved GPU-hours that were kept free", *(hours(foresight.kept) for _, foresight in by_scheduler)),
            ("Jobs backfilled on reserved nodes", *(f"{foresight.backfilled:,}" for _, foresight in by_scheduler)),
            (
                "Starts later than reserved, by how much at most",
                *(_late(foresight.late_s) for _, foresight in by_scheduler),
            ),
        ]
        tables.append(Table("Reservations", ("", *names), rows))
    by_queue = [{expected.queue: expected for expected in foresight.expected} for _, foresight in by_scheduler]
    if queues := sorted({queue for of_scheduler in by_queue for queue in of_scheduler}):
        cells = [
            (queue or "no queue", *(_expected(of_scheduler.get(queue)) for of_scheduler in by_queue))
            for queue in queues
        ]
        tables.append(Table(EXPECTED, ("queue", *names), cells))
    return tables


def _late(late_s: Sequence[float]) -> str:
    """How many starts came over a minute later than their reservation first said, of how many; and the latest one."""
    late = [seconds for seconds in late_s if seconds > _MINUTE_S]
    return f"{len(late):,} of {len(late_s):,}" + (f", {duration(max(late))}" if late else "")


def _expected(expected: Expected | None) -> str:
    return (
        "-"
        if expected is None
        else f"{expected.tenth:.2f} / {expected.median:.2f} / {expected.nine_tenths:.2f} ({expected.starts:,})"
    )


def fairness_tables(outcomes: Sequence[Outcome]) -> list[Table]:
    """The tables of queues; empty without queues."""
    by_scheduler = [
        (outcome.figures.scheduler, outcome.fairness) for outcome in outcomes if outcome.fairness is not None
    ]
    if not by_scheduler:
        return []
    names = tuple(name for name, _ in by_scheduler)
    waits = _rows(by_scheduler, lambda queue_share: f"{queue_share.jobs:,}", _waited)
    shares = _rows(
        by_scheduler,
        lambda queue_share: f"{queue_share.nominal:,}",
        lambda queue_share: f"{hours(queue_share.used)}, {hours(queue_share.short)} short",
    )
    windows = _rows(
        by_scheduler, lambda queue_share: f"{queue_share.nominal:,}", lambda queue_share: _within([queue_share.windows])
    )
    all_windows = [
        ("all queues", "", *(_within([queue.windows for queue in fairness.queues]) for _, fairness in by_scheduler))
    ]
    totals = [("all queues", "", *(_total(fairness) for _, fairness in by_scheduler))]
    index = [
        (
            "Jain's index",
            "",
            *("-" if fairness.jain is None else f"{fairness.jain:.3f}" for _, fairness in by_scheduler),
        )
    ]
    return [
        Table(QUEUE_WAITING, ("queue", "jobs", *names), waits),
        Table(SHARES, ("queue", "nominal", *names), [*shares, *totals, *index]),
        Table(WINDOWS, ("queue", "nominal", *names), [*windows, *all_windows]),
    ]


def _rows(
    by_scheduler: Sequence[tuple[str, Fairness]], first: Callable[[QueueShare], str], cell: Callable[[QueueShare], str]
) -> list[tuple[str, ...]]:
    by_queue = zip(*(fairness.queues for _, fairness in by_scheduler), strict=True)
    return [(shares[0].queue, first(shares[0]), *map(cell, shares)) for shares in by_queue]


def _waited(queue_share: QueueShare) -> str:
    return (
        " / ".join(map(duration, (queue_share.p50_s, queue_share.p90_s, queue_share.max_s)))
        if queue_share.jobs
        else "-"
    )


def _within(windows: Sequence[Windows]) -> str:
    count, within = sum(window.count for window in windows), sum(window.within for window in windows)
    lent = f" (and {more:,} lent)" if (more := sum(window.lent for window in windows)) else ""
    return f"{within:,}{lent} of {count:,}, {100 * max(window.worst for window in windows):.0f} %" if count else "-"


def _total(fair: Fairness) -> str:
    return f"{hours(sum(each.used for each in fair.queues))}, {hours(sum(each.short for each in fair.queues))} short"
