"""Gangs by their owner: a StatefulSet, a Deployment or a group of a LeaderWorkerSet, whose pods say no size."""

from __future__ import annotations

from dataclasses import replace

import pytest

from extender.core.events import OwnerGone
from extender.observe.explain.explanation import explain
from policies.model import (
    GangOwner,
)
from tests.builders import cluster, key
from tests.core.owned import SET, moved, owned, owner, scripted, told
from tests.core.queues import cluster_queue, flavor, show, used
from tests.core.script import Script


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
    told(script, owner(1))
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
