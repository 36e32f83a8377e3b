"""Pods of no gang that wait for kube-scheduler to bind them: they stand in one order with the gangs."""

from __future__ import annotations

from collections.abc import Callable, Collection, Container, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from math import inf
from typing import NamedTuple

from extender.core.instants import pause_s
from extender.core.ledger.claims import Claim, Claims, ClaimState
from extender.core.workload.shape import Role
from extender.core.workload.workload import Workload
from policies.model import GroupKey, Pod, Requests
from policies.placement.concern import concerned
from policies.placement.fitting import lets_in
from policies.placement.request import shape_of
from policies.placement.tenants import Tenants

_REST_MAX_S = 300.0
"""One that never takes its room up gets another chance at least so often."""


@dataclass(frozen=True, slots=True)
class WaitingSingle:
    """A pod of no gang as the queue policy sees it: as a gang of its own."""

    pod: Pod

    @property
    def key(self) -> GroupKey:
        return GroupKey(self.pod.namespace, self.pod.name)

    @property
    def priority(self) -> int:
        return self.pod.priority

    @property
    def created(self) -> float:
        return self.pod.created

    @property
    def members(self) -> int:
        return 1

    @property
    def requests(self) -> dict[str, int]:
        return dict(self.pod.requests)

    @property
    def gpus(self) -> int:
        return gpus_of(self.requests)


def gpus_of(requests: Mapping[str, int]) -> int:
    """Returns the GPUs among these amounts, of any vendor."""
    return sum(amount for name, amount in requests.items() if name.endswith("/gpu"))


class Rest(NamedTuple):
    """One that has not taken its room in time, so often in a row and the last time on that node, stands in no line
    until then."""

    times: int
    node: str
    until: float


