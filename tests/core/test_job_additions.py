"""The pods of a job request more than their template: the next plan is made for the requests of real pods."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from extender.core.ledger.claims import SlotOf
from policies.model import Constraints, HostPort, Job, Node, PodSet, PodSets, Requests, Selection, Taint, Toleration
from tests.builders import cluster, key, reborn, single
from tests.core.jobs import Controlled, job, template
from tests.core.script import Script

PLANNED: Requests = (("cpu", 16_000), ("nvidia.com/gpu", 8), ("pods", 1))
LARGER: Requests = (("cpu", 16_100), ("nvidia.com/gpu", 8), ("pods", 1))
TOLERATED = Selection(tolerations=(Toleration("nvidia.com/gpu", "Exists", "", ""),))


def node(name: str, cpu: int = 16_000, labels: dict[str, str] | None = None, taints: tuple[Taint, ...] = ()) -> Node:
    allocatable = (("cpu", cpu), ("nvidia.com/gpu", 8), ("pods", 110))
    return Node(name, allocatable, labels or {}, taints)


def shaped(name: str = "job", count: int = 2, shape: str = "S", requests: Requests = PLANNED) -> Job:
    """A job whose podset has that shape."""
    made_of = template(name, requests=requests)
    return replace(job(count, name=name), podsets=PodSets(key(name), (PodSet(made_of, count, count, shape=shape),)))


SMALL = (node("a-0"), node("a-1"))
LARGE = (node("b-0", 96_000), node("b-1", 96_000))


def test_a_job_whose_pods_got_a_sidecar_is_planned_for_them_at_its_second_start() -> None:
    script = Script(*SMALL, *LARGE)
    train = Controlled(script, shaped())
    assert set(train.starts[0].plan[""]) == {"a-0", "a-1"}
    train.create(requests=LARGER)
    assert train.stops == [
        "its pods ask for 16.1 cpu, their template for 16 cpu: node a-0, on which one was to run, has no room"
    ]
    train.delete()
    train.show(stopped=True)
    train.wait(5)
    assert set(train.starts[1].plan[""]) == {"b-0", "b-1"}
    pods = train.create(requests=LARGER)
    script.run(pods)
    assert (script.reason("job"), len(train.starts)) == ("Running", 2)


def test_without_room_for_its_real_pods_it_waits_and_says_what_differed() -> None:
    script = Script(*SMALL)
    train = Controlled(script, shaped())
    train.create(requests=LARGER)
    train.delete()
    train.show(stopped=True)
    train.wait(300)
    assert (len(train.starts), len(train.stops)) == (1, 1)
    assert script.reason("job") == "NoRoom"
    assert script.message("job").startswith("its pods ask for 16.1 cpu, their template for 16 cpu: 0 of 2 members fit")
    script.see(*LARGE)
    train.wait(5)
    assert len(train.starts) == 2


@pytest.mark.parametrize("others", ["S", "T", ""])
def test_another_job_of_the_shape_that_waits_is_planned_with_it(others: str) -> None:
    script = Script(*SMALL)
    first = Controlled(script, shaped("first"))
    second = Controlled(script, shaped("second", shape=others))
    assert not second.starts
    first.create(requests=LARGER)
    first.delete()
    first.show(stopped=True, finished=True)
    second.wait(10)
    assert bool(second.starts) is (others != "S")
    script.see(*LARGE)
    second.wait(10)
    assert set(second.starts[-1].plan[""]) == ({"b-0", "b-1"} if others == "S" else {"a-0", "a-1"})


def test_pods_that_ask_for_what_their_template_says_end_it() -> None:
    """The injector has gone."""
    script = Script(*SMALL, *LARGE)
    first = Controlled(script, shaped("first"))
    first.create(requests=LARGER)
    first.delete()
    first.show(stopped=True)
    first.wait(5)
    first.create()
    second = Controlled(script, shaped("second"))
    assert set(second.starts[0].plan[""]) == {"a-0", "a-1"}


def test_pods_of_one_start_that_differ_are_all_planned_like_the_largest() -> None:
    script = Script(*SMALL, *LARGE)
    train = Controlled(script, shaped())
    train.create(requests=LARGER, only=1)
    train.create()
    train.delete()
    train.show(stopped=True)
    train.wait(5)
    assert set(train.starts[-1].plan[""]) == {"b-0", "b-1"}


@pytest.mark.parametrize(
    ("facts", "good", "words"),
    [
        (
            {"selection": Selection((("pool", "a"),))},
            node("z-0", labels={"pool": "a"}),
            "its pods have the node selector pool=a, which their template does not say",
        ),
        (
            {"constraints": Constraints(ports=(HostPort(80),))},
            node("z-0"),
            "its pods take the host port 80/TCP, which their template does not say",
        ),
    ],
    ids=["selector", "port"],
)
def test_other_demands_are_learnt_too(facts: dict[str, Any], good: Node, words: str) -> None:
    script = Script(node("a-0"))
    taken = Constraints(ports=(HostPort(80),))
    script.see(replace(single("web"), requests=(("pods", 1),), node="a-0", constraints=taken))
    train = Controlled(script, shaped(count=1))
    [pod] = train.create(**facts)
    if pod.constraints.ports:
        script.change(
            pod, refusal="0/1 nodes are available: 1 node(s) didn't have free ports for the requested pod ports."
        )
        train.settle()
    train.delete()
    train.show(stopped=True)
    train.wait(100)
    assert script.message("job").startswith(words)
    assert len(train.starts) == 1
    script.see(good)
    train.wait(10)
    assert train.starts[-1].plan == {"": ("z-0",)}


def test_a_toleration_that_pods_get_opens_tainted_nodes_to_jobs_of_the_shape() -> None:
    script = Script(node("a-0"))
    first = Controlled(script, shaped("first", count=1))
    first.create(selection=TOLERATED)
    script.see(node("z-0", taints=(Taint("nvidia.com/gpu", "present", "NoSchedule"),)))
    second = Controlled(script, shaped("second", count=1))
    assert [start.plan for start in second.starts] == [{"": ("z-0",)}]


def test_what_every_pod_gets_is_no_difference() -> None:
    """The default tolerations, and the node that the plan names."""
    script = Script(*cluster("a: 2x8"))
    train = Controlled(script, shaped(count=1, requests=template().requests))
    every = tuple(
        Toleration(f"node.kubernetes.io/{condition}", "Exists", "", "NoExecute")
        for condition in ("not-ready", "unreachable")
    )
    train.create(selection=Selection(tolerations=every))
    assert not script.core.state.additions.difference(train.seen.podsets)


@pytest.mark.parametrize("larger", [False, True])
def test_pods_of_another_job_are_no_reason_to_suspend_one_that_runs(*, larger: bool) -> None:
    """A pod of it is to be replaced just then. ``larger``: so is the replacement, for which its node has no room."""
    script = Script(*SMALL, *LARGE)
    first, second = Controlled(script, shaped("first")), Controlled(script, shaped("second"))
    lost, _ = first.run()
    script.change(lost, phase="Failed")
    script.gone(script.pods[lost.uid])
    second.create(requests=LARGER)
    first.settle()
    assert not first.stops
    again = replace(reborn(lost), requests=LARGER if larger else PLANNED)
    script.see(again)
    first.settle()
    assert bool(first.stops) is larger
    assert script.planned(again) == ("" if larger else "a-0")


def test_room_for_pods_of_a_running_job_that_are_to_come_grows_with_its_own() -> None:
    script = Script(*LARGE)
    train = Controlled(script, shaped())
    pods = train.run()
    for pod in pods:
        script.change(pod, phase="Failed")
        script.gone(script.pods[pod.uid])
    script.see(replace(reborn(pods[0]), requests=LARGER))
    train.settle()
    kept = script.core.state.claims.get(SlotOf(key("job"), pods[1].identity))
    assert kept is not None
    assert kept.requests == LARGER
    assert not train.stops


def test_a_job_that_ran_is_planned_again_with_what_pods_of_its_shape_ask_for() -> None:
    script = Script(*SMALL, *LARGE)
    first, second = Controlled(script, shaped("first")), Controlled(script, shaped("second"))
    first.run()
    second.create(requests=LARGER)
    second.delete()
    second.show(finished=True)
    first.show(suspended=True)
    first.delete()
    first.show(stopped=True, plan=None)
    first.wait(5)
    first.show(marked=False)
    first.wait(60)
    assert set(first.starts[-1].plan[""]) == {"b-0", "b-1"}
