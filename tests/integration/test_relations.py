"""Gangs whose members demand something of each other or of other pods: kube-scheduler takes up the first plan."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import pytest

from policies.model import GANG_GATE
from tests.integration.stage import RealStage
from tests.integration.starts import per_node, started_at_once
from tests.scenarios.pods import gang, pod
from tests.scenarios.stage import Object

pytestmark = pytest.mark.xdist_group("relations")
HOST, CLIQUE, ZONE = "kubernetes.io/hostname", "nvidia.com/gpu.clique", "topology.kubernetes.io/zone"
GATES = pytest.mark.parametrize("gates", [(GANG_GATE,), ()], ids=["gated", "ungated"])

Change = Callable[[Object], None]


def members(name: str, size: int, *changes: Change, gpus: int = 1, gates: Sequence[str] = ()) -> list[Object]:
    """The pods of a gang, with the label ``app`` and each of these changes."""
    pods = gang(name, size, gpus=gpus, gates=gates)
    for obj in pods:
        obj["metadata"]["labels"] = {"app": name}
        for change in changes:
            change(obj)
    return pods


def with_host_port(one: Object) -> None:
    one["spec"]["containers"][0]["ports"] = [{"containerPort": 29500, "hostPort": 29500}]


def on_host_network(one: Object) -> None:
    """The API server makes a host port of it."""
    one["spec"]["hostNetwork"] = True
    one["spec"]["containers"][0]["ports"] = [{"containerPort": 2222}]


def apart(key: str, app: str = "") -> Change:
    return lambda obj: _ask(obj, "podAntiAffinity", key, app)


def near(key: str, app: str = "") -> Change:
    return lambda obj: _ask(obj, "podAffinity", key, app)


def in_gold(one: Object) -> None:
    """Limit its affinity to pods in namespaces with that label."""
    (term,) = one["spec"]["affinity"]["podAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]
    term["namespaceSelector"] = {"matchLabels": {"tier": "gold"}}


def spread(key: str, app: str = "", **more: int) -> Change:
    def change(obj: Object) -> None:
        hard = {"maxSkew": 1, "topologyKey": key, "whenUnsatisfiable": "DoNotSchedule", **more}
        obj["spec"]["topologySpreadConstraints"] = [{**hard, "labelSelector": _selector(obj, app)}]

    return change


def rather_apart(one: Object) -> None:
    term = {"weight": 100, "podAffinityTerm": {"topologyKey": HOST, "labelSelector": _selector(one, "")}}
    one["spec"]["affinity"] = {"podAntiAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": [term]}}


def rather_spread(one: Object) -> None:
    spread(HOST)(one)
    one["spec"]["topologySpreadConstraints"][0]["whenUnsatisfiable"] = "ScheduleAnyway"


def data_pod(**spec: Any) -> Object:
    """A pod that members want to be near to."""
    data = pod("data", gpus=0, **spec)
    data["metadata"]["labels"] = {"app": "data"}
    return data


EACH_ON_ITS_OWN = {
    "host-port": with_host_port,
    "host-network": on_host_network,
    "apart": apart(HOST),
    "spread": spread(HOST),
}


@GATES
@pytest.mark.parametrize("change", EACH_ON_ITS_OWN.values(), ids=EACH_ON_ITS_OWN)
def test_four_members_start_on_four_nodes(stage: RealStage, change: Change, gates: Sequence[str]) -> None:
    stage.add_nodes(4)
    stage.create_all(members("train", 4, change, gates=gates))
    assert per_node(started_at_once(stage, "train", 4)) == [1, 1, 1, 1]


@pytest.mark.parametrize("change", [rather_apart, rather_spread])
def test_members_that_would_rather_be_apart_share_nodes_where_they_have_to(stage: RealStage, change: Change) -> None:
    stage.add_nodes(4)
    stage.create_all(members("train", 6, change, gates=(GANG_GATE,)))
    assert per_node(started_at_once(stage, "train", 6)) == [1, 1, 2, 2]


@GATES
def test_members_that_are_apart_by_clique_start_in_one_clique_each(stage: RealStage, gates: Sequence[str]) -> None:
    for clique in "abcd":
        stage.add_nodes(2, clique=clique)
    stage.create_all(members("train", 4, apart(CLIQUE), gates=gates))
    assert {stage.cliques[str(member.node)] for member in started_at_once(stage, "train", 4)} == set("abcd")


@GATES
@pytest.mark.parametrize("gpus", [1, 2])
def test_a_spread_gang_starts_with_as_many_on_each_node(stage: RealStage, gpus: int, gates: Sequence[str]) -> None:
    stage.add_nodes(4)
    stage.create_all(members("train", 16, spread(HOST), gpus=gpus, gates=gates))
    assert per_node(started_at_once(stage, "train", 16)) == [4, 4, 4, 4]


@GATES
def test_members_of_two_sizes_are_spread_together(stage: RealStage, gates: Sequence[str]) -> None:
    stage.add_nodes(4)
    small, large = (members("train", 8, spread(HOST), gpus=gpus, gates=gates) for gpus in (1, 2))
    stage.create_all(small[:4] + large[4:])
    assert per_node(started_at_once(stage, "train", 8)) == [2, 2, 2, 2]


@GATES
def test_members_start_in_the_zone_of_the_data_pod(stage: RealStage, gates: Sequence[str]) -> None:
    stage.add_nodes(2, labels={ZONE: "east"})
    west = stage.add_nodes(2, labels={ZONE: "west"})
    stage.create(data_pod(nodeName=west[1]))
    stage.create_all(members("train", 4, near(ZONE, "data"), gpus=4, gates=gates))
    assert {member.node for member in started_at_once(stage, "train", 4)} == set(west)


@GATES
def test_a_gang_that_waits_for_a_data_pod_starts_when_that_is_bound(stage: RealStage, gates: Sequence[str]) -> None:
    stage.add_nodes(1, labels={ZONE: "east"})
    west = stage.add_nodes(2, labels={ZONE: "west"})
    stage.create_all(members("train", 4, near(ZONE, "data"), gpus=4, gates=gates))
    stage.until_told("train", lambda seen: seen.state == "NoRoom")
    stage.create(data_pod(affinity={"nodeAffinity": _in_zone("west")}))
    assert {member.node for member in started_at_once(stage, "train", 4)} == set(west)


@GATES
def test_a_gang_starts_when_the_namespace_of_its_data_gets_the_label(stage: RealStage, gates: Sequence[str]) -> None:
    """kube-scheduler does not try its members for the label of a namespace: Muster wakes them."""
    stage.add_nodes(1, labels={ZONE: "east"})
    west = stage.add_nodes(2, labels={ZONE: "west"})
    stage.create(data_pod(nodeName=west[1]))
    stage.create_all(members("train", 4, near(ZONE, "data"), in_gold, gpus=4, gates=gates))
    stage.until_told("train", lambda seen: seen.state == "NoRoom")
    stage.api.patch(f"/api/v1/namespaces/{stage.namespace}", {"metadata": {"labels": {"tier": "gold"}}})
    assert {member.node for member in started_at_once(stage, "train", 4)} == set(west)


def test_a_gang_that_another_pod_keeps_away_starts_on_a_new_node(stage: RealStage) -> None:
    """kube-scheduler does not try its members for a new node, nor for a nomination: their own label wakes them."""
    (node,) = stage.add_nodes(1)
    keeper = pod("keeper", gpus=0, nodeName=node)
    apart(HOST, "train")(keeper)
    stage.create(keeper)
    stage.create_all(members("train", 2))
    stage.until(lambda pods: sum("anti-affinity" in (member.refusal or "") for member in pods) == 2)
    new = stage.add_nodes(1)
    assert {member.node for member in started_at_once(stage, "train", 2)} == set(new)


@GATES
def test_members_that_have_to_be_together_start_in_one_zone(stage: RealStage, gates: Sequence[str]) -> None:
    stage.add_nodes(1, labels={ZONE: "east"})
    west = stage.add_nodes(2, labels={ZONE: "west"})
    stage.create_all(members("train", 4, near(ZONE), gpus=4, gates=gates))
    assert {member.node for member in started_at_once(stage, "train", 4)} == set(west)


INFEASIBLE = {
    "host-port": (with_host_port, "2 nodes left for 3 members with port 29500 for each"),
    "host-network": (on_host_network, "2 nodes left for 3 members with port 2222 for each"),
    "spread": (spread(HOST, minDomains=3), f"maxSkew 1 by {HOST} (2 of 2 domains with room, and minDomains is 3)"),
    "apart": (apart(HOST), f"2 nodes left for 3 members with anti-affinity to each other by {HOST}"),
    "apart-by-clique": (apart(CLIQUE), f"with anti-affinity to each other by {CLIQUE} (1 domain)"),
    "near": (near(HOST, "data"), "2 nodes: no pod near that its affinity asks for"),
}


@GATES
@pytest.mark.parametrize(("change", "why"), INFEASIBLE.values(), ids=INFEASIBLE)
def test_one_that_cannot_start_says_why_and_holds_up_nobody(
    stage: RealStage, change: Change, why: str, gates: Sequence[str]
) -> None:
    stage.add_nodes(2, clique="a")
    stage.create_all(members("stuck", 3, change, gates=gates))
    report = stage.until_told("stuck", lambda seen: seen.state not in ("New", "MembersMissing"))
    assert report.state == "NoRoom"
    assert why in report.message
    holds_up_nobody(stage, gates)


@GATES
@pytest.mark.parametrize("gpus", [1, 2])
def test_a_full_node_keeps_a_spread_gang_off_the_others(stage: RealStage, gpus: int, gates: Sequence[str]) -> None:
    nodes = stage.add_nodes(4)
    stage.create(pod("other", nodeName=nodes[2]))
    stage.create_all(members("stuck", 8, spread(HOST), gpus=gpus, gates=gates))
    report = stage.until_told("stuck", lambda seen: seen.state not in ("New", "MembersMissing"))
    assert report.state == "NoRoom"
    assert report.message.startswith("3 of 8 members fit at once")
    assert f"3 nodes left for 8 members with maxSkew 1 by {HOST} (3 of 4 domains with room)" in report.message
    holds_up_nobody(stage, gates)


@GATES
def test_a_zone_that_is_too_full_keeps_a_gang_waiting(stage: RealStage, gates: Sequence[str]) -> None:
    stage.add_nodes(2, labels={ZONE: "east"})
    west = stage.add_nodes(2, labels={ZONE: "west"})
    stage.create(data_pod(nodeName=west[1]), pod("other", nodeName=west[0]))
    stage.create_all(members("stuck", 4, near(ZONE, "data"), gpus=4, gates=gates))
    report = stage.until_told("stuck", lambda seen: seen.state not in ("New", "MembersMissing"))
    assert report.state == "NoRoom"
    assert report.message.startswith("2 of 4 members fit at once: 3 of 4 nodes have room")
    assert "2 nodes: no pod near that its affinity asks for" in report.message
    holds_up_nobody(stage, gates)


@GATES
def test_the_reason_counts_nodes_by_what_is_in_the_way(stage: RealStage, gates: Sequence[str]) -> None:
    nodes = stage.add_nodes(6)
    names = ("web-0", "web-1", "db-0", "old-0", "old-1", "old-2")
    there = [pod(name, gpus=0, nodeName=node) for name, node in zip(names, nodes, strict=True)]
    for obj in there:
        app = obj["metadata"]["name"].partition("-")[0]
        obj["metadata"]["labels"] = {"app": "stuck" if app == "old" else app}
    for obj in there[:2]:
        with_host_port(obj)
    stage.create(*there)
    stage.create_all(members("stuck", 2, with_host_port, apart(HOST, "db"), spread(HOST), gates=gates))
    report = stage.until_told("stuck", lambda seen: seen.state not in ("New", "MembersMissing"))
    assert report.state == "NoRoom"
    space = stage.namespace
    assert f"3 nodes: spread would exceed maxSkew 1 by {HOST}" in report.message
    assert f"2: port 29500 in use by {space}/web-" in report.message
    assert f"1: anti-affinity with {space}/db-0" in report.message
    holds_up_nobody(stage, gates)
    stage.delete("old-0", "old-1", "old-2")
    assert {member.node for member in started_at_once(stage, "stuck", 2)} < set(nodes[3:])


def holds_up_nobody(stage: RealStage, gates: Sequence[str]) -> None:
    """Gangs beside the one that cannot start do, one after the other, by their first plan."""
    for number in range(3):
        stage.create_all(members(f"next-{number}", 4, gates=gates))
        started_at_once(stage, f"next-{number}", 4)
        stage.delete(*(f"next-{number}-{index}" for index in range(4)))
    assert stage.gangs()["stuck"].state == "NoRoom"


def _in_zone(zone: str) -> Object:
    wanted = {"matchExpressions": [{"key": ZONE, "operator": "In", "values": [zone]}]}
    return {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [wanted]}}


def _selector(one: Object, app: str) -> Object:
    return {"matchLabels": {"app": app or one["metadata"]["labels"]["app"]}}


def _ask(one: Object, kind: str, key: str, app: str) -> None:
    term = {"topologyKey": key, "labelSelector": _selector(one, app)}
    one["spec"].setdefault("affinity", {})[kind] = {"requiredDuringSchedulingIgnoredDuringExecution": [term]}
