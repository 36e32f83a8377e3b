"""A Binding with an unknown outcome: its release waits for an answer, for a limited time."""

from __future__ import annotations

from dataclasses import replace

import pytest

from extender.core.answers import Outcome
from extender.core.effects import PostBinding
from extender.core.events import GroupGone
from extender.core.gate.stamps import RELEASE_COMPLETE
from extender.core.limits import Limits
from tests.builders import cluster, coscheduled, gang, reborn, single
from tests.core.script import Script, stamp_of


def in_doubt() -> tuple[Script, PostBinding, str]:
    """Gang "train" of 3 in the middle of its release: one is bound, the outcome of one is unknown, the last is held.

    Returns the Binding with the unknown outcome, and the UID of the last member.
    """
    pods = gang("train", 3)
    script = Script(*cluster("a: 3x8"), *pods)
    script.bind_all(pods)
    sure, doubtful = script.bindings
    final = next(pod.uid for pod in pods if pod.uid not in script.bindings)
    script.post(script.pods[sure])
    binding = script.bindings[doubtful]
    script.feed_outcome(doubtful, Outcome.UNKNOWN)
    return script, binding, final


def test_the_last_binding_waits_until_a_lost_response_is_settled_by_the_watch() -> None:
    script, doubtful, final = in_doubt()
    assert not script.bindings
    script.change(script.pods[doubtful.uid], node=doubtful.node, stamp=stamp_of(doubtful))
    assert RELEASE_COMPLETE in script.bindings[final].annotations
    script.post_all()
    assert script.reason("train") == "Running"


def test_the_last_binding_waits_until_a_lost_response_is_settled_by_the_next_try() -> None:
    script, doubtful, final = in_doubt()
    script.bind(script.pods[doubtful.uid])
    assert list(script.bindings) == [doubtful.uid]
    script.post(script.pods[doubtful.uid])
    assert RELEASE_COMPLETE in script.bindings[final].annotations


def test_the_last_binding_does_not_wait_for_a_lost_response_beyond_its_own_end() -> None:
    for listens_s in (10, 60):
        pods = gang("train", 3)
        script = Script(*cluster("a: 3x8"), *pods)
        calls = dict(zip([pod.uid for pod in pods], script.bind_all(pods, expires_s=listens_s), strict=True))
        sure, doubtful = script.bindings
        final = next(pod for pod in pods if pod.uid not in script.bindings)
        script.post(script.pods[sure])
        script.feed_outcome(doubtful, Outcome.UNKNOWN)
        script.advance(min(listens_s, 20) - 1)
        assert list(script.bindings) == [final.uid] or listens_s == 60
        script.advance(1)
        assert list(script.bindings) == [final.uid]
        assert RELEASE_COMPLETE not in script.bindings[final.uid].annotations, "nobody knows that it is whole"
        assert calls[final.uid] not in script.answers


@pytest.mark.parametrize("listens_s", [10, 60])
def test_nobody_is_held_beyond_the_doubt_about_the_only_other_binding(listens_s: int) -> None:
    script = Script(*cluster("a: 2x8"), *gang("train", 2))
    first, last = script.bind_all(gang("train", 2), expires_s=listens_s)
    script.feed_outcome(next(iter(script.bindings)), Outcome.UNKNOWN)
    script.advance(min(listens_s, 20) + 1)
    assert not script.bindings
    assert script.answers == {first: "the API server said no", last: "none of the gang's Bindings was accepted"}


def test_a_release_whose_last_binding_is_in_doubt_has_not_broken_off() -> None:
    pods = gang("train", 2)
    script = Script(*cluster("a: 2x8"), *pods, limits=Limits(partial_s=5))
    script.bind_all(pods)
    script.post(script.pods[next(iter(script.bindings))])
    (last,) = script.bindings.values()
    script.feed_outcome(last.uid, Outcome.UNKNOWN)
    script.advance(15)
    assert not script.evicted
    script.change(script.pods[last.uid], node=last.node, stamp=stamp_of(last))
    assert script.reason("train") == "Running"
    script.advance(60)
    assert not script.evicted


def test_a_release_whose_last_binding_was_not_written_after_all_is_completed_or_evicted() -> None:
    for completed in (True, False):
        pods = gang("train", 2)
        script = Script(*cluster("a: 2x8"), *pods)
        script.bind_all(pods)
        script.post(script.pods[next(iter(script.bindings))])
        (last,) = script.bindings
        script.feed_outcome(last, Outcome.UNKNOWN)
        script.advance(25)
        assert script.reason("train") in ("Partial", "Forgotten", "Placed")
        if completed:
            script.run([script.pods[last]])
        script.advance(100)
        assert script.evicted == [] if completed else len(set(script.evicted)) == 1


def test_a_member_in_doubt_that_is_deleted_keeps_the_last_binding_waiting_no_longer() -> None:
    script, doubtful, final = in_doubt()
    script.gone(script.pods[doubtful.uid])
    assert list(script.bindings) == [final]


