"""Slots of a job that are done by its status: they count, and need no node, whatever happens to their pods.

Whether a Job without indexes makes other pods depends on its status, too.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pytest

from extender.core.limits import Limits
from extender.core.workload.slots import Stage
from policies.model import Job, Pod, PodSet
from tests.builders import cluster, gang, reborn, single
from tests.core.jobs import Controlled, job, template
from tests.core.script import Script

LIMITS = Limits(creation_s=30.0, node_loss_s=2.0)


def finish(train: Controlled, *pods: Pod) -> None:
    """Let the pods succeed, and show it in the job's status: which ones, or without indexes how many."""
    for pod in pods:
        train.script.change(train.script.pods[pod.uid], phase="Succeeded")
        del train.pods[pod.uid]
    if train.seen.podsets.podsets[0].indexed:
        train.show(done=train.seen.done | {pod.identity for pod in pods})
    else:
        train.show(closed=train.seen.closed + len(pods))


def goes_on(train: Controlled, others: Sequence[Pod]) -> None:
    """Check that the job runs with these two for longer than the grace period of a lost node."""
    train.wait(70)
    assert not train.stops
    assert len(train.script.bound(others)) == 2
    assert train.script.reason("job") == "Running"


def start_together(train: Controlled, *failed: Pod) -> None:
    """Two pods fail, are made again, and start at once when both are there."""
    script = train.script
    for pod in failed:
        script.change(script.pods[pod.uid], phase="Failed")
        script.gone(script.pods[pod.uid])
    first, second = map(reborn, failed)
    script.see(first, second)
    script.bind(first)
    assert not script.bindings
    script.bind(second)
    script.post_all()
    train.wait(3)
    assert len(script.bound([first, second])) == 2
    assert not train.stops


def restarted(train: Controlled) -> Controlled:
    """Let another life take over the objects."""
    before = train.script
    nodes = before.core.state.claims.nodes.values()
    script = Script(*nodes, *before.pods.values(), synced=False, now=before.now, limits=LIMITS)
    again = Controlled(script, train.seen)
    script.feed_synced()
    again.wait(1)
    return again


def led(workers: int) -> Job:
    """Workers and a launcher: two podsets."""
    return job(workers, PodSet(template(series="launcher"), 1, 1))


@pytest.mark.parametrize("restarts", [False, True])
@pytest.mark.parametrize("seen", [job(3), led(2)], ids=["one podset", "two podsets"])
def test_a_job_goes_on_when_the_node_of_a_pod_that_has_ended_well_is_removed_and_the_pod_with_it(
    seen: Job, restarts: bool
) -> None:
    """An autoscaler removes an idle node in this way."""
    script = Script(*cluster("a: 3x8"), limits=LIMITS)
    train = Controlled(script, seen)
    done, *others = train.run()
    finish(train, done)
    script.drop(str(script.pods[done.uid].node))
    train.wait(3)
    assert not train.stops
    script.gone(script.pods[done.uid])
    goes_on(restarted(train) if restarts else train, others)


@pytest.mark.parametrize("restarts", [False, True])
def test_the_room_of_a_slot_that_is_done_is_free_when_its_pod_is_gone(restarts: bool) -> None:
    script = Script(*cluster("a: 2x8"), limits=LIMITS)
    train = Controlled(script, job(2))
    done, _ = train.run()
    home = script.pods[done.uid].node
    finish(train, done)
    script.gone(script.pods[done.uid])
    if restarts:
        train = restarted(train)
    train.wait(3)
    (rival,) = gang("rival", 1)
    train.script.see(rival)
    assert train.script.planned(rival) == home
    train.script.run([rival])
    train.wait(20)
    assert not train.stops


def test_the_room_that_is_kept_for_a_slot_is_free_when_the_status_says_that_it_is_done() -> None:
    """The watch may show before that its pod is gone."""
    script = Script(*cluster("a: 2x8"), limits=LIMITS)
    train = Controlled(script, job(2))
    done, _ = train.run()
    script.change(script.pods[done.uid], phase="Succeeded")
    script.gone(script.pods[done.uid])
    (rival,) = gang("rival", 1)
    script.see(rival)
    assert not script.planned(rival)
    train.show(done=frozenset({done.identity}))
    train.wait(1)
    assert script.planned(rival)
    assert not train.stops


