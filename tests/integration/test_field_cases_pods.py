"""Gangs of pods in situations that users of other schedulers have reported, each with its right outcome."""

from __future__ import annotations

import json
from collections.abc import Sequence

import pytest

from devcluster import Cluster
from devcluster.api import Object
from devcluster.muster import RunningMuster, install_gate, start_muster
from policies.model import CLIQUE, GANG_GATE
from tests.integration.preemption import with_preemption
from tests.integration.stage import RealStage, add_priorities
from tests.scenarios.pods import bound, gated, pod

pytestmark = pytest.mark.xdist_group("field-cases-pods")

HOST = "kubernetes.io/hostname"


@pytest.fixture(scope="module")
def muster(cluster: Cluster) -> RunningMuster:
    manifests = with_preemption(cluster.directory / "with-preemption")
    running = start_muster(cluster, {"preemption": "on", "preemption_timeout_s": 120}, manifests=manifests)
    install_gate(cluster)
    add_priorities(cluster, {"low": 10, "middle": 50, "high": 100})
    return running


def names(stage: RealStage, gang: str) -> list[str]:
    return sorted(member.name for member in bound(stage.pods(), gang) if member.live)


def allocate(stage: RealStage, node: str, **amounts: int) -> None:
    """The node lists these amounts from now on, as after a restart of its device plugin."""
    named = {"gpus": "nvidia.com/gpu", "pods": "pods"}
    listed = {named[key]: str(amounts[key]) for key in amounts}
    stage.api.patch(f"/api/v1/nodes/{node}/status", {"status": {"allocatable": listed, "capacity": listed}})


def test_an_elastic_gang_loses_its_highest_rank_to_one_pod_and_runs_on(stage: RealStage) -> None:
    """Eleven pods of a gang with minimum 1 fill a node when a pod of a higher priority comes. volcano#5984"""
    stage.add_nodes(1, gpus=0, cpu="11")
    stage.create(*gated("elastic", 11, gpus=0, min_member=1, priorityClassName="low"))
    stage.until(lambda pods: len(bound(pods, "elastic")) == 11)
    stage.create(*gated("urgent", 1, gpus=0, priorityClassName="high"))
    stage.until(lambda pods: len(bound(pods, "urgent")) == 1)
    assert names(stage, "elastic") == sorted(f"elastic-{at}" for at in range(10))
    stage.create(pod("alone", gpus=0, priorityClassName="high"))
    pods = stage.until(lambda pods: any(seen_pod.name == "alone" and seen_pod.node for seen_pod in pods))
    assert len([member for member in bound(pods, "elastic") if member.live]) == 9


def test_both_tenants_of_a_node_go_for_its_slots_or_neither_does(stage: RealStage) -> None:
    """The node takes two pods: one has all GPUs, the other only holds a slot. kueue#10497, kueue#4439"""
    (node,) = stage.add_nodes(1, pods=2)
    stage.create(*gated("gpus", 1, priorityClassName="low"), *gated("slot", 1, gpus=0, priorityClassName="middle"))
    stage.until(lambda pods: len(bound(pods, "gpus")) == len(bound(pods, "slot")) == 1)
    stage.create(*gated("equal", 2, gpus=4, priorityClassName="middle"))
    stage.until_told("equal", lambda seen: seen.state == "NoRoom" and "room for 1 pod" in seen.message)
    assert (names(stage, "gpus"), names(stage, "slot")) == (["gpus-0"], ["slot-0"])
    stage.create(*gated("urgent", 2, gpus=4, priorityClassName="high"))
    pods = stage.until(lambda pods: len(bound(pods, "urgent")) == 2)
    assert {member.node for member in bound(pods, "urgent")} == {node}
    assert not [seen_pod for seen_pod in pods if seen_pod.live and seen_pod.name in ("gpus-0", "slot-0")]


def test_a_gang_that_requires_one_machine_waits_for_slots_of_it(stage: RealStage) -> None:
    """A node that takes one pod has plenty of cpu. kueue#11287, kueue#4270"""
    (node,) = stage.add_nodes(1, gpus=0, pods=1)
    both = gated("both", 2, gpus=0, topology=HOST)
    both[1]["spec"]["containers"][0]["resources"] = {"requests": {"cpu": "2"}, "limits": {"cpu": "2"}}
    stage.create(*both)
    message = stage.until_told("both", lambda seen: seen.state == "NoRoom").message
    assert "which ask for 2 pods and find 1 free" in message
    assert not names(stage, "both")
    allocate(stage, node, pods=2)
    stage.until(lambda pods: len(bound(pods, "both")) == 2)


