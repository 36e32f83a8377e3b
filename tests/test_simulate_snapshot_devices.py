"""Devices in a snapshot: gangs with claims are planned as in the cluster, also without the names of its owner."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from extender.kube.snapshots.pseudonyms import anonymise
from extender.kube.snapshots.snapshot import ClusterFile, encode
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
    asked: Tree = {"deviceClassName": DRIVER, "selectors": [{"cel": {"expression": one}} for one in selectors]}
    return {"devices": {"requests": [{"name": "hush-gpu", "exactly": asked}]}}


def template(name: str, *selectors: str) -> Tree:
    meta = {"name": name, "namespace": "team-vision", "uid": f"uid-{name}"}
    return {"metadata": meta, "spec": {"spec": spec(*selectors)}}


def claiming(gang: str, index: int, size: int, template: str, on: str | None = None) -> Tree:
    """A pod that asks for no GPUs by name, and has a claim of that template."""
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
    """Of two large GPUs a gang has one; another gang wants one, and the next two."""
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
    starts = [one for one in verdict["answers"] if one["nodes"]]
    (waits,) = [one for one in verdict["answers"] if not one["nodes"]]
    assert [one["members"] for one in starts] == [1]
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
