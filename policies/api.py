"""The interface of policies. A policy is any class with the method; there is nothing to inherit.

This module has every type that the author of a policy needs.
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
"""A sort key, compared as Python compares tuples: the smallest is served first."""

Choice = tuple[Domain, ...]
"""Domains to use together, filled in this order: a role that does not fit into the first continues in the next."""

PAUSE: Choice = ()
"""No choice: lets other work in before the next choice. For policies that take long to find one."""

NOBODY: Rows = np.zeros(0, dtype=np.intp)
"""No member of the gang has a node yet."""

NO_OPINION: Counts = np.zeros(0, dtype=np.int64)
"""The result of a score policy without an opinion about a pod: its weight does not count then."""


class PolicyError(Exception):
    """A policy has raised an exception, or returned an invalid value. The message names the policy itself, not its
    guard."""

    def __init__(self, policy: object, detail: str) -> None:
        self.policy = type(getattr(policy, "guarded", policy)).__name__
        super().__init__(f"the policy {self.policy} has failed: {detail}")


class WaitingGang(Protocol):
    """The facts that a policy may use of a waiting gang, or of a waiting pod without a gang, which joins the same
    line."""

    @property
    def key(self) -> GroupKey: ...

    @property
    def priority(self) -> int:
        """The priority of its members, as their PriorityClass resolved it.

        In a ClusterQueue with ``muster.dev/ageing`` it is lower for each day that the gang was created later.
        """
        ...

    @property
    def created(self) -> float:
        """When its PodGroup, or else its first member, was created, in seconds since the epoch."""
        ...

    @property
    def members(self) -> int:
        """How many members it has or will have, including running ones and pods that do not exist yet."""
        ...

    @property
    def requests(self) -> Mapping[str, int]:
        """The sum of its members' requests, by resource: cpu in thousandths, memory in bytes."""
        ...

    @property
    def gpus(self) -> int:
        """The GPUs among ``requests``, of any vendor: resources whose name ends in ``/gpu``."""
        ...


class QueuePolicy(Protocol):
    """The order in which waiting workloads are served. Exactly one is in force.

    Called when a waiting gang is new or has changed, and for waiting single pods that may have room. A gang keeps its
    place until it changes, so the order must depend on the gang's own facts alone.
    """

    def order(self, gang: WaitingGang) -> SortKey: ...


class TopologyPolicy(Protocol):
    """The domains that a gang may use, best first. Exactly one is in force.

    Called once per gang and attempt, and only for a gang that has room in the cluster as a whole. The first choice that
    holds all of the gang is taken, and no more are requested, so yield cheap choices first. If none holds all, the one
    that held the most members counts, if those are enough for the gang to run. A search of more than half a millisecond
    may yield ``PAUSE``, which is no choice, before its next one.
    """

    def domains(self, request: PlacementRequest, snapshot: Snapshot) -> Iterator[Choice]: ...


class ScorePolicy(Protocol):
    """How good nodes are for a pod: 0..100, one for each of ``rows``. Several are added up by weight.

    It decides between nodes of equal room when a gang is placed, and answers kube-scheduler's prioritize for a pod
    without a plan. Called once per role and domain, and once per prioritize, for all nodes together: use a few numpy
    operations, not a loop over nodes.
    ``beside``: a row for each bound or planned member of the pod's gang. Only prioritize passes it, since the topology
    policy already places a plan near its siblings.
    Returns the scores; or ``NO_OPINION``, which leaves the decision to the other policies.
    """

    def score(self, pod: Pod, rows: Rows, snapshot: Snapshot, beside: Rows = NOBODY) -> Counts: ...
