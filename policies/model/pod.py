"""A pod, reduced to what a decision reads."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from policies.model.constraints import UNCONSTRAINED, Constraints, Labels
from policies.model.devices import ClaimUse
from policies.model.duration import NO_RUN_TERMS, RunTerms
from policies.model.eviction import NO_TERMS, EvictionTerms, Reservation
from policies.model.group import Controller, Dialect, GroupKey, GroupRef
from policies.model.node import ANY_NODE, Requests, Selection
from policies.model.storage import ClaimMaker
from policies.model.topology import SILENT, Topology

GANG_GATE = "muster.dev/gang"
"""The scheduling gate that the admission policy puts on members, and that Muster removes once the gang is placed."""


@dataclass(frozen=True, slots=True)
class Stamp:
    """The Binding's annotations on a member: its gang, its release, and whether that release was complete.

    ``quorum``: the gang's minMember at that time.
    ``size``: how many slots were bound, or about to be bound, at that time.
    ``at``: when the release began, in seconds since the epoch; 0 if unknown.
    ``name``: the name of the gang; empty if unknown.
    ``queue``: the LocalQueue, or Queue of Volcano, whose quota it uses; empty without one.
    """

    gang: str
    release: str
    complete: bool
    quorum: int = 0
    size: int = 0
    at: float = 0.0
    name: str = ""
    queue: str = ""


def stamped_group(group: GroupRef | None, stamp: Stamp | None) -> GroupRef | None:
    """The gang of a pod on a node that names ``group``.

    The stamp's gang counts if there is one: the pod uses that gang's room and quota, and no edit changes that.
    """
    if stamp is None or stamp.name in ("", group.name if group else ""):
        return group
    return GroupRef(stamp.name, group.dialect if group else Dialect.ANNOTATION, stamp.quorum or None)


SlotKey = tuple[str, int] | str
"""A slot of a workload: an index with a prefix for what is numbered from 0 separately, or a pod's UID."""


@dataclass(frozen=True, slots=True)
class Pod:
    """A pod, reduced to the fields that a decision uses.

    ``created``: in seconds since the epoch.
    ``owner``: the controller's UID, or empty. ``controller``: None if no Event can be written on it.
    ``refusal``: the message of a PodScheduled condition with reason Unschedulable.
    ``claims``: the volume claims that it mounts. ``own_claims``: those of them that are made for it alone.
    ``claim_makers``: for a template, the volume claims that are made for each of its pods.
    ``device_claims``: its claims of devices. ``by_class``: the devices they ask for, by names under which quota counts
    them.
    ``compute_domain``: the UID of the domain whose channel it has by a device claim.
    ``ends``: when its active deadline passes, in seconds since the epoch; None without one, or before it has begun.
    ``series``: tells apart members that are numbered from 0 separately, such as those of several Jobs.
    ``hint``: which of its annotations nothing reads.
    ``constraints``: its demands on other pods. ``labels``: by which other pods' demands select it.
    ``wave``: it comes once those of lower waves of its job run.
    ``native_group``: the PodGroup in ``spec.schedulingGroup``, or empty.
    ``job_group``: the same, if the Job controller made that PodGroup for the pod's Job. Unless that is a gang, the pod
    counts as one without.
    ``removed_by_cost``: its controller removes pods with the lowest deletion cost first, and no user has set this
    pod's.
    ``queue``: the LocalQueue that it names, or a Queue of Volcano with the prefix ``VOLCANO``, or empty.
    ``podset_group``: pods that name the same one get the same flavors.
    ``preempts``: its PriorityClass allows it to preempt.
    ``stays``: it belongs to its node, which gets it again after an eviction.
    ``reservation``: the room that its gang gets once its victims are gone.
    ``backfill``: the room that its gang gets once others have ended.
    ``eviction``: its own terms of eviction.
    ``run``: the running time that it states. ``began``: when the kubelet started a single pod that states one, in
    seconds since the epoch; None for any other.
    ``unpinned``: it still has the plan that the admission policy exchanges for its node when a pod is created.
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
    selection: Selection = ANY_NODE
    labels: Labels = ()
    constraints: Constraints = UNCONSTRAINED
    topology: Topology = SILENT
    group: GroupRef | None = None
    refusal: str | None = None
    stamp: Stamp | None = None
    native_group: str = ""
    job_group: str = ""
    device_claims: tuple[ClaimUse, ...] = ()
    by_class: Requests = ()
    compute_domain: str = ""
    claims: tuple[str, ...] = ()
    own_claims: tuple[str, ...] = ()
    claim_makers: tuple[ClaimMaker, ...] = ()
    ends: float | None = None
    hint: str | None = None
    removed_by_cost: bool = False
    wave: int = 0
    queue: str = ""
    podset_group: str = ""
    preempts: bool = True
    stays: bool = False
    reservation: Reservation | None = None
    backfill: Reservation | None = None
    eviction: EvictionTerms = NO_TERMS
    run: RunTerms = NO_RUN_TERMS
    began: float | None = None
    unpinned: bool = False
    group_key: GroupKey | None = field(init=False, repr=False, compare=False)
    """The gang that it belongs to. Native groups (``spec.schedulingGroup``) pass through Muster untouched."""
    identity: SlotKey = field(init=False, repr=False, compare=False)
    """The pod's unit of the quorum: one per completion index of its owner, else itself."""
    ended: str = field(init=False, repr=False, compare=False)
    """The phase in which it has ended, or empty."""
    live: bool = field(init=False, repr=False, compare=False)
    """Whether it runs or may still run. A pod that is being deleted counts only for the room that it has."""

    def __post_init__(self) -> None:
        # Computed once, because they are read very often.
        key = None if self.group is None or self.native_group else GroupKey(self.namespace, self.group.name)
        object.__setattr__(self, "group_key", key)
        slot = self.uid if self.index is None else (f"{self.owner}{self.series}", self.index)
        object.__setattr__(self, "identity", slot)
        ended = self.phase if self.phase in ("Succeeded", "Failed") else ""
        object.__setattr__(self, "ended", ended)
        object.__setattr__(self, "live", not ended and not self.deleting)

    @property
    def named_queue(self) -> str:
        """The queue that it names, or else the one that the owner of its gang names; empty without one."""
        return self.queue or (self.group.queue if self.group is not None else "")

    @property
    def terminal(self) -> bool:
        return bool(self.ended)

    @property
    def foreign_gates(self) -> tuple[str, ...]:
        """The gates that other controllers have to remove."""
        return tuple(gate for gate in self.gates if gate != GANG_GATE) if self.gates else ()

    @property
    def rank(self) -> tuple[str, int, str, int, str, str]:
        """The order of members inside a gang: by series and index, then by name and the number at its end."""
        if self.index is not None:
            return self.series, self.index, self.name, 0, "", self.uid
        stem = self.name.rstrip("0123456789")
        return self.series, 1 << 31, stem, len(self.name), self.name, self.uid

    def bound(self, node: str, stamp: Stamp | None) -> Pod:
        """The pod after a Binding to that node, which wrote the stamp.

        It is in the gang that was bound, although an edit may have moved the pod meanwhile.
        """
        return replace(self, node=node, stamp=stamp, group=stamped_group(self.group, stamp))

    def slice_of(self, size: int) -> tuple[str, int]:
        """The slice of ``size`` members that it is in. Slices never span series."""
        return self.series, (self.index or 0) // size

    def __str__(self) -> str:
        return f"{self.namespace}/{self.name}"