@pytest.mark.parametrize(("had", "left", "asks"), [(8, 6, 6), (4, 3, 1)])
def test_nobody_is_bound_where_gpus_have_vanished_under_a_pod(stage: RealStage, had: int, left: int, asks: int) -> None:
    """Allocatable drops below the pod's request, and the node is touched. volcano#1818, volcano#1782,
    kubernetes#92592"""
    (node,) = stage.add_nodes(1, gpus=had, clique="a")
    stage.create(pod("old", gpus=had))
    stage.until(lambda pods: any(seen_pod.node for seen_pod in pods))
    allocate(stage, node, gpus=left)
    stage.api.patch(f"/api/v1/nodes/{node}", {"metadata": {"labels": {"touched": "yes"}}})
    stage.create(*gated("new", 1, gpus=asks), pod("alone", gpus=asks))
    message = stage.until_told("new", lambda seen: seen.state == "NoRoom").message
    assert f"{had} of {left} in use on {node}" in message
    there = stage.domains()[f"{stage.namespace}.a"]
    assert (there.gpus, there.free_gpus) == (left, 0)
    stage.until_unschedulable("alone")
    stage.delete("old")
    stage.until(lambda pods: any(seen_pod.node for seen_pod in pods if seen_pod.name in ("new-0", "alone")))


def test_two_racks_with_the_same_partition_number_are_two_cliques(stage: RealStage) -> None:
    """The whole label names the rack. dra-driver#377"""
    racks = [
        f"{uuid}.17044" for uuid in ("5d0b5d1e-1111-4c2c-8a2e-0f6d6a3d7f01", "91c4a8be-2222-4f0e-9d53-7bb1e0a9c202")
    ]
    rack_of = {name: rack for rack in racks for name in stage.add_nodes(2, gpus=4, labels={CLIQUE: rack})}
    stage.create(*gated("pair", 2, gpus=4, topology="clique"))
    pods = stage.until(lambda pods: len(bound(pods, "pair")) == 2)
    assert len({rack_of[member.node or ""] for member in bound(pods, "pair")}) == 1
    stage.delete("pair-0", "pair-1")
    four = gated("four", 4, gpus=4, topology="clique")
    stage.create(*four)
    stage.until_told("four", lambda seen: "2 cliques, best has 2 free nodes" in seen.message)
    stage.delete(*(obj["metadata"]["name"] for obj in four))
    split = gated("split", 4, gpus=4)
    for split_pod in split:
        split_pod["metadata"]["annotations"]["muster.dev/preferred-topology"] = "clique"
    stage.create(*split)
    pods = stage.until(lambda pods: len(bound(pods, "split")) == 4)
    assert sorted(rack_of[member.node or ""] for member in bound(pods, "split")) == [racks[0]] * 2 + [racks[1]] * 2


def _in_groups(name: str, gangs: Sequence[str], size: int) -> list[Object]:
    """The pods of one gang of several that have to start together, in Koordinator's words."""
    prefix, pods = "gang.scheduling.koordinator.sh/", []
    for at in range(size):
        made = pod(f"{name}-{at}", gates=(GANG_GATE,))
        made["metadata"]["annotations"] = {
            f"{prefix}name": name,
            f"{prefix}min-available": str(size),
            f"{prefix}groups": json.dumps(gangs),
        }
        pods.append(made)
    return pods


@pytest.mark.xfail(strict=True, reason="Muster does not start gangs of several names together: it says so, and waits")
def test_of_two_pairs_of_gangs_that_need_each_other_one_pair_runs(stage: RealStage) -> None:
    """The cluster has room for one pair, and the pods come crosswise. koordinator#872"""
    stage.add_nodes(4)
    for name, pair in {"a": "ab", "c": "cd", "b": "ab", "d": "cd"}.items():
        stage.create(*_in_groups(name, [f"{stage.namespace}/{gang}" for gang in pair], 2))
    for name in "acbd":
        stage.until_told(name, lambda seen: bool(seen.message))
    assert sum(bool(member.node) for member in stage.pods()) == 4


def _in_roles(app: str, role: str, size: int, least: dict[str, int]) -> list[Object]:
    """The pods of one role of a gang, in YuniKorn's words."""
    pods = []
    groups = [{"name": name, "minMember": least[name]} for name in least]
    for at in range(size):
        made = pod(f"{app}-{role}-{at}", gpus=1, gates=(GANG_GATE,))
        made["metadata"]["labels"] = {"yunikorn.apache.org/app-id": app}
        task_groups = {"task-group-name": role, "task-groups": json.dumps(groups)}
        made["metadata"]["annotations"] = {f"yunikorn.apache.org/{key}": value for key, value in task_groups.items()}
        pods.append(made)
    return pods


@pytest.mark.parametrize("least", [3, 10])
def test_of_two_gangs_of_two_roles_one_runs_and_the_other_holds_nothing(stage: RealStage, least: int) -> None:
    """Elsewhere each role would be a gang of its own; ten pods of one role exist. koordinator#872"""
    minima = {"a": least, "b": 2}
    for role, size in (("a", 10), ("b", 2)):
        for app in ("first", "second"):
            stage.create(*_in_roles(app, role, size, minima))
    stage.add_nodes(1, gpus=least + 2)
    pods = stage.until(lambda pods: sum(bool(member.node) for member in pods) == least + 2)
    (app,) = {member.name.partition("-")[0] for member in pods if member.node}
    assert sorted(member.name for member in pods if member.node and "-b-" in member.name) == [
        f"{app}-b-0",
        f"{app}-b-1",
    ]
    other = "second" if app == "first" else "first"
    stage.until_told(other, lambda seen: seen.state == "NoRoom")
    assert not any(member.nominated_node for member in stage.pods() if member.name.startswith(other))
