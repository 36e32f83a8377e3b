"""Kubernetes' own gang scheduling (alpha) with Muster beside it: kube-scheduler starts the group.

Muster's scores bring it into one clique, and trial questions of kube-scheduler change nothing.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from benchmarks.stage import CLIQUE, GPU, NATIVE, POD_GROUPS
from devcluster import Cluster
from devcluster.api import Object
from devcluster.muster import RunningMuster, install_gate, start_muster

PODS = "/api/v1/namespaces/default/pods"
CLIQUES = 4
NODES_PER_CLIQUE = 2


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with Cluster(flags=NATIVE) as running:
        yield running


@pytest.fixture(scope="module")
def muster(cluster: Cluster) -> RunningMuster:
    # Dealt out in turn: the names of two neighbours say nothing of their clique.
    cluster.add_nodes(CLIQUES * NODES_PER_CLIQUE, gpus=8, labels=lambda number: {CLIQUE: f"c{number % CLIQUES}"})
    running = start_muster(cluster)
    install_gate(cluster)
    return running


def group(cluster: Cluster, name: str, size: int, gpus: int) -> None:
    policy = {"gang": {"minCount": size}}
    cluster.api.create(POD_GROUPS, {"metadata": {"name": name}, "spec": {"schedulingPolicy": policy}})
    for at in range(size):
        cluster.api.create(PODS, member(f"{name}-{at}", gpus, {"schedulingGroup": {"podGroupName": name}}, {}))


def member(name: str, gpus: int, more: Object, annotations: Object) -> Object:
    container = {"name": "main", "image": "train", "resources": {"limits": {GPU: gpus}}}
    spec = {"schedulerName": "muster", "containers": [container], **more}
    return {
        "metadata": {"name": name, "annotations": annotations, "labels": {"group": name.rpartition("-")[0]}},
        "spec": spec,
    }


def until_bound(cluster: Cluster, name: str, size: int) -> list[str]:
    """The clique of each of its pods, once ``size`` of them have a node."""

    def there(pods: list[Object]) -> bool:
        return len(nodes_of(pods, name)) == size

    pods = cluster.api.wait_for(PODS, there)
    cliques = {
        node["metadata"]["name"]: node["metadata"]["labels"][CLIQUE] for node in cluster.api.list("/api/v1/nodes")
    }
    return [cliques[node] for node in nodes_of(pods, name)]


def nodes_of(pods: list[Object], name: str) -> list[str]:
    mine = [pod for pod in pods if pod["metadata"]["labels"].get("group") == name]
    return [pod["spec"]["nodeName"] for pod in mine if pod["spec"].get("nodeName")]


def test_each_native_group_gets_one_clique_and_no_gate(cluster: Cluster, muster: RunningMuster) -> None:
    for name in ("one", "two"):
        group(cluster, name, 4, 4)
        assert len(set(until_bound(cluster, name, 4))) == 1, "of two nodes with eight GPUs each"
    assert not any(pod["spec"].get("schedulingGates") for pod in cluster.api.list(PODS))


def test_a_native_group_that_waits_takes_no_room_from_a_gang_of_ours(cluster: Cluster, muster: RunningMuster) -> None:
    group(cluster, "large", 5, 8)
    marks = {"muster.dev/pod-group": "ours", "muster.dev/min-member": "4"}
    for at in range(4):
        cluster.api.create(PODS, member(f"ours-{at}", 4, {}, marks))
    assert len(set(until_bound(cluster, "ours", 4))) == 1
    assert not nodes_of(cluster.api.list(PODS), "large")
