"""Why a workload is in its state, as facts: what the core acts on, compares and remembers.

A cause has numbers, names and keys, and no sentence. Only ``extender/core/explain/reasons.py`` makes the reason for
users: a code, a text, and whether it is a warning. The name of a class of ``Cause`` is the public code of its reason.
Equal causes have equal reasons, so an equal cause needs no new report.

A field named ``detail`` passes on a text that the core does not read. It comes from the API server, kube-scheduler, a
policy, an object that contradicts itself, or a revocation.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from enum import Enum
from typing import NamedTuple, TypeVar

from policies.model import GroupKey, Victim
from policies.model.mentions import Mention, mentions_of
from policies.model.queues import FlavorResource


class Share(NamedTuple):
    """How many members have come so far.

    ``podset``: the podset or role that is counted; empty for all.
    """

    there: int
    needed: int | None
    podset: str = ""

    def __str__(self) -> str:
        return f"{self.there} of {self.needed} members{f' of {self.podset}' if self.podset else ''}"


class ReplacementRoom(NamedTuple):
    """Room that is kept for lost members of a gang. ``until``: in seconds since the epoch."""

    pods: int
    nodes: tuple[str, ...]
    until: float


# Steps of a start: each has a deadline, and none is reported.


@dataclass(frozen=True, slots=True)
class New:
    """The workload has just been seen."""


@dataclass(frozen=True, slots=True)
class Trying:
    """The API server is asked which pods it would create."""


class Carrier(Enum):
    """The means by which a plan is carried out."""

    KUBE_SCHEDULER = "kube-scheduler, which is steered"
    ADVISED = "kube-scheduler, as it likes"
    JOB = "the job, which is started with it"
    STARTED_JOB = "the job, which has it written on it"


@dataclass(frozen=True, slots=True)
class Placed:
    """Members have a node each."""

    members: int
    carrier: Carrier


@dataclass(frozen=True, slots=True)
class Holding:
    """Bind requests are held until the quorum is there."""

    arrived: Share
    uncreated: int


@dataclass(frozen=True, slots=True)
class Releasing:
    """The members are being bound."""


PASSING = New, Trying, Placed, Holding, Releasing
"""Steps of a start, which are never reported. Each has a deadline, and an Event costs the API server half of a
Binding."""


# The workload runs, in part or as a whole, or has ended.


@dataclass(frozen=True, slots=True)
class Incomplete:
    """Lost members have yet to be replaced.

    ``missing``: whether some of them have no node.
    ``reserved``: the room that is kept for them.
    """

    bound: Share
    missing: bool
    reserved: ReplacementRoom | None


@dataclass(frozen=True, slots=True)
class Growing:
    """A part of an elastic gang runs.

    ``size``: the members that it is to have.
    ``surplus``: why the ``waiting`` ones wait.
    ``unmade``: pods that do not exist yet.
    """

    bound: int
    size: int | None
    waiting: int
    surplus: Cause | None
    unmade: int
    reserved: ReplacementRoom | None


@dataclass(frozen=True, slots=True)
class Bound:
    """Enough members are bound.

    ``surplus``: why ``waiting`` more wait.
    ``led``: whether pods of these name nodes of the plan.
    """

    bound: int
    uncreated: int
    waiting: int = 0
    surplus: Cause | None = None
    led: bool = False


@dataclass(frozen=True, slots=True)
class Running:
    """The workload has started."""

    what: Bound | Growing | Incomplete


@dataclass(frozen=True, slots=True)
class Partial:
    """The start broke off with some members bound."""

    bound: Share


@dataclass(frozen=True, slots=True)
class Ended:
    """The pods have ended, or are being deleted, which is not reported; without any of these the job has ended.

    ``reserved``: room for replacements of lost pods.
    """

    pods: int = 0
    failed: int = 0
    deleting: int = 0
    reserved: ReplacementRoom | None = None


@dataclass(frozen=True, slots=True)
class NotPlanned:
    """The job was started without a plan of Muster's."""


# The pods, the PodGroup or the job keep the workload from being planned.


@dataclass(frozen=True, slots=True)
class NamespaceTerminating:
    """The namespace of the workload is being deleted, or is ``gone``, so no pod can be created in it."""

    namespace: str
    gone: bool


