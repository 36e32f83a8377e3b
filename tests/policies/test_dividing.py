"""How each policy divides a gang that no domain holds, and how slices are shared out."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from operator import ge
from random import Random

import numpy as np
import pytest

from extender.config import catalogue
from policies.api import Choice
from policies.model import CLIQUE, Pod, Topology
from policies.placement.place import Placed, Shortfall, place
from policies.placement.request import PlacementRequest
from policies.placement.snapshot import Domain, Snapshot
from policies.strategies.balanced import equally
from tests.builders import cluster, gang, snapshot

FREE = ["a: 13x8", "b: 10x8", "c: 7x8", "d: 4x8"]
TWO, THREE = ["a: 18x8", "b: 18x8"], ["a: 18x8", "b: 18x8", "c: 18x8"]


def shares(policy: str, cliques: list[str], pods: list[Pod]) -> str:
    """``"a*13 d*4"``, in rank order."""
    nodes = cluster(*cliques)
    policies = catalogue.policies("priority-then-age", policy, {"packing": 1})
    plan = place(pods, len(pods), snapshot(nodes), policies=policies)
    if isinstance(plan, Shortfall):
        return "none"
    clique = {node.name: node.labels.get(CLIQUE, "-") for node in nodes}
    homes = [clique[plan.nodes[pod.uid]] for pod in pods]
    order = list(dict.fromkeys(homes))
    assert homes == sorted(homes, key=order.index), "ranks go back and forth"
    return " ".join(f"{name}*{homes.count(name)}" for name in order)


@pytest.mark.parametrize(
    ("policy", "cliques", "size", "expected"),
    [
        ("best-fit", FREE, 17, "b*10 c*7"),
        ("best-fit", ["a: 13x8", "b: 9x8", "c: 8x8"], 17, "b*9 c*8"),
        ("best-fit", TWO, 24, "b*18 a*6"),
        ("best-fit", FREE, 30, "a*13 b*10 c*7"),
        ("balanced", TWO, 24, "b*12 a*12"),
        ("balanced", THREE, 48, "c*16 b*16 a*16"),
        ("balanced", FREE, 7, "c*7"),
        ("balanced", FREE, 17, "a*9 b*8"),
        ("balanced", ["a: 16x8", "b: 3x8"], 18, "a*15 b*3"),
        ("balanced", ["a: 13x8", "b: 9x8", "c: 8x8"], 17, "b*9 c*8"),
        ("balanced", ["a: 12x8", "b: 6x8", "c: 6x8"], 18, "a*12 c*6"),
        ("equal-shares", ["a: 12x8", "b: 6x8", "c: 6x8"], 18, "a*6 b*6 c*6"),
        ("equal-shares", ["a: 12x8", "b: 6x8", "c: 6x8", "d: 5x8"], 17, "b*6 c*6 d*5"),
        ("equal-shares", ["a: 16x8", "b: 3x8"], 18, "a*15 b*3"),
        ("equal-shares", TWO, 24, "b*12 a*12"),
        ("equal-shares", FREE, 7, "c*7"),
        ("equal-shares", ["a: 2x8", "-: 3x8"], 5, "a*2 -*3"),
        ("least-domains", FREE, 7, "a*7"),
        ("least-domains", FREE, 17, "a*13 b*4"),
        ("spread", FREE, 4, "a*1 b*1 c*1 d*1"),
        ("spread", FREE, 20, "a*6 b*5 c*5 d*4"),
        ("spread", FREE, 2, "b*1 a*1"),
        ("first-fit", FREE, 17, "a*13 b*4"),
        ("first-fit", ["a: 3x8", "b: 5x8"], 5, "a*3 b*2"),
    ],
)
def test_a_gang_is_divided(policy: str, cliques: list[str], size: int, expected: str) -> None:
    division = shares(policy, cliques, gang("train", size))
    assert sorted(division.split()) == sorted(expected.split())


@pytest.mark.parametrize("policy", ["best-fit", "balanced", "equal-shares", "least-domains", "spread", "first-fit"])
@pytest.mark.parametrize(
    ("cliques", "size", "expected"),
    [
        (THREE, 48, "16 16 16"),
        (["a: 40x8", "b: 31x8"], 48, "16 32"),
        (["a: 15x8", "b: 15x8", "c: 31x8"], 32, "none"),
        (["a: 16x8", "b: 4x8"], 20, "16 4"),
    ],
)
def test_slices_are_whole_under_every_policy(policy: str, cliques: list[str], size: int, expected: str) -> None:
    pods = [replace(pod, topology=Topology(slice_size=16, slice_level="clique")) for pod in gang("train", size)]
    division = shares(policy, cliques, pods)
    assert sorted(text.partition("*")[2] or text for text in division.split()) == sorted(expected.split())


@pytest.mark.parametrize("policy", ["best-fit", "balanced", "equal-shares", "least-domains", "spread", "first-fit"])
def test_a_required_level_is_kept_under_every_policy(policy: str) -> None:
    pods = [replace(pod, topology=Topology(required=CLIQUE)) for pod in gang("train", 11)]
    assert shares(policy, FREE, pods) == "a*11"
    pods = [replace(pod, topology=Topology(required=CLIQUE)) for pod in gang("train", 14)]
    assert shares(policy, FREE, pods) == "none"


def test_equal_shares_are_preferred_to_a_tighter_block() -> None:
    """Both zones hold 14 in two cliques, the first one exactly."""
    zones = {"a": "first", "b": "first", "c": "second", "d": "second"}
    nodes = [
        replace(node, labels={**node.labels, "topology.kubernetes.io/zone": zones[node.labels[CLIQUE]]})
        for node in cluster("a: 10x8", "b: 4x8", "c: 8x8", "d: 8x8")
    ]
    policies = catalogue.policies("priority-then-age", "balanced", {"packing": 1})
    plan = place(gang("train", 14), 14, snapshot(nodes), policies=policies)
    assert isinstance(plan, Placed)
    assert Counter(name[0] for name in plan.nodes.values()) == {"c": 7, "d": 7}


def test_equal_shares_are_found_over_as_few_domains_as_have_them() -> None:
    random = Random(4)
    for _ in range(300):
        rooms = np.array([random.randint(0, 9) for _ in range(random.randint(1, 6))], dtype=np.int64)
        want = random.randint(1, 20)
        seat_counts = [seats for _, seats in equally(rooms, want, 0, np.arange(len(rooms)))]
        assert sum(seat_counts) == min(want, int(rooms.sum()))
        roomiest = sorted(rooms.tolist(), reverse=True)
        shares = [[want // k + (at < want % k) for at in range(k)] for k in range(1, len(rooms) + 1) if k <= want]
        equal = [division for division in shares if all(map(ge, roomiest, division))]
        if equal:
            assert sorted(seat_counts, reverse=True) == equal[0]
        assert all(seats <= rooms[code] for code, seats in equally(rooms, want, 0, np.arange(len(rooms))))


class Scattered:
    """A policy that does not care about anything."""

    def domains(self, ask: PlacementRequest, snapshot: Snapshot) -> Iterator[Choice]:
        yield (Domain("", np.arange(len(snapshot.names))),)


def test_whatever_a_policy_proposes_no_rule_is_broken() -> None:
    nodes = cluster(*FREE)
    policies = replace(catalogue.policies("priority-then-age", "best-fit", {"packing": 1}), topology=Scattered())
    for wish in (Topology(required=CLIQUE), Topology(slice_size=4)):
        pods = [replace(pod, topology=wish) for pod in gang("train", 12)]
        plan = place(pods, 12, snapshot(nodes), policies=policies)
        assert isinstance(plan, Placed)
        clique = {node.name: node.labels[CLIQUE] for node in nodes}
        width = wish.slice_size or 12
        for first in range(0, 12, width):
            assert len({clique[plan.nodes[pod.uid]] for pod in pods[first : first + width]}) == 1
