"""The members of a workload: how far each has come, which steps are legal from there, and counts of all of them.

They are counted as they change: an event of one costs the same however many others there are (slow twin:
``tests/core/recount.py``). Their state, node, hold and step are written only here. Beside them: what some members say
of their gang, and those that have finished well, by the release that is stamped on them.
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
    """What is decided about a member, or known of it. BOUND and DONE are what the API server shows."""

    WAITING = "waiting"
    """It has no node and no promise of one."""
    ASSUMED = "assumed"
    """It is promised a node; kube-scheduler has yet to ask for the Binding."""
    HELD = "held"
    """Its bind request waits for the rest of the gang."""
    BINDING = "binding"
    """Its Binding is being written."""
    UNKNOWN = "unknown"
    """Its Binding may have been written: the watch will tell. It may be held again meanwhile."""
    BOUND = "bound"
    DONE = "done"
    """It has ended, or is being deleted."""
    __hash__ = object.__hash__
    """Members are looked up by it all the time, and that of ``Enum`` is a function in Python."""


_S = MemberState
PLACED = (_S.ASSUMED, _S.HELD, _S.BINDING, _S.UNKNOWN)
"""The states in which it is promised a node."""

LEGAL: Mapping[MemberState, tuple[MemberState, ...]] = {
    _S.WAITING: (_S.ASSUMED, _S.BINDING, _S.UNKNOWN),
    _S.ASSUMED: (_S.WAITING, _S.HELD, _S.BINDING),
    _S.HELD: (_S.WAITING, _S.ASSUMED, _S.BINDING),
    _S.BINDING: (_S.WAITING, _S.ASSUMED, _S.UNKNOWN),
    _S.UNKNOWN: (_S.WAITING, _S.ASSUMED, _S.HELD, _S.BINDING),
    _S.BOUND: (),
    _S.DONE: (),
}
"""What we may decide. What the API server shows may take any state to any other."""


class IllegalTransitionError(Exception):
    """A step that the table does not have: a bug of ours. The message has the workload's story."""


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
    """How far kube-scheduler has been told of a member's node (``extender.core.gate.steering``)."""

    NONE = "none"
    LATER = "later"
    """Others of its gang have to be at bind first: kube-scheduler is told nothing of its node yet."""
    NOMINATING = "nominating"
    """The nomination is not known to be written."""
    WRITTEN = "written"
    """It is written, and the watch has yet to show it on the gated pod."""
    READY = "ready"
    """The gate may come off as soon as it may for every member."""
    UNGATING = "ungating"
    """The gate was asked to come off, which is not known to be written."""
    FAILED = "failed"
    """A write could not be made while others were bound: it is looked at when the release has ended."""
    LED = "led"
    """Everything is written."""
    CONFIRMING = "confirming"
    """It is bound, and was asked to say that its release is whole."""
    __hash__ = object.__hash__


facts_of = attrgetter(
    "node", "ended", "deleting", "gates", "scheduler", "priority", "created", "name", "owner", "index", "series",
    "group", "requests", "selection", "topology", "labels", "stamp", "device_claims", "claims", "queue",
    "podset_group", "compute_domain", "run",
)  # fmt: skip
"""What a decision about the workload can depend on; the rest of a pod is kube-scheduler's news about it."""


