"""Nodes of the platforms of `extender.platforms` for kwok, and the pods of the DaemonSets that run on them.

Everything here is a value: no cluster is needed to make it.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Mapping
from functools import cache
from importlib.resources import files
from typing import Any

import yaml

DAEMON_NAMESPACE = "kube-system"
_FAKE = {"kwok.x-k8s.io/node": "fake"}
_CRITICAL = "system-node-critical"
_CRITICAL_PRIORITY = 2_000_001_000


def for_kwok(nodes: Iterable[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return the Node objects of `extender.platforms.nodes` so that kwok keeps them alive."""
    return [_for_kwok(node) for node in nodes]


def daemonsets() -> list[dict[str, Any]]:
    """Return the DaemonSet objects of all providers."""
    return [_daemonset(name, about) for name, about in _daemons().items()]


def daemon_pods(node: Mapping[str, Any], *, bound: bool = True) -> list[dict[str, Any]]:
    """Return the pods that the DaemonSet controller makes for this node, bound and running or still without a node.

    Only DaemonSets of the node's provider and network are installed, and only those whose affinity the node meets.
    """
    return [
        _pod(_daemonset(name, about), node, bound)
        for name, about in _daemons().items()
        if _installed(about.get("on", {}), node) and _selected(about.get("selects", ()), node)
    ]


def _for_kwok(node: dict[str, Any]) -> dict[str, Any]:
    node["metadata"]["annotations"] |= _FAKE
    node["status"]["phase"] = "Running"  # which is how kwok knows that it may write heartbeats
    return node


@cache
def _daemons() -> dict[str, Any]:
    read: dict[str, Any] = yaml.safe_load((files(__package__) / "daemonsets.yaml").read_text("utf-8"))
    return read


def _installed(on: Mapping[str, str], node: Mapping[str, Any]) -> bool:
    provider = node["spec"].get("providerID", "").partition(":")[0]
    networks = {
        condition["reason"] for condition in node["status"]["conditions"] if condition["type"] == "NetworkUnavailable"
    }
    return on.get("provider", provider) == provider and ("network" not in on or on["network"] in networks)


def _selected(expressions: Iterable[Mapping[str, Any]], node: Mapping[str, Any]) -> bool:
    labels = node["metadata"]["labels"]
    return all(
        term["key"] in labels and labels[term["key"]] in term.get("values", labels.values()) for term in expressions
    )


def _daemonset(name: str, about: Mapping[str, Any]) -> dict[str, Any]:
    selects = [dict(selector) for selector in about.get("selects", ())]
    required = {"nodeSelectorTerms": [{"matchExpressions": selects}]}
    spec: dict[str, Any] = {
        "priorityClassName": about.get("priority_class", _CRITICAL),
        "hostNetwork": about.get("host_network"),
        "affinity": {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": required}} if selects else None,
        "tolerations": [{"operator": "Exists"}],
        "initContainers": [
            _container(container, requests, {}) for container, requests in about.get("init", {}).items()
        ],
        "containers": [_container(container, requests, about) for container, requests in about["asks"].items()],
    }
    return {
        "apiVersion": "apps/v1",
        "kind": "DaemonSet",
        "metadata": {"name": name, "namespace": DAEMON_NAMESPACE},
        "spec": {
            "selector": {"matchLabels": {"name": name}},
            "updateStrategy": {"type": "RollingUpdate"},
            "template": {
                "metadata": {"labels": {"name": name}},
                "spec": {key: value for key, value in spec.items() if value},
            },
        },
    }


def _container(name: str, requests: Mapping[str, str], about: Mapping[str, Any]) -> dict[str, Any]:
    container: dict[str, Any] = {"name": name, "image": f"registry.example.com/{name}:1"}
    resources = {"requests": dict(requests), "limits": dict(about.get("limits", {}))}
    if name in about.get("ports", {}):
        port = {"containerPort": about["ports"][name]}
        # The API server makes each port of a pod in the host's network a port of the host.
        container["ports"] = [port | ({"hostPort": port["containerPort"]} if about.get("host_network") else {})]
    return container | {"resources": {key: value for key, value in resources.items() if value}}


def _pod(daemonset: Mapping[str, Any], node: Mapping[str, Any], bound: bool) -> dict[str, Any]:
    name, on = daemonset["metadata"]["name"], node["metadata"]["name"]
    template = daemonset["spec"]["template"]
    pinned = {"matchFields": [{"key": "metadata.name", "operator": "In", "values": [on]}]}
    required = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [pinned]}}
    owner = {"apiVersion": "apps/v1", "kind": "DaemonSet", "name": name, "uid": _uid(name)}
    spec = template["spec"] | {"affinity": {"nodeAffinity": required}}
    if "priorityClassName" in spec:
        spec["priority"] = _CRITICAL_PRIORITY
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": f"{name}-{on}",
            "namespace": DAEMON_NAMESPACE,
            "uid": _uid(name, on),
            "labels": dict(template["metadata"]["labels"]),
            "ownerReferences": [owner | {"controller": True, "blockOwnerDeletion": True}],
        },
        "spec": spec | ({"nodeName": on} if bound else {}),
        "status": {"phase": "Running" if bound else "Pending"},
    }


def _uid(*parts: str) -> str:
    return str(uuid.uuid5(uuid.NAMESPACE_DNS, "/".join(parts)))
