"""A release that broke off is known as such after any restart, and a running gang is never taken for one."""

from __future__ import annotations

from dataclasses import replace

import pytest

from extender.core.answers import Outcome
from extender.core.effects import Confirm
from extender.core.events import QueueGone
from extender.core.gate.advisory import Mode
from policies.model import Pod
from policies.model.queues import LocalQueue
from tests.builders import cluster, coscheduled, gang, reborn, requests
from tests.core.queues import cluster_queue, come, flavor, in_queue, show
from tests.core.script import Script, stamp_of


def restarted(script: Script, nodes: str = "a: 4x8", after_s: float = 0.0, mode: Mode = Mode.ENFORCE) -> Script:
    """Muster is killed; what it had asked for and was not carried out is lost. It is back after so long."""
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
    """Nobody could complete it while Muster was away."""
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
    said = [script.pods[pod.uid] for pod in pods if (stamp := script.pods[pod.uid].stamp) and stamp.complete]
    assert len(said) == 2
    assert len({pod.node for pod in said}) == 2
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
    """Its Bindings did not say how many there had to be."""
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
    """Its only Binding showed up as written when nobody expected that any more, and its pod is gone since."""
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
    one, two, three = pods = gang("train", 3)
    script = Script(*cluster("a: 4x8"), *pods)
    script.bind_all(pods)
    script.post(one)
    script.post(two, Outcome.REFUSED)
    script.post(three, Outcome.REFUSED)
    script.advance(1)
    script.bind_all([two, three])
    script.change(one, deleting=True)
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
