"""How often each workload was evicted in the last hour: remembered, and of jobs written on them, to outlive us."""

from __future__ import annotations

import math

from policies.model import Job, Victim

HOUR_S = 3600.0
_ROUNDED_S = 0.001


class Evictions:
    """Instants are in seconds since the epoch, to the millisecond. ``of``: of each victim, by its name for people and
    the UID of its job: a new job of that name is another workload. ``job``: that of the victim, if it has one."""

    def __init__(self) -> None:
        self.of: dict[tuple[str, str], tuple[float, ...]] = {}

    def note(self, victim: Victim, job: Job | None, wall: float) -> None:
        """It is told to go now. What is more than an hour old is forgotten."""
        named = _named(victim, job)
        self.of[named] = (*self.of.get(named, ()), round(wall, 3))
        recent = {one: _recent(instants, wall) for one, instants in self.of.items()}
        self.of = {one: instants for one, instants in recent.items() if instants}

    def recent(self, victim: Victim, job: Job | None, wall: float) -> tuple[float, ...]:
        """When it was evicted in the last hour: by us, or, as its job says, by one of us before."""
        written = () if job is None else job.evicted
        return _recent(tuple(sorted({*written, *self.of.get(_named(victim, job), ())})), wall)

    def next_forgotten(self, wall: float) -> float:
        """When the next one that is remembered is an hour old."""
        ends = (at + HOUR_S + _ROUNDED_S for some in self.of.values() for at in some)
        return min((end for end in ends if end > wall), default=math.inf)


def _named(victim: Victim, job: Job | None) -> tuple[str, str]:
    return str(victim), "" if job is None else job.uid


def _recent(instants: tuple[float, ...], wall: float) -> tuple[float, ...]:
    return tuple(at for at in instants if wall - HOUR_S < at <= wall + 1)
