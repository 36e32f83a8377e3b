"""What is explained of a gang that the nodes do not suit: closed to its pods, too few, too small or not named."""

from __future__ import annotations

from dataclasses import replace

import pytest

from extender.observe.topology import domains
from policies.model import Pod, Requirement, Selection, Taint
from tests.builders import busy, cluster, gang, node, requests
from tests.core.script import Script
from tests.explaining import CLIQUE_ONLY, HOST, explained


def test_a_cordoned_node_with_room_is_a_remedy() -> None:
    nodes = [node("a-0", clique="a"), node("a-1", clique="a", unschedulable=True)]
    said = explained("wait", *nodes, *gang("wait", 2))
    assert said.remedies[0] == "put 1 node with room back in service (enough): a-1 (cordoned)"
    assert said.domains[0].free == 1


@pytest.mark.parametrize(
    ("taint", "facts", "told"),
    [
        ("node.kubernetes.io/unschedulable", {"unschedulable": True}, "cordoned"),
        ("node.kubernetes.io/not-ready", {"ready": False}, "not ready"),
        ("node.kubernetes.io/disk-pressure", {}, "node.kubernetes.io/disk-pressure"),
    ],
)
def test_a_taint_of_a_node_that_cannot_be_used_is_not_to_be_tolerated(
    taint: str, facts: dict[str, bool], told: str
) -> None:
    """The controllers of Kubernetes taint such a node."""
    shut = replace(node("a-1"), taints=(Taint(taint, "", "NoSchedule"),), **facts)  # type: ignore[arg-type]
    nodes = [node("a-0"), shut]
    said = explained("wait", *nodes, *gang("wait", 2))
    assert said.remedies[0] == f"put 1 node with room back in service (enough): a-1 ({told})"
    assert not any("toleration" in one for one in said.remedies)


def test_a_taint_that_nobody_tolerates_is_a_remedy() -> None:
    nodes = [node("a-0"), node("a-1", taints=(Taint("team", "blue", "NoSchedule"),))]
    said = explained("wait", *nodes, *gang("wait", 2))
    assert said.remedies[0] == (
        "add a toleration of team=blue:NoSchedule to its pods, or take the taint off: it would fit now, on 2 nodes"
    )


def test_taints_that_are_in_the_way_together_are_a_remedy_together() -> None:
    blue, gpus = Taint("team", "blue", "NoSchedule"), Taint("nvidia.com/gpu", "present", "NoSchedule")
    said = explained("wait", node("a-0", taints=(blue,)), node("a-1", taints=(gpus,)), *gang("wait", 2))
    assert said.remedies[0] == (
        "add a toleration of nvidia.com/gpu=present:NoSchedule, team=blue:NoSchedule to its pods, or take the taint "
        "off: it would fit now, on 2 nodes"
    )
    said = explained("wait", node("a-0", taints=(gpus,)), node("a-1", unschedulable=True), *gang("wait", 2))
    assert said.remedies[0] == (
        "put a-1 back in service and add a toleration of nvidia.com/gpu=present:NoSchedule to its pods: it would fit "
        "now"
    )


def test_what_no_domain_could_ever_hold_is_said_first() -> None:
    said = explained("wait", *cluster("a: 2x8", "b: 2x8"), *gang("wait", 3, topology=CLIQUE_ONLY))
    assert said.remedies[0] == (
        "require a wider level or use fewer pods: even empty, the largest clique fits 2 of 3 (8 GPUs each)"
    )
    assert not any("more node" in one for one in said.remedies)
    said = explained("wait", *cluster("a: 2x8"), *gang("wait", 3))
    assert said.remedies[0] == "add nodes or use fewer pods: even empty, the nodes that match fit 2 of 3 (8 GPUs each)"


def test_nodes_that_its_selector_leaves_out_count_for_nothing() -> None:
    chosen = Selection(node_selector=(("pool", "blue"),))
    nodes = [*cluster("a: 4x8"), node("blue", labels={"pool": "blue"})]
    said = explained("wait", *nodes, *gang("wait", 2, selection=chosen))
    assert said.remedies == [
        "label a-0 with pool=blue: it would fit there now",
        "take pool=blue out of the node selector of its pods, or correct it: it would fit now, on 2 nodes",
        "1 more node with 8 GPUs free in the cluster, with labels pool=blue",
    ]
    others = [node("x", labels={"pool": "red"}), node("y", labels={"pool": "green"})]
    said = explained("wait", *others, *gang("wait", 2, selection=chosen))
    assert said.remedies == [
        "add or label nodes that match the node selector pool=blue of its pods: no node does",
        "take pool=blue out of the node selector of its pods, or correct it (nodes have pool=green, red): it would fit "
        "now, on 2 nodes",
        "2 more nodes with 8 GPUs free in the cluster, with labels pool=blue",
    ]


