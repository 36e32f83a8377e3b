"""A job is planned while suspended, started by one write with its plan, and suspended again when the plan is lost."""

from __future__ import annotations

from dataclasses import replace

import pytest

from extender.core.answers import JobWritten, Outcome
from extender.core.effects import Nominate, Ungate
from extender.core.events import JobSeen
from policies.model import PodSets
from tests.builders import cluster, gang, key, single
from tests.core.jobs import Controlled, job
from tests.core.script import Script


def test_it_is_started_with_a_node_for_every_pod_before_any_exists() -> None:
    script = Script(*cluster("a: 2x8", "b: 4x8"))
    train = Controlled(script, job(4))
    [start] = train.starts
    assert sorted(start.plan[""]) == ["b-0", "b-1", "b-2", "b-3"], "in one clique"
    assert start.minimum == 4
    assert set(script.filter(single("other", gpus=8))) == {"a-0", "a-1"}, "its room is taken"


def test_one_that_ends_without_a_pod_is_started_where_there_is_no_room() -> None:
    script = Script(*cluster("a: 1x8"))
    script.run([single("other", gpus=8)])
    nothing = Controlled(script, replace(job(1), podsets=PodSets(key("job"), ())))
    assert [one.plan for one in nothing.starts] == [{}]
    nothing.wait(300)
    assert not nothing.stops
    nothing.show(finished=True)
    assert nothing.cleaned == 1
    assert (script.reason("job"), script.message("job")) == ("Ended", "its job has ended")


def test_each_pod_fills_its_slot_and_nothing_is_written_on_it() -> None:
    script = Script(*cluster("a: 4x8"))
    train = Controlled(script, job(4))
    pods = train.create()
    assert [script.planned(pod) for pod in pods] == list(train.starts[0].plan[""])
    script.run(pods)
    assert len(script.bound(pods)) == 4
    assert script.reason("job") == "Running"
    assert not [one for one in script.effects if isinstance(one, Nominate | Ungate)]


def test_pods_without_an_index_take_a_slot_each() -> None:
    script = Script(*cluster("a: 3x8"))
    train = Controlled(script, job(3, indexed=False))
    pods = train.run()
    assert sorted(script.bound(pods)) == ["a-0", "a-1", "a-2"]


def test_a_pod_may_pass_filter_before_the_watch_shows_it() -> None:
    script = Script(*cluster("a: 2x8"))
    train = Controlled(script, job(2))
    unseen = replace(next(train.seen.podsets.podsets[0].pods()), uid="unseen")
    assert script.filter(unseen) == (train.starts[0].plan[""][0],)


def test_it_waits_with_the_numbers_when_there_is_no_room() -> None:
    script = Script(*cluster("a: 3x8", "b: 3x8"))
    train = Controlled(script, job(4, level="clique"))
    assert not train.starts
    assert script.reason("job") == "NoRoom"
    assert script.message("job").startswith("3 of 4 members fit at once")
    script.see(*cluster("c: 4x8"))
    train.settle()
    assert len(train.starts) == 1


def test_it_waits_for_what_its_owner_says() -> None:
    script = Script(*cluster("a: 2x8"))
    train = Controlled(script, replace(job(2), held=True))
    assert script.reason("job") == "Held"
    assert not len(script.core.state.claims)
    train.show(held=False, problem="its template has no containers")
    assert (script.reason("job"), script.message("job")) == ("InvalidJob", "its template has no containers")
    train.show(problem="")
    assert len(train.starts) == 1


def test_a_start_that_is_refused_gives_the_room_back_and_is_tried_again_later() -> None:
    script = Script(*cluster("a: 2x8"))
    train = Controlled(script, job(2), obeys=False)
    train.script.feed(JobWritten(train.seen.key, train.seen.uid, Outcome.REFUSED, "a policy says no"))
    assert not len(script.core.state.claims)
    assert "a policy says no" in script.message("job")
    train.obeys = True
    train.wait(3)
    assert len(train.starts) == 2


def test_a_start_in_doubt_is_believed_until_the_watch_has_had_time_to_show_it() -> None:
    script = Script(*cluster("a: 2x8"))
    train = Controlled(script, job(2), obeys=False)
    script.feed(JobWritten(train.seen.key, train.seen.uid, Outcome.UNKNOWN, "no answer"))
    assert len(script.core.state.claims) == 2, "it may have been started"
    train.obeys = True
    train.wait(25)
    assert len(train.starts) == 2


def test_a_start_that_is_written_in_two_steps_is_on_its_way_after_the_first() -> None:
    script = Script(*cluster("a: 2x8"))
    train = Controlled(script, replace(job(2), in_steps=True), obeys=False)
    train.show(marked=True)
    script.feed(JobWritten(train.seen.key, train.seen.uid, Outcome.DONE))
    train.show(marked=True)
    train.obeys = True
    train.show(suspended=False, stopped=False, plan=train.starts[0].plan)
    assert (train.cleaned, len(train.starts), train.stops) == (0, 1, [])
    assert len(script.bound(train.run())) == 2


def test_a_node_that_goes_before_the_pods_are_bound_suspends_it_and_it_is_planned_anew() -> None:
    script = Script(*cluster("a: 2x8", "b: 2x8"))
    train = Controlled(script, job(2, level="clique"))
    first = train.starts[0].plan[""]
    pods = train.create()
    script.bind(pods[0])
    script.drop(first[0])
    train.settle()
    assert len(train.stops) == 1
    assert first[0] in train.stops[0]
    assert "stop" not in script.reason("job").lower() or not script.bound(pods)
    train.delete()
    train.show(stopped=True)
    train.wait(3)
    assert train.cleaned == 1, "what was written on it is taken off"
    assert len(train.starts) == 2
    assert {node[0] for node in train.starts[1].plan[""]} != {first[0][0]}


