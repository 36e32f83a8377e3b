"""Why a workload is where it is, as facts: what the core acts on, compares and remembers.

A cause has numbers, names and keys, and no sentence. ``extender/core/explain/reasons.py`` alone makes the reason that
people read: a code, a text, and whether it is a warning. The name of a class of ``Cause`` is the public code of its
reason. Equal causes have equal reasons, so an equal cause is nothing new to tell.

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
    """How many members have come so far. ``part``: the podset or role that is counted; empty for all."""

    there: int
    needed: int | None
    part: str = ""

    def __str__(self) -> str:
        return f"{self.there} of {self.needed} members{f' of {self.part}' if self.part else ''}"


class KeptRoom(NamedTuple):
    """Room that is kept for lost members of a gang. ``until``: in seconds since the epoch."""

    pods: int
    nodes: tuple[str, ...]
    until: float


# On the way to a start: each has a deadline, and none is reported.


@dataclass(frozen=True, slots=True)
class New:
    """The workload has just been seen."""


@dataclass(frozen=True, slots=True)
class Trying:
    """The API server is asked what it makes of the pods."""


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
"""Steps of a start: never reported. Each has a deadline, and an Event costs the API server half of a Binding."""


# It runs, in part or as a whole, or has ended.


@dataclass(frozen=True, slots=True)
class Incomplete:
    """Lost members are yet to be replaced. ``missing``: some of them have no node. ``kept``: the room for them."""

    bound: Share
    missing: bool
    kept: KeptRoom | None


@dataclass(frozen=True, slots=True)
class Growing:
    """A part of an elastic gang runs. ``surplus``: why the others wait. ``unmade``: pods that do not exist yet."""

    bound: int
    size: int | None
    waiting: int
    surplus: Cause | None
    unmade: int
    kept: KeptRoom | None


@dataclass(frozen=True, slots=True)
class Bound:
    """Enough members are bound. ``surplus``: why ``waiting`` more wait. ``led``: pods of these name nodes of the
    plan."""

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
    """The pods have ended, or are ``deleting``, which is nothing to report; without any of these the job has ended.

    ``kept``: room for replacements of lost pods.
    """

    pods: int = 0
    failed: int = 0
    deleting: int = 0
    kept: KeptRoom | None = None


@dataclass(frozen=True, slots=True)
class NotPlanned:
    """The job was started without a plan of Muster's."""


# What its pods, its PodGroup or its job say keeps it from being planned.


@dataclass(frozen=True, slots=True)
class NamespaceTerminating:
    """No pod can be created in its namespace, which is being deleted, or is ``gone``."""

    namespace: str
    gone: bool


@dataclass(frozen=True, slots=True)
class OtherScheduler:
    """The pods have schedulers that Muster does not serve. ``on_purpose``: as far as can be told."""

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
    """The members say different things of one ``subject``."""

    subject: str
    values: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Contradiction:
    """The objects of the workload contradict each other."""

    what: Disagreement | TwoQueues


@dataclass(frozen=True, slots=True)
class InvalidPodGroup:
    """The PodGroup, or what ``pod`` says of it, cannot be used; a number is the minMember."""

    problem: str | int
    pod: str = ""


@dataclass(frozen=True, slots=True)
class PodGroupDeleted:
    """The PodGroup is being deleted."""


@dataclass(frozen=True, slots=True)
class PodGroupMissing:
    """The members name a PodGroup that does not exist. ``koordinator``: they might have done without one."""

    group: GroupKey
    koordinator: bool


@dataclass(frozen=True, slots=True)
class MinMemberMissing:
    """No object says how many members it has. ``owner``: what makes its pods; ``yunikorn``: they speak its dialect."""

    owner: str = ""
    yunikorn: bool = False


