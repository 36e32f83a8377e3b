"""Gangs on the real kube-scheduler: all members or none, whatever the order in which pods arrive."""

from __future__ import annotations

import pytest

from tests.integration.stage import Stage, bound, interleaved

pytestmark = pytest.mark.xdist_group("gangs")


def test_interleaved_gangs_end_with_as_many_whole_gangs_as_fit_and_no_partial_one(stage: Stage) -> None:
    """12 gangs of 8 whole-node pods on 32 nodes, created in the worst order: 4 start, 8 hold nothing."""
    stage.add_nodes(32)
    gangs = [stage.gang(f"job{n:02}", 8) for n in range(12)]
    stage.create(*interleaved(gangs))
    names = [f"job{n:02}" for n in range(12)]

    stage.wait(lambda pods: sum(len(bound(pods, gang)) == 8 for gang in names) == 4)
    stage.wait_at_rest()

    counts = {gang: len(bound(stage.pods(), gang)) for gang in names}
    assert sorted(counts.values()) == [0] * 8 + [8] * 4, counts
    waiting = [gang for gang in names if counts[gang] == 0]
    for gang in waiting:
        assert stage.explain(gang)["state"] == "NoRoom", stage.explain(gang)
    # Room that becomes free starts the next one, whole.
    running = [gang for gang in names if counts[gang] == 8]
    stage.delete(*[f"{running[0]}-{i}" for i in range(8)])
    stage.wait(lambda pods: sum(len(bound(pods, gang)) == 8 for gang in waiting) == 1)


def test_two_gangs_that_each_fit_alone_never_hold_half_the_cluster_each(stage: Stage) -> None:
    stage.add_nodes(4)
    stage.create(*interleaved([stage.gang("a", 4), stage.gang("b", 4)]))
    stage.wait(lambda pods: {len(bound(pods, "a")), len(bound(pods, "b"))} == {0, 4})
    stage.wait_at_rest()
    assert {len(bound(stage.pods(), "a")), len(bound(stage.pods(), "b"))} == {0, 4}


def test_a_gang_with_a_missing_member_binds_nobody_until_it_arrives(stage: Stage) -> None:
    stage.add_nodes(4)
    *most, last = stage.gang("train", 4)
    stage.create(*most)
    assert "3 of 4 members exist" in stage.wait_reason("train", "MembersMissing")
    assert bound(stage.pods(), "train") == []
    stage.create(last)
    stage.wait_bound("train", size=4, timeout_s=10)


def test_a_plain_pod_is_scheduled_beside_a_waiting_gang(stage: Stage) -> None:
    stage.add_nodes(2)
    stage.create(*stage.gang("big", 3))
    stage.wait_reason("big", "NoRoom")
    stage.create(stage.pod("plain", gpus=1))
    stage.wait_scheduled("plain")


def test_members_beyond_min_member_start_when_there_is_room(stage: Stage) -> None:
    stage.add_nodes(3)
    pods = [stage.pod(f"elastic-{i}", gang="elastic", size=2) for i in range(4)]
    stage.create(*pods)
    stage.wait_bound("elastic", size=3)
    stage.add_nodes(1)
    stage.wait_bound("elastic", size=4)


def test_a_replacement_of_a_running_gang_needs_no_new_quorum(stage: Stage) -> None:
    stage.add_nodes(4)
    stage.create(*stage.gang("train", 4))
    stage.wait_bound("train", size=4)
    stage.delete("train-2")
    stage.wait(lambda pods: len(pods) == 3)
    stage.create(stage.pod("train-2b", gang="train", size=4))
    stage.wait_bound("train", size=4, timeout_s=20)


def test_the_last_binding_says_that_the_release_is_whole(stage: Stage) -> None:
    stage.add_nodes(2)
    stage.create(*stage.gang("pair", 2))
    stage.wait_bound("pair", size=2)
    stamps = [pod["metadata"]["annotations"] for pod in stage.pods()]
    assert len({stamp["muster.dev/release"] for stamp in stamps}) == 1
    assert [stamp.get("muster.dev/release-complete") for stamp in stamps].count("true") == 1
    assert {stamp["muster.dev/node"] for stamp in stamps} == {pod["spec"]["nodeName"] for pod in stage.pods()}


def test_nothing_is_held_once_everything_has_started(stage: Stage) -> None:
    stage.add_nodes(8)
    stage.create(*interleaved([stage.gang("a", 4), stage.gang("b", 4)]))
    stage.wait_bound("a", "b", size=4)
    assert stage.held() == 0
