"""Slices in layers: whole ones inside larger ones, each in one domain of its level, wherever that is possible."""

from __future__ import annotations

from dataclasses import replace
from random import Random
from typing import Any

import pytest

from policies.api import TopologyPolicy
from policies.chosen import OURS
from policies.model import CLIQUE, Constraints, Node, Pod, Requirement, Spread, Topology
from policies.placement.place import Placed, Shortfall, place
from policies.placement.rules import Split, meets_requirements
from policies.strategies.balanced import Balanced
from policies.strategies.best_fit import BestFit
from policies.strategies.first_fit import FirstFit
from policies.strategies.least_domains import LeastDomains
from policies.strategies.spread import Spread as SpreadOut
from tests.builders import busy, cluster, gang, node, snapshot
from tests.core.levels import BLOCK, blocks

LAYERS = Topology(slice_size=2, slice_level="clique", around=((4, BLOCK),))


def layered(size: int, *, gpus: int = 8, topology: Topology = LAYERS, **facts: Any) -> list[Pod]:
    return gang("train", size, gpus=gpus, topology=topology, **facts)


def homes(pods: list[Pod], nodes: list[Node], *bound: Pod) -> str:
    """The clique of each member in order, or why there is none."""
    plan = place(pods, len(pods), snapshot(nodes, *bound))
    if isinstance(plan, Shortfall):
        return plan.explanation if plan.unclear else "none"
    labels = {host.name: host.labels for host in nodes}
    return " ".join(labels[plan.nodes[pod.uid]][CLIQUE] for pod in pods)


