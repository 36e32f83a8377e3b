"""GPU-hours from the cluster's events: every GPU-second between two moments that a watch has shown. Pure.

All times are seconds of the demo's clock, which is as many times faster than ours as its factor says.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import StrEnum

SECONDS_PER_HOUR = 3600.0


class Use(StrEnum):
    """The state of the GPUs that a pod has."""

    HELD = "held without work"  # the pod has its node, and waits for the rest of its job
    STARTING = "starting"  # all workers run and find each other
    WORKING = "productive"


@dataclass(frozen=True)
class PodTimes:
    """When one pod was seen to get its node, to run, and to end; None for what has not happened."""

    job: str
    name: str
    node: str | None = None
    gpus: int = 8
    bound_s: float | None = None
    running_s: float | None = None
    ended_s: float | None = None
    succeeded: bool = False


@dataclass(frozen=True)
class Work:
    """The work of a job: all its workers find each other, then all of them work."""

    workers: int = 4
    rendezvous_s: float = 10.0
    work_s: float = 1750.0


@dataclass(frozen=True)
class Spell:
    """A stretch of time in which the GPUs of one pod did one thing."""

    job: str
    node: str
    gpus: int
    use: Use
    begin_s: float
    end_s: float

    @property
    def gpu_hours(self) -> float:
        return self.gpus * (self.end_s - self.begin_s) / SECONDS_PER_HOUR


@dataclass(frozen=True)
class Totals:
    """The figures of one run. The four kinds of GPU-hours add up to all GPUs over the observed time."""

    jobs_completed: int
    jobs: int
    observed_s: float
    makespan_s: float | None  # until the last job was complete; None if one never was
    productive: float
    starting: float
    held: float
    free: float


def spells(pods: Sequence[PodTimes], work: Work, until_s: float) -> list[Spell]:
    """The spells of every GPU that was given to a pod, until the given moment."""
    return [
        spell
        for job in sorted({pod.job for pod in pods})
        for pod in pods
        if pod.job == job
        for spell in _of_pod(pod, _gathered_s(job, pods, work), work, until_s)
    ]


def totals(pods: Sequence[PodTimes], jobs: Sequence[str], work: Work, all_gpus: int, until_s: float) -> Totals:
    """The figures of a run, from its begin until all jobs were complete, or until the given moment if they were not."""
    ends = [completed_s(job, pods, work) for job in jobs]
    completed = [end for end in ends if end is not None and end <= until_s]
    if completed and len(completed) == len(ends):
        until_s = max(completed)
    seen = spells(pods, work, until_s)
    hours = {use: sum(spell.gpu_hours for spell in seen if spell.use is use) for use in Use}
    return Totals(
        jobs_completed=len(completed),
        jobs=len(ends),
        observed_s=until_s,
        makespan_s=max(completed) if completed and len(completed) == len(ends) else None,
        productive=hours[Use.WORKING],
        starting=hours[Use.STARTING],
        held=hours[Use.HELD],
        free=all_gpus * until_s / SECONDS_PER_HOUR - sum(hours.values()),
    )


def completed_s(job: str, pods: Iterable[PodTimes], work: Work) -> float | None:
    """When the last worker of the job succeeded, or None."""
    ends = [pod.ended_s for pod in pods if pod.job == job and pod.succeeded and pod.ended_s is not None]
    return max(ends) if len(ends) >= work.workers else None


def _gathered_s(job: str, pods: Iterable[PodTimes], work: Work) -> float | None:
    """When the last of the job's workers came to run beside the others, or None."""
    starts = sorted(pod.running_s for pod in pods if pod.job == job and pod.running_s is not None)
    return starts[work.workers - 1] if len(starts) >= work.workers else None


def _of_pod(pod: PodTimes, gathered_s: float | None, work: Work, until_s: float) -> list[Spell]:
    if pod.bound_s is None or pod.node is None:
        return []
    end_s = until_s if pod.ended_s is None else pod.ended_s
    work_from_s = gather_s = end_s if gathered_s is None else gathered_s
    if gathered_s is not None:
        work_from_s = gathered_s + work.rendezvous_s
        if pod.succeeded:
            # A worker works for exactly its working time. The rest between the gathering and its success is starting.
            work_from_s = max(gathered_s, end_s - work.work_s)
    stages = (
        (Use.HELD, pod.bound_s, gather_s),
        (Use.STARTING, max(pod.bound_s, gather_s), work_from_s),
        (Use.WORKING, max(pod.bound_s, work_from_s), end_s),
    )
    return [
        Spell(pod.job, pod.node, pod.gpus, use, begin, min(finish, end_s, until_s))
        for use, begin, finish in stages
        if min(finish, end_s, until_s) > begin
    ]
