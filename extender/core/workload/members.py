"""The members of a workload: how far each has come, which steps are legal from there, and counts of all of them.

Counts are updated with every change, so that the event of one member costs the same however many others there are
(slow twin: ``tests/core/recount.py``). State, node, hold and step of members are written only here. This file also has
the declarations of members about their gang, and the members that have finished well, by the release of their stamps.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from enum import Enum
from math import inf
from operator import attrgetter
from typing import Any, TypeVar

from extender.core.workload.release import Hold, Holds
from extender.core.workload.slots import Slots, Stage
from policies.model import Dialect, Minima, Pod, PodGroup, PodSets, RunTerms, SlotKey, Topology
from policies.model.queues import VOLCANO


class MemberState(Enum):
    """The state of a member, decided or observed. BOUND and DONE are what the API server shows."""

    WAITING = "waiting"
    """The member has no node and no promise of one."""
    ASSUMED = "assumed"
    """The member is promised a node; kube-scheduler has yet to ask for the Binding."""
    HELD = "held"
    """The member's bind request waits for the rest of the gang."""
    BINDING = "binding"
    """The member's Binding is being written."""
    UNKNOWN = "unknown"
    """The Binding may have been written: the watch will show it. The member may be held again meanwhile."""
    BOUND = "bound"
    DONE = "done"
    """The pod has ended, or is being deleted."""
    __hash__ = object.__hash__
    """Members are looked up by their state all the time, and the hash of ``Enum`` is a slow Python function."""


_S = MemberState
PLACED = (_S.ASSUMED, _S.HELD, _S.BINDING, _S.UNKNOWN)
"""The states in which a member is promised a node."""

LEGAL: Mapping[MemberState, tuple[MemberState, ...]] = {
    _S.WAITING: (_S.ASSUMED, _S.BINDING, _S.UNKNOWN),
    _S.ASSUMED: (_S.WAITING, _S.HELD, _S.BINDING),
    _S.HELD: (_S.WAITING, _S.ASSUMED, _S.BINDING),
    _S.BINDING: (_S.WAITING, _S.ASSUMED, _S.UNKNOWN),
    _S.UNKNOWN: (_S.WAITING, _S.ASSUMED, _S.HELD, _S.BINDING),
    _S.BOUND: (),
    _S.DONE: (),
}
"""The steps that Muster may decide. What the API server shows may take any state to any other."""


class IllegalTransitionError(Exception):
    """An illegal step, which is a bug of Muster. The message has the workload's story."""


_STAGES: Mapping[MemberState, Stage] = {
    _S.WAITING: Stage.THERE,
    _S.ASSUMED: Stage.PROMISED,
    _S.HELD: Stage.ARRIVED,
    _S.BINDING: Stage.ARRIVED,
    _S.UNKNOWN: Stage.PROMISED,
    _S.BOUND: Stage.BOUND,
    _S.DONE: Stage.ABSENT,
}


class Step(Enum):
    """How far a member has been steered to its node (``extender.core.gate.steering``)."""

    NONE = "none"
    LATER = "later"
    """Members of earlier rounds have to be at bind first: nothing is written for this one yet."""
    NOMINATING = "nominating"
    """The nomination is on its way."""
    WRITTEN = "written"
    """The nomination is written, and the watch has yet to show it on the gated pod."""
    READY = "ready"
    """The gate may come off as soon as the gates of all members may."""
    UNGATING = "ungating"
    """The removal of the gate is on its way."""
    FAILED = "failed"
    """A write failed while other members were bound: it is handled when the release has ended."""
    STEERED = "led"
    """Everything is written."""
    CONFIRMING = "confirming"
    """The member is bound, and the write that confirms its release on it is on its way."""
    __hash__ = object.__hash__


facts_of = attrgetter(
    "node", "ended", "deleting", "gates", "scheduler", "priority", "created", "name", "owner", "index", "series",
    "group", "requests", "selection", "topology", "labels", "stamp", "device_claims", "claims", "queue",
    "podset_group", "compute_domain", "run",
)  # fmt: skip
"""The facts of a pod that a decision about the workload can depend on. The rest is news from kube-scheduler."""


