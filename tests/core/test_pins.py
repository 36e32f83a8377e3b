"""Placements that are carried out by pinning: to a node or to a domain, where it is asked for or cheapest."""

from __future__ import annotations

from dataclasses import replace

import pytest

from extender.core.answers import Ungated
from extender.core.gate.steering import SteeringMode
from policies.model import CLIQUE, HOSTNAME, Constraints, Requirement, Selection, Spread, Topology
from tests.builders import cluster, coscheduled, gang
from tests.core.script import Script
from tests.core.steered import BLOCK, GATED, PINS, in_blocks, many_nodes, nominations, ungates


def test_pinning_to_the_node_is_one_write_and_no_nomination() -> None:
    pods = gang("train", 2, **GATED)
    script = Script(*cluster("a: 2x8"), *pods, steering=SteeringMode.PIN_NODE)
    assert nominations(script) == []
    assert {effect.uid: effect.pin for effect in ungates(script)} == {pod.uid: (script.planned(pod),) for pod in pods}


@PINS
@pytest.mark.parametrize(
    ("key", "least", "honors", "pinned"),
    [
        (HOSTNAME, 2, True, False),
        (HOSTNAME, 1, True, True),
        (HOSTNAME, 2, False, True),
        (CLIQUE, 1, True, False),
        (CLIQUE, 1, False, True),
    ],
)
def test_members_of_a_spread_that_needs_more_nodes_than_a_pin_leaves_are_nominated(
    mode: SteeringMode, key: str, least: int, *, honors: bool, pinned: bool
) -> None:
    selector = (Requirement("app", "In", ("train",)),)
    spread = Spread(key, 1, selector, least, honors_affinity=honors)
    asked = Constraints(spread=(spread,))
    pods = gang("train", 2, labels=(("app", "train"),), constraints=asked, **GATED)
    script = Script(*cluster("a: 2x8"), *pods, steering=mode)
    assert all(map(script.planned, pods))
    assert bool(nominations(script)) is not pinned
    assert {bool(effect.pin) for effect in ungates(script)} == {pinned}


def test_a_member_that_turns_out_to_be_pinned_elsewhere_is_planned_anew_at_once() -> None:
    """Its gate came off with the pin of a plan that had been taken back meanwhile."""
    pods = gang("train", 2, **GATED)
    script = Script(*cluster("a: 2x8"), *pods, steering=SteeringMode.PIN_NODE)
    first, second = (script.planned(pod) for pod in pods)
    pin = Requirement("metadata.name", "In", (second,), is_field=True)
    script.change(pods[0], gates=(), selection=Selection(affinity=((pin,),)))
    assert [script.planned(pod) for pod in pods] == [second, first]


def test_pinning_to_the_domain_names_every_node_of_the_clique_and_no_other() -> None:
    pods = gang("train", 2, **GATED)
    script = Script(*cluster("a: 3x8", "b: 1x8"), *pods, steering=SteeringMode.PIN_DOMAIN)
    assert {effect.pin for effect in ungates(script)} == {("a-0", "a-1", "a-2")}


@pytest.mark.parametrize(
    ("wish", "pins"),
    [
        (Topology(), {"a-0 a-1"}),
        (Topology(preferred=BLOCK), {"a-0 a-1 b-0 b-1"}),
        (Topology(required=BLOCK), {"a-0 a-1 b-0 b-1"}),
        (Topology(required=BLOCK, preferred="clique"), {"a-0 a-1 b-0 b-1"}),
        (Topology(required=BLOCK, slice_size=2), {"a-0 a-1", "b-0 b-1"}),
        (Topology(required="clique"), {"a-0 a-1"}),
    ],
)
def test_a_pin_names_the_domain_that_the_pod_has_to_stay_in(wish: Topology, pins: set[str]) -> None:
    pods = gang("train", 2 if pins == {"a-0 a-1"} else 4, topology=wish, **GATED)
    script = Script(*in_blocks("x a: 2x8", "x b: 2x8", "y c: 3x8"), *pods, steering=SteeringMode.PIN_DOMAIN)
    assert {" ".join(effect.pin) for effect in ungates(script)} == pins


def test_a_pin_to_a_large_domain_names_the_nearer_one_inside_it() -> None:
    pods = gang("train", 4, topology=Topology(required=BLOCK), **GATED)
    script = Script(*in_blocks("x a: 4x8", "x b: 61x8"), *pods, steering=SteeringMode.PIN_DOMAIN)
    assert {effect.pin for effect in ungates(script)} == {("a-0", "a-1", "a-2", "a-3")}


