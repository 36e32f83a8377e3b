"""Single pods (without a gang) that wait until kube-scheduler binds them. They share one order with the gangs."""

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
"""The longest rest of a pod that does not take up its room again and again."""


@dataclass(frozen=True, slots=True)
class WaitingSingle:
    """A single pod as the queue policy sees it: as a gang with one member."""

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
    """The rest of a pod that has not taken up its room in time: until it ends, no room is kept for the pod.

    ``times``: how often in a row that has happened. ``node``: where it happened last. ``until``: when the rest ends.
    """

    times: int
    node: str
    until: float


class WaitingSingles:
    """The single pods that wait.

    ``reserved``: room that is kept from gangs later in the line, by UID, the oldest first. kube-scheduler does not
    know of it, and binds the pod to any node.
    """

    def __init__(self) -> None:
        self.reserved: dict[str, Claim] = {}
        self.rests: dict[str, Rest] = {}
        self.nominated: dict[str, Pod] = {}
        """The pods for which kube-scheduler has found victims. A gang without a higher priority does not get their
        room.

        They also wait for other room: kube-scheduler binds them to the first node with room.
        """
        self.nominated_tenants = Tenants()
        """The nominated pods, by what they demand of other pods."""
        self.natives = Natives()
        """The pods of native groups, which are not in Muster's line."""
        self._on: dict[str, dict[str, Pod]] = {}
        """The pods for which room is kept, by node."""
        self._turns: dict[str, int] = {}
        """The pods whose turn has come in the last walk along the line, each with its number in that order."""
        self._by_role: dict[Role, dict[str, Pod]] = {}
        self._roles: dict[str, Role] = {}

    def update(self, pod: Pod, schedulers: Collection[str], end: Callable[[str], None]) -> None:
        """Update the pod. ``end``: ends the room that is kept for a pod; called before the update.

        It is called if the pod waits no longer, or kube-scheduler has cleared or moved its nomination.
        """
        waits = pod.live and not (pod.node or pod.gates or pod.native_group) and pod.scheduler in schedulers
        if pod.node or not pod.live:
            self.rests.pop(pod.uid, None)
        known = self._roles.get(pod.uid)
        if known is None and not waits:
            return
        nominated = self.nominated.get(pod.uid)
        moved = nominated is not None and nominated.nominated_node != pod.nominated_node
        if moved or not waits:
            end(pod.uid)
        if known is not None and (not waits or shape_of(pod) != known):
            self._leave(pod.uid)
        if waits:
            self._roles[pod.uid] = role = shape_of(pod)
            self._by_role.setdefault(role, {})[pod.uid] = pod
        if waits and pod.nominated_node:
            self.nominated[pod.uid] = pod
            self.nominated_tenants.put(pod.uid, pod, pod.nominated_node)
        else:
            self._forget_nomination(pod.uid)

    def gone(self, uid: str) -> None:
        """Forget a pod that is gone. The caller has ended what was kept for it."""
        self.natives.drop(uid)
        self._leave(uid)
        self.rests.pop(uid, None)
        self._forget_nomination(uid)

    def roles(self) -> Iterator[tuple[Role, list[Pod]]]:
        """The pods that wait, by role: the same shape of request."""
        return iter([(role, list(pods.values())) for role, pods in self._by_role.items()])

    def get(self, uid: str) -> Pod | None:
        role = self._roles.get(uid)
        return None if role is None else self._by_role[role][uid]

    def rests_at(self, uid: str, now: float) -> bool:
        rest = self.rests.get(uid)
        return rest is not None and now < rest.until

    def wake(self, uid: str) -> None:
        """End the rest of the pod: kube-scheduler would bind it now."""
        self.rests.pop(uid, None)

    def would_go(self, uid: str, nodes: Container[str]) -> None:
        """End the rest of the pod if it did not bind to one of these nodes: its victims were still there."""
        rest = self.rests.get(uid)
        if rest is not None and rest.node in nodes:
            self.wake(uid)

    def line_up(self) -> None:
        """Begin a walk along the line: no pod's turn has come."""
        self._turns.clear()

    def take_turn(self, uid: str) -> None:
        """Record the turn of the pod: the room that is kept for it is closed to all that come later in the line."""
        self._turns[uid] = len(self._turns)

    def reserve(self, pod: Pod, node: str, until: float) -> None:
        """Keep room on the node for the pod, at most ``until`` that instant."""
        self.reserved[pod.uid] = Claim(node, pod.requests, ClaimState.RESERVED, None, until)
        self._on.setdefault(node, {})[pod.uid] = pod

    def extend(self, uid: str, until: float) -> None:
        """Keep the room of the pod longer. ``until`` is no earlier than that of any other pod."""
        self.reserved[uid] = self.reserved.pop(uid)._replace(until=until)

    def end(self, uid: str) -> None:
        """Stop keeping room for the pod."""
        reserved = self.reserved.pop(uid, None)
        if reserved is not None:
            del self._on[reserved.node][uid]
            if not self._on[reserved.node]:
                del self._on[reserved.node]

    def places(self, uid: str) -> dict[str, Requests]:
        """The node where room is kept for the pod and the node that it is nominated to, each with its requests."""
        reserved, nominated = self.reserved.get(uid), self.nominated.get(uid)
        places = (
            {} if nominated is None or not nominated.nominated_node else {nominated.nominated_node: nominated.requests}
        )
        return places if reserved is None else {reserved.node: reserved.requests} | places

    def left(self, node: str, room: dict[str, int]) -> dict[str, int]:
        """Subtract what is kept for single pods on the node from ``room``. Returns the rest."""
        waiting = {uid: pod for uid, pod in self.nominated.items() if pod.nominated_node == node}
        for pod in (waiting | self._on.get(node, {})).values():
            room |= {name: room[name] - amount for name, amount in pod.requests if name in room}
        return room

    def before(self) -> dict[tuple[str, str], Claim]:
        """The room kept for pods whose turn has come, by UID and node. Room that an earlier walk has kept does not
        count."""
        return {(uid, claim.node): claim for uid, claim in self.reserved.items() if uid in self._turns}

    def behind(self) -> list[Pod]:
        """The pods with kept room that demand something of other pods, and whose turn has yet to come."""
        if not self.reserved:
            return []
        reserved = (pod for pods in self._on.values() for pod in pods.values() if pod.constraints)
        return [pod for pod in reserved if pod.uid not in self._turns]

    def ahead_of(self, gang: Workload) -> dict[tuple[str, str], Claim]:
        """The room of single pods that is closed to the gang whose turn it is, by UID and node."""
        if not (self.reserved or self.nominated):
            return {}  # called for each gang, so the common case is fast
        ahead = self.before()
        for pod, node in self.nominated_before(gang):
            ahead[pod.uid, node] = Claim(node, pod.requests, ClaimState.RESERVED)
        return ahead

    def nominated_before(self, gang: Workload) -> list[tuple[Pod, str]]:
        """The nominated pods, each with its node, that kube-scheduler counts as there when it tries a member of the
        gang."""
        if not self.nominated:
            return []
        waiting = (pod for pod in self.nominated.values() if pod.priority >= gang.pods_priority)
        return [(pod, pod.nominated_node) for pod in waiting if pod.nominated_node]

    def displaced(self, nodes: Iterable[str], claims: Claims) -> list[str]:
        """The pods, by UID, whose kept room no longer suffices after changes on these nodes.

        Either other pods use the room, or they keep the pod away. Pods earlier in the line keep theirs.
        """
        reserved = [(pod, at) for at, pods in self._on.items() for pod in pods.values()]
        reserved.sort(key=lambda room: self._turns.get(room[0].uid, inf))
        out: list[str] = []
        for number, (pod, at) in enumerate(reserved):
            if concerned((pod,), claims.tenants):
                behind = [other for other, _ in reserved[number:]]
                out += [] if lets_in([(pod, at)], claims.snapshot(), behind) else [pod.uid]
        rooms = {node: claims.room(node) for node in nodes if node in self._on}
        for pod, at in reserved if rooms else ():
            if (room := rooms.get(at)) is None:
                continue
            if claims.admits(at, pod.selection) and all(room.get(name, 0) >= amount for name, amount in pod.requests):
                room |= {name: room[name] - amount for name, amount in pod.requests if amount}
            else:
                out.append(pod.uid)
        return out

    def late(self, now: float) -> list[str]:
        """The pods whose room has been kept for its full time."""
        if not self.reserved:
            return []
        return [uid for uid, claim in self.reserved.items() if claim.until is not None and now >= claim.until]

    def rest(self, uid: str, node: str, now: float, first_s: float) -> None:
        """Let the pod rest: it has not taken up its room, for a reason that Muster does not know."""
        before = self.rests.get(uid)
        times = 1 if before is None else before.times + 1
        self.rests[uid] = Rest(times, node, now + pause_s(times, first_s, _REST_MAX_S))

    def next_end(self) -> float | None:
        """The instant at which the first kept room ends: all pods have the same time."""
        return next((claim.until for claim in self.reserved.values()), None) if self.reserved else None

    def _forget_nomination(self, uid: str) -> None:
        if self.nominated.pop(uid, None) is not None:
            self.nominated_tenants.drop(uid)

    def _leave(self, uid: str) -> None:
        role = self._roles.pop(uid, None)
        if role is not None:
            pods = self._by_role[role]
            del pods[uid]
            if not pods:
                del self._by_role[role]