@dataclass(slots=True, eq=False)
class Member:
    """``node``: the one it is promised, until it is bound. ``nominated``: the nomination that was asked for last.

    ``turn``: the round in which kube-scheduler is told of its node, while that is LATER. ``clears``: whether that
    nomination is cleared once by us, which the watch has yet to show.
    ``doubt_ends``: until when its Binding may still show up as written, while it is UNKNOWN; never while one is sent.
    ``ended``: as how many-th of its podset it has finished well, 0 if it has not.
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
        """What comes first is the oldest."""
        return self.pod.created, self.uid

    @property
    def stage(self) -> Stage:
        """How far it has come by itself, whether or not it counts."""
        return _STAGES[self.state] if self.hold is None else Stage.ARRIVED


Words = tuple[Any, ...]


class Said:
    """What is said by any, by what it is about; the counts are of those who say different ``words``."""

    def __init__(self) -> None:
        self.schedulers: Tally[str] = Tally()
        self.owners: Tally[str] = Tally()
        self.priorities: Tally[int] = Tally()
        self.dialects: Tally[Dialect | None] = Tally()
        self.sizes: Tally[int | Minima | None] = Tally()
        self.topologies: Tally[Topology] = Tally()
        self.releases: Tally[str] = Tally()
        """By what is stamped on them; "" of those that have no stamp."""
        self.queues: Tally[str] = Tally()
        self.domains: Tally[str] = Tally()
        """The ComputeDomains, by UID; "" of members that are in none."""
        self.runs: Tally[RunTerms] = Tally()
        self._tallies: tuple[Tally[Any], ...] = tuple(vars(self).values())
        self._stated: list[int | Minima | None] | None = None
        self.words: Tally[Words] = Tally()
        """All of that. Most often all members say the same: only who says something else is looked at more closely."""

    @property
    def stated(self) -> list[int | Minima | None]:
        """The sizes. In YuniKorn's words the first member may say it for all: those who say nothing do not count."""
        if self._stated is None:
            anyone = Dialect.YUNIKORN not in self.dialects
            self._stated = [size for size in self.sizes if anyone or size is not None]
        return self._stated

    @property
    def owner(self) -> str:
        """The controller of most of them; the first of several with as many."""
        pods: Counter[str] = Counter()
        for (_, owner, *_), count in self.words.items():
            pods[owner] += count
        return max(pods, key=pods.__getitem__, default="")

    def queue(self, of_group: str) -> str:
        """The LocalQueue that the members name, who agree, else their PodGroup, which names ``of_group``. A Queue of
        Volcano counts where nobody names a LocalQueue, that of the PodGroup first, as in Volcano."""
        of_pods = next(iter(self.queues), "")
        named = (of_pods, of_group)
        return next((one for one in named if one and not one.startswith(VOLCANO)), of_group or of_pods)

    def of(self, owner: str) -> Said:
        """What is said by those of one owner, each of it once; what all say if it is empty."""
        if not owner:
            return self
        found = Said()
        for words in self.words:
            if words[1] == owner:
                found.replace((), words)
        return found

    def replace(self, before: Words, after: Words) -> bool:
        """Count what one says in place of what it said. Returns whether anything is new or gone."""
        if before == after:
            return False
        gone = bool(before) and self.words.take(before)
        new = bool(after) and self.words.add(after)
        for tally, value in zip(self._tallies, before if gone else (), strict=False):
            tally.take(value)
        for tally, value in zip(self._tallies, after if new else (), strict=False):
            tally.add(value)
        if gone or new:
            self._stated = None
        return gone or new


def words_of(pod: Pod | None) -> Words:
    """What a member says; of none nothing."""
    if pod is None:
        return ()
    group = pod.group
    dialect, size = (None, None) if group is None else (group.dialect, group.minima or group.min_member)
    release = "" if pod.stamp is None else pod.stamp.release
    asked = pod.topology, release, pod.named_queue, pod.compute_domain, pod.run
    return pod.scheduler, pod.owner, pod.priority, dialect, size, *asked


def means(pod: Pod, group: PodGroup) -> bool:
    """Whether its gang is what this PodGroup of its name says."""
    return pod.group is not None and pod.group.dialect is group.dialect


T = TypeVar("T")


class Tally(dict[T, int]):
    """How many members say so, for each thing that is said by any."""

    def add(self, value: T) -> bool:
        """Whether it is said for the first time."""
        count = self.get(value, 0)
        self[value] = count + 1
        return not count

    def take(self, value: T) -> bool:
        """Whether nobody says it any more."""
        count = self[value] - 1
        if count:
            self[value] = count
        else:
            del self[value]
        return not count


_REPLACES_ALL = ("StatefulSet", "ReplicaSet", "DaemonSet", "ReplicationController")
"""Controllers of pods that never end by themselves."""