@pytest.mark.parametrize("restarts", [False, True])
def test_a_pod_that_is_made_again_needs_no_other_to_start_when_all_others_are_done_and_gone(restarts: bool) -> None:
    """No other pod of its start is bound any more: it starts by itself, as the last that the job lacks."""
    script = Script(*cluster("a: 3x8"), limits=LIMITS)
    train = Controlled(script, job(3))
    done, other, failed = train.run()
    home = script.pods[failed.uid].node
    finish(train, done, other)
    script.drop(str(script.pods[done.uid].node))
    script.gone(script.pods[done.uid], script.pods[other.uid])
    script.change(script.pods[failed.uid], phase="Failed")
    script.gone(script.pods[failed.uid])
    if restarts:
        train = restarted(train)
    train.wait(60)
    assert not train.stops, "its controller may wait for minutes before it makes it again"
    script = train.script
    script.see(again := reborn(failed))
    assert script.planned(again) == home
    script.run([again])
    train.wait(3)
    assert script.bound([again]) == [home]
    assert not train.stops
    assert script.reason("job") == "Running"


def test_two_pods_that_are_made_again_start_together_beside_one_that_is_done_and_gone() -> None:
    script = Script(*cluster("a: 3x8"), limits=LIMITS)
    train = Controlled(script, job(3))
    done, *failed = train.run()
    finish(train, done)
    script.gone(script.pods[done.uid])
    start_together(train, *failed)


def test_a_running_pod_whose_node_is_lost_stops_its_job_although_another_one_is_done() -> None:
    script = Script(*cluster("a: 3x8"), limits=LIMITS)
    train = Controlled(script, job(3))
    done, other, _ = train.run()
    finish(train, done)
    script.drop(lost := str(script.pods[other.uid].node))
    train.wait(3)
    assert len(train.stops) == 1
    assert lost in train.stops[0]


def test_what_was_done_is_planned_as_its_status_says_when_the_job_starts_again() -> None:
    script = Script(*cluster("a: 2x8"), limits=LIMITS)
    train = Controlled(script, job(2))
    done, other = train.run()
    finish(train, done)
    train.delete()
    (podset,) = train.seen.podsets.podsets
    left = replace(podset, minimum=1, left_out=frozenset({0}))
    podsets = replace(train.seen.podsets, podsets=(left,))
    train.show(suspended=True, stopped=True, podsets=podsets, done=frozenset(), plan=None, marked=False)
    train.wait(1)
    assert [bool(node) for node in train.starts[-1].plan[""]] == [False, True]
    (again,) = train.create()
    script.run([again])
    train.wait(3)
    assert (again.index, script.bound([again]) != []) == (other.index, True)
    assert not train.stops


@pytest.mark.parametrize("restarts", [False, True])
def test_a_job_without_indexes_goes_on_when_a_pod_that_has_ended_well_goes_with_its_node(restarts: bool) -> None:
    script = Script(*cluster("a: 3x8"), limits=LIMITS)
    train = Controlled(script, job(3, indexed=False))
    done, *others = train.run()
    finish(train, done)
    script.drop(str(script.pods[done.uid].node))
    script.gone(script.pods[done.uid])
    goes_on(restarted(train) if restarts else train, others)


