"""The questions a policy answers. A policy is any class with the method; there is nothing to inherit.

Whoever writes one finds here every type that it meets.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Protocol

import numpy as np

from policies.model import GroupKey, Pod
from policies.placement.request import PlacementRequest, Role
from policies.placement.snapshot import Counts, Domain, Level, Rows, Snapshot

__all__ = [
    "NOBODY",
    "NO_OPINION",
    "PAUSE",
    "Choice",
    "Counts",
    "Domain",
    "GroupKey",
    "Level",
    "PlacementRequest",
    "Pod",
    "PolicyError",
    "QueuePolicy",
    "Role",
    "Rows",
    "ScorePolicy",
    "Snapshot",
    "SortKey",
    "TopologyPolicy",
    "WaitingGang",
]

SortKey = tuple[int | float | str, ...]
"""Compared as Python compares tuples: the smaller one is served first."""

Choice = tuple[Domain, ...]
"""Domains to be used together, filled in this order. What a role cannot find in the first it looks for in the next."""

PAUSE: Choice = ()
"""No choice: others may be let in before the next one is asked for. For whoever takes long to find one."""

NOBODY: Rows = np.zeros(0, dtype=np.intp)
"""No members of the gang have a node yet."""

NO_OPINION: Counts = np.zeros(0, dtype=np.int64)
"""What a score policy returns that has nothing to say about a pod: its weight does not count then."""


class PolicyError(Exception):
    """A policy has raised something, or has returned what it must not. The message names it, also where it is the one
    that is guarded by ``policies.guard``."""

    def __init__(self, policy: object, detail: str) -> None:
        self.policy = type(getattr(policy, "guarded", policy)).__name__
        super().__init__(f"the policy {self.policy} has failed: {detail}")


class WaitingGang(Protocol):
    """What a policy may ask of a gang that waits, or of a pod of no gang that does: it stands in the same line."""

    @property
    def key(self) -> GroupKey: ...

    @property
    def priority(self) -> int:
        """The priority of its members, as their PriorityClass resolved it.

        Among those of a ClusterQueue with ``muster.dev/ageing`` it is lower for each day that it was created later.
        """
        ...

    @property
    def created(self) -> float:
        """When its PodGroup, or else its first member, was created: seconds since the epoch."""
        ...

    @property
    def members(self) -> int:
        """How many members it has or is to have; those that run and those that are yet to come count."""
        ...

    @property
    def requests(self) -> Mapping[str, int]:
        """The sum of what its members ask for, by resource: cpu in thousandths, memory in bytes."""
        ...

    @property
    def gpus(self) -> int:
        """The GPUs among ``requests``, of any vendor: the resources whose name ends in ``/gpu``."""
        ...


class QueuePolicy(Protocol):
    """Who is served first. Exactly one is in force. Called whenever an admission pass looks at a waiting gang, and for
    waiting pods of no gang that there may be room for. A gang that lacks quota keeps its place until it is looked at
    again, so the order is to follow from what is said of the gang alone.
    """

    def order(self, gang: WaitingGang) -> SortKey: ...


class TopologyPolicy(Protocol):
    """Where a gang may go, best first. Exactly one is in force.

    Called once per gang and attempt, and only for a gang that has room in the cluster as a whole. The first choice
    that holds all of it is taken, and no more choices are asked for; so say what is cheap to say first. When none holds
    all, the one that held the most members counts, if those are enough for the gang to run. What takes more than half a
    millisecond to find may be preceded by ``PAUSE``, which is no choice.
    """

    def domains(self, request: PlacementRequest, snapshot: Snapshot) -> Iterator[Choice]: ...


class ScorePolicy(Protocol):
    """How good nodes are for a pod: 0..100, one for each of ``rows``. Several are added up by weight.

    It decides between nodes that have equal room when a gang is placed, and it answers kube-scheduler's prioritize for
    a pod that is in no plan. Called once per role and domain, and once per prioritize, for all nodes together: a few
    numpy operations, not a loop over nodes. ``beside``: where members of the pod's gang are or are planned to go, a row
    for each of them; only prioritize tells it, since a plan is near its siblings by the topology policy. ``NO_OPINION``
    instead of scores leaves the decision to the others.
    """

    def score(self, pod: Pod, rows: Rows, snapshot: Snapshot, beside: Rows = NOBODY) -> Counts: ...
