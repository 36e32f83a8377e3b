"""The nodes of the platforms: complete, unlike each other where real nodes are, and readable."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from typer.testing import CliRunner

from devcluster.__main__ import app
from devcluster.platforms import daemon_pods, daemonsets, for_kwok
from extender.kube.convert import node_from, pod_from
from extender.kube.reading.objects import NodeObject, PodObject
from extender.platforms import nodes as platforms
from policies.model import CLIQUE, Node


def read(node: dict[str, Any]) -> Node:
    """Read the node as the watch shows it: with texts of its own."""
    return node_from(msgspec.json.decode(msgspec.json.encode(node), type=NodeObject))


def values(nodes: list[dict[str, Any]], label: str) -> list[str]:
    return [node["metadata"]["labels"][label] for node in nodes]


def test_the_examples_are_22_nodes_with_78_names_of_resources() -> None:
    nodes = platforms.examples()
    assert [node["metadata"]["name"] for node in nodes] == [f"node-{number}" for number in range(1, 23)]
    assert len({name for node in nodes for name in node["status"]["allocatable"]}) == 78
    sizes = [len(node["status"]["allocatable"]) for node in nodes]
    assert (min(sizes), max(sizes)) == (7, 25)


@pytest.mark.parametrize("platform", platforms.PLATFORMS)
def test_a_node_of_each_platform_is_complete_and_readable(platform: str) -> None:
    first, second = for_kwok(platforms.nodes(platform, 2))
    for number, node in enumerate((first, second)):
        assert (
            node["metadata"]["name"] == node["metadata"]["labels"]["kubernetes.io/hostname"] == f"{platform}-{number}"
        )
        assert node["metadata"]["annotations"]["kwok.x-k8s.io/node"] == "fake"
        assert node["status"]["allocatable"].keys() == node["status"]["capacity"].keys()
    assert first["spec"].get("providerID", "") != second["spec"].get("providerID", "-")
    seen = read(first)
    assert seen.ready
    assert not seen.unschedulable
    assert dict(seen.allocatable)["pods"] >= 100
    if gpu := platforms.accelerator(platform):
        assert dict(seen.allocatable)[gpu] > 0


def test_amounts_are_those_that_a_kubelet_prints() -> None:
    on = {node["metadata"]["name"]: node["status"]["allocatable"] for node in platforms.examples()}
    assert on["node-5"]["cpu"] == "191450m"
    assert on["node-15"]["rdma/hca_shared_devices_a"] == "1k"
    assert on["node-8"]["rdma/ib"] == "0"
    (seen,) = [read(node) for node in platforms.examples() if node["metadata"]["name"] == "node-5"]
    amounts = dict(seen.allocatable)
    assert (amounts["cpu"], amounts["hugepages-2Mi"]) == (191_450, 10_256 << 20)
    assert amounts["hugepages-1Gi"] == 0


def test_labels_of_the_topology_vary_over_the_nodes() -> None:
    nodes = platforms.nodes("gb200", 40)
    assert [values(nodes, CLIQUE).count(value) for value in dict.fromkeys(values(nodes, CLIQUE))] == [18, 18, 4]
    assert len(set(values(nodes, "fabric.topograph.run/tier-0"))) == 5


def test_nodes_are_named_as_the_caller_wants() -> None:
    named = platforms.nodes("hami", 2, name="gpu-{}".format)
    assert [node["metadata"]["name"] for node in named] == ["gpu-0", "gpu-1"]


def test_an_unknown_platform_is_refused_with_the_names_there_are() -> None:
    with pytest.raises(platforms.UnknownPlatformError, match=r"no platform 'gke-a5'; there are gke-a3, .*hami"):
        platforms.nodes("gke-a5", 1)


def test_devcluster_refuses_an_unknown_platform_before_it_starts_anything() -> None:
    ended = CliRunner().invoke(app, ["--platform", "gke-a5"])
    assert ended.exit_code == 2
    assert "there is no platform gke-a5" in " ".join(ended.output.replace("│", " ").split())


def test_daemons_leave_what_a_real_node_has_left() -> None:
    (node,) = [node for node in platforms.examples() if node["metadata"]["name"] == "node-5"]
    pods = [pod_from(msgspec.convert(pod, PodObject)) for pod in daemon_pods(node)]
    assert [pod.name.removesuffix("-node-5") for pod in pods] == [
        "aws-node", "kube-proxy", "ebs-csi-node", "aws-efa-k8s-device-plugin",
    ]  # fmt: skip
    assert dict(read(node).allocatable)["cpu"] - sum(dict(pod.requests)["cpu"] for pod in pods) == 191_260
    assert all(pod.stays and pod.node == "node-5" for pod in pods)
    waiting = daemon_pods(node, bound=False)
    assert not any("nodeName" in pod["spec"] for pod in waiting)


def test_daemons_are_those_of_the_nodes_provider_and_network() -> None:
    def names(platform: str) -> list[str]:
        (node,) = platforms.nodes(platform, 1)
        return [pod["metadata"]["labels"]["name"] for pod in daemon_pods(node)]

    assert names("gke-a3") == ["kube-proxy", "nvidia-gpu-device-plugin"]
    assert names("dgx-b200") == ["kube-proxy", "nvidia-device-plugin", "dcgm-exporter", "calico-node"]
    assert names("vm-cpu") == ["kube-proxy", "calico-node"]
    assert len(daemonsets()) == 8


def test_what_nodes_have_in_common_is_kept_once() -> None:
    """5,000 nodes with fifty labels and sixteen names each would take 40 MiB."""
    first, second = map(read, platforms.nodes("dgx-b200", 2))
    assert first.allocatable is second.allocatable
    other = {key: value for key, value in second.labels.items() if value == first.labels.get(key)}
    assert len(other) > 40
    assert all(value is first.labels[key] for key, value in other.items())