@dataclass(frozen=True, slots=True)
class MembersMissing:
    """Fewer members exist than it needs.

    ``earlier``: pods that belong to an earlier PodGroup of its name. ``none_left``: no pod of it waits or runs.
    ``placeholders``: it counts on some, which Muster does not make. ``stateful_set``: what creates its pods one by one.
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
    """The workload is not looked at: ``waiting`` earlier ones of its namespace are the most that are."""

    waiting: int
    namespace: str


@dataclass(frozen=True, slots=True)
class TooManyShapes:
    """The members have more shapes than ``most``."""

    shapes: int
    most: int


@dataclass(frozen=True, slots=True)
class ResourceClaims:
    """An object does not exist that the claims of a pod need: a claim, its template, a class of devices, or a
    ComputeDomain, by its UID.

    ``domain``: the ComputeDomain that is to have the template. ``named_by``: what names the domain that is missing, or
    with ``elsewhere`` is in another namespace.
    """

    kind: str
    name: str
    pod: str
    domain: str = ""
    named_by: str = ""
    elsewhere: bool = False


@dataclass(frozen=True, slots=True)
class VolumeNotBound:
    """A volume claim of a pod has no volume that waits for a node, or does not exist. ``storage_class``: that of the
    claim, empty without one. ``trouble``: what else keeps the pod from the claim."""

    claim: str
    pod: str
    exists: bool
    storage_class: str = ""
    class_exists: bool = True
    trouble: str = ""


@dataclass(frozen=True, slots=True)
class Gated:
    """Members have gates that are not ours."""

    gated: int
    members: int
    gates: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Held:
    """The annotation muster.dev/hold is on the job."""


@dataclass(frozen=True, slots=True)
class NameTaken:
    """The gang name of the job is in use by ``pods``, or else by the object ``holder``. ``own``: the name is that
    of the job, and not one that its pod template names."""

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
    """Pods of the last start are yet to go: ``pods`` of an earlier one, or all where that is None. ``silent``: the node
    that keeps them indefinitely."""

    pods: int | None
    silent: str


@dataclass(frozen=True, slots=True)
class TakingOff:
    """The plan that Muster wrote on the job is being taken off. ``detail``: why that was refused."""

    detail: str


@dataclass(frozen=True, slots=True)
class StartedOver:
    """The job was started with a plan that does not hold. ``detail``: why; empty where slots have nodes of another."""

    detail: str


@dataclass(frozen=True, slots=True)
class NotSuspended:
    """The job is to be suspended because of ``detail``, and that was ``refused``."""

    detail: str
    refused: str


@dataclass(frozen=True, slots=True)
class Stopping:
    """The job is being suspended, or has yet to be clean of its last start."""

    what: PodsLeft | TakingOff | StartedOver | NotSuspended


@dataclass(frozen=True, slots=True)
class PodsRefused:
    """The API server refuses its pods."""

    detail: str


@dataclass(frozen=True, slots=True)
class PolicyFailed:
    """A policy raised, or broke a rule."""

    detail: str


# It waits for its turn.


class Missing(Enum):
    """The missing link on the way to a ClusterQueue."""

    NAME = "it names no queue, and has to"
    LOCAL = "its LocalQueue"
    CLUSTER = "the ClusterQueue that its LocalQueue points to"
    VOLCANO = "its Queue of Volcano"


@dataclass(frozen=True, slots=True)
class QueueMissing:
    """The workload leads to no queue. ``name``: what it names. ``place``: the namespace of that, or its target."""

    what: Missing
    name: str = ""
    place: str = ""


class Unusable(Enum):
    """The sort of problem for which a queue admits no workload."""

    BROKEN = "it contradicts itself"
    NOT_SELECTED = "it does not select the namespace"
    PARENT = "it has queues below it"


@dataclass(frozen=True, slots=True)
class QueueInactive:
    """The queue admits no workload of the namespace. ``detail``: what is wrong with it, or the namespace."""

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
    """It is to run for longer than its queue allows. ``deadline``: by its deadline, and not its author's estimate."""

    queue: str
    limit_s: float
    said_s: float
    deadline: bool


@dataclass(frozen=True, slots=True)
class QueueOrder:
    """Another one is before it in a StrictFIFO queue."""

    first: GroupKey
    queue: str


@dataclass(frozen=True, slots=True)
class Creating:
    """Pods of jobs that were started before it are yet to be created, at ``rate`` a second. None: others wait for room,
    and pods of another job may never come."""

    awaited: int | None = None
    rate: int = 0


@dataclass(frozen=True, slots=True)
class SharedSpread:
    """A topology spread counts its members and those of another gang, which is being started."""

    other: str


