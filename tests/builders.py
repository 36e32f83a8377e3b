"""Clusters and gangs in the words of the domain, for every test that needs some."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from extender.core.ledger.claims import Claims
from policies.model import CLIQUE, Dialect, GroupKey, GroupRef, Node, Pod, PodGroup, Requests
from policies.placement.snapshot import Snapshot

GPU = "nvidia.com/gpu"
_GI = 1024**3


_BESIDE = {
    "ephemeral-storage": 3_456_591_351_820,
    "hugepages-16Gi": 0,
    "hugepages-2Mi": 0,
    "hugepages-512Mi": 0,
    "rdma/hca_shared_devices_a": 1000,
}
"""Resources of a node of the platform gb200 beside cpu, memory, GPUs and pods: nine names in all, three at 0."""


def node(name: str, gpus: int = 8, *, cpu: int = 64, clique: str = "", **facts: Any) -> Node:
    """Return a node with the names of resources that a real node has. ``cpu`` is in cores."""
    amounts = {"cpu": cpu * 1000, "memory": 512 * _GI, GPU: gpus, "pods": 110} | _BESIDE
    labels = {"kubernetes.io/hostname": name} | ({CLIQUE: clique} if clique else {}) | facts.pop("labels", {})
    return Node(name, tuple(sorted(amounts.items())), labels, **facts)


def cluster(*cliques: str) -> list[Node]:
    """``cluster("a: 2x8", "b: 4x4")``: clique a has nodes a-0 and a-1 with 8 GPUs each, clique b four with 4 each.

    The nodes of ``"-: 3x8"`` (or ``"-plain: 3x8"``, to name them) are in no clique.
    """
    nodes = []
    for text in cliques:
        name, shape = text.split(":")
        count, gpus = shape.strip().split("x")
        clique, prefix = ("", name.strip("-") or "n") if name.startswith("-") else (name, name)
        nodes += [node(f"{prefix}-{number}", int(gpus), clique=clique) for number in range(int(count))]
    return nodes


def snapshot(nodes: list[Node], *bound: Pod) -> Snapshot:
    """The snapshot that a policy sees of these nodes with these pods on them."""
    claims = Claims()
    for cluster_node in nodes:
        claims.set_node(cluster_node)
    for pod in bound:
        assert pod.node is not None, f"{pod} is not bound"
        claims.confirm(pod)
    return claims.snapshot()


def busy(nodes: str, gpus: int) -> list[Pod]:
    """``busy("a-0 a-3", 8)``: one single on each of these nodes, with that many GPUs."""
    return [single(f"busy-{name}", gpus=gpus, cpu=0, node=name) for name in nodes.split()]


def requests(gpus: int = 0, cpu: int = 1) -> Requests:
    """The requests of a pod; ``cpu`` in cores."""
    amounts = {"cpu": cpu * 1000, "pods": 1} | ({GPU: gpus} if gpus else {})
    return tuple(sorted((name, amount) for name, amount in amounts.items() if amount))


def gang(
    name: str, size: int, *, gpus: int = 8, min_member: int | None = None, life: str = "", cpu: int = 1, **facts: Any
) -> list[Pod]:
    """The pods of an Indexed Job in the annotation dialect; minMember is the size unless it is given.

    ``life`` tells the pods of one Job from those of another under the same name.
    """
    ref = GroupRef(name, Dialect.ANNOTATION, size if min_member is None else min_member)
    return [_member(name, index, ref, requests(gpus, cpu), life, facts) for index in range(size)]


def coscheduled(
    name: str, size: int, *, gpus: int = 8, life: str = "", min_member: int | None = None, **facts: Any
) -> tuple[PodGroup, list[Pod]]:
    """A gang in the coscheduling dialect: its PodGroup and its pods."""
    group = podgroup(name, size if min_member is None else min_member, uid=f"pg-{name}{life}")
    ref = GroupRef(name, Dialect.COSCHEDULING)
    return group, [_member(name, index, ref, requests(gpus), life, facts) for index in range(size)]


def podgroup(name: str, min_member: int, *, uid: str = "", **facts: Any) -> PodGroup:
    return PodGroup(GroupKey("default", name), uid or f"pg-{name}", min_member, **facts)


def single(name: str, *, gpus: int = 1, cpu: int = 1, **facts: Any) -> Pod:
    """A single pod."""
    return Pod(f"uid-{name}", "default", name, requests(gpus, cpu), **facts)


def reborn(pod: Pod, life: str = "again") -> Pod:
    """The replacement that a Job creates for a lost pod: another UID, the same completion index."""
    return replace(pod, uid=f"{pod.uid}-{life}", name=f"{pod.name}-{life}", node=None, stamp=None, nominated_node=None)


def key(name: str) -> GroupKey:
    return GroupKey("default", name)


def _member(name: str, index: int, ref: GroupRef, asked: Requests, life: str, facts: dict[str, Any]) -> Pod:
    pod = Pod(
        f"uid-{name}{life}-{index}", "default", f"{name}{life}-{index}", asked, owner=f"job-{name}{life}", index=index
    )
    return replace(pod, group=ref, **facts)
