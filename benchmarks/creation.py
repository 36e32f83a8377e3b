"""Jobs of many pods while kube-controller-manager makes 20 pods a second, its default, and small Jobs behind them.

Four Jobs of 512 pods and one of 1,000 exist suspended before the clock starts. Ten Jobs of 8 are created when the first
of those has been started.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Mapping, Sequence
from datetime import datetime
from functools import partial

from msgspec import Struct

from benchmarks.benchmark import Benchmark, Kind, Table
from benchmarks.job_stage import JOBS, Arm, JobStage, Shape, job_of, suspended
from benchmarks.sightings import Sighting, Sightings, by_gang
from devcluster.api import Object
from devcluster.progress import Progress
from extender.core.limits import Limits

LARGE = {**{f"large-{number}": 512 for number in range(4)}, "largest": 1000}
SMALL = {f"small-{number}": 8 for number in range(10)}
AWAITED_S = Limits().creation_s
"""The core awaits pods that take this long to create at a time."""
MOST_REFUSED = 3
"""The Job controller writes to a Job, too, while Muster starts it."""


class Group(Struct, frozen=True):
    """The figures of the Jobs of one size. Each time is the longest of all Jobs.

    ``waited_s``: from a Job's creation to its start.
    ``bound_s``: from its start to its last Binding.
    ``binding_s``: from its first Binding to its last.
    ``writes``: how often Muster wrote to the Job.
    ``refused``: writes that were refused because another client had just written to the Job.
    """

    pods: int
    jobs: int
    waited_s: float
    bound_s: float
    binding_s: float
    writes: int
    refused: int


class Run(Struct, frozen=True):
    """``seconds``: until the last pod was seen bound."""

    seconds: float
    pods: int
    groups: list[Group]


def measure(nodes: int, patience_s: float, progress: Progress) -> Run:
    """Measure one run on a fresh control plane. Raises TimeoutError when not every pod is bound in time."""
    sizes = {**LARGE, **SMALL}
    with JobStage(Arm.MUSTER, nodes, progress, throttled=True) as stage:
        stage.pause("muster")
        _create(stage, LARGE)
        stage.api.wait_for(JOBS, lambda jobs: sum(map(suspended, jobs)) == len(LARGE), patience_s)
        stage.start_scheduler()
        with Sightings(stage.api, job_of) as sightings:
            began, wall = time.perf_counter(), time.time()
            stage.go(list(LARGE))
            stage.api.wait_for(JOBS, lambda jobs: any(not job["spec"]["suspend"] for job in jobs), patience_s)
            _create(stage, SMALL)
            progress("pods are made")
            bound = sightings.wait(sum(sizes.values()), patience_s)
        written = stage.job_writes()
        jobs = {job["metadata"]["name"]: job for job in stage.api.list(JOBS)}
    groups = [
        _group({name: jobs[name] for name, pods in sizes.items() if pods == size}, size, bound, written, wall - began)
        for size in dict.fromkeys(sizes.values())
    ]
    seconds = max(sighting.at for sighting in bound.values()) - began
    return Run(seconds=round(seconds, 1), pods=len(bound), groups=groups)


def _create(stage: JobStage, sizes: Mapping[str, int]) -> None:
    stage.api.create_all((JOBS, Shape(pods, 1).job(name, Arm.MUSTER)) for name, pods in sizes.items())


def _group(
    jobs: Mapping[str, Object], size: int, bound: dict[str, Sighting], written: Counter[tuple[str, bool]], clock: float
) -> Group:
    """The figures of the Jobs of that size. ``clock``: the seconds from the clock of sightings to the epoch's."""
    members = by_gang(bound)
    ends = {name: [sighting.at + clock for sighting in members[name]] for name in jobs}
    created = {name: _instant(job["metadata"]["creationTimestamp"]) for name, job in jobs.items()}
    started = {name: _instant(job["status"]["startTime"]) for name, job in jobs.items()}
    return Group(
        pods=size,
        jobs=len(jobs),
        waited_s=round(max(started[name] - created[name] for name in jobs), 1),
        bound_s=round(max(max(ends[name]) - started[name] for name in jobs), 1),
        binding_s=round(max(max(ends[name]) - min(ends[name]) for name in jobs), 1),
        writes=max(written[name, True] for name in jobs),
        refused=max(written[name, False] for name in jobs),
    )


def _instant(text: str) -> float:
    return datetime.fromisoformat(text).timestamp()


def tables(runs: Sequence[Run]) -> list[Table]:
    columns = (
        *("Jobs", "creation to start, at most", "start to last Binding, at most", "first to last Binding, at most"),
        *("Muster's writes to a Job, at most", "refused of a Job, at most"),
    )
    rows = [
        (
            f"{group.jobs} of {group.pods:,} pods",
            *(f"{group.waited_s:.0f} s", f"{group.bound_s:.0f} s", f"{group.binding_s:.1f} s"),
            *(str(group.writes), str(group.refused)),
        )
        for run in runs
        for group in run.groups
    ]
    ends = [(f"{run.pods:,} pods", f"{run.seconds:.0f} s", f"{run.pods / run.seconds:.1f}") for run in runs]
    return [Table("By size", columns, rows), Table("Together", ("", "all bound after", "pods/s"), ends)]


def problems(runs: Sequence[Run]) -> list[str]:
    """A Job that was started again, and small ones that the others held up for longer than is awaited at a time."""
    problems_found = []
    for group in (group for run in runs for group in run.groups):
        if group.writes > 1:
            problems_found.append(
                f"a Job of {group.pods} pods was written to {group.writes} times: it was not started once for all"
            )
        if group.refused > MOST_REFUSED:
            problems_found.append(f"{group.refused} writes to a Job of {group.pods} pods were refused")
        if group.pods == min(SMALL.values()) and group.bound_s > 1.5 * AWAITED_S:
            problems_found.append(f"a Job of {group.pods} pods was bound {group.bound_s} s after its start")
    return problems_found


KIND = Kind(Run, tables, problems)


def benchmark(nodes: int, patience_s: float) -> Benchmark[Run]:
    settings = {"nodes": nodes, "jobs": [*LARGE.values(), *SMALL.values()], "throttled": True}
    return Benchmark("creation", KIND, settings, {"muster": partial(measure, nodes, patience_s)})
