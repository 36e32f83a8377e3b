"""Situations that users of other schedulers have reported, each with the outcome that a user calls right."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction

import pytest

from extender.observe.topology import domains
from policies.model import Node, Topology
from policies.model.queues import VOLCANO, Cohort, Evicts, Preemption, QueueObject, VolcanoQueue
from tests.builders import cluster, gang, node, requests, single
from tests.core.levels import asking, homes
from tests.core.preempting import ON, Cluster, running
from tests.core.queues import RECLAIMS, Queued, cluster_queue, flavor, in_queue
from tests.core.script import Script


def with_slots(node_given: Node, pods: int) -> Node:
    """Return the node with room for ``pods`` pods."""
    return replace(node_given, allocatable=tuple(sorted((dict(node_given.allocatable) | {"pods": pods}).items())))


@pytest.mark.parametrize("count", [1, 2, 5])
def test_an_elastic_gang_loses_as_many_pods_as_are_needed(count: int) -> None:
    """Eleven pods with a minimum of 1 fill a node, and few pods of a higher priority come. volcano#5984"""
    script = Cluster(node("n", 0, cpu=11))
    low = running(script, "low", 11, gpus=0, least=1)
    urgent = gang("urgent", count, gpus=0, priority=100)
    script.see(urgent)
    script.advance(0.5)
    assert sorted(script.evicted) == sorted(pod.name for pod in low[11 - count :])
    script.leave(*low[11 - count :])
    assert all(map(script.planned, urgent))
    assert script.gang("low").has_bound_quorum


@pytest.mark.parametrize("count", [1, 2, 5])
def test_an_elastic_gang_gives_back_as_much_as_is_reclaimed(count: int) -> None:
    """The same with a queue of quota 1 that borrows from another one with quota 10. volcano#5994"""
    things: tuple[QueueObject, ...] = (
        flavor("gpus"),
        cluster_queue("small", {"gpus": 1}, cohort="all"),
        cluster_queue("large", {"gpus": 10}, cohort="all", preemption=RECLAIMS),
    )
    script = Queued(node("n", 11, cpu=64), things=things)
    low = in_queue("low", 11, "small", gpus=1, min_member=1)
    script.see(low)
    script.advance(0.5)
    script.run(low)
    assert len(script.bound(low)) == 11
    wants = script.come("wants", count, "large", gpus=1)
    assert sorted(script.evicted) == sorted(pod.name for pod in low[11 - count :])
    script.leave(*low[11 - count :])
    assert all(map(script.planned, wants))
    assert script.gang("low").has_bound_quorum


def test_an_elastic_gang_gives_back_what_its_queue_does_not_deserve() -> None:
    """Queues of Volcano with weights 1 and 10, and eleven pods with a minimum of 1 in the first. volcano#5994"""
    things = VolcanoQueue("small", Fraction(1)), VolcanoQueue("large", Fraction(10))
    script = Queued(node("n", 11, cpu=64), things=things, limits=replace(ON, min_runtime_s=0))
    low = in_queue("low", 11, f"{VOLCANO}small", gpus=1, min_member=1)
    script.see(low)
    script.advance(0.5)
    script.run(low)
    wants = in_queue("wants", 1, f"{VOLCANO}large", gpus=1)
    script.see(wants)
    script.advance(0.5)
    assert script.evicted == ["low-10"]
    script.leave(low[10])
    assert all(map(script.planned, wants))


def tree() -> tuple[QueueObject, ...]:
    """Queue a has quota that b borrows, below a parent; protected is beside the parent and uses its own."""
    rules = Preemption(within=Evicts.LOWER, reclaim=Evicts.ANY)
    return (
        flavor("gpus"),
        Cohort("root"),
        Cohort("parent", "root"),
        cluster_queue("a", {"gpus": 8}, cohort="parent", preemption=rules),
        cluster_queue("b", {"gpus": 0}, cohort="parent", preemption=rules),
        cluster_queue("protected", {"gpus": 8}, cohort="root", preemption=rules),
    )


@pytest.mark.parametrize("least", [-10, 0, 10])
def test_a_protected_bystander_stops_no_rightful_reclaim(least: int) -> None:
    """The bystander is the cheapest by priority, and may not be evicted. KAI-Scheduler#1750"""
    script = Queued(node("n0", 16), things=tree())
    bystander = script.start("bystander", 1, "protected", priority=least)
    borrower = script.start("borrower", 1, "b", priority=5)
    wants = script.come("wants", 1, "a")
    assert script.evicted == ["borrower-0"]
    script.leave(*borrower)
    assert all(map(script.planned, wants))
    assert script.bound(bystander) == ["n0"]


def test_pods_are_evicted_for_the_last_slot_of_a_node_or_nobody_is() -> None:
    """A node takes two pods. The GPUs are held by one of them, the other holds nothing but its slot. kueue#10497"""
    script = Cluster(with_slots(node("n"), 2))
    running(script, "gpus", 1)
    running(script, "slot", 1, gpus=0)
    urgent = gang("urgent", 2, gpus=4, priority=10)
    script.see(urgent)
    script.advance(0.5)
    assert sorted(script.evicted) == ["gpus-0", "slot-0"]
    script.leave(*(script.pods[f"uid-{name}"] for name in ("gpus-0", "slot-0")))
    assert [script.planned(pod) for pod in urgent] == ["n", "n"]


