"""How a placement is carried out: nominations first, gates last, and pins to a node or a domain where asked for or
cheapest.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from extender.core.answers import Nominated, Outcome, Ungated
from extender.core.effects import Nominate, Ungate
from extender.core.events import PodSeen, Synced, Tick
from extender.core.explain.reasons import reason_of, turn_text
from extender.core.gate.steering import SteeringMode
from extender.core.limits import Limits
from policies.model import CLIQUE, GANG_GATE, HOSTNAME, Constraints, Node, Requirement, Selection, Spread, Topology
from tests.builders import cluster, coscheduled, gang
from tests.core.script import Script

BLOCK = "cloud.google.com/gce-topology-block"
GATED: dict[str, Any] = {"gates": (GANG_GATE,)}
PINS = pytest.mark.parametrize("mode", [SteeringMode.PIN_NODE, SteeringMode.PIN_DOMAIN])


def ungates(script: Script) -> list[Ungate]:
    return [effect for effect in script.effects if isinstance(effect, Ungate)]


def nominations(script: Script) -> list[str]:
    return [effect.name for effect in script.effects if isinstance(effect, Nominate) and effect.node]


def in_blocks(*texts: str) -> list[Node]:
    """``in_blocks("x a: 2x8")``: a clique as ``cluster`` makes it, in the block x."""
    return [
        replace(node, labels={**node.labels, BLOCK: text[0]})
        for text in texts
        for node in cluster(text.partition(" ")[2])
    ]


def many_nodes(count: int) -> list[Node]:
    return cluster(f"a: {count}x8")


def test_no_gate_comes_off_before_every_nomination_is_written() -> None:
    pods = gang("train", 3, **GATED)
    script = Script(*cluster("a: 3x8"), *pods, nominates=False)
    for pod in pods[:2]:
        script.feed(Nominated(pod.uid, script.planned(pod)))
    assert not ungates(script)
    script.feed(Nominated(pods[2].uid, script.planned(pods[2])))
    assert [effect.uid for effect in ungates(script)] == [pod.uid for pod in pods]
    assert all(effect.pin == () for effect in ungates(script))


def test_a_member_that_is_bound_keeps_no_gate_on_and_its_late_nomination_takes_nothing_back() -> None:
    """The nomination was written and taken up, but its answer was lost: it is repeated until it fails."""
    (first,) = gang("train", 1, min_member=1)
    _, second = gang("train", 2, min_member=1, **GATED)
    script = Script(*cluster("a: 2x8"), first, second, nominates=False)
    script.run([first])
    assert not ungates(script)
    script.feed(Nominated(second.uid, script.planned(second)))
    assert [effect.uid for effect in ungates(script)] == [second.uid]
    script.feed(Nominated(first.uid, "a-0", "the API server gave no answer"))
    assert script.planned(second)


def test_a_member_refused_in_the_middle_of_a_release_keeps_no_room_by_its_nomination() -> None:
    """Even one that is still being written does not count: the newest request for a pod does."""
    first, second = pods = gang("train", 2, min_member=1)
    script = Script(*cluster("a: 2x8"), *pods)
    script.bind(first)
    assert list(script.bindings) == [first.uid]
    node = script.planned(second)
    script.effects.clear()
    script.change(script.pods[second.uid], nominated_node=None, refusal="0/2 nodes are available: 2 InterPodAffinity")
    wishes = [effect.node for effect in script.effects if isinstance(effect, Nominate) and effect.uid == second.uid]
    assert node
    assert wishes[:1] == [None]


def test_a_member_that_could_not_be_nominated_in_the_middle_of_a_release_is_planned_anew() -> None:
    pods = gang("train", 3, min_member=2)
    script = Script(*cluster("a: 3x8"), *pods, nominates=False)
    spare = pods[2]
    script.bind_all(pods[:2])
    assert script.bindings
    script.change(spare, nominated_node=None)
    script.feed(Nominated(spare.uid, script.planned(spare), "the API server gave no answer"))
    script.effects.clear()
    script.post_all()
    assert len(script.bound(pods)) == 2
    script.advance(5)
    assert nominations(script) == [spare.name]
    script.feed(Nominated(spare.uid, script.planned(spare)))
    script.run([spare])
    assert len(script.bound(pods)) == 3


def test_what_the_watch_shows_of_a_write_counts_though_it_was_never_answered() -> None:
    pods = gang("train", 2, **GATED)
    script = Script(*cluster("a: 2x8"), *pods, nominates=False)
    planned = [script.planned(pod) for pod in pods]
    for pod, node in zip(pods, planned, strict=True):
        script.feed(Nominated(pod.uid, node, "the API server gave no answer"))
    assert [effect.uid for effect in ungates(script)] == [pod.uid for pod in pods]
    script.change(pods[0], gates=())
    script.feed(Ungated(pods[0].uid, "the API server gave no answer"))
    assert [script.planned(pod) for pod in pods] == planned
    script.feed(Ungated(pods[1].uid, "the API server gave no answer"))
    assert [script.planned(pod) for pod in pods] != planned


def test_held_members_wait_for_one_whose_gate_the_api_server_does_not_take_off() -> None:
    pods = gang("train", 2, **GATED)
    script = Script(*cluster("a: 2x8"), *pods)
    first, second = pods
    script.change(first, gates=())
    script.feed(Ungated(first.uid))
    script.bind(first, expires_s=300.0)
    script.advance(100)
    assert script.planned(second)
    script.change(second, gates=())
    script.feed(Ungated(second.uid))
    script.advance(25)
    assert script.planned(second)
    script.bind(second)
    script.post_all()
    assert len(script.bound(pods)) == 2


def test_a_member_that_could_not_be_ungated_in_the_middle_of_a_release_is_planned_anew() -> None:
    first, second = gang("train", 2, min_member=1)[0], gang("train", 2, min_member=1, **GATED)[1]
    script = Script(*cluster("a: 2x8"), first, second)
    assert [effect.uid for effect in ungates(script)] == [second.uid]
    script.bind(first)
    script.feed(Ungated(second.uid, "the API server gave no answer"))
    script.post_all()
    script.advance(5)
    assert [effect.uid for effect in ungates(script)] == [second.uid] * 2


def test_a_member_in_doubt_that_could_not_be_nominated_is_planned_anew_when_it_does_not_come_back() -> None:
    pods = gang("train", 3)
    script = Script(*cluster("a: 3x8"), *pods, nominates=False)
    script.bind_all(pods)
    sure, doubtful = script.bindings
    script.feed(Nominated(doubtful, script.bindings[doubtful].node, "the API server gave no answer"))
    script.post(script.pods[sure])
    script.feed_outcome(doubtful, Outcome.UNKNOWN)
    script.effects.clear()
    script.advance(25)
    script.post_all()
    script.advance(25)
    assert script.pods[doubtful].name in nominations(script)
    assert not script.evicted


def test_a_nomination_that_kube_scheduler_leaves_on_a_failed_bind_is_taken_back() -> None:
    """kube-scheduler tries to clear it once, and that request may fail."""
    first, second = pods = gang("train", 2)
    script = Script(*cluster("a: 2x8"), *pods)
    call = script.bind(first)
    script.drop(script.planned(second))
    assert script.answers[call]
    script.effects.clear()
    script.advance(60)
    taken_back = [effect.uid for effect in script.effects if isinstance(effect, Nominate) and effect.node is None]
    assert first.uid in taken_back
    assert script.pods[first.uid].nominated_node is None


def test_a_nomination_that_is_yet_to_be_written_is_taken_back_from_a_held_member_whose_gang_is_planned_anew() -> None:
    """kube-scheduler clears that of a failed bind, but one that is written afterwards stays, and keeps room."""
    first, second = pods = gang("train", 2)
    script = Script(*cluster("a: 2x8"), *pods, nominates=False)
    call = script.bind(first)
    script.effects.clear()
    script.drop(script.planned(second))
    assert script.answers[call]
    wishes = [effect.node for effect in script.effects if isinstance(effect, Nominate) and effect.uid == first.uid]
    assert wishes == [None]


def test_a_placement_waits_for_its_writes_however_long_they_take() -> None:
    pods = gang("train", 2, **GATED)
    script = Script(*cluster("a: 2x8"), *pods, steering=SteeringMode.PIN_NODE, limits=Limits(plan_s=10))
    script.advance(60)
    assert all(script.planned(pod) for pod in pods)
    for pod in pods:
        script.feed(Ungated(pod.uid))
    script.advance(9)
    assert all(script.planned(pod) for pod in pods)
    script.advance(5)
    assert script.gang("train").retries.failures == 1


def test_a_gate_that_cannot_be_taken_off_takes_the_placement_back() -> None:
    pods = gang("train", 2, **GATED)
    script = Script(*cluster("a: 2x8"), *pods)
    script.feed(Ungated(pods[0].uid, "403 Forbidden"))
    assert script.planned(pods[1]) == ""
    assert any(
        "could not be ungated: 403 Forbidden" in turn_text(turn) for _, turn in script.gang("train").reason_state.story
    )


def test_no_gate_comes_off_before_the_watch_has_shown_every_nomination() -> None:
    pods = gang("train", 2, **GATED)
    script = Script(*cluster("a: 2x8"), *pods, synced=False)
    core, now = script.core, script.now
    effects = [*core.handle(Synced(), now), *core.handle(Tick(), now + 1)]
    nodes = {effect.uid: effect.node for effect in effects if isinstance(effect, Nominate) and effect.node}
    for uid, node in nodes.items():
        assert not core.handle(Nominated(uid, node), now + 1)
    first, second = (replace(pod, nominated_node=nodes[pod.uid]) for pod in pods)
    assert not core.handle(PodSeen(first), now + 1)
    effects = core.handle(PodSeen(second), now + 1)
    assert [effect.uid for effect in effects if isinstance(effect, Ungate)] == [pod.uid for pod in pods]


def test_a_nomination_that_could_not_be_cleared_is_cleared_later() -> None:
    """The write may be lost on every repetition, and no other client clears the nomination."""
    pods = gang("train", 2, **GATED)
    script = Script(*cluster("a: 2x8"), *pods)
    nodes = {pod.uid: script.planned(pod) for pod in pods}
    script.see(*(replace(node, unschedulable=True) for node in cluster("a: 2x8")))
    assert not script.planned(pods[0])
    script.see(*(replace(script.pods[pod.uid], nominated_node=nodes[pod.uid]) for pod in pods))
    script.advance(60)
    assert [script.pods[pod.uid].nominated_node for pod in pods] == [None, None]


def test_a_lost_member_of_a_release_keeps_no_room_by_a_nomination_that_could_not_be_cleared() -> None:
    pods = gang("train", 3)
    script = Script(*cluster("a: 3x8"), *pods)
    script.bind_all(pods)
    lost, other = list(script.bindings)
    node = script.bindings[lost].node
    script.post(script.pods[other])
    script.post(script.pods[lost], Outcome.REFUSED)
    script.see(*(replace(node, unschedulable=True) for node in cluster("a: 3x8")))
    script.change(script.pods[lost], nominated_node=node)
    script.advance(45)
    assert script.pods[lost].nominated_node is None


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
    constraints = Constraints(spread=(spread,))
    pods = gang("train", 2, labels=(("app", "train"),), constraints=constraints, **GATED)
    script = Script(*cluster("a: 2x8"), *pods, steering=mode)
    assert all(map(script.planned, pods))
    assert bool(nominations(script)) is not pinned
    assert {bool(effect.pin) for effect in ungates(script)} == {pinned}


def test_a_member_that_turns_out_to_be_pinned_elsewhere_is_planned_anew_at_once() -> None:
    """The gate came off with the pin of a plan that had been revoked meanwhile."""
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
    """Only a write wakes a member that kube-scheduler has refused."""
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
    reason_told = reason_of(script.gang("train").reason_state.cause)
    assert reason_told.code == "NoRoom"
    assert f"pods {pods[0].name}, {pods[1].name} are pinned to node {node}, which is gone: only deleting them" in str(
        reason_told
    )
