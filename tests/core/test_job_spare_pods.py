"""Pods that a job can do without, beyond its plan or its minimum: nothing that happens to them starts the job over."""

from __future__ import annotations

from dataclasses import replace

import pytest

from extender.core.answers import Outcome
from extender.core.queue.planner import Statements
from extender.observe.explain.inquiry import inquiries
from policies.model import UNCONSTRAINED, Constraints, Dialect, GroupRef, HostPort, Job, Pod
from policies.model.devices import ClaimUse
from policies.steps import finish
from tests.builders import cluster, single
from tests.core.jobs import Controlled, job, show_again, template
from tests.core.script import Script


def two_of_three(*, indexed: bool = True, constraints: Constraints = UNCONSTRAINED) -> Job:
    """A job of three pods, of which two are enough."""
    whole = job(3, indexed=indexed)
    podset = whole.podsets.podsets[0]
    podset = replace(podset, template=replace(podset.template, constraints=constraints), minimum=2)
    return replace(whole, podsets=replace(whole.podsets, podsets=(podset,)))


def with_one_beyond_its_plan(script: Script) -> tuple[Controlled, list[Pod]]:
    """A job of three pods without indexes, two of them enough, that has run since there was room for two."""
    train = Controlled(script, two_of_three(indexed=False))
    pods = train.create()
    script.run(pods[:2])
    script.see(*cluster("b: 1x8"))
    script.run(pods[2:])
    return train, pods


def test_a_job_that_is_made_smaller_and_keeps_a_pod_beyond_its_plan_gives_room_back() -> None:
    script = Script(*cluster("a: 2x8"))
    train, pods = with_one_beyond_its_plan(script)
    assert len(script.bound(pods)) == 3
    train.show(podsets=job(2, indexed=False).podsets)
    script.gone(script.pods[pods[0].uid])
    del train.pods[pods[0].uid]
    train.wait(3)
    assert len(script.core.state.claims) == 2
    assert not train.stops


@pytest.mark.parametrize("indexed", [True, False])
def test_a_running_job_goes_on_when_the_node_of_a_pod_beyond_its_plan_is_gone(indexed: bool) -> None:
    script = Script(*cluster("a: 2x8"))
    train = Controlled(script, job(2, indexed=indexed))
    train.run()
    train.show(podsets=job(3, indexed=indexed).podsets)
    more = train.create()
    script.see(*cluster("b: 1x8"))
    script.run(more)
    assert script.bound(more) == ["b-0"]
    script.drop("b-0")
    train.wait(3)
    assert not train.stops
    script.drop("a-0")
    train.wait(3)
    assert len(train.stops) == 1


def test_a_start_goes_on_when_the_node_of_a_pod_beyond_its_plan_is_gone() -> None:
    script = Script(*cluster("a: 2x8"))
    train = Controlled(script, two_of_three())
    pods = train.create()
    script.see(*cluster("b: 1x8"))
    assert [script.planned(pod) for pod in pods] == ["a-0", "a-1", "b-0"]
    script.drop("b-0")
    train.wait(3)
    assert not train.stops
    script.run(pods[:2])
    assert script.reason("job") == "Running"


def test_a_start_that_breaks_off_is_completed_when_the_node_of_a_pod_beyond_its_plan_is_gone() -> None:
    script = Script(*cluster("a: 2x8"))
    train = Controlled(script, two_of_three())
    pods = train.create()
    script.see(*cluster("b: 1x8"))
    script.bind_all(pods[:2])
    script.post(script.pods[next(iter(script.bindings))])
    script.drop("b-0")
    script.post(script.pods[next(iter(script.bindings))], Outcome.REFUSED)
    train.wait(3)
    assert not train.stops
    assert [script.planned(pod) for pod in pods[1:]] == ["a-1", ""]
    script.run([pods[1]])
    assert script.reason("job") == "Running"


def test_after_a_restart_a_pod_beyond_the_plan_takes_no_slot_of_one_that_is_bound() -> None:
    script = Script(*cluster("a: 2x8"))
    train, pods = with_one_beyond_its_plan(script)
    known = [replace(script.core.state.pods[pod.uid], index=None) for pod in reversed(pods)]
    later = Script(*cluster("a: 2x8", "b: 1x8"), *known, synced=False, now=script.now)
    again = Controlled(later, train.seen)
    later.feed_synced()
    again.wait(3)
    later.gone(later.pods[pods[2].uid])
    again.wait(3)
    assert not again.stops