class Natives:
    """The pods of native PodGroups that have yet to end."""

    def __init__(self) -> None:
        self.gangs: dict[GroupKey, str] = {}
        """The UIDs of the PodGroups of Jobs that are gangs."""
        self._groups: dict[GroupKey, dict[str, str | None]] = {}
        """The node of each pod, by UID, including pods of a Job's group that is not, or not yet, a gang."""
        self._keys: dict[str, GroupKey] = {}

    def record(self, pod: Pod) -> None:
        group = pod.native_group or pod.job_group
        if not group or pod.ended:
            return self.drop(pod.uid)
        self._keys[pod.uid] = key = GroupKey(pod.namespace, group)
        self._groups.setdefault(key, {})[pod.uid] = pod.node
        return None

    def gang_seen(self, key: GroupKey, uid: str) -> bool:
        """Record that the PodGroup is a gang. Returns whether that is new."""
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
        """The pod as a member of a native group, if its Job's PodGroup is a gang."""
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


class BlockedSinglePods:
    """The pods that ``/filter`` kept out of promised room.

    ``pods``: by UID, as kube-scheduler has sent them, since the watch may lag.
    ``reopened``: nodes on which a promise has ended since.
    """

    def __init__(self) -> None:
        self.pods: dict[str, Pod] = {}
        self.reopened: dict[str, None] = {}

    def add(self, pod: Pod) -> None:
        self.pods[pod.uid] = pod

    def drop(self, uid: str) -> None:
        self.pods.pop(uid, None)

    def reopen(self, node: str) -> None:
        """Note that a promise on the node has ended, if pods were kept out: one of them may have the room."""
        if self.pods:
            self.reopened[node] = None

    def take_reopened(self) -> dict[str, None]:
        """Return the reopened nodes since the last call."""
        nodes, self.reopened = self.reopened, {}
        return nodes
