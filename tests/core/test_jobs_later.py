"""What becomes of a job that is started: restarts, waves, others who suspend it, refusals, and lost pods."""

from __future__ import annotations

from dataclasses import replace

from extender.core.answers import JobWritten, Outcome
from extender.core.effects import StartJob, SuspendJob
from policies.model import Pod, PodSet, Requirement, Selection
from tests.builders import cluster, single
from tests.core.jobs import Controlled, job, template
from tests.core.script import Script


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
    [start] = [one for one in script.effects if isinstance(one, StartJob)]
    assert start.job.suspended
    script.drop("a-0")
    train.settle()
    [stop] = [one for one in script.effects if isinstance(one, SuspendJob)]
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
    """Its pods ask for the nodes of their plan, and its template for none: it is planned by the template."""
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
