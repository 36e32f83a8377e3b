"""A release that breaks off: the rest is completed first, or the bound part is evicted after a limited time.

Room is kept for the members that it lost, and new room goes to it first. After any restart it is known as such, and
a running gang is never taken for one.
"""

from __future__ import annotations

from dataclasses import replace

import pytest

from extender.core.answers import Outcome
from extender.core.cycle.commit import Books
from extender.core.effects import Confirm
from extender.core.events import QueueGone
from extender.core.gate.advisory import Mode
from extender.core.ledger.claims import Claim, ClaimState
from extender.core.ledger.state import State
from extender.core.limits import Limits
from extender.core.preemption.candidates import Candidates
from policies.model import Dialect, GroupRef, Pod, PodSets
from policies.model.queues import LocalQueue
from policies.placement.request import Cap, shape_of
from tests.builders import cluster, coscheduled, gang, key, reborn, requests, single
from tests.core.jobs import Controlled, job, template
from tests.core.queues import cluster_queue, come, flavor, in_queue, show
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
    """The watch shows the lost member after all, or a pod that another scheduler has bound in its place."""
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
    state.process.counted = True
    for machine in cluster("a: 2x8"):
        state.claims.set_node(machine)
    for pod in pods:
        state.store.put_pod(pod)
    (broken_off,) = state.workloads.values()
    for pod, node in zip(pods, ("a-0", "a-1"), strict=True):
        state.room.reserve(broken_off, pod, Claim(node, pod.requests, ClaimState.ASSUMED), 60.0)
        broken_off.retries.refuse([Cap(node, shape_of(pod), 0)], 0.0, 30.0, 1.0)
        state.refusing.remember(node, broken_off.key)
    for pod in pods:
        state.store.drop_pod(pod.uid)
    state.make(Books, candidates=state.make(Candidates)).enter(broken_off)
    assert not broken_off.reserved
    assert not len(state.claims)


def test_the_room_of_a_lost_member_is_kept_while_nobody_knows_whether_another_was_bound() -> None:
    """If the other was bound, the release has begun, and goes on."""
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
    """The controller of a suspended job replaces no pods.

    ``planned``: whether Muster has started it, or another client.
    """
    script = Script(*cluster("a: 2x8"))
    (podset,) = job(2).podsets.podsets
    own = replace(podset, template=template(group=GroupRef("job", Dialect.ANNOTATION, 2)))
    seen = replace(job(2), podsets=PodSets(key("job"), (own,)), suspended=planned, stopped=planned, running=not planned)
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


def restarted(script: Script, nodes: str = "a: 4x8", after_s: float = 0.0, mode: Mode = Mode.ENFORCE) -> Script:
    """Restart Muster after ``after_s``: unwritten requests are lost."""
    return Script(*cluster(nodes), *script.pods.values(), now=script.now + after_s, mode=mode)


def broken_off(pods: list[Pod]) -> Script:
    """All are bound but the last one, whose Binding hangs."""
    script = Script(*cluster("a: 4x8"), *pods)
    script.bind_all(pods)
    for uid in list(script.bindings):
        script.post(script.pods[uid])
    assert len(script.bindings) == 1, "only now the last one is posted"
    return script


@pytest.mark.parametrize("size", [2, 3, 4])
def test_a_release_whose_last_member_is_gone_is_evicted_after_a_restart(size: int) -> None:
    pods = gang("train", size)
    before = broken_off(pods)
    last = before.pods[next(iter(before.bindings))]
    before.advance(5)
    before.gone(last)
    script = restarted(before)
    assert (script.reason("train"), script.gang("train").release.complete) == ("Partial", False)
    script.advance(50)
    assert not script.evicted
    script.advance(10)
    assert sorted(script.evicted) == sorted(pod.name for pod in pods if pod.uid != last.uid)


def test_the_time_until_the_eviction_does_not_begin_anew_with_each_restart() -> None:
    pods = gang("train", 3)
    script = broken_off(pods)
    script.gone(script.pods[next(iter(script.bindings))])
    for _ in range(3):
        script.advance(10)
        script = restarted(script)
        assert script.reason("train") == "Partial"
    script.advance(25)
    assert not script.evicted
    script.advance(10)
    assert len(script.evicted) == 2, "a minute after the release, whoever was killed meanwhile"


def test_a_release_that_broke_off_long_ago_can_still_be_completed() -> None:
    """No controller could complete it while Muster was away."""
    pods = gang("train", 3)
    before = broken_off(pods)
    script = restarted(before, after_s=3600)
    assert script.reason("train") in ("Partial", "Placed")
    script.advance(15)
    assert not script.evicted
    script.run([pod for pod in pods if not script.bound([pod])])
    script.advance(300)
    assert not script.evicted
    assert script.reason("train") == "Running"


