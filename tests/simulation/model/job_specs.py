"""The specs that are submitted to the model of the job controller, and the state of each job."""

from __future__ import annotations

from dataclasses import dataclass, field

from extender.simulation.clock import Timer
from policies.model import (
    UNCONSTRAINED,
    Constraints,
    Dialect,
    EvictionTerms,
    GroupKey,
    Labels,
    Minima,
    Requests,
    RunTerms,
    Selection,
    Topology,
)
from policies.model.devices import ClaimUse
from policies.model.storage import Storage


@dataclass(frozen=True, slots=True)
class Role:
    """The members of one shape. With a ``series`` they are numbered from 0, without one on from the last role.

    ``name``: the role that they declare, for the minimum of their role.
    """

    replicas: int
    requests: Requests
    selection: Selection = field(default_factory=Selection)
    series: str = ""
    labels: Labels = ()
    constraints: Constraints = UNCONSTRAINED
    name: str = ""
    claims: tuple[ClaimUse, ...] = ()


@dataclass(frozen=True, slots=True)
class JobSpec:
    """A job that a user submits. Durations are in seconds.

    It runs for ``run_s`` once ``needed`` members run and ``rendezvous_s`` has passed.

    ``min_member``: 0: its pods are no gang.
    ``minima``: of roles that have one, in its PodGroup.
    ``give_up_s``: how long running members wait for the others before they end, and the job is submitted again.
    ``replaces``: whether lost pods are replaced, as a Job does and a bare pod does not.
    ``ttl_s``: how long finished pods stay.
    ``pending``: its pods are made when its PodGroup was taken up, as those of a Volcano Job; each role has a series
      then.
    ``storage``: the request of each member's claim, which its replacement finds again.
    ``run``: how long its pods say that it runs.
    ``stays``: whether its pods belong to their nodes, as those of a DaemonSet.
    """

    name: str
    roles: tuple[Role, ...]
    min_member: int = 0
    run_s: float = 600.0
    namespace: str = "default"
    priority: int = 0
    dialect: Dialect = Dialect.ANNOTATION
    topology: Topology = field(default_factory=Topology)
    gates: tuple[str, ...] = ()
    scheduler: str = "muster"
    indexed: bool = True
    replaces: bool = True
    rendezvous_s: float = 1.0
    give_up_s: float = float("inf")
    ttl_s: float = 0.0
    minima: Minima = ()
    queue: str = ""
    pending: bool = False
    eviction: EvictionTerms = field(default_factory=EvictionTerms)
    storage: Storage | None = None
    run: RunTerms = field(default_factory=RunTerms)
    stays: bool = False

    @property
    def size(self) -> int:
        return sum(role.replicas for role in self.roles)

    @property
    def needed(self) -> int:
        return self.min_member or self.size

    @property
    def key(self) -> GroupKey:
        return GroupKey(self.namespace, self.name)

    @property
    def least(self) -> list[int]:
        """How many of each role have to start together: the first need more where all together do."""
        stated = dict(self.minima)
        counts = [stated.get(role.name, 0) for role in self.roles]
        for at, role in enumerate(self.roles):
            counts[at] += max(0, min(self.min_member - sum(counts), role.replicas - counts[at]))
        return counts


@dataclass(slots=True, eq=False)
class Job:
    """A life of a job. ``pods``: member number -> UID of its present pod."""

    spec: JobSpec
    uid: str
    submitted: float
    pods: dict[int, str] = field(default_factory=dict)
    running: dict[int, None] = field(default_factory=dict)
    made: int = 0
    taken_up: bool = False
    productive_since: float | None = None
    first_running: float | None = None
    ended: bool = False
    succeeded: bool = False
    timer: Timer | None = None
