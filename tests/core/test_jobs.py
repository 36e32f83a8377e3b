"""A job is planned while suspended, started by one write with its plan, and suspended again when the plan is lost.

Once started it meets restarts, waves, clients who suspend it, refusals, and lost pods.
"""

from __future__ import annotations

from dataclasses import replace

import pytest

from extender.core.answers import JobWritten, Outcome
from extender.core.effects import Nominate, StartJob, SuspendJob, Ungate
from extender.core.events import JobSeen
from policies.model import Pod, PodSet, PodSets, Requirement, Selection
from tests.builders import cluster, gang, key, single
from tests.core.jobs import Controlled, job, template
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
    assert [start.plan for start in nothing.starts] == [{}]
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
    assert not [effect for effect in script.effects if isinstance(effect, Nominate | Ungate)]


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
    train.show(delay="its controller creates its pods again after a pause")
    train.wait(45)
    assert train.stops == ["its controller creates its pods again after a pause"]


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
    first, other = gang("job", 2, gpus=8)
    bound, foreign = replace(first, node="a-0"), replace(single("foreign", gpus=8), node="a-1", phase="Running")
    script = Script(*cluster("a: 2x8"), bound, other, foreign, synced=False)
    script.feed(JobSeen(replace(job(2), suspended=False, stopped=False, running=True)))
    script.feed_synced()
    script.advance(5)
    assert script.reason("job") == "NoRoom"
    assert [code for code, _ in script.reports] == ["NoRoom"]


def test_a_restart_takes_the_plan_from_the_job() -> None:
    script = Script(*cluster("a: 4x8"))
    train = Controlled(script, job(4))
    pods = train.create(only=2)
    later = Script(*cluster("a: 4x8"), synced=False, now=script.now)
    again = Controlled(later, train.seen)
    later.see(*pods)
    later.feed_synced()
    again.settle()
    assert not again.stops
    assert [later.planned(pod) for pod in pods] == list(train.starts[0].plan[""][:2])
    assert len(later.core.state.claims) == 4


def test_a_plan_that_does_not_hold_after_a_restart_is_taken_back() -> None:
    script = Script(*cluster("a: 2x8", "b: 2x8"))
    train = Controlled(script, job(2, level="clique"))
    clique = train.starts[0].plan[""][0][0]
    taken = replace(single("other", gpus=8), node=f"{clique}-0", phase="Running")
    later = Script(*cluster("a: 2x8", "b: 2x8"), taken, synced=False, now=script.now)
    again = Controlled(later, train.seen)
    later.feed_synced()
    again.settle()
    assert len(again.stops) == 1
    again.wait(5)
    assert {node[0] for node in again.starts[0].plan[""]} == {"b" if clique == "a" else "a"}


def test_a_suspension_names_the_node_of_its_first_pod_where_several_are_lost() -> None:
    script = Script(*cluster("a: 8x8"))
    train = Controlled(script, job(8))
    pods = train.run()
    later = Script(synced=False, now=script.now)
    again = Controlled(later, train.seen)
    later.see(*(script.pods[pod.uid] for pod in pods))
    later.feed_synced()
    again.wait(60)
    [why] = again.stops
    assert why.startswith(f"node {script.pods[pods[0].uid].node}, on which pods of it run"), why


def test_its_controller_may_make_all_its_pods_anew() -> None:
    script = Script(*cluster("a: 2x8"))
    train = Controlled(script, job(2))
    train.run()
    train.restart()
    pods = list(train.pods.values())
    assert [script.planned(pod) for pod in pods] == list(train.starts[0].plan[""])
    script.run(pods)
    assert len(script.bound(pods)) == 2
    assert not train.stops


def test_later_waves_have_their_room_before_the_first_starts() -> None:
    script = Script(*cluster("a: 3x8"))
    launcher = PodSet(template(series="launcher", gpus=8), 1, 1, indexed=False, wave=1)
    train = Controlled(script, job(2, launcher))
    [start] = train.starts
    assert start.minimum == 2
    assert len(start.plan["launcher"]) == 1
    workers = [pod for pod in train.create(only=2) if not pod.series]
    script.run(workers)
    assert len(script.bound(workers)) == 2, "they do not wait for the launcher"
    [last] = train.create()
    script.run([last])
    assert script.bound([last]) == list(start.plan["launcher"])


def test_jobs_whose_pods_are_yet_to_come_hold_others_up_only_so_far() -> None:
    script = Script(*cluster("a: 900x8"), checked=100)
    large = Controlled(script, job(580))
    small = Controlled(script, job(8, name="small"))
    other = Controlled(script, job(100, name="other"))
    assert (len(large.starts), len(small.starts), len(other.starts)) == (1, 1, 0)
    assert script.reason("other") == "Creating"
    large.create(only=400)
    other.wait(3)
    assert len(other.starts) == 1


def test_a_job_that_ends_or_goes_gives_its_room_back() -> None:
    script = Script(*cluster("a: 2x8"))
    train = Controlled(script, job(2))
    train.show(finished=True)
    assert not len(script.core.state.claims)
    train.gone()
    assert not script.core.state.workloads
    again = Controlled(script, replace(job(2), owner=job(2).owner._replace(uid="uid-again")))
    assert len(again.starts) == 1


