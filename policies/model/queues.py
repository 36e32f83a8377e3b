"""The quota that a platform team grants: flavors, queues and cohorts, as in ``kueue.x-k8s.io`` objects.

Amounts are integers as everywhere: cpu in millicores, everything else in its base unit.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from fractions import Fraction

from policies.model.constraints import Selector
from policies.model.group import GroupKey
from policies.model.node import Taint, Toleration

FlavorResource = tuple[str, str]
"""A flavor and a resource, the unit in which quota is counted."""

Usage = Mapping[FlavorResource, int]


@dataclass(frozen=True, slots=True)
class ResourceFlavor:
    """A sort of nodes: those with ``node_labels``.

    ``taints``: the taints of its nodes.
    ``tolerations``: added to every workload that is admitted with it.
    """

    name: str
    node_labels: Mapping[str, str] = field(default_factory=dict)
    taints: tuple[Taint, ...] = ()
    tolerations: tuple[Toleration, ...] = ()
    topology: str = ""
    """The name of its Topology object, if any."""


@dataclass(frozen=True, slots=True)
class TopologyObject:
    """A Topology of ``kueue.x-k8s.io``: the labels of nodes that are levels, the farthest first."""

    name: str
    levels: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Quota:
    """Quota of one flavor and resource; None in a limit: no limit.

    ``nominal``: the owner's own.
    ``borrowing``: the most it may use of what others in its cohort leave unused.
    ``lending``: the most of the nominal quota that others may use.
    ``deserved``: the base of its share in ``proportion``, if that does not follow from weights.
    """

    nominal: int
    borrowing: int | None = None
    lending: int | None = None
    deserved: int | None = None
    soft: bool = False
    """Whether ``nominal`` is only the amount to share of a cohort without a parent, and no limit."""


@dataclass(frozen=True, slots=True)
class ResourceGroup:
    """Resources that a podset gets together from one flavor.

    ``flavors``: in order of preference, each with its quota by resource. A covered resource without quota in any flavor
    is unlimited.
    ``limited``: the covered resources for which some flavor has quota.
    """

    covered: tuple[str, ...]
    flavors: tuple[tuple[str, Mapping[str, Quota]], ...]
    limited: tuple[str, ...] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        limited = tuple(name for name in self.covered if any(name in quotas for _, quotas in self.flavors))
        object.__setattr__(self, "limited", limited)


class Strategy(StrEnum):
    """Whether a workload that cannot be admitted holds back those behind it in its queue."""

    STRICT = "StrictFIFO"
    BEST_EFFORT = "BestEffortFIFO"


class Search(StrEnum):
    """Whether the flavors after one that would do are looked at, too."""

    STOP = "MayStopSearch"
    NEXT = "TryNextFlavor"


class Preference(StrEnum):
    """The rule by which one of two flavors is better."""

    BORROWING = "BorrowingOverPreemption"
    PREEMPTION = "PreemptionOverBorrowing"


@dataclass(frozen=True, slots=True)
class Fungibility:
    """When the next flavor is tried: if this one must be borrowed, or needs preemption."""

    when_can_borrow: Search = Search.STOP
    when_can_preempt: Search = Search.NEXT
    preference: Preference = Preference.BORROWING


class Stop(StrEnum):
    """Whether a queue admits nothing more, and whether its running workloads stop, too."""

    NONE = "None"
    HOLD = "Hold"
    DRAIN = "HoldAndDrain"


class Evicts(StrEnum):
    """The workloads that a workload may evict to get quota."""

    NEVER = "Never"
    LOWER = "LowerPriority"
    LOWER_OR_NEWER = "LowerOrNewerEqualPriority"
    ANY = "Any"


@dataclass(frozen=True, slots=True)
class Preemption:
    """The workloads that a queue's workloads may evict.

    ``within``: of their own queue.
    ``reclaim``: of borrowing queues of their cohort, to get back lent quota.
    ``borrow``: also while they borrow themselves, with ``LowerPriority`` up to ``threshold``, if there is one.
    """

    within: Evicts = Evicts.NEVER
    reclaim: Evicts = Evicts.NEVER
    borrow: Evicts = Evicts.NEVER
    threshold: int | None = None


class FairStrategy(StrEnum):
    """With fair sharing, when a workload of a borrowing queue may be evicted.

    The share of the evicting queue, with its new workload, is compared with the share of the other queue: without what
    is evicted, or with it.
    """

    FINAL = "LessThanOrEqualToFinalShare"
    INITIAL = "LessThanInitialShare"


@dataclass(frozen=True, slots=True)
class ClusterQueue:
    """A ClusterQueue.

    ``cohort``: the name of the cohort that it lends to and borrows from; empty for none.
    ``namespaces``: selects the namespaces whose LocalQueues may point here.
    ``by_past_usage``: its LocalQueue with the least past use comes first.
    ``reclaimable``: others of its cohort may take back what it has borrowed.
    ``open``: resources that its groups do not cover are unlimited instead of refused.
    ``priority``: a queue of higher priority is served first, and its workloads are evicted last.
    ``max_run_s``: the longest run of a workload.
    ``ageing``: how much priority a waiting workload gains in the queue's line for each day since its creation.
    """

    name: str
    groups: tuple[ResourceGroup, ...] = ()
    cohort: str = ""
    strategy: Strategy = Strategy.BEST_EFFORT
    fungibility: Fungibility = Fungibility()
    weight: Fraction = Fraction(1)
    namespaces: Selector = None
    stop: Stop = Stop.NONE
    by_past_usage: bool = False
    preemption: Preemption = Preemption()
    reclaimable: bool = True
    open: bool = False
    priority: int = 0
    max_run_s: float | None = None
    ageing: int = 0
    covered: frozenset[str] = field(init=False, repr=False, compare=False)
    """The resources that its groups name."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "covered", frozenset(name for group in self.groups for name in group.covered))

    @property
    def title(self) -> str:
        """The queue's name for people."""
        return title_of(self.name)


