"""How many gang pods a second get bound, and what a pod costs every process.

All objects exist before the clock starts. It starts with kube-scheduler; Muster is up but stopped (SIGSTOP) until
then, so that planning, nominating and ungating are inside the measured time. It ends when the last pod is seen bound.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

from msgspec import Struct

from benchmarks.benchmark import Benchmark, Kind, Table, middle, rounds
from benchmarks.drawing import Curve, draw
from benchmarks.meter import used
from benchmarks.sightings import Sighting, Sightings, by_gang, longest_partial_s, spread
from benchmarks.stage import GPUS_PER_NODE, NODES_PER_CLIQUE, Mode, Stage, clique_of, gangs
from devcluster.progress import Progress

POINTS = 60


class Run(Struct, frozen=True):
    """The figures of one run.

    ``writes``: those of the extender, per pod.
    ``cpu_ms``: per pod and process.
    ``partial``: gangs bound in part at the end.
    ``longest_partial_s``: the longest time for which a gang was bound in part on the way.
    ``flushed``: pods that only kube-scheduler's five-minute flush has woken.
    ``curve``: (seconds, pods bound until then).
    """

    mode: Mode
    round: int
    pods: int
    seconds: float
    pods_per_s: float
    cliques_per_gang: float
    cliques_at_most: int
    cliques_needed: int
    partial: int
    longest_partial_s: float
    flushed: int
    writes: dict[str, float]
    cpu_ms: dict[str, float]
    curve: list[tuple[float, int]]


def measure(nodes: int, count: int, size: int, patience_s: float, mode: Mode, number: int, progress: Progress) -> Run:
    """Measure one mode on a fresh control plane. Raises TimeoutError when not every pod is bound in time."""
    return measure_on(Stage(mode, nodes, progress), count, size, patience_s, number, progress)


@dataclass(frozen=True)
class Load:
    """The pods to be scheduled.

    ``create``: makes that many gangs of that size.
    ``clique_of``: the clique of a node, by its name.
    ``needed``: the cliques that a gang of that size needs.
    """

    create: Callable[[Stage, int, int], None] = lambda stage, count, size: stage.create(gangs(count, size, stage.mode))
    clique_of: Callable[[str], str] = clique_of
    needed: Callable[[int], int] = lambda size: math.ceil(size / (GPUS_PER_NODE * NODES_PER_CLIQUE))


PLAIN = Load()
"""Gangs of pods with one GPU each."""


def measure_on(
    made: Stage, count: int, size: int, patience_s: float, number: int, progress: Progress, load: Load = PLAIN
) -> Run:
    """The same on a stage that was made, and not entered yet."""
    total, mode = count * size, made.mode
    with made as stage:
        stage.pause("muster")
        progress(f"creating {total} pods")
        load.create(stage, count, size)
        with Sightings(stage.api) as sightings:
            progress("scheduling")
            before = stage.cpu_ms()
            began = time.perf_counter()
            stage.start_scheduler()
            try:
                bound = sightings.wait(total, patience_s - (time.perf_counter() - began))
            except TimeoutError as error:
                raise TimeoutError(f"{error}; gangs bound in part: {_partial(sightings.bound(), size)}") from None
            cpu = used(stage.cpu_ms(), before)
        instants = sorted(sighting.at - began for sighting in bound.values())
        cliques = spread(bound, load.clique_of)
        return Run(
            mode=mode,
            round=number,
            pods=total,
            seconds=round(instants[-1], 3),
            pods_per_s=round(total / instants[-1], 1),
            cliques_per_gang=round(sum(cliques) / len(cliques), 2),
            cliques_at_most=max(cliques),
            cliques_needed=load.needed(size),
            partial=_partial(bound, size),
            longest_partial_s=round(longest_partial_s(bound, size, until=began + instants[-1]), 3),
            flushed=int(stage.scheduler_page().total("scheduler_pod_scheduled_after_flush_total")),
            writes={kind: round(writes / total, 3) for kind, writes in stage.writes().items()},
            cpu_ms={name: round(spent / total, 3) for name, spent in cpu.items()},
            curve=thinned(instants),
        )


def _partial(bound: dict[str, Sighting], size: int) -> int:
    return sum(len(members) != size for members in by_gang(bound).values())


def thinned(instants: Sequence[float], points: int = POINTS) -> list[tuple[float, int]]:
    """A few points of the curve of bound pods over time, the first and the last among them."""
    numbers = sorted({round(1 + step * (len(instants) - 1) / (points - 1)) for step in range(points)})
    return [(round(instants[number - 1], 3), number) for number in numbers]


def tables(runs: Sequence[Run]) -> list[Table]:
    writes, cost = [run.writes for run in runs], [run.cpu_ms for run in runs]
    return [
        _speed(runs),
        per_pod("Writes of the extender, per pod", names(writes), runs, lambda run: run.writes),
        per_pod("Processor time per pod, ms", names(cost), runs, lambda run: run.cpu_ms),
    ]


def _speed(runs: Sequence[Run]) -> Table:
    rows = []
    for mode, own in by_mode(runs).items():
        row = (
            f"{middle([run.pods_per_s for run in own]):.0f}",
            *(_ratio_text(ratio(runs, mode, reference)) for reference in (Mode.ADAPTIVE, Mode.ALL)),
            f"{middle([run.cliques_per_gang for run in own]):.1f}",
            str(max(run.cliques_at_most for run in own)),
            str(max(run.partial for run in own)),
            f"{max(run.longest_partial_s for run in own) * 1000:.0f} ms",
            str(max(run.flushed for run in own)),
        )
        rows.append((mode.value, *row))
    columns = (
        *("mode", "pods/s", "x adaptive", "x all", "cliques per gang", "at most"),
        *("partial at the end", "longest partial", "woken by flush"),
    )
    return Table("Speed", columns, rows)


def per_pod(title: str, columns: Sequence[str], runs: Sequence[Run], of: Callable[[Run], dict[str, float]]) -> Table:
    """The medians of named figures, a row for each mode, and their sum."""
    rows = []
    for mode, own in by_mode(runs).items():
        figures = [middle([of(run).get(name, 0) for run in own]) for name in columns]
        rows.append((mode.value, *(f"{amount:.2f}" for amount in figures), f"{sum(figures):.2f}"))
    return Table(title, ("mode", *columns, "sum"), rows)


def ratio(runs: Sequence[Run], mode: Mode, reference: Mode) -> float | None:
    """The median over the rounds of this mode's speed by the reference's of the same round."""
    compared = {run.round: run.pods_per_s for run in runs if run.mode is reference}
    own = [run for run in runs if run.mode is mode and run.round in compared]
    return middle([run.pods_per_s / compared[run.round] for run in own]) if own else None


def _ratio_text(measured: float | None) -> str:
    return "-" if measured is None else f"{measured:.2f}"


def by_mode(runs: Sequence[Run]) -> dict[Mode, list[Run]]:
    """The runs of each mode, round by round."""
    modes: dict[Mode, list[Run]] = {}
    for run in runs:
        modes.setdefault(run.mode, []).append(run)
    return modes


def names(figures: Sequence[dict[str, float]]) -> list[str]:
    """Every name that occurs, in order of appearance."""
    return list(dict.fromkeys(name for name_of in figures for name in name_of))


def problems(runs: Sequence[Run]) -> list[str]:
    """The promises of Muster that were not kept."""
    mistakes = []
    for run in runs:
        if run.mode.alone:
            continue
        if run.partial:
            mistakes.append(f"{run.mode}: {run.partial} gangs are bound in part")
        if run.cliques_at_most > run.cliques_needed:
            mistakes.append(f"{run.mode}: a gang lies in {run.cliques_at_most} cliques instead of {run.cliques_needed}")
        if run.flushed:
            mistakes.append(f"{run.mode}: {run.flushed} pods waited for kube-scheduler's flush")
    return mistakes


def picture(runs: Sequence[Run]) -> str:
    """Pods bound over time, the middle run of each mode."""
    curves = []
    for mode, own in by_mode(runs).items():
        chosen = sorted(own, key=lambda run: run.seconds)[len(own) // 2]
        curves.append(Curve(mode.value, [(0.0, 0.0), *((at, float(pods)) for at, pods in chosen.curve)]))
    return draw(f"{runs[0].pods:,} pods in gangs, bound over time", "seconds since kube-scheduler started", curves)


KIND = Kind(Run, tables, problems, picture)


def benchmark(
    name: str, nodes: int, count: int, size: int, modes: Sequence[Mode], repeat: int, patience_s: float
) -> Benchmark[Run]:
    settings = {"nodes": nodes, "gangs": count, "size": size, "modes": modes, "repeat": repeat}
    steps = {
        step: partial(measure, nodes, count, size, patience_s, mode, number)
        for step, mode, number in rounds(modes, repeat)
    }
    return Benchmark(name, KIND, settings, steps)
