"""The shape of a cluster, said in a line ("64 nodes x 8 GPUs in cliques of 16") or as pools, made into nodes."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from policies.model import CLIQUE, HOSTNAME, Node
from policies.words import many

GPU = "nvidia.com/gpu"
_PODS = 110
"""As many as a kubelet takes; with more GPUs than that, as many as there are GPUs, so that GPUs alone decide."""
_MOST_NODES = 100_000
_POOL = re.compile(
    r"\s*(?P<nodes>\d{1,6})\s+nodes?\s*(?:x|\u00d7|with|of)\s*(?P<gpus>\d{1,4})\s+GPUs?"
    r"(?:\s+in\s+cliques?\s+of\s+(?P<clique>\d{1,6}))?\s*",
    re.ASCII | re.IGNORECASE,
)


class InputError(ValueError):
    """What was given to the simulator cannot be used; the message says what and where, for whoever gave it."""


@dataclass(frozen=True, slots=True)
class Pool:
    """Nodes of one kind. ``clique``: how many of them make an NVLink domain; 0: they are in none. ``labels``: other
    labels of each of them."""

    nodes: int
    gpus: int
    clique: int = 0
    name: str = ""
    labels: tuple[tuple[str, str], ...] = ()


def pools_from(text: str) -> list[Pool]:
    """``64 nodes x 8 GPUs in cliques of 16, 18 nodes x 4 GPUs``: one pool or several. Raises InputError."""
    pools = []
    for part in text.split(","):
        match = _POOL.fullmatch(part)
        if match is None:
            raise InputError(
                f"{part.strip()!r} is not a pool of nodes; say it like this: 64 nodes x 8 GPUs in cliques of 16"
            )
        pools.append(Pool(int(match["nodes"]), int(match["gpus"]), int(match["clique"] or 0)))
    return pools


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
    """All GPUs of these nodes."""
    return sum(dict(node.allocatable).get(GPU, 0) for node in nodes)


def words(pools: Sequence[Pool]) -> str:
    """The shape as a person would say it."""
    return ", ".join(
        f"{many(pool.nodes, 'node')} x {many(pool.gpus, 'GPU')}"
        + (f" in cliques of {pool.clique}" if pool.clique else "")
        for pool in pools
    )


def _nodes(name: str, pool: Pool) -> Iterable[Node]:
    digits = len(str(max(pool.nodes - 1, 0)))
    for number in range(pool.nodes):
        own = f"{name}-{number:0{digits}d}"
        labels = {**dict(pool.labels), HOSTNAME: own}
        if pool.clique:
            labels[CLIQUE] = f"{name}.{number // pool.clique:0{digits}d}"
        yield Node(own, ((GPU, pool.gpus), ("pods", max(_PODS, pool.gpus))), labels)
