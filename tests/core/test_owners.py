"""Gangs by their owner: a StatefulSet, a Deployment or a group of a LeaderWorkerSet, whose pods state no size.

Where an owner creates its pods one after the other, room is kept for the later ones.
"""

from __future__ import annotations

from dataclasses import replace

import pytest

from extender.core.events import OwnerGone, OwnerSeen
from policies.model import (
    GANG_GATE,
    HOSTNAME,
    GangOwner,
    Order,
    Pod,
    Requirement,
    Selection,
    Taint,
    Toleration,
)
from tests.builders import cluster, gang, key, requests
from tests.core.owned import SET, free, moved, owned, owner, scripted, told
from tests.core.queues import cluster_queue, flavor, show, used
from tests.core.script import Script
from tests.explaining import explain


@pytest.mark.parametrize("first", ["owner", "pods"])
def test_as_many_start_together_as_their_owner_wants(first: str) -> None:
    pods = [owned(number) for number in range(3)]
    script = Script(*cluster("a: 2x8", "b: 3x8"))
    if first == "owner":
        told(script, owner(3))
    script.see(*pods[:2])
    if first == "pods":
        assert script.reason("statefulset-web") == "MinMemberMissing"
        told(script, owner(3))
    assert script.message("statefulset-web") == "2 of 3 members exist"
    assert len(explain(script.core.state, script.gang("statefulset-web"), script.now).remedies) == 1
    script.see(pods[2])
    script.run(pods)
    assert sorted(script.bound(pods)) == ["b-0", "b-1", "b-2"]


def test_one_whose_owner_is_not_seen_waits_with_that_reason() -> None:
    script = Script(*cluster("a: 4x8"), owned(0))
    assert script.reason("statefulset-web") == "MinMemberMissing"
    assert "statefulset-web" in script.message("statefulset-web")


def test_what_runs_goes_on_when_its_owner_is_gone_or_no_longer_asks_for_it() -> None:
    pods = [owned(number) for number in range(2)]
    script = scripted(owner(2), *pods)
    script.run(pods)
    script.feed(OwnerGone(key("statefulset-web"), "another"))
    script.feed(OwnerGone(key("statefulset-web"), SET.uid))
    script.advance(300)
    assert script.reason("statefulset-web") == "Running"
    assert not script.evicted


def test_a_larger_one_goes_on_and_new_members_join_one_by_one_in_its_clique() -> None:
    pods = [owned(number) for number in range(4)]
    script = scripted(owner(2), *pods[:2], nodes="a: 3x8")
    script.see(*cluster("b: 4x8"))
    script.run(pods[:2])
    assert sorted(script.bound(pods[:2])) == ["a-0", "a-1"]
    told(script, owner(4))
    assert script.reason("statefulset-web") == "Running"
    for pod in pods[2:]:
        script.see(pod)
        script.run([pod])
    assert script.bound(pods)[2] == "a-2"
    assert len(script.bound(pods)) == 4
    script.advance(300)
    assert not script.evicted


def test_a_larger_one_that_waits_needs_all_that_its_owner_wants_by_then() -> None:
    pods = [owned(number) for number in range(4)]
    script = scripted(owner(2), *pods[:2], nodes="a: 1x8")
    assert script.reason("statefulset-web") == "NoRoom"
    told(script, owner(4))
    script.see(*cluster("b: 2x8"))
    assert script.reason("statefulset-web") == "MembersMissing"
    script.see(*pods[2:])
    assert script.reason("statefulset-web") == "NoRoom"
    script.see(*cluster("c: 4x8"))
    script.run(pods)
    assert len(script.bound(pods)) == 4


def test_a_smaller_one_starts_with_what_it_wants_by_then() -> None:
    pods = [owned(number) for number in range(3)]
    script = scripted(owner(3), *pods, nodes="a: 2x8")
    assert script.reason("statefulset-web") == "NoRoom"
    script.gone(pods[2])
    told(script, owner(2))
    script.run(pods[:2])
    assert len(script.bound(pods[:2])) == 2


