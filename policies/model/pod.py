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
"""The scheduling gate that the admission policy puts on members, and that comes off when the gang is placed."""


@dataclass(frozen=True, slots=True)
class Stamp:
    """What the Binding wrote on a member: its gang, the release it was part of, and whether that release was whole.

    ``quorum``: the gang's minMember then, ``size``: how many slots were bound by then or about to be, ``at``: when the
    release began, in seconds since the epoch; 0 where nobody has said so. ``name``: that of the gang, or empty where
    nobody has said so. ``queue``: the LocalQueue, or Queue of Volcano, whose quota it uses; empty without one.
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
    """Return the gang of a pod on a node that names ``group``. It came there with the gang of its stamp, whose room and
    quota it uses: no edit takes it out of that."""
    if stamp is None or stamp.name in ("", group.name if group else ""):
        return group
    return GroupRef(stamp.name, group.dialect if group else Dialect.ANNOTATION, stamp.quorum or None)


SlotKey = tuple[str, int] | str
"""A slot of a workload: an index with what tells apart those that are numbered from 0 each, or a pod's UID."""


@dataclass(frozen=True, slots=True)
class Pod:
    """A pod, reduced to the fields that a decision uses.

    ``created`` is in seconds since the epoch. ``owner`` is the controller's UID, or empty;
    ``controller`` is None where no Event can be written on it. ``refusal`` is the message
    of a PodScheduled condition with reason Unschedulable. ``claims`` are the volume claims that it mounts,
    ``device_claims`` those of devices; of ``own_claims`` those that are made for it alone. ``claim_makers``: of a
    template, the volume claims that are made for each of its pods. ``by_class``: what claims of devices ask for, by the
    names that queues may count it under. ``compute_domain``: the UID of the domain whose channel it has by one of them.
    ``ends``:
    when its active deadline passes, in seconds since the epoch; None while it has none or has not begun. ``series``
    tells apart members that are numbered from 0 each, such as those of several Jobs. ``hint`` says which of its
    annotations nothing reads. ``constraints`` are what it demands with regard to other pods, which its ``labels`` may
    be what others demand something of. ``wave``: it comes when those of lower waves of its job run. ``native_group``:
    the PodGroup in ``spec.schedulingGroup``, or empty. ``job_group``: the same, where the Job controller has made that
    PodGroup for the pod's Job: unless it is a gang, the pod is like one without. ``removed_by_cost``: its controller
    removes the pods with the lowest deletion cost first, and no user has set that of this pod. ``queue``: the
    LocalQueue that it names, or a Queue of Volcano, with ``VOLCANO`` before its name, or empty. ``podset_group``: pods
    that name the same one get the same flavors.
    ``preempts``: its PriorityClass lets it. ``stays``: it belongs to its node, which has it again when it is evicted.
    ``reservation``: the room that its gang is to have when others are gone; ``backfill``: when they have ended.
    ``eviction``: what it says of its own.
    ``run``: what it says of how long it runs. ``began``: when the kubelet took up a pod in no gang that says something
    of that, in seconds since the epoch; None for any other.
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
    """The gang it belongs to. Native groups (``spec.schedulingGroup``) pass through Muster untouched."""
    identity: SlotKey = field(init=False, repr=False, compare=False)
    """What it counts as towards a quorum: one per completion index of its owner, else itself."""
    ended: str = field(init=False, repr=False, compare=False)
    """The phase in which it has ended, or empty."""
    live: bool = field(init=False, repr=False, compare=False)
    """It runs or may still run; a pod that is being deleted counts for nothing but the room it holds."""

    def __post_init__(self) -> None:
        # These are looked at all the time.
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
        """Gates that somebody else has to take off."""
        return tuple(gate for gate in self.gates if gate != GANG_GATE) if self.gates else ()

    @property
    def rank(self) -> tuple[str, int, str, int, str, str]:
        """The order of members inside a gang: by series and index, then by name and the number at its end."""
        if self.index is not None:
            return self.series, self.index, self.name, 0, "", self.uid
        stem = self.name.rstrip("0123456789")
        return self.series, 1 << 31, stem, len(self.name), self.name, self.uid

    def bound(self, node: str, stamp: Stamp | None) -> Pod:
        """Return the pod after a Binding to that node, which wrote the stamp: in the gang that was bound, although an
        edit may have moved the pod meanwhile."""
        return replace(self, node=node, stamp=stamp, group=stamped_group(self.group, stamp))

    def slice_of(self, size: int) -> tuple[str, int]:
        """Which slice of so many members it is in. Slices never span series."""
        return self.series, (self.index or 0) // size

    def __str__(self) -> str:
        return f"{self.namespace}/{self.name}"
