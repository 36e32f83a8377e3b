"""The members of a workload, each with its state, counted as they change.

Every event of one member costs the same however many others there are. ``extender.core.recount`` is the slow twin.
Nothing else writes a member's state, its node, its hold or its step.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from operator import attrgetter

from extender.core.holds import Hold, Holds
from extender.core.member import LEGAL, PLACED, IllegalTransitionError, Member, MemberState, Stage, Step
from extender.core.said import Said
from extender.core.slots import Slots
from extender.core.starts import Starts
from extender.core.tally import Tally
from policies.model import Pod, PodGroup, SlotKey

_facts = attrgetter(
    "node", "phase", "deleting", "gates", "scheduler", "priority", "created", "name", "owner", "index", "series",
    "group", "requests", "selection", "topology", "stamp", "device_claims", "claims",
)  # fmt: skip
"""What a decision about the workload can depend on; the rest of a pod is kube-scheduler's news about it."""


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
        self.schedulers: Tally[str] = Tally()
        self.said = Said()
        """By all live members."""
        self.wanted = Said()
        """By those that have no node: a rolling update changes what new members say beside those that run."""
        self.holds = Holds()
        self.steps: Counter[Step] = Counter()
        self._all: dict[str, Member] = {}
        self._placed: dict[str, Member] = {}
        self.binding: dict[str, Member] = {}
        """Those that are being bound."""
        self.unknown: dict[str, Member] = {}
        """Those whose Binding may be written."""
        self._looked_for = {MemberState.BINDING: self.binding, MemberState.UNKNOWN: self.unknown}
        self._owners: Tally[str] = Tally()
        self._releases: Tally[str] = Tally()
        self._group: PodGroup | None = None
        self._first: Member | None = None
        self._newest: Member | None = None
        self._done: dict[str, Member] = {}
        self._starts = Starts()
        self._going_on: dict[str, None] = {}

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
    def placed(self) -> dict[str, Member]:
        """Those that are promised a node, in the order of the promises."""
        return self._placed

    @property
    def first(self) -> Pod | None:
        """The live member that was created first."""
        if self._first is None:
            self._first = min(self.live.values(), key=_age, default=None)
        return self._first.pod if self._first is not None else None

    @property
    def size(self) -> int | None:
        """The minMember that they say: those that wait, else all, else the newest. None if they disagree."""
        sizes = self.wanted.sizes or self.said.sizes
        if len(sizes) <= 1 or self.wanted.sizes:
            return next(iter(sizes), None) if len(sizes) == 1 else None
        if self._newest is None:
            self._newest = max(self.live.values(), key=_age)
        group = self._newest.pod.group
        return group.min_member if group is not None else None

    @property
    def started(self) -> bool:
        """Whether a Binding of ours has bound some live member. What somebody else has bound is not ours to judge."""
        return bool(self._releases)

    @property
    def continued(self) -> str:
        """The release that has lost slots, of which nobody is bound any more, and that new pods are to complete."""
        return next(iter(self._going_on), "") if not self._releases else ""

    def is_ours(self, pod: Pod) -> bool:
        """Whether it belongs to this life of the workload, and to no earlier PodGroup of its name."""
        return self._group is None or pod.stamp is None or pod.stamp.gang == self._group.uid

    def stands_for(self, slot: SlotKey) -> Pod:
        """The pod that is placed for it, or while there is none the template."""
        pods = [self._all[uid].pod for uid in self.slots.pods(slot)]
        if len(pods) > 1:
            return min(pods, key=lambda pod: pod.rank)
        return pods[0] if pods else self.slots.templates[slot]

    def unplaced(self) -> list[Pod]:
        """One pod for each slot that has neither a node nor the promise of one, in rank order."""
        return sorted(map(self.stands_for, self.slots.lacking), key=lambda pod: pod.rank)

    def put(self, pod: Pod) -> bool:
        """A member is new, or the API server shows something else of it. Its state is ``show``n later.

        Returns whether that can matter to a decision.
        """
        member = self._all.get(pod.uid)
        if member is None:
            member = self._all[pod.uid] = Member(pod)
            self.steps[member.step] += 1
        elif _facts(member.pod) == _facts(pod):
            member.pod = pod
            return False
        changed = self._uncount(member)
        member.pod = pod
        if self._count(member) or changed:
            self._judge_done()
        self.version += 1
        return True

    def drop(self, uid: str) -> None:
        """Its object is gone, or belongs to another gang. Whoever waits for its Binding has been answered."""
        member = self._all.get(uid)
        if member is None:
            return
        if self._uncount(member):
            self._judge_done()
        del self._all[uid]
        self.holds.pop(uid)
        self.steps[member.step] -= 1
        self._placed.pop(uid, None)
        for index in self._looked_for.values():
            index.pop(uid, None)
        self.version += 1

    def follow(self, group: PodGroup | None) -> None:
        """The PodGroup: members of another one's life stop counting, or count again."""
        before, self._group = self._group, group
        self.version += 1
        if (before.uid if before else None) == (group.uid if group else None):
            return
        for member in self:
            self._uncount(member)
        for member in self:
            self._count(member)
        self._judge_done()

    def move(self, member: Member, to: MemberState, node: str = "") -> None:
        """A decision about a member. ``node``: the one it is promised from now on, unless it has one."""
        if to not in LEGAL[member.state]:
            raise IllegalTransitionError(f"{member.pod} cannot go from {member.state.value} to {to.value}")
        self._move(member, to, node or member.node)

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
        self.holds.pop(member.uid)
        if member.state is MemberState.HELD:
            self.move(member, MemberState.ASSUMED)
        elif hold is not None:
            self._stand(member)
        return hold

    def step(self, member: Member, step: Step, nominated: str | None = None) -> None:
        """What kube-scheduler has been told."""
        self.steps[member.step] -= 1
        self.steps[step] += 1
        member.step = step
        member.nominated = member.nominated if nominated is None else nominated

    def _move(self, member: Member, to: MemberState, node: str) -> None:
        was = member.placed
        if (index := self._looked_for.get(member.state)) is not None:
            del index[member.uid]
        member.state, placed = to, to in PLACED
        member.node = node if placed else ""
        if (index := self._looked_for.get(to)) is not None:
            index[member.uid] = member
        if placed:
            self._placed[member.uid] = member
        elif was:
            del self._placed[member.uid]
        if was is not placed:
            self.version += 1
        self._stand(member)

    def _stand(self, member: Member) -> None:
        if member.uid in self.live:
            self.slots.stand(member.pod.identity, member.uid, Stage.BOUND if member.pod.node else member.stage)

    def _count(self, member: Member) -> bool:
        """Whether what finished members are judged by has changed."""
        pod, uid = member.pod, member.uid
        if not self.is_ours(pod):
            return False
        if not pod.live:
            if pod.phase != "Succeeded" or pod.stamp is None:
                return False
            self._done[uid] = member
            self._starts.add(pod)
            going_on = pod.stamp.release in self._going_on
            self.slots.stand(pod.identity, uid, Stage.BOUND if going_on else Stage.ABSENT)
            return True
        self.live[uid] = member
        if pod.node:
            self.bound[uid] = member
            if pod.stamp is not None and pod.stamp.complete:
                self.confirmed[uid] = member
        else:
            self.wanted.add(pod)
        if pod.device_claims or pod.claims or pod.foreign_gates or (pod.group is not None and pod.group.problem):
            self.odd[uid] = member
        self.schedulers.add(pod.scheduler)
        self.said.add(pod)
        self._newest = None
        if self._first is not None and _age(member) < _age(self._first):
            self._first = member
        self._stand(member)
        changed = bool(pod.owner) and self._owners.add(pod.owner)
        return (pod.stamp is not None and self._releases.add(pod.stamp.release)) or changed

    def _uncount(self, member: Member) -> bool:
        """Take back what ``_count`` made of it. Whether what finished members are judged by has changed."""
        pod, uid = member.pod, member.uid
        self.slots.stand(pod.identity, uid, Stage.ABSENT)
        if self._done.pop(uid, None) is not None:
            self._starts.drop(pod)
            return True
        if self.live.pop(uid, None) is None:
            return False
        for index in (self.bound, self.confirmed, self.odd):
            index.pop(uid, None)
        self.schedulers.take(pod.scheduler)
        self.said.take(pod)
        if not pod.node:
            self.wanted.take(pod)
        self._newest = None
        if self._first is member:
            self._first = None
        changed = bool(pod.owner) and self._owners.take(pod.owner)
        return (pod.stamp is not None and self._releases.take(pod.stamp.release)) or changed

    def _judge_done(self) -> None:
        """Which finished members count has to be found out anew: the controllers, starts or finished ones changed."""
        before, self._going_on = self._going_on, self._starts.going_on(self._releases, self._owners)
        for release in {**before, **self._going_on}:
            if (release in before) is not (release in self._going_on):
                for pod in self._starts.pods(release):
                    stage = Stage.BOUND if release in self._going_on else Stage.ABSENT
                    self.slots.stand(pod.identity, pod.uid, stage)


def _age(member: Member) -> tuple[float, str]:
    return member.pod.created, member.pod.uid
