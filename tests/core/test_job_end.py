"""Jobs and pods that have ended: the pods that are still awaited, and the owner of the room."""

from __future__ import annotations

from dataclasses import replace

import pytest

from extender.core.answers import JobWritten, Outcome
from extender.core.events import PodGone, PodSeen
from extender.core.limits import Limits
from policies.model import Pod
from tests.builders import cluster, gang, reborn, single
from tests.core.jobs import Controlled, job, wakes_later
from tests.core.script import Script


def test_what_was_written_on_it_is_taken_off_when_it_has_ended() -> None:
    script = Script(*cluster("a: 2x8"))
    train = Controlled(script, job(2))
    train.run()
    train.show(finished=True)
    assert train.cleaned == 1
    assert not train.seen.marked


def test_its_slots_are_nobodys_when_its_pods_have_ended_well() -> None:
    script = Script(*cluster("a: 2x8"))
    train = Controlled(script, job(2))
    done, other = train.run()
    script.change(done, phase="Succeeded")
    script.see(replace(single("other", gpus=8), node=script.core.state.pods[done.uid].node, phase="Running"))
    script.change(other, phase="Succeeded")
    train.settle()
    assert not train.stops, "the job is about to be complete"
    assert script.core.state.claims.fits(str(script.core.state.pods[other.uid].node), other.requests)


def test_its_slots_stay_nobodys_when_its_pods_go_before_the_watch_shows_its_end() -> None:
    script = Script(*cluster("a: 2x8"))
    train = Controlled(script, job(2))
    pods = train.run()
    for pod in pods:
        script.change(script.pods[pod.uid], phase="Succeeded")
    for pod in pods:
        script.gone(script.pods[pod.uid])
    rivals = gang("rival", 2)
    script.see(*rivals)
    train.wait(1)
    assert all(map(script.planned, rivals))


def test_its_slots_stay_nobodys_when_a_pod_of_others_is_moved_to_its_gang() -> None:
    script = Script(*cluster("a: 2x8"))
    train = Controlled(script, job(2))
    pods = train.run()
    for pod in pods:
        script.change(script.pods[pod.uid], phase="Succeeded")
    script.gone(*(script.pods[pod.uid] for pod in pods))
    script.see(*(rivals := gang("rival", 2)))
    [stranger] = gang("other", 1)
    script.see(replace(stranger, group=pods[0].group))
    train.wait(3)
    assert not train.stops
    assert all(map(script.planned, rivals))


def test_a_silent_node_is_not_waited_for_when_its_pods_have_ended_well() -> None:
    script = Script(*cluster("a: 2x8"))
    train = Controlled(script, job(2))
    pods = train.run()
    for node in list(script.core.state.claims.nodes.values()):
        script.see(replace(node, ready=False))
    for pod in pods:
        script.change(pod, phase="Succeeded")
    assert wakes_later(script, 65)
    assert not train.stops


def test_a_job_whose_pods_end_well_before_the_watch_shows_its_start_is_not_started_over() -> None:
    script = Script(*cluster("a: 2x8"), limits=Limits(creation_s=8.0))
    train = Controlled(script, job(2), obeys=False)
    script.feed(JobWritten(train.seen.key, train.seen.uid, Outcome.DONE))
    for pod in train.run():
        script.change(script.pods[pod.uid], phase="Succeeded")
    script.advance(20)
    train.show(suspended=False, stopped=False, marked=True, plan=train.starts[0].plan)
    train.wait(3)
    assert not train.stops


def test_the_slots_of_a_job_whose_pods_end_well_before_the_watch_shows_its_start_are_nobodys() -> None:
    script = Script(*cluster("a: 2x8"))
    train = Controlled(script, job(2), obeys=False)
    script.feed(JobWritten(train.seen.key, train.seen.uid, Outcome.DONE))
    pods = train.run()
    for pod in pods:
        script.change(script.pods[pod.uid], phase="Succeeded")
    assert all(script.core.state.claims.fits(str(script.pods[pod.uid].node), pod.requests) for pod in pods)


def test_a_job_whose_pods_have_ended_well_is_not_started_over_when_the_one_that_waited_beyond_its_plan_is_deleted() -> (
    None
):
    script = Script(*cluster("a: 2x8"))
    whole = job(3)
    least = replace(whole.podsets, podsets=(replace(whole.podsets.podsets[0], minimum=2),))
    train = Controlled(script, replace(whole, podsets=least))
    pods = train.create()
    script.run(pods[:2])
    for pod in pods[:2]:
        script.feed(PodSeen(replace(script.pods[pod.uid], phase="Succeeded")))
    script.feed(PodGone(pods[2].uid))
    script.see(single("foreign", gpus=8, node=train.starts[0].plan[""][0], scheduler="other"))
    train.wait(3)
    assert not train.stops


def test_the_slot_of_a_pod_without_an_index_that_has_ended_well_goes_to_one_of_its_job_that_waits() -> None:
    script = Script(*cluster("a: 1x8"), limits=Limits(creation_s=8.0))
    whole = job(3, indexed=False)
    least = replace(whole.podsets, podsets=(replace(whole.podsets.podsets[0], minimum=1),))
    train = Controlled(script, replace(whole, podsets=least))
    for pod in train.create():
        train.wait(3)
        assert script.planned(pod) == "a-0"
        script.run([pod])
        train.wait(30)
        assert script.bound([pod])
        script.change(script.pods[pod.uid], phase="Succeeded")
    train.wait(30)
    assert not train.stops