@dataclass(frozen=True, slots=True)
class Preempted:
    """The workload is evicted for another one, and its pods have yet to go."""

    preemptor: GroupKey


@dataclass(frozen=True, slots=True)
class Preempting:
    """Victims are evicted for the workload."""

    victims: tuple[Victim, ...]


class Call(Enum):
    """The way in which nodes are asked for."""

    SHOWN = "its pods are shown to an autoscaler"
    REQUESTED = "a ProvisioningRequest"
    GRANTED = "they are granted, and yet to be seen"


@dataclass(frozen=True, slots=True)
class AwaitingNodes:
    """The workload has quota, and nodes are asked for."""

    queue: str
    flavors: tuple[str, ...]
    pods: int
    call: Call


# Its plan is gone.


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
    """kube-scheduler did not take the plan up, that many ``times`` in a row. ``words``: what it says."""

    detail: str
    words: str
    times: int


@dataclass(frozen=True, slots=True)
class OtherNodes:
    """kube-scheduler refused some nodes. ``words``: what it says. ``without``: what it lacks without those nodes."""

    words: str
    without: NoRoom


# It lacks room or quota.


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
    """DeviceClasses offer a resource that it asks for."""

    resource: str
    classes: str


@dataclass(frozen=True, slots=True)
class Short:
    """The nodes lack room. ``grows``: its members are placed one by one. ``near`` and ``detail`` are the policies'.

    ``near``: which domain comes nearest; ``holders``: what has room there. ``ahead``: pods of no gang that come first.
    ``kept``: pods and end of room that is kept for replacements of other gangs. ``by_dra``: what nodes list as well.
    """

    placed: int
    needed: int
    grows: bool
    near: str
    holders: Holders
    detail: str
    ahead: tuple[Mention, ...] = ()
    kept: KeptRoom | None = None
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
    """The pods do not go to nodes of the flavor. ``detail`` is the policies'."""

    detail: str


@dataclass(frozen=True, slots=True)
class FlavorRefused:
    """A flavor that it cannot have, whatever quota there is. ``why``: what it lacks on its nodes, or what else."""

    flavor: str
    why: NotThisFlavor


class LeavingPod(NamedTuple):
    """A pod that terminates, and how many ``more`` do. ``ready``: whether the node tells of it; None: it is deleted."""

    pod: str
    node: str | None
    ready: bool | None
    more: int


@dataclass(frozen=True, slots=True)
class FlavorShort:
    """Quota of a flavor that is short. ``most``: what the queue can have; None: it has no quota of it.

    ``left``: what of that is left; None where even all of it is too little. ``users``: the workloads that use most
    of it, with how much, how many ``more`` do. ``own``: what its own pods use that stay; ``of_leaving``: the others.
    """

    what: FlavorResource
    asked: int
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

    ``last``: the lack of those that were tried last, where each podset alone finds one. ``promised``: no flavor was
    tried, because what is left is promised to others.
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
    """Nodes were asked for without success. ``flavors``: of which; ``times``: in a row, as a restart knows it."""

    flavors: tuple[str, ...]
    detail: str
    pause_s: int
    times: int = 0


@dataclass(frozen=True, slots=True)
class VictimsGone:
    """The victims have gone, and yet the workload lacks room or quota."""

    why: Lacks


@dataclass(frozen=True, slots=True)
class EvictionEnded:
    """The eviction of others for the workload failed. ``told``: they knew of it. ``again``: it is tried again."""

    victims: tuple[Victim, ...]
    told: bool
    why: Lacks
    again: bool


@dataclass(frozen=True, slots=True)
class Unwritten:
    """The room that victims were to be evicted for could not be written down."""

    detail: str


@dataclass(frozen=True, slots=True)
class Protected:
    """Victims may not be evicted by now, for what ``detail`` says."""

    detail: str


@dataclass(frozen=True, slots=True)
class Late:
    """Victims had yet to go after so long. ``refused``: of which the suspension was refused, and for what."""

    after_s: int
    left: tuple[Victim, ...]
    refused: tuple[GroupKey, str] | None = None


# What is told beside what it lacks.


