"""The nouns every decision is made of: nodes, pods, pod groups. All are immutable values.

Amounts are integers: cpu in millicores, everything else in its base unit (bytes, devices, pods).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import NamedTuple

GANG_GATE = "muster.dev/gang"
"""The scheduling gate that the admission policy puts on members, and that comes off when the gang is placed."""

CLIQUE = "nvidia.com/gpu.clique"
"""The NVLink domain of a node, as NVIDIA's feature discovery labels it; the whole value is its name."""

Requests = tuple[tuple[str, int], ...]
"""What one pod asks of a node, sorted by resource name, ``("pods", 1)`` included."""


class GroupKey(NamedTuple):
    """A PodGroup's name. A pod can only name a group of its own namespace.

    A tuple, because an admission pass looks up every waiting gang by its key.
    """

    namespace: str
    name: str

    def __str__(self) -> str:
        return f"{self.namespace}/{self.name}"


class Dialect(StrEnum):
    """How a pod says which gang it belongs to (``extender.kube.dialects`` reads it)."""

    ANNOTATION = "annotation"
    COSCHEDULING = "coscheduling"


@dataclass(frozen=True, slots=True)
class Taint:
    """A node's taint; only ``NoSchedule`` and ``NoExecute`` keep pods away."""

    key: str
    value: str
    effect: str


@dataclass(frozen=True, slots=True)
class Toleration:
    """A pod's toleration; an empty key with ``Exists`` tolerates everything, an empty effect every effect."""

    key: str
    operator: str
    value: str
    effect: str


@dataclass(frozen=True, slots=True)
class Requirement:
    """One expression of a node selector term: ``key operator values``; ``is_field`` reads the node's fields."""

    key: str
    operator: str
    values: tuple[str, ...]
    is_field: bool = False


@dataclass(frozen=True, slots=True, weakref_slot=True)
class Selection:
    """What a pod demands of a node besides room: selector, required affinity (any term, all of it), tolerations.

    Its hash is worked out once: it may be large, and it is looked up for every pod that has it.
    """

    node_selector: tuple[tuple[str, str], ...] = ()
    affinity: tuple[tuple[Requirement, ...], ...] | None = None
    tolerations: tuple[Toleration, ...] = ()
    _hash: int = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "_hash", hash((self.node_selector, self.affinity, self.tolerations)))

    def __hash__(self) -> int:
        return self._hash

    def __reduce__(self) -> tuple[type[Selection], tuple[object, ...]]:
        """Another process hashes strings in another way."""
        return Selection, (self.node_selector, self.affinity, self.tolerations)


@dataclass(frozen=True, slots=True)
class Node:
    """A node as the planner sees it."""

    name: str
    allocatable: Requests
    labels: Mapping[str, str] = field(default_factory=dict)
    taints: tuple[Taint, ...] = ()
    unschedulable: bool = False
    ready: bool = True


@dataclass(frozen=True, slots=True)
class GroupRef:
    """What one pod says about its gang; ``min_member`` in the annotation dialect only, ``problem`` if unreadable."""

    name: str
    dialect: Dialect
    min_member: int | None = None
    problem: str | None = None


class Controller(NamedTuple):
    """The object that made a pod, as the pod's owner reference names it."""

    version: str
    kind: str
    name: str
    uid: str


NO_LEVEL = "none"
"""What a request says in place of a level to ask for none."""


@dataclass(frozen=True, slots=True)
class Topology:
    """What is asked of the topology: levels by short name or label key, or ``none``; None where nothing is said.

    ``slice_size`` members with consecutive indexes share one domain of ``slice_level`` (the nearest unless said).
    """

    required: str | None = None
    preferred: str | None = None
    slice_size: int | None = None
    slice_level: str | None = None

    def over(self, other: Topology) -> Topology:
        """What a pod says, and where it says nothing what its PodGroup says; a slice's size and level go together."""
        if other == _SILENT:
            return self
        sliced = other if self.slice_size is None else self
        return Topology(
            self.required or other.required, self.preferred or other.preferred, sliced.slice_size, sliced.slice_level
        )

    def __str__(self) -> str:
        said = [("required", self.required), ("preferred", self.preferred), ("slices of", self.slice_size)]
        texts = [f"{what} {value}" for what, value in said if value is not None]
        return ", ".join(texts + ([f"in {self.slice_level}"] if self.slice_level else [])) or "nothing"


