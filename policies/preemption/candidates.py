"""Preemptors and candidates for eviction, and the cost of evicting each candidate."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import IntEnum
from functools import cached_property
from typing import NamedTuple

from policies.model import Pod, Requests
from policies.model.queues import Usage
from policies.placement.request import Cap, Sibling
from policies.words import count_devices


class Unit(IntEnum):
    """The thing that is evicted as a whole; the lower one is evicted first."""

    POD = 0
    """A pod outside any gang."""
    SURPLUS = 1
    """Members that their workload does not need to run."""
    WORKLOAD = 2
    """All of a gang or a job. If it has surplus candidates, all but these; an eviction then includes them."""


class Held(NamedTuple):
    """The room of several pods of one shape on a node."""

    node: str
    requests: Requests
    pods: int = 1


@dataclass(frozen=True)
class Candidate:
    """A possible victim: a workload, its surplus or a pod that has room. Times are in seconds since the epoch.

    ``name``: unique, and shown to people.
    ``created``: its age decides between equal candidates.
    ``claims``: the room that its eviction frees.
    ``started``: when it began to run; None if it has yet to start.
    ``checkpointed``: when it last wrote a checkpoint.
    ``workload``: for a surplus, the name of the candidate that is the rest of its workload.
    ``turn``: for a surplus, how many others of its workload with the same cost go first.
    ``pods``: its pods, if the preemptor or they have anti-affinity, spread or host ports; else they are not needed.
    ``queue``: its ClusterQueue; empty without queues.
    ``usage``: the quota that its eviction frees.
    ``past``: the past use of its LocalQueue, if that counts.
    ``budgets``: PodDisruptionBudgets by name, each with the number of its pods that it covers.
    ``evictions``: how often it was evicted in the last hour.
    ``min_runtime_s``: how long its author wants it to run at least; None: only the settings count.
    ``protected``: why it may not be evicted at all, or empty.
    ``queue_priority``: candidates in queues of a higher one go later, whatever their own priority is.
    """

    name: str
    unit: Unit
    priority: int = 0
    created: float = 0.0
    claims: tuple[Held, ...] = ()
    started: float | None = None
    checkpointed: float | None = None
    workload: str = ""
    turn: int = 0
    pods: tuple[Pod, ...] = ()
    queue: str = ""
    usage: Usage = field(default_factory=dict)
    past: float = 0.0
    budgets: tuple[tuple[str, int], ...] = ()
    evictions: int = 0
    min_runtime_s: float | None = None
    protected: str = ""
    queue_priority: int = 0

    @property
    def standing(self) -> int:
        """The priority of its queue, then its own; the lowest goes first. Both have 32 bits."""
        return (self.queue_priority << 32) + self.priority

    @cached_property
    def devices(self) -> int:
        """The number of its GPUs and other extended resources."""
        return sum(held.pods * count_devices(held.requests) for held in self.claims)

    @cached_property
    def size(self) -> tuple[int, int, int]:
        """The devices, cpu and memory that it has; without room the quota that it uses."""
        held = [(name, claim.pods * much) for claim in self.claims for name, much in claim.requests]
        amounts = held or [(name, much) for (_, name), much in self.usage.items()]
        cpu, memory = (sum(much for name, much in amounts if name == kind) for kind in ("cpu", "memory"))
        return self.devices if held else count_devices(tuple(amounts)), cpu, memory

    def lost(self, now: float) -> float:
        """Device-seconds of work that its eviction throws away: all since its start, or since its last checkpoint."""
        if self.started is None:
            return 0.0
        return self.devices * max(0.0, now - max(self.started, self.checkpointed or self.started))


@dataclass(frozen=True, slots=True)
class Request:
    """A workload without room.

    ``pods``, ``needed``, ``caps``, ``beside``: as in ``policies.placement.place``.
    ``preempts``: False for a PriorityClass with ``preemptionPolicy: Never``.
    ``since``: when it entered its queue.
    ``usage``: the quota that it will use with the flavors that were chosen for it.
    """

    name: str
    pods: Sequence[Pod]
    needed: int
    priority: int = 0
    preempts: bool = True
    since: float = 0.0
    queue: str = ""
    usage: Usage = field(default_factory=dict)
    caps: Sequence[Cap] = ()
    beside: Sequence[Sibling] = ()


@dataclass(frozen=True, slots=True)
class Limits:
    """The protection of running workloads.

    ``now``: seconds since the epoch.
    ``min_runtime_s``: a workload that has run for less is not evicted.
    ``evictions_per_hour``: nor is one that was evicted this often in the last hour; None: no limit.
    ``budgets``: how many more pods each PodDisruptionBudget releases, by name.
    """

    now: float = 0.0
    min_runtime_s: float = 0.0
    evictions_per_hour: int | None = None
    budgets: Mapping[str, int] = field(default_factory=dict)