@dataclass(frozen=True, slots=True)
class OtherScheduler:
    """The pods have schedulers that Muster does not serve. ``on_purpose``: whether that may be intended."""

    schedulers: tuple[str, ...]
    ours: str
    on_purpose: bool


@dataclass(frozen=True, slots=True)
class TwoQueues:
    """The members name one Queue of Volcano, and its PodGroup another one."""

    of_members: str
    of_group: str


@dataclass(frozen=True, slots=True)
class Disagreement:
    """The members declare different values of one ``subject``."""

    subject: str
    values: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Contradiction:
    """The objects of the workload contradict each other."""

    what: Disagreement | TwoQueues


@dataclass(frozen=True, slots=True)
class InvalidPodGroup:
    """The PodGroup, or its description by ``pod``, cannot be used. A number as ``problem`` is the minMember."""

    problem: str | int
    pod: str = ""


@dataclass(frozen=True, slots=True)
class PodGroupDeleted:
    """The PodGroup is being deleted."""


@dataclass(frozen=True, slots=True)
class PodGroupMissing:
    """The members name a PodGroup that does not exist. ``koordinator``: whether they might have done without one."""

    group: GroupKey
    koordinator: bool


@dataclass(frozen=True, slots=True)
class MinMemberMissing:
    """No object has the number of members.

    ``owner``: the object that creates the pods.
    ``yunikorn``: whether the pods use YuniKorn's annotations.
    """

    owner: str = ""
    yunikorn: bool = False


@dataclass(frozen=True, slots=True)
class MembersMissing:
    """Fewer members exist than the gang needs.

    ``earlier``: pods that belong to an earlier PodGroup of its name.
    ``none_left``: whether no pod of it waits or runs.
    ``placeholders``: whether it expects placeholder pods, which Muster does not create.
    ``stateful_set``: the StatefulSet that creates its pods one by one.
    """

    there: Share
    earlier: int = 0
    none_left: bool = False
    placeholders: bool = False
    stateful_set: str = ""


@dataclass(frozen=True, slots=True)
class TooManyMembers:
    """The gang is larger than ``most``."""

    members: int
    min_member: int | None
    most: int


@dataclass(frozen=True, slots=True)
class TooManyGangs:
    """The gang is beyond the limit of its namespace: ``waiting`` earlier ones are considered, and no more."""

    waiting: int
    namespace: str


@dataclass(frozen=True, slots=True)
class TooManyShapes:
    """The members have more shapes than ``most``."""

    shapes: int
    most: int


@dataclass(frozen=True, slots=True)
class ResourceClaims:
    """An object that the claims of a pod need does not exist.

    ``kind``: a claim, its template, a DeviceClass, or a ComputeDomain (by its UID).
    ``domain``: the ComputeDomain that is to have the template.
    ``named_by``: the object that names the missing domain.
    ``elsewhere``: whether the domain is in another namespace.
    """

    kind: str
    name: str
    pod: str
    domain: str = ""
    named_by: str = ""
    elsewhere: bool = False


@dataclass(frozen=True, slots=True)
class VolumeNotBound:
    """A volume claim of a pod does not exist, or has no volume and does not wait for a node.

    ``storage_class``: the class of the claim; empty without one.
    ``trouble``: another reason why the pod cannot use the claim.
    """

    claim: str
    pod: str
    exists: bool
    storage_class: str = ""
    class_exists: bool = True
    trouble: str = ""


@dataclass(frozen=True, slots=True)
class Gated:
    """Members have scheduling gates of other owners."""

    gated: int
    members: int
    gates: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Held:
    """The annotation muster.dev/hold is on the job."""


@dataclass(frozen=True, slots=True)
class NameTaken:
    """The gang name of the job is in use, by ``pods`` or by the object ``holder``.

    ``own``: whether it is the name of the job, and not one that its pod template names.
    """

    name: str
    holder: str
    pods: int
    own: bool


@dataclass(frozen=True, slots=True)
class InvalidJob:
    """The job cannot be used."""

    detail: str