def test_kube_scheduler_refusing_a_node_starts_it_over_around_that_node() -> None:
    script = Script(*cluster("a: 3x8"))
    train = Controlled(script, job(2))
    pods = train.create()
    node = script.planned(pods[0])
    others = [f"a-{number}" for number in range(3) if f"a-{number}" != node]
    assert not script.filter(pods[0], others)
    train.settle()
    assert len(train.stops) == 1
    assert node in train.stops[0]
    train.delete()
    train.show(stopped=True)
    train.wait(3)
    assert node not in train.starts[-1].plan[""]


def test_one_that_turns_out_to_have_pods_while_it_rests_is_not_planned() -> None:
    script = Script(*cluster("a: 1x8"))
    train = Controlled(script, job(1), obeys=False)
    script.feed(JobWritten(train.seen.key, train.seen.uid, Outcome.REFUSED, "it has changed"))
    train.create()
    train.show(stopped=False)
    train.wait(3)
    assert script.reason("job") == "Stopping"
    assert len(train.starts) == 1


def test_effects_name_the_job_as_it_was_seen() -> None:
    script = Script(*cluster("a: 2x8"))
    train = Controlled(script, job(2))
    [start] = [effect for effect in script.effects if isinstance(effect, StartJob)]
    assert start.job.suspended
    script.drop("a-0")
    train.settle()
    [stop] = [effect for effect in script.effects if isinstance(effect, SuspendJob)]
    assert stop.job.uid == start.job.uid


def test_pods_on_a_silent_node_that_nobody_has_told_to_go_are_waited_for() -> None:
    script = Script(*cluster("a: 4x8"))
    train = Controlled(script, job(2))
    pods = train.run()
    lost = script.core.state.pods[pods[0].uid].node or ""
    script.see(replace(script.core.state.claims.nodes[lost], ready=False))
    train.show(suspended=True, stopped=True)
    script.change(pods[1], deleting=True)
    script.gone(script.pods[pods[1].uid])
    train.wait(3)
    assert len(train.starts) == 1, "the watch has yet to show that the other one is deleted"
    script.change(pods[0], deleting=True)
    train.wait(3)
    assert len(train.starts) == 2
    assert lost not in train.starts[1].plan[""]


def test_a_lost_pod_of_a_job_leaves_its_room_to_its_slot_alone() -> None:
    script = Script(*cluster("a: 2x8"))
    train = Controlled(script, job(2))
    pods = train.create()
    script.bind_all(pods)
    script.post(script.pods[next(iter(script.bindings))])
    waiting = next(pod for pod in pods if not script.core.state.pods[pod.uid].node)
    script.change(waiting, deleting=True)
    script.gone(script.pods[waiting.uid])
    script.feed_outcome(waiting.uid, Outcome.REFUSED)
    train.pods.pop(waiting.uid)
    [again] = train.create()
    assert script.planned(again) == train.starts[0].plan[""][again.index or 0]


def test_a_node_that_lost_its_devices_under_a_failed_pod_starts_the_job_over() -> None:
    script = Script(*cluster("a: 2x16", "b: 1x16"))
    train = Controlled(script, job(4))
    pods = train.run()
    node = script.core.state.pods[pods[0].uid].node or ""
    known = script.core.state.claims.nodes[node]
    fewer = tuple((name, 8 if name == "nvidia.com/gpu" else amount) for name, amount in known.allocatable)
    script.see(replace(known, allocatable=fewer))
    script.change(pods[0], phase="Failed")
    train.settle()
    assert len(train.stops) == 1
    assert node in train.stops[0]


WORDS = "0/4 nodes are available: 2 node(s) had no available volume zone"


def led(script: Script, count: int) -> tuple[Controlled, list[Pod]]:
    """A job that has been started, and its pods, which their template leads to the nodes of the plan."""
    train = Controlled(script, job(count))
    nodes = train.starts[-1].plan[""]
    names = tuple((Requirement("metadata.name", "In", (node,), is_field=True),) for node in nodes)
    return train, train.create(selection=Selection(affinity=names))


def start_over(train: Controlled) -> tuple[str, ...]:
    """The nodes of its next plan."""
    started = len(train.starts)
    train.delete()
    train.show(stopped=True)
    while len(train.starts) == started:
        train.wait(1)
    return train.starts[-1].plan[""]


def test_nodes_that_plugins_refuse_to_pods_led_to_them_are_planned_around_when_the_job_is_started_over() -> None:
    """The job's pods ask for the nodes of their plan, and its template for none: it is planned by the template."""
    script = Script(*cluster("a: 4x8"))
    train, pods = led(script, 2)
    refused = set(train.starts[-1].plan[""])
    for pod in pods:
        script.change(pod, refusal=f"{WORDS}.")
    while not train.stops:
        train.wait(0.25)
    assert WORDS in train.stops[0]
    train.delete()
    train.show(stopped=True)
    assert (script.reason("job"), WORDS in script.message("job")) == ("Refused", True), "while it rests"
    assert not refused & set(start_over(train))


def test_a_node_that_refuses_one_pod_while_the_others_are_at_bind_is_planned_around() -> None:
    script = Script(*cluster("a: 3x8"))
    train, pods = led(script, 2)
    node = script.planned(pods[1])
    script.bind(pods[0])
    script.change(pods[1], refusal=f"{WORDS}.")
    train.wait(35)
    assert len(train.stops) == 1
    assert WORDS in train.stops[0]
    assert node not in start_over(train)
