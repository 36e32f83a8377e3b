"""Pods of jobs that kube-scheduler accepts one after the other: in the rounds of the plan, in any order of creation."""

from __future__ import annotations

from dataclasses import replace

import pytest

from policies.model import Constraints, Job, Pod, PodSet, Requirement, Term
from tests.builders import cluster, single
from tests.core.jobs import Controlled, job, template
from tests.core.relations import EVENLY, HOST, NEAR, members, nominated
from tests.core.script import Script


def spread_job(count: int) -> Job:
    made = job(count, gpus=1)
    (podset,) = made.podsets.podsets
    asking = replace(podset, template=replace(podset.template, labels=(("app", "train"),), constraints=EVENLY))
    return replace(made, podsets=replace(made.podsets, podsets=(asking,)))


def pods_of(train: Controlled) -> list[Pod]:
    """The pods as their controller makes them, in the order of their indexes."""
    (podset,) = train.seen.podsets.podsets
    return [replace(pod, uid=f"pod-{pod.index}", name=f"pod-{pod.index}") for pod in podset.pods()]


def test_pods_of_a_job_are_asked_about_in_rounds_whatever_the_order_in_which_they_come() -> None:
    script = Script(*cluster("a: 4x8"))
    train = Controlled(script, spread_job(8))
    nodes = train.starts[0].plan[""]
    pods = pods_of(train)
    script.see(*reversed(pods))
    led = [pod for pod in pods if script.filter(pod)]
    assert sorted(map(script.planned, led)) == sorted(nodes[:4]) == ["a-0", "a-1", "a-2", "a-3"]
    assert nominated(script, pods) == [], "nothing is written on those that are led by what they are made of"
    script.bind_all(led[:3])
    assert nominated(script, pods) == []
    script.bind(led[3])
    others = [pod for pod in pods if pod not in led]
    assert nominated(script, pods) == others, "kube-scheduler has tried them, and has to be told"
    script.bind_all(others)
    script.post_all()
    assert len(script.bound(pods)) == 8
    assert not train.stops


def test_pods_of_a_job_wait_for_those_before_them_that_are_yet_to_be_created() -> None:
    script = Script(*cluster("a: 4x8"))
    train = Controlled(script, spread_job(8))
    pods = pods_of(train)
    missing, *first = pods[:4]
    assert script.filter(missing), "kube-scheduler may have seen it already"
    assert not script.filter(pods[4])
    script.see(*first, *pods[4:])
    script.bind_all(first)
    assert nominated(script, pods) == []
    script.see(missing)
    script.bind(missing)
    assert nominated(script, pods) == pods[4:]


@pytest.mark.parametrize("seen", ["before", "afterwards"])
def test_what_a_node_let_in_before_others_went_is_soon_forgotten(seen: str) -> None:
    """The pod that counted in the other domain is gone: the plan is refused for that, not for a limit of the node."""
    pods, other = members(4), single("other", gpus=1, node="a-1", labels=(("app", "train"),))
    script = Script(*cluster("a: 2x8"), other, *pods)
    (first, *_) = nominated(script, pods)
    assert script.planned(first) == "a-0"
    script.bind_all(nominated(script, pods))
    second = next(pod for pod in nominated(script, pods) if pod != first and script.planned(pod) == "a-0")
    if seen == "before":
        script.gone(other)
    script.filter(second, ["a-1"])
    if seen == "afterwards":
        script.gone(other)
    assert not any(script.planned(pod) for pod in pods)
    script.advance(31)
    assert all(script.planned(pod) for pod in pods)


def test_members_that_are_told_later_give_kube_scheduler_no_more_time_to_take_up_those_before_them() -> None:
    script = Script(*cluster("a: 2x8"))
    made = job(3)
    (podset,) = made.podsets.podsets
    asking = replace(podset.template, labels=(("app", "train"),), constraints=NEAR)
    podsets = replace(made.podsets, podsets=(replace(podset, template=asking, minimum=2),))
    train = Controlled(script, replace(made, podsets=podsets))
    pods = train.create()
    script.change(pods[0], refusal="0/2 nodes are available: 1 InterPodAffinity")
    script.advance(15)
    script.see(*cluster("a: 3x8"))
    assert [script.planned(pod) for pod in pods] == ["a-0", "a-1", "a-2"]
    assert nominated(script, pods) == []
    script.advance(5)
    train.settle()
    (why,) = train.stops
    assert why.startswith("kube-scheduler did not take up the placement in time; kube-scheduler says: 0/2 nodes are")


def test_a_pod_that_a_job_can_do_without_does_not_go_where_it_keeps_one_of_the_next_wave_away() -> None:
    made, holder = spread_job(2), single("holder", gpus=8, node="a-2")
    (podset,) = made.podsets.podsets
    first, last = replace(podset, minimum=1), replace(podset, count=1, minimum=1, wave=1)
    last = replace(last, template=replace(podset.template, series="last"))
    script = Script(*cluster("a: 3x8"), holder)
    train = Controlled(script, replace(made, podsets=replace(made.podsets, podsets=(first, last))))
    needed, surplus = replace(podset.template, uid="one", index=0), replace(podset.template, uid="surplus", index=1)
    script.see(needed, surplus)
    script.run([needed])
    train.settle()
    assert not script.planned(surplus)
    assert script.reason("job") == "Running"
    script.see(coming := replace(last.template, uid="last", index=0))
    script.run([coming])
    assert len(script.bound([needed, coming])) == 2
    script.gone(holder)
    assert script.planned(surplus) == "a-2"


def test_a_new_leader_keeps_the_nodes_of_those_that_are_let_in_only_beside_others_that_are_yet_to_come() -> None:
    """The workers come first, and have to be where the master is."""
    near = Constraints(affinity=(Term(HOST, (Requirement("app", "In", ("master",)),), ("default",)),))
    master = PodSet(replace(template(series="master", gpus=1), labels=(("app", "master"),)), 1, 1)
    made = job(3, master, gpus=1)
    workers, *_ = made.podsets.podsets
    workers = replace(workers, template=replace(workers.template, constraints=near))
    train = Controlled(
        Script(*cluster("a: 1x8")), replace(made, podsets=replace(made.podsets, podsets=(workers, master)))
    )
    assert len(train.starts) == 1
    later = Script(*cluster("a: 1x8"), synced=False, now=train.script.now)
    again = Controlled(later, train.seen)
    later.feed_synced()
    again.settle()
    assert not again.stops