def test_scaled_to_nothing_and_back_it_starts_as_a_whole_again() -> None:
    pods = [owned(number) for number in range(2)]
    script = scripted(owner(2), *pods)
    script.run(pods)
    told(script, replace(owner(1), ends=True))
    script.gone(*(script.pods[pod.uid] for pod in pods))
    assert key("statefulset-web") not in script.core.state.workloads
    told(script, owner(3))
    again = [replace(owned(number), uid=f"again-{number}") for number in range(3)]
    script.see(*again[:2])
    assert script.reason("statefulset-web") == "MembersMissing"
    script.see(again[2])
    script.run(again)
    assert len(script.bound(again)) == 3


def test_a_member_that_is_made_again_goes_back_without_a_quorum() -> None:
    pods = [owned(number) for number in range(3)]
    script = scripted(owner(3), *pods)
    script.run(pods)
    again = moved(script, pods[1])
    script.run([again])
    assert len(script.bound([again])) == 1


def test_another_replica_set_of_a_deployment_joins_the_gang_that_runs() -> None:
    """maxSurge: 1. All nodes but one are taken, so each new pod needs the room of an old one in the end."""
    pods = [owned(number, index=None, owner="uid-rs-1") for number in range(3)]
    script = scripted(owner(3), *pods)
    script.run(pods)
    for number, pod in enumerate(pods):
        new = replace(pod, uid=f"new-{number}", name=f"new-{number}", owner="uid-rs-2", created=9.0, priority=1)
        script.see(new)
        script.run([new])
        assert script.bound([new])
        script.gone(script.pods[pod.uid])
    assert script.core.state.pods["new-0"].owner == SET.uid
    script.advance(300)
    assert script.reason("statefulset-web") == "Running"


def test_what_cannot_be_read_of_the_owner_is_the_reason() -> None:
    script = scripted(owner(1, problem="it is a riddle"), owned(0))
    assert script.reason("statefulset-web") == "InvalidPodGroup"
    assert script.message("statefulset-web") == "pod web-0: it is a riddle"
    told(script, owner(1))
    assert script.reason("statefulset-web") == "Placed"


def test_a_gang_is_in_the_queue_that_its_owner_names() -> None:
    """The pods name none. A gang that runs stays in the queue by which it came."""
    script = Script(*cluster("a: 4x8"))
    show(script, flavor("gpus"), cluster_queue("team", {"gpus": 8}), cluster_queue("other", {"gpus": 32}))
    told(script, owner(2, queue="team"))
    pods = [owned(number) for number in range(2)]
    script.see(*pods)
    script.advance(0.5)
    assert script.reason("statefulset-web") == "NoQuota"
    told(script, owner(2, queue="other"))
    script.run(pods)
    assert (len(script.bound(pods)), used(script, "other"), used(script, "team")) == (2, 16, 0)
    told(script, owner(2, queue="team"))
    assert (used(script, "other"), used(script, "team")) == (16, 0)


def test_the_queue_that_pods_name_goes_before_that_of_their_owner() -> None:
    script = Script(*cluster("a: 4x8"))
    show(script, flavor("gpus"), cluster_queue("team", {"gpus": 8}), cluster_queue("other", {"gpus": 32}))
    told(script, owner(2, queue="team"))
    pods = [owned(number, queue="other") for number in range(2)]
    script.see(*pods)
    script.run(pods)
    assert used(script, "other") == 16


def test_events_are_about_the_owner() -> None:
    script = scripted(owner(2), owned(0, controller=SET._replace(kind="ReplicaSet", uid="uid-rs")))
    member = script.core.state.pods["uid-web-0"]
    assert member.controller == SET


def test_each_group_is_a_gang_of_its_own_and_says_its_size() -> None:
    groups = [
        [owned(2 * at + n, gang=f"lws-{at}", by="lws", size=2, index=n, series=f"{at}") for n in range(2)]
        for at in range(2)
    ]
    script = Script(*cluster("a: 3x8"), *groups[0], *groups[1])
    told(script, GangOwner(key("lws"), SET))
    script.run(groups[0])
    assert len(script.bound(groups[0])) == 2
    assert script.reason("lws-1") == "NoRoom"
    assert script.gang("lws-0").min_member == script.gang("lws-1").min_member == 2


