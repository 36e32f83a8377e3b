"""How often each workload was evicted in the last hour: remembered, and of jobs written on them, to outlive us."""

from __future__ import annotations

import math

from policies.model import Job, Victim

HOUR_S = 3600.0
_ROUNDED_S = 0.001


class Evictions:
    """Instants are in seconds since the epoch, to the millisecond. ``of``: of each victim, by its name for people."""

    def __init__(self) -> None:
        self.of: dict[str, tuple[float, ...]] = {}

    def note(self, victim: Victim, wall: float) -> None:
        """It is told to go now. What is more than an hour old is forgotten."""
        self.of[str(victim)] = (*self.of.get(str(victim), ()), round(wall, 3))
        recent = {name: _recent(instants, wall) for name, instants in self.of.items()}
        self.of = {name: instants for name, instants in recent.items() if instants}

    def recent(self, victim: Victim, job: Job | None, wall: float) -> tuple[float, ...]:
        """When it was evicted in the last hour: by us, or, as its job says, by one of us before."""
        written = () if job is None else job.evicted
        return _recent(tuple(sorted({*written, *self.of.get(str(victim), ())})), wall)

    def next_forgotten(self, wall: float) -> float:
        """When the next one that is remembered is an hour old."""
        ends = (at + HOUR_S + _ROUNDED_S for some in self.of.values() for at in some)
        return min((end for end in ends if end > wall), default=math.inf)


def _recent(instants: tuple[float, ...], wall: float) -> tuple[float, ...]:
    return tuple(at for at in instants if wall - HOUR_S < at <= wall + 1)