def test_a_release_that_broke_off_long_ago_is_evicted_soon_if_it_cannot_be_completed() -> None:
    before = broken_off(gang("train", 3))
    before.gone(before.pods[next(iter(before.bindings))])
    script = restarted(before, after_s=3600)
    script.advance(25)
    assert len(script.evicted) == 2


def test_a_replacement_completes_a_release_that_broke_off() -> None:
    pods = gang("train", 2)
    before = broken_off(pods)
    last = before.pods[next(iter(before.bindings))]
    before.gone(last)
    script = restarted(before)
    replacement = reborn(last)
    script.see(replacement)
    script.run([replacement])
    script = restarted(script)
    script.advance(300)
    assert script.reason("train") == "Running"
    assert not script.evicted


@pytest.mark.parametrize(("gpus", "reason"), [(8, "Placed"), (16, "NoRoom")])
def test_news_of_a_replacement_is_news_no_more_once_it_is_gone(gpus: int, reason: str) -> None:
    """The reason is then the one that a restart would give."""
    script = broken_off(gang("train", 3))
    last = script.pods[next(iter(script.bindings))]
    script.gone(last)
    assert script.reason("train") == "Partial"
    replacement = replace(reborn(last), requests=requests(gpus))
    script.see(replacement)
    script.advance(1)
    assert script.reason("train") == reason
    script.gone(replacement)
    assert script.reason("train") == restarted(script).reason("train") == "Partial"


def test_two_members_on_two_nodes_say_that_their_release_is_whole() -> None:
    pods = gang("train", 4, gpus=4)
    script = Script(*cluster("a: 2x8"), *pods)
    script.run(pods)
    complete = [script.pods[pod.uid] for pod in pods if (stamp := script.pods[pod.uid].stamp) and stamp.complete]
    assert len(complete) == 2
    assert len({pod.node for pod in complete}) == 2
    assert len([effect for effect in script.effects if isinstance(effect, Confirm)]) == 1


def test_a_second_member_says_so_although_the_watch_shows_all_as_expected() -> None:
    """Seeds 83 and 94: nothing that was shown differed from what the core knew, so nothing followed."""
    pods = gang("train", 2)
    script = Script(*cluster("a: 2x8"), *pods)
    script.bind_all(pods)
    while script.bindings:
        script.post(script.pods[next(iter(script.bindings))], seen=False)
    assert not [effect for effect in script.effects if isinstance(effect, Confirm)]
    script.see(*(script.core.state.pods[pod.uid] for pod in pods))
    assert len([effect for effect in script.effects if isinstance(effect, Confirm)]) == 1


@pytest.mark.parametrize("size", [2, 3, 5])
def test_whoever_is_lost_of_a_running_gang_a_restart_evicts_nobody(size: int) -> None:
    """Member after member, down to the last one: it was whole, and Muster is killed after each loss."""
    pods = gang("train", size)
    script = Script(*cluster("a: 5x8"), *pods)
    script.run(pods)
    for pod in reversed(pods[1:]):
        script.gone(script.pods[pod.uid])
        script = restarted(script, "a: 5x8")
        script.advance(100)
        assert not script.evicted
    assert script.reason("train") == "Running"


def test_the_word_is_passed_on_before_the_next_one_is_lost() -> None:
    pods = gang("train", 4)
    script = Script(*cluster("a: 4x8"), *pods)
    script.run(pods)
    for _ in range(2):
        script.gone(next(pod for pod in script.pods.values() if pod.stamp and pod.stamp.complete))
    assert all(pod.stamp and pod.stamp.complete for pod in script.pods.values())


def test_bindings_that_are_shown_only_after_a_restart_are_of_their_release() -> None:
    """The last leader's requests may land when the next one has read the cluster."""
    pods = gang("train", 3)
    before = Script(*cluster("a: 3x8"), *pods)
    before.run(pods)
    script = Script(*cluster("a: 3x8"), *pods, now=before.now)
    bound = [before.pods[pod.uid] for pod in pods]
    script.see(*(replace(pod, stamp=replace(pod.stamp, complete=pod is bound[2])) for pod in bound if pod.stamp))
    assert len([pod for pod in script.pods.values() if pod.stamp and pod.stamp.complete]) == 2
    script.gone(script.pods[pods[2].uid])
    script = restarted(script)
    script.advance(100)
    assert not script.evicted


def test_a_minmember_that_is_raised_later_makes_no_running_gang_a_broken_one() -> None:
    group, pods = coscheduled("train", 3, min_member=2)
    before = Script(*cluster("a: 3x8"), group, *pods)
    before.run(pods)
    script = Script(*cluster("a: 3x8"), replace(group, min_member=4), *before.pods.values(), now=before.now)
    script.advance(100)
    assert not script.evicted


