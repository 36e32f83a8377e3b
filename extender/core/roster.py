"""The members of a gang, counted as they change: who is there, how far each has come, what they say of their gang.

Every event of one member costs the same however many others there are. ``extender.core.recount`` is the slow twin.
"""

from __future__ import annotations

from collections.abc import Iterator
from enum import IntEnum
from operator import attrgetter

from extender.core.starts import Identity, Starts
from extender.core.tally import Tally
from policies.model import Pod, PodGroup, Topology

_facts = attrgetter(
    "node", "phase", "deleting", "gates", "scheduler", "priority", "created", "name", "owner", "index", "series",
    "group", "requests", "selection", "topology", "stamp", "device_claims", "claims",
)  # fmt: skip
"""What a decision about the gang can depend on; the rest of a pod is kube-scheduler's news about it."""


class Stage(IntEnum):
    """How far a member has come. Whoever has come further has come this far as well."""

    ABSENT = 0
    THERE = 1
    PROMISED = 2
    ARRIVED = 3
    """At bind: held, or being bound."""
    BOUND = 4
    """Or finished well, in the same life of the gang."""


class Said:
    """What some members say of their gang."""

    def __init__(self) -> None:
        self.priorities: Tally[int] = Tally()
        self.dialects: Tally[str] = Tally()
        self.sizes: Tally[int | None] = Tally()
        self.topologies: Tally[Topology] = Tally()

    def add(self, pod: Pod) -> None:
        self.priorities.add(pod.priority)
        self.dialects.add(pod.group.dialect.value if pod.group is not None else "")
        self.sizes.add(pod.group.min_member if pod.group is not None else None)
        self.topologies.add(pod.topology)

    def take(self, pod: Pod) -> None:
        self.priorities.take(pod.priority)
        self.dialects.take(pod.group.dialect.value if pod.group is not None else "")
        self.sizes.take(pod.group.min_member if pod.group is not None else None)
        self.topologies.take(pod.topology)


