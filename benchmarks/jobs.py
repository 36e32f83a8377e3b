"""How fast suspended Jobs are started whole, beside kube-scheduler that starts their pods one by one.

All Jobs exist suspended before the clock starts. It starts when kube-scheduler is up and Muster, stopped (SIGSTOP)
until then, goes on; without Muster the benchmark unsuspends each Job by a PATCH. It ends when the last pod is seen
bound.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from functools import partial

from msgspec import Struct

from benchmarks.benchmark import Benchmark, Kind, Table, middle
from benchmarks.job_stage import BINDING, Arm, JobStage, Shape, job_of
from benchmarks.meter import used
from benchmarks.sightings import Sighting, Sightings, by_gang, longest_partial_s, spread
from benchmarks.stage import GPUS_PER_NODE, clique_of
from devcluster.progress import Progress

SHAPES = tuple(map(Shape.parse, ("8x1", "8x8", "64x8")))
PODS_AT_MOST = 1500
FILLED = 0.75

Writes = dict[str, dict[str, float]]


class Run(Struct, frozen=True):
    """The figures of one arm, with Jobs of one shape.

    ``writes``: per pod, by writer and resource.
    ``cpu_ms``: per pod and process.
    ``partial``: Jobs bound in part at the end.
    ``longest_partial_s``: the longest time for which a Job was bound in part on the way.
    ``binding_s``: from the first pod seen bound to the last.
    """

    arm: Arm
    shape: str
    round: int
    jobs: int
    pods: int
    seconds: float
    pods_per_s: float
    binding_s: float
    nodes_per_gang: float
    cliques_per_gang: float
    cliques_at_most: int
    cliques_needed: int
    partial: int
    longest_partial_s: float
    flushed: int
    writes: Writes
    cpu_ms: dict[str, float]


def count_of(shape: Shape, nodes: int) -> int:
    """The default number of Jobs of that shape: they fill three quarters of the nodes, or have 1,500 pods."""
    room = int(nodes * (GPUS_PER_NODE // shape.gpus) * FILLED)
    return max(1, min(room, PODS_AT_MOST) // shape.pods)


def measure(
    nodes: int,
    shape: Shape,
    count: int,
    patience_s: float,
    arm: Arm,
    number: int,
    progress: Progress,
    *,
    throttled: bool = False,
) -> Run:
    """Measure one run on a fresh control plane. Raises TimeoutError when not every pod is bound in time."""
    total = shape.pods * count
    with JobStage(arm, nodes, progress, throttled=throttled) as stage:
        stage.pause("muster")
        progress(f"creating {count} Jobs")
        names = stage.submit(shape, count, patience_s)
        stage.start_scheduler()
        with Sightings(stage.api, job_of) as sightings:
            progress("scheduling")
            before, earlier = stage.cpu_ms(), stage.written()
            began = time.perf_counter()
            stage.go(names)
            try:
                bound = sightings.wait(total, patience_s - (time.perf_counter() - began))
            except TimeoutError as error:
                raise TimeoutError(f"{error}; Jobs bound in part: {_partial(sightings.bound(), shape)}") from None
            cpu = used(stage.cpu_ms(), before)
        instants = sorted(sighting.at - began for sighting in bound.values())
        cliques, on = spread(bound, clique_of), spread(bound, lambda node: node)
        return Run(
            arm=arm,
            shape=str(shape),
            round=number,
            jobs=count,
            pods=total,
            seconds=round(instants[-1], 3),
            pods_per_s=round(total / instants[-1], 1),
            binding_s=round(instants[-1] - instants[0], 3),
            nodes_per_gang=round(sum(on) / len(on), 2),
            cliques_per_gang=round(sum(cliques) / len(cliques), 2),
            cliques_at_most=max(cliques),
            cliques_needed=shape.cliques,
            partial=_partial(bound, shape),
            longest_partial_s=round(longest_partial_s(bound, shape.pods, until=began + instants[-1]), 3),
            flushed=int(stage.scheduler_page().total("scheduler_pod_scheduled_after_flush_total")),
            writes=_per_pod(stage.written_with(total) - earlier, total),
            cpu_ms={name: round(spent / total, 3) for name, spent in cpu.items()},
        )


def _partial(bound: dict[str, Sighting], shape: Shape) -> int:
    return sum(len(members) != shape.pods for members in by_gang(bound).values())


def _per_pod(written: dict[tuple[str, str], int], pods: int) -> Writes:
    writes: Writes = {}
    for (writer, what), count in written.items():
        writes.setdefault(writer, {})[what] = round(count / pods, 3)
    return writes


def tables(runs: Sequence[Run]) -> list[Table]:
    speed = [
        (
            _title(own[0]),
            f"{middle([run.pods_per_s for run in own]):.0f}",
            f"{middle([run.seconds for run in own]):.2f} s",
            f"{middle([run.binding_s for run in own]):.2f} s",
            *(_ratio_text(ratio(runs, own[0].shape, own[0].arm, against)) for against in (Arm.ADAPTIVE, Arm.ALL)),
            f"{middle([run.nodes_per_gang for run in own]):.1f}",
            f"{middle([run.cliques_per_gang for run in own]):.1f}",
            f"{max(run.cliques_at_most for run in own)} of {own[0].cliques_needed}",
            str(max(run.partial for run in own)),
            f"{max(run.longest_partial_s for run in own) * 1000:.0f} ms",
            str(max(run.flushed for run in own)),
        )
        for own in _groups(runs)
    ]
    columns = (
        *("Jobs of pods x GPUs, arm", "pods/s", "last bind after", "first to last bind", "x adaptive", "x all"),
        *("nodes per Job", "cliques per Job", "at most, of those needed", "partial at the end", "longest partial"),
        "woken by flush",
    )
    return [
        Table("Speed", columns, speed),
        _figures("Writes per pod", runs, _flat_writes),
        _figures("Processor time per pod, ms", runs, lambda run: run.cpu_ms),
    ]


def _title(run: Run) -> str:
    return f"{run.jobs} of {run.shape}, {run.arm}"


def _figures(title: str, runs: Sequence[Run], of: Callable[[Run], dict[str, float]]) -> Table:
    """The medians of named figures, a row for each shape and arm, and their sum."""
    names = list(dict.fromkeys(name for run in runs for name in of(run)))
    rows = []
    for own in _groups(runs):
        figures = [middle([of(run).get(name, 0.0) for run in own]) for name in names]
        rows.append((_title(own[0]), *(f"{amount:.2f}" for amount in figures), f"{sum(figures):.2f}"))
    return Table(title, ("Jobs of pods x GPUs, arm", *names, "sum"), rows)


def _flat_writes(run: Run) -> dict[str, float]:
    return {f"{writer}: {what}": count for writer, own in run.writes.items() for what, count in own.items()}


def pod_writes(run: Run) -> float:
    """The writes of kube-scheduler and Muster to a pod besides its Binding."""
    written = [(what, count) for own in run.writes.values() for what, count in own.items()]
    return sum(count for what, count in written if what.partition("/")[0] == "pods" and what != BINDING)


def ratio(
    runs: Sequence[Run], shape: str, arm: Arm, reference: Arm, of: Callable[[Run], float] = lambda run: run.pods_per_s
) -> float | None:
    """The median over the rounds of this arm's speed by the reference's of the same round, with Jobs of that shape."""
    alike = [run for run in runs if run.shape == shape]
    compared = {run.round: of(run) for run in alike if run.arm is reference}
    own = [run for run in alike if run.arm is arm and run.round in compared]
    return middle([of(run) / compared[run.round] for run in own]) if own else None


def bindings_per_s(run: Run) -> float:
    """How fast pods were bound while they were, however long it took until the first was."""
    return (run.pods - 1) / run.binding_s


def _ratio_text(measured: float | None) -> str:
    return "-" if measured is None else f"{measured:.2f}"


def _groups(runs: Sequence[Run]) -> list[list[Run]]:
    """The runs of each shape and arm, shape by shape."""
    groups: dict[str, dict[Arm, list[Run]]] = {}
    for run in runs:
        groups.setdefault(run.shape, {}).setdefault(run.arm, []).append(run)
    return [own for arms in groups.values() for own in arms.values()]


def problems(runs: Sequence[Run]) -> list[str]:
    """The promises of gang scheduling, and those of Muster besides, that were not kept."""
    mistakes = []
    for run in runs:
        if run.partial and run.arm.gangs:
            mistakes.append(f"{_title(run)}: {run.partial} Jobs are bound in part")
        if not run.arm.managed:
            continue
        if run.cliques_at_most > run.cliques_needed:
            mistakes.append(
                f"{_title(run)}: a Job lies in {run.cliques_at_most} cliques instead of {run.cliques_needed}"
            )
        if run.flushed:
            mistakes.append(f"{_title(run)}: {run.flushed} pods waited for kube-scheduler's flush")
    return mistakes


KIND = Kind(Run, tables, problems)


def benchmark(
    name: str,
    nodes: int,
    shapes: Sequence[Shape],
    count: int | None,
    arms: Sequence[Arm],
    repeat: int,
    patience_s: float,
    *,
    throttled: bool = False,
) -> Benchmark[Run]:
    """``count`` Jobs of each shape, or as many as ``count_of`` says."""
    counts = {shape: count or count_of(shape, nodes) for shape in shapes}
    settings = {
        "nodes": nodes,
        "jobs": list(counts.values()),
        "shapes": [str(shape) for shape in shapes],
        "arms": list(arms),
        "repeat": repeat,
        "throttled": throttled,
    }
    steps = {
        step: partial(measure, nodes, shape, counts[shape], patience_s, arm, number, throttled=throttled)
        for step, shape, arm, number in _turns(shapes, arms, repeat)
    }
    return Benchmark(name, KIND, settings, steps)


def _turns(shapes: Sequence[Shape], arms: Sequence[Arm], repeat: int) -> Iterator[tuple[str, Shape, Arm, int]]:
    """(step, shape, arm, round): the arms of a shape follow each other, so that noise meets all alike."""
    for number in range(1, repeat + 1):
        for shape in shapes:
            for arm in arms if number % 2 else reversed(arms):
                yield f"{shape}, {arm}, round {number}", shape, arm, number
