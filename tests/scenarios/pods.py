"""Pods and gangs of scenarios, as users write them, and how to pick them out again."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Sequence
from typing import Any

from policies.model import GANG_GATE, Pod
from tests.scenarios.stage import Object

FOREIGN_GATE = "example.com/quota"


def pod(name: str, *, gpus: int = 8, gates: Sequence[str] = (), **spec: Any) -> Object:
    """A single pod; further keywords go into its spec."""
    requests = {"cpu": "1"} | ({"nvidia.com/gpu": str(gpus)} if gpus else {})
    container = {"name": "main", "image": "train", "resources": {"requests": requests, "limits": requests}}
    gated = {"schedulingGates": [{"name": gate} for gate in gates]} if gates else {}
    body = {"terminationGracePeriodSeconds": 0, "containers": [container], **gated, **spec}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": body}


def member(name: str, gang: str, size: int | None, *, topology: str = "", **facts: Any) -> Object:
    """A pod that names its gang in annotations. ``topology``: the level that it requires."""
    made = pod(name, **facts)
    made["metadata"]["annotations"] = {"muster.dev/pod-group": gang} | _wish(topology)
    if size is not None:
        made["metadata"]["annotations"]["muster.dev/min-member"] = str(size)
    return made


def gang(name: str, size: int, *, min_member: int | None = None, **facts: Any) -> list[Object]:
    """All members of a gang, of one shape."""
    return [member(f"{name}-{i}", name, min_member or size, **facts) for i in range(size)]


def gated(name: str, size: int, **facts: Any) -> list[Object]:
    """The same as the admission policy would let them in."""
    return gang(name, size, gates=(GANG_GATE,), **facts)


def labelled(name: str, group: str, *, topology: str = "", **facts: Any) -> Object:
    """A pod that names a PodGroup object. ``topology`` as above."""
    made = pod(name, **facts)
    made["metadata"]["annotations"] = _wish(topology)
    made["metadata"]["labels"] = {"scheduling.x-k8s.io/pod-group": group}
    return made


def interleaved(gangs: Sequence[Sequence[Object]]) -> list[Object]:
    """The worst order: the first member of every gang, then the second of every gang, and so on."""
    return [obj for members in itertools.zip_longest(*gangs) for obj in members if obj is not None]


def bound(pods: Iterable[Pod], name: str) -> list[Pod]:
    """The gang's members that have a node."""
    return [seen for seen in pods if seen.node and seen.group is not None and seen.group.name == name]


def whole(pods: Iterable[Pod], gangs: Iterable[str], size: int) -> list[str]:
    """The gangs that have at least ``size`` bound members."""
    seen = list(pods)
    return [name for name in gangs if len(bound(seen, name)) >= size]


def _wish(topology: str) -> dict[str, str]:
    return {"muster.dev/required-topology": topology} if topology else {}