def whole(found: Placed, pods: list[Pod], nodes: list[Node]) -> bool:
    """Whether all slices are whole, counted out without the planner's code."""
    labels = {host.name: host.labels for host in nodes}
    for size, key in ((2, CLIQUE), (4, BLOCK)):
        seen: dict[int, set[str]] = {}
        for pod in pods:
            if pod.uid in found.nodes:
                seen.setdefault((pod.index or 0) // size, set()).add(labels[found.nodes[pod.uid]].get(key, ""))
        if any(len(domains) != 1 or "" in domains for domains in seen.values()):
            return False
    return True


def test_small_slices_share_a_clique_and_large_ones_a_block() -> None:
    here = blocks("x a: 3x8", "x b: 3x8", "y c: 2x8", "y d: 3x8")
    assert homes(layered(8), here) in ("b b a a d d c c", "d d c c b b a a")


def test_room_beside_whole_small_slices_is_no_room_for_a_large_one() -> None:
    assert homes(layered(4), blocks("x a: 3x8", "x b: 1x8", "y c: 2x8", "z d: 2x8")) == "none"
    assert homes(layered(4), blocks("x a: 3x8", "x b: 1x8", "y c: 2x8", "y d: 2x8")) == "d d c c"


def test_a_large_slice_does_not_leave_its_block() -> None:
    here = blocks("x a: 2x8", "y b: 2x8", "y c: 4x8")
    assert homes(layered(4), here, *busy("c-0", 8)) == "c c b b"
    assert homes(layered(8), here) == "none"


def test_the_last_large_slice_may_be_smaller_but_not_the_small_ones_in_it() -> None:
    here = blocks("x a: 2x8", "x b: 2x8", "y c: 2x8", "y d: 2x8")
    assert sorted(homes(layered(6), here).split()) in (list("aabbcc"), list("aabbdd"), list("aaccdd"), list("bbccdd"))
    assert homes(layered(5), here) == (
        "slices of 4 are made of whole slices of 2, and 1 member more would be needed for that"
    )


def test_levels_in_the_wrong_order_are_unclear() -> None:
    wrong = Topology(slice_size=2, slice_level=BLOCK, around=((4, "clique"),))
    assert homes(layered(4, topology=wrong), blocks("x a: 4x8")) == (
        "the levels of slices go from the nearest to the farthest, and these do not: block, clique"
    )


def test_a_replacement_goes_back_to_its_small_slice_and_a_small_slice_to_its_large_one() -> None:
    here = blocks("x a: 2x8", "x b: 3x8", "y c: 9x8")
    pods = layered(4)
    where = dict(zip((pod.uid for pod in pods), ("a-0", "a-1", "b-0", "b-1"), strict=True))
    for lost, taken in (([3], "b"), ([2, 3], "b"), ([1], "a"), ([0, 1, 2], "aab")):
        beside = [(pod, where[pod.uid]) for at, pod in enumerate(pods) if at not in lost]
        view = snapshot(here, *(replace(pod, node=name) for pod, name in beside))
        again = [pods[at] for at in lost]
        plan = place(again, len(again), view, beside=beside)
        assert isinstance(plan, Placed)
        assert {name[0] for name in plan.nodes.values()} == set(taken)
        assert meets_requirements([*beside, *((pod, plan.nodes[pod.uid]) for pod in again)], view)


@pytest.mark.parametrize(("there", "home"), [("a-0 a-1 a-2", "a"), ("a-0 b-0 b-1", None)])
def test_nobody_joins_a_slice_whose_members_are_in_two_domains(there: str, home: str | None) -> None:
    """The places of other slices do not matter."""
    pods = layered(8, topology=Topology(slice_size=4, slice_level="clique"))
    where = [*there.split(), "", "c-0", "c-1", "c-2", "c-3"]
    beside = [(pod, name) for pod, name in zip(pods, where, strict=True) if name]
    bound = [replace(pod, node=name) for pod, name in beside]
    plan = place(pods[3:4], 1, snapshot(cluster("a: 4x8", "b: 4x8", "c: 4x8"), *bound), beside=beside)
    if isinstance(plan, Placed):
        assert plan.nodes[pods[3].uid][0] == home
    else:
        assert (isinstance(plan.unclear, Split), home) == (True, None)
        assert "the members of a slice have to share one domain" in plan.explanation


def test_the_reason_tells_of_all_layers() -> None:
    shortfall = place(layered(8), 8, snapshot(blocks("x a: 2x8", "x b: 2x8", "y c: 3x8")))
    assert isinstance(shortfall, Shortfall)
    assert shortfall.nearest is not None
    assert f"required {BLOCK} for 8 x 8 GPUs in slices of 4 made of 2: 2 blocks" in shortfall.nearest.text


@pytest.mark.parametrize("policy", [BestFit(), Balanced(), LeastDomains(), SpreadOut(), FirstFit()])
def test_what_fits_is_placed_and_nothing_is_cut(policy: TopologyPolicy) -> None:
    random, policies = Random(64), replace(OURS, topology=policy)
    started = 0
    for _ in range(150):
        here = [
            node(f"{block}{clique}-{at}", random.choice([2, 4]), clique=f"{block}{clique}", labels={BLOCK: block})
            for block in "xyz"[: random.randint(1, 3)]
            for clique in "abc"[: random.randint(1, 3)]
            for at in range(random.randint(1, 3))
        ]
        here += cluster("-: 2x8")
        size = 2 * random.randint(1, 12)
        hard = Constraints(spread=(Spread("kubernetes.io/hostname", 9, (Requirement("app", "In", ("train",)),)),))
        facts: dict[str, Any] = {"constraints": hard, "labels": (("app", "train"),)} if random.random() < 0.3 else {}
        pods = layered(size, gpus=1, **facts)
        rooms: dict[str, int] = {}
        for host in here:
            rooms[host.labels.get(CLIQUE, "")] = (
                rooms.get(host.labels.get(CLIQUE, ""), 0) + dict(host.allocatable)["nvidia.com/gpu"]
            )
        in_block: dict[str, int] = {}
        for clique, room in rooms.items():
            if clique:
                in_block[clique[0]] = in_block.get(clique[0], 0) + room // 2 * 2
        large = sum(room // 4 for room in in_block.values())
        beside_them = any(room % 4 >= 2 for room in in_block.values())
        fits = size // 4 <= large and (size % 4 == 0 or beside_them or size // 4 < large)
        plan = place(pods, size, snapshot(here), policies=policies)
        assert isinstance(plan, Placed) == fits, (size, rooms)
        if isinstance(plan, Placed):
            started += 1
            assert whole(plan, pods, here)
    assert started > 50


def test_elastic_gangs_start_with_whole_large_slices() -> None:
    here = blocks("x a: 2x8", "x b: 2x8", "y c: 2x8", "y d: 1x8")
    plan = place(layered(8), 4, snapshot(here))
    assert isinstance(plan, Placed)
    assert len(plan.nodes) == 4
    assert whole(plan, layered(8), here)
