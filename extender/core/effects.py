"""Effects: what the core asks for. The driver carries them out in order and reports the outcomes of writes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from policies.model import Controller, Dialect, GroupKey, InVain, Job, LetGo, PlannedNodes, Pod, Reservation, Toleration
from policies.preemption.allowed import Why


class Milestone(StrEnum):
    """PLANNED: every member has a node. RELEASED: its Bindings go out. STARTED: it is whole for the first time.

    FORGOTTEN: its placement was taken back, for a ``Cause``. BROKEN: a release broke off with part of it bound.
    DELAYED: a policy failed when it was its turn. PREEMPTING: others are evicted for it. WOULD_PREEMPT: they would be,
    were it no dry run. UNRESERVED: the room that was kept for it meanwhile is so no more.
    RESERVED: room is reserved for it until others have ended.
    """

    PLANNED = "planned"
    RELEASED = "released"
    STARTED = "started"
    FORGOTTEN = "forgotten"
    BROKEN = "broken"
    DELAYED = "delayed"
    PREEMPTING = "preempts"
    WOULD_PREEMPT = "would-preempt"
    UNRESERVED = "unreserved"
    RESERVED = "reserved"


class Cause(StrEnum):
    """Why a placement was taken back: few values, for a label of a metric."""

    HOLD_DEADLINE = "hold-deadline"
    """Members were missing at bind when those that were held could wait no longer."""
    PLAN_DEADLINE = "plan-deadline"
    """kube-scheduler did not take the placement up in time."""
    NODE_REFUSED = "node-refused"
    """kube-scheduler would not have a member on its planned node."""
    NODE_CHANGED = "node-changed"
    """A planned node is gone, not ready, closed or full."""
    ROOM_TAKEN = "room-taken"
    """Another pod has been bound to planned room."""
    BOUND_ELSEWHERE = "bound-elsewhere"
    """Somebody else, an earlier leader for one, has bound a member out of the domain that the others were promised."""
    LAST_LOOK = "last-look"
    """Something had changed when everything was looked at once more before the first Binding."""
    MEMBER_LOST = "member-lost"
    PODGROUP_CHANGED = "podgroup-changed"
    WRITE_FAILED = "write-failed"
    """A nomination or an ungating could not be written."""
    JOB_SUSPENDED = "job-suspended"
    NAMESPACE_DELETED = "namespace-deleted"
    BINDINGS_REFUSED = "bindings-refused"
    PREEMPTED = "preempted"


DEADLINES = (Cause.HOLD_DEADLINE, Cause.PLAN_DEADLINE)
"""Causes that are told at once: they would be over before a reason has lasted long enough to be reported."""


@dataclass(frozen=True, slots=True)
class AnswerFilter:
    """``passed`` may be used; each node in ``refused`` may not, for the constant text ``reason``."""

    call: int
    passed: tuple[str, ...]
    refused: tuple[str, ...] = ()
    reason: str = ""


@dataclass(frozen=True, slots=True)
class AnswerPreempt:
    """The candidates that are left, with their victims' UIDs; an empty mapping is a veto."""

    call: int
    victims: Mapping[str, tuple[str, ...]]


@dataclass(frozen=True, slots=True)
class AnswerBind:
    """An empty ``error`` means: the pod is bound."""

    call: int
    error: str = ""


@dataclass(frozen=True, slots=True)
class PostBinding:
    """POST a Binding, unless every one of ``calls`` has been given up or ``deadline`` has passed by then.

    ``again``: an earlier one of the pod may have been written, and nobody has seen whether it was.
    """

    uid: str
    namespace: str
    name: str
    node: str
    calls: tuple[int, ...]
    deadline: float
    annotations: Mapping[str, str]
    group: GroupKey | None = None
    again: bool = False


@dataclass(frozen=True, slots=True)
class Nominate:
    """PATCH ``status.nominatedNodeName``; None clears it. ``renew``: it already reads so, but the pod must be woken.

    ``parked``: only plugins of kube-scheduler have refused the pod. To some a nomination that ends is news, as if a pod
    had gone, and to pod affinity only labels of the pod that have changed; a nomination that begins is none to anybody.
    """

    uid: str
    namespace: str
    name: str
    node: str | None
    renew: bool = False
    group: GroupKey | None = None
    parked: bool = False


@dataclass(frozen=True, slots=True)
class Ungate:
    """PATCH our scheduling gate off the pod: kube-scheduler takes it up at once. ``pin``: the only nodes it may use."""

    uid: str
    namespace: str
    name: str
    group: GroupKey | None = None
    pin: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Wake:
    """Change something harmless in the pod's status, so that kube-scheduler tries it again."""

    uid: str
    namespace: str
    name: str


@dataclass(frozen=True, slots=True)
class Confirm:
    """PATCH ``release-complete`` on a bound member: its release is whole, and too few others say so."""

    uid: str
    namespace: str
    name: str
    group: GroupKey | None = None


@dataclass(frozen=True, slots=True)
class Evict:
    """Evict a bound member of a gang that never became whole, or a victim."""

    uid: str
    namespace: str
    name: str
    reason: str


