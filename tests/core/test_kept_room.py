"""A release that breaks off: room is kept for the members that it lost, and new room goes to it first."""

from __future__ import annotations

from dataclasses import replace

import pytest

from extender.core.answers import Outcome
from extender.core.cycle.commit import index
from extender.core.ledger.claims import Claim, ClaimState
from extender.core.ledger.state import State
from policies.model import Dialect, GroupRef, PodSets
from policies.placement.request import Cap, shape_of
from tests.builders import cluster, gang, key, reborn, requests, single
from tests.core.jobs import Controlled, job, template
from tests.core.script import Script, stamp_of


def test_the_room_of_a_lost_member_is_kept_for_its_replacement() -> None:
    pods = gang("train", 3)
    script = Script(*cluster("a: 3x8"), *pods)
    script.bind_all(pods)
    final = next(pod for pod in pods if pod.uid not in script.bindings)
    room = script.planned(final)
    for uid in list(script.bindings)[:1]:
        script.post(script.pods[uid])
    script.gone(script.pods[final.uid])
    script.post_all()
    other = gang("other", 1, priority=100)
    script.see(other)
    assert not script.planned(other[0])
    replacement = reborn(final)
    script.see(replacement)
    assert script.planned(replacement) == room
    script.run([replacement])
    assert script.reason("train") == "Running"


def test_room_that_becomes_free_beside_kept_room_is_looked_at_together_with_it() -> None:
    """The replacement asks for more than the lost member did, and neither is enough for it alone."""
    pods, holder = gang("train", 2, gpus=2), single("holder", gpus=4, node="a-0")
    script = Script(*cluster("a: 1x8"), holder, *pods)
    script.bind_all(pods)
    final = next(pod for pod in pods if pod.uid not in script.bindings)
    script.gone(script.pods[final.uid])
    script.post_all()
    replacement = replace(reborn(final), requests=requests(gpus=5))
    script.see(replacement)
    assert not script.planned(replacement)
    script.gone(holder)
    assert script.planned(replacement) == "a-0"


@pytest.mark.parametrize("late", [True, False])
def test_who_is_bound_where_room_is_kept_for_him_takes_it_from_nobody_else(*, late: bool) -> None:
    """The watch shows the lost member after all, or what another scheduler has bound in its place."""
    pods = gang("train", 2, gpus=2)
    script = Script(*cluster("a: 1x8"), *pods)
    script.bind_all(pods)
    final = next(pod for pod in pods if pod.uid not in script.bindings)
    script.gone(script.pods[final.uid])
    script.post_all()
    other = gang("other", 2, gpus=2)
    script.see(other)
    assert script.planned(other[0]) == "a-0"
    call = script.bind(other[0])
    script.see(replace(final if late else reborn(final), node="a-0"))
    assert call not in script.answers
    assert script.filter(single("more", gpus=1)) == (), "all of it is taken"


def test_a_half_released_gang_gets_new_room_before_one_of_higher_priority() -> None:
    pods = gang("train", 3)
    script = Script(*cluster("a: 3x8"), *pods)
    script.bind_all(pods)
    final = next(pod for pod in pods if pod.uid not in script.bindings)
    script.post(script.pods[next(iter(script.bindings))])
    script.drop(script.planned(final) or "")
    script.gone(script.pods[final.uid])
    script.post_all()
    replacement, other = reborn(final), gang("other", 1, priority=100)
    script.see(other, replacement)
    assert not script.planned(other[0])
    assert not script.planned(replacement)
    script.see(*cluster("b: 1x8"))
    script.advance(5)
    assert script.planned(replacement) == "b-0"
    assert not script.planned(other[0])


@pytest.mark.parametrize("order", [(0, 1), (1, 0)])
def test_the_room_of_a_refused_member_is_kept_whichever_binding_ends_first(order: tuple[int, int]) -> None:
    pods = gang("train", 3)
    script = Script(*cluster("a: 3x8"), *pods)
    script.bind_all(pods)
    first = list(script.bindings)
    room = script.bindings[first[0]].node
    for number in order:
        script.feed_outcome(first[number], Outcome.REFUSED if number == 0 else Outcome.DONE)
    assert room not in script.filter(single("other", gpus=8))


