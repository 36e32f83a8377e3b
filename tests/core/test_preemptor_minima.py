"""A preemptor that starts with fewer than all: workloads are evicted only for the fewest members that can start."""

from __future__ import annotations

from dataclasses import replace

from policies.model import Dialect, GroupRef, Pod, PodSet, PodSets, Selection, Topology
from tests.builders import cluster, gang, requests, single
from tests.core.jobs import Controlled, job, template
from tests.core.preempting import Cluster, running
from tests.core.queues import Queued, in_queue, lent, used

SMALL = cluster("a: 1x2")


def roles(*gpus: int) -> list[Pod]:
    """A gang of 4 in two roles of two pods each, of which one has to start; ``gpus``: for a pod of each role."""
    ref = GroupRef("new", Dialect.ANNOTATION, 2, minima=(("ps", 1), ("worker", 1)))
    pods = []
    for role, much in zip(("worker", "ps"), gpus, strict=True):
        for pod in gang("new", 2, priority=10):
            named = replace(pod, uid=f"uid-{role}-{pod.index}", name=f"{role}-{pod.index}", series=role)
            pods.append(replace(named, requests=requests(much), group=ref._replace(role=role)))
    return pods


def test_nobody_goes_for_as_many_members_of_the_wrong_role() -> None:
    script = Cluster(*SMALL)
    running(script, "low", 1, gpus=2)
    script.see(roles(1, 8))
    script.advance(2)
    assert not script.evicted, "two workers would have room, and no parameter server"
    assert "1 of 2 members fit at once" in script.message("new")


def test_others_go_for_the_least_of_each_role() -> None:
    script = Cluster(*SMALL, single("high", gpus=1, node="a-0", priority=100), *cluster("b: 1x1"))
    low = running(script, "low", 1, gpus=1)
    script.see(roles(1, 1))
    script.advance(2)
    assert script.evicted == ["low-0"]
    script.leave(script.pods[low[0].uid])
    assert sorted(filter(None, map(script.planned, roles(1, 1)))) == ["a-0", "b-0"]


def test_nobody_goes_for_as_many_pods_of_the_wrong_part_of_a_job() -> None:
    script = Cluster(*cluster("a: 1x4"))
    running(script, "low", 1, gpus=4)
    parts = [
        PodSet(replace(template("new", gpus, name), priority=10), 4, 2) for name, gpus in (("0-worker", 1), ("1-ps", 8))
    ]
    high = Controlled(script, replace(job(1, name="new"), podsets=PodSets(job(1, name="new").podsets.key, (*parts,))))
    high.wait(2)
    assert not script.evicted


def test_no_more_go_than_the_least_of_each_part_needs_in_slices() -> None:
    """Two and one of two parts, in slices of two: the second one starts with half a slice."""
    script = Cluster(*cluster("a: 1x4"))
    low = running(script, "low", 1, gpus=3)
    running(script, "other", 1, gpus=1, priority=5)
    sliced = {"priority": 10, "topology": Topology(slice_size=2, slice_level="clique")}
    parts = [
        PodSet(template("new", 1, name, **sliced), count, least)
        for name, count, least in (("0-a", 4, 2), ("1-b", 2, 1))
    ]
    high = Controlled(script, replace(job(1, name="new"), podsets=PodSets(job(1, name="new").podsets.key, (*parts,))))
    assert script.evicted == ["low-0"]
    script.leave(script.pods[low[0].uid])
    high.settle()
    (start,) = high.starts
    assert start.plan == {"0-a": ("a-0", "a-0", "", ""), "1-b": ("a-0", "")}


def test_in_a_queue_others_go_for_members_that_find_room_then_where_the_first_ones_find_none() -> None:
    """The first member may only go to a node without candidates, and there is quota of its own for one."""
    script = Queued(*cluster("a: 1x8", "b: 2x8"), things=lent(production=8))
    script.see(single("high", gpus=8, node="a-0", priority=100))
    script.start("own", 1, "research", priority=5)
    borrower = script.start("borrower", 1, "research")
    first, other = in_queue("wants", 2, "production", min_member=1, gpus=8)
    script.see(replace(first, selection=Selection((("kubernetes.io/hostname", "a-0"),))), other)
    script.advance(2)
    assert script.evicted == ["borrower-0"]
    script.leave(*borrower)
    assert (script.planned(first), script.planned(other)) == ("", "b-1")
    assert used(script, "production") == 8
