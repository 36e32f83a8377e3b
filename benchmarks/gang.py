"""A large gang on a running cluster: from the creation of its last pod to the sight of its last Binding."""

from __future__ import annotations

import math
import time
from collections.abc import Sequence
from functools import partial

from msgspec import Struct

from benchmarks.benchmark import Benchmark, Kind, Table, middle
from benchmarks.sightings import PODS, Sightings, longest_partial_s, spread
from benchmarks.stage import GPUS_PER_NODE, NODES_PER_CLIQUE, Mode, Stage, clique_of, gang
from devcluster.progress import Progress

PATIENCE_S = 120.0


class Run(Struct, frozen=True):
    """The figures of one mode, with the same gang several times on an empty cluster.

    ``seconds``: the duration of each start, the first one included.
    ``create_s``: how long the pods took to create, before the clock starts.
    ``cliques``: how many cliques the gang was in at each start.
    """

    mode: Mode
    size: int
    create_s: list[float]
    seconds: list[float]
    longest_partial_s: float
    cliques: list[int]
    cliques_needed: int


def measure(nodes: int, size: int, repeat: int, mode: Mode, progress: Progress) -> Run:
    """Measure one mode on a fresh control plane. Raises TimeoutError when the gang is not bound in time."""
    created, seconds, cliques = [], [], []
    partial_s = 0.0
    with Stage(mode, nodes, progress) as stage:
        stage.start_scheduler()
        for number in range(repeat):
            progress(f"gang {number + 1} of {repeat}")
            with Sightings(stage.api) as sightings:
                began = time.perf_counter()
                stage.create(gang(f"gang-{number}", size, mode))
                complete = time.perf_counter()
                bound = sightings.wait(size, PATIENCE_S)
            last = max(sighting.at for sighting in bound.values())
            created.append(round(complete - began, 3))
            seconds.append(round(last - complete, 3))
            cliques += spread(bound, clique_of)
            partial_s = max(partial_s, longest_partial_s(bound, size, until=last))
            stage.api.delete(PODS, {"gracePeriodSeconds": 0})
            stage.api.wait_for(PODS, lambda pods: not pods)
    needed = math.ceil(size / (GPUS_PER_NODE * NODES_PER_CLIQUE))
    return Run(mode, size, created, seconds, round(partial_s, 3), cliques, needed)


def tables(runs: Sequence[Run]) -> list[Table]:
    rows = [
        (
            run.mode.value,
            f"{middle(run.seconds):.2f} s",
            f"{min(run.seconds):.2f} to {max(run.seconds):.2f} s",
            f"{middle(run.create_s):.2f} s",
            f"{run.longest_partial_s:.2f} s",
            str(max(run.cliques)),
            str(run.cliques_needed),
        )
        for run in runs
    ]
    columns = (
        "mode",
        "last creation to last bind",
        "range",
        "creation",
        "longest partial",
        "cliques",
        "least possible",
    )
    return [Table(f"One gang of {runs[0].size} pods", columns, rows)]


def problems(runs: Sequence[Run]) -> list[str]:
    return [
        f"{run.mode}: the gang lies in {max(run.cliques)} cliques instead of {run.cliques_needed}"
        for run in runs
        if not run.mode.alone and max(run.cliques) > run.cliques_needed
    ]


KIND = Kind(Run, tables, problems)


def benchmark(nodes: int, size: int, modes: Sequence[Mode], repeat: int) -> Benchmark[Run]:
    settings = {"nodes": nodes, "size": size, "modes": modes, "repeat": repeat}
    steps = {mode.value: partial(measure, nodes, size, repeat, mode) for mode in modes}
    return Benchmark("gang", KIND, settings, steps)