def ended_well(pod: Pod) -> bool:
    """Whether it has done its work. The kubelet also calls a deleted pod Succeeded if its containers exit with 0: one
    whose controller replaces it has not."""
    asked_to = pod.deleting and pod.controller is not None and pod.controller.kind in _REPLACES_ALL
    return pod.ended == "Succeeded" and not asked_to


class GoingOn(Enum):
    """How a start goes on whose finished members may count."""

    BOUND = "a member of it is bound"
    LOST = "none is, it has lost slots, and a controller of it has made another pod"
    DONE = "none is, and it has lost none: such a pod begins another start"

    def counts(self, *, of_job: bool, indexed: bool) -> bool:
        """Whether a member that has finished in it does. ``indexed``: it is an index of a job."""
        return self is GoingOn.BOUND or indexed or (self is GoingOn.LOST and not of_job)


class Start:
    """The finished members of one release, and how many slots it had bound, by what their Bindings said."""

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
        """Whether a slot of it was lost before it had finished."""
        return len(self._slots) < max(self._sizes, default=0)

    def is_of(self, owners: Collection[str]) -> bool:
        """Whether one of these controllers made members of it."""
        return any(owner in owners for owner in self._owners if owner)


class Starts:
    """Which finished members count as present: those of the starts that go on.

    A start goes on while one of its members is bound. When none is left it is over, unless it has lost a slot and the
    controller of its members makes a new pod: that one completes the last start, and is no new one. If it has lost
    none, such a pod begins another start; only an index of a job that is done stays so. Pods of a job without an index
    are counted by its status when nobody of their start is bound: it may have been suspended and started anew since.
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

    def going_on(self, bound: Mapping[str, int], owners: Collection[str]) -> dict[str, GoingOn]:
        """The releases whose finished members may count. ``bound``: the releases of all live members, "" of those that
        are not bound; ``owners``: their controllers."""
        if any(bound):
            return {release: GoingOn.BOUND for release in bound if release in self._starts}
        last = self._latest()
        if last is None or not self._starts[last].is_of(owners):
            return {}
        return {last: GoingOn.LOST if self._starts[last].lost else GoingOn.DONE}

    def _latest(self) -> str | None:
        if self._last is None and self._starts:
            self._last = max(self._starts, key=lambda release: (self._starts[release].at, release))
        return self._last


class Members:
    """Pods by UID. ``version`` grows whenever something changes that a plan may depend on."""

    def __init__(self) -> None:
        self.version = 0
        self.slots = Slots()
        self.live: dict[str, Member] = {}
        """Those that count: pods of another PodGroup's life under the same name do not."""
        self.bound: dict[str, Member] = {}
        self.confirmed: dict[str, Member] = {}
        """Bound members on which it stands that their release is whole."""
        self.odd: dict[str, Member] = {}
        """Live members that may need a word: unreadable, gated by others, or with claims."""
        self.said = Said()
        self.wanted = Said()
        """By those that have no node: a rolling update changes what new members say beside those that run."""
        self.used: Tally[str] = Tally()
        """The queues whose quota those on nodes use, by what is stamped on them; those that terminate included."""
        self.holds = Holds()
        self.steps = dict.fromkeys(Step, 0)
        self._all: dict[str, Member] = {}
        self.placed: dict[str, Member] = {}
        """Those that are promised a node, in the order of the promises."""
        self.binding: dict[str, Member] = {}
        self.unknown: dict[str, Member] = {}
        """Those whose Binding may be written."""
        self._looked_for = {MemberState.BINDING: self.binding, MemberState.UNKNOWN: self.unknown}
        self._group: PodGroup | None = None
        self._first: Member | None = None
        self._newest: Member | None = None
        self._done: dict[str, Member] = {}
        self._starts = Starts()
        self._going_on: dict[str, GoingOn] = {}

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
        """The minMember that they say: those that wait, else all, else the newest. None if they disagree."""
        sizes = self.wanted.stated or self.said.stated
        if len(sizes) == 1:
            return sizes[0]
        if self.wanted.stated or not sizes or (newest := self.newest) is None:
            return None
        group = newest.group
        return (group.minima or group.min_member) if group is not None else None

    @property
    def started(self) -> bool:
        """Whether a Binding of ours has bound some live member. What somebody else has bound is not ours to judge."""
        return any(self.said.releases)

    @property
    def continued(self) -> str:
        """The release that new pods go on with, though nobody of it is bound: it has lost slots, or is a job's."""
        last, how = next(iter(self._going_on.items()), ("", None))
        goes_on = self.slots.indexed if self.slots.templates else how is GoingOn.LOST
        return last if goes_on and not self.started else ""

    @property
    def counts_gone(self) -> bool:
        """Whether others come after pods that have ended well and are gone. A restart counts only those still there."""
        return self.slots.in_turn and self.slots.ended > len(self._done)

    def is_ours(self, pod: Pod) -> bool:
        """Whether it belongs to this life of the workload, and to no earlier PodGroup of its name."""
        return self._group is None or pod.stamp is None or pod.stamp.gang == self._group.uid

    def stands_for(self, slot: SlotKey) -> Pod:
        """The pod that is placed for it, or while there is none the template."""
        pods = [self._all[uid].pod for uid in self.slots.pods(slot)]
        return min(pods, key=attrgetter("rank")) if pods else self.slots.templates[slot]

    def unplaced(self, slots: Iterable[SlotKey] | None = None) -> list[Pod]:
        """One pod for each slot that lacks a node, or for each of these, in rank order."""
        return sorted(map(self.stands_for, self.slots.lacking if slots is None else slots), key=attrgetter("rank"))

    def expect(self, podsets: PodSets | None) -> None:
        """Pods of these podsets will come, and no others that are not there."""
        self.slots.expect(() if podsets is None else podsets.podsets)
        self._stand_all_ended()

    def put(self, pod: Pod) -> bool:
        """A member is new, or the API server shows something else of it: whether that can matter to a decision. Its
        state is ``show``n later."""
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
        """Its object is gone, or belongs to another gang. Whoever waits for its Binding has been answered."""
        member = self._all.pop(uid, None)
        if member is None:
            return
        self._count(member, member.pod, None)
        self.holds.take(uid)
        self.steps[member.step] -= 1
        for index in (self.placed, self.binding, self.unknown):
            index.pop(uid, None)
        self.version += 1

    def follow(self, group: PodGroup | None) -> None:
        """The PodGroup: members of another one's life stop counting, or count again."""
        before, self._group = self._group, group
        self.version += 1
        if (before.uid if before else None) != (group.uid if group else None):
            for member in self:
                self._count(member, member.pod, member.pod)

    def move(self, member: Member, to: MemberState, node: str = "") -> None:
        """A decision about a member. ``node``: the one it is promised from now on, unless it has one."""
        if to not in LEGAL[member.state]:
            raise IllegalTransitionError(f"{member.pod} cannot go from {member.state.value} to {to.value}")
        self._move(member, to, node or member.node)

    def doubt(self, member: Member, until: float, node: str = "") -> None:
        """Its Binding may have been written, or be written yet."""
        member.doubt_ends = until
        if member.state is not MemberState.UNKNOWN:
            self.move(member, MemberState.UNKNOWN, node)

    def show(self, member: Member) -> None:
        """What the API server shows of it goes before what we have decided; but what is being bound, is."""
        pod = member.pod
        to = MemberState.BOUND if pod.node else None
        if not pod.live and (pod.node or member.state is not MemberState.BINDING):
            to = MemberState.DONE
        if to is None and member.state in (MemberState.BOUND, MemberState.DONE):
            to = MemberState.WAITING
        if to is not None and to is not member.state:
            self._move(member, to, "")

    def hold(self, member: Member, hold: Hold) -> None:
        """Its bind request waits."""
        member.hold = hold
        self.holds.put(member.uid, hold)
        if member.state is MemberState.ASSUMED:
            self.move(member, MemberState.HELD)
        else:
            self._stand(member)

    def let_go(self, member: Member) -> Hold | None:
        """Its bind request waits no longer."""
        hold, member.hold = member.hold, None
        self.holds.take(member.uid)
        if member.state is MemberState.HELD:
            self.move(member, MemberState.ASSUMED)
        elif hold is not None:
            self._stand(member)
        return hold

    def step(self, member: Member, step: Step, nominated: str | None = None, turn: int = 0) -> None:
        """What kube-scheduler has been told."""
        self.steps[member.step] -= 1
        self.steps[step] += 1
        member.step, member.turn = step, turn
        member.nominated = member.nominated if nominated is None else nominated

    def expect_clearing(self, member: Member, *, clears: bool) -> None:
        """Whether the watch is to show that its nomination was cleared, which is our own doing."""
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
        self._stand(member)

    def _stand(self, member: Member) -> None:
        if member.uid in self.live:
            self._bring(member.pod, Stage.BOUND if member.pod.node else member.stage)

    def _bring(self, pod: Pod, stage: Stage) -> None:
        """Its slot has come so far by it, and has the role of the pod that stands for it."""
        self.slots.stand(pod.identity, pod.uid, stage)
        if (self.slots.roles or (pod.group and pod.group.role)) and pod.identity in self.slots:
            self.slots.cast(self.stands_for(pod.identity))

    def _count(self, member: Member, before: Pod | None, after: Pod | None) -> None:
        """Count what it says now in place of what it said. None: it was not there, or is no more."""
        uid = member.uid
        old = before if uid in self.live else None
        new = after if after is not None and after.live and self.is_ours(after) else None
        if before is not None and (new is None or new.identity != before.identity):
            self._bring(before, Stage.ABSENT)
        said, says = words_of(old), words_of(new)
        changed = self.said.replace(said, says)
        if used := _used(before):
            self.used.take(used)
        if used := _used(after):
            self.used.add(used)
        self.wanted.replace(() if old is None or old.node else said, () if new is None or new.node else says)
        if before is not None and self._done.pop(uid, None) is not None:
            self._starts.drop(before)
            changed = True
        if new is not None:
            self._note(member, new, is_new=old is None or old.created != new.created)
        elif old is not None:
            for index in (self.live, self.bound, self.confirmed, self.odd):
                index.pop(uid, None)
            self._first = None if self._first is member else self._first
            self._newest = None if self._newest is member else self._newest
        if new is None and after is not None and self._finish(member, after):
            changed = True
        if changed:
            self._judge_done()

    def _note(self, member: Member, pod: Pod, *, is_new: bool) -> None:
        """It counts."""
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
        for index, belongs in ((self.bound, pod.node), (self.confirmed, confirmed), (self.odd, odd)):
            if belongs:
                index[member.uid] = member
            else:
                index.pop(member.uid, None)
        self._stand(member)

    def _finish(self, member: Member, pod: Pod) -> bool:
        """Whether it has finished well, as one of a start."""
        if not ended_well(pod) or pod.stamp is None or not self.is_ours(pod):
            return False
        self._done[member.uid] = member
        self._starts.add(pod)
        member.ended = member.ended or self.slots.end(pod)
        self._stand_ended(member)
        return True

    def _judge_done(self) -> None:
        """Which finished members count has to be found out anew: the controllers, starts or finished ones changed."""
        before, self._going_on = self._going_on, self._starts.going_on(self.said.releases, self.said.owners)
        if before != self._going_on:
            self._stand_all_ended()

    def _stand_all_ended(self) -> None:
        for member in self._done.values():
            self._stand_ended(member)

    def _stand_ended(self, member: Member) -> None:
        """What of a job is not expected was done before the job was started, and does not count for this start."""
        pod, slot, expected = member.pod, member.pod.identity, self.slots.templates
        how = self._going_on.get(pod.stamp.release) if pod.stamp is not None else None
        counts = how is not None and how.counts(of_job=bool(expected), indexed=slot[0] in self.slots.indexed)
        counts &= slot in (expected or (slot,)) and not self.slots.refills(slot, member.ended)
        self._bring(pod, Stage.BOUND if counts else Stage.ABSENT)


def _used(pod: Pod | None) -> str:
    """The queue whose quota it uses as long as it is on its node."""
    return "" if pod is None or pod.terminal or not pod.node or pod.stamp is None else pod.stamp.queue