@dataclass(frozen=True, slots=True)
class PodsLeft:
    """Pods of the last start have yet to terminate.

    ``pods``: how many, of an earlier start; None for all of the last one.
    ``silent``: the silent node that keeps them.
    """

    pods: int | None
    silent: str


@dataclass(frozen=True, slots=True)
class TakingOff:
    """The plan that Muster wrote on the job is being removed. ``detail``: why that was refused."""

    detail: str


@dataclass(frozen=True, slots=True)
class StartedOver:
    """The job was started with a plan that does not hold. ``detail``: why; empty where slots have nodes of another
    plan."""

    detail: str


@dataclass(frozen=True, slots=True)
class NotSuspended:
    """The job is to be suspended because of ``detail``, and the API server ``refused`` that."""

    detail: str
    refused: str


@dataclass(frozen=True, slots=True)
class Stopping:
    """The job is being suspended, or has yet to be cleaned of its last start."""

    what: PodsLeft | TakingOff | StartedOver | NotSuspended


@dataclass(frozen=True, slots=True)
class PodsRefused:
    """The API server refuses its pods."""

    detail: str


@dataclass(frozen=True, slots=True)
class PolicyFailed:
    """A policy raised, or broke a rule."""

    detail: str


# The workload waits for its turn.


class Missing(Enum):
    """The missing link between a workload and its ClusterQueue."""

    NAME = "it names no queue, and has to"
    LOCAL = "its LocalQueue"
    CLUSTER = "the ClusterQueue that its LocalQueue points to"
    VOLCANO = "its Queue of Volcano"


@dataclass(frozen=True, slots=True)
class QueueMissing:
    """The workload leads to no queue. ``name``: the name it gives. ``place``: the namespace of that, or its target."""

    what: Missing
    name: str = ""
    place: str = ""


class Unusable(Enum):
    """The kind of problem for which a queue admits no workload."""

    BROKEN = "it contradicts itself"
    NOT_SELECTED = "it does not select the namespace"
    PARENT = "it has queues below it"


@dataclass(frozen=True, slots=True)
class QueueInactive:
    """The queue admits no workload of the namespace. ``detail``: its fault, or the namespace."""

    queue: str
    what: Unusable
    detail: str = ""


@dataclass(frozen=True, slots=True)
class QueueStopped:
    """The queue is stopped. ``policy``: its stopPolicy; empty for a Queue of Volcano, which is closed."""

    queue: str
    policy: str = ""


@dataclass(frozen=True, slots=True)
class RunTooLong:
    """The workload would run for longer than its queue allows. ``deadline``: by its deadline, and not its estimate."""

    queue: str
    limit_s: float
    expected_s: float
    deadline: bool


@dataclass(frozen=True, slots=True)
class QueueOrder:
    """Another workload is before it in a StrictFIFO queue."""

    first: GroupKey
    queue: str


@dataclass(frozen=True, slots=True)
class Creating:
    """Pods of jobs that were started earlier have yet to be created, at ``rate`` a second.

    ``awaited``: how many; None if the job waits because other workloads lack room, and pods of another job may never
    come.
    """

    awaited: int | None = None
    rate: int = 0


@dataclass(frozen=True, slots=True)
class SharedSpread:
    """A topology spread counts its members and those of another gang, which is being started."""

    other: str


@dataclass(frozen=True, slots=True)
class Preempted:
    """The workload is a victim, and its pods have yet to go."""

    preemptor: GroupKey


@dataclass(frozen=True, slots=True)
class Preempting:
    """Victims are evicted for the workload."""

    victims: tuple[Victim, ...]


class Call(Enum):
    """The way in which nodes are requested."""

    SHOWN = "its pods are shown to an autoscaler"
    REQUESTED = "a ProvisioningRequest"
    GRANTED = "they are granted, and yet to be seen"


@dataclass(frozen=True, slots=True)
class AwaitingNodes:
    """The workload has quota, and nodes are requested for it."""

    queue: str
    flavors: tuple[str, ...]
    pods: int
    call: Call


# The plan of the workload was revoked.


@dataclass(frozen=True, slots=True)
class Rests:
    """The job was stopped because of ``detail``, and rests before it is tried again."""

    detail: str


@dataclass(frozen=True, slots=True)
class Forgotten:
    """The plan was revoked. ``what``: why."""

    what: str | Rests