class WaitingSingles:
    """``kept``: room that no gang behind them is planned in, by UID, the oldest first. kube-scheduler binds the pod
    wherever it likes: it is not told.
    """

    def __init__(self) -> None:
        self.kept: dict[str, Claim] = {}
        self.rests: dict[str, Rest] = {}
        self.nominated: dict[str, Pod] = {}
        """Those for whom kube-scheduler has found victims: whoever has no higher priority does not get their room.
        They stand in line for other room all the same: kube-scheduler binds them wherever there is some first."""
        self.coming = Tenants()
        """The same, by what they demand of others."""
        self.natives = Natives()
        """They stand in no line of ours."""
        self._on: dict[str, dict[str, Pod]] = {}
        """Those for whom room is kept, by node."""
        self._turns: dict[str, int] = {}
        """Whose turn has come in the last walk along the line, and as the how many-th."""
        self._by_role: dict[Role, dict[str, Pod]] = {}
        self._roles: dict[str, Role] = {}

    def see(self, pod: Pod, schedulers: Collection[str], end: Callable[[str], None]) -> None:
        """Take over its facts. Before that ``end`` what room was for it, if it waits for none any more, or
        kube-scheduler has taken its nomination back or moved it."""
        waits = pod.live and not (pod.node or pod.gates or pod.native_group) and pod.scheduler in schedulers
        known, nominated = self._roles.get(pod.uid), self.nominated.get(pod.uid)
        moved = nominated is not None and nominated.nominated_node != pod.nominated_node
        if moved or not waits:
            end(pod.uid)
        if known is not None and (not waits or shape_of(pod) != known):
            self._leave(pod.uid)
        if waits:
            self._roles[pod.uid] = role = shape_of(pod)
            self._by_role.setdefault(role, {})[pod.uid] = pod
        elif pod.node or not pod.live:
            self.rests.pop(pod.uid, None)
        if waits and pod.nominated_node:
            self.nominated[pod.uid] = pod
            self.coming.put(pod.uid, pod, pod.nominated_node)
        else:
            self._forget_nomination(pod.uid)

    def gone(self, uid: str) -> None:
        """It stands in no line any more. What was kept for it has ended."""
        self.natives.drop(uid)
        self._leave(uid)
        self.rests.pop(uid, None)
        self._forget_nomination(uid)

    def roles(self) -> Iterator[tuple[Role, list[Pod]]]:
        """Those that ask for the same."""
        return iter([(role, list(pods.values())) for role, pods in self._by_role.items()])

    def get(self, uid: str) -> Pod | None:
        role = self._roles.get(uid)
        return None if role is None else self._by_role[role][uid]

    def rests_at(self, uid: str, now: float) -> bool:
        rest = self.rests.get(uid)
        return rest is not None and now < rest.until

    def wake(self, uid: str) -> None:
        """kube-scheduler would take it up now: it stands in line again."""
        self.rests.pop(uid, None)

    def would_go(self, uid: str, nodes: Container[str]) -> None:
        """kube-scheduler would take it up on these nodes if others left. If it rests because it did not go to one of
        them, that was for no reason of its own: it stands in line again."""
        rest = self.rests.get(uid)
        if rest is not None and rest.node in nodes:
            self.wake(uid)

    def line_up(self) -> None:
        """A walk along the line begins: nobody's turn has come."""
        self._turns.clear()

    def take_turn(self, uid: str) -> None:
        """Its turn has come: what is kept for it stands before whoever comes later in the line."""
        self._turns[uid] = len(self._turns)

    def keep(self, pod: Pod, node: str, until: float) -> None:
        """It is next: nobody behind it gets this room, until then at most."""
        self.kept[pod.uid] = Claim(node, pod.requests, ClaimState.RESERVED, None, until)
        self._on.setdefault(node, {})[pod.uid] = pod

    def keep_on(self, uid: str, until: float) -> None:
        """The same room until then, which is no earlier than what is kept for any other."""
        self.kept[uid] = self.kept.pop(uid)._replace(until=until)

    def end(self, uid: str) -> None:
        """No room is kept for it any more."""
        kept = self.kept.pop(uid, None)
        if kept is not None:
            del self._on[kept.node][uid]
            if not self._on[kept.node]:
                del self._on[kept.node]

    def places(self, uid: str) -> dict[str, Requests]:
        """The node where room is kept for it, and the one for which it is nominated, with what it asks for there."""
        kept, nominated = self.kept.get(uid), self.nominated.get(uid)
        found = (
            {} if nominated is None or not nominated.nominated_node else {nominated.nominated_node: nominated.requests}
        )
        return found if kept is None else {kept.node: kept.requests} | found

    def left(self, node: str, room: dict[str, int]) -> dict[str, int]:
        """What of this room on a node is for none of them."""
        waiting = {uid: one for uid, one in self.nominated.items() if one.nominated_node == node}
        for pod in (waiting | self._on.get(node, {})).values():
            room |= {name: room[name] - amount for name, amount in pod.requests if name in room}
        return room

    def before(self) -> dict[tuple[str, str], Claim]:
        """The room that is kept for those whose turn has come, by UID and node. What an earlier walk has kept for
        others is for those behind."""
        return {(uid, claim.node): claim for uid, claim in self.kept.items() if uid in self._turns}

    def behind(self) -> list[Pod]:
        """Those with room kept for them that demand something of others, and whose turn has yet to come."""
        if not self.kept:
            return []
        kept = (pod for pods in self._on.values() for pod in pods.values() if pod.constraints)
        return [pod for pod in kept if pod.uid not in self._turns]

    def ahead_of(self, gang: Workload) -> dict[tuple[str, str], Claim]:
        """The room that is for them, by UID and node, and not for that gang, whose turn is now."""
        if not (self.kept or self.nominated):
            return {}  # it is asked for each gang
        ahead = self.before()
        for one, node in self.nominated_before(gang):
            ahead[one.uid, node] = Claim(node, one.requests, ClaimState.RESERVED)
        return ahead

    def nominated_before(self, gang: Workload) -> list[tuple[Pod, str]]:
        """Those, and where, that kube-scheduler counts as if they were there when it looks at a member of the gang."""
        if not self.nominated:
            return []
        waiting = (one for one in self.nominated.values() if one.priority >= gang.pods_priority)
        return [(one, one.nominated_node) for one in waiting if one.nominated_node]

    def crowded_out(self, nodes: Iterable[str], claims: Claims) -> list[str]:
        """Who cannot have what is kept for them, now that others have come to these nodes or those have changed: they
        lack the room there, or are kept away wherever theirs is. Those before them in the line keep theirs.
        """
        kept = [(pod, at) for at, pods in self._on.items() for pod in pods.values()]
        kept.sort(key=lambda one: self._turns.get(one[0].uid, inf))
        out: list[str] = []
        for number, (pod, at) in enumerate(kept):
            if concerned((pod,), claims.tenants):
                behind = [one for one, _ in kept[number:]]
                out += [] if lets_in([(pod, at)], claims.snapshot(), behind) else [pod.uid]
        rooms = {node: claims.room(node) for node in nodes if node in self._on}
        for pod, at in kept if rooms else ():
            if (room := rooms.get(at)) is None:
                continue
            if claims.admits(at, pod.selection) and all(room.get(name, 0) >= amount for name, amount in pod.requests):
                room |= {name: room[name] - amount for name, amount in pod.requests if amount}
            else:
                out.append(pod.uid)
        return out

    def late(self, now: float) -> list[str]:
        """Whose room has been kept for long enough."""
        if not self.kept:
            return []
        return [uid for uid, claim in self.kept.items() if claim.until is not None and now >= claim.until]

    def rest(self, uid: str, node: str, now: float, first_s: float) -> None:
        """It has not taken up its room there: something keeps it that Muster does not know of."""
        before = self.rests.get(uid)
        times = 1 if before is None else before.times + 1
        self.rests[uid] = Rest(times, node, now + pause_s(times, first_s, _REST_MAX_S))

    def next_end(self) -> float | None:
        """When the first of them is late: each is given as long as the others."""
        return next((claim.until for claim in self.kept.values()), None) if self.kept else None

    def _forget_nomination(self, uid: str) -> None:
        if self.nominated.pop(uid, None) is not None:
            self.coming.drop(uid)

    def _leave(self, uid: str) -> None:
        role = self._roles.pop(uid, None)
        if role is not None:
            pods = self._by_role[role]
            del pods[uid]
            if not pods:
                del self._by_role[role]