@pytest.mark.parametrize("killed", [False, True])
def test_a_release_counts_what_was_needed_when_it_began(killed: bool) -> None:
    """minMember is raised in the middle of it, and a member fails before its end: it was whole all the same."""
    group, pods = coscheduled("train", 4, min_member=3)
    script = Script(*cluster("a: 4x8"), group, *pods)
    script.bind_all(pods[:3])
    script.post(first := script.pods[next(iter(script.bindings))])
    script.see(replace(group, min_member=4))
    script.change(first, phase="Failed")
    script.gone(pods[3])
    script.post_all()
    script = restarted(script) if killed else script
    script.advance(100)
    assert (script.gang("train").release.complete, script.evicted) == (True, [])


def test_what_an_older_muster_has_bound_gets_the_benefit_of_the_doubt() -> None:
    """The Bindings of an older release state no quorum."""
    pods = gang("train", 3)
    before = broken_off(pods)
    before.gone(before.pods[next(iter(before.bindings))])
    for uid, pod in before.pods.items():
        assert pod.stamp is not None
        before.pods[uid] = replace(pod, stamp=replace(pod.stamp, quorum=0, size=0, at=0.0))
    script = restarted(before)
    script.advance(300)
    assert not script.evicted


def test_advisory_mode_writes_nothing_on_a_running_gang() -> None:
    pods = gang("train", 3)
    before = Script(*cluster("a: 4x8"), *pods)
    before.run(pods)
    before.gone(before.pods[pods[2].uid])
    script = restarted(before, mode=Mode.ADVISE)
    script.advance(10)
    assert not [effect for effect in script.effects if isinstance(effect, Confirm)]


def test_a_member_whose_binding_failed_does_not_count_as_bound_by_it() -> None:
    pods = gang("train", 2)
    before = broken_off(pods)
    last = before.pods[next(iter(before.bindings))]
    before.feed_outcome(last.uid, Outcome.REFUSED)
    script = restarted(before)
    assert not script.gang("train").release.complete


def test_a_binding_that_is_asked_for_again_says_that_an_earlier_one_may_have_been_written() -> None:
    pods = gang("train", 1)
    script = Script(*cluster("a: 1x8"), *pods)
    script.bind_all(pods)
    assert not script.bindings[pods[0].uid].again
    script.feed_outcome(pods[0].uid, Outcome.UNKNOWN)
    script.bind_all(pods)
    assert script.bindings[pods[0].uid].again


@pytest.mark.parametrize("killed", [False, True])
def test_a_start_of_which_nothing_is_bound_any_more_is_over(killed: bool) -> None:
    """A late watch showed its only Binding as written, and its pod is gone since."""
    pods = gang("train", 2)
    script = Script(*cluster("a: 4x8"), *pods)
    script.bind_all(pods)
    (binding,) = script.bindings.values()
    script.feed_outcome(binding.uid, Outcome.UNKNOWN)
    script.advance(60)
    lost = script.pods[binding.uid]
    script.change(lost, node=binding.node, stamp=stamp_of(binding), nominated_node=None)
    script = restarted(script) if killed else script
    assert script.gang("train").release.partial_since is not None
    script.gone(script.pods[lost.uid])
    assert script.gang("train").release.partial_since is None
    pods = [pod for pod in pods if pod.uid != lost.uid] + [reborn(lost)]
    script.see(pods)
    script.advance(31)
    script.run(pods)
    script.advance(100)
    assert (script.reason("train"), script.evicted) == ("Running", [])


def test_a_start_whose_bound_members_end_before_the_rest_of_it_is_bound_is_over() -> None:
    first, two, three = pods = gang("train", 3)
    script = Script(*cluster("a: 4x8"), *pods)
    script.bind_all(pods)
    script.post(first)
    script.post(two, Outcome.REFUSED)
    script.post(three, Outcome.REFUSED)
    script.advance(1)
    script.bind_all([two, three])
    script.change(first, deleting=True)
    script.gone(script.pods[two.uid])
    script.feed_outcome(two.uid, Outcome.REFUSED)
    assert (script.reason("train"), script.gang("train").release.partial_since) == ("MembersMissing", None)


def test_a_start_that_breaks_off_when_a_doubt_is_over_is_completed_although_its_queue_is_gone_by_then() -> None:
    script = Script(*cluster("a: 2x8"))
    show(script, flavor("gpus"), cluster_queue("team", {"gpus": 16}))
    pods = in_queue("train", 3, gpus=4)
    come(script, pods)
    script.bind_all(pods)
    first, second = list(script.bindings)
    (last,) = (pod for pod in pods if pod.uid not in script.bindings)
    node = script.bindings[second].node
    script.post(script.pods[first])
    script.post(script.pods[second], Outcome.UNKNOWN, seen=False)
    script.feed(QueueGone(LocalQueue("default", "team", "team")))
    script.gone(last)
    script.see(reborn(last))
    script.bind(script.pods[second], node)
    script.advance(21)
    assert script.gang("train").release.partial_since is not None
    assert all(script.planned(pod) for pod in script.pods.values() if not pod.node)
