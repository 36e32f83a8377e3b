"""How long the core alone takes to decide, and what it keeps in memory: no Kubernetes, a process of its own per size.

The clusters are half full and fragmented: on average four of a node's eight GPUs are taken, from none to all of them.
They have three levels: 16 nodes to a clique, ten cliques to a block, ten blocks to a zone.

Their nodes list four names of resources. Nodes of clouds list many more: what twelve names cost against four is
measured on two such clusters in turn.
"""

from __future__ import annotations

import multiprocessing
import os
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import TypeVar

from msgspec import Struct, structs

from benchmarks.benchmark import Benchmark, Kind, Table, middle
from benchmarks.meter import memory_mib
from benchmarks.stage import GPU, GPUS_PER_NODE, LEVELS, ZONE, domains_of
from devcluster.progress import Progress
from extender.core.engine import Engine
from extender.core.events import Event, NodeSeen, PodGone, PodSeen, Synced, Tick
from extender.core.limits import Limits
from extender.runtime import garbage
from policies.api import TopologyPolicy
from policies.chosen import OURS, Policies
from policies.model import (
    HOSTNAME,
    UNCONSTRAINED,
    Constraints,
    Dialect,
    GroupRef,
    Node,
    Pod,
    Requests,
    Requirement,
    RunTerms,
    Selector,
    Spread,
    Term,
    Topology,
)
from policies.model.levels import levels_from
from policies.strategies.balanced import Balanced
from policies.strategies.best_fit import BestFit

ResultT = TypeVar("ResultT")

SMALL, MEDIUM, LARGE = 8, 64, 512
FEWEST = 200
"""Nodes that there have to be for one of each."""
ROUNDS = {SMALL: 50, MEDIUM: 20, LARGE: 10}
PASSES = 5
BIG_NODES, BIG_GPUS = 4, 16
"""The number and size of the nodes with room for one member of a gang each: such a gang can never start whole."""
SOON_S = 1.0
"""A wake-up that the core asks for within this time belongs to the decision under way."""
WAITING, SHAPES = 1000, 8
"""Gangs that wait while their expected starts are worked out, and in how many ways they differ in what they ask for."""
FORECAST_S = 60.0
REST_S = 60.0
"""A time after which the core has no reason left to report, and no pause after an unsuccessful pass left to take."""


@dataclass(frozen=True)
class Question:
    """A gang that asks something of the levels, or of other pods."""

    words: str
    size: int
    topology: Topology
    constraints: Constraints = UNCONSTRAINED


QUESTIONS: dict[type[TopologyPolicy], Sequence[Question]] = {
    BestFit: (
        Question("8, in a clique", SMALL, Topology("clique")),
        Question("8, in a block, if possible in a clique", SMALL, Topology("block", "clique")),
        Question("8, in slices of 4, each in a clique, all in a block", SMALL, Topology("block", None, 4, "clique")),
        Question("512, in a block", LARGE, Topology("block")),
        Question("512, in slices of 16, each in a clique, all in a zone", LARGE, Topology("zone", None, 16, "clique")),
    ),
    Balanced: (
        Question("8, balanced", SMALL, Topology()),
        Question("512, balanced", LARGE, Topology()),
    ),
}
_MEMBERS: Selector = (Requirement("app", "In", ("train",)),)
_ONE_EACH = (Term(HOSTNAME, _MEMBERS, ("default",)),)
_EVENLY = (Spread(ZONE, 1, _MEMBERS),)
RELATED = (
    Question("64", MEDIUM, Topology()),
    Question("64, one to a node", MEDIUM, Topology(), Constraints(anti_affinity=_ONE_EACH)),
    Question(
        "64, one to a node, evenly over the zones",
        MEDIUM,
        Topology(),
        Constraints(anti_affinity=_ONE_EACH, spread=_EVENLY),
    ),
)


OTHER_NAMES: Requests = (
    *(("ephemeral-storage", 2**42), ("hugepages-1Gi", 0), ("hugepages-2Mi", 10 * 2**30), ("hugepages-32Mi", 0)),
    *(("hugepages-64Ki", 0), ("nvidia.com/rdma-vf", 16), ("rdma/ib", 1000), ("vpc.amazonaws.com/efa", 32)),
)
"""The eight resources that nodes with twelve names list beside the four."""


class Names(Struct, frozen=True):
    """Nodes with four names of resources, and with twelve: processor time of the same decisions, and memory."""

    few_ms: dict[str, list[float]]
    many_ms: dict[str, list[float]]
    few_mib: float
    many_mib: float

    def ratios(self) -> dict[str, float]:
        """How many times as much the same takes with twelve names."""
        times = {what: middle(self.many_ms[what]) / middle(few) for what, few in self.few_ms.items()}
        return times | {"memory": self.many_mib / self.few_mib}


