"""Gangs by their owner whose pods come one after the other: room is kept for those that come later."""

from __future__ import annotations

from dataclasses import replace

import pytest

from extender.core.events import OwnerSeen
from policies.model import (
    GANG_GATE,
    HOSTNAME,
    Order,
    Pod,
    Requirement,
    Selection,
    Taint,
    Toleration,
)
from tests.builders import cluster, gang, requests
from tests.core.owned import free, owned, owner, scripted, told
from tests.core.script import Script

# What its controller makes in order.


def test_the_first_starts_when_all_have_room_and_the_others_come_into_theirs() -> None:
    pods = [owned(number) for number in range(4)]
    script = scripted(owner(4, order=Order.ONE_BY_ONE), pods[0], nodes="a: 3x8")
    assert (script.reason("statefulset-web"), script.planned(pods[0])) == ("NoRoom", "")
    script.see(*cluster("b: 4x8"))
    assert script.planned(pods[0]).startswith("b-")
    script.run(pods[:1])
    assert len(script.bound(pods[:1])) == 1
    # The room of those that are yet to come is theirs alone.
    assert free(script) == ["a-0", "a-1", "a-2"]
    for pod in pods[1:]:
        script.see(pod)
        script.run([pod])
    assert sorted(script.bound(pods)) == ["b-0", "b-1", "b-2", "b-3"]
    script.advance(300)
    assert not script.evicted


def test_gates_of_others_are_taken_off_pod_by_pod() -> None:
    """They are in the template, so the pods that are yet to come will have them, too."""
    gates = (GANG_GATE, "example.com/quota")
    seen = owner(2, order=Order.ONE_BY_ONE)
    assert seen.podset is not None
    template = replace(seen.podset.template, gates=gates)
    seen = replace(seen, podset=replace(seen.podset, template=template, leader=template))
    pods = [owned(number, gates=gates) for number in range(2)]
    script = scripted(seen, pods[0], nodes="a: 2x8")
    for number, pod in enumerate(pods):
        script.see(pod)
        assert script.bound(pods[: number + 1])[number:] == []
        script.see(replace(pod, gates=(GANG_GATE,)))
        script.run([pod])
    assert sorted(script.bound(pods)) == ["a-0", "a-1"]


def test_the_workers_come_when_their_leader_runs() -> None:
    seen = owner(3, order=Order.LEADER_FIRST, minimum=None)
    assert seen.podset is not None
    small = replace(seen.podset.template, requests=requests(0))
    seen = replace(seen, podset=replace(seen.podset, leader=small))
    leader = owned(0, requests=requests(0), size=3, series="000000005")
    script = scripted(seen, leader, nodes="a: 1x8")
    assert script.reason("statefulset-web") == "NoRoom"
    script.see(*cluster("b: 2x8"))
    script.run([leader])
    workers = [owned(number, size=3, series="000000005") for number in (1, 2)]
    script.see(*workers)
    script.run(workers)
    assert sorted(script.bound([leader, *workers]))[1:] == ["b-0", "b-1"]


ADDED = Selection(node_selector=(("pool", "mine"),), tolerations=(Toleration("gpu", "Exists", "", "NoSchedule"),))


def test_pods_that_are_yet_to_come_get_what_the_api_server_has_added_to_the_first() -> None:
    """A sidecar, the node selector of the namespace, a toleration: the template says nothing of it."""
    closed = [replace(one, taints=(Taint("gpu", "yes", "NoSchedule"),)) for one in cluster("b: 3x8")]
    mine = [replace(one, labels={**one.labels, "pool": "mine"}) for one in closed]
    script = Script(*cluster("a: 3x8"), *mine)
    told(script, owner(3, order=Order.ONE_BY_ONE))
    pods = [owned(number, selection=ADDED) for number in range(3)]
    for pod in pods:
        script.see(pod)
        script.run([pod])
    assert sorted(script.bound(pods)) == ["b-0", "b-1", "b-2"]


def test_room_is_kept_for_the_sidecars_of_workers_that_come_after_their_leader() -> None:
    seen = owner(3, order=Order.LEADER_FIRST, minimum=None)
    assert seen.podset is not None
    small = replace(seen.podset.template, requests=requests(0))
    template = replace(seen.podset.template, requests=requests(7))
    seen = replace(seen, podset=replace(seen.podset, template=template, leader=small))
    script = scripted(seen, owned(0, requests=requests(2), size=3, series="000000005"), nodes="a: 3x8")
    assert "0 of 3 nodes have room for" in script.message("statefulset-web")
    script.see(*cluster("b: 3x9"))
    assert script.planned(script.pods["uid-web-0"])


def test_a_member_that_is_made_again_finds_its_room_kept() -> None:
    pods = [owned(number) for number in range(3)]
    script = scripted(owner(3, order=Order.ONE_BY_ONE), *pods, nodes="a: 3x8")
    script.run(pods)
    script.gone(script.pods[pods[2].uid])
    assert free(script) == []
    again = replace(pods[2], uid="again")
    script.see(again)
    script.run([again])
    assert len(script.bound([*pods[:2], again])) == 3