def test_what_the_podgroup_requires_counts_for_the_pin() -> None:
    group, pods = coscheduled("train", 2, **GATED)
    asks = replace(group, topology=Topology(required=BLOCK))
    script = Script(*in_blocks("x a: 2x8", "x b: 1x8"), asks, *pods, steering=SteeringMode.PIN_DOMAIN)
    assert {effect.pin for effect in ungates(script)} == {("a-0", "a-1", "b-0")}


@pytest.mark.parametrize(("nodes", "written"), [(2, []), (500, []), (501, ["train-0", "train-1"])])
def test_auto_nominates_nobody_where_kube_scheduler_looks_at_every_node(nodes: int, written: list[str]) -> None:
    pods = gang("train", 2, **GATED)
    script = Script(*many_nodes(nodes), *pods, steering=SteeringMode.AUTO)
    assert nominations(script) == written
    assert {effect.uid: effect.pin for effect in ungates(script)} == {pod.uid: () for pod in pods}


def test_auto_nominates_what_other_pods_count_for() -> None:
    spread = Spread(HOSTNAME, 1, (Requirement("app", "In", ("train",)),))
    pods = gang("train", 2, labels=(("app", "train"),), constraints=Constraints(spread=(spread,)), **GATED)
    script = Script(*cluster("a: 2x8"), *pods, steering=SteeringMode.AUTO)
    assert nominations(script) == [pod.name for pod in pods]


def test_auto_nominates_a_member_whose_gate_is_off_already() -> None:
    """Only a write wakes one that kube-scheduler has refused."""
    pods = gang("train", 2, **GATED)
    script = Script(*cluster("a: 3x8"), *pods, steering=SteeringMode.AUTO)
    script.change(pods[0], gates=())
    lost = script.planned(pods[0])
    script.effects.clear()
    script.drop(lost)
    assert script.planned(pods[0]) not in ("", lost)
    assert pods[0].name in nominations(script)


@pytest.mark.parametrize("mode", [SteeringMode.AUTO, SteeringMode.PIN_NODE, SteeringMode.PIN_DOMAIN])
def test_a_pod_that_was_never_gated_is_nominated(mode: SteeringMode) -> None:
    pods = gang("train", 2)
    script = Script(*cluster("a: 2x8"), *pods, steering=mode)
    assert nominations(script) == [pod.name for pod in pods]
    assert not ungates(script)


@PINS
def test_a_pod_with_affinity_terms_of_its_own_is_nominated_and_ungated_unpinned(mode: SteeringMode) -> None:
    own = Selection(affinity=((Requirement("kubernetes.io/hostname", "Exists", ()),),))
    pods = gang("train", 2, selection=own, **GATED)
    script = Script(*cluster("a: 2x8"), *pods, steering=mode)
    assert nominations(script) == [pod.name for pod in pods]
    assert [effect.pin for effect in ungates(script)] == [(), ()]


def test_a_node_without_a_clique_has_no_domain_to_pin_to() -> None:
    pods = gang("train", 1, **GATED)
    nodes = [node.__class__(node.name, node.allocatable) for node in cluster("a: 1x8")]
    script = Script(*nodes, *pods, steering=SteeringMode.PIN_DOMAIN)
    assert nominations(script) == ["train-0"]
    assert [effect.pin for effect in ungates(script)] == [()]


@PINS
def test_a_pinned_gang_is_held_and_released_like_any_other(mode: SteeringMode) -> None:
    pods = gang("train", 2, **GATED)
    script = Script(*cluster("a: 2x8"), *pods, steering=mode)
    for pod in pods:
        script.feed(Ungated(pod.uid))
        script.change(pod, gates=())
    script.run(pods)
    assert script.reason("train") == "Running"


@pytest.mark.parametrize("mode", [SteeringMode.PIN_NODE, SteeringMode.PIN_DOMAIN])
def test_a_gang_whose_pinned_nodes_are_gone_is_told_that_only_deleting_its_pods_helps(mode: SteeringMode) -> None:
    pods = gang("train", 2, **GATED)
    script = Script(*cluster("a: 1x16", "b: 1x16"), *pods, steering=mode)
    for effect in ungates(script):
        terms = tuple((Requirement("metadata.name", "In", (node,), is_field=True),) for node in effect.pin)
        script.feed(Ungated(effect.uid))
        script.change(script.pods[effect.uid], gates=(), selection=Selection(affinity=terms))
    node = script.planned(pods[0])
    script.drop(node)
    told = script.gang("train").telling.reason
    assert told.code == "NoRoom"
    assert f"pods {pods[0].name}, {pods[1].name} are pinned to node {node}, which is gone: only deleting them" in str(
        told
    )
