"""Effects: what the core asks for. The driver carries them out in order and reports the outcomes of writes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from policies.model import (
    Controller,
    Dialect,
    GroupKey,
    InVain,
    Job,
    NodeWait,
    PlannedNodes,
    Pod,
    Reservation,
    Toleration,
)
from policies.preemption.allowed import Why


class Milestone(StrEnum):
    """A step in the life of a workload.

    PLANNED: every member has a node.
    RELEASED: its Bindings are posted.
    STARTED: its quorum is bound for the first time.
    FORGOTTEN: its plan was revoked, for a ``Cause``.
    BROKEN: a release broke off with part of the quorum bound.
    DELAYED: a policy failed in its turn.
    PREEMPTING: victims are evicted for it.
    WOULD_PREEMPT: victims would be evicted, but preemption is a dry run.
    UNRESERVED: the room for which victims were evicted is not kept any more.
    RESERVED: room is reserved for it until running workloads have ended.
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


class RevokedFor(StrEnum):
    """Why a plan was revoked: few values, for a label of a metric."""

    HOLD_DEADLINE = "hold-deadline"
    """Members were missing at bind when the held ones could wait no longer."""
    PLAN_DEADLINE = "plan-deadline"
    """kube-scheduler did not take the plan up in time."""
    NODE_REFUSED = "node-refused"
    """kube-scheduler refused a member on its planned node."""
    NODE_CHANGED = "node-changed"
    """A planned node is gone, not ready, closed or full."""
    ROOM_TAKEN = "room-taken"
    """Another pod has been bound to planned room."""
    BOUND_ELSEWHERE = "bound-elsewhere"
    """Another client, or an earlier leader, has bound a member outside of the domain that the others were promised."""
    LAST_LOOK = "last-look"
    """Facts had changed at the last check before the first Binding."""
    MEMBER_LOST = "member-lost"
    PODGROUP_CHANGED = "podgroup-changed"
    WRITE_FAILED = "write-failed"
    """A nomination or an ungating could not be written."""
    JOB_SUSPENDED = "job-suspended"
    NAMESPACE_DELETED = "namespace-deleted"
    BINDINGS_REFUSED = "bindings-refused"
    PREEMPTED = "preempted"


DEADLINES = (RevokedFor.HOLD_DEADLINE, RevokedFor.PLAN_DEADLINE)
"""Causes that are reported at once: they would be over before a reason has lasted long enough to be reported."""


@dataclass(frozen=True, slots=True)
class AnswerFilter:
    """The answer to a filter call: ``passed`` may be used, ``refused`` may not, with the constant text ``reason``."""

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
    """The answer to a bind call. An empty ``error`` means that the pod is bound."""

    call: int
    error: str = ""


@dataclass(frozen=True, slots=True)
class PostBinding:
    """POST a Binding, unless all of ``calls`` have been given up or ``deadline`` has passed.

    ``again``: an earlier Binding of the pod may have been written, and its outcome is unknown.
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
    """PATCH ``status.nominatedNodeName``; None clears it.

    ``renew``: it has this value already, but the pod must be woken.
    ``parked``: only plugins of kube-scheduler have refused the pod. Some plugins are woken only by a cleared
    nomination, and inter-pod affinity only by a changed label. Setting a nomination wakes none.
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
    """PATCH Muster's scheduling gate off the pod: kube-scheduler takes it up at once. ``pin``: the only nodes it may
    use."""

    uid: str
    namespace: str
    name: str
    group: GroupKey | None = None
    pin: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Wake:
    """Change a harmless field of the pod's status, so that kube-scheduler tries it again."""

    uid: str
    namespace: str
    name: str


@dataclass(frozen=True, slots=True)
class Confirm:
    """PATCH ``release-complete`` on a bound member: its release is complete, and too few other members are stamped
    so."""

    uid: str
    namespace: str
    name: str
    group: GroupKey | None = None


@dataclass(frozen=True, slots=True)
class Evict:
    """Evict a bound member of a gang whose start was not completed, or a victim."""

    uid: str
    namespace: str
    name: str
    reason: str


@dataclass(frozen=True, slots=True)
class Deallocate:
    """PATCH the allocation off a ResourceClaim that is reserved for no pod, by its resourceVersion."""

    uid: str
    namespace: str
    name: str