@dataclass(slots=True, eq=False)
class Member:
    """A pod of a workload, and what is decided about it.

    ``node``: the node that it is promised, until it is bound.
    ``hold``: its bind request that waits.
    ``nominated``: the last nomination that was asked for.
    ``turn``: the round in which it is steered, while its step is LATER.
    ``clears``: whether Muster clears that nomination once, which the watch has yet to show.
    ``doubt_ends``: until when its Binding may still show up as written, while its state is UNKNOWN; ``inf`` while a
    Binding is being sent.
    ``ended``: its ordinal among the finished pods of its podset, 0 if it has not finished well.
    """

    pod: Pod
    state: MemberState = MemberState.WAITING
    node: str = ""
    hold: Hold | None = None
    step: Step = Step.NONE
    nominated: str = ""
    turn: int = 0
    clears: bool = False
    doubt_ends: float = inf
    ended: int = 0
    uid: str = field(init=False)

    def __post_init__(self) -> None:
        self.uid = self.pod.uid

    @property
    def placed(self) -> bool:
        return bool(self.node)

    @property
    def age(self) -> tuple[float, str]:
        """Sort key: the oldest pod first."""
        return self.pod.created, self.uid

    @property
    def stage(self) -> Stage:
        """The stage that the member gives its slot, whether or not it counts."""
        return _STAGES[self.state] if self.hold is None else Stage.ARRIVED


Declarations = tuple[Any, ...]


class MemberDeclarations:
    """The declarations of members about their gang, by subject: which values are declared, and how often.

    A tally counts the different ``combinations`` in which its value occurs, not the members.
    """

    def __init__(self) -> None:
        self.schedulers: Tally[str] = Tally()
        self.owners: Tally[str] = Tally()
        self.priorities: Tally[int] = Tally()
        self.dialects: Tally[Dialect | None] = Tally()
        self.sizes: Tally[int | Minima | None] = Tally()
        self.topologies: Tally[Topology] = Tally()
        self.releases: Tally[str] = Tally()
        """The releases stamped on members; "" for members without a stamp."""
        self.queues: Tally[str] = Tally()
        self.domains: Tally[str] = Tally()
        """The ComputeDomains, by UID; "" for members in none."""
        self.runs: Tally[RunTerms] = Tally()
        self._tallies: tuple[Tally[Any], ...] = tuple(vars(self).values())
        self._stated: list[int | Minima | None] | None = None
        self.combinations: Tally[Declarations] = Tally()
        """All of these together. Most often all members declare the same, so only a new combination is looked into."""

    @property
    def stated(self) -> list[int | Minima | None]:
        """The declared sizes. In YuniKorn's dialect the first member may declare it for all."""
        if self._stated is None:
            anyone = Dialect.YUNIKORN not in self.dialects
            self._stated = [size for size in self.sizes if anyone or size is not None]
        return self._stated

    @property
    def owner(self) -> str:
        """The UID of the controller of most members; of several with equally many the first."""
        pods: Counter[str] = Counter()
        for (_, owner, *_), count in self.combinations.items():
            pods[owner] += count
        return max(pods, key=pods.__getitem__, default="")

    def queue(self, of_group: str) -> str:
        """The LocalQueue that the members name, or else the one that their PodGroup names (``of_group``).

        Of members that contradict each other the first by name counts, so that their order does not matter.
        A Queue of Volcano counts if there is no LocalQueue; that of the PodGroup goes first, as in Volcano.
        """
        of_pods = min(self.queues, default="")
        named = (of_pods, of_group)
        return next((name for name in named if name and not name.startswith(VOLCANO)), of_group or of_pods)

    def of(self, owner: str) -> MemberDeclarations:
        """The declarations of one owner's members, each counted once; those of all members if ``owner`` is empty."""
        if not owner:
            return self
        declared = MemberDeclarations()
        for words in self.combinations:
            if words[1] == owner:
                declared.replace((), words)
        return declared

    def replace(self, before: Declarations, after: Declarations) -> bool:
        """Count one member's declarations in place of its earlier ones. Returns whether any are new or gone."""
        if before == after:
            return False
        gone = bool(before) and self.combinations.take(before)
        new = bool(after) and self.combinations.add(after)
        for tally, value in zip(self._tallies, before if gone else (), strict=False):
            tally.take(value)
        for tally, value in zip(self._tallies, after if new else (), strict=False):
            tally.add(value)
        if gone or new:
            self._stated = None
        return gone or new


def declarations_of(pod: Pod | None) -> Declarations:
    """The declarations of a member; empty without a pod."""
    if pod is None:
        return ()
    group = pod.group
    dialect, size = (None, None) if group is None else (group.dialect, group.minima or group.min_member)
    release = "" if pod.stamp is None else pod.stamp.release
    declared = pod.topology, release, pod.named_queue, pod.compute_domain, pod.run
    return pod.scheduler, pod.owner, pod.priority, dialect, size, *declared


