"""The preferences of members decide between plans that are equal otherwise, and never cost a member its place."""

from __future__ import annotations

from dataclasses import replace
from random import Random
from typing import Any

import pytest

from policies.model import CLIQUE, Constraints, Pod, Preferred, Requirement, Selector, Spread, Term, Topology
from policies.placement.place import Placed, place
from policies.placement.snapshot import Snapshot
from tests.builders import busy, cluster, gang, node, single, snapshot

HOST, POOL = "kubernetes.io/hostname", "pool"
TRAIN: Selector = (Requirement("app", "In", ("train",)),)
DATA: Selector = (Requirement("app", "In", ("data",)),)


def members(size: int, *, gpus: int = 8, hard: dict[str, Any] | None = None, **preferred: Any) -> list[Pod]:
    constraints = Constraints(**(hard or {}), preferred=Preferred(**preferred))
    return gang("train", size, gpus=gpus, labels=(("app", "train"),), constraints=constraints)


def on(*names: str, key: str = HOST, weight: int = 1) -> tuple[int, tuple[Requirement, ...]]:
    return weight, (Requirement(key, "In", names),)


def near(key: str, selector: Selector = DATA, weight: int = 1) -> tuple[int, Term]:
    return weight, Term(key, selector, ("default",))


def placed(pods: list[Pod], view: Snapshot) -> list[str]:
    plan = place(pods, len(pods), view)
    assert isinstance(plan, Placed), plan
    return sorted(plan.nodes.values())


def data(where: str) -> Pod:
    return single("db", gpus=0, cpu=0, node=where, labels=(("app", "data"),))


def test_of_equal_nodes_those_that_node_affinity_prefers_are_taken() -> None:
    view = snapshot(cluster("a: 6x8"))
    assert placed(members(2), view) == ["a-0", "a-1"]
    assert placed(members(2, nodes=(on("a-4", "a-2"),)), view) == ["a-2", "a-4"]
    assert placed(members(3, nodes=(on("a-4"), on("a-2", weight=5), on("a-5", "a-2", weight=2))), view) == [
        "a-2", "a-4", "a-5",
    ]  # fmt: skip


def test_weights_decide_between_terms() -> None:
    view = snapshot(cluster("a: 3x8"))
    assert placed(members(1, nodes=(on("a-1", weight=10), on("a-2", weight=20))), view) == ["a-2"]
    assert placed(members(1, nodes=(on("a-1", weight=30), on("a-2", weight=20))), view) == ["a-1"]


def test_a_preferred_domain_goes_before_a_tighter_one() -> None:
    view = snapshot(
        [*cluster("a: 2x8"), *(replace(host, labels={**host.labels, POOL: "x"}) for host in cluster("b: 4x8"))]
    )
    assert placed(members(2), view) == ["a-0", "a-1"]
    assert placed(members(2, nodes=(on("x", key=POOL),)), view) == ["b-0", "b-1"]


def test_one_domain_goes_before_two_that_are_preferred() -> None:
    view = snapshot(cluster("a: 2x8", "b: 2x8", "c: 4x8"))
    assert {name[0] for name in placed(members(4, nodes=(on("a", "b", key=CLIQUE),)), view)} == {"c"}


def test_one_node_goes_before_two_that_are_preferred() -> None:
    view = snapshot([node("a-0", 4, clique="a"), node("a-1", 4, clique="a"), node("a-2", 8, clique="a")])
    assert placed(members(8, gpus=1, nodes=(on("a-0", "a-1"),)), view) == ["a-2"] * 8
    assert placed(members(4, gpus=1, nodes=(on("a-2"),)), view) == ["a-2"] * 4


def test_a_required_level_goes_before_what_is_preferred() -> None:
    view = snapshot(cluster("a: 2x8", "b: 3x8"), *busy("b-0 b-1", 8))
    pods = [replace(pod, topology=Topology("clique")) for pod in members(2, nodes=(on("b", key=CLIQUE),))]
    assert placed(pods, view) == ["a-0", "a-1"]


def test_what_is_preferred_and_full_is_done_without() -> None:
    view = snapshot(cluster("a: 2x8"), *busy("a-1", 8))
    assert placed(members(1, nodes=(on("a-1"),)), view) == ["a-0"]


@pytest.mark.parametrize(("weight", "taken"), [(1, "b"), (-1, "a")])
def test_the_clique_of_a_pod_that_is_there_is_preferred_or_avoided(weight: int, taken: str) -> None:
    view = snapshot(cluster("a: 2x8", "b: 2x8"), data("b-0" if weight > 0 else "b-1"))
    assert {name[0] for name in placed(members(2, pods=(near(CLIQUE, weight=weight),)), view)} == {taken}


def test_a_spread_with_schedule_anyway_avoids_the_domain_with_more_pods() -> None:
    busy_one = [single(f"x-{at}", gpus=0, cpu=0, node="a-0", labels=(("app", "train"),)) for at in range(2)]
    view = snapshot(cluster("a: 2x8", "b: 2x8"), *busy_one)
    assert {name[0] for name in placed(members(2, spread=(Spread(CLIQUE, 1, TRAIN),)), view)} == {"b"}


