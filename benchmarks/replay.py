"""A public trace under several schedulers and offered loads: the same jobs on the same cluster.

Simulated, so it depends on no machine but for the processor time; the trace is not part of the project.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from functools import partial
from hashlib import sha256
from pathlib import Path

from msgspec import Struct

from benchmarks.benchmark import Benchmark, Kind, Table
from devcluster.progress import Progress
from extender.cli.case import core
from extender.config.settings import load
from extender.simulation.contest import Baseline, Case, run
from extender.simulation.replay.arrivals import Arrival, at_load
from extender.simulation.replay.course import Terms
from extender.simulation.replay.shape import gpus_of, nodes_of, pools_from
from extender.simulation.replay.trace import Layout, read_trace
from extender.simulation.report import tables as report
from extender.simulation.report.outcome import Figures
from policies.model import Node

MUSTER = "muster"
SCHEDULERS = (Baseline.KUBE.value, Baseline.KUBE_PACKED.value, Baseline.FIFO.value, MUSTER, Baseline.IDEAL.value)
PRICE_USD = 3.67
_HELD_AT_MOST = 1.0


class Run(Struct):
    """The figures of one scheduler at one offered load; ``cpu_s``: processor time of the simulation."""

    load: float
    figures: Figures
    cpu_s: float


def benchmark(
    name: str, trace: Path, trace_cluster: str, cluster: str, loads: Sequence[float], seed: int
) -> Benchmark[Run]:
    """A column of the table for each scheduler. Raises InputError or OSError for a trace that cannot be used."""
    content = trace.read_bytes()
    arrivals, _ = read_trace(content.decode().splitlines(), Layout(), cluster=trace_cluster)
    nodes, terms = nodes_of(pools_from(cluster)), Terms()
    settings = {
        "trace": [trace.name, trace_cluster, "SHA-256", sha256(content).hexdigest()[:12]],
        "jobs": len(arrivals),
        "cluster": [cluster],
        "start_s": terms.start_s,
        "give_up_s": terms.give_up_s,
        "tries": terms.tries,
        "seed": seed,
    }
    steps = {
        f"{100 * offered:g} %, {scheduler}": partial(_measure, arrivals, nodes, terms, offered, scheduler, seed)
        for offered in loads
        for scheduler in SCHEDULERS
    }
    return Benchmark(name, KIND, settings, steps)


def tables(runs: Sequence[Run]) -> list[Table]:
    """Waiting times, uses and domains for each load."""
    all_tables = []
    for offered in dict.fromkeys(played.load for played in runs):
        figures = [played.figures for played in runs if played.load == offered]
        all_tables += [
            Table(f"{100 * offered:g} % offered load. {table.title}", table.columns, table.rows)
            for table in report.tables(figures, PRICE_USD)
        ]
    rows = [(f"{100 * played.load:g} %, {played.figures.scheduler}", f"{played.cpu_s:.1f} s") for played in runs]
    return [*all_tables, Table("Processor time of the simulation", ("run", "processor time"), rows)]


def problems(runs: Sequence[Run]) -> list[str]:
    """A gang of Muster's that holds GPUs without being whole, or that never starts although it fits."""
    mistakes = []
    for played in runs:
        if played.figures.scheduler == MUSTER and played.figures.held > _HELD_AT_MOST:
            mistakes.append(
                f"at {100 * played.load:g} % load gangs held {played.figures.held:.1f} GPU-hours without work"
            )
        if played.figures.scheduler == MUSTER and played.figures.completed < played.figures.jobs:
            mistakes.append(f"at {100 * played.load:g} % load only {played.figures.completed} jobs were completed")
    return mistakes


KIND = Kind(Run, tables, problems)


def _measure(
    arrivals: Sequence[Arrival],
    nodes: Sequence[Node],
    terms: Terms,
    offered: float,
    scheduler: str,
    seed: int,
    tell: Progress,
) -> Run:
    total = len(arrivals)

    def note(_: str, over: int) -> None:
        if over % 256 == 0:
            tell(f"{over:,} of {total:,} jobs")

    scaled = at_load(arrivals, gpus_of(nodes), offered)
    case = Case(scaled, nodes, terms, seed, {MUSTER: partial(core, load(None))})
    begun = time.process_time()
    (outcome,) = run(case, [scheduler], note)
    return Run(offered, outcome.figures, time.process_time() - begun)