@pytest.mark.parametrize("restarts", [False, True])
@pytest.mark.parametrize("ends", [0, 1, 2])
def test_a_job_without_indexes_keeps_the_room_of_those_that_are_made_again_and_of_no_others(
    ends: int, restarts: bool
) -> None:
    script = Script(*cluster("a: 3x8"), limits=LIMITS)
    train = Controlled(script, job(3, indexed=False))
    pods = train.run()
    done, failed = pods[ends], pods[ends - 1]
    home = script.pods[failed.uid].node
    finish(train, done)
    script.change(script.pods[failed.uid], phase="Failed")
    script.gone(script.pods[failed.uid])
    rival, late = gang("rival", 1), gang("late", 1)
    script.see(*rival)
    script.run(rival)
    assert script.bound(rival) == [script.pods[done.uid].node]
    script.gone(script.pods[done.uid])
    if restarts:
        train = restarted(train)
    script = train.script
    script.see(*late)
    train.wait(5)
    assert (train.stops, script.planned(*late)) == ([], "")
    script.see(again := reborn(failed))
    assert script.planned(again) == home
    script.run([again])
    train.wait(3)
    assert script.bound([again]) == [home]
    assert not train.stops


def test_pods_without_an_index_that_are_made_again_start_together_beside_those_that_have_ended_well() -> None:
    script = Script(*cluster("a: 4x8"), limits=LIMITS)
    train = Controlled(script, job(4, indexed=False))
    done, other, *failed = train.run()
    finish(train, done)
    finish(train, other)
    script.gone(script.pods[done.uid])
    start_together(train, *failed)


def test_a_job_whose_plan_was_removed_is_planned_anew_when_all_that_ran_has_ended_and_another_waits() -> None:
    """A life that has never seen the plan may do this: the waiting pod may have been made for its nodes."""
    script = Script(*cluster("a: 1x8"), limits=LIMITS)
    whole = job(2)
    least = replace(whole.podsets, podsets=(replace(whole.podsets.podsets[0], minimum=1),))
    train = Controlled(script, replace(whole, podsets=least))
    first, second = train.create()
    script.run([first])
    train.show(plan=None, running=True)
    train.wait(3)
    assert not train.stops, "what runs is left alone"
    foreign = single("foreign", gpus=8, node="a-0", scheduler="other")
    script.see(foreign)
    finish(train, first)
    train.wait(3)
    assert train.stops == ["the plan that it was started with was removed"]
    script.gone(second, foreign)
    train.pods.clear()
    train.show(stopped=True)
    train.wait(3)
    assert len(train.starts) == 2


def test_a_job_without_indexes_goes_on_when_its_status_is_behind_its_pods() -> None:
    """Six of eight have ended well, and no more than the two that wait will come."""
    script = Script(*cluster("a: 2x3"), limits=LIMITS)
    whole = job(8, indexed=False, gpus=1)
    least = replace(whole.podsets, podsets=(replace(whole.podsets.podsets[0], minimum=4),))
    train = Controlled(script, replace(whole, podsets=least))
    pods = train.create()
    ran, waiting = pods[:6], pods[6:]
    script.run(ran)
    *early, last = ran
    for pod in early:
        script.change(script.pods[pod.uid], phase="Succeeded")
    train.wait(3)
    script.see(single("foreign", gpus=2, node=script.pods[last.uid].node, scheduler="other"))
    script.change(script.pods[last.uid], phase="Succeeded")
    train.wait(3)
    assert not train.stops
    train.show(closed=4)
    script.run(waiting)
    train.wait(3)
    assert not train.stops
    assert len(script.bound(waiting)) == 2


def test_a_job_that_makes_no_more_pods_is_not_suspended_after_a_restart_while_a_pod_of_it_waits_for_room() -> None:
    """The controller of the suspended job would take it for complete."""
    script = Script(*cluster("a: 1x8"), limits=LIMITS)
    whole = job(3, indexed=False)
    least = replace(whole.podsets, podsets=(replace(whole.podsets.podsets[0], minimum=1),))
    train = Controlled(script, replace(whole, podsets=least))
    first, second, waiting = train.create()
    script.run([first])
    script.gone(second)
    finish(train, first)
    script.see(foreign := single("foreign", gpus=8, node="a-0", scheduler="other"))
    train.wait(3)
    assert not train.stops
    again = restarted(train)
    again.wait(70)
    assert not again.stops
    again.script.gone(foreign)
    again.wait(3)
    again.script.run([waiting])
    again.wait(3)
    assert len(again.script.bound([waiting])) == 1
    assert not again.stops