def elastic(script: Script, constraints: Constraints = UNCONSTRAINED) -> tuple[Controlled, Pod, str]:
    """Two pods run, the third one has come: the job, that pod, and the node that was planned for it."""
    train = Controlled(script, two_of_three(constraints=constraints))
    script.run(train.create(only=2))
    [third] = train.create(only=1)
    return train, third, train.starts[0].plan[""][2]


def test_a_job_that_runs_is_not_started_over_for_a_refused_pod_that_it_can_do_without() -> None:
    script = Script(*cluster("a: 4x8"))
    train, third, planned = elastic(script)
    others = [node for node in ("a-0", "a-1", "a-2", "a-3") if node != planned]
    script.filter(third, others)
    train.wait(3)
    assert not train.stops
    assert script.planned(third) not in ("", planned)
    script.run([third])
    assert script.reason("job") == "Running"


def test_a_job_that_runs_is_not_started_over_for_the_node_of_a_pod_that_it_can_do_without() -> None:
    script = Script(*cluster("a: 3x8"))
    train, third, planned = elastic(script)
    script.run([third])
    script.change(third, phase="Failed")
    del train.pods[third.uid]
    script.see(single("foreign", gpus=8, node=planned, scheduler="other"))
    [again] = train.create(only=1)
    train.wait(5)
    assert not train.stops
    assert not script.planned(again), "there is no room"


@pytest.mark.parametrize("moved", [False, True])
def test_a_job_that_has_given_up_its_plan_is_started_over_when_none_of_its_own_pods_runs(moved: bool) -> None:
    """``moved``: a pod of others that runs was moved to its gang."""
    nodes = cluster("a: 4x8")
    script = Script(*nodes)
    train = Controlled(script, job(1))
    (planned,) = train.run()
    train.show(podsets=job(2).podsets)
    script.run(spare := train.create())
    script.see(single("other", gpus=8, node="a-3", group=planned.group if moved else None))
    script.see(*(replace(node, unschedulable=True) for node in nodes if [node.name] == script.bound([planned])))
    for pod in (planned, *spare):
        assert not train.stops
        script.gone(script.pods[pod.uid])
        del train.pods[pod.uid]
        train.settle()
    assert len(train.stops) == 1


@pytest.mark.parametrize("restarted", [False, True])
def test_a_job_is_started_over_when_the_pod_that_ran_in_place_of_a_planned_one_is_lost(restarted: bool) -> None:
    script = Script(*cluster("a: 1x8"))
    whole = job(2)
    least = replace(whole.podsets, podsets=(replace(whole.podsets.podsets[0], minimum=1),))
    train = Controlled(script, replace(whole, podsets=least))
    planned, beyond = train.create()
    script.run([planned])
    script.see(*cluster("b: 1x8"))
    script.run([beyond])
    script.change(script.pods[planned.uid], phase="Failed")
    del train.pods[planned.uid]
    script.see(foreign := single("foreign", gpus=8, node="a-0", scheduler="other"))
    [again] = train.create()
    train.wait(1)
    assert not train.stops, "the one beyond the plan is enough"
    script.drop("b-0")
    script.gone(script.pods[beyond.uid])
    if restarted:
        script = Script(*cluster("a: 1x8"), foreign, script.pods[again.uid], synced=False, now=script.now)
        train = Controlled(script, train.seen)
        script.feed_synced()
    train.settle()
    assert len(train.stops) == 1


def test_a_pod_that_a_job_can_do_without_gets_the_node_of_the_one_before_it_when_that_is_gone() -> None:
    script = Script(*cluster("a: 3x8"))
    train, third, planned = elastic(script)
    script.run([third])
    script.change(third, deleting=True)
    del train.pods[third.uid]
    [again] = train.create(only=1)
    assert not script.planned(again)
    script.gone(script.pods[third.uid])
    train.wait(1)
    assert script.planned(again) == planned