class Roster:
    """Members and their counts. An identity (one per completion index) has come as far as the best of its pods."""

    def __init__(self) -> None:
        self.members: dict[str, Pod] = {}
        self.live: dict[str, Pod] = {}
        """Those that count: pods of another PodGroup's life under the same name do not."""
        self.bound: dict[str, Pod] = {}
        self.confirmed: dict[str, Pod] = {}
        """Bound members on which it stands that their release is whole."""
        self.odd: dict[str, Pod] = {}
        """Live members that may need a word: unreadable, gated by others, or with claims."""
        self.schedulers: Tally[str] = Tally()
        self.said = Said()
        """By all live members."""
        self.wanted = Said()
        """By those that have no node: a rolling update changes what new members say beside those that run."""
        self._owners: Tally[str] = Tally()
        self._releases: Tally[str] = Tally()
        self._group: PodGroup | None = None
        self._first: Pod | None = None
        self._newest: Pod | None = None
        self._done: dict[str, Pod] = {}
        self._starts = Starts()
        self._going_on: dict[str, None] = {}
        self._advanced: dict[str, Stage] = {}
        self._stages: dict[Identity, dict[str, Stage]] = {}
        self._counts = [0] * len(Stage)
        self._lacking: dict[Identity, None] = {}

    @property
    def first(self) -> Pod | None:
        """The live member that was created first."""
        if self._first is None:
            self._first = min(self.live.values(), key=_age, default=None)
        return self._first

    @property
    def size(self) -> int | None:
        """The minMember that its members say: those that wait, else all, else the newest. None if they disagree."""
        sizes = self.wanted.sizes or self.said.sizes
        if len(sizes) <= 1 or self.wanted.sizes:
            return next(iter(sizes), None) if len(sizes) == 1 else None
        if self._newest is None:
            self._newest = max(self.live.values(), key=_age)
        return self._newest.group.min_member if self._newest.group is not None else None

    @property
    def lacks(self) -> bool:
        """Whether some identity has neither a node nor the promise of one."""
        return bool(self._lacking)

    @property
    def started(self) -> bool:
        """Whether a Binding of ours has bound some live member. What somebody else has bound is not ours to judge."""
        return bool(self._releases)

    @property
    def continued(self) -> str:
        """The release that has lost slots, of which nobody is bound any more, and that new pods are to complete."""
        return next(iter(self._going_on), "") if not self._releases else ""

    def reached(self, stage: Stage) -> int:
        """How many identities have come at least so far."""
        return sum(self._counts[stage:])

    def is_ours(self, pod: Pod) -> bool:
        """Whether it belongs to this life of the gang, and to no earlier PodGroup of its name."""
        return self._group is None or pod.stamp is None or pod.stamp.gang == self._group.uid

    def unplaced(self) -> list[Pod]:
        """One pod for each identity that has neither a node nor the promise of one, in rank order."""
        return sorted(map(self.stands_for, self._lacking), key=lambda pod: pod.rank)

    @property
    def lacking(self) -> list[Identity]:
        """The identities that have neither a node nor the promise of one."""
        return list(self._lacking)

    def stands_for(self, identity: Identity) -> Pod:
        """The pod that is placed for it."""
        return min((self.members[uid] for uid in self._stages[identity]), key=lambda pod: pod.rank)

    def stages(self) -> Iterator[tuple[Identity, Stage]]:
        for identity, pods in self._stages.items():
            yield identity, max(pods.values())

    def put(self, pod: Pod) -> bool:
        """A member is new or has changed. Returns whether that can matter to a decision."""
        old = self.members.get(pod.uid)
        self.members[pod.uid] = pod
        if old is not None and _facts(old) == _facts(pod):
            for index in (self.live, self.bound, self.confirmed, self.odd, self._done):
                if pod.uid in index:
                    index[pod.uid] = pod
            if self._first is old:
                self._first = pod
            self._newest = None
            return False
        changed = old is not None and self._uncount(old)
        if self._count(pod) or changed:
            self._judge_done()
        return True

    def drop(self, uid: str) -> None:
        pod = self.members.pop(uid, None)
        self._advanced.pop(uid, None)
        if pod is not None and self._uncount(pod):
            self._judge_done()

    def advance(self, uid: str, stage: Stage) -> bool:
        """What the planner and the gate have made of a pod: THERE, PROMISED or ARRIVED.

        Returns whether it has got the promise of a node, or lost it.
        """
        before = self._advanced.get(uid, Stage.THERE)
        if before is stage:
            return False
        if stage is Stage.THERE:
            del self._advanced[uid]
        else:
            self._advanced[uid] = stage
        if (pod := self.live.get(uid)) is not None and not pod.node:
            self._stand(pod, stage)
        return Stage.THERE in (before, stage)

    def follow(self, group: PodGroup | None) -> None:
        """The gang's PodGroup: members of another one's life stop counting, or count again."""
        before, self._group = self._group, group
        if (before.uid if before else None) == (group.uid if group else None):
            return
        for pod in self.members.values():
            self._uncount(pod)
        for pod in self.members.values():
            self._count(pod)
        self._judge_done()

    def _count(self, pod: Pod) -> bool:
        """Whether what finished members are judged by has changed."""
        ours = self.is_ours(pod)
        if not ours or not pod.live:
            if ours and pod.phase == "Succeeded" and pod.stamp is not None:
                self._done[pod.uid] = pod
                self._starts.add(pod)
                self._stand(pod, Stage.BOUND if pod.stamp.release in self._going_on else Stage.ABSENT)
                return True
            return False
        self.live[pod.uid] = pod
        if pod.node:
            self.bound[pod.uid] = pod
            if pod.stamp is not None and pod.stamp.complete:
                self.confirmed[pod.uid] = pod
        if pod.device_claims or pod.claims or pod.foreign_gates or _unreadable(pod):
            self.odd[pod.uid] = pod
        self.schedulers.add(pod.scheduler)
        self.said.add(pod)
        if not pod.node:
            self.wanted.add(pod)
        self._newest = None
        if self._first is not None and _age(pod) < _age(self._first):
            self._first = pod
        self._stand(pod, Stage.BOUND if pod.node else self._advanced.get(pod.uid, Stage.THERE))
        changed = bool(pod.owner) and self._owners.add(pod.owner)
        return (pod.stamp is not None and self._releases.add(pod.stamp.release)) or changed

    def _uncount(self, pod: Pod) -> bool:
        """Take back what ``_count`` made of it. Whether what finished members are judged by has changed."""
        self._stand(pod, Stage.ABSENT)
        if (done := self._done.pop(pod.uid, None)) is not None:
            self._starts.drop(done)
            return True
        if pod.uid not in self.live:
            return False
        del self.live[pod.uid]
        self.bound.pop(pod.uid, None)
        self.confirmed.pop(pod.uid, None)
        self.odd.pop(pod.uid, None)
        self.schedulers.take(pod.scheduler)
        self.said.take(pod)
        if not pod.node:
            self.wanted.take(pod)
        self._newest = None
        if self._first is not None and self._first.uid == pod.uid:
            self._first = None
        changed = bool(pod.owner) and self._owners.take(pod.owner)
        return (pod.stamp is not None and self._releases.take(pod.stamp.release)) or changed

    def _judge_done(self) -> None:
        """Which finished members count has to be found out anew: the controllers, starts or finished ones changed."""
        before, self._going_on = self._going_on, self._starts.going_on(self._releases, self._owners)
        for release in {**before, **self._going_on}:
            if (release in before) is not (release in self._going_on):
                for pod in self._starts.pods(release):
                    self._stand(pod, Stage.BOUND if release in self._going_on else Stage.ABSENT)

    def _stand(self, pod: Pod, stage: Stage) -> None:
        identity = pod.identity
        pods = self._stages.get(identity)
        before = max(pods.values()) if pods else Stage.ABSENT
        if stage is not Stage.ABSENT:
            if pods is None:
                pods = self._stages[identity] = {}
            pods[pod.uid] = stage
        elif pods is not None:
            pods.pop(pod.uid, None)
            if not pods:
                del self._stages[identity]
        after = max(pods.values()) if pods else Stage.ABSENT
        if before is after:
            return
        self._counts[before] -= 1
        self._counts[after] += 1
        if after is Stage.THERE:
            self._lacking[identity] = None
        else:
            self._lacking.pop(identity, None)


def _unreadable(pod: Pod) -> bool:
    return pod.group is not None and pod.group.problem is not None


def _age(pod: Pod) -> tuple[float, str]:
    return pod.created, pod.uid