@dataclass(frozen=True, slots=True)
class StartJob:
    """PATCH the job: unsuspend it, and write the plan on it and into its pod templates, in one request.

    ``job``: the job as it was planned; nothing is written if the object has other podsets.
    ``minimum``: the minMember of the gang, for its pods.
    ``flavors``: by podset, the flavor of each resource.
    ``tolerations``: by podset, tolerations of its pods beyond their template.
    ``node_wait``: the job starts without a plan. When nodes arrive the plan is written on the job only, since its pods
    exist.
    ``labels``: by podset, the node labels its pods require beyond their template, while they have no nodes.
    ``awaits_s``: how long they may have none.
    """

    job: Job
    plan: PlannedNodes
    minimum: int
    flavors: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    tolerations: Mapping[str, tuple[Toleration, ...]] = field(default_factory=dict)
    node_wait: NodeWait | None = None
    labels: Mapping[str, tuple[tuple[str, str], ...]] = field(default_factory=dict)
    awaits_s: float = 0.0


@dataclass(frozen=True, slots=True)
class SuspendJob:
    """PATCH the job: suspend it, because of ``reason``. Its controller then deletes its pods.

    ``evicted``: when it was evicted in the last hour, to be written on it.
    ``in_vain``: how long it rests after unsuccessful requests for nodes, to be written on it.
    """

    job: Job
    reason: str
    evicted: tuple[float, ...] = ()
    in_vain: InVain | None = None


@dataclass(frozen=True, slots=True)
class CleanJob:
    """PATCH the suspended job: remove everything that Muster wrote on it."""

    job: Job


@dataclass(frozen=True, slots=True)
class Reserve:
    """PATCH the annotation of this pod or job with the room that is kept for the workload; None removes it.

    ``backfill``: the room is kept until running workloads have ended by themselves; else until victims have gone.
    """

    key: GroupKey
    pod: Pod | None
    job: Job | None
    reservation: Reservation | None
    backfill: bool = False

    @property
    def fields(self) -> dict[str, Any]:
        """The field of the pod or job that shows this once it is written, with its value."""
        return {"backfill" if self.backfill else "reservation": self.reservation}


@dataclass(frozen=True, slots=True)
class Enqueue:
    """Write on the PodGroup that its job may create its pods (Volcano's Enqueue)."""

    key: GroupKey
    uid: str


@dataclass(frozen=True, slots=True)
class Report:
    """A gang's current reason has changed: report it where users look.

    ``group_uid``: the PodGroup to write it on; None if there is none.
    ``member``: one pod of the gang, by UID and name.
    ``message``: for readers of the namespace; ``full``: for an operator.
    ``members``: how many exist; ``bound``: how many of them have a node.
    ``owner``: the object that created that pod.
    ``dialect``: the dialect of the PodGroup.
    ``pending``: the PodGroup is not to be written, because its job creates no pods yet.
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
    """Report by an Event on the pod, or on its owner, which of its annotations nothing reads.

    ``uid``: empty if there is no pod yet.
    ``reason``: of the Event, where it reports something else.
    ``once``: no new Event is needed if the pod has one of that reason from before a restart.
    """

    uid: str
    namespace: str
    name: str
    message: str
    owner: Controller | None
    reason: str = "UnreadKey"
    once: bool = False


@dataclass(frozen=True, slots=True)
class Reached:
    """A gang of ``size`` members has reached a milestone. For the log and the metrics: nothing is written.

    ``after_s``: since its first member was seen; for RELEASED, since its first bind call.
    ``alone``: the preemptor is a single pod.
    ``rules``: for PREEMPTING, the rule by which each victim may be evicted.
    """

    key: GroupKey
    milestone: Milestone
    size: int
    after_s: float
    cause: RevokedFor | None = None
    detail: str = ""
    alone: bool = False
    rules: tuple[Why, ...] = ()


@dataclass(frozen=True, slots=True)
class TryPod:
    """Create a pod of the podset by a dry run, to see the pod that the API server would make. Nothing is written."""

    job: Job
    podset: str
    shape: str


JobEffect = StartJob | SuspendJob | CleanJob
"""Writes to a job."""
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
"""Writes to the API server, and trials."""
Effect = AnswerFilter | AnswerPreempt | AnswerBind | Reached | Write
