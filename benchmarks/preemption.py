"""The processor time that it takes to find the victims of a gang on a full cluster: the search, without Kubernetes.

Nodes have 8 GPUs and three levels: 16 nodes to a clique, ten cliques to a block, ten blocks to a zone. All but some
are taken by workloads that may be evicted, of 1 to 16 nodes each, of four priorities and of all ages. One in ten of
the workloads is a single pod.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from random import Random

from msgspec import Struct

from benchmarks.benchmark import Benchmark, Kind, Table, middle
from benchmarks.stage import GPU, GPUS_PER_NODE, LEVELS, domains_of
from devcluster.progress import Progress
from extender.core.ledger.claims import Claims
from policies.model import CLIQUE, HOSTNAME, Node, Pod, Requests, Topology
from policies.model.levels import levels_from
from policies.model.topology import SILENT
from policies.placement.snapshot import Snapshot
from policies.preemption.candidates import Candidate, Held, Limits, Request, Unit
from policies.preemption.victims import Choice, search
from policies.statement import Statement

ROUNDS = 20
NOW = 1_000_000.0
PRIORITIES = (0, 100, 200, 500)
HIGHEST = 10_000
TAKEN = 0.95
"""The part of the cluster that the candidates have. Pods that cannot be evicted have the rest."""


@dataclass(frozen=True)
class Question:
    """A gang of ``size`` members with ``gpus`` GPUs each, and with ``leader`` a leader with half as many."""

    words: str
    size: int
    gpus: int = GPUS_PER_NODE
    topology: Topology = SILENT
    leader: bool = False

    def pods(self) -> list[Pod]:
        member_requests = [_requests(self.gpus)] * self.size + [_requests(self.gpus // 2)] * self.leader
        facts = {"topology": self.topology, "owner": "gang"}
        return [
            Pod(f"uid-{at}", "default", f"gang-{at}", requests, index=at, **facts)  # type: ignore[arg-type]
            for at, requests in enumerate(member_requests)
        ]


_IN_A_CLIQUE = Topology(required=CLIQUE)
QUESTIONS = (
    Question("16 x 8 GPUs, in a clique", 16, topology=_IN_A_CLIQUE),
    Question("8 x 1 GPU, in a clique", 8, 1, _IN_A_CLIQUE),
    Question("64 x 8 GPUs", 64),
    Question("512 x 1 GPU", 512, 1),
    Question("128 x 8 GPUs, in a block", 128, topology=Topology(required="block")),
    Question(
        "64 x 8 GPUs, in slices of 16, each in a clique", 64, topology=Topology(slice_size=16, slice_level=CLIQUE)
    ),
    Question("12 x 8 GPUs and a leader with 4, in a clique", 12, topology=_IN_A_CLIQUE, leader=True),
    Question("17 x 8 GPUs, in a clique of 16: nobody helps", 17, topology=_IN_A_CLIQUE),
)


class Run(Struct, frozen=True):
    """The figures of one size.

    ``search_ms``: processor time, by the gang that the victims are for.
    ``victims``: how many victims were found, by gang.
    """

    nodes: int
    candidates: int
    search_ms: dict[str, list[float]]
    victims: dict[str, int]


def measure(nodes: int, candidates: int, progress: Progress) -> Run:
    progress(f"{nodes} nodes, {candidates} candidates")
    there = list(candidates_on(nodes, candidates))
    snapshot = snapshot_of(nodes, there)
    times: dict[str, list[float]] = {}
    victims: dict[str, int] = {}
    for question in QUESTIONS:
        pods = question.pods()
        request = Request("gang", pods, len(pods), HIGHEST)
        for _ in range(ROUNDS):
            began = time.thread_time()
            choice = search(request, Statement(snapshot), there, Limits(NOW))
            times.setdefault(question.words, []).append(round((time.thread_time() - began) * 1000, 3))
            victims[question.words] = len(choice.victims) if isinstance(choice, Choice) else 0
    return Run(nodes, len(there), times, victims)


def candidates_on(nodes: int, count: int) -> Iterator[Candidate]:
    """Side by side on the first nodes, whole nodes each."""
    chance = Random(0)  # noqa: S311
    sizes = [chance.choice([1, 2, 4, 8, 16]) for _ in range(count)]
    room, taken = int(nodes * TAKEN), 0
    for at, size in enumerate(sizes):
        here = min(max(1, size * room // sum(sizes)), room - taken)
        unit, priority = chance.choice([Unit.POD, *[Unit.WORKLOAD] * 9]), chance.choice(PRIORITIES)
        created, started = (NOW - chance.randrange(1_000_000) for _ in range(2))
        pods = 1 if at % 2 else GPUS_PER_NODE
        requests = _requests(GPUS_PER_NODE // pods)
        claims = tuple(Held(f"node-{number}", requests, pods) for number in range(taken, taken + here))
        if claims:
            yield Candidate(f"workload-{at:04}", unit, priority, created, claims, started)
        taken += here


def snapshot_of(nodes: int, there: Sequence[Candidate]) -> Snapshot:
    """A snapshot with these candidates; another workload takes the nodes that are left."""
    claims = Claims(levels_from(LEVELS))
    names = [f"node-{number}" for number in range(nodes)]
    amounts = (("cpu", 96_000), (GPU, GPUS_PER_NODE), ("pods", 110))
    for number, name in enumerate(names):
        claims.set_node(Node(name, amounts, {HOSTNAME: name, **domains_of(number)}))
    held = [(candidate.name, held_claim) for candidate in there for held_claim in candidate.claims]
    taken = {held_claim.node for _, held_claim in held}
    held += [("other", Held(name, _requests(GPUS_PER_NODE))) for name in names if name not in taken]
    for owner, held_claim in held:
        for at in range(held_claim.pods):
            name = f"{owner}-{held_claim.node}-{at}"
            claims.confirm(replace(Pod(name, "default", name, held_claim.requests), node=held_claim.node))
    return claims.snapshot()


def _requests(gpus: int) -> Requests:
    return (("cpu", 1000), (GPU, gpus), ("pods", 1))


def tables(runs: Sequence[Run]) -> list[Table]:
    sizes = (f"{run.candidates:,} candidates" for run in runs)
    rows = [
        (words, *(f"{_median_and_most(run.search_ms[words])}: {run.victims[words]}" for run in runs))
        for words in runs[0].search_ms
    ]
    title = f"Search for victims, {runs[0].nodes:,} nodes: processor time, median (worst): victims"
    return [Table(title, ("gang", *sizes), rows)]


def _median_and_most(milliseconds: Sequence[float]) -> str:
    return f"{middle(milliseconds):.1f} ms ({max(milliseconds):.1f})"


KIND = Kind(Run, tables)


def benchmark(nodes: int, candidates: Sequence[int]) -> Benchmark[Run]:
    steps = {f"{count} candidates": partial(measure, nodes, count) for count in candidates}
    return Benchmark("preemption", KIND, {"nodes": nodes, "candidates": candidates}, steps)