def test_the_room_of_a_lost_response_stays_promised_when_the_others_can_wait_no_longer() -> None:
    pods = gang("train", 3)
    script = Script(*cluster("a: 4x8"), *pods)
    script.bind_all(pods, expires_s=10)
    unsure = list(script.bindings.values())
    for binding in unsure:
        script.feed_outcome(binding.uid, Outcome.UNKNOWN)
    script.advance(8.5)
    assert not script.gang("train").members.holds, "nobody is held beyond its time"
    for binding in unsure:
        charge = script.core.state.claims.get(binding.uid)
        assert charge is not None
        assert charge.node == binding.node, "it may have been bound there"
    script.advance(60)
    assert not script.gang("train").outcome_unknown


def test_a_release_whose_member_in_doubt_is_deleted_has_broken_off() -> None:
    """Nothing is under way any more, so no later event would make the core look at the gang."""
    pods = gang("train", 2)
    script = Script(*cluster("a: 2x8"), *pods)
    script.bind_all(pods)
    script.post(script.pods[next(iter(script.bindings))])
    (last,) = script.bindings
    script.feed_outcome(last, Outcome.UNKNOWN)
    assert script.reason("train") != "Partial"
    lost = script.pods[last]
    script.gone(lost)
    assert script.reason("train") == "Partial"
    script.advance(Limits().partial_s - 1)
    assert not script.evicted
    script.advance(2)
    assert script.evicted == [pod.name for pod in pods if pod.uid != last]


def test_the_replacement_of_a_deleted_member_in_doubt_gets_its_room_and_completes_the_release() -> None:
    pods = gang("train", 2)
    script = Script(*cluster("a: 2x8"), *pods)
    script.bind_all(pods)
    script.post(script.pods[next(iter(script.bindings))])
    (last,) = script.bindings
    script.feed_outcome(last, Outcome.UNKNOWN)
    lost = script.pods[last]
    script.gone(lost)
    other = gang("other", 1)
    script.see(*other)
    assert not script.planned(other[0])
    replacement = reborn(lost)
    script.see(replacement)
    script.run([replacement])
    assert script.reason("train") == "Running"
    script.advance(100)
    assert not script.evicted


def test_room_in_doubt_that_somebody_else_takes_or_closes_is_given_up_when_the_doubt_ends() -> None:
    """This holds even while a nomination of the gang is still being written."""
    for taken in (True, False):
        pods = gang("train", 3)
        nodes = cluster("a: 4x8")
        script = Script(*nodes, *pods, nominates=False)
        calls = dict(zip([pod.uid for pod in pods], script.bind_all(pods), strict=True))
        sure, doubtful = script.bindings
        final = next(pod for pod in pods if pod.uid not in script.bindings)
        script.post(script.pods[sure])
        there = script.bindings[doubtful].node
        script.feed_outcome(doubtful, Outcome.UNKNOWN)
        script.disconnect(calls[final.uid])
        if taken:
            script.see(single("foreign", gpus=8, node=there, scheduler="another"))
        else:
            script.see(replace(next(node for node in nodes if node.name == there), unschedulable=True))
        assert script.planned(script.pods[doubtful]) == there, "it may have been bound there"
        script.advance(50)
        assert script.planned(script.pods[doubtful]) != there


def test_a_doubt_ends_in_time_however_often_kube_scheduler_tries_the_other_members_meanwhile() -> None:
    pods = gang("train", 3)
    script = Script(*cluster("a: 3x8"), *pods)
    calls = dict(zip([pod.uid for pod in pods], script.bind_all(pods), strict=True))
    unsure = list(script.bindings)
    (last,) = (pod for pod in pods if pod.uid not in script.bindings)
    for uid in unsure:
        script.feed_outcome(uid, Outcome.UNKNOWN)
    call = calls[last.uid]
    for _ in range(4):
        assert script.gang("train").outcome_unknown
        script.disconnect(call)
        script.advance(5)
        call = script.bind(last)
    assert not script.gang("train").outcome_unknown


def test_who_was_in_doubt_when_the_extender_stood_still_is_forgotten_with_its_gang() -> None:
    group, pods = coscheduled("train", 3)
    script = Script(*cluster("a: 3x8"), group, *pods)
    script.bind_all(pods)
    unsure = [script.pods[uid] for uid in script.bindings]
    for pod in unsure:
        script.feed_outcome(pod.uid, Outcome.UNKNOWN)
    script.now += 60
    script.feed(GroupGone(group.key, group.uid))
    assert [script.planned(pod) for pod in pods] == ["", "", ""]


@pytest.mark.parametrize(("size", "least"), [(2, 2), (3, 2), (3, 3)])
def test_room_in_doubt_is_nobody_elses_when_kube_scheduler_refuses_the_node(size: int, least: int) -> None:
    """This holds even where the gang can start without that member, and where nothing else of it is bound."""
    pods, other = gang("train", size, min_member=least), gang("other", 1)
    script = Script(*cluster(f"a: {size}x8"), *pods)
    script.bind_all(pods)
    doubtful, *sure = script.bindings.values()
    for binding in sure:
        script.post(script.pods[binding.uid])
    script.feed_outcome(doubtful.uid, Outcome.UNKNOWN)
    elsewhere = [name for name in script.core.state.claims.nodes if name != doubtful.node]
    assert script.filter(script.pods[doubtful.uid], elsewhere) == ()
    script.see(other)
    script.advance(1)
    assert script.planned(other[0]) != doubtful.node, "the Binding may have been written"
    script.change(script.pods[doubtful.uid], node=doubtful.node, stamp=stamp_of(doubtful))
    script.post_all()
    assert script.reason("train") == "Running"