_SILENT = Topology()


@dataclass(frozen=True, slots=True)
class Stamp:
    """What the Binding wrote on a member: its gang, the release it was part of, and whether that release was whole.

    ``quorum``: the gang's minMember then, ``size``: how many slots were bound by then or about to be, ``at``: when the
    release began, in seconds since the epoch; 0 where nobody has said so.
    """

    gang: str
    release: str
    complete: bool
    quorum: int = 0
    size: int = 0
    at: float = 0.0


@dataclass(frozen=True, slots=True)
class Pod:
    """A pod, reduced to the fields that a decision uses.

    ``created`` is in seconds since the epoch. ``owner`` is the controller's UID, or empty;
    ``controller`` is None where it cannot be told of anything as well. ``refusal`` is the message
    of a PodScheduled condition with reason Unschedulable. ``claims`` are the volume claims that it mounts. ``ends``:
    when its active deadline passes, in seconds since the epoch; None while it has none or has not begun. ``series``
    tells apart members that are numbered from 0 each, such as those of several Jobs. ``hint`` says which of its
    annotations nothing reads.
    """

    uid: str
    namespace: str
    name: str
    requests: Requests = (("pods", 1),)
    scheduler: str = "muster"
    created: float = 0.0
    priority: int = 0
    node: str | None = None
    nominated_node: str | None = None
    phase: str = "Pending"
    deleting: bool = False
    gates: tuple[str, ...] = ()
    owner: str = ""
    controller: Controller | None = None
    index: int | None = None
    series: str = ""
    selection: Selection = Selection()
    topology: Topology = _SILENT
    group: GroupRef | None = None
    refusal: str | None = None
    stamp: Stamp | None = None
    native_group: bool = False
    device_claims: bool = False
    claims: tuple[str, ...] = ()
    ends: float | None = None
    hint: str | None = None

    @property
    def terminal(self) -> bool:
        return self.phase in ("Succeeded", "Failed")

    @property
    def live(self) -> bool:
        """It runs or may still run; a pod that is being deleted counts for nothing but the room it holds."""
        return not self.terminal and not self.deleting

    @property
    def foreign_gates(self) -> tuple[str, ...]:
        """Gates that somebody else has to take off."""
        return tuple(gate for gate in self.gates if gate != GANG_GATE)

    @property
    def group_key(self) -> GroupKey | None:
        """The gang it belongs to. Native groups (``spec.schedulingGroup``) pass through Muster untouched."""
        if self.group is None or self.native_group:
            return None
        return GroupKey(self.namespace, self.group.name)

    @property
    def identity(self) -> tuple[str, int] | str:
        """What it counts as towards a quorum: one per completion index of its owner, else itself."""
        return self.uid if self.index is None else (f"{self.owner}{self.series}", self.index)

    @property
    def rank(self) -> tuple[str, int, str, str]:
        """The order of members inside a gang: by series and index, then by name."""
        return (self.series, self.index if self.index is not None else 1 << 31, self.name, self.uid)

    def slice_of(self, size: int) -> tuple[str, int]:
        """Which slice of so many members it is in. Slices never span series."""
        return self.series, (self.index or 0) // size

    def __str__(self) -> str:
        return f"{self.namespace}/{self.name}"


@dataclass(frozen=True, slots=True)
class PodGroup:
    """A ``scheduling.x-k8s.io/v1alpha1`` PodGroup object. ``timeout_s`` bounds how long its members may be held.

    ``problem`` says what in its annotations cannot be read.
    """

    key: GroupKey
    uid: str
    min_member: int
    created: float = 0.0
    timeout_s: float | None = None
    deleting: bool = False
    topology: Topology = _SILENT
    problem: str | None = None


Placement = Mapping[str, str]
"""Pod UID -> node name, for the members of one gang that were placed together."""
