"""What wakes gangs that demand something of other pods: these come, are bound, and get or lose labels."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from extender.core.events import NamespaceGone, NamespaceSeen
from policies.model import Constraints, Pod, Requirement, Spread, Term
from policies.model.constraints import NAMESPACE_NAME
from tests.builders import cluster, gang, single
from tests.core.relations import HOST, TRAIN, asking
from tests.core.script import Script

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