def test_room_kept_on_nodes_that_the_gang_was_refused_is_given_back_once() -> None:
    """A node that gets room back is tried again, which looks at the gang again while its room is being given back."""
    state, pods = State(), gang("train", 2)
    for one in cluster("a: 2x8"):
        state.claims.set_node(one)
    for pod in pods:
        state.put_pod(pod)
    (broken_off,) = state.workloads.values()
    for pod, node in zip(pods, ("a-0", "a-1"), strict=True):
        state.reserve(broken_off, pod, Claim(node, pod.requests, ClaimState.ASSUMED), 60.0)
        broken_off.retries.refuse([Cap(node, shape_of(pod), 0)], 0.0, 30.0, 1.0)
        state.refusing.remember(node, broken_off.key)
    for pod in pods:
        state.drop_pod(pod.uid)
    index(state, broken_off)
    assert not broken_off.reserved
    assert not len(state.claims)


def test_the_room_of_a_lost_member_is_kept_while_nobody_knows_whether_another_was_bound() -> None:
    """If it was, the release has begun, and goes on."""
    pods = gang("train", 3)
    script = Script(*cluster("a: 3x8"), *pods)
    calls = dict(zip([pod.uid for pod in pods], script.bind_all(pods), strict=True))
    lost, unsure = script.bindings.values()
    (last,) = (pod for pod in pods if pod.uid not in script.bindings)
    script.disconnect(calls[last.uid])
    script.feed_outcome(lost.uid, Outcome.REFUSED)
    script.feed_outcome(unsure.uid, Outcome.UNKNOWN)
    script.gone(script.pods[lost.uid])
    assert script.filter(single("other", gpus=8), [lost.node]) == ()
    script.change(script.pods[unsure.uid], node=unsure.node, stamp=stamp_of(unsure), nominated_node=None)
    assert script.filter(single("other", gpus=8), [lost.node]) == ()
    again = next(reborn(pod) for pod in pods if pod.uid == lost.uid)
    script.see(again)
    assert script.planned(again) == lost.node
    script.run([last, again])
    assert script.reason("train") == "Running"
    assert len({pod.stamp.release for pod in script.pods.values() if pod.stamp}) == 1, "it is one release"


def test_kept_room_that_somebody_else_has_taken_is_kept_no_longer_once_the_gang_is_planned_anew() -> None:
    pods = gang("train", 4, gpus=2)
    script = Script(*cluster("a: 1x8", "b: 1x4"), *pods)
    script.bind_all(pods)
    script.see(single("foreign", gpus=4, node="a-0", scheduler="other"))
    script.post(script.pods[next(iter(script.bindings))])
    while script.bindings:
        script.post(script.pods[next(iter(script.bindings))], Outcome.REFUSED)
    script.advance(5)
    assert sorted(script.planned(pod) for pod in pods if not script.pods[pod.uid].node) == ["a-0", "b-0", "b-0"]


@pytest.mark.parametrize("planned", [True, False])
def test_no_room_is_kept_for_the_pods_of_a_job_that_is_suspended(*, planned: bool) -> None:
    """Its controller replaces none. ``planned``: it was started by Muster, else by others."""
    script = Script(*cluster("a: 2x8"))
    (podset,) = job(2).podsets.podsets
    said = replace(podset, template=template(group=GroupRef("job", Dialect.ANNOTATION, 2)))
    seen = replace(
        job(2), podsets=PodSets(key("job"), (said,)), suspended=planned, stopped=planned, running=not planned
    )
    train = Controlled(script, seen)
    script.bind_all(train.create())
    first = next(iter(script.bindings))
    script.post(script.pods[first])
    (last,) = script.bindings
    node = script.bindings[last].node
    if not planned:
        script.feed_outcome(last, Outcome.REFUSED)
        script.gone(script.pods[last])
        assert node not in script.filter(single("other", gpus=8))
    train.show(suspended=True, plan=None)
    if planned:
        script.feed_outcome(last, Outcome.REFUSED)
    assert node in script.filter(single("other", gpus=8))
