"""A release that breaks off: the rest is completed first, or the bound part is evicted; never held for ever."""

from __future__ import annotations

import pytest

from extender.core.answers import Outcome
from extender.core.limits import Limits
from tests.builders import cluster, gang, reborn, single
from tests.core.script import Script, stamp_of


def broken(*, free: str = "", limits: Limits | None = None) -> Script:
    """Gang "train" with 2 of 3 members bound; the third was refused by the API server."""
    script = Script(*cluster("a: 3x8", *([free] if free else [])), *gang("train", 3), limits=limits)
    script.bind_all(gang("train", 3))
    while script.bindings:
        uid = next(iter(script.bindings))
        script.post(script.pods[uid], Outcome.REFUSED if uid.endswith("2") else Outcome.DONE)
    script.advance(0.1)
    return script


def test_a_release_that_broke_off_is_completed_before_anybody_else_starts() -> None:
    script = broken()
    urgent = gang("urgent", 1, priority=100)
    script.see(urgent)
    assert not script.planned(urgent[0])
    script.run(gang("train", 3)[2:])
    assert len(script.bound(gang("train", 3))) == 3
    assert script.reason("train") == "Running"
    script.advance(300)
    assert not script.evicted


def test_a_release_that_stays_broken_has_its_bound_members_evicted() -> None:
    script = broken()
    script.advance(70)
    assert sorted(script.evicted) == ["train-0", "train-1"]


def test_eviction_can_be_switched_off() -> None:
    script = broken(limits=Limits(evict_partial=False))
    script.advance(300)
    assert not script.evicted


def test_an_evicted_gang_starts_again_as_a_whole() -> None:
    script = broken()
    script.advance(70)
    old = [script.pods[pod.uid] for pod in gang("train", 3)]
    script.gone(*old)
    fresh = [reborn(pod) for pod in old]
    script.see(fresh[:2])
    assert not script.planned(fresh[0]), "a new quorum is needed"
    script.see(fresh[2])
    script.run(fresh)
    assert len(script.bound(fresh)) == 3


def test_kept_room_is_free_again_when_the_gang_is_whole() -> None:
    script = broken()
    script.run(gang("train", 3)[2:])
    free = [name for name in ("a-0", "a-1", "a-2") if name not in script.bound(gang("train", 3))]
    assert not free
    state = script.core.state
    assert not any(claim.promised for _, claim in state.claims)


def test_a_gang_seen_whole_is_no_broken_release_whatever_is_lost_before_the_last_answer_comes() -> None:
    pods = gang("train", 2)
    script = Script(*cluster("a: 2x8"), *pods)
    script.bind_all(pods)
    script.post(script.pods[next(iter(script.bindings))])
    (last,) = script.bindings
    binding = script.bindings[last]
    script.change(script.pods[last], node=binding.node, stamp=stamp_of(binding))
    other = next(pod for pod in pods if pod.uid != last)
    script.change(script.pods[other.uid], phase="Failed")
    script.feed_outcome(last, Outcome.DONE)
    script.advance(300)
    assert not script.evicted
    assert script.reason("train") == "Running"


def test_a_member_deleted_while_its_binding_is_under_way_makes_no_phantom_room() -> None:
    for outcome in Outcome:
        pods = gang("train", 2)
        script = Script(*cluster("a: 2x8"), *pods)
        script.bind_all(pods)
        (uid,) = script.bindings
        script.gone(script.pods[uid])
        script.feed_outcome(uid, outcome)
        script.post_all()
        for pod in list(script.pods.values()):
            script.gone(pod)
        assert not len(script.core.state.claims)
        assert not script.core.state.workloads


@pytest.mark.parametrize(("least", "goes_on"), [(2, True), (3, False)])
def test_of_an_elastic_gang_enough_go_on_when_a_member_is_deleted_while_it_is_bound(least: int, goes_on: bool) -> None:
    pods = gang("train", 3, min_member=least)
    script = Script(*cluster("a: 3x8"), *pods)
    calls = script.bind_all(pods[:least])
    for uid in list(script.bindings):
        script.gone(script.pods[uid])
        script.feed_outcome(uid, Outcome.REFUSED)
    assert (calls[-1] not in script.answers) is goes_on
    if goes_on:
        script.run(pods[2:])
        assert len(script.bound(pods)) == 2
    else:
        assert "members were deleted" in script.answers[calls[-1]]


def test_a_binding_refused_because_the_pod_is_bound_already_takes_no_room_twice() -> None:
    pods = gang("train", 3)
    script = Script(*cluster("a: 3x8"), *pods)
    script.bind_all(pods)
    uid = next(iter(script.bindings))
    script.change(script.pods[uid], node="a-0" if script.bindings[uid].node != "a-0" else "a-1")
    script.feed_outcome(uid, Outcome.REFUSED)
    assert not script.gang("train").reserved


@pytest.mark.parametrize("written", [True, False])
def test_an_unknown_outcome_is_settled_by_the_watch_or_by_the_next_bind(written: bool) -> None:
    pods = gang("train", 2)
    script = Script(*cluster("a: 2x8"), *pods)
    script.bind_all(pods)
    (uid,) = script.bindings
    node, stamp = script.bindings[uid].node, stamp_of(script.bindings[uid])
    script.feed_outcome(uid, Outcome.UNKNOWN)
    other = gang("other", 1, priority=100)
    script.see(other)
    assert script.planned(other[0]) != node, "the room may be taken: it is nobody else's"
    script.gone(other[0])
    if written:
        script.change(script.pods[uid], node=node, stamp=stamp)
    script.advance(2)
    for pod in pods:
        if not script.bound([pod]) and pod.uid not in script.bindings and script.planned(pod):
            script.bind(pod)
    script.post_all()
    assert len(script.bound(pods)) == 2


