"""Room is taken while a release is under way: the others are bound, and a member without a node is replanned."""

from __future__ import annotations

import pytest

from extender.core.answers import Outcome
from policies.model import Pod
from tests.builders import cluster, gang, single
from tests.core.jobs import Controlled, job
from tests.core.levels import IN_CLIQUE, asking, homes
from tests.core.script import Script, stamp_of


def last_of(script: Script, pods: list[Pod]) -> Pod:
    """The member that is bound when all others are."""
    (last,) = [pod for pod in pods if pod.uid not in script.bindings]
    return last


def bound_early(script: Script, pod: Pod, node: str, *, ours: bool = True) -> None:
    """A Binding that an earlier leader had sent is written before ours, or that of another scheduler."""
    script.change(pod, node=node, stamp=stamp_of(script.bindings[pod.uid]) if ours else None)
    script.post(script.pods[pod.uid], Outcome.REFUSED)


def test_the_last_member_is_not_bound_where_another_scheduler_has_taken_its_room() -> None:
    pods = gang("train", 3)
    script = Script(*cluster("a: 4x8"), *pods)
    calls = dict(zip([pod.uid for pod in pods], script.bind_all(pods), strict=True))
    last = last_of(script, pods)
    room = script.planned(last)
    script.see(single("thief", gpus=8, scheduler="other", node=room))
    script.post_all()
    script.advance(1)
    assert script.answers[calls[last.uid]] == f"node {room} has been filled by other pods"
    assert script.planned(last) not in ("", room)
    script.run([last])
    assert script.reason("train") == "Running"


def test_the_last_member_is_not_bound_where_an_earlier_leader_has_bound_another_one() -> None:
    pods = gang("train", 3)
    script = Script(*cluster("a: 4x8"), *pods)
    script.bind_all(pods)
    last = last_of(script, pods)
    other = next(pod for pod in pods if pod is not last)
    bound_early(script, other, script.planned(last))
    script.post_all()
    script.advance(1)
    script.run([last])
    assert len({*script.bound(pods)}) == 3
    assert script.reason("train") == "Running"


@pytest.mark.parametrize("ours", [False, True])
def test_the_last_member_follows_those_that_others_have_bound_in_another_domain(*, ours: bool) -> None:
    pods = asking(gang("train", 3), IN_CLIQUE)
    script = Script(*cluster("a: 3x8", "b: 3x8"), *pods)
    script.bind_all(pods)
    last = last_of(script, pods)
    there = "b" if homes(script, [last]) == "a" else "a"
    for number, pod in enumerate(pod for pod in pods if pod is not last):
        bound_early(script, pod, f"{there}-{number}", ours=ours)
    script.advance(1)
    script.run([last])
    assert homes(script, pods) == f"{there} {there} {there}"


@pytest.mark.parametrize("taken", [False, True])
def test_a_member_beyond_the_quorum_that_comes_during_the_release_is_bound_only_where_it_has_room(
    *, taken: bool
) -> None:
    pods = gang("train", 3, min_member=2)
    script = Script(*cluster("a: 4x8"), *pods)
    script.bind_all(pods[:2])
    room = script.planned(pods[2])
    if taken:
        script.see(single("thief", gpus=8, scheduler="other", node=room))
    script.bind(pods[2], room)
    assert (pods[2].uid in script.bindings) is not taken
    script.post_all()
    script.advance(1)
    if taken:
        assert script.planned(pods[2]) not in ("", room)
        script.run(pods[2:])
    assert len(script.bound(pods)) == 3


def test_a_job_whose_last_pod_has_lost_its_room_is_started_over() -> None:
    script = Script(*cluster("a: 4x8"))
    train = Controlled(script, job(3))
    pods = train.create()
    script.bind_all(pods)
    last = last_of(script, pods)
    script.see(single("thief", gpus=8, scheduler="other", node=script.planned(last)))
    script.post_all()
    train.wait(2)
    assert train.stops
    train.delete()
    train.wait(2)
    train.show(stopped=True)
    train.wait(5)
    assert len(train.starts) == 2
    train.run()
    assert script.reason("job") == "Running"


def test_a_node_that_is_gone_shuts_nobody_out_of_the_required_domain() -> None:
    pods = asking(gang("train", 3), IN_CLIQUE)
    script = Script(*cluster("a: 4x8"), *pods)
    script.bind_all(pods)
    script.drop(script.planned(last_of(script, pods)))
    script.drop(next(iter(script.bindings.values())).node)
    script.post_all()
    assert len(script.bound(pods)) == 3
