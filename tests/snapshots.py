"""Snapshots of small clusters, and the answers of `muster simulate --snapshot` about them."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec
from typer.testing import CliRunner

from extender.cli.simulate import main
from extender.kube.reading.budgets import BudgetObject
from extender.kube.reading.objects import GroupObject, NodeObject, PodObject
from extender.kube.snapshots.devices import DeviceObjects
from extender.kube.snapshots.snapshot import ClusterFile, encode, reduced

Tree = dict[str, Any]


def node(name: str, clique: str, **labels: str) -> Tree:
    return {
        "metadata": {
            "name": name,
            "labels": {"kubernetes.io/hostname": name, "nvidia.com/gpu.clique": clique, **labels},
            "annotations": {"corp.example/note": "hush"},
        },
        "spec": {"taints": [{"key": "corp.example/team", "value": "vision", "effect": "NoSchedule"}]},
        "status": {
            "allocatable": {"nvidia.com/gpu": "8", "cpu": "64", "pods": "110"},
            "conditions": [{"type": "Ready", "status": "True", "message": "hush"}],
        },
    }


def pod(gang: str, index: int, size: int, *, gpus: int = 8, node: str | None = None, **spec: Any) -> Tree:
    return {
        "metadata": {
            "name": f"{gang}-{index}",
            "namespace": "team-vision",
            "uid": f"0000-{gang}-{index}",
            "creationTimestamp": "2026-08-01T10:00:00Z",
            "ownerReferences": [{"kind": "Job", "name": f"made-{gang}", "uid": f"0000-{gang}", "controller": True}],
            "labels": {"owner": "hush"},
            "annotations": {
                "muster.dev/pod-group": gang,
                "muster.dev/min-member": str(size),
                "kubectl.kubernetes.io/last-applied-configuration": "hush",
            },
        },
        "spec": {
            "schedulerName": "muster",
            "nodeName": node,
            "tolerations": [{"key": "corp.example/team", "operator": "Equal", "value": "vision"}],
            "containers": [
                {
                    "name": "main",
                    "image": "hush",
                    "command": ["hush"],
                    "env": [{"name": "TOKEN", "value": "hush"}],
                    "resources": {"requests": {"nvidia.com/gpu": str(gpus)}, "limits": {"nvidia.com/gpu": str(gpus)}},
                }
            ],
            "volumes": [{"name": "v", "secret": {"secretName": "hush"}}],
            **spec,
        },
        "status": {"phase": "Running" if node else "Pending"},
    }


def taken(
    nodes: list[Tree],
    pods: list[Tree],
    groups: list[Tree] | None = None,
    budgets: Sequence[BudgetObject] = (),
    devices: Tree | None = None,
) -> ClusterFile:
    """The snapshot of a cluster with these objects."""
    return reduced(
        nodes=msgspec.convert(nodes, list[NodeObject]),
        pods=msgspec.convert(pods, list[PodObject]),
        groups=msgspec.convert(groups or [], list[GroupObject]),
        budgets=budgets,
        devices=msgspec.convert(devices or {}, DeviceObjects),
    )


def crowded() -> ClusterFile:
    """Clique a is free, b half full; one gang runs, one fits, one does not, one is too small."""
    nodes = [node(f"gpu-{clique}{number}", f"rack-{clique}") for clique in "ab" for number in range(2)]
    return taken(
        nodes,
        [
            pod("running", 0, 1, node="gpu-b0"),
            *(pod("fits", index, 2) for index in range(2)),
            *(pod("large", index, 3) for index in range(3)),
            pod("lonely", 0, 2),
        ],
    )


def simulate(tmp_path: Path, file: ClusterFile, *args: str) -> tuple[str, list[Tree]]:
    """The output, and the verdicts."""
    (tmp_path / "cluster.json").write_bytes(encode(file))
    out = tmp_path / "verdicts.json"
    ended = CliRunner().invoke(main, ["--snapshot", str(tmp_path / "cluster.json"), "--json", str(out), *args])
    assert ended.exit_code == 0, ended.output
    return " ".join(ended.output.split()), json.loads(out.read_text())["verdicts"]


def answers(verdict: Mapping[str, Any]) -> dict[str, Tree]:
    return {answer["gang"].partition("/")[2]: answer for answer in verdict["answers"]}