@pytest.mark.parametrize("pinned", [(), ("a-0", "a-1", "a-2")])
def test_one_that_waits_gets_the_room_of_a_later_one(pinned: tuple[str, ...]) -> None:
    """The later one comes only when this one runs: else both would wait for ever. It may have been pinned before."""
    pin = Selection(affinity=((Requirement(HOSTNAME, "In", pinned),),)) if pinned else Selection()
    pods = [owned(number) for number in range(3)]
    script = scripted(owner(3, order=Order.ONE_BY_ONE), pods[0], nodes="a: 3x8")
    for pod in pods[:2]:
        script.see(pod)
        script.run([pod])
    script.drop(script.bound(pods[:1])[0])
    script.gone(script.pods[pods[0].uid])
    again = replace(pods[0], uid="again", created=9.0, selection=pin)
    script.see(again)
    script.run([again])
    assert len(script.bound([pods[1], again])) == 2
    assert script.reason("statefulset-web") == "Running"


@pytest.mark.parametrize("order", [Order.ONE_BY_ONE, Order.LEADER_FIRST])
def test_room_that_is_no_more_is_not_kept(order: Order) -> None:
    """A node of pods that are yet to come loses a GPU, and then they have another one."""
    seen = owner(2, order=order, minimum=None)
    pods = [owned(number, gang="statefulset-web-5", size=2, series="000000005") for number in range(2)]
    script = scripted(seen, pods[0], nodes="a: 2x8")
    script.run(pods[:1])
    (kept,) = {"a-0", "a-1"} - set(script.bound(pods[:1]))
    node = script.core.state.claims.nodes[kept]
    script.see(replace(node, allocatable=requests(7)))
    script.see(pods[1])
    assert script.planned(pods[1]) == ""
    script.see(*cluster("b: 1x8"))
    script.run(pods[1:])
    assert script.bound(pods[1:]) == ["b-0"]


def test_room_that_others_take_while_one_is_being_bound_is_not_kept() -> None:
    """A worker that comes then is not led to the node that was kept for it: it would be pinned there for ever."""
    pods = [owned(number, size=3, series="000000005") for number in range(3)]
    script = scripted(owner(3, order=Order.LEADER_FIRST, minimum=None), pods[0], nodes="a: 3x8")
    script.run(pods[:1])
    script.see(pods[1])
    script.bind(pods[1])
    (kept,) = {"a-0", "a-1", "a-2"} - {*script.bound(pods[:1]), script.planned(pods[1])}
    script.see(Pod("uid-foreign", "default", "foreign", requests(8), scheduler="other", node=kept))
    script.see(pods[2])
    assert script.planned(pods[2]) == ""
    script.post_all()
    script.see(*cluster("b: 1x8"))
    script.run(pods[2:])
    assert script.bound(pods[2:]) == ["b-0"]


def test_after_a_restart_the_room_of_those_that_come_later_is_kept_before_anybody_else_is_planned() -> None:
    pods = [owned(number) for number in range(3)]
    script = scripted(owner(3, order=Order.ONE_BY_ONE), pods[0], nodes="a: 3x8")
    script.run(pods[:1])
    rivals = gang("rival", 2, gpus=8, priority=10)
    script.see(*rivals)
    assert script.reason("rival") == "NoRoom"
    after = Script(*script.core.state.claims.nodes.values(), *script.pods.values(), synced=False)
    after.feed(OwnerSeen(owner(3, order=Order.ONE_BY_ONE)))
    after.feed_synced()
    assert after.reason("rival") == "NoRoom"
    for pod in pods[1:]:
        after.see(pod)
        after.run([pod])
    assert len(after.bound(pods)) == 3


def test_scaled_down_it_gives_the_room_of_the_others_back() -> None:
    pods = [owned(number) for number in range(3)]
    script = scripted(owner(3, order=Order.ONE_BY_ONE), pods[0], nodes="a: 3x8")
    script.run(pods[:1])
    told(script, owner(1, order=Order.ONE_BY_ONE))
    assert len(free(script)) == 2


def test_nothing_is_kept_when_no_pod_of_it_is_left() -> None:
    pods = [owned(number) for number in range(3)]
    script = scripted(owner(3, order=Order.ONE_BY_ONE), pods[0], nodes="a: 3x8")
    script.gone(pods[0])
    assert len(free(script)) == 3


def test_ordinals_may_begin_anywhere() -> None:
    seen = owner(5, order=Order.ONE_BY_ONE)
    assert seen.podset is not None
    seen = replace(seen, minimum=2, podset=replace(seen.podset, left_out=frozenset(range(3)), minimum=2))
    pods = [owned(number) for number in (3, 4)]
    script = scripted(seen, pods[0], nodes="a: 2x8")
    script.run(pods[:1])
    script.see(pods[1])
    script.run(pods[1:])
    assert sorted(script.bound(pods)) == ["a-0", "a-1"]


def test_a_rollout_in_order_goes_on_member_by_member() -> None:
    """The highest one first, each when the one after it runs; the template asks for less by now."""
    pods = [owned(number) for number in range(3)]
    script = scripted(owner(3, order=Order.ONE_BY_ONE), *pods, nodes="a: 3x8")
    script.run(pods)
    smaller = owner(3, order=Order.ONE_BY_ONE)
    assert smaller.podset is not None
    template = replace(smaller.podset.template, requests=requests(4))
    told(script, replace(smaller, podset=replace(smaller.podset, template=template)))
    for pod in reversed(pods):
        script.gone(script.pods[pod.uid])
        again = replace(pod, uid=f"{pod.uid}-again", requests=requests(4))
        script.see(again)
        script.run([again])
        assert len(script.bound([again])) == 1
    script.advance(300)
    assert (script.reason("statefulset-web"), script.evicted) == ("Running", [])