class Natives:
    """All that have yet to end."""

    def __init__(self) -> None:
        self.gangs: dict[GroupKey, str] = {}
        """The UIDs of the PodGroups of Jobs that are gangs."""
        self._groups: dict[GroupKey, dict[str, str | None]] = {}
        """The node of each pod, by UID; pods of a Job's group that is no gang, or not yet, are among them."""
        self._keys: dict[str, GroupKey] = {}

    def see(self, pod: Pod) -> None:
        group = pod.native_group or pod.job_group
        if not group or pod.ended:
            return self.drop(pod.uid)
        self._keys[pod.uid] = key = GroupKey(pod.namespace, group)
        self._groups.setdefault(key, {})[pod.uid] = pod.node
        return None

    def gang_seen(self, key: GroupKey, uid: str) -> bool:
        """Take over that this PodGroup is a gang. Returns whether that is new."""
        new = key not in self.gangs
        self.gangs[key] = uid
        return new

    def gang_gone(self, key: GroupKey, uid: str) -> None:
        if self.gangs.get(key) == uid:
            del self.gangs[key]

    def uids(self, key: GroupKey) -> list[str]:
        """The UIDs of the group's pods that have not ended."""
        return list(self._groups.get(key, {}))

    def claimed(self, pod: Pod) -> Pod:
        """The pod, of a native group also where its Job asks for a gang."""
        if pod.job_group and GroupKey(pod.namespace, pod.job_group) in self.gangs:
            return replace(pod, native_group=pod.job_group)
        return pod

    def drop(self, uid: str) -> None:
        if (key := self._keys.pop(uid, None)) is not None:
            del self._groups[key][uid]
            if not self._groups[key]:
                del self._groups[key]

    def placed(self, pod: Pod) -> tuple[int, list[str]]:
        """How many of the pod's group have no node, the pod itself among them, and the nodes of the others."""
        group = self._groups.get(GroupKey(pod.namespace, pod.native_group), {})
        nodes = [node for uid, node in group.items() if node and uid != pod.uid]
        return max(1, sum(not node for node in group.values())), nodes


class KeptOut:
    """``pods``: by UID, as kube-scheduler has shown them: the watch may have yet to. ``reopened``: nodes."""

    def __init__(self) -> None:
        self.pods: dict[str, Pod] = {}
        self.reopened: dict[str, None] = {}

    def add(self, pod: Pod) -> None:
        self.pods[pod.uid] = pod

    def drop(self, uid: str) -> None:
        self.pods.pop(uid, None)

    def reopen(self, node: str) -> None:
        """A promise of room there has ended: it may be for one of them."""
        if self.pods:
            self.reopened[node] = None

    def take_reopened(self) -> dict[str, None]:
        """The nodes since the last time."""
        nodes, self.reopened = self.reopened, {}
        return nodes
