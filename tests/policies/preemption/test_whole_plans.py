"""Larger random clusters, and gangs with more demands: the whole plan fits afterwards, and no eviction is useless."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, replace
from random import Random

import pytest

from policies.model import HOSTNAME, Constraints, Node, Pod, Requirement, Term, Topology
from policies.placement.place import Placed, place
from policies.placement.snapshot import Snapshot
from policies.preemption.candidates import Candidate, Held, Limits, Request, Unit
from policies.preemption.victims import Choice, search
from policies.statement import Statement
from tests.builders import GPU, cluster, gang, single, snapshot

NOW = 1_000_000.0
SEEDS, PARTS = 600, 6
APART = Constraints(anti_affinity=(Term(HOSTNAME, (Requirement("app", "In", ("new",)),), ("default",)),))


@dataclass(frozen=True)
class Case:
    nodes: list[Node]
    candidates: list[Candidate]
    fixed: list[Pod]
    request: Request

    def snapshot(self, gone: set[str]) -> Snapshot:
        """A snapshot without those candidates, built from the pods that stay."""
        bound = [
            Pod(
                f"{candidate.name}-{held.node}",
                "default",
                f"{candidate.name}-{held.node}",
                held.requests,
                node=held.node,
            )
            for candidate in self.candidates
            if candidate.name not in gone
            for held in candidate.claims
        ]
        return snapshot(self.nodes, *bound, *self.fixed)


def case(seed: int) -> Case:
    chance = Random(seed)
    gpus = chance.choice([4, 8])
    nodes = cluster(*(f"c{at}: {chance.randint(2, 8)}x{gpus}" for at in range(chance.randint(2, 6))))
    left = {node.name: gpus for node in nodes}
    candidates = list(_candidates(chance, left))
    fixed = [
        single(f"fixed-{name}", gpus=much, cpu=0, node=name)
        for name, much in left.items()
        if much and chance.random() < 0.8
    ]
    pods = _asking(chance, gpus)
    needed = len(pods) if chance.random() < 0.8 else max(1, len(pods) - 1)
    return Case(nodes, candidates, fixed, Request("new", pods, needed, 10))


def _candidates(chance: Random, left: dict[str, int]) -> Iterator[Candidate]:
    for number in range(chance.randint(10, 40)):
        unit = chance.choice([Unit.POD, Unit.WORKLOAD])
        claims = []
        for node in chance.sample(sorted(left), 1 if unit is Unit.POD else chance.randint(1, 4)):
            if left[node]:
                much = chance.randint(1, left[node])
                left[node] -= much
                claims.append(Held(node, single("any", gpus=much, cpu=0).requests))
        if claims:
            started = NOW - chance.randint(0, 90_000)
            yield Candidate(f"v{number:02}", unit, chance.randint(0, 3), started, tuple(claims), started)


def _asking(chance: Random, gpus: int) -> list[Pod]:
    topology = chance.choice(
        [
            Topology(),
            Topology(required="clique"),
            Topology(slice_size=2, slice_level="clique"),
            Topology(preferred="clique"),
        ]
    )
    size, each = 2 * chance.randint(1, 4), chance.choice([1, 2, gpus])
    workers = gang("new", size, gpus=each, cpu=0, topology=topology, labels=(("app", "new"),))
    if chance.random() < 0.25:
        workers = [replace(pod, constraints=APART) for pod in workers]
    if chance.random() < 0.25:
        workers += gang("leader", 1, gpus=1, cpu=1, topology=topology._replace(slice_size=None, slice_level=None))
    return workers


@pytest.mark.parametrize("part", range(PARTS))
def test_the_whole_plan_fits_and_each_victim_is_needed(part: int) -> None:
    for seed in range(part, SEEDS, PARTS):
        of = case(seed)
        answer = search(of.request, Statement(of.snapshot(set())), of.candidates, Limits(NOW))
        if isinstance(answer, Choice):
            gone = {victim.name for victim in answer.victims}
            _check(of, of.snapshot(gone), answer, seed)
            for name in sorted(gone):
                without = place(of.request.pods, of.request.needed, of.snapshot(gone - {name}))
                assert not isinstance(without, Placed), f"seed {seed} evicts {name} of {sorted(gone)} in vain"
        else:
            everybody = {candidate.name for candidate in of.candidates}
            without = place(of.request.pods, of.request.needed, of.snapshot(everybody))
            assert not isinstance(without, Placed), f"seed {seed} evicts nobody: {answer.text}"


def _check(of: Case, after: Snapshot, found: Choice, seed: int) -> None:
    """Counted node by node."""
    taken = Counter[str]()
    for pod in of.request.pods:
        if pod.uid in found.nodes:
            taken[found.nodes[pod.uid]] += dict(pod.requests)[GPU]
    free = {name: int(after.free[after.resources[GPU], row]) for name, row in after.rows.items()}
    assert all(much <= free[name] for name, much in taken.items()), f"seed {seed} overcommits a node"
    assert len(found.nodes) >= of.request.needed, f"seed {seed} places too few"
    if of.request.pods[0].topology.required:
        assert len({name.partition("-")[0] for name in taken}) == 1, f"seed {seed} breaks the clique"
    if of.request.pods[0].constraints == APART:
        workers = [node for uid, node in found.nodes.items() if not uid.startswith("uid-leader")]
        assert len(set(workers)) == len(workers), f"seed {seed} puts two on one node"
