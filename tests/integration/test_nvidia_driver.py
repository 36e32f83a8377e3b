"""The stand-in for NVIDIA's driver: a ComputeDomain with a stock kube-scheduler, as the driver's documents show it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from devcluster import Cluster
from devcluster.api import Object
from devcluster.nvidia import NvidiaDriver
from devcluster.nvidia.objects import CLIQUE, LABEL, NAMESPACE

DOMAINS = "/apis/resource.nvidia.com/v1beta1/namespaces/default/computedomains"
JOBS = "/apis/batch/v1/namespaces/default/jobs"
TEMPLATES = "/apis/resource.k8s.io/v1/namespaces/default/resourceclaimtemplates"
GPUS = "nvidia.com/gpu"
PODS, DAEMONS = "/api/v1/namespaces/default/pods", f"/api/v1/namespaces/{NAMESPACE}/pods"


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with Cluster() as running:
        running.start_scheduler()
        nodes = running.add_nodes(3, gpus=0, labels={CLIQUE: "rack-1"})
        NvidiaDriver(running).publish(nodes, gpus=4)
        yield running


def domain(name: str, nodes: int) -> Object:
    """A ComputeDomain as NVIDIA's guide has it."""
    return {
        "apiVersion": "resource.nvidia.com/v1beta1",
        "kind": "ComputeDomain",
        "metadata": {"name": name},
        "spec": {"numNodes": nodes, "channel": {"resourceClaimTemplate": {"name": f"{name}-channel"}}},
    }


def job(name: str, pods: int) -> Object:
    """An indexed Job whose pods have a channel of the domain of that name, and all GPUs of a node by claims."""
    container = {"name": "main", "image": "none", "resources": {"claims": [{"name": "channel"}], "limits": {GPUS: 4}}}
    spec = {
        "restartPolicy": "Never",
        "resourceClaims": [{"name": "channel", "resourceClaimTemplateName": f"{name}-channel"}],
        "containers": [container],
    }
    how = {"completionMode": "Indexed", "completions": pods, "parallelism": pods}
    return {"metadata": {"name": name}, "spec": how | {"template": {"spec": spec}}}


def nodes_of(pods: list[Object]) -> set[str]:
    return {pod["spec"]["nodeName"] for pod in pods if pod["spec"].get("nodeName")}


def test_the_pods_of_a_domain_get_channels_and_their_nodes_daemons(cluster: Cluster) -> None:
    api = cluster.api
    api.create(DOMAINS, domain("train", 2))
    template = api.wait_for(f"{TEMPLATES}/train-channel", bool)
    assert template["metadata"]["labels"] == {
        LABEL: api.get(f"{DOMAINS}/train")["metadata"]["uid"],
        "resource.nvidia.com/computeDomainTarget": "Workload",
    }
    api.create(JOBS, job("train", 2))
    running = api.wait_for(PODS, lambda pods: len(nodes_of(pods)) == 2)
    ready = api.wait_for(f"{DOMAINS}/train", lambda seen: seen.get("status", {}).get("status") == "Ready")
    assert {node["name"]: node["cliqueID"] for node in ready["status"]["nodes"]} == dict.fromkeys(
        nodes_of(running), "rack-1"
    )
    assert nodes_of(api.wait_for(DAEMONS, lambda pods: len(nodes_of(pods)) == 2)) == nodes_of(running)

    # The third node has a channel of its own, and a pod of another domain gets it.
    api.create(DOMAINS, domain("other", 0))
    api.create(JOBS, job("other", 1))
    (third,) = nodes_of(api.wait_for(PODS, lambda pods: len(nodes_of(pods)) == 3)) - nodes_of(running)
    label = api.get(f"{DOMAINS}/other")["metadata"]["uid"]
    api.wait_for(f"/api/v1/nodes/{third}", lambda node: node["metadata"]["labels"].get(LABEL) == label)

    api.delete(f"{JOBS}/train", propagationPolicy="Background")
    api.wait_for(
        "/api/v1/nodes", lambda nodes: [node["metadata"]["name"] for node in nodes if _labelled(node)] == [third]
    )
    api.delete(f"{DOMAINS}/train")
    api.wait_for(f"{TEMPLATES}/train-channel", lambda seen: seen is None)
    api.wait_for(DAEMONS, lambda pods: nodes_of(pods) == {third})
    api.delete(f"{JOBS}/other", propagationPolicy="Background")


def _labelled(node: dict[str, Any]) -> bool:
    return LABEL in node["metadata"]["labels"]