@dataclass(frozen=True, slots=True)
class PastUse:
    """The past use of a LocalQueue: ``consumed`` by resource, as of ``at`` in seconds since the epoch."""

    consumed: Mapping[str, float]
    at: float


@dataclass(frozen=True, slots=True)
class LocalQueue:
    """The queue that people of a namespace name; it points to a ClusterQueue.

    ``weight``: for past usage.
    ``past``: the past use in its status. Muster writes it, so it does not count for equality.
    ``max_run_s``: as of a ClusterQueue; the shorter one counts.
    ``runs``: the running times in its status; like ``past`` not part of equality.
    """

    namespace: str
    name: str
    queue: str
    weight: Fraction = Fraction(1)
    stop: Stop = Stop.NONE
    past: PastUse | None = field(default=None, compare=False)
    max_run_s: float | None = None
    runs: Mapping[int, tuple[int, ...]] = field(default_factory=dict, compare=False)


@dataclass(frozen=True, slots=True)
class Cohort:
    """Queues, and other cohorts, that lend each other what they do not use. It may have quota of its own."""

    name: str
    parent: str = ""
    groups: tuple[ResourceGroup, ...] = ()
    weight: Fraction = Fraction(1)


@dataclass(frozen=True, slots=True)
class VolcanoQueue:
    """A Queue of ``scheduling.volcano.sh``; amounts are by resource.

    ``capability``: the most that it may use.
    ``deserved``: what it can reclaim from others.
    ``guarantee``: what no other queue may use.
    ``closed``: it takes no new workloads.
    ``priority``: as of a ClusterQueue.
    """

    name: str
    weight: Fraction = Fraction(1)
    capability: Mapping[str, int] = field(default_factory=dict)
    deserved: Mapping[str, int] = field(default_factory=dict)
    guarantee: Mapping[str, int] = field(default_factory=dict)
    parent: str = ""
    reclaimable: bool = True
    closed: bool = False
    priority: int = 0


VOLCANO = "volcano/"
"""Prefix of a ClusterQueue or Cohort that stands for a Queue of Volcano. No object can have such a name."""


def title_of(queue: str) -> str:
    """The name for people of the ClusterQueue of that name."""
    return f"Queue {queue.removeprefix(VOLCANO)}" if queue.startswith(VOLCANO) else f"ClusterQueue {queue}"


QueueObject = ClusterQueue | Cohort | LocalQueue | ResourceFlavor | TopologyObject | VolcanoQueue


@dataclass(frozen=True, slots=True)
class QueueReport:
    """The state of a ClusterQueue, Cohort or LocalQueue.

    ``pending``: the workloads that wait in it, in order.
    ``reserving``: how many workloads have quota of it; ``admitted``: how many of these have started.
    ``used``, ``borrowed``: amounts by flavor and resource.
    ``share``: its weighted share, in thousandths; None without fair sharing.
    ``problems``: why it admits nothing.
    ``warnings``: what its author may not have meant.
    ``past``: the past use of a LocalQueue, if that counts.
    ``runs``: how long its workloads ran (``policies.quota.runs``).
    """

    pending: tuple[GroupKey, ...] = ()
    reserving: int = 0
    admitted: int = 0
    used: Usage = field(default_factory=dict)
    borrowed: Usage = field(default_factory=dict)
    share: int | None = None
    problems: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()
    past: PastUse | None = None
    runs: Mapping[int, tuple[int, ...]] = field(default_factory=dict)