def means(pod: Pod, group: PodGroup) -> bool:
    """Whether the pod's gang is the one of this PodGroup: both are of one dialect."""
    return pod.group is not None and pod.group.dialect is group.dialect


T = TypeVar("T")


class Tally(dict[T, int]):
    """How many declare each value."""

    def add(self, value: T) -> bool:
        """Count a value. Returns whether it is new."""
        count = self.get(value, 0)
        self[value] = count + 1
        return not count

    def take(self, value: T) -> bool:
        """Take a value off the count. Returns whether it is gone."""
        count = self[value] - 1
        if count:
            self[value] = count
        else:
            del self[value]
        return not count


_REPLACES_ALL = ("StatefulSet", "ReplicaSet", "DaemonSet", "ReplicationController")
"""Controllers whose pods never end by themselves."""


def ended_well(pod: Pod) -> bool:
    """Whether the pod has done its work.

    The kubelet also calls a deleted pod Succeeded if its containers exit with 0. If its controller replaces it, it has
    not done its work.
    """
    asked_to = pod.deleting and pod.controller is not None and pod.controller.kind in _REPLACES_ALL
    return pod.ended == "Succeeded" and not asked_to


class WhyFinishedCounts(Enum):
    """Why finished members of a release may still count towards the quorum."""

    BOUND = "a member of it is bound"
    LOST = "none is, it has lost slots, and a controller of it has made another pod"
    DONE = "none is, and it has lost none: such a pod begins another start"

    def counts(self, *, of_job: bool, indexed: bool) -> bool:
        """Whether a finished member of the release counts. ``indexed``: its slot is an index of a job."""
        return self is WhyFinishedCounts.BOUND or indexed or (self is WhyFinishedCounts.LOST and not of_job)


class Start:
    """The finished members of one release, and the number of slots that it had bound, by the stamps of its Bindings."""

    def __init__(self) -> None:
        self.pods: dict[str, Pod] = {}
        self.at = 0.0
        self._sizes: Tally[int] = Tally()
        self._slots: Tally[SlotKey] = Tally()
        self._owners: Tally[str] = Tally()

    def add(self, pod: Pod) -> None:
        self.pods[pod.uid] = pod
        self._slots.add(pod.identity)
        self._owners.add(pod.owner)
        if pod.stamp is not None:
            self._sizes.add(pod.stamp.size)
            self.at = max(self.at, pod.stamp.at)

    def drop(self, pod: Pod) -> None:
        del self.pods[pod.uid]
        self._slots.take(pod.identity)
        self._owners.take(pod.owner)
        if pod.stamp is not None:
            self._sizes.take(pod.stamp.size)

    @property
    def lost(self) -> bool:
        """Whether the release lost a slot whose member had not finished."""
        return len(self._slots) < max(self._sizes, default=0)

    def is_of(self, owners: Collection[str]) -> bool:
        """Whether one of these controllers made members of the release."""
        return any(owner in owners for owner in self._owners if owner)


class Starts:
    """The finished members by release, and which of them count as present.

    A release counts while one of its members is bound. Once none is, it is over, with two exceptions:

    - It has lost a slot, and the controller of its members makes a new pod: that pod completes the release.
    - It has lost none, and a finished member is an index of a job: an index that is done stays done.

    Otherwise a new pod begins another start. Pods of a job without an index are then counted by the job's status, since
    the job may have been suspended and started again.
    """

    def __init__(self) -> None:
        self._starts: dict[str, Start] = {}
        self._last: str | None = None

    def add(self, pod: Pod) -> None:
        assert pod.stamp is not None  # noqa: S101
        release = pod.stamp.release
        if release not in self._starts:
            self._starts[release] = Start()
        self._starts[release].add(pod)
        self._last = None

    def drop(self, pod: Pod) -> None:
        assert pod.stamp is not None  # noqa: S101
        start = self._starts[pod.stamp.release]
        start.drop(pod)
        if not start.pods:
            del self._starts[pod.stamp.release]
            self._last = None

    def counting(self, bound: Mapping[str, int], owners: Collection[str]) -> dict[str, WhyFinishedCounts]:
        """The releases whose finished members may count, and why.

        ``bound``: the releases of all live members, "" of members that are not bound. ``owners``: their controllers.
        """
        if any(bound):
            return {release: WhyFinishedCounts.BOUND for release in bound if release in self._starts}
        last = self._latest()
        if last is None or not self._starts[last].is_of(owners):
            return {}
        return {last: WhyFinishedCounts.LOST if self._starts[last].lost else WhyFinishedCounts.DONE}

    def _latest(self) -> str | None:
        if self._last is None and self._starts:
            self._last = max(self._starts, key=lambda release: (self._starts[release].at, release))
        return self._last


