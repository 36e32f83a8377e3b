"""The explanation of a gang: the room in each domain, and what would make it fit, in numbers that are true.

Its nodes may be closed to its pods, too few, too small or not named.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from extender.core.explain.reasons import CODES as REASONS
from extender.observe.explain.remedies import CODES
from extender.observe.topology import domains
from policies.model import (
    CLIQUE,
    Constraints,
    Dialect,
    GroupRef,
    HostPort,
    Pod,
    PodGroup,
    Requirement,
    Selection,
    Spread,
    Taint,
    Term,
    Topology,
)
from policies.model.devices import ClaimUse
from tests.builders import busy, cluster, coscheduled, gang, key, node, reborn, requests, single
from tests.core.jobs import Controlled, job
from tests.core.script import Script
from tests.explaining import CLIQUE_ONLY, DATA, HOST, TRAIN, asking, explain, explained, running


def test_the_domains_are_listed_with_their_room_and_who_has_it() -> None:
    explanation = explained(
        "wait", *cluster("a: 4x8", "b: 4x8"), *running("train-7", "a-0"), *running("train-9", "b-0 b-1"),
        *gang("wait", 4, topology=CLIQUE_ONLY),
    )  # fmt: skip
    assert explanation.gang.state == "NoRoom"
    assert (explanation.level, explanation.required) == (CLIQUE, True)
    assert [(domain.name, domain.free, domain.want) for domain in explanation.domains] == [("a", 3, 4), ("b", 2, 4)]
    assert explanation.domains[0].held_by == ["default/train-7 (1 node)"]
    assert explanation.domains[0].reason == "1 node short; held by default/train-7 (1 node)"
    assert explanation.asks == ["4 x 8 GPUs, required clique"]


def test_who_has_gpus_is_named_before_who_uses_cores_alone() -> None:
    agents = [replace(single(f"agent-{number}", node=f"a-{number}"), namespace="agents") for number in range(4)]
    explanation = explained("wait", *cluster("a: 4x8"), *agents, *running("train", "a-0"), *gang("wait", 4))
    assert explanation.domains[0].held_by[:2] == ["default/train (1 node)", "pod agents/agent-0 (1 node)"]
    assert explanation.domains[0].reason.endswith("2 more")


def test_the_remedies_are_the_nodes_that_lack_the_ends_that_free_them_and_a_softer_wish() -> None:
    explanation = explained(
        "wait", *cluster("a: 4x8", "b: 4x8"), *running("train-7", "a-0"), *running("train-9", "b-0 b-1"),
        *gang("wait", 4, topology=CLIQUE_ONLY),
    )  # fmt: skip
    assert explanation.remedies == [
        "use preferred-topology instead of required-topology: it would fit now, on 4 nodes",
        "wait for default/train-7 to finish: that frees enough in clique a",
        "wait for default/train-9 to finish: that frees enough in clique b",
        "1 more node with 8 GPUs free in clique a",
        "2 more nodes with 8 GPUs free in clique b",
    ]


def test_ends_are_added_up_when_one_is_not_enough() -> None:
    explanation = explained("wait", *cluster("a: 3x8"), *running("x", "a-0"), *running("y", "a-1"), *gang("wait", 3))
    assert "wait for default/x and default/y to finish: that frees enough in the cluster" in explanation.remedies


def test_a_pod_in_no_gang_that_has_the_room_is_named() -> None:
    explanation = explained("wait", *cluster("a: 2x8"), *busy("a-0", 1), *gang("wait", 2))
    assert "wait for pod default/busy-a-0 to finish: that frees enough in the cluster" in explanation.remedies


def test_a_holder_that_asks_for_what_no_node_offers_is_named_all_the_same() -> None:
    """A pod that names its node can have any request there."""
    odd = tuple(sorted((*requests(1), ("example.com/fpga", 1))))
    explanation = explained(
        "wait", *cluster("a: 2x8"), *[replace(pod, requests=odd) for pod in busy("a-0", 1)], *gang("wait", 2)
    )
    assert "wait for pod default/busy-a-0 to finish: that frees enough in the cluster" in explanation.remedies


def test_of_several_ends_that_suffice_the_smallest_is_named() -> None:
    explanation = explained(
        "wait", *cluster("a: 4x8"), *running("big", "a-0 a-1 a-2"), *running("small", "a-3"), *gang("wait", 1)
    )
    assert "wait for default/small to finish: that frees enough in the cluster" in explanation.remedies


def test_a_pod_beyond_the_plan_of_its_job_that_is_led_to_full_nodes_starts_when_the_job_is_planned_anew() -> None:
    script = Script(*cluster("a: 3x8"))
    train = Controlled(script, job(2, indexed=False))
    led = Selection(affinity=tuple((Requirement("metadata.name", "In", (f"a-{at}",), is_field=True),) for at in (0, 1)))
    script.run(train.create(selection=led))
    train.show(podsets=job(3, indexed=False).podsets)
    train.create(selection=led)
    explanation = explain(script.core.state, script.core.state.workloads[key("job")], script.now)
    assert explanation.remedies[0] == (
        "suspend the job to have it planned again: its pod template names the nodes of its plan"
    )


def test_an_elastic_gang_needs_its_minimum_only() -> None:
    explanation = explained("wait", *cluster("a: 3x8"), *busy("a-0 a-1", 8), *gang("wait", 6, min_member=2))
    assert explanation.remedies[-1] == "1 more node with 8 GPUs free in the cluster"


def test_missing_members_are_counted() -> None:
    explanation = explained("wait", *cluster("a: 3x8"), *gang("wait", 2, min_member=3))
    assert explanation.gang.state == "MembersMissing"
    assert explanation.remedies == ["create 1 more pod that names this gang; 2 pods exist"]
    assert explanation.domains == []


def test_what_lacks_is_a_role_where_there_are_enough_in_all() -> None:
    group = PodGroup(key("train"), "u", 2, dialect=Dialect.VOLCANO, minima=(("master", 1), ("worker", 1)))
    workers = [replace(pod, group=GroupRef("train", Dialect.VOLCANO, role="worker")) for pod in gang("train", 2)]
    explanation = explained("train", *cluster("a: 2x8"), group, *workers)
    assert explanation.gang.message == "0 of 1 members of role master exist"
    assert explanation.remedies == ["create 1 more pod that names this gang and role master; 0 pods exist"]


@pytest.mark.parametrize(
    ("pods", "state", "words"),
    [
        (gang("odd", 1, min_member=2) + gang("odd", 1, life="b", min_member=3), "Contradiction", "agree"),
        (coscheduled("odd", 2)[1], "PodGroupMissing", "create PodGroup odd"),
        (gang("odd", 1, gates=("example.com/other",)), "Gated", "has to remove it"),
        (
            gang("odd", 1, device_claims=(ClaimUse("gpu", "", "gpus"),)),
            "ResourceClaims",
            "create the ResourceClaimTemplate",
        ),
        (gang("odd", 1, claims=("data",)), "VolumeNotBound", "volume"),
        (gang("odd", 1, topology=Topology(required="galaxy")), "UnknownTopology", "muster domains"),
        (
            [replace(pod, index=None) for pod in gang("odd", 1, topology=Topology(slice_size=2))],
            "UnknownTopology",
            "give every pod of the sliced gang an index, or ask for no slices",
        ),
    ],
)
def test_every_reason_to_wait_says_how_to_fix_it(pods: list[Pod], state: str, words: str) -> None:
    explanation = explained("odd", *cluster("a: 3x8"), *pods)
    assert explanation.gang.state == state
    assert words in explanation.remedies[0]


def test_a_gang_that_runs_shows_where() -> None:
    explanation = explained("run", *cluster("a: 2x8", "b: 1x8"), *running("run", "a-0 a-1 b-0"))
    assert explanation.gang.state == "Running"
    assert [(place.name, place.members) for place in explanation.places] == [("a", 2), ("b", 1)]
    assert explanation.remedies == ["nothing to do: it runs"]


def test_members_that_share_nodes_are_counted_in_slots() -> None:
    explanation = explained("wait", *cluster("a: 1x8"), *gang("wait", 3, gpus=4))
    assert explanation.domains[0].reason == "1 slot short"


def test_domains_have_their_stock() -> None:
    nodes = [*cluster("a: 2x8", "-: 1x8"), node("a-2", clique="a", unschedulable=True)]
    script = Script(*nodes, *running("train", "a-0"), single("small", gpus=2, node="a-1"))
    a, outside = domains(script.core.state)
    assert (a.name, a.nodes, a.open, a.whole, a.gpus, a.free_gpus) == ("a", 3, 2, 0, 24, 6)
    assert a.gangs == ["default/train"]
    assert (outside.name, outside.nodes, outside.whole) == ("", 1, 1)


def test_the_role_that_lacks_room_is_the_one_that_is_advised() -> None:
    """The workers come first because they request most as a whole, and they have room."""
    leader = [replace(pod, uid="lead", owner="lead") for pod in gang("wait", 1, gpus=16, min_member=5)]
    pods = [*gang("wait", 4, min_member=5), *leader]
    explanation = explained("wait", *cluster("a: 6x8"), *pods)
    assert explanation.gang.message.startswith("4 of 5 members fit at once: 0 of 6 nodes have room for 16 nvidia.com/")
    assert explanation.remedies == [
        "use smaller pods or add larger nodes: even empty, no node that matches has 16 nvidia.com/gpu"
    ]


def test_roles_that_have_room_each_but_not_together_are_not_told_that_there_is_room() -> None:
    small = [replace(pod, uid=f"{pod.uid}-small", owner="small") for pod in gang("wait", 4, gpus=3, min_member=8)]
    explanation = explained("wait", *cluster("a: 4x8"), *gang("wait", 4, gpus=6, min_member=8), *small)
    assert explanation.gang.state == "NoRoom"
    assert explanation.remedies == [
        "add nodes or use fewer pods: even if all nodes that are open to it were empty, not all of it would fit"
    ]


def test_members_that_share_no_node_need_nodes_and_an_end_counts_only_where_a_port_is_free() -> None:
    port = (HostPort(29500),)
    web = single("web", gpus=0, cpu=0, node="a-0", constraints=Constraints(port))
    explanation = explained("wait", *cluster("a: 3x8"), web, *busy("a-0 a-1", 8), *asking(2, ports=port))
    assert explanation.gang.message.endswith("1 node left for 2 members with port 29500 for each")
    assert explanation.remedies == [
        "do without host ports: it would fit now, on 1 node",
        "wait for pod default/busy-a-1 to finish: that frees enough in the cluster",
        "1 more node with 1 GPU free in the cluster",
    ]


@pytest.mark.parametrize(
    ("asked", "remedy"),
    [
        ({"affinity": (Term(HOST, DATA, ("default",)),)}, "make the pod affinity preferred instead of required"),
        ({"anti_affinity": (Term(CLIQUE, TRAIN, ("default",)),)}, "make the pod anti-affinity preferred instead of"),
        ({"spread": (Spread(CLIQUE, 1, TRAIN, 4),)}, "let the topology spread be ScheduleAnyway instead of DoNot"),
    ],
)
def test_what_is_demanded_of_other_pods_is_a_remedy_where_it_alone_is_in_the_way(
    asked: dict[str, Any], remedy: str
) -> None:
    explanation = explained("wait", *cluster("a: 2x8", "b: 2x8"), *asking(4, **asked))
    assert explanation.gang.state == "NoRoom"
    assert [advice for advice in explanation.remedies if "would fit now" not in advice] == []
    assert explanation.remedies[0].startswith(remedy)


def test_every_code_that_the_core_can_give_has_its_remedy() -> None:
    assert len(REASONS) > 15
    assert {*REASONS} <= {*CODES}


@pytest.mark.parametrize("topology", [CLIQUE_ONLY, Topology(slice_size=2)])
def test_a_replacement_is_told_of_its_own_domain_alone(topology: Topology) -> None:
    lost, *left = (replace(pod, topology=topology) for pod in running("train", "a-0 a-1"))
    script = Script(*cluster("a: 2x8", "b: 3x8"), lost, *left)
    script.gone(lost)
    script.see(busy("a-0", 8), replace(reborn(lost), node=None))
    explanation = explain(script.core.state, script.gang("train"), script.now)
    assert "its gang is in a" in explanation.gang.message
    assert {
        "wait for pod default/busy-a-0 to finish: that frees enough in clique a",
        "1 more node with 8 GPUs free in clique a",
    } <= {*explanation.remedies}
    assert not any("clique b" in remedy for remedy in explanation.remedies)


def test_a_cordoned_node_with_room_is_a_remedy() -> None:
    nodes = [node("a-0", clique="a"), node("a-1", clique="a", unschedulable=True)]
    explanation = explained("wait", *nodes, *gang("wait", 2))
    assert explanation.remedies[0] == "put 1 node with room back in service (enough): a-1 (cordoned)"
    assert explanation.domains[0].free == 1


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
    explanation = explained("wait", *nodes, *gang("wait", 2))
    assert explanation.remedies[0] == f"put 1 node with room back in service (enough): a-1 ({told})"
    assert not any("toleration" in remedy for remedy in explanation.remedies)


def test_a_taint_that_nobody_tolerates_is_a_remedy() -> None:
    nodes = [node("a-0"), node("a-1", taints=(Taint("team", "blue", "NoSchedule"),))]
    explanation = explained("wait", *nodes, *gang("wait", 2))
    assert explanation.remedies[0] == (
        "add a toleration of team=blue:NoSchedule to its pods, or take the taint off: it would fit now, on 2 nodes"
    )


def test_taints_that_are_in_the_way_together_are_a_remedy_together() -> None:
    blue, gpus = Taint("team", "blue", "NoSchedule"), Taint("nvidia.com/gpu", "present", "NoSchedule")
    explanation = explained("wait", node("a-0", taints=(blue,)), node("a-1", taints=(gpus,)), *gang("wait", 2))
    assert explanation.remedies[0] == (
        "add a toleration of nvidia.com/gpu=present:NoSchedule, team=blue:NoSchedule to its pods, or take the taint "
        "off: it would fit now, on 2 nodes"
    )
    explanation = explained("wait", node("a-0", taints=(gpus,)), node("a-1", unschedulable=True), *gang("wait", 2))
    assert explanation.remedies[0] == (
        "put a-1 back in service and add a toleration of nvidia.com/gpu=present:NoSchedule to its pods: it would fit "
        "now"
    )


def test_what_no_domain_could_ever_hold_is_said_first() -> None:
    explanation = explained("wait", *cluster("a: 2x8", "b: 2x8"), *gang("wait", 3, topology=CLIQUE_ONLY))
    assert explanation.remedies[0] == (
        "require a wider level or use fewer pods: even empty, the largest clique fits 2 of 3 (8 GPUs each)"
    )
    assert not any("more node" in remedy for remedy in explanation.remedies)
    explanation = explained("wait", *cluster("a: 2x8"), *gang("wait", 3))
    assert (
        explanation.remedies[0]
        == "add nodes or use fewer pods: even empty, the nodes that match fit 2 of 3 (8 GPUs each)"
    )


def test_nodes_that_its_selector_leaves_out_count_for_nothing() -> None:
    chosen = Selection(node_selector=(("pool", "blue"),))
    nodes = [*cluster("a: 4x8"), node("blue", labels={"pool": "blue"})]
    explanation = explained("wait", *nodes, *gang("wait", 2, selection=chosen))
    assert explanation.remedies == [
        "label a-0 with pool=blue: it would fit there now",
        "take pool=blue out of the node selector of its pods, or correct it: it would fit now, on 2 nodes",
        "1 more node with 8 GPUs free in the cluster, with labels pool=blue",
    ]
    others = [node("x", labels={"pool": "red"}), node("y", labels={"pool": "green"})]
    explanation = explained("wait", *others, *gang("wait", 2, selection=chosen))
    assert explanation.remedies == [
        "add or label nodes that match the node selector pool=blue of its pods: no node does",
        "take pool=blue out of the node selector of its pods, or correct it (nodes have pool=green, red): it would fit "
        "now, on 2 nodes",
        "2 more nodes with 8 GPUs free in the cluster, with labels pool=blue",
    ]


def test_nodes_that_do_not_reach_its_volumes_are_no_remedy() -> None:
    def wait(size: int, *nodes: str) -> list[Pod]:
        local = ((Requirement("kubernetes.io/hostname", "In", nodes),),)
        return gang("wait", size, selection=Selection(volumes=(local,)))

    explanation = explained("wait", *cluster("a: 3x8"), *wait(2, "gone"))
    assert explanation.remedies == [
        "bring back a node that reaches all volumes of a pod and matches its selector, or move the data"
    ]
    explanation = explained("wait", *cluster("a: 3x8"), *wait(2, "a-1"))
    assert explanation.remedies == [
        "move volumes or use fewer pods: even empty, the nodes that match fit 1 of 2 (8 GPUs each)"
    ]
    explanation = explained("wait", *cluster("a: 3x8"), *busy("a-1", 8), *wait(1, "a-1"))
    assert explanation.remedies == [
        "wait for pod default/busy-a-1 to finish: that frees enough in the cluster",
        "1 more node with 8 GPUs free in the cluster, on nodes that reach its volumes",
    ]


def test_pods_that_are_pinned_are_to_be_deleted() -> None:
    def pinned(name: str) -> list[Pod]:
        term = (Requirement("metadata.name", "In", (name,), is_field=True),)
        return gang("wait", 2, gpus=4, selection=Selection(affinity=(term,)))

    explanation = explained("wait", *cluster("a: 2x8"), *pinned("gone"))
    assert explanation.remedies == [
        "delete wait-0 and wait-1 and create new pods: the nodes are gone, and no pod can be unpinned from its nodes"
    ]
    explanation = explained("wait", *cluster("a: 2x8"), *busy("a-1", 8), *pinned("a-1"))
    assert explanation.remedies == [
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

    nodes = [
        replace(cluster_node, labels={**cluster_node.labels, HOST: cluster_node.name})
        for cluster_node in cluster("a: 3x8")
    ]
    explanation = explained("wait", *nodes, *busy("a-1", 8), *wait(1, "a-1"))
    assert explanation.remedies == [
        "wait for pod default/busy-a-1 to finish: that frees enough in the cluster",
        "1 more node with 8 GPUs free in the cluster, of those that its pods name",
    ]
    explanation = explained("wait", *nodes, *wait(2, "a-1"))
    assert explanation.remedies == [
        "name more nodes or use fewer pods: even empty, the nodes that match fit 1 of 2 (8 GPUs each)"
    ]
    explanation = explained("wait", *nodes, *wait(1, "gone"))
    assert explanation.remedies == [
        "name other nodes in the node selector or affinity of the pods, or bring those back: none of them is there"
    ]


def test_nothing_is_said_wrongly_when_there_is_no_node_at_all() -> None:
    explanation = explained("wait", *gang("wait", 2))
    assert explanation.remedies == ["add nodes: there are none", "room for 2 more members (8 GPUs each) in the cluster"]
    assert domains(Script().core.state) == []


def test_requests_that_no_node_offers_are_no_traceback() -> None:
    odd = tuple(sorted((*requests(1), ("example.com/fpga", 1))))
    explanation = explained("wait", *cluster("a: 2x8"), *[replace(pod, requests=odd) for pod in gang("wait", 2)])
    assert "even empty, no node that matches has 1 example.com/fpga" in explanation.remedies[0]


def test_a_pod_that_is_larger_than_any_node_is_told_so() -> None:
    """More nodes of that kind would not help, and fewer members would not either."""
    explanation = explained("wait", *cluster("a: 4x8"), *gang("wait", 2, gpus=16, topology=CLIQUE_ONLY))
    assert explanation.remedies[0].startswith(
        "use smaller pods or add larger nodes: even empty, no node that matches has"
    )
    assert "16 nvidia.com/gpu" in explanation.remedies[0]
    assert not any("fewer pods" in remedy or "wider level" in remedy for remedy in explanation.remedies)
    assert "even empty, no node is large enough: at most 8 nvidia.com/gpu" in explanation.gang.message
