"""The cost of three topology levels: throughput with them, against first fit on nodes without any label, in turn."""

from __future__ import annotations

from collections.abc import Sequence
from enum import StrEnum
from functools import partial

from msgspec import Struct

from benchmarks import throughput
from benchmarks.benchmark import Benchmark, Kind, Table, middle
from benchmarks.stage import LEVELS, Mode, Stage, domains_of
from devcluster.progress import Progress


class Setup(StrEnum):
    """First fit without levels, the reference; and best fit with three of them, on the same nodes with labels."""

    NONE = "first fit, no levels"
    THREE = "best fit, three levels"


class Run(Struct, frozen=True):
    setup: Setup
    figures: throughput.Run


def benchmark(nodes: int, count: int, size: int, repeat: int, patience_s: float) -> Benchmark[Run]:
    steps = {
        f"{setup}, round {number}": partial(_measure, nodes, count, size, patience_s, setup, number)
        for number in range(1, repeat + 1)
        # Each setup goes first in every other round.
        for setup in (Setup if number % 2 else reversed(Setup))
    }
    settings = {"nodes": nodes, "gangs": count, "size": size, "mode": [Mode.NOMINATE], "repeat": repeat}
    return Benchmark(f"levels-{nodes}", KIND, settings, steps)


def tables(runs: Sequence[Run]) -> list[Table]:
    rows = []
    for setup in Setup:
        own = [run.figures for run in runs if run.setup is setup]
        if own:
            row = (
                f"{middle([figures.pods_per_s for figures in own]):.0f}",
                "-" if (against := ratio(runs, setup)) is None else f"{against:.2f}",
                *(
                    f"{middle([figures.cpu_ms.get(name, 0) for figures in own]):.2f}"
                    for name in ("extender", "kube-scheduler")
                ),
                f"{middle([sum(figures.cpu_ms.values()) for figures in own]):.2f}",
                f"{middle([figures.cliques_per_gang for figures in own]):.2f}",
                str(max(figures.partial for figures in own)),
            )
            rows.append((setup.value, *row))
    columns = (
        *("setup", "pods/s", "x first fit", "extender, ms of a core per pod", "kube-scheduler", "all processes"),
        *("cliques per gang", "partial at the end"),
    )
    return [Table("Throughput with and without levels", columns, rows)]


def ratio(runs: Sequence[Run], setup: Setup = Setup.THREE) -> float | None:
    """The median over the rounds of the speed by that of first fit in the same round."""
    reference = {run.figures.round: run.figures.pods_per_s for run in runs if run.setup is Setup.NONE}
    own = [run.figures for run in runs if run.setup is setup and run.figures.round in reference]
    return middle([figures.pods_per_s / reference[figures.round] for figures in own]) if own else None


def problems(runs: Sequence[Run]) -> list[str]:
    """Gangs in part under either setup, and gangs in several cliques where the cliques are known."""
    mistakes = [f"{run.setup}: {run.figures.partial} gangs are bound in part" for run in runs if run.figures.partial]
    return mistakes + [
        f"{run.setup}: a gang lies in {run.figures.cliques_at_most} cliques instead of {run.figures.cliques_needed}"
        for run in runs
        if run.setup is Setup.THREE and run.figures.cliques_at_most > run.figures.cliques_needed
    ]


KIND = Kind(Run, tables, problems)


def _measure(
    nodes: int, count: int, size: int, patience_s: float, setup: Setup, number: int, progress: Progress
) -> Run:
    if setup is Setup.THREE:
        stage = Stage(Mode.NOMINATE, nodes, progress, {"topology_levels": LEVELS}, domains_of)
    else:
        stage = Stage(Mode.NOMINATE, nodes, progress, {"topology_policy": "first-fit"}, lambda _: {})
    return Run(setup, throughput.measure_on(stage, count, size, patience_s, number, progress))
