"""Gangs whose members demand something of other pods, as the core sees them: planned, woken and explained."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from extender.core.events import NamespaceGone, NamespaceSeen, PodGone, PodSeen, Tick
from extender.core.limits import Limits
from policies.model import CLIQUE, Constraints, Pod, Preferred, Requirement, Spread, Term
from policies.model.constraints import NAMESPACE_NAME
from tests.builders import cluster, gang, single
from tests.core.relations import APART, HOST, PORT, TRAIN, asking
from tests.core.script import Script


def test_members_with_one_port_are_planned_on_nodes_of_their_own() -> None:
    script, pods = Script(*cluster("a: 4x8")), asking("train", 4, PORT)
    script.see(pods)
    script.advance(1.0)
    assert sorted(map(script.planned, pods)) == ["a-0", "a-1", "a-2", "a-3"]


def test_planned_members_are_in_the_way_of_other_gangs() -> None:
    script = Script(*cluster("a: 3x8"))
    first, second = asking("first", 2, PORT), asking("second", 2, PORT)
    script.see(first)
    script.advance(1.0)
    script.see(second)
    script.advance(1.0)
    assert script.reason("second") == "NoRoom"
    assert "2 nodes: port 29500 in use" in script.message("second")


def test_a_gang_that_waits_for_a_port_is_planned_when_its_holder_is_gone() -> None:
    holder = single("web", gpus=0, cpu=0, node="a-1", constraints=PORT)
    script, pods = Script(*cluster("a: 2x8"), holder), asking("train", 2, PORT)
    script.see(pods)
    script.advance(1.0)
    assert "1 node: port 29500 in use" in script.message("train")
    script.gone(holder)
    script.advance(1.0)
    assert sorted(map(script.planned, pods)) == ["a-0", "a-1"]


def test_a_gang_that_waits_for_a_port_is_planned_when_the_room_of_its_holder_is_taken_at_once() -> None:
    holder, pods = single("web", node="a-0", constraints=PORT), asking("train", 1, PORT)
    script = Script(*cluster("a: 1x8"), holder, *pods)
    assert not script.planned(pods[0])
    script.feed(PodGone(holder.uid))
    script.feed(PodSeen(single("other", node="a-0")))
    script.advance(5)
    assert script.planned(pods[0]) == "a-0"


def test_a_gang_that_asks_for_nothing_is_planned_when_the_pod_that_kept_it_away_is_gone() -> None:
    apart = Constraints(anti_affinity=(Term(HOST, TRAIN, ("default",)),))
    holder, keeper = single("holder", gpus=8, node="a-0"), single("keeper", gpus=0, cpu=0, constraints=apart)
    script, pods = Script(*cluster("a: 1x8"), holder), asking("train", 1, Constraints())
    script.see(pods)
    script.advance(1.0)
    script.see(replace(keeper, node="a-0"))
    script.gone(holder)
    script.advance(1.0)
    assert "1 node: anti-affinity of default/keeper" in script.message("train")
    script.gone(keeper)
    script.advance(1.0)
    assert script.planned(pods[0]) == "a-0"


@pytest.mark.parametrize("own", [Constraints(), PORT, APART])
@pytest.mark.parametrize("foreign", [PORT, APART])
def test_a_pod_that_comes_in_the_way_while_the_gang_is_held_is_seen_before_the_release(
    own: Constraints, foreign: Constraints
) -> None:
    script, pods = Script(*cluster("a: 3x8")), asking("train", 2, own)
    script.see(pods)
    script.bind(pods[0])
    first = script.planned(pods[0])
    script.see(single("foreign", gpus=0, cpu=0, node=first, constraints=foreign, labels=(("app", "train"),)))
    script.bind(pods[1])
    in_the_way = foreign == APART or own != Constraints()
    assert bool(script.bindings) is not in_the_way
    script.advance(1.0)
    script.run(pods)
    assert len(script.bound(pods)) == 2
    assert (first in script.bound(pods)) is not in_the_way


def test_a_gang_that_asks_for_nothing_and_one_that_does_are_told_apart() -> None:
    script = Script(*cluster("a: 1x8"))
    picky, plain = asking("picky", 2, PORT), gang("plain", 2, gpus=1)
    script.see(picky, plain)
    script.advance(1.0)
    assert script.reason("picky") == "NoRoom"
    assert list(map(script.planned, plain)) == ["a-0", "a-0"]


def test_a_pod_that_is_there_keeps_a_gang_away_that_asks_for_nothing() -> None:
    shy = Constraints(anti_affinity=(Term(HOST, TRAIN, ("default",)),))
    script = Script(*cluster("a: 2x8"), single("db", gpus=0, node="a-0", constraints=shy))
    pods = asking("train", 2, Constraints())
    script.see(pods)
    script.advance(1.0)
    assert set(map(script.planned, pods)) == {"a-1"}


def test_a_spread_gang_comes_in_the_order_of_its_ranks() -> None:
    script = Script(*cluster("a: 4x8"))
    pods = asking("train", 8, Constraints(spread=(Spread(HOST, 1, TRAIN),)))
    script.see(pods)
    script.advance(1.0)
    nodes = list(map(script.planned, pods))
    assert sorted(nodes[:4]) == sorted(nodes[4:]) == ["a-0", "a-1", "a-2", "a-3"]


def test_members_that_prefer_twenty_different_things_are_no_more_shapes_than_without() -> None:
    script, pods = Script(*cluster("a: 24x8")), gang("train", 20)
    for at, pod in enumerate(pods):
        wish = Preferred(nodes=((1, (Requirement(HOST, "In", (f"a-{23 - at}",)),)),))
        pods[at] = replace(pod, constraints=Constraints(preferred=wish))
    script.see(pods)
    script.advance(1.0)
    assert list(map(script.planned, pods)) == [f"a-{23 - at}" for at in range(20)]


def test_labels_that_change_on_a_pod_that_is_there_are_seen() -> None:
    web = single("web", gpus=0, node="a-0", labels=(("app", "train"),))
    apart = Constraints(anti_affinity=(Term(HOST, TRAIN, ("default",)),))
    script = Script(*cluster("a: 2x8"), web)
    script.see(replace(web, labels=(("app", "web"),)))
    pods = asking("train", 2, apart)
    script.see(pods)
    script.advance(1.0)
    assert sorted(map(script.planned, pods)) == ["a-0", "a-1"]


EVENLY = Constraints(spread=(Spread(HOST, 1, TRAIN),))
NOBODY = Constraints()


def beside_a_nominated_single(
    keeps: Constraints, constraints: Constraints, priority: int = 0
) -> tuple[Script, Pod, Pod]:
    """A gang of one with room on a node where a single pod waits for its victim, and that pod."""
    victim, (pod,) = single("victim", gpus=6, node="a-0"), asking("train", 1, constraints)
    urgent = single(
        "urgent", gpus=4, priority=1000, nominated_node="a-0", labels=(("app", "train"),), constraints=keeps
    )
    script = Script(*cluster("a: 1x12"), victim, urgent)
    script.see(replace(pod, priority=priority))
    return script, pod, urgent


@pytest.mark.parametrize(
    ("keeps", "wants", "why"),
    [
        (PORT, PORT, "port 29500 in use by default/urgent"),
        (APART, NOBODY, "anti-affinity of default/urgent"),
        (NOBODY, APART, "anti-affinity with default/urgent"),
        (NOBODY, EVENLY, "kept for default/urgent, for which its spread has to leave room"),
    ],
    ids=["port", "its anti-affinity", "anti-affinity to it", "spread"],
)
def test_a_gang_is_not_planned_where_a_nominated_pod_before_it_is_in_its_way(
    keeps: Constraints, wants: Constraints, why: str
) -> None:
    """kube-scheduler evaluates the node as though that pod were there."""
    script, pod, urgent = beside_a_nominated_single(keeps, wants)
    assert not script.planned(pod)
    assert f"1 node: {why}" in script.message("train")
    script.change(urgent, nominated_node=None)
    script.gone(urgent)
    assert script.planned(pod) == "a-0"
    assert beside_a_nominated_single(keeps, wants, priority=2000)[0].planned(pod) == "a-0"
    assert beside_a_nominated_single(NOBODY, NOBODY)[0].planned(pod) == "a-0"


@pytest.mark.parametrize("own", [False, True])
def test_a_gang_leaves_a_nominated_pod_before_it_the_clique_that_it_wants_for_itself(*, own: bool) -> None:
    apart = Constraints(anti_affinity=(Term(CLIQUE, TRAIN, ("default",)),))
    urgent = single("urgent", gpus=4, priority=1000, nominated_node="a-0", constraints=NOBODY if own else apart)
    (pod,) = asking("train", 1, apart if own else NOBODY)
    script = Script(*cluster("a: 2x8"), replace(urgent, labels=pod.labels), pod)
    assert not script.planned(pod)
    script.see(*cluster("b: 1x8"))
    assert script.planned(pod) == "b-0"


def test_nobody_counts_on_a_nominated_pod() -> None:
    near = Constraints(affinity=(Term(HOST, (Requirement("app", "In", ("data",)),), ("default",)),))
    data = single("data", gpus=4, priority=1000, nominated_node="a-0", labels=(("app", "data"),))
    script, (pod,) = Script(*cluster("a: 1x8"), data), asking("train", 1, near)
    script.see(pod)
    assert not script.planned(pod)
    script.change(data, nominated_node=None, node="a-0")
    assert script.planned(pod) == "a-0"


def test_a_gang_that_a_nominated_pod_keeps_away_holds_up_none_with_other_labels() -> None:
    """Both have waited for the same, and been refused for the same, before that pod was nominated."""
    holder, urgent = single("holder", gpus=8, node="a-0"), single("urgent", gpus=1, priority=1000, constraints=APART)
    (pod,), (other,) = asking("train", 1, NOBODY), gang("later", 1, gpus=1, created=9.0)
    script = Script(*cluster("a: 1x8"), holder, urgent, pod, other)
    script.change(urgent, nominated_node="a-0")
    script.gone(holder)
    script.advance(1.0)
    assert not script.planned(pod)
    assert script.planned(other) == "a-0"


@pytest.mark.parametrize("steps", range(1, 12))
def test_a_plan_is_looked_at_again_if_a_pod_is_nominated_while_it_is_made(steps: int) -> None:
    (pod,), urgent = asking("train", 1, PORT), single("urgent", gpus=1, priority=1000, constraints=PORT)
    script = Script(*cluster("a: 1x8"), limits=Limits(slice_units=1))
    script.feed(PodSeen(pod))
    script.now += 0.01
    for _ in range(steps):
        script.feed(Tick())
    planned = script.planned(pod)
    script.feed(PodSeen(replace(urgent, nominated_node="a-0")))
    script.advance(1.0)
    assert script.planned(pod) == planned


DATA = (Requirement("app", "In", ("data",)),)


def near_data(size: int = 2) -> list[Pod]:
    return asking("train", size, Constraints(affinity=(Term(HOST, DATA, ("default",)),)))


def data_pod(name: str = "db", **facts: Any) -> Pod:
    return single(name, gpus=0, cpu=0, labels=(("app", "data"),), **facts)


def test_the_pod_that_a_gang_waits_for_wakes_it_at_once() -> None:
    script, pods = Script(*cluster("a: 2x8")), near_data()
    script.see(pods)
    script.advance(1.0)
    for number in range(3):
        script.see(single(f"web-{number}", gpus=0, cpu=0, node="a-0"))
        assert script.reason("train") == "NoRoom"
    script.see(data_pod(node="a-1"))
    assert set(map(script.planned, pods)) == {"a-1"}


def test_the_pod_that_a_gang_waits_for_wakes_it_when_it_is_bound() -> None:
    script, pods, data = Script(*cluster("a: 2x8")), near_data(), data_pod()
    script.see(pods, data)
    script.advance(1.0)
    assert script.reason("train") == "NoRoom"
    script.bind(data, "a-1")
    assert script.reason("train") == "NoRoom"
    script.post(data)
    script.advance(0.1)
    assert set(map(script.planned, pods)) == {"a-1"}


def test_a_label_that_a_pod_gets_or_loses_wakes_a_gang_at_once() -> None:
    other = single("other", gpus=0, cpu=0, node="a-1")
    script, pods = Script(*cluster("a: 2x8"), other), near_data()
    script.see(pods)
    script.advance(1.0)
    script.change(other, labels=(("app", "data"),))
    assert set(map(script.planned, pods)) == {"a-1"}
    apart = gang(
        "apart", 1, constraints=Constraints(anti_affinity=(Term("nvidia.com/gpu.clique", DATA, ("default",)),))
    )
    script.see(apart)
    script.advance(1.0)
    assert script.reason("apart") == "NoRoom"
    script.change(other, labels=())
    assert script.planned(apart[0]) == "a-0"


GOLD = (Requirement("tier", "In", ("gold",)),)


def gold(script: Script, *labels: tuple[str, str]) -> None:
    script.feed(NamespaceSeen("data", ((NAMESPACE_NAME, "data"), *labels)))
    script.advance(1.0)


def test_a_label_of_a_namespace_wakes_a_gang_that_wants_to_be_near_its_pods() -> None:
    script = Script(*cluster("a: 2x8"), replace(data_pod(node="a-1"), namespace="data"))
    gold(script)
    pods = asking("train", 2, Constraints(affinity=(Term(HOST, DATA, (), GOLD),)))
    script.see(pods)
    script.advance(1.0)
    assert script.reason("train") == "NoRoom"
    gold(script, ("tier", "gold"))
    assert set(map(script.planned, pods)) == {"a-1"}


def test_a_gang_that_keeps_away_starts_when_the_label_or_the_namespace_has_gone() -> None:
    script = Script(*cluster("a: 1x8"), replace(data_pod(node="a-0"), namespace="data"))
    gold(script, ("tier", "gold"))
    shy = Constraints(anti_affinity=(Term(HOST, DATA, (), GOLD),))
    first, second = asking("first", 1, shy), asking("second", 1, shy)
    script.see(first)
    script.advance(1.0)
    assert script.reason("first") == "NoRoom"
    gold(script)
    assert script.planned(first[0]) == "a-0"
    gold(script, ("tier", "gold"))
    script.see(second)
    script.advance(1.0)
    assert script.reason("second") == "NoRoom"
    script.feed(NamespaceGone("data"))
    script.advance(1.0)
    assert script.planned(second[0]) == "a-0"


def test_a_namespace_whose_pods_another_one_keeps_away_is_waited_for() -> None:
    """The label is of the gang's own namespace, and the term of the pod that is there."""
    shy = Constraints(anti_affinity=(Term(HOST, TRAIN, (), GOLD),))
    script = Script(*cluster("a: 1x8"), single("db", gpus=0, cpu=0, node="a-0", constraints=shy))
    script.feed(NamespaceSeen("default", (("tier", "gold"),)))
    pods = asking("train", 2, Constraints())
    script.see(pods)
    script.advance(1.0)
    assert script.reason("train") == "NoRoom"
    script.feed(NamespaceSeen("default", ()))
    script.advance(1.0)
    assert set(map(script.planned, pods)) == {"a-0"}


def test_a_pod_that_makes_an_empty_domain_fuller_lets_a_spread_gang_go_on() -> None:
    nodes = [*cluster("a: 1x8"), *cluster("b: 1x0")]
    script, pods = Script(*nodes), asking("train", 2, Constraints(spread=(Spread(HOST, 1, TRAIN),)))
    script.see(pods)
    script.advance(1.0)
    assert script.reason("train") == "NoRoom"
    script.see(single("web", gpus=0, cpu=0, node="b-0", labels=(("app", "train"),)))
    assert set(map(script.planned, pods)) == {"a-0"}


def test_a_waiting_gang_whose_own_labels_change_is_looked_at_again() -> None:
    shy = Constraints(anti_affinity=(Term(HOST, TRAIN, ("default",)),))
    script = Script(*cluster("a: 1x8"), single("db", gpus=0, cpu=0, node="a-0", constraints=shy))
    (pod,) = asking("train", 1, Constraints())
    script.see(pod)
    script.advance(1.0)
    assert script.reason("train") == "NoRoom"
    script.change(pod, labels=())
    assert script.planned(pod) == "a-0"