class Starts(Struct, frozen=True):
    """The cost of the forecast of all waiting gangs: processor time, in ms.

    ``all_ms``: the time of each forecast.
    ``longest_ms``: the longest slice of each, after which other events get in.
    ``known``: how many of the gangs have an expected start.
    """

    gangs: int
    known: int
    all_ms: list[float]
    longest_ms: list[float]


class Run(Struct, frozen=True):
    """The figures of one cluster size. Times are of the core's own code.

    ``asking_ms``: the decisions about gangs with demands on the levels or on other pods, by demand.
    ``pass_ms``: one admission pass over the gangs that wait.
    ``longest_ms``: the longest time for which the pass kept the process from answering.
    """

    nodes: int
    pods: int
    read_s: float
    memory_mib: float
    small_ms: list[float]
    large_ms: list[float]
    asking_ms: dict[str, list[float]]
    gangs: int
    pass_ms: list[float]
    longest_ms: float
    names: Names | None = None
    """None in results from before it was measured."""
    starts: Starts | None = None
    """None in results from before it was measured."""


class Core:
    """A core under a clock of its own, whose work is timed: by default by the wall clock."""

    def __init__(
        self,
        policies: Policies = OURS,
        clock: Callable[[], float] = time.perf_counter,
        limits: Limits = Limits(),  # noqa: B008 (frozen)
    ) -> None:
        self._clock = clock
        self._core = Engine(policies=policies, levels=levels_from(LEVELS), limits=limits)
        self._now = 0.0

    def feed(self, events: Iterable[Event]) -> float:
        """How long these take, in seconds."""
        began = self._clock()
        for event in events:
            self._core.handle(event, self._now)
        return self._clock() - began

    def decide(self, within_s: float = SOON_S) -> list[float]:
        """Do all that is due within that time: how long each step took, in ms."""
        steps = []
        end = self._now + within_s
        while (wake := self._core.next_wake()) is not None and wake < end:
            self._now = max(self._now, wake)
            steps.append(self.feed([Tick()]) * 1000)
        self._now = end
        return steps

    def placed(self) -> int:
        """How many members of gangs have a node now and are not bound."""
        return sum(len(gang.placement) for gang in self._core.state.workloads.values())

    def expected(self) -> int:
        """Return the number of gangs that have an expected start."""
        return len(self._core.state.expectations.of)


def measure(nodes: int, gangs: int, progress: Progress) -> Run:
    """Measure one size, in a process of its own: memory left over from another size must not count here."""
    progress(f"{nodes} nodes")
    run = _alone(measure_here, nodes, gangs)
    progress(f"{nodes} nodes, names of resources")
    few, many = (_alone(_memory_of, nodes, more) for more in ((), OTHER_NAMES))
    progress(f"{nodes} nodes, expected starts")
    starts = _alone(measure_starts, nodes, WAITING)
    return structs.replace(run, names=Names(*_alone(compare_names, nodes, gangs), few, many), starts=starts)


def _alone(work: Callable[..., ResultT], *args: object) -> ResultT:
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        return pool.apply(work, args)


def _memory_of(nodes: int, more: Requests) -> float:
    """Return the MiB that a cluster adds to this process; its nodes list these resources besides."""
    garbage.collect_hardly_ever()
    core = Core()
    before, _ = memory_mib(os.getpid())
    core.feed(_cluster(nodes, more))
    garbage.collect_rarely()
    resident, _ = memory_mib(os.getpid())
    return round(resident - before, 1)


def compare_names(nodes: int, gangs: int) -> tuple[dict[str, list[float]], dict[str, list[float]]]:
    """Make the same decisions on nodes with four names and with twelve, in turn: other load slows both down.

    Returns the processor time of each decision, in ms, for four names and for twelve.
    """
    garbage.collect_hardly_ever()
    cores = [Core(clock=time.thread_time), Core(clock=time.thread_time)]
    for core, more in zip(cores, ((), OTHER_NAMES), strict=True):
        core.feed(_cluster(nodes, more))
        core.decide()
    garbage.collect_rarely()
    taken: tuple[dict[str, list[float]], dict[str, list[float]]] = {}, {}
    for size in (SMALL, LARGE):
        question = Question(f"{size}", size, Topology())
        for number in range(ROUNDS[size]):
            for core, times in list(zip(cores, taken, strict=True))[:: 1 if number % 2 else -1]:
                times.setdefault(f"gang of {size}", []).append(_plan(core, question, number))
    for passes in zip(*(_passes(core, gangs) for core in cores), strict=True):
        for steps, times in zip(passes, taken, strict=True):
            times.setdefault("pass over waiting gangs", []).append(round(sum(steps), 3))
    return taken


