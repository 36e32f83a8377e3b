"""A node, and what a pod can demand of it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

CLIQUE = "nvidia.com/gpu.clique"
"""The NVLink domain of a node, as NVIDIA's feature discovery labels it; the whole value is its name."""

Requests = tuple[tuple[str, int], ...]
"""The requests of a pod, sorted by resource name, ``("pods", 1)`` included."""


class Taint(NamedTuple):
    """A node's taint; only ``NoSchedule`` and ``NoExecute`` keep pods away."""

    key: str
    value: str
    effect: str


class Toleration(NamedTuple):
    """A pod's toleration; an empty key with ``Exists`` tolerates everything, an empty effect every effect."""

    key: str
    operator: str
    value: str
    effect: str


class Requirement(NamedTuple):
    """An expression of a node selector term: ``key operator values``; ``is_field`` reads the node's fields."""

    key: str
    operator: str
    values: tuple[str, ...]
    is_field: bool = False


Terms = tuple[tuple[Requirement, ...], ...]
"""A node affinity: all requirements of at least one term must hold."""


@dataclass(frozen=True, slots=True, weakref_slot=True)
class Selection:
    """A pod's demands on a node besides room: selector, required affinity and tolerations.

    ``volumes``: the node affinity of each volume that it mounts.
    ``flavors``: the demands of the flavors that it is tried with.
    ``devices``: the nodes that reach the devices of its claims.
    The hash is cached: the value may be large, and is looked up for every pod that has it.
    """

    node_selector: tuple[tuple[str, str], ...] = ()
    affinity: Terms | None = None
    tolerations: tuple[Toleration, ...] = ()
    volumes: tuple[Terms, ...] = ()
    flavors: tuple[Terms, ...] = ()
    devices: tuple[Terms, ...] = ()
    _hash: int = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "_hash", hash(self._facts()))

    def __hash__(self) -> int:
        return self._hash

    def __reduce__(self) -> tuple[type[Selection], tuple[object, ...]]:
        """Leave out the hash: another process hashes strings differently."""
        return Selection, self._facts()

    @property
    def held(self) -> tuple[Terms, ...]:
        """Terms that kube-scheduler does not read in the pod; the node must match each."""
        return (*self.volumes, *self.flavors, *self.devices) if self.flavors or self.devices else self.volumes

    def _facts(self) -> tuple[object, ...]:
        return self.node_selector, self.affinity, self.tolerations, self.volumes, self.flavors, self.devices


ANY_NODE = Selection()
"""No demand on a node except room."""


@dataclass(frozen=True, slots=True)
class Node:
    """A node as the planner sees it. ``bare``: the core has failed on it, and does not know its amounts."""

    name: str
    allocatable: Requests
    labels: Mapping[str, str] = field(default_factory=dict)
    taints: tuple[Taint, ...] = ()
    unschedulable: bool = False
    ready: bool = True
    bare: bool = False

    def differs_in_amounts_only(self, other: Node) -> bool:
        """Whether the nodes admit the same pods, apart from their room, and are in the same domains."""
        mine = self.name, self.labels, self.taints, self.unschedulable, self.ready
        return mine == (other.name, other.labels, other.taints, other.unschedulable, other.ready)