@pytest.mark.parametrize("sizes", [(4, 4), (8, 0), (0, 8)])
def test_slots_are_reclaimed_with_the_gpus_or_nothing_is(sizes: tuple[int, int]) -> None:
    """The same case for a queue that reclaims what another one has borrowed. kueue#10497"""
    things: tuple[QueueObject, ...] = (
        flavor("gpus"),
        cluster_queue("borrows", {"gpus": 0}, cohort="all"),
        cluster_queue("lends", {"gpus": 8}, cohort="all", preemption=RECLAIMS),
    )
    script = Queued(with_slots(node("n"), 2), things=things)
    script.start("gpus", 1, "borrows")
    script.see(slot := single("slot", gpus=0, node="n", priority=-1))
    wants = in_queue("wants", 2, "lends", gpus=4)
    script.see([replace(pod, requests=requests(gpus)) for pod, gpus in zip(wants, sizes, strict=True)])
    script.advance(0.5)
    assert sorted(script.evicted) == ["gpus-0", "slot"]
    script.leave(script.pods["uid-gpus-0"], slot)
    assert [script.planned(pod) for pod in wants] == ["n", "n"]


def test_nobody_is_evicted_where_the_last_slot_cannot_come_free() -> None:
    """The pod without a GPU has a priority of its own. kueue#4439"""
    script = Cluster(with_slots(node("n"), 2))
    running(script, "gpus", 1)
    running(script, "slot", 1, gpus=0, priority=20)
    script.see(gang("urgent", 2, gpus=4, priority=10))
    script.advance(60)
    assert not script.evicted
    assert script.message("urgent").endswith("1 of 2 members fit at once: 1 of 1 nodes have room for 1 pod")


@pytest.mark.parametrize("second", [1, 2], ids=["one shape", "two shapes"])
def test_what_requires_one_machine_waits_for_its_slots_and_starts_when_it_has_them(second: int) -> None:
    """A node with plenty of cpu takes one pod, and two podsets of one pod require that node. kueue#11287, kueue#4270"""
    narrow = with_slots(node("n", 0), 1)
    script = Script(narrow, with_slots(node("other", 0), 1))
    pods = asking(gang("both", 2, gpus=0), Topology(required="kubernetes.io/hostname"))
    pods[1] = replace(pods[1], requests=requests(0, cpu=second))
    script.see(pods)
    script.advance(1)
    assert not any(map(script.planned, pods))
    where = "best has 1 free slot (n); 1 slot short" if second == 1 else "which ask for 2 pods and find 1 free"
    assert where in script.message("both")
    assert "2 of 2 nodes have room for 1 pod" in script.message("both")
    script.see(with_slots(narrow, 2))
    script.advance(1)
    assert [script.planned(pod) for pod in pods] == ["n", "n"]


@pytest.mark.parametrize("levels", [(), ("clique",)], ids=["no level in force", "cliques"])
def test_slices_of_one_machine_each_fill_machines(levels: tuple[str, ...]) -> None:
    """A single machine is a domain for a gang that names it, and for no other. kueue#11287"""
    nodes = [node(f"n{at}", 4, clique="a" if levels else "") for at in range(3)]
    script = Script(*nodes, single("busy", gpus=1, node="n0"))
    pods = gang("sliced", 4, gpus=2)
    sliced = Topology(required="none", slice_size=2, slice_level="kubernetes.io/hostname")
    script.see(asking(pods, sliced))
    first, second = (sorted(map(script.planned, half)) for half in (pods[:2], pods[2:]))
    assert sorted([first, second]) == [["n1", "n1"], ["n2", "n2"]]
    assert all(level.key != "kubernetes.io/hostname" for level in script.core.state.claims.snapshot().levels)


@pytest.mark.parametrize(("had", "left", "asks"), [(8, 6, 6), (4, 3, 1), (8, 0, 1)])
def test_a_gang_waits_where_gpus_have_vanished_under_a_pod(had: int, left: int, asks: int) -> None:
    """The node lists fewer GPUs than are in use there, and the node is touched. volcano#1818, volcano#1782"""
    script = Script(*cluster(f"a: 1x{had}", "b: 1x2"), single("old", gpus=had, node="a-0"))
    script.see(single("other", gpus=2, node="b-0"))
    (shown,) = cluster(f"a: 1x{left}")
    script.see(shown)
    script.see(replace(shown, labels={**shown.labels, "touched": "yes"}))
    new = gang("new", 1, gpus=asks)
    script.see(new)
    script.advance(1)
    assert not script.planned(new[0])
    assert f"nvidia.com/gpu: {had} of {left} in use on a-0" in script.message("new")
    stock = {domain.name: domain.free_gpus for domain in domains(script.core.state)}
    assert stock == {"a": 0, "b": 0}
    script.gone(script.pods["uid-old"])
    script.advance(1)
    assert bool(script.planned(new[0])) == (asks <= left)


def test_two_racks_with_the_same_partition_number_are_two_cliques() -> None:
    """The whole label names the rack. dra-driver#377"""
    script = Script(*cluster("1111-aaaa.17044: 2x4", "2222-bbbb.17044: 2x4"))
    pair = asking(gang("pair", 2, gpus=4), Topology(required="clique"))
    script.see(pair)
    assert len(set(homes(script, pair).split())) == 1
    script.gone(*pair)
    four = asking(gang("four", 4, gpus=4), Topology(required="clique"))
    script.see(four)
    script.advance(1)
    assert "2 cliques, best has 2 free nodes" in script.message("four")
    script.gone(*four)
    split = asking(gang("split", 4, gpus=4), Topology(preferred="clique"))
    script.see(split)
    script.advance(1)
    assert sorted(homes(script, split).split()) == ["1111-aaaa.17044"] * 2 + ["2222-bbbb.17044"] * 2