class Members:
    """The pods of a workload, by UID. ``version`` grows whenever something changes that a plan may depend on."""

    def __init__(self) -> None:
        self.version = 0
        self.slots = Slots()
        self.live: dict[str, Member] = {}
        """The members that count. Pods that belong to a deleted PodGroup of the same name do not."""
        self.bound: dict[str, Member] = {}
        self.confirmed: dict[str, Member] = {}
        """Bound members that carry the stamp of a complete release."""
        self.needs_attention: dict[str, Member] = {}
        """Live members that may have a problem to report: contradictory, gated by others, or with claims."""
        self.declared = MemberDeclarations()
        self.declared_by_waiting = MemberDeclarations()
        """The declarations of members without a node. A rolling update makes them differ from running ones."""
        self.used: Tally[str] = Tally()
        """The queues whose quota the pods on nodes use, by their stamps; terminating pods included."""
        self.holds = Holds()
        self.steps = dict.fromkeys(Step, 0)
        self._all: dict[str, Member] = {}
        self.placed: dict[str, Member] = {}
        """Members that are promised a node, in the order of the promises."""
        self.binding: dict[str, Member] = {}
        self.unknown: dict[str, Member] = {}
        """Members whose Binding may have been written."""
        self._looked_for = {MemberState.BINDING: self.binding, MemberState.UNKNOWN: self.unknown}
        self._group: PodGroup | None = None
        self._first: Member | None = None
        self._newest: Member | None = None
        self._size: tuple[int | Minima | None] | None = None
        """The declared size, until a member changes."""
        self._done: dict[str, Member] = {}
        self._starts = Starts()
        self._counting: dict[str, WhyFinishedCounts] = {}

    def __getitem__(self, uid: str) -> Member:
        return self._all[uid]

    def get(self, uid: str) -> Member | None:
        return self._all.get(uid)

    def __iter__(self) -> Iterator[Member]:
        return iter(self._all.values())

    def __len__(self) -> int:
        return len(self._all)

    def __contains__(self, uid: object) -> bool:
        return uid in self._all

    @property
    def first(self) -> Pod | None:
        """The live member that was created first."""
        if self._first is None:
            self._first = min(self.live.values(), key=attrgetter("age"), default=None)
        return self._first.pod if self._first is not None else None

    @property
    def newest(self) -> Pod | None:
        """The live member that was created last."""
        if self._newest is None:
            self._newest = max(self.live.values(), key=attrgetter("age"), default=None)
        return self._newest.pod if self._newest is not None else None

    @property
    def size(self) -> int | Minima | None:
        """The minMember that members declare: waiting ones, else all, else the newest. None if they disagree."""
        if self._size is None:
            self._size = (self._declared_size(),)
        return self._size[0]

    def _declared_size(self) -> int | Minima | None:
        sizes = self.declared_by_waiting.stated or self.declared.stated
        if len(sizes) == 1:
            return sizes[0]
        if self.declared_by_waiting.stated or not sizes or (newest := self.newest) is None:
            return None
        group = newest.group
        return (group.minima or group.min_member) if group is not None else None

    @property
    def started(self) -> bool:
        """Whether Muster has bound a live member. Members that another client bound do not count."""
        return any(self.declared.releases)

    @property
    def continued(self) -> str:
        """The release that new pods belong to though no member of it is bound; empty if there is none.

        Either it has lost slots, or it is of a job with indexes.
        """
        last, how = next(iter(self._counting.items()), ("", None))
        goes_on = self.slots.indexed if self.slots.templates else how is WhyFinishedCounts.LOST
        return last if goes_on and not self.started else ""

    @property
    def counts_gone(self) -> bool:
        """Whether finished pods of a series that runs one after the other are gone. A restart cannot count those."""
        return self.slots.in_turn and self.slots.ended > len(self._done)

    def is_ours(self, pod: Pod) -> bool:
        """Whether the pod belongs to the present PodGroup, and not to a deleted one of the same name."""
        return self._group is None or pod.stamp is None or pod.stamp.gang == self._group.uid

    def pod_for(self, slot: SlotKey) -> Pod:
        """The pod that is placed for the slot, or while there is none the template."""
        pods = [self._all[uid].pod for uid in self.slots.pods(slot)]
        if len(pods) == 1:  # the usual case; a rank takes long to work out
            return pods[0]
        return min(pods, key=attrgetter("rank")) if pods else self.slots.templates[slot]

    def unplaced(self, slots: Iterable[SlotKey] | None = None) -> list[Pod]:
        """A pod for each slot that lacks a node, or for each of these slots, in rank order."""
        return sorted(map(self.pod_for, self.slots.lacking if slots is None else slots), key=attrgetter("rank"))

    def expect(self, podsets: PodSets | None) -> None:
        """Set the podsets whose pods will come; None: no pods are expected."""
        self.slots.expect(() if podsets is None else podsets.podsets)
        self._update_all_finished()

    def put(self, pod: Pod) -> bool:
        """Add or update a member. Returns whether a decision may depend on the change. ``show`` sets its state."""
        member, before = self._all.get(pod.uid), None
        if member is None:
            member = self._all[pod.uid] = Member(pod)
            self.steps[member.step] += 1
        else:
            before, member.pod = member.pod, pod
            if facts_of(before) == facts_of(pod):
                return False
        self._count(member, before, pod)
        self.version += 1
        return True

    def drop(self, uid: str) -> None:
        """Remove a pod that is gone or moved to another gang. The call that waits for its Binding has its answer."""
        member = self._all.pop(uid, None)
        if member is None:
            return
        self._count(member, member.pod, None)
        self.holds.remove(uid)
        self.steps[member.step] -= 1
        for index in (self.placed, self.binding, self.unknown):
            index.pop(uid, None)
        self.version += 1

    def follow(self, group: PodGroup | None) -> None:
        """Set the PodGroup. Members count only while they belong to it."""
        before, self._group = self._group, group
        self.version += 1
        if (before.uid if before else None) != (group.uid if group else None):
            for member in self:
                self._count(member, member.pod, member.pod)

    def move(self, member: Member, to: MemberState, node: str = "") -> None:
        """Change a member's state by decision. ``node``: the node that it is promised, unless it has one."""
        if to not in LEGAL[member.state]:
            raise IllegalTransitionError(f"{member.pod} cannot go from {member.state.value} to {to.value}")
        self._move(member, to, node or member.node)

    def mark_unknown(self, member: Member, until: float, node: str = "") -> None:
        """Record that the member's Binding may have been written, or may be yet, until the instant ``until``."""
        member.doubt_ends = until
        if member.state is not MemberState.UNKNOWN:
            self.move(member, MemberState.UNKNOWN, node)

    def show(self, member: Member) -> None:
        """Set the member's state to what the API server shows, which overrides what Muster decided.

        A Binding that is being written stays, even if the pod is being deleted.
        """
        pod = member.pod
        to = MemberState.BOUND if pod.node else None
        if not pod.live and (pod.node or member.state is not MemberState.BINDING):
            to = MemberState.DONE
        if to is None and member.state in (MemberState.BOUND, MemberState.DONE):
            to = MemberState.WAITING
        if to is not None and to is not member.state:
            self._move(member, to, "")

    def hold(self, member: Member, hold: Hold) -> None:
        """Record that the member's bind request waits."""
        member.hold = hold
        self.holds.add(member.uid, hold)
        if member.state is MemberState.ASSUMED:
            self.move(member, MemberState.HELD)
        else:
            self._update_stage(member)

    def end_hold(self, member: Member) -> Hold | None:
        """End the wait of the member's bind request. Returns the request; None without one."""
        hold, member.hold = member.hold, None
        self.holds.remove(member.uid)
        if member.state is MemberState.HELD:
            self.move(member, MemberState.ASSUMED)
        elif hold is not None:
            self._update_stage(member)
        return hold

    def step(self, member: Member, step: Step, nominated: str | None = None, turn: int = 0) -> None:
        """Record how far the member is steered. ``nominated``: the new nomination; None: as before."""
        self.steps[member.step] -= 1
        self.steps[step] += 1
        member.step, member.turn = step, turn
        member.nominated = member.nominated if nominated is None else nominated

    def expect_clearing(self, member: Member, *, clears: bool) -> None:
        """Set whether the watch will show a cleared nomination that Muster itself has cleared."""
        member.clears = clears

    def _move(self, member: Member, to: MemberState, node: str) -> None:
        was = member.placed
        if (index := self._looked_for.get(member.state)) is not None:
            del index[member.uid]
        member.state, placed = to, to in PLACED
        member.node = node if placed else ""
        if (index := self._looked_for.get(to)) is not None:
            index[member.uid] = member
        if placed:
            self.placed[member.uid] = member
        elif was:
            del self.placed[member.uid]
        self.version += was is not placed
        self._update_stage(member)

    def _update_stage(self, member: Member) -> None:
        if member.uid in self.live:
            self._set_stage(member.pod, Stage.BOUND if member.pod.node else member.stage)

    def _set_stage(self, pod: Pod, stage: Stage) -> None:
        """Set the stage that the pod gives its slot, and the slot's role by the pod that is placed for it."""
        self.slots.set_stage(pod.identity, pod.uid, stage)
        if (self.slots.roles or (pod.group and pod.group.role)) and pod.identity in self.slots:
            self.slots.set_role(self.pod_for(pod.identity))

    def _count(self, member: Member, before: Pod | None, after: Pod | None) -> None:
        """Count the member's facts ``after`` in place of those ``before``. None: the pod was not there, or is gone."""
        uid, self._size = member.uid, None
        old = before if uid in self.live else None
        new = after if after is not None and after.live and self.is_ours(after) else None
        if before is not None and (new is None or new.identity != before.identity):
            self._set_stage(before, Stage.ABSENT)
        declarations, says = declarations_of(old), declarations_of(new)
        changed = self.declared.replace(declarations, says)
        if used := _used(before):
            self.used.take(used)
        if used := _used(after):
            self.used.add(used)
        self.declared_by_waiting.replace(
            () if old is None or old.node else declarations, () if new is None or new.node else says
        )
        if before is not None and self._done.pop(uid, None) is not None:
            self._starts.drop(before)
            changed = True
        if new is not None:
            self._note(member, new, is_new=old is None or old.created != new.created)
        elif old is not None:
            for index in (self.live, self.bound, self.confirmed, self.needs_attention):
                index.pop(uid, None)
            self._first = None if self._first is member else self._first
            self._newest = None if self._newest is member else self._newest
        if new is None and after is not None and self._finish(member, after):
            changed = True
        if changed:
            self._update_counting()

    def _note(self, member: Member, pod: Pod, *, is_new: bool) -> None:
        """Count the member as live."""
        if is_new:
            self.live[member.uid] = member
            if self._first is member:
                self._first = None
            elif self._first is not None and member.age < self._first.age:
                self._first = member
            if self._newest is member:
                self._newest = None
            elif self._newest is not None and member.age > self._newest.age:
                self._newest = member
        confirmed = pod.node and pod.stamp is not None and pod.stamp.complete
        odd = pod.device_claims or pod.claims or pod.foreign_gates or (pod.group is not None and pod.group.problem)
        for index, belongs in ((self.bound, pod.node), (self.confirmed, confirmed), (self.needs_attention, odd)):
            if belongs:
                index[member.uid] = member
            else:
                index.pop(member.uid, None)
        self._update_stage(member)

    def _finish(self, member: Member, pod: Pod) -> bool:
        """Record that the pod has finished well, if it has, as a member of a release. Returns whether it has."""
        if not ended_well(pod) or pod.stamp is None or not self.is_ours(pod):
            return False
        self._done[member.uid] = member
        self._starts.add(pod)
        member.ended = member.ended or self.slots.record_finished(pod)
        self._update_finished(member)
        return True

    def _update_counting(self) -> None:
        """Decide again which finished members count, after controllers, releases or finished members have changed."""
        before, self._counting = self._counting, self._starts.counting(self.declared.releases, self.declared.owners)
        if before != self._counting:
            self._update_all_finished()

    def _update_all_finished(self) -> None:
        for member in self._done.values():
            self._update_finished(member)

    def _update_finished(self, member: Member) -> None:
        """Let the finished member count for its slot, or not.

        A finished pod of a job counts only if its slot is in the current plan.
        """
        pod, slot, expected = member.pod, member.pod.identity, self.slots.templates
        how = self._counting.get(pod.stamp.release) if pod.stamp is not None else None
        counts = how is not None and how.counts(of_job=bool(expected), indexed=slot[0] in self.slots.indexed)
        counts &= slot in (expected or (slot,)) and not self.slots.refills(slot, member.ended)
        self._set_stage(pod, Stage.BOUND if counts else Stage.ABSENT)


def _used(pod: Pod | None) -> str:
    """The queue whose quota the pod uses while it is on its node; empty without one."""
    return "" if pod is None or pod.terminal or not pod.node or pod.stamp is None else pod.stamp.queue
