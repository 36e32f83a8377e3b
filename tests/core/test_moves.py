"""Changes in the middle of a release: of a pod's gang, the PodGroup, or the pod that waits for the last Binding."""

from __future__ import annotations

from dataclasses import replace

import pytest

from extender.core.answers import Outcome
from extender.core.effects import Nominate
from extender.core.events import GroupGone, PodSeen
from extender.core.workload.status import Status
from policies.model import Pod
from tests.builders import cluster, coscheduled, gang, podgroup, requests
from tests.core.script import Script, stamp_of


def between_two() -> tuple[Script, list[Pod], list[Pod], Pod]:
    """Gang ``first`` is being released. A member whose Binding is under way is moved to ``two``, which lacks room."""
    first, two = gang("one", 3), gang("two", 2, min_member=3)
    script = Script(*cluster("a: 4x8"), *first, *two)
    script.bind_all(first)
    mover = next(pod for pod in first if pod.uid in script.bindings)
    moved = replace(script.pods[mover.uid], group=two[0].group)
    script.see(moved)
    return script, first, two, moved


@pytest.mark.parametrize("outcome", list(Outcome))
def test_a_pod_that_is_moved_while_it_is_being_bound_is_looked_after(outcome: Outcome) -> None:
    script, first, _, moved = between_two()
    room = script.core.state.claims.get(moved.uid)
    assert room is not None
    assert room.node == script.bindings[moved.uid].node, "the room is not given to anybody else"
    script.post(moved, outcome)
    while script.bindings:
        script.post(script.pods[next(iter(script.bindings))])
    script.advance(0.5)
    assert script.reason("one") == ("Running" if outcome is Outcome.DONE else "Partial")
    assert not script.gang("two").release.name, "nothing of it was bound"
    script.advance(100)
    evicted = () if outcome is Outcome.DONE else {pod.name for pod in first if script.pods[pod.uid].node}
    assert set(script.evicted) == set(evicted)


@pytest.mark.parametrize("late", [True, False])
@pytest.mark.parametrize("restarts", [True, False])
def test_a_pod_that_is_moved_while_it_is_being_bound_is_bound_in_the_gang_of_its_binding(
    restarts: bool, late: bool
) -> None:
    """``late``: the watch shows the edit only after the answer to the Binding.

    Seed 524 of the campaign: the pod's stamp decided in which queue the other gang was planned.
    """
    first, two = gang("one", 1), gang("two", 5, min_member=6)
    script = Script(*cluster("a: 3x8"), *first, *two)
    script.bind_all(first)
    edited, binding = replace(script.pods[first[0].uid], group=two[0].group), script.bindings[first[0].uid]
    if not late:
        script.see(edited)
    script.post(first[0], seen=False)
    if late:
        script.feed(PodSeen(edited))
    assert first[0].uid in script.gang("one").members
    assert first[0].uid not in script.gang("two").members
    script.see(edited.bound(binding.node, stamp_of(binding)))
    if restarts:
        script = Script(*cluster("a: 3x8"), *script.pods.values(), now=script.now)
    script.advance(0.5)
    assert script.reason("one") == "Running"
    assert not any(map(script.planned, two)), "there is room for some of them"


def test_a_gang_that_has_ended_is_planned_by_a_pod_that_is_moved_to_it_while_it_is_being_bound() -> None:
    first, two = gang("one", 2), gang("two", 1)
    script = Script(*cluster("a: 4x8"), *first, *two)
    script.run(two)
    script.change(two[0], phase="Succeeded")
    script.bind_all(first)
    mover = next(pod for pod in first if pod.uid in script.bindings)
    script.see(replace(script.pods[mover.uid], group=two[0].group))
    assert [status for _, status in script.gang("two").status.steps][-2:] == [Status.ENDED, Status.PLANNED]


def test_an_old_gang_does_not_count_whom_it_has_lost() -> None:
    """The last Binding waits for all that are under way in the gang, and not for one that has left it."""
    script, first, _, moved = between_two()
    while others := [uid for uid in script.bindings if uid != moved.uid]:
        script.post(script.pods[others[0]])
    stamps = [script.pods[pod.uid].stamp for pod in first if pod.uid != moved.uid]
    assert all(stamp and not stamp.complete for stamp in stamps)
    script.post(moved)
    script.advance(0.5)
    assert script.reason("one") == "Running"


