"""A pod with every field that is decoded, and the same with another value of each."""

from __future__ import annotations

from collections.abc import Iterator
from copy import deepcopy
from typing import Any

Path = tuple[str | int, ...]
_TERM = {"key": "zone", "operator": "In", "values": ["a", "b"]}
PORTS: list[dict[str, Any]] = [{"containerPort": 80, "protocol": "TCP", "hostIP": "10.0.0.1"}, {"hostPort": 81}]
_CONTAINER = {
    "restartPolicy": "Never",
    "resources": {"requests": {"cpu": "1"}, "limits": {"memory": "1Gi"}},
    "ports": PORTS,
}
_SELECTOR = {"matchLabels": {"app": "train"}, "matchExpressions": [_TERM]}
_CLAIM = {
    "storageClassName": "local",
    "accessModes": ["ReadWriteOnce"],
    "resources": {"requests": {"storage": "1Gi"}, "limits": {"storage": "2Gi"}},
    "volumeMode": "Block",
    "volumeAttributesClassName": "fast",
    "volumeName": "pv-1",
    "selector": _SELECTOR,
}
_LABEL = "muster.dev/min-member"
_NEAR = {
    "topologyKey": "rack",
    "labelSelector": _SELECTOR,
    "namespaces": ["team"],
    "namespaceSelector": _SELECTOR,
    "matchLabelKeys": [_LABEL],
    "mismatchLabelKeys": ["team"],
}
SPREAD = {
    "topologyKey": "rack",
    "whenUnsatisfiable": "DoNotSchedule",
    "maxSkew": 1,
    "minDomains": 2,
    "labelSelector": _SELECTOR,
    "matchLabelKeys": [_LABEL],
    "nodeAffinityPolicy": "Ignore",
    "nodeTaintsPolicy": "Honor",
}
_META = {
    "name": "p-1",
    "namespace": "team",
    "uid": "u",
    "resourceVersion": "7",
    "creationTimestamp": "2026-01-01T00:00:00Z",
    "deletionTimestamp": "2026-01-01T00:00:00Z",
    "labels": {_LABEL: "2", "team": "a"},
    "annotations": {"muster.dev/pod-group": "train"},
    "ownerReferences": [
        {"apiVersion": "batch/v1", "kind": "Job", "name": "train", "uid": "j", "controller": True},
    ],
}
WHOLE: dict[str, Any] = {
    "metadata": _META,
    "spec": {
        "schedulerName": "muster",
        "nodeName": "n1",
        "priority": 3,
        "preemptionPolicy": "Never",
        "activeDeadlineSeconds": 60,
        "schedulingGates": [{"name": "muster.dev/gang"}],
        "schedulingGroup": {"podGroupName": "them"},
        "resourceClaims": [
            {"name": "channel", "resourceClaimTemplateName": "channels"},
            {"name": "gpu", "resourceClaimName": "gpus"},
        ],
        "containers": [_CONTAINER],
        "initContainers": [{**_CONTAINER, "resources": {"requests": {"disk": "3"}, "limits": {"gpu": "1"}}}],
        "overhead": {"cpu": "250m"},
        "resources": {"requests": {"hugepages-1Gi": "1Gi"}, "limits": {"hugepages-2Mi": "2Mi"}},
        "volumes": [
            {"name": "data", "persistentVolumeClaim": {"claimName": "claim"}},
            {"name": "scratch", "ephemeral": {"volumeClaimTemplate": {"metadata": _META, "spec": _CLAIM}}},
        ],
        "nodeSelector": {"rack": "r1"},
        "affinity": {
            "nodeAffinity": {
                "requiredDuringSchedulingIgnoredDuringExecution": {
                    "nodeSelectorTerms": [{"matchExpressions": [_TERM], "matchFields": [{**_TERM, "key": "name"}]}]
                },
                "preferredDuringSchedulingIgnoredDuringExecution": [
                    {
                        "weight": 1,
                        "preference": {"matchExpressions": [_TERM], "matchFields": [{**_TERM, "key": "name"}]},
                    }
                ],
            },
            "podAffinity": {
                "requiredDuringSchedulingIgnoredDuringExecution": [_NEAR],
                "preferredDuringSchedulingIgnoredDuringExecution": [{"weight": 2, "podAffinityTerm": _NEAR}],
            },
            "podAntiAffinity": {
                "requiredDuringSchedulingIgnoredDuringExecution": [_NEAR],
                "preferredDuringSchedulingIgnoredDuringExecution": [{"weight": 3, "podAffinityTerm": _NEAR}],
            },
        },
        "hostNetwork": True,
        "topologySpreadConstraints": [SPREAD],
        "tolerations": [{"key": "gpu", "operator": "Exists", "value": "v", "effect": "NoSchedule"}],
    },
    "status": {
        "phase": "Running",
        "nominatedNodeName": "n2",
        "startTime": "2026-01-01T00:00:00Z",
        "conditions": [{"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": "full"}],
    },
}


def leaves(value: object, path: Path = ()) -> Iterator[Path]:
    """Yield the path of every place that can be changed: every value, and every mapping or list as a whole."""
    if path:
        yield path
    members = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, member in members:
        yield from leaves(member, (*path, key))


def changed(path: Path) -> list[dict[str, Any]]:
    """The whole pod without that field, and with another value in it."""
    without, other = deepcopy(WHOLE), deepcopy(WHOLE)
    *way, last = path
    for pod in (without, other):
        at: Any = pod
        for key in way:
            at = at[key]
        if pod is without:
            del at[last]
        else:
            at[last] = _other(at[last])
    return [without, other]


def _other(value: object) -> object:
    match value:
        case bool():
            return not value
        case int():
            return value + 1
        case str() if value.endswith("Z"):
            return value.replace("2026", "2027")
        case str() if value[0].isdigit():
            return f"1{value}"
    return f"{value}x" if isinstance(value, str) else value