@pytest.mark.parametrize("restarted", [False, True])
def test_the_index_of_a_pod_that_has_ended_well_wants_no_room_while_others_of_its_job_wait(restarted: bool) -> None:
    script = Script(*cluster("a: 1x8"), limits=Limits(creation_s=8.0))
    whole = job(3)
    least = replace(whole.podsets, podsets=(replace(whole.podsets.podsets[0], minimum=1),))
    train = Controlled(script, replace(whole, podsets=least))
    pods = train.create()
    for pod in pods:
        assert script.planned(pod) == "a-0"
        script.run([pod])
        script.change(script.pods[pod.uid], phase="Running")
        train.wait(10)
        script.change(script.pods[pod.uid], phase="Succeeded")
        if restarted:
            script = Script(*cluster("a: 1x8"), *script.pods.values(), synced=False, now=script.now)
            train = Controlled(script, train.seen)
            script.feed_synced()
        train.wait(10)
        assert not train.stops


@pytest.mark.parametrize("restarted", [False, True])
def test_a_job_is_not_started_over_while_the_only_pod_that_has_not_ended_well_is_made_again(restarted: bool) -> None:
    """The controller may wait for minutes before it creates the pod."""
    script = Script(*cluster("a: 2x8"), limits=Limits(creation_s=8.0))
    train = Controlled(script, job(2))
    failed, ended = train.run()
    script.change(script.pods[ended.uid], phase="Succeeded")
    script.gone(script.pods[failed.uid])
    if restarted:
        script = Script(
            *cluster("a: 2x8"), *script.pods.values(), synced=False, now=script.now, limits=Limits(creation_s=8.0)
        )
        train = Controlled(script, train.seen)
        script.feed_synced()
    train.wait(60)
    assert not train.stops


@pytest.mark.parametrize("restarted", [False, True])
def test_the_room_of_the_only_pod_that_has_not_ended_well_is_kept_until_it_is_made_again(restarted: bool) -> None:
    script = Script(*cluster("a: 2x8"), limits=Limits(creation_s=8.0))
    train = Controlled(script, job(2))
    failed, ended = train.run()
    home = script.pods[failed.uid].node
    script.change(script.pods[ended.uid], phase="Succeeded")
    script.see(single("other", gpus=8, node=script.pods[ended.uid].node))
    script.change(script.pods[failed.uid], phase="Failed")
    if restarted:
        script = Script(*cluster("a: 2x8"), *script.pods.values(), synced=False, now=script.now)
        train = Controlled(script, train.seen)
        script.feed_synced()
    train.wait(20)
    (rival,) = gang("rival", 1)
    script.see(rival)
    assert not script.planned(rival)
    script.see(again := reborn(failed))
    assert script.planned(again) == home
    script.run([again])
    train.wait(3)
    assert not train.stops
    assert script.reason("job") == "Running"


def with_one_failed() -> tuple[Script, Controlled, Pod]:
    """A job of two pods, of which one has succeeded and the other, which is returned, has failed."""
    script = Script(*cluster("a: 2x8"))
    train = Controlled(script, job(2))
    failed, ended = train.run()
    script.change(script.pods[ended.uid], phase="Succeeded")
    script.change(script.pods[failed.uid], phase="Failed")
    return script, train, failed


def test_the_room_of_a_pod_that_may_be_made_again_is_free_when_the_job_has_ended() -> None:
    """The success of one pod can be that of the job."""
    script, train, _ = with_one_failed()
    train.show(finished=True)
    rivals = gang("rival", 2)
    script.see(*rivals)
    assert all(map(script.planned, rivals))


def test_a_job_that_may_be_over_is_not_started_over_for_the_node_of_a_pod_that_has_failed() -> None:
    script, train, failed = with_one_failed()
    script.drop(home := str(script.pods[failed.uid].node))
    train.wait(10)
    assert not train.stops
    script.see(reborn(failed))
    train.wait(3)
    assert len(train.stops) == 1, "it is led to a node that is gone"
    assert home in train.stops[0]


def test_slots_stay_done_while_a_pod_runs_that_came_after_a_restart_which_was_shown_its_bindings_late() -> None:
    """Bindings of the last leader may land when the next one has read the cluster: all pods are of one start."""
    before = Script(*cluster("a: 3x8"))
    train = Controlled(before, job(3))
    unbound = train.run()
    script = Script(*cluster("a: 3x8"), *unbound, synced=False, now=before.now)
    train = Controlled(script, train.seen)
    script.feed_synced()
    script.see(*(before.pods[pod.uid] for pod in unbound))
    done, other, failed = unbound
    script.change(failed, phase="Failed")
    script.see(again := reborn(failed))
    script.run([again])
    script.change(done, phase="Succeeded")
    script.see(single("other", gpus=8, node=before.pods[done.uid].node))
    script.change(other, phase="Succeeded")
    train.wait(3)
    assert not train.stops


@pytest.mark.parametrize("outcome", [None, Outcome.UNKNOWN])
def test_a_job_that_has_ended_keeps_no_room_while_nobody_knows_whether_it_was_started(outcome: Outcome | None) -> None:
    script = Script(*cluster("a: 1x8"))
    train = Controlled(script, job(1), obeys=False)
    assert train.starts
    train.show(finished=True)
    if outcome is not None:
        script.feed(JobWritten(train.seen.key, train.seen.uid, outcome))
    (other,) = gang("other", 1)
    script.see(other)
    assert script.planned(other) == "a-0"