def test_nodes_that_do_not_reach_its_volumes_are_no_remedy() -> None:
    def wait(size: int, *nodes: str) -> list[Pod]:
        local = ((Requirement("kubernetes.io/hostname", "In", nodes),),)
        return gang("wait", size, selection=Selection(volumes=(local,)))

    said = explained("wait", *cluster("a: 3x8"), *wait(2, "gone"))
    assert said.remedies == [
        "bring back a node that reaches all volumes of a pod and matches its selector, or move the data"
    ]
    said = explained("wait", *cluster("a: 3x8"), *wait(2, "a-1"))
    assert said.remedies == [
        "move volumes or use fewer pods: even empty, the nodes that match fit 1 of 2 (8 GPUs each)"
    ]
    said = explained("wait", *cluster("a: 3x8"), *busy("a-1", 8), *wait(1, "a-1"))
    assert said.remedies == [
        "wait for pod default/busy-a-1 to finish: that frees enough in the cluster",
        "1 more node with 8 GPUs free in the cluster, on nodes that reach its volumes",
    ]


def test_pods_that_are_pinned_are_to_be_deleted() -> None:
    def pinned(name: str) -> list[Pod]:
        term = (Requirement("metadata.name", "In", (name,), is_field=True),)
        return gang("wait", 2, gpus=4, selection=Selection(affinity=(term,)))

    said = explained("wait", *cluster("a: 2x8"), *pinned("gone"))
    assert said.remedies == [
        "delete wait-0 and wait-1 and create new pods: the nodes are gone, and no pod can be unpinned from its nodes"
    ]
    said = explained("wait", *cluster("a: 2x8"), *busy("a-1", 8), *pinned("a-1"))
    assert said.remedies == [
        "delete wait-0 and wait-1 and create new pods, as no pod can be unpinned from its nodes: it would fit now, on "
        "1 node",
        "wait for pod default/busy-a-1 to finish: that frees enough in the cluster",
        "room for 2 more members (4 GPUs each) in the cluster, of those that its pods name",
    ]


@pytest.mark.parametrize("by", ["selector", "label", "field"])
def test_a_node_more_is_no_remedy_for_pods_that_name_their_nodes(by: str) -> None:
    def wait(size: int, name: str) -> list[Pod]:
        field = Requirement("metadata.name", "In", (name,), is_field=True)
        terms = {
            "selector": Selection(node_selector=((HOST, name),)),
            "label": Selection(affinity=((Requirement(HOST, "In", (name,)),),)),
            "field": Selection(affinity=((field, Requirement(HOST, "Exists", ())),)),
        }
        return gang("wait", size, selection=terms[by])

    nodes = [replace(one, labels={**one.labels, HOST: one.name}) for one in cluster("a: 3x8")]
    said = explained("wait", *nodes, *busy("a-1", 8), *wait(1, "a-1"))
    assert said.remedies == [
        "wait for pod default/busy-a-1 to finish: that frees enough in the cluster",
        "1 more node with 8 GPUs free in the cluster, of those that its pods name",
    ]
    said = explained("wait", *nodes, *wait(2, "a-1"))
    assert said.remedies == [
        "name more nodes or use fewer pods: even empty, the nodes that match fit 1 of 2 (8 GPUs each)"
    ]
    said = explained("wait", *nodes, *wait(1, "gone"))
    assert said.remedies == [
        "name other nodes in the node selector or affinity of the pods, or bring those back: none of them is there"
    ]


def test_nothing_is_said_wrongly_when_there_is_no_node_at_all() -> None:
    said = explained("wait", *gang("wait", 2))
    assert said.remedies == ["add nodes: there are none", "room for 2 more members (8 GPUs each) in the cluster"]
    assert domains(Script().core.state) == []


def test_requests_that_no_node_offers_are_no_traceback() -> None:
    odd = tuple(sorted((*requests(1), ("example.com/fpga", 1))))
    said = explained("wait", *cluster("a: 2x8"), *[replace(pod, requests=odd) for pod in gang("wait", 2)])
    assert "even empty, no node that matches has 1 example.com/fpga" in said.remedies[0]


def test_a_pod_that_is_larger_than_any_node_is_told_so() -> None:
    """More nodes of that kind would not help, nor would fewer members."""
    said = explained("wait", *cluster("a: 4x8"), *gang("wait", 2, gpus=16, topology=CLIQUE_ONLY))
    assert said.remedies[0].startswith("use smaller pods or add larger nodes: even empty, no node that matches has")
    assert "16 nvidia.com/gpu" in said.remedies[0]
    assert not any("fewer pods" in one or "wider level" in one for one in said.remedies)
    assert "even empty, no node is large enough: at most 8 nvidia.com/gpu" in said.gang.message