@dataclass(frozen=True, slots=True)
class TurnedDown:
    """kube-scheduler did not take the plan up, ``times`` in a row. ``words``: its message."""

    detail: str
    words: str
    times: int


@dataclass(frozen=True, slots=True)
class OtherNodes:
    """kube-scheduler refused some nodes. ``words``: its message. ``without``: what is lacking without those nodes."""

    words: str
    without: NoRoom


# The workload lacks room or quota.


@dataclass(frozen=True, slots=True)
class Holders:
    """The owners of room in a domain: gangs that have ``most`` with their ends, ``more`` of them, and single pods.

    An end is in seconds since the epoch; minus infinity where all pods are being deleted, infinity where unknown.
    """

    most: tuple[tuple[GroupKey, float], ...] = ()
    more: int = 0
    singles: int = 0


NOBODY = Holders()


@dataclass(frozen=True, slots=True)
class ByDra:
    """DeviceClasses offer a resource that the workload asks for."""

    resource: str
    classes: str


@dataclass(frozen=True, slots=True)
class Short:
    """The nodes lack room.

    ``grows``: whether members are placed one by one.
    ``near``: the nearest domain, in the policy's words; ``holders``: the owners of room there.
    ``detail``: the policy's text.
    ``ahead``: single pods that come first.
    ``reserved``: pods and end of room that is kept for replacements of other gangs.
    ``by_dra``: a resource that is offered by DRA as well as listed by nodes.
    """

    placed: int
    needed: int
    grows: bool
    near: str
    holders: Holders
    detail: str
    ahead: tuple[Mention, ...] = ()
    reserved: ReplacementRoom | None = None
    by_dra: ByDra | None = None


@dataclass(frozen=True, slots=True)
class LaterWave:
    """The only room would keep pods of a later wave away from their nodes."""


@dataclass(frozen=True, slots=True)
class StartedWith:
    """The workload was started with these flavors."""

    flavors: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class CountedAs:
    """The nodes of the flavor count as those of the ``first`` one that they match."""

    first: str


@dataclass(frozen=True, slots=True)
class Unsuited:
    """The pods do not go to nodes of the flavor. ``detail``: the policy's text."""

    detail: str


@dataclass(frozen=True, slots=True)
class FlavorRefused:
    """A flavor that the workload cannot have, whatever quota there is. ``why``: what its nodes lack, or another
    reason."""

    flavor: str
    why: NotThisFlavor


class LeavingPod(NamedTuple):
    """A pod that terminates, and how many ``more`` do. ``ready``: whether its node is ready; None if that is
    deleted."""

    pod: str
    node: str | None
    ready: bool | None
    more: int


@dataclass(frozen=True, slots=True)
class FlavorShort:
    """A flavor with too little quota.

    ``most``: how much the queue can have; None if it has no quota of it.
    ``left``: how much of that is left; None where even ``most`` is too little.
    ``users``: the workloads that use most of it, with their amounts; ``more``: how many others use it.
    ``own``: how much its own pods use that stay; ``of_leaving``: how much its terminating pods use.
    """

    what: FlavorResource
    requested: int
    most: int | None
    left: int | None = None
    users: tuple[tuple[GroupKey, int], ...] = ()
    more: int = 0
    own: int = 0
    of_leaving: int = 0
    leaving: LeavingPod | None = None


@dataclass(frozen=True, slots=True)
class ByFlavor:
    """The lack of each flavor of the queue.

    ``last``: the lack of the flavors that were tried last, where each podset alone finds one.
    ``promised``: whether no flavor was tried, because the quota that is left is promised to others.
    """

    queue: str
    flavors: tuple[FlavorRefused | FlavorShort, ...]
    last: Unplaced | None
    promised: bool = False


@dataclass(frozen=True, slots=True)
class Uncovered:
    """The workload asks for resources that its queue does not cover."""

    queue: str
    resources: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class AskedInVain:
    """Nodes were requested without success.

    ``flavors``: the flavors of the nodes.
    ``pause_s``: seconds until the next request.
    ``times``: how often in a row, after a restart.
    """

    flavors: tuple[str, ...]
    detail: str
    pause_s: int
    times: int = 0