@dataclass(frozen=True, slots=True)
class Rises:
    """Its age counts in its queue: ``points`` of priority a day, ``since`` then, in seconds since the epoch."""

    queue: str
    points: int
    since: float


@dataclass(frozen=True, slots=True)
class PutOff:
    """The turn comes after workloads of other namespaces: pods of earlier jobs of its own were not created."""


@dataclass(frozen=True, slots=True)
class LostPins:
    """Pods of it may run on nodes alone that are gone."""

    pods: tuple[str, ...]
    nodes: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class PreemptionOff:
    """The workload has a priority, and preemption is off."""

    priority: int


@dataclass(frozen=True, slots=True)
class NoVictims:
    """Evicting others would not help. ``detail`` is the policies'."""

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
    """No victim is evicted: the API server refuses the pods, for what ``detail`` says, or has yet to be asked."""

    detail: str


@dataclass(frozen=True, slots=True)
class NoNodesAsked:
    """No nodes are asked for. ``detail``: what its pods lack for that."""

    detail: str


@dataclass(frozen=True, slots=True)
class RoomReserved:
    """Room on these nodes is reserved for the workload.

    ``start_by``: when it is expected to start, in seconds since the epoch; None where nobody knows.
    ``after``: the workload whose end it waits for last; ``rests_on``: what the duration of that one rests on.
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
    """No nodes have room for it."""

    what: Short | LaterWave | ByFlavor | AskedInVain | VictimsGone | EvictionEnded | Unwritten | Protected | Late
    beside: tuple[Beside, ...] = ()


@dataclass(frozen=True, slots=True)
class NoQuota:
    """The queue lacks quota."""

    what: ByFlavor | Uncovered | VictimsGone | EvictionEnded
    beside: tuple[Beside, ...] = ()


@dataclass(frozen=True, slots=True)
class Refused:
    """kube-scheduler refuses it."""

    what: OtherNodes | TurnedDown | Rests
    beside: tuple[Beside, ...] = ()


@dataclass(frozen=True, slots=True)
class Misfit:
    """A demand is not understood, or is not kept by members that have a node. ``detail`` is the policies'."""

    detail: str


@dataclass(frozen=True, slots=True)
class UnknownTopology:
    """The topology that it asks for is not understood."""

    what: Misfit | ByFlavor


@dataclass(frozen=True, slots=True)
class Split:
    """Members that have a node break what it requires."""

    what: Misfit | ByFlavor


@dataclass(frozen=True, slots=True)
class OfferedByDra:
    """No node lists what it asks for, and DeviceClasses offer it."""

    what: ByDra | ByFlavor


Lacks = NoRoom | NoQuota
"""Causes that evictions can cure."""
Unplaced = NoRoom | NoQuota | Split | UnknownTopology | OfferedByDra
"""Why a workload has no plan."""
NotThisFlavor = Unplaced | StartedWith | CountedAs | Unsuited


L = TypeVar("L", bound="NoRoom | NoQuota | Refused")


def with_facts(cause: L, *facts: Beside) -> L:
    """Return the cause with what is known beside it, each once, in the order in which it was found."""
    more = tuple(one for one in facts if one not in cause.beside)
    return replace(cause, beside=(*cause.beside, *more)) if more else cause


def names_of(cause: Unplaced) -> Iterator[str]:
    """The workloads that a cause names."""
    match cause.what:
        case Short() as short:
            yield from (str(key) for key, _ in short.holders.most)
            yield from (one.name for one in short.ahead)
            yield from (one.name for text in (short.near, short.detail) for one in mentions_of(text))
        case ByFlavor(flavors=flavors, last=last):
            for one in flavors:
                if isinstance(one, FlavorShort):
                    yield from (str(key) for key, _ in one.users)
                elif isinstance(one.why, Unplaced):
                    yield from names_of(one.why)
            if last is not None and not flavors:
                yield from names_of(last)
        case Misfit(detail=detail):
            yield from (one.name for one in mentions_of(detail))


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
    """Whether a cause is shown to those who ask and written nowhere: the gang is somebody else's, say, or the API
    server takes no Event there."""
    match cause:
        case NamespaceTerminating():
            return True
        case OtherScheduler(on_purpose=quiet):
            return quiet
        case Ended(deleting=deleting):
            return deleting > 0
    return False