def measure_here(nodes: int, gangs: int) -> Run:
    """Measure one size, in this process. Raises AssertionError when a gang is not decided as it has to be."""
    garbage.collect_hardly_ever()  # as the process that serves
    core = Core()
    before, _ = memory_mib(os.getpid())
    pods = sum(map(_taken, range(nodes)))
    read_s = core.feed(_cluster(nodes))
    garbage.collect_rarely()
    resident, _ = memory_mib(os.getpid())
    core.decide()
    planned = {size: _planned(core, Question(f"{size}", size, Topology())) for size in (SMALL, LARGE)}
    asking = {question.words: _planned(core, question) for question in QUESTIONS[BestFit]} | _balanced(nodes)
    asking |= {question.words: _planned(core, question) for question in RELATED}
    passes = list(_passes(core, gangs))
    return Run(
        nodes=nodes,
        pods=pods,
        read_s=round(read_s, 3),
        memory_mib=round(resident - before, 1),
        small_ms=planned[SMALL],
        large_ms=planned[LARGE],
        asking_ms=asking,
        gangs=gangs,
        pass_ms=[round(sum(steps), 3) for steps in passes],
        longest_ms=round(max(map(max, passes)), 3),
    )


def measure_starts(nodes: int, gangs: int) -> Starts:
    """Measure the forecast of the starts of ``gangs`` waiting gangs. Every running pod declares its duration."""
    garbage.collect_hardly_ever()
    core = Core(clock=time.thread_time, limits=Limits(forecast_s=FORECAST_S))
    lasting = list(_lasting(_cluster(nodes)))
    core.feed(lasting)
    garbage.collect_rarely()
    core.decide()
    for number in range(gangs):
        shape = number % SHAPES
        # More than is free as one: a gang takes all GPUs of nodes of which half are taken.
        members = _gang(f"waiting-{number}", SMALL * (1 + shape % 4), GPUS_PER_NODE, cpu=1000 + shape)
        core.feed(PodSeen(replace(pod, run=RunTerms(1800.0 + 7 * number))) for pod in members)
    core.decide(REST_S)
    running = next(event.pod for event in lasting if isinstance(event, PodSeen))
    rounds: list[list[float]] = []
    for number in range(PASSES):
        # Without a change there is no forecast.
        core.feed([PodSeen(replace(running, run=RunTerms(7200.0 + number)))])
        rounds.append(core.decide(FORECAST_S))
    totals, longest = ([round(of(steps), 3) for steps in rounds] for of in (sum, max))
    return Starts(gangs, core.expected(), totals, longest)


def _lasting(events: Iterable[Event]) -> Iterator[Event]:
    """The same events, in which each pod says how long it runs: one to some hours."""
    for number, event in enumerate(events):
        if isinstance(event, PodSeen):
            run = RunTerms(3600.0 + number % 997 * 60)
            event = PodSeen(replace(event.pod, began=0.0, run=run))
        yield event


def _balanced(nodes: int) -> dict[str, list[float]]:
    core = Core(replace(OURS, topology=Balanced()))
    core.feed(_cluster(nodes))
    core.decide()
    return {question.words: _planned(core, question) for question in QUESTIONS[Balanced]}


def _planned(core: Core, question: Question) -> list[float]:
    return [_plan(core, question, number) for number in range(ROUNDS[question.size])]


def _plan(core: Core, question: Question, number: int) -> float:
    """Create a gang, let it be placed, and delete it; how long the decision took, in ms."""
    facts = {"topology": question.topology, "constraints": question.constraints, "labels": (("app", "train"),)}
    members = [replace(pod, **facts) for pod in _gang(f"gang-{number}", question.size, gpus=1)]  # type: ignore[arg-type]
    core.feed(map(PodSeen, members))
    took = sum(core.decide())
    if core.placed() != question.size:
        raise AssertionError(f"a gang was not placed: {question.words}")
    core.feed(PodGone(pod.uid) for pod in members)
    core.decide()
    return round(took, 3)


def _passes(core: Core, gangs: int) -> Iterator[list[float]]:
    """The steps of each pass over gangs that do not fit and of which no two ask for the same."""
    big = [_node(f"big-{number}", BIG_GPUS) for number in range(BIG_NODES)]
    core.feed(map(NodeSeen, big))
    for number in range(gangs):
        core.feed(map(PodSeen, _gang(f"waiting-{number}", SMALL, gpus=GPUS_PER_NODE + 1, cpu=1000 + number)))
    core.decide()
    if started := core.placed():
        raise AssertionError(f"{started} members of gangs that do not fit were placed")
    for number in range(PASSES):
        core.decide(REST_S)
        # More room on a node that some of them could use.
        core.feed([NodeSeen(replace(big[0], allocatable=_amounts(BIG_GPUS, cpu=97_000 + number)))])
        yield core.decide()


