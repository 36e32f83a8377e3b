"""Fairness among queues, side by side: shares, Jain's index, and waiting by queue."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from extender.simulation.report.fairness import Fairness, QueueShare
from extender.simulation.report.outcome import Outcome
from extender.simulation.report.tables import Table, duration, hours
from extender.simulation.report.windows import Windows

WAITING = "Waiting by queue: median / 90th percentile / longest"
WINDOWS = (
    "Hours with demand beyond the entitlement: in how many of them use was within 5 % of it, apart from the job whose "
    "turn was next (lent: in how many it was more, and no other queue was entitled to its next job as a whole); and "
    "how much of it was lacking in the worst one"
)
SHARES = "Shares of the queues: GPU-hours that each used, and what it was short of its entitlement"


def fairness_tables(outcomes: Sequence[Outcome]) -> list[Table]:
    """None where there are no queues."""
    found = [(one.figures.scheduler, one.fairness) for one in outcomes if one.fairness is not None]
    if not found:
        return []
    names, runs = tuple(name for name, _ in found), [one for _, one in found]
    waits = _rows(found, lambda one: f"{one.jobs:,}", _waited)
    shares = _rows(found, lambda one: f"{one.nominal:,}", lambda one: f"{hours(one.used)}, {hours(one.short)} short")
    windows = _rows(found, lambda one: f"{one.nominal:,}", lambda one: _within([one.windows]))
    totals = [("all queues", "", *(_total(one) for _, one in found))]
    index = [("Jain's index", "", *("-" if one.jain is None else f"{one.jain:.3f}" for _, one in found))]
    return [
        Table(WAITING, ("queue", "jobs", *names), waits),
        Table(SHARES, ("queue", "nominal", *names), [*shares, *totals, *index]),
        Table(WINDOWS, ("queue", "nominal", *names), [*windows, ("all queues", "", *map(_all_windows, runs))]),
    ]


def _rows(
    found: Sequence[tuple[str, Fairness]], first: Callable[[QueueShare], str], cell: Callable[[QueueShare], str]
) -> list[tuple[str, ...]]:
    by_queue = zip(*(one.queues for _, one in found), strict=True)
    return [(some[0].queue, first(some[0]), *map(cell, some)) for some in by_queue]


def _waited(one: QueueShare) -> str:
    return " / ".join(map(duration, (one.p50_s, one.p90_s, one.max_s))) if one.jobs else "-"


def _all_windows(one: Fairness) -> str:
    return _within([queue.windows for queue in one.queues])


def _within(some: Sequence[Windows]) -> str:
    count, within = sum(one.count for one in some), sum(one.within for one in some)
    lent = f" (and {more:,} lent)" if (more := sum(one.lent for one in some)) else ""
    return f"{within:,}{lent} of {count:,}, {100 * max(one.worst for one in some):.0f} %" if count else "-"


def _total(one: Fairness) -> str:
    return f"{hours(sum(each.used for each in one.queues))}, {hours(sum(each.short for each in one.queues))} short"
