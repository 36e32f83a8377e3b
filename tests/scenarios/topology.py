"""Best fit over NVLink cliques, levels that are required, and pins that survive the loss of a node."""

from __future__ import annotations

from extender.core.gate.advisory import Mode
from extender.core.gate.steering import SteeringMode
from policies.model import Pod
from tests.scenarios.pods import bound, gang, gated, pod
from tests.scenarios.scenario import scenario, until_bound, until_reason
from tests.scenarios.stage import Setting, Stage

PIN_DOMAIN = Setting(steering=SteeringMode.PIN_DOMAIN)
PIN_NODE = Setting(steering=SteeringMode.PIN_NODE)
FREE = {"a": 13, "b": 10, "c": 7, "d": 4}
"""Clique -> how many of its 16 nodes are free."""


@scenario(
    "gang-7: 7 of 7 bound in clique c",
    "gang-4: 4 of 4 bound in clique d",
    "gang-13: 13 of 13 bound in clique a",
    "gang-10: 10 of 10 bound in clique b",
    "busy x 30: bound",
)
def gangs_that_exactly_fill_what_is_free(stage: Stage) -> None:
    """13, 10, 7 and 4 nodes are free in four cliques of 16; gangs of 7, 4, 13 and 10 come in that order."""
    for clique, free in FREE.items():
        nodes = stage.add_nodes(16, clique=clique)
        stage.create_all([pod(f"busy.{node}", nodeName=node) for node in nodes[free:]])
    for size in (7, 4, 13, 10):
        stage.create_all(gated(f"gang-{size}", size))
        until_bound(stage, f"gang-{size}", size)


@scenario("wide: 5 of 5 bound in cliques a, b", "narrow: 2 of 2 bound in clique c")
def no_more_cliques_than_necessary(stage: Stage) -> None:
    """Cliques of 4, 3 and 2 free nodes: a gang of 2 takes the smallest, one of 5 two cliques and not three."""
    for clique, count in (("a", 4), ("b", 3), ("c", 2)):
        stage.add_nodes(count, clique=clique)
    stage.create_all(gated("narrow", 2))
    until_bound(stage, "narrow", 2)
    stage.create_all(gated("wide", 5))


@scenario("strict: 4 of 4 bound in clique new")
def a_required_level_without_room(stage: Stage) -> None:
    """A gang of 4 requires one clique, and the best has 3 free nodes: it waits with that reason for a larger one."""
    stage.add_nodes(3, clique="a")
    stage.add_nodes(2, clique="b")
    stage.create(*gang("strict", 4, topology="nvidia.com/gpu.clique"))
    until_reason(stage, "strict", "NoRoom", "best has 3 free nodes")
    until_reason(stage, "strict", "NoRoom", "1 node short")
    assert bound(stage.pods(), "strict") == []
    stage.add_nodes(4, clique="new")


@scenario(
    "strict: 0 of 6 bound, 6 gated, NoRoom: 4 of 6 members fit at once: required nvidia.com/gpu.clique for 6 x 8 GPUs: "
    "2 cliques, best has 4 free nodes (a); 2 nodes short; 7 of 7 nodes have room for 8 nvidia.com/gpu; "
    "even empty, the largest clique fits 4 of 6"
)
def a_required_level_that_no_domain_has(stage: Stage) -> None:
    """A gated gang of 6 requires one clique, and the largest has 4 nodes: it waits, whatever else is free."""
    stage.add_nodes(4, clique="a")
    stage.add_nodes(3, clique="b")
    stage.create(*gated("strict", 6, topology="nvidia.com/gpu.clique"))


@scenario("train: 2 of 2 bound in clique tight", setting=PIN_DOMAIN)
def a_gang_pinned_to_its_clique(stage: Stage) -> None:
    """Steering by affinity: the members may use the nodes of the chosen clique, and are nominated to none."""
    _pinned(stage)


@scenario("train: 2 of 2 bound in clique tight", setting=PIN_NODE)
def a_gang_pinned_to_its_nodes(stage: Stage) -> None:
    """The same, one node for each member."""
    _pinned(stage)


@scenario("own: 2 of 2 bound in clique only", setting=PIN_DOMAIN)
def affinity_of_the_pod_itself(stage: Stage) -> None:
    """Pods with node affinity terms of their own are nominated in place of being pinned."""
    stage.add_nodes(2, clique="only")
    term = {"matchExpressions": [{"key": "stage", "operator": "Exists"}]}
    required = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [term]}}
    stage.create(*gated("own", 2, affinity={"nodeAffinity": required}))
    until_bound(stage, "own", 2)
    for member in stage.pods():
        assert [[it.key for it in its] for its in member.selection.affinity or ()] == [["stage"]]


@scenario("train: 2 of 2 bound in clique only", setting=PIN_DOMAIN)
def a_node_lost_under_a_pinned_gang(stage: Stage) -> None:
    """The node of a member is removed after the gang was pinned to its clique: another node of it will do."""
    nodes = stage.add_nodes(3, clique="only")
    stage.stop_scheduler_after(0)
    stage.create(*gated("train", 2))
    ungated = stage.until(lambda pods: len(pods) == 2 and not any(member.gates for member in pods))
    assert all(sorted(_pins(member)) == sorted(nodes) for member in ungated)
    lost = stage.gangs()["train"].pods[0].node
    assert lost is not None
    stage.remove_node(lost)
    stage.let_scheduler_go_on()


@scenario(
    "train: 2 of 3 bound in clique only, NoRoom: 0 of 1 members fit at once: "
    "0 of 2 nodes have room for 8 nvidia.com/gpu",
    setting=Setting(mode=Mode.ADVISE),
)
def advice_keeps_nobody_waiting(stage: Stage) -> None:
    """Advisory mode: a gang of 3 on 2 nodes is bound one by one, gets its reason, and is counted."""
    stage.add_nodes(2, clique="only")
    stage.create(*gated("train", 3))
    until_bound(stage, "train", 2)
    assert stage.advised("would_hold") == 2
    assert stage.advised("would_reject") >= 1


def _pinned(stage: Stage) -> None:
    stage.add_nodes(4, clique="wide")
    tight = stage.add_nodes(2, clique="tight")
    stage.create(*gated("train", 2))
    until_bound(stage, "train", 2)
    for member in stage.pods():
        assert member.node in _pins(member)
        assert {*_pins(member)} <= {*tight}
        assert member.nominated_node is None


def _pins(one: Pod) -> list[str]:
    """The nodes that the pod may use."""
    return [value for (term,) in one.selection.affinity or () for value in term.values]