def test_a_disconnect_of_the_last_bind_of_a_release_is_repaired_by_its_next_cycle() -> None:
    pods = gang("train", 3)
    script = Script(*cluster("a: 3x8"), *pods)
    calls = dict(zip([pod.uid for pod in pods], script.bind_all(pods), strict=True))
    final = next(pod for pod in pods if pod.uid not in script.bindings)
    script.disconnect(calls[final.uid])
    script.post_all()
    assert script.reason("train") == "Partial"
    script.run([final])
    assert script.reason("train") == "Running"


def test_a_last_member_that_comes_back_during_the_release_waits_for_the_others_again() -> None:
    pods = gang("train", 2)
    script = Script(*cluster("a: 2x8"), *pods)
    calls = dict(zip([pod.uid for pod in pods], script.bind_all(pods), strict=True))
    final = next(pod for pod in pods if pod.uid not in script.bindings)
    script.disconnect(calls[final.uid])
    script.bind(final)
    (first,) = script.bindings
    assert first != final.uid
    script.feed_outcome(first, Outcome.REFUSED)
    assert not script.bindings, "nothing of the gang is bound, so nothing is"


def test_a_running_gang_that_is_short_of_a_member_is_called_running_after_a_restart_too() -> None:
    pods = gang("train", 3)
    before = Script(*cluster("a: 3x8"), *pods)
    before.run(pods)
    before.gone(*[before.pods[pod.uid] for pod in pods[:2]])
    script = Script(*cluster("a: 3x8"), *before.pods.values(), reborn(pods[0]))
    script.run([reborn(pods[0])])
    assert script.reason("train") == "Running"
    assert script.message("train") == "2 of 3 members are bound; no room is kept for the others"


def test_a_member_that_succeeds_while_the_rest_is_held_lets_the_rest_go() -> None:
    """A half-released gang: its bound member is being deleted, and ends well before it is gone."""
    pods = gang("train", 3)
    script = Script(*cluster("a: 3x8"), *pods)
    calls = dict(zip([pod.uid for pod in pods], script.bind_all(pods), strict=True))
    final = next(pod for pod in pods if pod.uid not in script.bindings)
    script.disconnect(calls[final.uid])
    script.post_all()
    ended = next(pod for pod in pods if pod is not final)
    script.change(ended, deleting=True)
    script.bind(final)
    assert not script.bindings
    script.change(ended, phase="Succeeded")
    assert list(script.bindings) == [final.uid]


def test_a_replacement_in_a_running_gang_needs_no_new_quorum() -> None:
    pods = gang("train", 3)
    script = Script(*cluster("a: 3x8"), *pods)
    script.run(pods)
    script.change(pods[1], phase="Failed")
    replacement = reborn(pods[1])
    script.see(replacement)
    script.run([replacement])
    assert len(script.bound([replacement])) == 1
    script.advance(300)
    assert not script.evicted


def test_members_that_have_succeeded_count_as_present_for_a_replacement() -> None:
    pods = gang("train", 3)
    script = Script(*cluster("a: 3x8"), *pods)
    script.run(pods)
    for pod in pods[:2]:
        script.change(pod, phase="Succeeded")
    script.change(pods[2], phase="Failed")
    replacement = reborn(pods[2])
    script.see(replacement)
    script.run([replacement])
    assert script.bound([replacement])


@pytest.mark.parametrize("end", ["Succeeded", "Failed", "deleting"])
def test_a_second_job_under_the_name_of_an_ended_one_needs_its_own_quorum(end: str) -> None:
    first, second = gang("train", 2), gang("train", 2, life="-b")
    script = Script(*cluster("a: 4x8"), *first)
    script.run(first)
    for pod in first:
        script.change(pod, **({"deleting": True} if end == "deleting" else {"phase": end}))
    script.see(second[0])
    assert not script.planned(second[0])
    assert script.message("train") == "1 of 2 members exist"
    script.see(second[1])
    script.run(second)
    assert len(script.bound(second)) == 2


def test_a_member_bound_by_somebody_else_counts_and_the_held_ones_are_released() -> None:
    pods = gang("train", 2)
    script = Script(*cluster("a: 3x8"), *pods)
    call = script.bind(pods[0])
    script.change(pods[1], node="a-2")
    script.post_all()
    assert script.answers[call] == ""
    assert len(script.bound(pods)) == 2


def test_room_that_is_taken_in_the_middle_of_a_release_is_given_up_when_it_breaks_off() -> None:
    pods = gang("train", 3)
    script = Script(*cluster("a: 3x8"), *pods)
    calls = dict(zip([pod.uid for pod in pods], script.bind_all(pods), strict=True))
    final = next(pod for pod in pods if pod.uid not in script.bindings)
    room = script.planned(final)
    script.see(single("thief", gpus=8, scheduler="other", node=room))
    script.disconnect(calls[final.uid])
    script.post_all()
    assert not script.planned(final)
    script.see(*cluster("b: 1x8"))
    assert script.planned(final) == "b-0"


def test_a_node_lost_in_the_middle_of_a_release_does_not_stop_it() -> None:
    pods = gang("train", 3)
    script = Script(*cluster("a: 3x8"), *pods)
    script.bind_all(pods)
    script.drop(next(iter(script.bindings.values())).node)
    script.post_all()
    assert len(script.bound(pods)) == 3
