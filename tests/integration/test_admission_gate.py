"""Gangs that are gated at admission: planned while kube-scheduler does not know them, and ungated when placed."""

from __future__ import annotations

import pytest

from devcluster import Cluster
from devcluster.api import Object
from devcluster.muster import RunningMuster, install_gate, start_muster
from tests.integration.stage import Stage, bound, interleaved

pytestmark = pytest.mark.xdist_group("gate")
GATE = "muster.dev/gang"


@pytest.fixture(scope="module")
def muster(cluster: Cluster) -> RunningMuster:
    running = start_muster(cluster)
    install_gate(cluster)
    return running


def gates(pod: Object) -> list[str]:
    return [gate["name"] for gate in pod["spec"].get("schedulingGates", [])]


def test_only_members_of_gangs_for_muster_are_gated(stage: Stage) -> None:
    labelled = stage.pod("labelled")
    labelled["metadata"]["labels"] = {"scheduling.x-k8s.io/pod-group": "mpi"}
    elsewhere = stage.pod("elsewhere", gang="x", size=2)
    elsewhere["spec"]["schedulerName"] = "default-scheduler"
    foreign = stage.pod("foreign", gang="x", size=2)
    foreign["spec"]["schedulingGates"] = [{"name": "example.com/quota"}]
    created = stage.create(labelled, elsewhere, foreign, stage.pod("plain"), stage.pod("member", gang="x", size=2))
    assert {pod["metadata"]["name"]: gates(pod) for pod in created} == {
        "labelled": [GATE],
        "elsewhere": [],
        "foreign": ["example.com/quota", GATE],
        "plain": [],
        "member": [GATE],
    }


def test_interleaved_gangs_start_whole_and_the_rest_stays_gated(stage: Stage) -> None:
    stage.add_nodes(8)
    names = ["a", "b", "c"]
    stage.create(*interleaved([stage.gang(name, 4) for name in names]))
    stage.wait(lambda pods: sum(len(bound(pods, name)) == 4 for name in names) == 2)
    stage.wait_at_rest()
    counts = {name: len(bound(stage.pods(), name)) for name in names}
    assert sorted(counts.values()) == [0, 4, 4]
    waiting = next(name for name in names if counts[name] == 0)
    assert all(gates(pod) == [GATE] for pod in stage.pods() if pod["metadata"]["name"].startswith(waiting))
    stage.delete(*[f"{next(name for name in names if counts[name])}-{i}" for i in range(4)])
    stage.wait_bound(waiting, size=4)


def test_a_gated_gang_never_reaches_filter_before_it_is_placed(stage: Stage) -> None:
    stage.add_nodes(2)
    before = stage.filter_calls()
    stage.create(*stage.gang("big", 3))
    stage.wait_reason("big", "NoRoom")
    assert stage.filter_calls() == before
    stage.add_nodes(1)
    stage.wait_bound("big", size=3)
    assert stage.filter_calls() == before + 3


def test_a_gate_of_somebody_else_keeps_the_gang_waiting_until_it_is_gone(stage: Stage) -> None:
    stage.add_nodes(2)
    first, second = stage.gang("pair", 2)
    first["spec"]["schedulingGates"] = [{"name": "example.com/quota"}]
    stage.create(first, second)
    assert "1 of 2 members are gated by example.com/quota" in stage.wait_reason("pair", "Gated")
    assert bound(stage.pods(), "pair") == []
    patch = {"spec": {"schedulingGates": [{"name": "example.com/quota", "$patch": "delete"}]}}
    stage.api.patch(f"{stage.pods_path}/pair-0", patch, "application/strategic-merge-patch+json")
    stage.wait_bound("pair", size=2)


def test_the_extender_killed_while_a_gang_is_steered_starts_it_after_its_return(stage: Stage) -> None:
    """The first gate that is seen to come off is the moment of the kill."""
    stage.add_nodes(6)
    version = stage.api.get(stage.pods_path)["metadata"]["resourceVersion"]
    with stage.api.watch(stage.pods_path, version) as changes:
        stage.create_all(stage.gang("train", 48, gpus=1))
        next(pod for kind, pod in changes if kind == "MODIFIED" and not gates(pod))
        stage.muster.extender.kill()
    stage.muster.restart_extender()
    stage.wait_bound("train", size=48)


def test_a_replacement_of_a_running_gang_is_ungated_and_bound(stage: Stage) -> None:
    stage.add_nodes(2)
    stage.create(*stage.gang("pair", 2))
    stage.wait_bound("pair", size=2)
    stage.delete("pair-1")
    stage.create(stage.pod("pair-1b", gang="pair", size=2))
    stage.wait_bound("pair", size=2, timeout_s=20)
