"""The permit gate: binds are held until the gang is there, released together or failed together."""

from __future__ import annotations

import pytest

from extender.core.answers import Outcome
from extender.core.gate.stamps import NODE, RELEASE, RELEASE_COMPLETE
from extender.core.limits import Limits
from tests.builders import cluster, gang
from tests.core.script import Script


def test_nothing_is_bound_until_the_last_member_of_the_quorum_has_arrived() -> None:
    pods = gang("train", 4)
    script = Script(*cluster("a: 4x8"), *pods)
    calls = script.bind_all(pods[:3])
    assert not script.bindings
    assert not script.answers
    assert script.reason("train") == "Holding"
    calls.append(script.bind(pods[3]))
    script.post_all()
    assert len(set(script.bound(pods))) == 4
    assert script.answers == dict.fromkeys(calls, "")
    assert script.reason("train") == "Running"


@pytest.mark.parametrize("last", range(4))
def test_the_order_of_arrival_does_not_matter(last: int) -> None:
    pods = gang("train", 4)
    script = Script(*cluster("a: 4x8"), *pods)
    script.bind_all(pods[last + 1 :] + pods[: last + 1])
    script.post_all()
    assert len(script.bound(pods)) == 4


def test_the_last_binding_waits_for_the_others_and_says_that_the_release_is_whole() -> None:
    pods = gang("train", 3)
    script = Script(*cluster("a: 3x8"), *pods)
    script.bind_all(pods)
    first = dict(script.bindings)
    assert len(first) == 2
    assert not any(RELEASE_COMPLETE in binding.annotations for binding in first.values())
    for uid in first:
        script.post(script.pods[uid])
    (last,) = script.bindings.values()
    assert last.annotations[RELEASE_COMPLETE] == "true"
    stamps = [*first.values(), last]
    assert len({binding.annotations[RELEASE] for binding in stamps}) == 1
    assert all(binding.annotations[NODE] == binding.node for binding in stamps)


def test_a_gang_of_one_is_bound_at_once_and_whole() -> None:
    pods = gang("solo", 1)
    script = Script(*cluster("a: 1x8"), *pods)
    script.bind(pods[0])
    assert script.bindings[pods[0].uid].annotations[RELEASE_COMPLETE] == "true"
    script.post_all()
    assert script.reason("solo") == "Running"


def test_a_bind_to_another_node_than_the_planned_one_fails() -> None:
    pods = gang("train", 2)
    script = Script(*cluster("a: 3x8"), *pods)
    other = next(name for name in ("a-0", "a-1", "a-2") if name != script.planned(pods[0]))
    call = script.bind(pods[0], other)
    assert "no placement" in script.answers[call]
    assert not script.bindings


def test_a_newer_bind_request_replaces_the_one_that_is_held() -> None:
    pods = gang("train", 2)
    script = Script(*cluster("a: 2x8"), *pods)
    old, new = script.bind(pods[0]), script.bind(pods[0])
    assert "superseded" in script.answers[old]
    script.bind(pods[1])
    script.post_all()
    assert script.answers[new] == ""


def test_a_repeated_bind_of_a_bound_pod_succeeds_on_its_node_and_fails_elsewhere() -> None:
    pods = gang("train", 2)
    script = Script(*cluster("a: 2x8"), *pods)
    script.run(pods)
    (here,) = script.bound(pods[:1])
    assert script.answers[script.bind(pods[0], here)] == ""
    assert script.answers[script.bind(pods[0], "a-9")] == f"the pod is already on {here}"


def test_a_bind_that_overtakes_the_watch_waits_for_its_pod() -> None:
    pods = gang("train", 2)
    script = Script(*cluster("a: 2x8"), *pods)
    early = gang("late", 1, gpus=0)[0]
    call = script.bind(early, "a-0")
    assert call not in script.answers
    script.see(early)
    assert "no placement" in script.answers[call], "it is seen now, and was not planned when it was asked for"


def test_a_bind_whose_pod_never_shows_up_is_answered_with_an_error() -> None:
    script = Script(*cluster("a: 1x8"))
    call = script.bind(gang("ghost", 1)[0], "a-0")
    script.advance(5)
    assert "not seen" in script.answers[call]


def test_a_bind_before_the_lists_are_read_is_answered_with_an_error() -> None:
    pods = gang("train", 1)
    script = Script(*cluster("a: 1x8"), *pods, synced=False)
    assert "starting" in script.answers[script.bind(pods[0], "a-0")]


def test_a_disconnect_cancels_the_hold_and_the_pod_may_come_back() -> None:
    pods = gang("train", 2)
    script = Script(*cluster("a: 2x8"), *pods)
    first = script.bind(pods[0])
    script.disconnect(first)
    script.bind(pods[1])
    assert not script.bindings, "the first member is not there any more"
    script.bind(pods[0])
    script.post_all()
    assert len(script.bound(pods)) == 2
    assert first not in script.answers


def test_a_member_deleted_while_held_fails_the_held_binds_and_frees_the_room() -> None:
    pods, other = gang("train", 2), gang("other", 2)
    script = Script(*cluster("a: 2x8"), *pods)
    script.see(other)
    assert script.reason("other") == "NoRoom"
    call = script.bind(pods[0])
    script.gone(pods[1])
    assert "deleted" in script.answers[call]
    assert all(script.planned(pod) for pod in other)
    assert script.reason("train") == "MembersMissing"


def test_a_node_lost_while_binds_are_held_fails_them_and_the_gang_is_planned_anew() -> None:
    pods = gang("train", 2)
    nodes = cluster("a: 3x8")
    script = Script(*nodes, *pods)
    call = script.bind(pods[0])
    script.drop(script.planned(pods[0]))
    assert "gone" in script.answers[call]
    assert sorted(script.planned(pod) for pod in pods) == ["a-1", "a-2"]
    script.run(pods)
    assert sorted(script.bound(pods)) == ["a-1", "a-2"]


def test_when_no_binding_of_a_release_is_accepted_the_gang_starts_over() -> None:
    pods = gang("train", 3)
    script = Script(*cluster("a: 3x8"), *pods)
    calls = script.bind_all(pods)
    for uid in list(script.bindings):
        script.post(script.pods[uid], Outcome.REFUSED)
    assert not script.bindings
    assert all(script.answers[call] for call in calls)
    script.advance(5)
    script.run(pods)
    assert len(script.bound(pods)) == 3


def test_more_members_than_the_quorum_are_bound_as_they_arrive() -> None:
    pods = gang("elastic", 4, min_member=2)
    script = Script(*cluster("a: 4x8"), *pods)
    script.run(pods[:2])
    assert len(script.bound(pods)) == 2
    assert script.reason("elastic") == "Running"
    script.run(pods[2:3])
    assert len(script.bound(pods)) == 3


def test_a_binding_is_never_asked_for_twice_at_once() -> None:
    pods = gang("train", 2)
    script = Script(*cluster("a: 2x8"), *pods)
    script.bind_all(pods)
    again = script.bind(pods[0])
    script.post_all()
    assert script.answers[again] == ""


def test_calls_that_came_too_late_to_be_posted_in_time_fail_and_the_gang_is_tried_again() -> None:
    pods = gang("train", 2)
    script = Script(*cluster("a: 2x8"), *pods, limits=Limits(post_margin_s=2.0))
    first = script.bind(pods[0], expires_s=3.0)
    script.advance(0.9)
    second = script.bind(pods[1], expires_s=2.0)
    assert script.answers[first]
    assert script.answers[second]
    script.advance(5)
    script.run(pods)
    assert len(script.bound(pods)) == 2
