"""Node objects of a platform, as its kubelets write them: resources, amounts, labels, taints and conditions.

The YAML file of a platform has what all its nodes share; ``topology`` says over how many nodes a label has one value.
``examples`` are single nodes that differ from that; together they are the nodes of ``examples()``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from functools import cache
from importlib.resources import files
from typing import Any

from extender.config.reading import parse_yaml

GPU = "nvidia.com/gpu"
HEARTBEAT = "2026-11-20T08:00:00Z"
PLATFORMS = (
    "gke-a3", "gke-a3-mega", "gke-a4", "gke-tpu",
    "eks-p5", "eks-p4d", "eks-p6e",
    "aks-h100", "aks-gb200",
    "oke-h100", "oke-mi300x",
    "coreweave-gb200", "dgx-b200", "gb200",
    "a100-mig", "eks-p5-mig", "gaudi2", "vm-cpu", "hami",
)  # fmt: skip
"""The names of all platforms, in the order of their examples."""


class UnknownPlatformError(ValueError):
    """No platform has that name; the message lists the platforms."""


def nodes(
    platform: str,
    count: int,
    *,
    name: Callable[[int], str] | None = None,
    now: str = HEARTBEAT,
) -> list[dict[str, Any]]:
    """That many nodes of a platform. Raises UnknownPlatformError.

    ``name``: the name of the node of that number; by default the platform and the number.
    ``now``: the instant of all heartbeats.
    """
    about = _about(platform)
    names = name or (lambda number: f"{platform}-{number}")
    return [_node(about, names(number), number + 1, _topology(about, number), {}, now) for number in range(count)]


def examples(now: str = HEARTBEAT) -> list[dict[str, Any]]:
    """A node of each platform, and more where nodes of one platform differ: 22, with 78 names of resources."""
    return [
        _node(about, example["name"], int(example["name"].rpartition("-")[2]), example.get("labels", {}), example, now)
        for about in map(_about, PLATFORMS)
        for example in about["examples"]
    ]


def accelerator(platform: str) -> str:
    """The resource that is the platform's GPU; empty for one without any. Raises UnknownPlatformError."""
    return str(_about(platform).get("accelerator", GPU))


def _about(platform: str) -> dict[str, Any]:
    if platform not in PLATFORMS:
        raise UnknownPlatformError(f"there is no platform {platform!r}; there are {', '.join(PLATFORMS)}")
    return _read(platform)


@cache
def _read(file: str) -> dict[str, Any]:
    read: dict[str, Any] = parse_yaml((files(__package__) / f"{file}.yaml").read_text("utf-8"))
    return read


def _topology(about: Mapping[str, Any], number: int) -> dict[str, str]:
    return {level["label"]: level["value"].format(number // level["nodes"] + 1) for level in about.get("topology", ())}


def _node(
    about: Mapping[str, Any], name: str, number: int, topology: Mapping[str, str], own: Mapping[str, Any], now: str
) -> dict[str, Any]:
    spec = {
        "providerID": about["provider_id"].format(name=name, number=number) if "provider_id" in about else None,
        "unschedulable": own.get("unschedulable"),
        "taints": [*map(dict, about.get("taints", ())), *map(dict, own.get("taints", ()))],
    }
    labels = dict(_labels(about, name)) | dict(topology)
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {
            "name": name,
            "labels": dict(sorted(labels.items())),
            "annotations": _read("common")["annotations"] | about.get("annotations", {}),
        },
        "spec": {key: value for key, value in spec.items() if value},
        "status": _status(about, name, now),
    }


def _labels(about: Mapping[str, Any], name: str) -> Iterator[tuple[str, str]]:
    system = {"arch": about["arch"], "os": "linux"}
    if "instance_type" in about:
        yield "node.kubernetes.io/instance-type", about["instance_type"]
        yield "beta.kubernetes.io/instance-type", about["instance_type"]
    for key, value in system.items():
        yield f"kubernetes.io/{key}", value
        yield f"beta.kubernetes.io/{key}", value
    for key, value in about.get("cloud", {}).items():
        yield f"topology.kubernetes.io/{key}", value
        yield f"failure-domain.beta.kubernetes.io/{key}", value
    yield "kubernetes.io/hostname", name
    if "gpu_feature_discovery" in about:
        yield from _read("common")["gpu_feature_discovery"].items()
        yield from _versions(**about["gpu_feature_discovery"])
    yield from about.get("labels", {}).items()


def _versions(driver: str, cuda: str, versions: str = "full") -> Iterator[tuple[str, str]]:
    """The labels of the driver and of CUDA; older releases of GPU Feature Discovery write only the ``short`` ones."""
    for what, version, last in (("driver", driver, "rev"), ("runtime", cuda, "")):
        parts = dict(zip(("major", "minor", last), version.split("."), strict=False))
        for number, value in parts.items():
            yield f"nvidia.com/cuda.{what}.{number}", value
            if versions == "full":
                yield f"nvidia.com/cuda.{what}-version.{number.replace('rev', 'revision')}", value
        if versions == "full":
            yield f"nvidia.com/cuda.{what}-version.full", version


def _status(about: Mapping[str, Any], name: str, now: str) -> dict[str, Any]:
    common, system = _read("common"), about["system"]
    unknown = {"machineID": "0" * 32, "systemUUID": _NO_UUID, "bootID": _NO_UUID}
    conditions = [common["conditions"][condition] for condition in (*about.get("conditions", ()), *common["kubelet"])]
    return {
        "capacity": dict(about["capacity"]),
        "allocatable": about["capacity"] | about.get("allocatable", {}),
        "conditions": [
            {"type": kind, "status": status, "reason": reason, "message": message}
            | {"lastHeartbeatTime": now, "lastTransitionTime": now}
            for kind, status, reason, message in conditions
        ],
        "addresses": [{"type": "Hostname", "address": name}],
        "daemonEndpoints": {"kubeletEndpoint": {"Port": 10250}},
        "nodeInfo": unknown
        | {
            "architecture": about["arch"],
            "operatingSystem": "linux",
            "osImage": system["os"],
            "kernelVersion": system["kernel"],
            "containerRuntimeVersion": system["runtime"],
            "kubeletVersion": system["kubelet"],
            "kubeProxyVersion": system.get("kube_proxy", ""),
        },
    } | _handlers(system)


def _handlers(system: Mapping[str, Any]) -> dict[str, Any]:
    """The report about the container runtime, as kubelets write it from 1.33 on."""
    if "handlers" not in system:
        return {}
    features = {"recursiveReadOnlyMounts": True, "userNamespaces": True}
    handlers = [{"name": name, "features": dict(features)} for name in system["handlers"]]
    return {"features": {"supplementalGroupsPolicy": True}, "runtimeHandlers": handlers}


_NO_UUID = "00000000-0000-0000-0000-000000000000"