def test_a_pod_that_a_job_can_do_without_does_not_wait_for_a_node_where_its_port_is_taken() -> None:
    ports = Constraints((HostPort(80),))
    script = Script(*cluster("a: 3x8"))
    train, third, planned = elastic(script, ports)
    script.run([third])
    script.see(single("web", gpus=0, node=planned, constraints=ports))
    script.change(third, phase="Failed")
    del train.pods[third.uid]
    [again] = train.create(only=1)
    train.wait(1)
    assert not script.planned(again)
    assert not train.stops


STRANGERS: list[tuple[str, dict[str, object]]] = [
    ("of another priority", {"priority": 5}),
    ("of another dialect", {"group": GroupRef("job", Dialect.COSCHEDULING)}),
    ("with an unreadable annotation", {"group": GroupRef("job", Dialect.ANNOTATION, None, "not a number")}),
    ("with resource claims", {"device_claims": (ClaimUse("gpu", "", "gpus"),)}),
    ("with an unbound volume", {"claims": ("data",)}),
]


@pytest.mark.parametrize("facts", [facts for _, facts in STRANGERS], ids=[what for what, _ in STRANGERS])
def test_a_pod_that_others_bring_into_the_gang_of_a_job_that_runs_keeps_no_pod_of_it_back(
    facts: dict[str, object],
) -> None:
    script = Script(*cluster("a: 3x8"))
    train, third, planned = elastic(script)
    foreign = single("foreign", gpus=8, node=planned, scheduler="other")
    script.see(foreign)
    script.change(third, refusal="no room")
    assert not script.planned(third)
    stranger = replace(template(uid="stranger", owner="uid-other"), **facts)  # type: ignore[arg-type]
    script.see(stranger)
    script.gone(foreign)
    train.wait(1)
    assert script.planned(third) == planned
    assert not script.planned(stranger)
    assert script.gang("job").priority == 0
    script.run([third])
    assert script.reason("job") == "Running"
    assert not train.stops


def test_a_pod_that_others_bring_into_the_gang_of_a_job_says_why_it_waits() -> None:
    script = Script(*cluster("a: 4x8"))
    train = Controlled(script, two_of_three())
    script.run(train.create())
    script.see(template(uid="stranger", owner="uid-other", device_claims=(ClaimUse("gpu", "", "gpus"),)))
    train.wait(1)
    assert "1 more member waits: pod job has ResourceClaims, and there is no DeviceClass" in script.message("job")


def test_pods_of_a_job_that_say_different_minimums_do_not_wait_for_that() -> None:
    """The podsets of the job state what it needs."""
    script = Script(*cluster("a: 2x8"))
    train, _ = with_one_beyond_its_plan(script)
    train.show(podsets=job(5, indexed=False).podsets)
    more = train.create()
    script.change(more[0], group=GroupRef("job", Dialect.ANNOTATION, 2))
    script.see(*cluster("c: 2x8"))
    train.wait(1)
    assert sorted(map(script.planned, more)) == ["c-0", "c-1"]


def test_only_what_pods_of_a_job_need_is_explained_while_one_that_others_bring_keeps_none_of_them_back() -> None:
    script = Script(*cluster("a: 3x8"))
    _, third, planned = elastic(script)
    script.see(single("foreign", gpus=8, node=planned, scheduler="other"))
    script.change(third, refusal="no room")
    script.see(template(uid="stranger", owner="uid-other", priority=5))
    script.advance(1)
    state, gang = script.core.state, script.gang("job")
    with state.make(Statements).of(gang) as statement:
        (inquiry,) = finish(inquiries(state, gang, statement))
    assert [pod.uid for pod in inquiry.members] == [third.uid]


@pytest.mark.parametrize("ends", [True, False])
def test_a_pod_beyond_the_plan_that_was_bound_by_us_stays_bound_when_the_job_changes(ends: bool) -> None:
    """The job ends, or is made smaller. An old event of the watch comes after it."""
    script = Script(*cluster("a: 2x8"))
    train = Controlled(script, two_of_three(indexed=False))
    pods = train.create()
    script.run(pods[:2])
    script.see(*cluster("b: 1x8"))
    script.bind(pods[2])
    script.post(pods[2], seen=False)
    if ends:
        train.show(finished=True)
    else:
        train.show(podsets=job(2, indexed=False).podsets)
        script.gone(script.pods[pods[0].uid])
    show_again(script, pods[2])
    assert script.bound(pods[2:]) == ["b-0"]
