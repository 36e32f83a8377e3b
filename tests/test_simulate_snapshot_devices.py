"""Devices in a snapshot: gangs with claims are planned as in the cluster, also without the names of its owner."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import msgspec
import pytest

from extender.kube.resources import (
    CLAIM_TEMPLATES,
    COMPUTE_DOMAINS,
    DEVICE_CLAIMS,
    DEVICE_CLASSES,
    SLICES,
    TAINT_RULES,
)
from extender.kube.snapshots.devices import DeviceObjects, take_devices
from extender.kube.snapshots.pseudonyms import anonymise
from extender.kube.snapshots.snapshot import ClusterFile, encode
from tests.kube.fake_api import fake_api, refused
from tests.kube.kinds.following import listed
from tests.snapshots import Tree, answers, node, pod, simulate, taken

DRIVER = "gpu.nvidia.com"
LARGE = f"device.capacity['{DRIVER}'].memory.compareTo(quantity('80Gi')) >= 0"


def published(name: str, *memory: str) -> Tree:
    """The ResourceSlice of a node, with a GPU of each of these sizes."""
    gpus = [
        {"name": f"gpu-{at}", "attributes": {"uuid": {"string": f"GPU-hush-{name}-{at}"}}, "capacity": {"memory": each}}
        for at, each in enumerate({"value": size} for size in memory)
    ]
    pool = {"name": name, "generation": 1, "resourceSliceCount": 1}
    return {
        "metadata": {"name": f"hush-{name}"},
        "spec": {"driver": DRIVER, "pool": pool, "nodeName": name, "devices": gpus},
    }


def spec(*selectors: str) -> Tree:
    request: Tree = {
        "deviceClassName": DRIVER,
        "selectors": [{"cel": {"expression": selector}} for selector in selectors],
    }
    return {"devices": {"requests": [{"name": "hush-gpu", "exactly": request}]}}


def template(name: str, *selectors: str) -> Tree:
    meta = {"name": name, "namespace": "team-vision", "uid": f"uid-{name}"}
    return {"metadata": meta, "spec": {"spec": spec(*selectors)}}


def claiming(gang: str, index: int, size: int, template: str, on: str | None = None) -> Tree:
    """A pod that requests no GPUs by name, and has a claim of that template."""
    use = [{"name": "hush-use", "resourceClaimTemplateName": template}]
    return pod(gang, index, size, gpus=0, node=on, resourceClaims=use)


def given(pod: Tree, on: str, device: str) -> Tree:
    """The claim of a pod that runs."""
    owner = {"kind": "Pod", "name": pod["metadata"]["name"], "uid": pod["metadata"]["uid"], "controller": True}
    result = {"driver": DRIVER, "pool": on, "device": device, "request": "hush-gpu"}
    terms = [{"matchFields": [{"key": "metadata.name", "operator": "In", "values": [on]}]}]
    allocation: dict[str, Any] = {"devices": {"results": [result]}, "nodeSelector": {"nodeSelectorTerms": terms}}
    return {
        "metadata": {
            "name": "hush-claim",
            "namespace": "team-vision",
            "uid": "hush-claim-uid",
            "annotations": {"resource.kubernetes.io/pod-claim-name": "hush-use"},
            "ownerReferences": [owner],
        },
        "spec": spec(),
        "status": {"allocation": allocation, "reservedFor": [{"uid": pod["metadata"]["uid"]}]},
    }


def cluster() -> ClusterFile:
    """A cluster of two large GPUs: a gang has one, another gang wants one, and the next gang two."""
    runs = claiming("runs", 0, 1, "hush-any", on="gpu-0")
    selectors = [{"cel": {"expression": f"device.driver == '{DRIVER}'"}}]
    return taken(
        [node("gpu-0", "rack"), node("gpu-1", "rack")],
        [
            runs,
            claiming("fits", 0, 1, "hush-large"),
            *(claiming("waits", index, 2, "hush-large") for index in range(2)),
        ],
        devices={
            "classes": [{"metadata": {"name": DRIVER}, "spec": {"selectors": selectors}}],
            "slices": [published("gpu-0", "80Gi", "40Gi"), published("gpu-1", "80Gi")],
            "claimTemplates": [template("hush-any"), template("hush-large", LARGE)],
            "claims": [given(runs, "gpu-0", "gpu-0")],
        },
    )


@pytest.mark.parametrize("hidden", [False, True])
def test_gangs_with_claims_are_planned_by_the_devices_of_the_snapshot(tmp_path: Path, *, hidden: bool) -> None:
    file = anonymise(cluster()) if hidden else cluster()
    _, (verdict,) = simulate(tmp_path, file)
    starts = [answer for answer in verdict["answers"] if answer["nodes"]]
    (waits,) = [answer for answer in verdict["answers"] if not answer["nodes"]]
    assert [answer["members"] for answer in starts] == [1]
    assert waits["members"] == 2
    assert waits["code"] == "NoRoom"
    assert f"device of {DRIVER} with memory >= 80Gi" in waits["reason"]
    if not hidden:
        assert answers(verdict)["fits"]["nodes"] == {"fits-0": "gpu-1"}


def test_no_name_of_devices_is_left_in_a_file_without_names() -> None:
    text = encode(anonymise(cluster())).decode()
    assert "hush" not in text
    assert "gpu-0" not in text
    assert DRIVER in text
    assert "80Gi" in text
    assert "hush" in encode(cluster()).decode()


IMEX = "compute-domain.nvidia.com"
CHANNEL, DAEMON = "compute-domain-default-channel.nvidia.com", "compute-domain-daemon.nvidia.com"


def channel(name: str) -> Tree:
    published: Tree = {"driver": IMEX, "pool": {"name": name, "generation": 1, "resourceSliceCount": 1}}
    devices = [{"name": "channel-0", "attributes": {"type": {"string": "channel"}}}]
    return {"metadata": {"name": f"hush-{name}-imex"}, "spec": published | {"nodeName": name, "devices": devices}}


def in_domain() -> Tree:
    """A ComputeDomain and the template that the driver's controller has made for it, as the API server has them."""
    labels = {"resource.nvidia.com/computeDomain": "uid-hush", "resource.nvidia.com/computeDomainTarget": "Workload"}
    parameters = {"kind": "ComputeDomainChannelConfig", "domainID": "uid-hush", "allocationMode": "Single"}
    config = [
        {"requests": ["channel"], "opaque": {"driver": IMEX, "parameters": parameters}},
        {"opaque": {"driver": "other.example.com", "parameters": {"password": "secret"}}},
    ]
    devices = {"requests": [{"name": "channel", "exactly": {"deviceClassName": CHANNEL}}], "config": config}
    meta = {"namespace": "team-vision", "uid": "uid-template", "labels": labels | {"corp.example/owner": "secret"}}
    return {
        "classes": [{"metadata": {"name": name}, "spec": {}} for name in (CHANNEL, DAEMON)],
        "slices": [channel(f"gpu-{rack}{at}") for rack in "ab" for at in range(2)],
        "computeDomains": [
            {
                "metadata": {"name": "hush-domain", "namespace": "team-vision", "uid": "uid-hush"},
                "spec": {"numNodes": 2, "channel": {"resourceClaimTemplate": {"name": "hush-channel"}}},
            }
        ],
        "claimTemplates": [{"metadata": meta | {"name": "hush-channel"}, "spec": {"spec": {"devices": devices}}}],
    }