def test_a_node_that_goes_under_a_running_job_starts_it_over_without_that_node() -> None:
    script = Script(*cluster("a: 3x8"))
    train = Controlled(script, job(2))
    train.run()
    lost = train.starts[0].plan[""][0]
    script.drop(lost)
    train.settle()
    assert train.stops == [train.stops[0]]
    train.delete()
    train.show(stopped=True)
    train.wait(3)
    assert len(train.starts) == 2
    assert lost not in train.starts[1].plan[""]


def test_a_silent_node_is_given_a_minute() -> None:
    script = Script(*cluster("a: 3x8"))
    train = Controlled(script, job(2))
    train.run()
    lost = train.starts[0].plan[""][0]
    node = script.core.state.claims.nodes[lost]
    script.see(replace(node, ready=False))
    train.wait(30)
    script.see(node)
    train.wait(60)
    assert not train.stops, "it has come back"
    script.see(replace(node, ready=False))
    train.wait(65)
    assert len(train.stops) == 1


def test_a_pod_that_fails_keeps_its_room_for_the_one_that_replaces_it() -> None:
    script = Script(*cluster("a: 2x8"))
    train = Controlled(script, job(2))
    pods = train.run()
    node = script.core.state.pods[pods[0].uid].node
    script.change(pods[0], phase="Failed")
    assert node not in script.filter(single("other", gpus=8)), "the room of its slot is kept"
    train.pods[pods[0].uid] = replace(train.pods[pods[0].uid], phase="Failed")
    [again] = train.create()
    assert script.planned(again) == node
    script.run([again])
    assert script.core.state.pods[again.uid].node == node
    assert not train.stops


@pytest.mark.parametrize("backs_off", [False, True])
def test_it_is_suspended_when_its_pods_do_not_come(*, backs_off: bool) -> None:
    script = Script(*cluster("a: 3x8"))
    train = Controlled(script, replace(job(3), backs_off=backs_off))
    train.create(only=1)
    script.bind_all(list(script.pods.values()), expires_s=600)
    train.wait(25)
    assert len(train.stops) == 1
    assert "2 of 3 pods were not created in time" in train.stops[0]
    assert not script.bindings
    train.delete()
    train.show(stopped=True)
    train.wait(5)
    assert len(train.starts) == (1 if backs_off else 2), "it rests as long as its pods were awaited"
    train.wait(20)
    assert len(train.starts) >= 2


def test_why_its_controller_makes_no_pods_is_said_where_it_is_known() -> None:
    script = Script(*cluster("a: 3x8"))
    train = Controlled(script, job(3))
    train.create(only=1)
    script.bind_all(list(script.pods.values()), expires_s=600)
    train.show(delay="its controller makes its pods anew after a pause")
    train.wait(45)
    assert train.stops == ["its controller makes its pods anew after a pause"]


def test_suspended_by_others_it_waits_for_its_pods_to_go_and_starts_again() -> None:
    script = Script(*cluster("a: 2x8"))
    train = Controlled(script, job(2))
    pods = train.run()
    train.show(suspended=True, stopped=True)
    assert len(train.starts) == 1, "its pods are there"
    assert script.reason("job") == "Stopping"
    train.pods = {pod.uid: pod for pod in pods}
    train.delete()
    train.wait(3)
    assert len(train.starts) == 2


@pytest.mark.parametrize("taken", [False, True])
def test_a_job_that_others_suspend_and_start_again_goes_on_by_its_plan_unless_its_room_was_promised_meanwhile(
    *, taken: bool
) -> None:
    script, others = Script(*cluster("a: 2x8")), gang("other", 1)
    train = Controlled(script, job(2))
    train.show(suspended=True)
    if taken:
        script.see(others)
    train.show(suspended=False)
    train.create()
    if taken:
        assert train.stops == [
            f"the room on node {script.planned(others[0])}, on which a pod of it was to run, is gone"
        ]
        return
    assert [script.planned(pod) for pod in train.pods.values()] == list(train.starts[0].plan[""])
    assert script.reason("job") == "Placed"
    assert not train.stops


def test_a_job_that_others_start_is_suspended_unless_it_runs() -> None:
    script = Script(*cluster("a: 2x8"))
    train = Controlled(script, replace(job(2), suspended=False, stopped=False))
    assert train.stops == ["it was started without a plan of Muster's"]
    train.wait(3)
    assert len(train.starts) == 1
    older = Controlled(script, replace(job(2, name="older"), suspended=False, stopped=False, running=True))
    assert not older.stops
    assert script.reason("older") == "NotPlanned"


def test_what_a_pod_of_a_running_job_without_a_plan_waits_for_is_told_after_a_restart() -> None:
    one, other = gang("job", 2, gpus=8)
    bound, foreign = replace(one, node="a-0"), replace(single("foreign", gpus=8), node="a-1", phase="Running")
    script = Script(*cluster("a: 2x8"), bound, other, foreign, synced=False)
    script.feed(JobSeen(replace(job(2), suspended=False, stopped=False, running=True)))
    script.feed_synced()
    script.advance(5)
    assert script.reason("job") == "NoRoom"
    assert [code for code, _ in script.reports] == ["NoRoom"]
