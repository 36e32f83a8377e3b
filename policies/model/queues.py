"""What a platform team says about quota: flavors, queues and cohorts, as ``kueue.x-k8s.io`` objects say it.

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
"""A flavor and a resource: what quota is counted in."""

Usage = Mapping[FlavorResource, int]


@dataclass(frozen=True, slots=True)
class ResourceFlavor:
    """A sort of nodes: those with ``node_labels``. ``taints`` are those of its nodes, ``tolerations`` what every
    workload gets that is admitted with it."""

    name: str
    node_labels: Mapping[str, str] = field(default_factory=dict)
    taints: tuple[Taint, ...] = ()
    tolerations: tuple[Toleration, ...] = ()
    topology: str = ""
    """The Topology object that it names, if any."""


@dataclass(frozen=True, slots=True)
class TopologyObject:
    """A Topology of ``kueue.x-k8s.io``: the labels of nodes that are levels, the farthest first."""

    name: str
    levels: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Quota:
    """``nominal`` is the owner's own. ``borrowing``: so much more it may use of what others in its cohort do not;
    ``lending``: so much of the nominal others may use. None: no limit. ``deserved``: what ``proportion`` counts its
    share of, where that does not follow from weights."""

    nominal: int
    borrowing: int | None = None
    lending: int | None = None
    deserved: int | None = None
    soft: bool = False
    """Of a cohort in no other: this is what there is to share, and no limit to what is used."""


@dataclass(frozen=True, slots=True)
class ResourceGroup:
    """Resources that a podset gets of one flavor together. The flavors are in their order of preference, each with its
    quota by resource. A covered resource for which no flavor says a quota is not limited."""

    covered: tuple[str, ...]
    flavors: tuple[tuple[str, Mapping[str, Quota]], ...]

    def limited(self) -> tuple[str, ...]:
        """The covered resources of which some flavor has a quota."""
        return tuple(name for name in self.covered if any(name in quotas for _, quotas in self.flavors))


class Strategy(StrEnum):
    """What a workload that cannot be admitted does to those behind it in its queue."""

    STRICT = "StrictFIFO"
    BEST_EFFORT = "BestEffortFIFO"


class Search(StrEnum):
    """Whether the flavors after one that would do are looked at, too."""

    STOP = "MayStopSearch"
    NEXT = "TryNextFlavor"


class Preference(StrEnum):
    """Which of two flavors is the better one."""

    BORROWING = "BorrowingOverPreemption"
    PREEMPTION = "PreemptionOverBorrowing"


@dataclass(frozen=True, slots=True)
class Fungibility:
    """When the next flavor is tried: if this one has to be borrowed, or others preempted for it."""

    when_can_borrow: Search = Search.STOP
    when_can_preempt: Search = Search.NEXT
    preference: Preference = Preference.BORROWING


class Stop(StrEnum):
    """Whether a queue admits nothing more, and whether what runs of it is to stop, too."""

    NONE = "None"
    HOLD = "Hold"
    DRAIN = "HoldAndDrain"


class Evicts(StrEnum):
    """Whom a workload may evict to get quota."""

    NEVER = "Never"
    LOWER = "LowerPriority"
    LOWER_OR_NEWER = "LowerOrNewerEqualPriority"
    ANY = "Any"


@dataclass(frozen=True, slots=True)
class Preemption:
    """Whom the workloads of a queue may evict. ``within``: of their own queue. ``reclaim``: of queues of their cohort
    that borrow, to get what they have lent. ``borrow``: also to borrow themselves, ``LowerPriority`` and no higher than
    ``threshold`` where there is one."""

    within: Evicts = Evicts.NEVER
    reclaim: Evicts = Evicts.NEVER
    borrow: Evicts = Evicts.NEVER
    threshold: int | None = None


class FairStrategy(StrEnum):
    """With fair sharing: when a workload may be evicted that another queue has borrowed for. The share of the queue
    that evicts, with what it wants, is compared with that of the other one, without what is evicted or with it."""

    FINAL = "LessThanOrEqualToFinalShare"
    INITIAL = "LessThanInitialShare"


@dataclass(frozen=True, slots=True)
class ClusterQueue:
    """``cohort``: the name of the cohort that it lends to and borrows from; empty for none. ``namespaces``: whose
    LocalQueues may point here. ``by_past_usage``: of its LocalQueues the one that has used least comes first.
    ``reclaimable``: others of its cohort may take back what it has borrowed. ``open``: what its groups do not cover is
    not limited, instead of refused. ``priority``: the higher one is served first, and gives way last. ``max_run_s``: a
    workload runs no longer than that. ``ageing``: by so much its priority counts for more in the line of the queue for
    each day since a workload was made."""

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

    @property
    def title(self) -> str:
        """What people know it as."""
        return title_of(self.name)

    @property
    def covered(self) -> set[str]:
        """The resources that its groups name."""
        return {name for group in self.groups for name in group.covered}


@dataclass(frozen=True, slots=True)
class PastUse:
    """What a LocalQueue has ``consumed``, by resource, as of ``at``: seconds since the epoch."""

    consumed: Mapping[str, float]
    at: float


@dataclass(frozen=True, slots=True)
class LocalQueue:
    """What people of a namespace name: it points to a ClusterQueue. ``weight``: for past usage. ``past``: what its
    status says of that. Muster writes it, so it does not tell two LocalQueues apart. ``max_run_s``: as of a
    ClusterQueue; the shorter one counts. ``runs``: how long its workloads ran, as its status says; as ``past``."""

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
    """A Queue of ``scheduling.volcano.sh``; the amounts are by resource. ``capability``: the most that it may use.
    ``deserved``: what it gets back from others. ``guarantee``: what nobody else may use. ``closed``: nobody new.
    ``priority``: as of a ClusterQueue."""

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
"""Before the name of a ClusterQueue or Cohort that stands for a Queue of Volcano: no object can have such a name."""


def title_of(queue: str) -> str:
    """Of the ClusterQueue of that name."""
    return f"Queue {queue.removeprefix(VOLCANO)}" if queue.startswith(VOLCANO) else f"ClusterQueue {queue}"


QueueObject = ClusterQueue | Cohort | LocalQueue | ResourceFlavor | TopologyObject | VolcanoQueue


@dataclass(frozen=True, slots=True)
class QueueReport:
    """How a ClusterQueue, Cohort or LocalQueue stands. ``pending``: who waits in it, in order. ``reserving``: how many
    workloads have quota of it, ``admitted`` how many of these have started. ``used`` and ``borrowed``: amounts by
    flavor and resource. ``share``: its weighted share, in thousandths; None without fair sharing. ``problems``: why it
    admits nothing; ``warnings``: what its author may not have meant. ``past``: what a LocalQueue has used where that
    counts. ``runs``: how long its workloads ran (``policies.quota.runs``)."""

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
