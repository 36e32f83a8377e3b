"""Pinned gangs on the real control plane: one write instead of two, and a pin that survives the loss of a node."""

from __future__ import annotations

import signal
from collections.abc import Iterator

import pytest

from devcluster import Cluster
from devcluster.api import Object
from devcluster.muster import RunningMuster, install_gate, start_muster
from tests.integration.stage import Stage, bound

pytestmark = pytest.mark.xdist_group("steering")


@pytest.fixture(scope="module", params=["pin-domain", "pin-node"])
def mode(request: pytest.FixtureRequest) -> str:
    steering: str = request.param
    return steering


@pytest.fixture(scope="module")
def muster(cluster: Cluster, mode: str) -> Iterator[RunningMuster]:
    running = start_muster(cluster, {"steering": mode})
    install_gate(cluster)
    yield running
    running.stop()


def pins(pod: Object) -> list[str]:
    """The nodes that the pod may use."""
    required = pod["spec"]["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]
    return [term["matchFields"][0]["values"][0] for term in required["nodeSelectorTerms"]]


def test_a_pinned_gang_starts_whole_in_one_clique_without_a_nomination(stage: Stage) -> None:
    cliques = {name: stage.add_nodes(count, clique=name) for name, count in (("wide", 4), ("tight", 2))}
    stage.create(*stage.gang("train", 2))
    stage.wait_bound("train", size=2)
    pods = stage.pods()
    assert {pod["spec"]["nodeName"] for pod in pods} == set(cliques["tight"])
    for pod in pods:
        assert pod["spec"]["nodeName"] in pins(pod)
        assert set(pins(pod)) <= set(cliques["tight"])
        assert "nominatedNodeName" not in pod["status"]


def test_affinity_terms_of_the_pod_itself_are_left_alone(stage: Stage) -> None:
    stage.add_nodes(2, clique="only")
    term = {"matchExpressions": [{"key": "stage", "operator": "Exists"}]}
    required = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [term]}}
    stage.create(*stage.gang("own", 2, affinity={"nodeAffinity": required}))
    stage.wait_bound("own", size=2)
    assert all(pod["spec"]["affinity"] == {"nodeAffinity": required} for pod in stage.pods())


def test_a_gang_pinned_to_its_clique_outlives_the_loss_of_a_node(stage: Stage, mode: str) -> None:
    if mode == "pin-node":
        pytest.skip("a pod that is pinned to one node does not")
    nodes = stage.add_nodes(3, clique="only")
    # Nothing is bound while kube-scheduler stands still.
    stage.muster.scheduler.signal(signal.SIGSTOP)
    stage.create(*stage.gang("train", 2))
    ungated = stage.wait(lambda pods: len(pods) == 2 and not any(pod["spec"].get("schedulingGates") for pod in pods))
    assert all(sorted(pins(pod)) == sorted(nodes) for pod in ungated)
    stage.remove_node(stage.explain("train")["pods"][0]["node"])
    stage.muster.scheduler.signal(signal.SIGCONT)
    stage.wait_bound("train", size=2)
    assert len(bound(stage.pods(), "train")) == 2
