"""Nodes that exist for kwok alone: created Ready, so that none needs a second write for its status."""

import datetime
from collections.abc import Callable
from typing import Any

from devcluster.api import Api

Labels = dict[str, str] | Callable[[int], dict[str, str]] | None

NODES = "/api/v1/nodes"
CORDON = "node.kubernetes.io/unschedulable"
CONDITIONS = {
    "Ready": ("True", "KubeletReady", "kubelet is posting ready status"),
    "MemoryPressure": ("False", "KubeletHasSufficientMemory", "kubelet has sufficient memory available"),
    "DiskPressure": ("False", "KubeletHasNoDiskPressure", "kubelet has no disk pressure"),
    "PIDPressure": ("False", "KubeletHasSufficientPID", "kubelet has sufficient PID available"),
}


def node(name: str, resources: dict[str, str], labels: dict[str, str], version: str) -> dict[str, Any]:
    at = now()
    conditions = [
        {"type": kind, "status": status, "reason": reason, "message": message}
        | {"lastHeartbeatTime": at, "lastTransitionTime": at}
        for kind, (status, reason, message) in CONDITIONS.items()
    ]
    known = {"kubernetes.io/hostname": name, "kubernetes.io/os": "linux", "kubernetes.io/arch": "amd64"}
    known |= {f"beta.{label}": value for label, value in known.items() if label != "kubernetes.io/hostname"}
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "labels": known | labels, "annotations": {"kwok.x-k8s.io/node": "fake"}},
        "status": {
            "capacity": resources,
            "allocatable": resources,
            "conditions": conditions,
            "addresses": [{"type": "InternalIP", "address": "127.0.0.1"}, {"type": "Hostname", "address": name}],
            "nodeInfo": _node_info(version),
            "phase": "Running",
        },
    }


def now() -> str:
    """The present, as the API writes instants."""
    return datetime.datetime.now(datetime.UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def add(api: Api, nodes: list[dict[str, Any]], timeout_s: float) -> None:
    """Create the nodes and wait until kube-scheduler may use each."""
    added = {node["metadata"]["name"] for node in nodes}
    api.create_all((NODES, node) for node in nodes)
    api.wait_for(NODES, lambda seen: added <= {node["metadata"]["name"] for node in seen if usable(node)}, timeout_s)


def usable(node: dict[str, Any]) -> bool:
    """Ready, and without the taint of a node that is not; a cordon is the creator's wish."""
    ready = any(c["type"] == "Ready" and c["status"] == "True" for c in node["status"].get("conditions", []))
    taints = {taint["key"] for taint in node["spec"].get("taints", [])} - {CORDON}
    return ready and not any(key.startswith("node.kubernetes.io/") for key in taints)


def _node_info(version: str) -> dict[str, str]:
    """Required fields of the API; a simulated node has nothing to say in most of them."""
    unknown = ["machineID", "systemUUID", "bootID", "kernelVersion", "osImage", "kubeProxyVersion"]
    known = {"architecture": "amd64", "operatingSystem": "linux", "kubeletVersion": version}
    return dict.fromkeys(unknown, "") | known | {"containerRuntimeVersion": "kwok://"}
