"""The smaller of victims that lose equally much are evicted: beside the best choice of all."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import chain, combinations
from random import Random

import pytest

from policies.model import Topology
from policies.preemption.candidates import Candidate, Held, Limits, Request, Unit
from policies.preemption.cheapest import MOST_TO_COMPARE
from policies.preemption.victims import DOMAINS, Choice, search
from policies.statement import Statement
from tests.builders import gang, node, requests, single, snapshot
from tests.conformance.preemption import World, decide
from tests.policies.preemption.brute import NOW
from tests.policies.preemption.test_reclaim_two_resources import queue, wants

SIZES = (0, 1, 2, 3, 4, 6)


def runs(name: str, where: str, cpu: int, gpus: int = 0, unit: Unit = Unit.POD) -> Candidate:
    return Candidate(name, unit, 0, NOW, (Held(where, requests(gpus, cpu)),))


def victims(
    nodes: dict[str, tuple[int, int]], running: Sequence[Candidate], count: int, gpus: int, cpu: int
) -> list[str]:
    """The victims of a gang of ``count`` members.

    ``nodes``: GPUs and cores; none of them is in a clique.
    """
    there = [node(name, much, cpu=cores) for name, (much, cores) in nodes.items()]
    bound = [
        replace(single(candidate.name, node=held.node), requests=held.requests)
        for candidate in running
        for held in candidate.claims
    ]
    pods = gang("new", count, gpus=gpus, cpu=cpu)
    answer = search(Request("new", pods, count, 10), Statement(snapshot(there, *bound)), running, Limits(NOW))
    return [victim.name for victim in answer.victims] if isinstance(answer, Choice) else []


@pytest.mark.parametrize("unit", [Unit.POD, Unit.WORKLOAD])
@pytest.mark.parametrize(("large", "small"), [("a", "b"), ("b", "a")])
def test_the_smaller_one_that_suffices_goes(large: str, small: str, unit: Unit) -> None:
    running = [runs(large, "n", 40, unit=unit), runs(small, "n", 30, unit=unit)]
    assert victims({"n": (0, 70)}, running, 1, 0, 30) == [small]
    apart = [runs(large, "n", 40, unit=unit), runs(small, "m", 30, unit=unit)]
    assert victims({"n": (0, 40), "m": (0, 30)}, apart, 1, 0, 30) == [small]
    assert victims({"n": (0, 40), "m": (0, 30)}, apart, 1, 0, 40) == [large]


@pytest.mark.parametrize(("count", "gone"), [(1, ["gpus"]), (2, ["gpus", "none"])])
def test_who_has_none_of_the_devices_goes_where_the_number_of_pods_is_short(count: int, gone: list[str]) -> None:
    roomy = node("n", 8)
    tight = replace(roomy, allocatable=tuple(sorted({**dict(roomy.allocatable), "pods": 2}.items())))
    running = [runs("gpus", "n", 1, 8), runs("none", "n", 1)]
    bound = [replace(single(candidate.name, node="n"), requests=candidate.claims[0].requests) for candidate in running]
    pods = gang("new", count, gpus=8 // count)
    answer = search(Request("new", pods, count, 10), Statement(snapshot([tight], *bound)), running, Limits(NOW))
    assert isinstance(answer, Choice)
    assert [victim.name for victim in answer.victims] == gone


def test_devices_count_before_cores() -> None:
    running = [runs("a", "n", 1, 8), runs("b", "m", 60, 4)]
    assert victims({"n": (8, 64), "m": (8, 64)}, running, 1, 4, 1) == []
    assert victims({"n": (8, 64), "m": (4, 64)}, running, 1, 4, 1) == ["b"]


def test_the_smaller_quota_that_suffices_comes_back() -> None:
    running = [
        Candidate(name, Unit.WORKLOAD, 0, NOW, queue="a", usage={("f", "cpu"): cpu * 1000})
        for name, cpu in (("a", 40), ("b", 30))
    ]
    there = World(running, [queue("a", 0, 0), queue("b", 70, 0)], limits=Limits(NOW))
    request = replace(wants("b", 1, 0, 30), pods=(), needed=0)
    assert list(decide(there, request).victims or ()) == ["b"]


@pytest.mark.parametrize(("large", "small"), [("a", "b"), ("b", "a")])
def test_of_many_the_smaller_one_that_suffices_goes(large: str, small: str) -> None:
    more = [runs(f"{large}{at:02}", "n", 1) for at in range(MOST_TO_COMPARE)]
    running = [*more, runs(large, "n", 40), runs(small, "n", 30)]
    assert victims({"n": (0, 70 + len(more))}, running, 1, 0, 30) == [small]


def test_of_many_domains_that_which_loses_the_smallest_is_found() -> None:
    """The domain may even come last by name, after more domains than the search looks into."""
    names = [f"c{at:02}" for at in range(DOMAINS + 6)]
    there = [node(name, 0, cpu=40 if at + 1 < len(names) else 30, clique=name) for at, name in enumerate(names)]
    running = [runs(f"v{host.name}", host.name, dict(host.allocatable)["cpu"] // 1000) for host in there]
    bound = [
        replace(single(candidate.name, node=held.node), requests=held.requests)
        for candidate in running
        for held in candidate.claims
    ]
    pods = [replace(pod, topology=Topology(required="clique")) for pod in gang("new", 1, gpus=0, cpu=30)]
    answer = search(Request("new", pods, 1, 10), Statement(snapshot(there, *bound)), running, Limits(NOW))
    assert isinstance(answer, Choice)
    assert [victim.name for victim in answer.victims] == [f"v{names[-1]}"]


def case(seed: int) -> tuple[dict[str, tuple[int, int]], list[Candidate], tuple[int, int, int]]:
    """All of them are of one age, and full nodes. The names are in no order."""
    chance = Random(seed)
    names = chance.sample("abcdefghi", 9)
    nodes, running = {}, []
    for at in range(chance.randint(1, 3)):
        sizes = [(chance.choice(SIZES), chance.randint(1, 6)) for _ in range(chance.randint(1, 3))]
        running += [runs(names.pop(), f"n{at}", cpu, gpus, chance.choice(list(Unit)[::2])) for gpus, cpu in sizes]
        nodes[f"n{at}"] = sum(gpus for gpus, _ in sizes), sum(cpu for _, cpu in sizes)
    return nodes, running, (chance.randint(1, 3), chance.choice(SIZES), chance.randint(1, 4))


def best(
    nodes: dict[str, tuple[int, int]], running: Sequence[Candidate], asked: tuple[int, int, int]
) -> list[list[str]]:
    """Every choice of the lowest unit, then of the fewest, then of the smallest."""
    count, gpus, cpu = asked
    choices = []
    for gone in chain.from_iterable(combinations(running, size) for size in range(len(running) + 1)):
        freed = {name: [0, 0] for name in nodes}
        for evicted in gone:
            devices, cores, _ = evicted.size
            freed[evicted.claims[0].node][0] += devices
            freed[evicted.claims[0].node][1] += cores // 1000
        if sum(min(much // gpus if gpus else count, cores // cpu) for much, cores in freed.values()) >= count:
            size = [sum(victim.size[at] for victim in gone) for at in (0, 1)]
            price = max((victim.unit for victim in gone), default=0), len(gone), size
            choices.append((price, sorted(victim.name for victim in gone)))
    least = min((price for price, _ in choices), default=None)
    return [names for price, names in choices if price == least]


def test_the_victims_are_the_smallest_of_those_that_cost_least() -> None:
    several = 0
    for seed in range(1_500):
        nodes, running, shape = case(seed)
        names, wanted = victims(nodes, running, *shape), best(nodes, running, shape)
        assert sorted(names) == (min(wanted) if wanted else []), f"seed {seed}: {wanted}"
        several += len(wanted) == 1
    assert several > 200