@pytest.mark.parametrize("closed", [False, True])
def test_room_is_kept_for_pods_without_an_index_that_have_gone_until_the_status_says_that_none_is_made_again(
    closed: bool,
) -> None:
    """All others have ended well, so the job may be over."""
    script = Script(*cluster("a: 2x8"), limits=LIMITS)
    train = Controlled(script, job(2, indexed=False))
    first, second = train.run()
    script.change(script.pods[first.uid], phase="Succeeded")
    script.gone(script.pods[second.uid])
    script.see(rivals := gang("rival", 2, min_member=1))
    train.wait(3)
    assert sum(bool(script.planned(rival)) for rival in rivals) == 1, "that of the pod that has ended"
    train.show(closed=2 if closed else 0)
    train.wait(3)
    assert sum(bool(script.planned(rival)) for rival in rivals) == (2 if closed else 1)
    assert not train.stops


def one_of_two(script: Script) -> tuple[Controlled, Pod, Pod]:
    """A job without indexes that starts with one pod: the pod that runs, and one that waits beyond the plan."""
    whole = job(2, indexed=False)
    least = replace(whole.podsets, podsets=(replace(whole.podsets.podsets[0], minimum=1),))
    train = Controlled(script, replace(whole, podsets=least))
    runs, waits = train.create()
    script.run([runs])
    train.wait(3)
    return train, runs, waits


@pytest.mark.parametrize("status_first", [False, True])
def test_a_pod_beyond_the_plan_gets_the_slot_of_one_that_has_ended_well_whatever_the_watch_shows_first(
    status_first: bool,
) -> None:
    script = Script(*cluster("a: 1x8"), limits=LIMITS)
    train, runs, waits = one_of_two(script)
    if status_first:
        train.show(closed=1)
        script.change(script.pods[runs.uid], phase="Succeeded")
    else:
        finish(train, runs)
    script.gone(script.pods[runs.uid])
    train.wait(3)
    for each in (train, restarted(train)):
        (slot,) = each.script.gang("job").members.slots.templates
        assert each.script.gang("job").members.slots.pods(slot) == [waits.uid]


@pytest.mark.parametrize("restarts", [False, True])
def test_a_pod_for_the_slot_of_one_that_has_ended_well_says_why_it_waits_when_its_node_is_gone(restarts: bool) -> None:
    script = Script(*cluster("a: 1x8"), *cluster("b: 1x1"), limits=LIMITS)
    train, runs, _ = one_of_two(script)
    finish(train, runs)
    script.drop("a-0")
    script.gone(script.pods[runs.uid])
    train.wait(3)
    script = (restarted(train) if restarts else train).script
    assert script.gang("job").reached(Stage.BOUND) == 1
    assert "1 more member waits: 0 of 1 members fit at once" in script.message("job")


@pytest.mark.parametrize("restarts", [False, True])
def test_a_pod_beyond_the_plan_displaces_none_that_has_ended_well_where_there_is_no_room_for_it(restarts: bool) -> None:
    """Otherwise too few count, and the job is suspended with the pod that runs."""
    script = Script(*cluster("a: 4x8"), limits=LIMITS)
    whole = job(4, indexed=False)
    least = replace(whole.podsets, podsets=(replace(whole.podsets.podsets[0], minimum=2),))
    train = Controlled(script, replace(whole, podsets=least))
    done, runs, *lost = train.run()
    for pod in [script.pods[pod.uid] for pod in lost]:
        script.gone(script.pods[pod.uid])
        script.drop(str(pod.node))
        script.see(replace(reborn(pod), index=None))
    train.wait(3)
    finish(train, done)
    script.drop(str(script.pods[done.uid].node))
    script.gone(script.pods[done.uid])
    train.wait(3)
    for each in (train, restarted(train)) if restarts else (train,):
        assert not each.stops
        assert each.script.gang("job").reached(Stage.BOUND) == 2
        assert each.script.bound([runs])
        assert "2 more members wait" in each.script.message("job")
