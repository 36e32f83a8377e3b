"""What it costs to evict some candidates: the order of preference among choices of victims."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from functools import cached_property

from policies.placement.snapshot import Snapshot
from policies.preemption.candidates import Candidate, Unit

HOUR_S = 3600
_MOST_USED = 1 << 62
"""A LocalQueue whose weight is 0 has used without bound."""

Level = tuple[int, int, int]
"""A priority, with that of the queue; how many device-hours victims of it lose, rounded down; and how many they are."""
Size = tuple[int, int, int]
"""Devices, cpu and memory."""
Cost = tuple[int, tuple[Level, ...], int, int, int, int, Size, int, tuple[str, ...]]
"""Compared as Python compares tuples, and the smaller one is better: the highest unit; what each priority loses, the
highest first; what their LocalQueues have used, as less than nothing; the domains that are broken and need not be; the
ages in seconds, added up, then how long they have run; how much they have; their turns in their workloads; the names.
Where the ages are compared, both have the same number of victims, so the time of day does not matter."""


class Costed:
    """A candidate, with what its eviction costs at one moment. ``domains``: of the nearest level, where it has room."""

    def __init__(self, candidate: Candidate, now: float, snapshot: Snapshot) -> None:
        self.candidate = candidate
        self.name = candidate.name
        self.unit = candidate.unit
        self.priority = candidate.standing
        self.hours = int(candidate.lost(now) // HOUR_S)
        self.past = int(min(candidate.past, _MOST_USED))
        self.age = -int(candidate.created)
        self.run = self.age if candidate.started is None else -int(candidate.started)
        self.size = candidate.size
        self.turn = candidate.turn
        self._snapshot = snapshot

    @cached_property
    def domains(self) -> frozenset[int]:
        levels, rows = self._snapshot.levels, self._snapshot.rows
        if not levels:
            return frozenset()
        there = [row for held in self.candidate.claims if (row := rows.get(held.node)) is not None]
        return frozenset(levels[0].codes[there].tolist()) - {-1}

    @property
    def value(self) -> tuple[int, int, int, int, int, int, Size, int, str]:
        """The order in which candidates are given up, each seen alone."""
        return self.priority, self.unit, self.hours, *self.merit, self.name

    @property
    def merit(self) -> tuple[int, int, int, Size, int]:
        """The key that decides between two candidates that lose equally much, each seen alone."""
        return -self.past, self.age, self.run, self.size, self.turn


def cost(gone: Sequence[Costed], home: Collection[int] = ()) -> Cost:
    """What it costs to evict all of them. ``home``: domains that the preemptor is to be in; these are needed."""
    broken: set[int] = set()
    for one in gone:
        broken |= one.domains
    return (
        max((one.unit for one in gone), default=Unit.POD),
        levels_of(gone),
        -sum(one.past for one in gone),
        len(broken.difference(home)),
        sum(one.age for one in gone),
        sum(one.run for one in gone),
        _added([one.size for one in gone]),
        sum(one.turn for one in gone),
        tuple(sorted(one.name for one in gone)),
    )


def _added(sizes: Sequence[Size]) -> Size:
    return sum(one[0] for one in sizes), sum(one[1] for one in sizes), sum(one[2] for one in sizes)


def levels_of(gone: Iterable[Costed]) -> tuple[Level, ...]:
    """What each priority loses, the highest first."""
    sums: dict[int, tuple[int, int]] = {}
    for one in gone:
        hours, count = sums.get(one.priority, (0, 0))
        sums[one.priority] = hours + one.hours, count + 1
    return tuple((priority, *sums[priority]) for priority in sorted(sums, reverse=True))
