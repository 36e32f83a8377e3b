"""The queue: whole gangs only, in policy order, and a reason with numbers for every gang that waits."""

from __future__ import annotations

import itertools

from extender.core.effects import Nominate
from tests.builders import cluster, gang, node, reborn, requests
from tests.core.script import Script


def test_two_gangs_that_cannot_run_together_start_one_after_the_other_whatever_the_order_of_arrival() -> None:
    first, second = gang("one", 2, created=1), gang("two", 2, created=2)
    for order in itertools.permutations(first + second):
        script = Script(*cluster("a: 2x8"))
        for pod in order:
            script.see(pod)
        planned = {pod.name.split("-")[0] for pod in order if script.planned(pod)}
        assert len(planned) == 1, "one gang has everything, the other nothing"


def test_every_member_is_nominated_when_the_gang_is_planned() -> None:
    pods = gang("train", 4)
    script = Script(*cluster("a: 4x8"), *pods)
    nominated = {effect.uid: effect.node for effect in script.effects if isinstance(effect, Nominate)}
    assert nominated == {pod.uid: script.planned(pod) for pod in pods}
    assert len(set(nominated.values())) == 4


def test_nobody_is_nominated_before_min_member_pods_exist() -> None:
    pods = gang("train", 4)
    script = Script(*cluster("a: 4x8"), *pods[:3])
    script.advance(5)
    assert not [effect for effect in script.effects if isinstance(effect, Nominate)]
    assert script.reason("train") == "MembersMissing"
    assert script.message("train") == "3 of 4 members exist"
    script.see(pods[3])
    assert all(script.planned(pod) for pod in pods)


def test_a_gang_without_room_says_how_many_nodes_have_room_for_its_members() -> None:
    pods = gang("big", 4)
    script = Script(*cluster("a: 3x8", "b: 2x4"), *pods)
    assert script.reason("big") == "NoRoom"
    assert script.message("big").startswith("3 of 4 members fit at once: 3 of 5 nodes have room for")
    assert "8 nvidia.com/gpu" in script.message("big")


def test_a_gang_without_room_does_not_block_a_smaller_one_behind_it() -> None:
    big, small = gang("big", 4, created=1), gang("small", 1, created=2)
    script = Script(*cluster("a: 2x8"), *big, *small)
    assert script.planned(small[0])


def test_higher_priority_goes_first_then_the_older_gang() -> None:
    old, new, urgent = gang("old", 2, created=1), gang("new", 2, created=2), gang("urgent", 2, created=3, priority=9)
    script = Script(*new, *old, *urgent)
    script.see(*cluster("a: 2x8"))
    assert script.planned(urgent[0])
    script.see(*cluster("b: 2x8"))
    assert script.planned(old[0])
    assert not script.planned(new[0])


def test_room_that_becomes_free_lets_the_next_gang_start() -> None:
    first, second = gang("one", 2, created=1), gang("two", 2, created=2)
    script = Script(*cluster("a: 2x8"), *first, *second)
    script.run(first)
    for pod in first:
        script.change(pod, phase="Succeeded")
    assert all(script.planned(pod) for pod in second)


def test_room_of_a_pod_that_is_being_deleted_is_not_free_yet() -> None:
    first, second = gang("one", 1, created=1), gang("two", 1, created=2)
    script = Script(*cluster("a: 1x8"), *first, *second)
    script.run(first)
    script.change(first[0], deleting=True)
    assert not script.planned(second[0])
    script.gone(script.pods[first[0].uid])
    assert script.planned(second[0])


def test_room_freed_because_a_planned_pod_was_bound_elsewhere_is_noticed() -> None:
    pods, other = gang("train", 1, gpus=4, created=1), gang("other", 1, created=2)
    script = Script(node("a"), *pods, *other)
    assert script.planned(pods[0]) == "a"
    script.see(node("b", gpus=4))
    script.change(pods[0], node="b")
    assert script.planned(other[0]) == "a"