async def read_from_api(objects: Tree) -> DeviceObjects:
    async with fake_api() as (api, kube):
        for kind, resource in (
            ("classes", DEVICE_CLASSES),
            ("taintRules", TAINT_RULES),
            ("slices", SLICES),
            ("computeDomains", COMPUTE_DOMAINS),
            ("claimTemplates", CLAIM_TEMPLATES),
            ("claims", DEVICE_CLAIMS),
        ):
            api.on("GET", resource.path, listed(*objects[kind]) if kind in objects else refused(404))
        return await take_devices(kube)


@pytest.mark.parametrize("hidden", [False, True])
def test_gangs_of_a_compute_domain_go_to_one_clique(tmp_path: Path, *, hidden: bool) -> None:
    """A node of the first rack is prepared for another domain."""
    devices = asyncio.run(read_from_api(in_domain()))
    other = {"resource.nvidia.com/computeDomain": "uid-other"}
    nodes = [
        node(f"gpu-{rack}{at}", rack, **(other if (rack, at) == ("a", 0) else {})) for rack in "ab" for at in (0, 1)
    ]
    pods = [claiming("train", at, 2, "hush-channel") for at in range(2)]
    file = taken(nodes, pods, devices=msgspec.to_builtins(devices))
    text = encode(anonymise(file)).decode()
    assert "hush" not in text
    assert "secret" not in encode(file).decode()
    _, (verdict,) = simulate(tmp_path, anonymise(file) if hidden else file)
    (answer,) = verdict["answers"]
    assert len(answer["nodes"]) == 2
    assert len(answer["domains"]) == 1
    assert hidden or set(answer["nodes"].values()) == {"gpu-b0", "gpu-b1"}