@dataclass(frozen=True, slots=True)
class Deallocate:
    """Take the allocation off a ResourceClaim that is reserved for no pod, by its resourceVersion."""

    uid: str
    namespace: str
    name: str


@dataclass(frozen=True, slots=True)
class StartJob:
    """One PATCH of the job: unsuspend it, and write the plan on it and into what it makes its pods of.

    ``minimum``: what its pods say as their gang's minMember. ``job``: as it was planned; nothing is written if the
    podsets of the object are others by now. ``flavors``: by podset, the flavor of each resource. ``tolerations``: by
    podset, what its pods tolerate beyond what their template says. ``let_go``: it has no plan yet. Once it has one that
    is written on the job alone, whose pods are there. ``labels``: by podset, what its pods ask of their nodes beyond
    what their template says, while they have none; ``awaits_s``: so many seconds they may have none.
    """

    job: Job
    plan: PlannedNodes
    minimum: int
    flavors: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    tolerations: Mapping[str, tuple[Toleration, ...]] = field(default_factory=dict)
    let_go: LetGo | None = None
    labels: Mapping[str, tuple[tuple[str, str], ...]] = field(default_factory=dict)
    awaits_s: float = 0.0


@dataclass(frozen=True, slots=True)
class SuspendJob:
    """PATCH the job: suspend it, because of ``reason``. Its controller then deletes its pods. ``evicted``: when it was
    evicted in the last hour; ``in_vain``: how long it rests for nodes that did not come. Both are to be written on it,
    if there are any."""

    job: Job
    reason: str
    evicted: tuple[float, ...] = ()
    in_vain: InVain | None = None


@dataclass(frozen=True, slots=True)
class CleanJob:
    """PATCH the job, which is suspended: take everything of ours off it."""

    job: Job


@dataclass(frozen=True, slots=True)
class Reserve:
    """PATCH the annotation of this pod, or of this job: the room that is kept for the workload; None takes it off.

    ``backfill``: the room is kept until others have ended by themselves; else until they have been evicted.
    """

    key: GroupKey
    pod: Pod | None
    job: Job | None
    reservation: Reservation | None
    backfill: bool = False

    @property
    def fields(self) -> dict[str, Any]:
        """What the pod or the job shows once this is written, by the name of its field."""
        return {"backfill" if self.backfill else "reservation": self.reservation}


@dataclass(frozen=True, slots=True)
class Enqueue:
    """Say on the PodGroup that its job may make its pods (Volcano's word)."""

    key: GroupKey
    uid: str


@dataclass(frozen=True, slots=True)
class Report:
    """A gang's current reason has changed: tell it where people look. ``member`` is one pod (UID, name) of the gang.

    ``members`` exist, and ``bound`` of them have a node. ``owner`` is the object that made that pod. ``dialect``: whose
    kind of PodGroup ``group_uid`` is of; ``pending``: nothing is to be written on it, whose job makes no pods yet.
    ``message`` is for readers of the namespace, ``full`` for an operator.
    """

    key: GroupKey
    group_uid: str | None
    member: tuple[str, str] | None
    code: str
    message: str
    warning: bool
    members: int = 0
    bound: int = 0
    owner: Controller | None = None
    dialect: Dialect = Dialect.COSCHEDULING
    pending: bool = False
    full: str = ""


@dataclass(frozen=True, slots=True)
class Hint:
    """Report by an Event on the pod, or on the object that made it, which of its annotations nothing reads. An empty
    ``uid``: there is no pod yet. ``reason``: of the Event, where it reports something else. ``once``: an Event of that
    reason that the pod has from before a restart is enough."""

    uid: str
    namespace: str
    name: str
    message: str
    owner: Controller | None
    reason: str = "UnreadKey"
    once: bool = False


@dataclass(frozen=True, slots=True)
class Reached:
    """A gang of ``size`` members has reached a milestone: for the log and the metrics, nothing is to be written.

    ``after_s``: since its first member was seen; for RELEASED since the first of its binds came. ``alone``: it is a pod
    of no gang that others give way to. ``rules``: for PREEMPTING, that by which each of its victims may be evicted.
    """

    key: GroupKey
    milestone: Milestone
    size: int
    after_s: float
    cause: Cause | None = None
    detail: str = ""
    alone: bool = False
    rules: tuple[Why, ...] = ()


@dataclass(frozen=True, slots=True)
class TryPod:
    """Create a pod of that podset by a dry run, to see what the API server makes of it. Nothing is written."""

    job: Job
    podset: str
    shape: str


JobEffect = StartJob | SuspendJob | CleanJob
"""What is written to a job."""
Write = (
    PostBinding
    | Nominate
    | Ungate
    | Wake
    | Confirm
    | Evict
    | Deallocate
    | JobEffect
    | Reserve
    | Enqueue
    | Report
    | Hint
    | TryPod
)
"""Writes at the API server, and trials."""
Effect = AnswerFilter | AnswerPreempt | AnswerBind | Reached | Write
