"""Preemption, side by side: evictions and what they lost, and the times of jobs by priority."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from extender.simulation.report.outcome import Figures, Outcome
from extender.simulation.report.preempted import Preempted, Times
from extender.simulation.report.tables import Table, duration, hours, share

WAITING = "Waiting by priority: median / 95th percentile / longest"
TOOK = "From submission to the end, by priority: median / 95th percentile / longest"


def preempted_tables(outcomes: Sequence[Outcome]) -> list[Table]:
    """None where nobody was evicted, and all have one priority."""
    found = [one.preempted for one in outcomes]
    names = tuple(one.figures.scheduler for one in outcomes)
    evicted = any(one.evictions for one in found)
    if not evicted and not any(one.several for one in found):
        return []
    tables = [Table("Preemption", ("", *names), _evictions(outcomes))] if evicted else []
    head = ("jobs", "count", *names)
    tables.append(Table(WAITING, head, _by_priority(found, lambda one: one.waited)))
    tables.append(Table(TOOK, head, _by_priority(found, lambda one: one.took)))
    return tables


def _evictions(outcomes: Sequence[Outcome]) -> list[tuple[str, ...]]:
    rows: list[tuple[str, Callable[[Outcome], str]]] = [
        ("Evictions of whole jobs", lambda one: f"{one.preempted.evictions:,}"),
        ("Jobs that were evicted", lambda one: f"{one.preempted.jobs:,}"),
        ("Evictions of one job, at most", lambda one: f"{one.preempted.most:,}"),
        ("GPU-hours lost to preemption", lambda one: hours(one.figures.lost)),
        ("The same as a part of what jobs had", lambda one: share(_part(one.figures))),
    ]
    return [(label, *map(cell, outcomes)) for label, cell in rows]


def _part(one: Figures) -> float | None:
    had = one.productive + one.starting + one.held + one.lost
    return one.lost / had if had else None


def _by_priority(found: Sequence[Preempted], of: Callable[[Times], tuple[float | None, ...]]) -> list[tuple[str, ...]]:
    by_priority = zip(*(one.priorities for one in found), strict=True)
    return [(_words(some[0]), f"{some[0].jobs:,}", *(_told(of(one)) for one in some)) for some in by_priority]


def _words(one: Times) -> str:
    priority = "lower priorities" if one.priority is None else f"priority {one.priority}"
    return f"{priority}, {'gangs of several pods' if one.gangs else 'all jobs'}"


def _told(times: tuple[float | None, ...]) -> str:
    return " / ".join(map(duration, times))