@dataclass(frozen=True, slots=True)
class VictimsGone:
    """The victims have gone, but the workload still lacks room or quota."""

    why: Lacks


@dataclass(frozen=True, slots=True)
class EvictionEnded:
    """The eviction of victims for the workload failed.

    ``evicted``: whether the victims were evicted before.
    ``again``: whether it is tried again.
    """

    victims: tuple[Victim, ...]
    evicted: bool
    why: Lacks
    again: bool


@dataclass(frozen=True, slots=True)
class Unwritten:
    """The reservation for the preemptor could not be written, so no victim was evicted."""

    detail: str


@dataclass(frozen=True, slots=True)
class Protected:
    """Victims may not be evicted any more, because of ``detail``."""

    detail: str


@dataclass(frozen=True, slots=True)
class Late:
    """Victims have not gone in time. ``refused``: one whose suspension was refused, and why."""

    after_s: int
    left: tuple[Victim, ...]
    refused: tuple[GroupKey, str] | None = None


# Facts that a reason adds to a lack.


@dataclass(frozen=True, slots=True)
class Rises:
    """Age counts in the queue: by ``points`` of priority a day, ``since`` then, in seconds since the epoch."""

    queue: str
    points: int
    since: float


@dataclass(frozen=True, slots=True)
class PutOff:
    """The turn comes after workloads of other namespaces: pods of earlier jobs of its own were not created."""


@dataclass(frozen=True, slots=True)
class LostPins:
    """Pods of the workload name only nodes that do not exist any more."""

    pods: tuple[str, ...]
    nodes: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class PreemptionOff:
    """The workload has a priority, and preemption is off."""

    priority: int


@dataclass(frozen=True, slots=True)
class NoVictims:
    """Evictions would not help. ``detail``: the policy's text."""

    detail: str


@dataclass(frozen=True, slots=True)
class WouldEvict:
    """Preemption is a dry run."""

    victims: tuple[Victim, ...]


@dataclass(frozen=True, slots=True)
class Uncreated:
    """No victim is evicted: pods of the workload were not created in time, or ``of_others`` in its namespace."""

    of_others: bool


@dataclass(frozen=True, slots=True)
class Untried:
    """No victim is evicted: the API server refuses the pods because of ``detail``, or has yet to be asked."""

    detail: str


@dataclass(frozen=True, slots=True)
class NoNodesAsked:
    """No nodes are requested. ``detail``: what the pods lack for that."""

    detail: str


@dataclass(frozen=True, slots=True)
class RoomReserved:
    """Room on these nodes is reserved for the workload.

    ``start_by``: when it is expected to start, in seconds since the epoch; None where that is not known.
    ``after``: the workload whose end it waits for last; ``rests_on``: the source of that workload's duration.
    """

    nodes: tuple[str, ...]
    start_by: float | None
    after: GroupKey | None = None
    rests_on: str = ""


@dataclass(frozen=True, slots=True)
class RoomReservedForOthers:
    """Room on these nodes is reserved for another workload, whose start is expected at ``start_by``."""

    workload: GroupKey
    nodes: tuple[str, ...]
    start_by: float | None


@dataclass(frozen=True, slots=True)
class Differs:
    """The pods ask for more than their templates."""

    detail: str


Beside = (
    PutOff
    | Rises
    | Incomplete
    | LostPins
    | PreemptionOff
    | NoVictims
    | WouldEvict
    | Uncreated
    | Untried
    | NoNodesAsked
    | AskedInVain
    | EvictionEnded
    | RoomReserved
    | RoomReservedForOthers
    | Differs
)
"""Facts that a reason adds to what a workload lacks."""


@dataclass(frozen=True, slots=True)
class NoRoom:
    """No nodes have room for the workload."""

    what: Short | LaterWave | ByFlavor | AskedInVain | VictimsGone | EvictionEnded | Unwritten | Protected | Late
    beside: tuple[Beside, ...] = ()


@dataclass(frozen=True, slots=True)
class NoQuota:
    """The queue lacks quota."""

    what: ByFlavor | Uncovered | VictimsGone | EvictionEnded
    beside: tuple[Beside, ...] = ()