def test_nothing_is_remembered_of_gangs_that_are_gone() -> None:
    pods = [owned(number, gang=f"lws-{number}", by=f"lws-{number % 2}", size=1) for number in range(4)]
    script = Script(*cluster("a: 4x8"), *pods)
    script.gone(*pods)
    owners = script.core._apply._owners
    assert (owners._gangs, owners._owner_of) == ({}, {})


# Pods that a controller makes in order.


def test_the_first_starts_when_all_have_room_and_the_others_come_into_theirs() -> None:
    pods = [owned(number) for number in range(4)]
    script = scripted(owner(4, order=Order.ONE_BY_ONE), pods[0], nodes="a: 3x8")
    assert (script.reason("statefulset-web"), script.planned(pods[0])) == ("NoRoom", "")
    script.see(*cluster("b: 4x8"))
    assert script.planned(pods[0]).startswith("b-")
    script.run(pods[:1])
    assert len(script.bound(pods[:1])) == 1
    # The room of future pods is closed to all others.
    assert free(script) == ["a-0", "a-1", "a-2"]
    for pod in pods[1:]:
        script.see(pod)
        script.run([pod])
    assert sorted(script.bound(pods)) == ["b-0", "b-1", "b-2", "b-3"]
    script.advance(300)
    assert not script.evicted


def test_gates_of_others_are_taken_off_pod_by_pod() -> None:
    """The gates are in the template, so future pods will have them, too."""
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


def test_no_room_is_kept_for_workers_whose_leader_finds_none() -> None:
    """Two of four are enough to start, but workers come only after their leader."""
    seen = owner(4, order=Order.LEADER_FIRST, minimum=2)
    assert seen.podset is not None
    elsewhere = Selection(node_selector=(("pool", "of-leaders"),))
    leader = replace(seen.podset.template, selection=elsewhere)
    seen = replace(seen, podset=replace(seen.podset, minimum=2, leader=leader))
    script = scripted(seen, owned(0, selection=elsewhere, size=4, series="000000005"), nodes="a: 3x8")
    assert script.reason("statefulset-web") == "NoRoom"
    assert free(script) == ["a-0", "a-1", "a-2"]
    script.see(*(replace(node, labels={**node.labels, "pool": "of-leaders"}) for node in cluster("b: 1x8")))
    assert script.planned(script.pods["uid-web-0"]) == "b-0"
    assert free(script) == []


ADDED = Selection(node_selector=(("pool", "mine"),), tolerations=(Toleration("gpu", "Exists", "", "NoSchedule"),))


def test_pods_that_are_yet_to_come_get_what_the_api_server_has_added_to_the_first() -> None:
    """A sidecar, the node selector of the namespace, a toleration: the template says nothing of it."""
    closed = [replace(node, taints=(Taint("gpu", "yes", "NoSchedule"),)) for node in cluster("b: 3x8")]
    mine = [replace(node, labels={**node.labels, "pool": "mine"}) for node in closed]
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
    """The later pod comes only when this one runs: otherwise neither would ever start.

    It may have been pinned before.
    """
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


@pytest.mark.parametrize("order", [Order.ONE_BY_ONE, Order.LEADER_FIRST])
def test_what_is_lost_of_kept_room_is_found_again_pod_by_pod(order: Order) -> None:
    """Three of six had to find room before the first one could start; then the nodes of two lose a GPU each."""
    seen = owner(6, order=order, minimum=3)
    assert seen.podset is not None
    pods = [owned(number) for number in range(2)]
    script = scripted(replace(seen, podset=replace(seen.podset, minimum=3)), pods[0], nodes="a: 3x8")
    script.run(pods[:1])
    for name in {"a-0", "a-1", "a-2"} - set(script.bound(pods[:1])):
        script.see(replace(script.core.state.claims.nodes[name], allocatable=requests(7)))
    script.see(pods[1])
    assert script.planned(pods[1]) == ""
    script.see(*cluster("b: 1x8"))
    script.run(pods[1:])
    assert script.bound(pods[1:]) == ["b-0"]


def test_room_that_others_take_while_one_is_being_bound_is_not_kept() -> None:
    """A worker that comes then is not steered to its reserved node, where a pin would keep it permanently."""
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
    """The highest member comes first, each when the one after it runs; the template requests less now."""
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