def _cluster(nodes: int, more: Requests = ()) -> Iterator[Event]:
    """The nodes of a cluster and their pods. ``more``: amounts that its nodes offer beside the usual."""
    for number in range(nodes):
        node = _node(f"node-{number}", GPUS_PER_NODE, domains_of(number))
        yield NodeSeen(replace(node, allocatable=tuple(sorted(node.allocatable + more))))
        for index in range(_taken(number)):
            name = f"bound-{number}-{index}"
            yield PodSeen(Pod(f"uid-{name}", "default", name, _requests(1), node=f"node-{number}", phase="Running"))
    yield Synced()


def _taken(number: int) -> int:
    """GPUs of a node that are taken: 0 to 8, in no order."""
    return (number * 5 + number // 11) % (GPUS_PER_NODE + 1)


def _node(name: str, gpus: int, domains: Mapping[str, str] | None = None) -> Node:
    return Node(name, _amounts(gpus), {HOSTNAME: name, **(domains or {})})


def _amounts(gpus: int, cpu: int = 96_000) -> Requests:
    return (("cpu", cpu), ("memory", 2**40), (GPU, gpus), ("pods", 110))


def _requests(gpus: int, cpu: int = 1000) -> Requests:
    return (("cpu", cpu), (GPU, gpus), ("pods", 1))


def _gang(name: str, size: int, gpus: int, cpu: int = 1000) -> Iterator[Pod]:
    group = GroupRef(name, Dialect.ANNOTATION, size)
    for index in range(size):
        yield Pod(f"uid-{name}-{index}", "default", f"{name}-{index}", _requests(gpus, cpu), group=group, index=index)


def tables(runs: Sequence[Run]) -> list[Table]:
    rows = [
        (
            f"{run.nodes:,} ({run.pods:,} pods)",
            _median_and_most(run.small_ms),
            _median_and_most(run.large_ms),
            _median_and_most(run.pass_ms),
            f"{run.longest_ms:.1f} ms",
            f"{run.memory_mib:.0f} MiB",
            f"{run.read_s:.2f} s",
        )
        for run in runs
    ]
    columns = (
        *("nodes", f"gang of {SMALL}", f"gang of {LARGE}", f"pass over {runs[0].gangs:,} waiting gangs"),
        *("without a break", "memory", "to take all in"),
    )
    asking = [(words, *(_median_and_most(run.asking_ms[words]) for run in runs)) for words in runs[0].asking_ms]
    sizes = ("gang", *(f"{run.nodes:,} nodes" for run in runs))
    return [
        Table("Decisions of the core: median (worst)", columns, rows),
        Table("Decisions about gangs that ask something of three levels: median (worst)", sizes, asking),
        *_names_table([run for run in runs if run.names is not None]),
        *_starts_table(runs),
    ]


def _names_table(runs: Sequence[Run]) -> Iterator[Table]:
    if runs:
        by_size = [run.names.ratios() for run in runs if run.names is not None]
        rows = [(what, *(f"{ratios[what]:.2f}" for ratios in by_size)) for what in by_size[0]]
        columns = ("times as much", *(f"{run.nodes:,} nodes" for run in runs))
        yield Table("Nodes with twelve names of resources against four: processor time, and memory", columns, rows)


def _starts_table(runs: Sequence[Run]) -> Iterator[Table]:
    rows = [
        (
            f"{run.nodes:,}",
            f"{run.starts.known:,}",
            _median_and_most(run.starts.all_ms),
            _median_and_most(run.starts.longest_ms),
        )
        for run in runs
        if run.starts is not None
    ]
    if rows:
        title = f"Expected starts of {WAITING:,} waiting gangs: processor time, median (worst)"
        yield Table(title, ("nodes", "with an expected start", "all of it", "longest slice"), rows)


def _median_and_most(milliseconds: Sequence[float]) -> str:
    return f"{middle(milliseconds):.2f} ms ({max(milliseconds):.2f})"


KIND = Kind(Run, tables)


def benchmark(sizes: Sequence[int], gangs: int) -> Benchmark[Run]:
    steps = {f"{nodes} nodes": partial(measure, nodes, gangs) for nodes in sizes}
    return Benchmark("core", KIND, {"nodes": sizes, "gangs": gangs}, steps)