@pytest.mark.parametrize(
    "preferred",
    [{"pods": (near(HOST, TRAIN, -100),)}, {"spread": (Spread(HOST, 1, TRAIN),)}],
    ids=["anti-affinity", "spread"],
)
def test_members_that_would_rather_be_apart_share_nodes_only_when_they_have_to(preferred: dict[str, Any]) -> None:
    view = snapshot(cluster("a: 4x8"))
    assert placed(members(4, gpus=1, **preferred), view) == ["a-0", "a-1", "a-2", "a-3"]
    assert placed(members(6, gpus=1, **preferred), view)[::2] in (["a-0", "a-1", "a-3"], ["a-0", "a-1", "a-2"])
    assert len(placed(members(32, gpus=1, **preferred), view)) == 32
    split = snapshot(cluster("a: 2x8", "b: 2x8"))
    assert {name[0] for name in placed(members(4, gpus=1, **preferred), split)} == {"a"}, "one clique goes first"


def test_members_that_would_rather_be_apart_go_where_there_are_nodes_for_that() -> None:
    view = snapshot(cluster("a: 1x8", "b: 6x8"))
    assert placed(members(4, gpus=1), view) == ["a-0"] * 4
    assert placed(members(4, gpus=1, pods=(near(HOST, TRAIN, -1),)), view) == ["b-0", "b-1", "b-2", "b-3"]
    assert placed(members(4, gpus=1, spread=(Spread(HOST, 1, TRAIN),)), view) == ["b-0", "b-1", "b-2", "b-3"]


def test_of_the_nodes_that_a_hard_spread_leaves_the_preferred_ones_are_taken() -> None:
    view = snapshot(cluster("a: 4x8"))
    hard = {"anti_affinity": (Term(HOST, TRAIN, ("default",)),)}
    assert placed(members(2, gpus=1, hard=hard, nodes=(on("a-1", "a-3"),)), view) == ["a-1", "a-3"]


def test_a_role_does_without_what_it_prefers_where_that_would_cost_another_its_place() -> None:
    """On n1, which the first one prefers, it leaves too little for the two that need its cores."""
    view = snapshot([node("n0", 8, cpu=16, clique="a"), node("n1", 6, cpu=32, clique="a")])
    picky = [replace(pod, uid="picky", owner="picky") for pod in members(1, gpus=5, nodes=(on("n1"),))]
    plain = [replace(pod, uid="plain", owner="plain") for pod in gang("train", 1, gpus=2)]
    large = gang("train", 2, gpus=2, cpu=8)
    plan = place([*picky, *plain, *large], 4, view)
    assert isinstance(plan, Placed)
    assert plan.nodes["picky"] == "n0"


def test_preferences_of_many_kinds_are_not_looked_at_where_they_are_too_many() -> None:
    pods = [replace(members(1, gpus=1, nodes=(on(f"a-{at}"),))[0], uid=f"u{at}", index=at) for at in range(40)]
    assert len(placed(pods, snapshot(cluster("a: 5x8")))) == 40


def test_no_preference_costs_a_member_its_place() -> None:
    """With random ones as many are placed as without any."""
    random = Random(16)
    for _ in range(100):
        view = snapshot(
            cluster("a: 2x4", "b: 3x8", "-: 1x4"),
            *busy(random.choice(["a-0", "b-0 b-1", "a-1 b-2"]), random.randint(1, 4)),
            data(random.choice(["a-0", "b-2"])),
        )
        wishes: dict[str, Any] = {
            "nodes": tuple(on(random.choice(["a-0", "b-1", "b-2"]), weight=random.randint(1, 100)) for _ in range(2)),
            "pods": (near(random.choice([HOST, CLIQUE]), random.choice([TRAIN, DATA]), random.choice([-50, 50])),),
            "spread": (Spread(random.choice([HOST, CLIQUE]), 1, TRAIN),),
        }
        preferences = {kind: wishes[kind] for kind in wishes if random.random() < 0.6}
        hard: dict[str, Any] = random.choice([{}, {}, {"spread": (Spread(HOST, 2, TRAIN),)}])
        small, large = (
            members(random.randint(1, 9), gpus=1, hard=hard),
            members(random.randint(0, 3), gpus=4, hard=hard),
        )
        rules = random.choice([Topology(), Topology(required="clique"), Topology(slice_size=2)])
        large = [replace(pod, uid=f"l-{pod.uid}", owner="large", topology=rules) for pod in large]
        small = [replace(pod, topology=rules) for pod in small]
        picky = [replace(pod, constraints=Constraints(**hard, preferred=Preferred(**preferences))) for pod in small]
        without, plan = place([*small, *large], 1, view), place([*picky, *large], 1, view)
        count = len(without.nodes) if isinstance(without, Placed) else 0
        assert (len(plan.nodes) if isinstance(plan, Placed) else 0) >= count, (preferences, hard, small, large)