def test_a_bound_pod_that_is_moved_before_the_watch_shows_it_bound_stays_bound() -> None:
    first, two = gang("one", 1), gang("two", 2)
    script = Script(*cluster("a: 4x8"), *first, two[0])
    script.bind_all(first)
    script.post(first[0], seen=False)
    script.feed(PodSeen(replace(first[0], group=two[0].group)))
    assert script.bound(first)


def test_a_pod_that_leaves_its_gang_while_it_is_being_bound_keeps_its_room() -> None:
    pods = gang("one", 2)
    script = Script(*cluster("a: 2x8"), *pods)
    script.bind_all(pods)
    mover = next(pod for pod in pods if pod.uid in script.bindings)
    script.see(replace(script.pods[mover.uid], group=None))
    late = gang("late", 2)
    script.see(late)
    script.advance(1)
    assert not script.planned(late[0])
    script.post(mover, Outcome.REFUSED)
    script.advance(100)
    assert script.planned(late[0])


@pytest.mark.parametrize("leaves", [True, False])
def test_a_pod_that_is_moved_while_its_binding_is_in_doubt_keeps_its_room(leaves: bool) -> None:
    pods, other = gang("one", 1), gang("two", 1, min_member=2)
    script = Script(*cluster("a: 1x8"), *pods, *other)
    script.bind_all(pods)
    script.feed_outcome(pods[0].uid, Outcome.UNKNOWN)
    script.see(replace(script.pods[pods[0].uid], group=None if leaves else other[0].group))
    late = gang("late", 1)
    script.see(late)
    script.advance(5)
    assert not script.planned(late[0])
    script.advance(100)
    assert script.planned(late[0])


def test_a_pod_that_is_moved_there_and_back_is_bound_as_ever() -> None:
    script, first, _, moved = between_two()
    script.see(replace(moved, group=first[0].group))
    script.post_all()
    assert script.reason("one") == "Running"


@pytest.mark.parametrize("seen_gone", [True, False])
def test_a_podgroup_made_anew_in_the_middle_of_a_release_needs_a_quorum_of_its_own(seen_gone: bool) -> None:
    """The next bind came when two members were left, and went out at once: the gang had been whole."""
    group, pods = coscheduled("train", 6, min_member=3, gpus=1)
    script = Script(*cluster("a: 1x8"), group, *pods)
    script.run(pods[:4])
    if seen_gone:
        script.feed(GroupGone(group.key, group.uid))
    script.see(podgroup("train", 3, uid="anew"))
    script.see(replace(script.pods[pods[4].uid], requests=requests(1)))
    assert not script.gang("train").release.complete
    assert not script.planned(pods[4])
    assert script.reason("train") == "MembersMissing"


def test_a_podgroup_made_anew_while_muster_was_away_needs_a_quorum_of_its_own() -> None:
    group, pods = coscheduled("train", 6, min_member=3, gpus=1)
    before = Script(*cluster("a: 1x8"), group, *pods)
    before.run(pods[:4])
    script = Script(*cluster("a: 1x8"), *before.pods.values(), now=before.now)
    script.see(podgroup("train", 3, uid="anew"))
    assert not script.gang("train").release.complete
    assert script.reason("train") == "MembersMissing"


def test_the_last_bind_is_answered_before_its_end_although_another_binding_hangs() -> None:
    pods = gang("train", 3)
    script = Script(*cluster("a: 3x8"), *pods)
    calls = {pod.uid: script.bind(pod, expires_s=expires_s) for pod, expires_s in zip(pods, (60, 60, 10), strict=True)}
    final = next(pod for pod in pods if pod.uid not in script.bindings)
    assert final == pods[2]
    sure, hanging = script.bindings
    script.post(script.pods[sure])
    script.advance(9)
    assert script.answers[calls[final.uid]] == "another Binding of its gang has not ended in time"
    script.post(script.pods[hanging])
    script.run([final])
    assert len(script.bound(pods)) == 3
    assert script.reason("train") == "Running"
    script.advance(300)
    assert not script.evicted


@pytest.mark.parametrize("to", ["two", ""])
def test_the_nomination_of_a_pod_that_leaves_its_gang_is_taken_back_even_if_it_is_yet_to_be_written(to: str) -> None:
    first, two = gang("one", 2), gang("two", 2, min_member=4)
    script = Script(*cluster("a: 4x8"), *first, *two, nominates=False)
    script.see(replace(script.pods[first[1].uid], group=two[0].group if to else None))
    nominations = [
        effect.node for effect in script.effects if isinstance(effect, Nominate) and effect.uid == first[1].uid
    ]
    assert len(nominations) == 2
    assert nominations[-1] is None
