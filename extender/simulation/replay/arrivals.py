"""The jobs of an input: when each is submitted, what it asks for and how long it runs; slices and offered load."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from random import Random

from extender.simulation.replay.shape import InputError

LONGEST_S = 1e10
"""The longest instant or duration, 300 years: beyond it rounding loses seconds."""

URGENT = 100
"""The priority of urgent jobs, for inputs without priorities."""


@dataclass(frozen=True, slots=True)
class Arrival:
    """A job: ``pods`` of ``gpus`` each, which run for ``run_s`` once ``needed`` of them have started together.

    ``queue``: the LocalQueue of its namespace that it names, or empty.
    ``estimate_s``: how long its author expects it to run, including start-up; None if nothing is stated.
    """

    name: str
    submit_s: float
    pods: int
    gpus: int
    run_s: float
    priority: int = 0
    min_member: int = 0
    queue: str = ""
    namespace: str = "default"
    estimate_s: float | None = None

    @property
    def needed(self) -> int:
        return self.min_member or self.pods

    @property
    def all_gpus(self) -> int:
        return self.pods * self.gpus


def window_s(arrivals: Sequence[Arrival]) -> float:
    """Seconds from the first submission to the last."""
    instants = [arrival.submit_s for arrival in arrivals]
    return max(instants) - min(instants) if instants else 0.0


def offered_load(arrivals: Sequence[Arrival], gpus: int) -> float:
    """The GPU time of all jobs, as a share of the cluster's while they arrive; infinite if all arrive at once."""
    device_seconds = sum(arrival.all_gpus * arrival.run_s for arrival in arrivals)
    window = window_s(arrivals)
    return device_seconds / (gpus * window) if window else float("inf")


def at_load(arrivals: Sequence[Arrival], gpus: int, load: float) -> list[Arrival]:
    """The same jobs at other intervals, so that the offered load is ``load``. Raises InputError."""
    if not window_s(arrivals):
        raise InputError("all jobs are submitted at the same moment: there is no offered load that could be scaled")
    factor = offered_load(arrivals, gpus) / load
    if window_s(arrivals) * factor > LONGEST_S:
        raise InputError(f"at an offered load of {load:g} these jobs would arrive over more than 300 years")
    return [replace(arrival, submit_s=arrival.submit_s * factor) for arrival in arrivals]


def with_urgent(arrivals: Sequence[Arrival], fraction: float, random: Random) -> list[Arrival]:
    """The same jobs; each is urgent, with a higher priority, with probability ``fraction``."""
    return [replace(arrival, priority=URGENT) if random.random() < fraction else arrival for arrival in arrivals]


def with_estimates(arrivals: Sequence[Arrival], start_s: float, factor: float, random: Random) -> list[Arrival]:
    """The same jobs with estimates of their running time, including ``start_s`` for start-up.

    ``factor``: the largest error of an estimate in either direction, uniform on a logarithmic scale; 1 is exact.
    """
    estimated = []
    for arrival in arrivals:
        wrong = factor ** random.uniform(-1, 1)
        estimated.append(replace(arrival, estimate_s=(start_s + arrival.run_s) * wrong))
    return estimated


def from_zero(arrivals: Sequence[Arrival]) -> list[Arrival]:
    """The jobs in order of submission, the first one at 0. Raises InputError without any."""
    if not arrivals:
        raise InputError("there is no job in the input")
    first = min(arrival.submit_s for arrival in arrivals)
    moved = [replace(arrival, submit_s=arrival.submit_s - first) for arrival in arrivals]
    return sorted(moved, key=lambda arrival: arrival.submit_s)