@dataclass(frozen=True, slots=True)
class Refused:
    """kube-scheduler refuses the workload."""

    what: OtherNodes | TurnedDown | Rests
    beside: tuple[Beside, ...] = ()


@dataclass(frozen=True, slots=True)
class Misfit:
    """A demand is not understood, or not met by members that have a node.

    ``detail``: the policy's text.
    ``remedy``: what the owner can do, as an imperative sentence.
    """

    detail: str
    remedy: str


@dataclass(frozen=True, slots=True)
class UnknownTopology:
    """The topology that the workload asks for is not understood."""

    what: Misfit | ByFlavor


@dataclass(frozen=True, slots=True)
class Split:
    """Members with a node break what the workload requires."""

    what: Misfit | ByFlavor


@dataclass(frozen=True, slots=True)
class OfferedByDra:
    """No node lists what the workload asks for, but DeviceClasses offer it."""

    what: ByDra | ByFlavor


Lacks = NoRoom | NoQuota
"""Causes that evictions can end."""
Unplaced = NoRoom | NoQuota | Split | UnknownTopology | OfferedByDra
"""Why a workload has no plan."""
NotThisFlavor = Unplaced | StartedWith | CountedAs | Unsuited


L = TypeVar("L", bound="NoRoom | NoQuota | Refused")


def with_facts(cause: L, *facts: Beside) -> L:
    """Return the cause with these facts beside it, each once, in this order."""
    more = tuple(fact for fact in facts if fact not in cause.beside)
    return replace(cause, beside=(*cause.beside, *more)) if more else cause


def names_of(cause: Unplaced) -> Iterator[str]:
    """The workloads that a cause names."""
    match cause.what:
        case Short() as short:
            yield from (str(key) for key, _ in short.holders.most)
            yield from (mention.name for mention in short.ahead)
            yield from (mention.name for text in (short.near, short.detail) for mention in mentions_of(text))
        case ByFlavor(flavors=flavors, last=last):
            for flavor in flavors:
                if isinstance(flavor, FlavorShort):
                    yield from (str(key) for key, _ in flavor.users)
                elif isinstance(flavor.why, Unplaced):
                    yield from names_of(flavor.why)
            if last is not None and not flavors:
                yield from names_of(last)
        case Misfit(detail=detail):
            yield from (mention.name for mention in mentions_of(detail))


def misfits(cause: Cause | NotThisFlavor | None) -> Iterator[Misfit]:
    """The demands behind a cause that are not understood, or not met: of each flavor that was tried."""
    match cause:
        case UnknownTopology(what=Misfit() as misfit) | Split(what=Misfit() as misfit):
            yield misfit
        case UnknownTopology(what=ByFlavor() as tried) | Split(what=ByFlavor() as tried):
            for flavor in tried.flavors:
                if isinstance(flavor, FlavorRefused):
                    yield from misfits(flavor.why)
            yield from misfits(tried.last)


Cause = (
    New
    | Trying
    | Placed
    | Holding
    | Releasing
    | Running
    | Partial
    | Ended
    | NotPlanned
    | NamespaceTerminating
    | OtherScheduler
    | Contradiction
    | InvalidPodGroup
    | PodGroupDeleted
    | PodGroupMissing
    | MinMemberMissing
    | MembersMissing
    | TooManyMembers
    | TooManyGangs
    | TooManyShapes
    | ResourceClaims
    | VolumeNotBound
    | Gated
    | Held
    | NameTaken
    | InvalidJob
    | Stopping
    | PodsRefused
    | PolicyFailed
    | QueueMissing
    | QueueInactive
    | QueueStopped
    | RunTooLong
    | QueueOrder
    | Creating
    | SharedSpread
    | Preempted
    | Preempting
    | AwaitingNodes
    | Forgotten
    | NoRoom
    | NoQuota
    | Refused
    | UnknownTopology
    | Split
    | OfferedByDra
)


def is_quiet(cause: Cause) -> bool:
    """Whether a cause is shown only on request and not written anywhere.

    The gang may be another scheduler's, or the API server takes no Event there.
    """
    match cause:
        case NamespaceTerminating():
            return True
        case OtherScheduler(on_purpose=quiet):
            return quiet
        case Ended(deleting=deleting):
            return deleting > 0
    return False
