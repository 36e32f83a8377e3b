"""The victims fit their preemptor, and the whole plan fits afterwards."""

from __future__ import annotations

from dataclasses import replace

import pytest

from policies.model import Node, Pod, Topology
from policies.preemption.candidates import Candidate, Held, Limits, Request, Unit
from policies.preemption.victims import Choice, Refusal, search
from policies.statement import Statement
from tests.builders import cluster, gang, single, snapshot


def pods_of(candidate: Candidate) -> list[Pod]:
    """The pods of the candidate on their nodes."""
    return [
        Pod(f"{candidate.name}-{held.node}-{at}", "default", f"{candidate.name}-{held.node}-{at}", held.requests)
        for held in candidate.claims
        for at in range(held.pods)
    ]


def running(name: str, nodes: str, gpus: int = 8, priority: int = 0, unit: Unit = Unit.WORKLOAD) -> Candidate:
    """A candidate with one pod on each of these nodes."""
    amounts = single("any", gpus=gpus, cpu=1).requests
    return Candidate(name, unit, priority, claims=tuple(Held(node, amounts) for node in nodes.split()))


def asks(pods: list[Pod], priority: int = 1000) -> Request:
    return Request("preemptor", pods, len(pods), priority)


def found(nodes: list[Node], request: Request, *candidates: Candidate, least_s: float = 0.0) -> Choice | Refusal:
    bound = [
        replace(pod, node=held.node)
        for candidate in candidates
        for pod, held in zip(pods_of(candidate), [h for h in candidate.claims for _ in range(h.pods)], strict=True)
    ]
    return search(request, Statement(snapshot(nodes, *bound)), candidates, Limits(60.0, least_s))


def victims(*case: object, **more: object) -> list[str]:
    choice = found(*case, **more)  # type: ignore[arg-type]
    assert isinstance(choice, Choice), choice
    return [victim.name for victim in choice.victims]


@pytest.mark.parametrize("size", [4, 1])
def test_the_tutorial_case_evicts_exactly_the_dev_pods(size: int) -> None:
    nodes = cluster("-: 3x4")
    dev = [running(f"dev-{at}", "n-0", 1, 100, Unit.POD) for at in range(4)]
    training = [running(f"training-{at}", f"n-{1 + at // 4}", 1, 500, Unit.POD) for at in range(8)]
    gone: list[str] = []
    for turn in range(4 // size):
        left = [candidate for candidate in dev if candidate.name not in gone]
        pods = gang("inference", size, gpus=1) if size > 1 else [single(f"inference-{turn}")]
        taken = [running(f"taken-{at}", "n-0", 1, 10_000, Unit.POD) for at in range(turn)]
        gone += victims(nodes, asks(pods, 10_000), *left, *training, *taken)
    assert sorted(gone) == [f"dev-{at}" for at in range(4)]


def test_a_required_clique_evicts_victims_of_one_clique() -> None:
    nodes = cluster("a: 16x8", "b: 16x8", "c: 16x8", "d: 16x8")
    there = [
        running(f"{clique}-{at}", " ".join(f"{clique}-{4 * at + i}" for i in range(4)))
        for clique in "abcd"
        for at in range(1, 3)
    ]
    pods = [replace(pod, topology=Topology(required="clique")) for pod in gang("big", 16)]
    chosen = victims(nodes, asks(pods), *there)
    assert len(chosen) == 2
    assert len({name[0] for name in chosen}) == 1


def test_nobody_is_evicted_where_there_is_room() -> None:
    choice = found(cluster("a: 2x8"), asks(gang("g", 1)), running("r", "a-0"))
    assert isinstance(choice, Choice)
    assert choice.victims == ()
    assert choice.nodes == {"uid-g-0": "a-1"}


def test_those_who_may_not_go_are_counted_the_most_frequent_reason_first() -> None:
    peers = [running(f"peer-{at}", f"a-{at}", priority=1000) for at in range(2)]
    young = replace(running("young", "a-2"), started=0.0)
    refusal = found(cluster("a: 3x8"), asks(gang("g", 1)), young, *peers, least_s=3600.0)
    assert isinstance(refusal, Refusal)
    many, few = refusal.text.index("2 candidates may not"), refusal.text.index("1 candidate may not")
    assert many < few


def test_equal_priority_gives_no_way() -> None:
    refusal = found(cluster("a: 1x8"), asks(gang("g", 1), 5), running("r", "a-0", priority=5))
    assert isinstance(refusal, Refusal)
    assert "priority is not lower" in refusal.text
