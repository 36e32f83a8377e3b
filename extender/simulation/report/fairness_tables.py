"""Fairness among queues, side by side: shares, Jain's index, and waiting by queue."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from extender.simulation.report.fairness import Fairness, QueueShare
from extender.simulation.report.outcome import Outcome
from extender.simulation.report.tables import Table, duration, hours

WAITING = "Waiting by queue: median / 90th percentile / longest"
SHARES = "Shares of the queues: GPU-hours that each used, and what it was short of its entitlement"


def fairness_tables(outcomes: Sequence[Outcome]) -> list[Table]:
    """None where there are no queues."""
    found = [(one.figures.scheduler, one.fairness) for one in outcomes if one.fairness is not None]
    if not found:
        return []
    names = tuple(name for name, _ in found)
    waits = _rows(found, lambda one: f"{one.jobs:,}", _waited)
    shares = _rows(found, lambda one: f"{one.nominal:,}", lambda one: f"{hours(one.used)}, {hours(one.short)} short")
    totals = [("all queues", "", *(_total(one) for _, one in found))]
    index = [("Jain's index", "", *("-" if one.jain is None else f"{one.jain:.3f}" for _, one in found))]
    return [
        Table(WAITING, ("queue", "jobs", *names), waits),
        Table(SHARES, ("queue", "nominal", *names), [*shares, *totals, *index]),
    ]


def _rows(
    found: Sequence[tuple[str, Fairness]], first: Callable[[QueueShare], str], cell: Callable[[QueueShare], str]
) -> list[tuple[str, ...]]:
    by_queue = zip(*(one.queues for _, one in found), strict=True)
    return [(some[0].queue, first(some[0]), *map(cell, some)) for some in by_queue]


def _waited(one: QueueShare) -> str:
    return " / ".join(map(duration, (one.p50_s, one.p90_s, one.max_s))) if one.jobs else "-"


def _total(one: Fairness) -> str:
    return f"{hours(sum(each.used for each in one.queues))}, {hours(sum(each.short for each in one.queues))} short"