def test_a_cordoned_or_lost_node_is_not_planned_on() -> None:
    pods = gang("train", 1)
    script = Script(node("a", unschedulable=True), node("b", ready=False), *pods)
    assert script.reason("train") == "NoRoom"
    assert "1 node is not ready (b); 1 node is cordoned (a)" in script.message("train")
    script.see(node("a"))
    assert script.planned(pods[0]) == "a"


def test_a_node_cordoned_after_the_plan_makes_the_gang_move() -> None:
    pods = gang("train", 2)
    script = Script(*cluster("a: 3x8"), *pods)
    script.see(node("a-0", clique="a", unschedulable=True))
    assert sorted(script.planned(pod) for pod in pods) == ["a-1", "a-2"]


def test_a_pod_of_higher_priority_that_takes_planned_room_makes_the_gang_wait() -> None:
    pods = gang("train", 2)
    script = Script(*cluster("a: 2x8"), *pods)
    call = script.bind(pods[0])
    thief = gang("thief", 1, scheduler="other", node=script.planned(pods[1]))[0]
    script.see(thief)
    assert "taken" in script.answers[call]
    assert not any(script.planned(pod) for pod in pods)
    assert script.reason("train") == "NoRoom"


def test_when_planned_room_is_taken_the_older_promise_stands() -> None:
    old, new = gang("old", 1, gpus=4, created=1), gang("new", 1, gpus=4, created=2)
    script = Script(node("a"), *old, *new)
    script.see(gang("thief", 1, gpus=4, scheduler="other", node="a"))
    assert script.planned(old[0]) == "a"
    assert not script.planned(new[0])


def test_a_gang_is_not_planned_into_the_room_of_another() -> None:
    pods, other = gang("one", 2, created=1), gang("two", 1, created=2)
    script = Script(*cluster("a: 2x8"), *pods, *other)
    assert not script.planned(other[0])
    assert script.message("two").startswith("0 of 1 members fit at once: 0 of 2 nodes have room")


def test_members_beyond_the_quorum_are_planned_when_there_is_room() -> None:
    pods = gang("elastic", 3, min_member=2)
    script = Script(*cluster("a: 2x8"), *pods)
    assert sum(bool(script.planned(pod)) for pod in pods) == 2
    script.run([pod for pod in pods if script.planned(pod)])
    assert script.reason("elastic") == "Running"
    script.see(*cluster("b: 1x8"))
    assert "b-0" in [script.planned(pod) for pod in pods]


def test_two_pods_with_one_completion_index_count_once() -> None:
    pods = gang("train", 2)
    twin = reborn(pods[0])
    script = Script(*cluster("a: 3x8"), pods[0], twin)
    assert script.message("train") == "1 of 2 members exist"


def test_a_gang_without_gpus_starts_where_another_resource_is_overcommitted() -> None:
    """A GPU broke: the node reports fewer than are in use. That is no reason against a pod that wants none."""
    running, launcher = gang("running", 1), gang("launcher", 1, gpus=0)
    script = Script(node("a"), *running)
    script.run(running)
    script.see(node("a", gpus=7))
    script.see(launcher)
    script.run(launcher)
    assert script.bound(launcher) == ["a"]


def test_a_foreign_gang_is_left_alone() -> None:
    pods = gang("foreign", 4, scheduler="volcano")
    script = Script(*cluster("a: 4x8"), *pods)
    script.change(pods[0], node="a-0")
    script.advance(300)
    assert not script.effects


def test_a_changed_request_of_the_cluster_is_seen_in_the_reason() -> None:
    pods = gang("big", 2)
    script = Script(*cluster("a: 1x8"), *pods)
    assert "1 of 1 nodes" in script.message("big")
    script.see(*cluster("b: 1x4"))
    assert "1 of 2 nodes" in script.message("big")


def test_a_resource_that_no_node_offers_is_no_room() -> None:
    pods = gang("odd", 1, requests=(("example.com/fpga", 1), ("pods", 1)))
    script = Script(*cluster("a: 1x8"), *pods)
    assert script.message("odd").startswith("0 of 1 members fit at once: 0 of 1 nodes have room for 1 example.com/fpga")
    assert requests(1) != pods[0].requests
