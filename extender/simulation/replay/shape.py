"""Make nodes of a cluster's shape: a line ("64 nodes x 8 GPUs in cliques of 16", "gb200=36"), or pools."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from extender.kube.reading.quantity import milli, whole
from extender.platforms import nodes as platforms
from policies.model import CLIQUE, HOSTNAME, Node
from policies.words import many

GPU = "nvidia.com/gpu"
_PODS = 110
"""A kubelet's limit of pods. A node with more GPUs gets as many pods, so that GPUs alone decide."""
_MOST_NODES, _MOST_GPUS = 100_000, 1024
"""The limits of a simulation: nodes of the cluster, GPUs of a node."""
_POOL = re.compile(
    r"\s*(?P<nodes>\d+)\s+nodes?\s*(?:x|\u00d7|with|of)\s*(?P<gpus>\d+)\s+GPUs?"
    r"(?:\s+in\s+cliques?\s+of\s+(?P<clique>\d+))?\s*",
    re.ASCII | re.IGNORECASE,
)
_OF_PLATFORM = re.compile(
    r"\s*(?:(?P<platform>[a-z][a-z0-9-]*)\s*=\s*(?P<nodes>\d+)"
    r"|(?P<nodes_of>\d+)\s+nodes?\s+of\s+(?P<of>[a-z][a-z0-9-]*))\s*",
    re.ASCII | re.IGNORECASE,
)


class InputError(ValueError):
    """The simulator's input cannot be used; the message says what is wrong and where."""


@dataclass(frozen=True, slots=True)
class Pool:
    """Nodes of one kind.

    ``clique``: how many nodes make an NVLink domain; 0: they are in none.
    ``labels``: further labels of each node.
    ``platform``: the nodes are as in that platform, which decides their GPUs.
    """

    nodes: int
    gpus: int
    clique: int = 0
    name: str = ""
    labels: tuple[tuple[str, str], ...] = ()
    platform: str = ""


def pools_from(text: str) -> list[Pool]:
    """Parse one pool or several: ``64 nodes x 8 GPUs in cliques of 16, gb200=18``. Raises InputError."""
    return [_pool_from(pool.strip()) for pool in text.split(",")]


def _pool_from(text: str) -> Pool:
    if match := _POOL.fullmatch(text):
        nodes = _within(match["nodes"], _MOST_NODES, "nodes are simulated", text)
        gpus = _within(match["gpus"], _MOST_GPUS, "GPUs are simulated in a node", text)
        return Pool(nodes, gpus, _within(match["clique"] or "0", _MOST_NODES, "nodes make a clique", text))
    if match := _OF_PLATFORM.fullmatch(text):
        nodes = _within(match["nodes"] or match["nodes_of"], _MOST_NODES, "nodes are simulated", text)
        return pool_of(match["platform"] or match["of"], nodes)
    raise InputError(
        f"{text!r} is not a pool of nodes; say it like this: 64 nodes x 8 GPUs in cliques of 16, or like this: gb200=36"
    )


def _within(digits: str, most: int, limit: str, text: str) -> int:
    """The number. Raises InputError that names the limit."""
    # int() raises for a number of thousands of digits.
    if len(digits.lstrip("0")) > len(str(most)) or int(digits) > most:
        raise InputError(f"{text!r}: at most {most:,} {limit}")
    return int(digits)


def pool_of(platform: str, nodes: int, name: str = "", labels: tuple[tuple[str, str], ...] = ()) -> Pool:
    """A pool of a platform; its accelerators are the GPUs. Raises InputError that lists the platforms."""
    platform = platform.lower()
    try:
        (node,) = platforms.nodes(platform, 1)
    except platforms.UnknownPlatformError as error:
        raise InputError(str(error)) from None
    gpus = whole(node["status"]["allocatable"].get(platforms.accelerator(platform), 0))
    return Pool(nodes, gpus, name=name or platform, labels=labels, platform=platform)


def nodes_of(pools: Sequence[Pool]) -> list[Node]:
    """The nodes of all pools, named after their pool and numbered. Raises InputError."""
    names = [pool.name or ("node" if len(pools) == 1 else f"pool-{number}") for number, pool in enumerate(pools, 1)]
    if twice := next((name for name in names if names.count(name) > 1), None):
        raise InputError(f"two pools are called {twice}")
    nodes = [node for name, pool in zip(names, pools, strict=True) for node in _nodes(name, pool)]
    if not gpus_of(nodes):
        raise InputError("the cluster has no GPUs")
    if len(nodes) > _MOST_NODES:
        raise InputError(f"the cluster has {len(nodes):,} nodes; at most {_MOST_NODES:,} are simulated")
    return nodes


def gpus_of(nodes: Iterable[Node]) -> int:
    """The GPUs of all these nodes."""
    return sum(dict(node.allocatable).get(GPU, 0) for node in nodes)


def words(pools: Sequence[Pool]) -> str:
    """The shape in words for people."""
    return ", ".join(
        f"{many(pool.nodes, f'{pool.platform} node' if pool.platform else 'node')} x {many(pool.gpus, 'GPU')}"
        + (f" in cliques of {pool.clique}" if pool.clique else "")
        for pool in pools
    )


def _nodes(name: str, pool: Pool) -> Iterable[Node]:
    digits = len(str(max(pool.nodes - 1, 0)))
    if pool.platform:
        for made in platforms.nodes(pool.platform, pool.nodes, name=lambda number: f"{name}-{number:0{digits}d}"):
            yield _of_platform(pool, made)
        return
    for number in range(pool.nodes):
        own = f"{name}-{number:0{digits}d}"
        labels = {**dict(pool.labels), HOSTNAME: own}
        if pool.clique:
            labels[CLIQUE] = f"{name}.{number // pool.clique:0{digits}d}"
        yield Node(own, ((GPU, pool.gpus), ("pods", max(_PODS, pool.gpus))), labels)


def _of_platform(pool: Pool, made: dict[str, Any]) -> Node:
    """The node without the platform's taints: admission adds tolerations to jobs that ask for its accelerators."""
    allocatable = made["status"]["allocatable"]
    amounts = {resource: (milli if resource == "cpu" else whole)(amount) for resource, amount in allocatable.items()}
    amounts |= {GPU: pool.gpus, "pods": max(amounts["pods"], pool.gpus)}
    labels = made["metadata"]["labels"] | dict(pool.labels)
    return Node(made["metadata"]["name"], tuple(sorted(amounts.items())), labels)
