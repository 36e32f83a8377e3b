"""Who asks for room that others have, who those are, and what an eviction of each of them costs."""

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
    """What is evicted as a whole. The lower one goes first."""

    POD = 0
    """A pod of no gang."""
    SURPLUS = 1
    """Members of a workload that runs without them, too."""
    WORKLOAD = 2
    """All of a gang or a job; where it has surplus candidates, all but these, and then these go with it."""


class Held(NamedTuple):
    """Room that so many pods of one shape have on a node."""

    node: str
    requests: Requests
    pods: int = 1


@dataclass(frozen=True)
class Candidate:
    """A possible victim: a workload, its surplus or a pod that has room. Times are in seconds since the epoch.

    ``name`` is unique; people read it. ``workload``: of a surplus, the name of the candidate that is the rest of it.
    ``turn``: of a surplus, how many others of its workload go first where they cost as much.
    ``claims``: the room that comes free when it is gone. ``pods``: those of its pods that others may demand something
    of; needed only where the preemptor or they have anti-affinity, spread or host ports. ``created``: its age.
    ``started``: since when it runs, None if it has yet to start. ``checkpointed``: when it last wrote a checkpoint.
    ``queue``: its ClusterQueue; empty without queues. ``usage``: the quota that comes free. ``past``: what its
    LocalQueue has used, where that counts. ``budgets``: PodDisruptionBudgets by name, with how many of its pods each of
    them counts. ``evictions``: how often it was evicted in the last hour. ``min_runtime_s``: how long its author wants
    it to run at least, None where only the settings say. ``protected``: why it may not be evicted at all, or empty.
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
        """The lower goes first: the priority of its queue, then its own. Both have 32 bits."""
        return (self.queue_priority << 32) + self.priority

    @cached_property
    def devices(self) -> int:
        """GPUs and other extended resources that it has."""
        return sum(held.pods * count_devices(held.requests) for held in self.claims)

    @cached_property
    def size(self) -> tuple[int, int, int]:
        """Devices, cpu and memory that it has; the quota that it uses where it has no room."""
        held = [(name, one.pods * much) for one in self.claims for name, much in one.requests]
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
    """A workload without room. ``pods``, ``needed``, ``caps`` and ``beside`` are those of ``policies.placement.place``.

    ``preempts``: False for a PriorityClass with ``preemptionPolicy: Never``. ``since``: when it came into its queue.
    ``usage``: the quota that it will use with the flavors that were looked at for it.
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
    """What protects those who run. ``now`` is in seconds since the epoch.

    ``min_runtime_s``: nobody is evicted who has run for less. ``evictions_per_hour``: nor who was evicted so often in
    the last hour; None for no limit. ``budgets``: how many more pods each PodDisruptionBudget lets go, by name.
    """

    now: float = 0.0
    min_runtime_s: float = 0.0
    evictions_per_hour: int | None = None
    budgets: Mapping[str, int] = field(default_factory=dict)
