"""Pods and nodes as the API server sends them."""

from __future__ import annotations

from typing import Any

import msgspec

from extender.kube.convert import node_from, pod_from
from extender.kube.reading.objects import NodeObject, PodObject
from policies.model import Node, Pod

FULL: dict[str, Any] = {"cpu": "1", "nvidia.com/gpu": "8"}


def pod(meta: dict[str, Any] | None = None, status: dict[str, Any] | None = None, **spec: Any) -> Pod:
    metadata = {"name": "p", "namespace": "team", "uid": "u", **(meta or {})}
    return pod_from(msgspec.convert({"metadata": metadata, "spec": spec, "status": status}, PodObject))


def node(**fields: Any) -> Node:
    return node_from(msgspec.convert({"metadata": {"name": "n", "uid": "u"}, **fields}, NodeObject))


def container(restart: str | None = None, limits: Any = None, **requests: str) -> dict[str, Any]:
    return {"restartPolicy": restart, "resources": {"requests": requests, "limits": limits}}
