"""A public trace on cliques with some drained nodes: in how many cliques more than needed the gangs are.

Simulated, like ``replay.py``: kube-scheduler alone with the same jobs, whole gangs by first fit, and each topology
policy. The queue is the same for all of Muster's policies.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from hashlib import sha256
from pathlib import Path

from msgspec import Struct

from benchmarks.benchmark import Benchmark, Kind, Table
from devcluster.progress import Progress
from extender.cli.case import core
from extender.config.settings import load
from extender.simulation.chance import Chance
from extender.simulation.contest import misfits
from extender.simulation.replay.arrivals import Arrival, at_load
from extender.simulation.replay.baselines import PodByPod
from extender.simulation.replay.course import Course, Decider, Life, Terms
from extender.simulation.replay.muster import Muster
from extender.simulation.replay.shape import GPU, InputError, gpus_of, nodes_of, pools_from
from extender.simulation.replay.trace import Layout, read_trace
from extender.simulation.report.outcome import outcome
from extender.simulation.report.tables import duration
from policies.model import CLIQUE, Node, Topology

ALONE = {"kube-scheduler": True, "kube-scheduler-packed": False}
"""Name -> whether it spreads pods over the nodes, or packs them."""
POLICIES = ("first-fit", "best-fit", "balanced", "least-domains", "spread")
REQUIRED = "best-fit, clique required"
SCHEDULERS = (*ALONE, *POLICIES, REQUIRED)


class Run(Struct, frozen=True):
    """The figures of one scheduler. Gangs are jobs of several pods that started. Waiting is that of all jobs.

    ``needed``: the fewest cliques that could hold all gangs, summed over the gangs.
    ``spanned``: the cliques that the gangs were in, summed over the gangs.
    ``scattered``: the gangs in more cliques than they need.
    ``pairs``: all pairs of GPUs of one gang.
    ``pairs_at_best``: how many of the pairs could be in one clique.
    ``pairs_inside``: how many of the pairs were in one clique.

    The fewest cliques and the best pairs are those of an empty cluster.
    """

    scheduler: str
    gangs: int
    needed: int
    spanned: int
    scattered: int
    excess_at_most: int
    pairs: int
    pairs_at_best: int
    pairs_inside: int
    never_started: int
    median_s: float | None
    p95_s: float | None
    held_gpu_hours: float
    utilisation: float | None
    cpu_s: float

    @property
    def excess(self) -> float:
        """Mean over the gangs."""
        return (self.spanned - self.needed) / max(self.gangs, 1)


def benchmark(
    name: str, trace: Path, trace_cluster: str, cluster: str, drained: int, offered: float, jobs: int | None, seed: int
) -> Benchmark[Run]:
    """A row of the table for each scheduler. Raises InputError or OSError for what cannot be used."""
    content = trace.read_bytes()
    nodes = with_drained(nodes_of(pools_from(cluster)), drained)
    usable = [node for node in nodes if not node.unschedulable]
    per_pod = max(gpus_of([node]) for node in nodes)
    arrivals, _ = read_trace(
        content.decode().splitlines(), Layout(), cluster=trace_cluster, jobs=jobs, gpus_per_pod=per_pod
    )
    too_large = [arrival.name for arrival in misfits(arrivals, usable)]
    arrivals = [arrival for arrival in arrivals if arrival.name not in too_large]
    settings = {
        "trace": [trace.name, trace_cluster, "SHA-256", sha256(content).hexdigest()[:12]],
        "jobs": len(arrivals),
        "left_out_as_too_large": len(too_large),
        "gpus_per_pod": per_pod,
        "cluster": [cluster],
        "drained_in_each_clique": drained,
        "usable_gpus": gpus_of(usable),
        "load": offered,
        "seed": seed,
    }
    scaled = at_load(arrivals, gpus_of(usable), offered)
    steps = {scheduler: partial(_measure, scaled, nodes, scheduler, seed) for scheduler in SCHEDULERS}
    return Benchmark(name, KIND, settings, steps)


def with_drained(nodes: Sequence[Node], drained: int) -> list[Node]:
    """The same nodes with ``drained`` nodes of each clique cordoned. Raises InputError when a clique has no others."""
    left = Counter({clique: drained for node in nodes if (clique := node.labels.get(CLIQUE)) is not None})
    if not left:
        raise InputError("the cluster has no cliques; say it like this: 144 nodes x 4 GPUs in cliques of 18")
    nodes_left = []
    for node in nodes:
        clique = node.labels.get(CLIQUE, "")
        nodes_left.append(replace(node, unschedulable=left[clique] > 0))
        left[clique] -= 1
    if all(node.unschedulable for node in nodes_left):
        raise InputError(f"with {drained} nodes of each clique drained none is left")
    return nodes_left


def tables(runs: Sequence[Run]) -> list[Table]:
    """The tables of places: which cliques the gangs were in, and how much longer jobs waited for that."""
    places = [
        (
            run.scheduler,
            f"{run.gangs:,}",
            f"{run.needed / max(run.gangs, 1):.2f}",
            f"{run.excess:.2f}",
            str(run.excess_at_most),
            f"{100 * run.scattered / max(run.gangs, 1):.1f} %",
            f"{100 * run.pairs_inside / max(run.pairs, 1):.1f} %",
            f"{100 * run.pairs_at_best / max(run.pairs, 1):.1f} %",
        )
        for run in runs
    ]
    waits = [
        (
            run.scheduler,
            str(run.never_started),
            duration(run.median_s),
            duration(run.p95_s),
            f"{run.held_gpu_hours:,.0f}",
            "-" if run.utilisation is None else f"{100 * run.utilisation:.1f} %",
            f"{run.cpu_s:.0f} s",
        )
        for run in runs
    ]
    columns = (
        "scheduler",
        "gangs",
        "cliques needed",
        "cliques more than needed",
        "at most",
        "gangs in more than needed",
    )
    return [
        Table("Where gangs of several pods are", (*columns, "GPU pairs in one clique", "at best"), places),
        Table(
            "What the jobs wait",
            (
                "scheduler",
                "never started",
                "median",
                "95th percentile",
                "GPU-hours held",
                "utilisation",
                "simulated in",
            ),
            waits,
        ),
    ]


def problems(runs: Sequence[Run]) -> list[str]:
    """A policy for topology that scatters more gangs than first fit does."""
    reference = next((run.excess for run in runs if run.scheduler == "first-fit"), float("inf"))
    return [
        f"{run.scheduler}: {run.excess:.2f} cliques more than needed, and first-fit {reference:.2f}"
        for run in runs
        if run.scheduler in ("best-fit", "balanced", "least-domains") and run.excess > reference
    ]


KIND = Kind(Run, tables, problems)


def _measure(arrivals: Sequence[Arrival], nodes: Sequence[Node], scheduler: str, seed: int, tell: Progress) -> Run:
    total = len(arrivals)

    def note(over: int) -> None:
        if over % 256 == 0:
            tell(f"{over:,} of {total:,} jobs")

    begun = time.process_time()
    course = Course(arrivals, Terms(), note)
    course.play(_decider(course, nodes, scheduler, seed))
    usable = [node for node in nodes if not node.unschedulable]
    figures = outcome(scheduler, course, usable).figures
    gangs = [life for life in course.lives if life.whole_s is not None and len(life.nodes) > 1]
    cliques = _Cliques(usable)
    at_best, inside = list(map(cliques.at_best, gangs)), list(map(cliques.of, gangs))
    more = [len(shares) - len(best) for shares, best in zip(inside, at_best, strict=True)]
    return Run(
        scheduler=scheduler,
        gangs=len(gangs),
        needed=sum(map(len, at_best)),
        spanned=sum(map(len, inside)),
        scattered=sum(excess > 0 for excess in more),
        excess_at_most=max(more, default=0),
        pairs=sum(_pairs([len(life.nodes) * life.arrival.gpus]) for life in gangs),
        pairs_at_best=sum(map(_pairs, at_best)),
        pairs_inside=sum(map(_pairs, inside)),
        never_started=figures.never_started,
        median_s=figures.overall.median_s,
        p95_s=figures.overall.p95_s,
        held_gpu_hours=round(figures.held, 1),
        utilisation=figures.utilisation,
        cpu_s=round(time.process_time() - begun, 1),
    )


def _decider(course: Course, nodes: Sequence[Node], scheduler: str, seed: int) -> Decider:
    if scheduler in ALONE:
        usable = [node for node in nodes if not node.unschedulable]
        return PodByPod(course, usable, Chance(seed).stream("kube-scheduler"), spread=ALONE[scheduler])
    settings = load(None) if scheduler == REQUIRED else load(None, topology_policy=scheduler)
    return Muster(course, nodes, core(settings), Topology(required=CLIQUE) if scheduler == REQUIRED else Topology())


class _Cliques:
    """How many GPUs a gang has in each clique; a node in none is one by itself."""

    def __init__(self, nodes: Iterable[Node]) -> None:
        self._offered = {node.name: dict(node.allocatable).get(GPU, 0) for node in nodes}
        self._of = {node.name: node.labels.get(CLIQUE, node.name) for node in nodes}

    def of(self, life: Life) -> list[int]:
        return [pods * life.arrival.gpus for pods in Counter(self._of[name] for name in life.nodes).values()]

    def at_best(self, life: Life) -> list[int]:
        """On the empty cluster: the roomiest cliques, each filled."""
        return list(self._filled(life.arrival.gpus, len(life.nodes)))

    def _filled(self, gpus: int, pods: int) -> Iterator[int]:
        slots: Counter[str] = Counter()
        for name, offered in self._offered.items():
            slots[self._of[name]] += offered // gpus
        for _, room in slots.most_common():
            if pods:
                yield min(room, pods) * gpus
                pods -= min(room, pods)


def _pairs(shares: Iterable[int]) -> int:
    return sum(share * (share - 1) // 2 for share in shares)
