"""Compare the running core with one that was rebuilt from the same objects, object by object, in words.

Both cores are read and not changed. Some differences are expected after a restart. ``UNDER_WAY``, ``FORGOTTEN`` and
``UNSETTLED`` are the list of those, each entry with its reason. Beside them are pods whose Binding the watch has yet to
show: the other core is built from older objects.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import NamedTuple, TypeVar

from extender.core.causes import Cause, Unplaced
from extender.core.engine import Engine
from extender.core.explain.reasons import code_of
from extender.core.ledger.claims import Claim, ClaimState, Owner, SlotOf
from extender.core.ledger.devices import ObjectKey
from extender.core.ledger.state import State
from extender.core.workload.slots import Stage
from extender.core.workload.workload import Workload
from policies.model import GroupKey
from policies.model.devices import DeviceClaim
from policies.model.queues import FlavorResource
from policies.words import amount, amounts, listed, many, stated

ValueT = TypeVar("ValueT")

_SOON_S = 0.1
"""A core with a cycle due within that many seconds may yet decide what the other core has decided."""


class Kind(Enum):
    """The kinds of facts that are compared."""

    CLAIMS = "claims"
    """The owners of room on each node."""
    ROOM = "room"
    """The free room of each node, counted from its claims."""
    DEVICES = "devices"
    """The devices that drivers publish, and the allocations of ResourceClaims."""
    QUOTA = "quota"
    """The quota that each workload uses, and the sums of the queues."""
    MEMBERS = "members"
    """The member pods of each workload, and their nodes."""
    PENDING = "pending"
    """The workloads that wait, and whether causes wake them."""
    STATUSES = "statuses"
    """The status of each workload, and its cause."""


class Difference(NamedTuple):
    """A fact about an object in the running core, and in one after a restart."""

    kind: Kind
    object: str
    running: str
    rebuilt: str

    def __str__(self) -> str:
        return f"{self.object}: {self.running}; after a restart: {self.rebuilt}"


UNDER_WAY: Mapping[str, Callable[[Workload], object]] = {
    "its Bindings are being written": lambda workload: workload.releasing or workload.outcome_unknown,
    "its members are promised nodes": lambda workload: workload.members.placed or workload.filling,
    "nodes are planned for pods that are to come": lambda workload: workload.members.slots.planned,
    "room is kept for its lost members": lambda workload: workload.reserved,
    "its start broke off": lambda workload: workload.release.partial_since is not None,
    "pods of it have ended and are gone, and its job does not count them": lambda workload: (
        workload.job and not workload.job.seen.closed and workload.members.counts_gone
    ),
    "its job is being written to": lambda workload: (
        workload.job and (workload.job.writing or workload.job.stop or workload.job.awaits_nodes)
    ),
}
"""Workloads of the running core that are left out for now, by reason: no object records their full state."""

FORGOTTEN: Mapping[str, Callable[[Workload], object]] = {
    "nodes were refused, and no object says in what words or for how long": lambda workload: (
        workload.retries.nodes or workload.retries.not_before
    ),
    "its PodGroup is gone, and with it the size that it was started with": lambda workload: (
        workload.min_member is None and workload.members.bound
    ),
    "the API server adds to its pods, which only its last pods have shown": lambda workload: (
        workload.job and workload.job.additions
    ),
    "its job is gone, and with it the queue that its pods are counted in": lambda workload: (
        workload.queue_of_deleted_job
    ),
}
"""Workloads that may differ after a restart, by reason."""

UNSETTLED: Mapping[str, Callable[[Engine], object]] = {
    "a cycle is under way or due": lambda core: core.passes[1],
    "devices are being counted": lambda core: not core.state.devices.settled,
    "an eviction is under way, and a restart forgets which came to nothing": lambda core: (
        core.state.preemptions.under_way
    ),
    "room is reserved until others have ended, and a restart may reserve other room": lambda core: (
        core.state.backfills.of
    ),
    "nodes are asked for, and a restart asks again for gangs of pods": lambda core: core.asks_for_nodes,
    "too many wait in a namespace, and a restart lets others of them in": lambda core: (
        core.state.pending.keeps_some_out
    ),
}
"""While one of these holds for either core, pending workloads are not compared, since their turns differ."""

_OUTDATED = "room or quota was taken since they had their turn, and they may lack something else by now"
"""Why the causes of workloads are not compared: a refresh renews them, up to ``Limits.refresh_s`` later.

Two checks can find the same difference although such a refresh has come between them.
"""


@dataclass(frozen=True, slots=True)
class Moment:
    """The running core's facts at the instant whose objects the other core is built from.

    Facts that have changed by the time of the comparison are left out of it.
    """

    claims: Mapping[Owner, Claim]
    waiting: Mapping[GroupKey, object]
    causes: Mapping[GroupKey, Cause]
    device_claims: Mapping[ObjectKey, DeviceClaim]
    devices: int
    """The version of the published devices."""
    decided: bool
    """No cycle was due, so every waiting workload had had its turn."""
    outdated: bool
    """Room or quota was taken since: workloads wait all the same, and may lack something else now."""

    @classmethod
    def of(cls, core: Engine, now: float) -> Moment:
        """Record the facts: copies of four mappings."""
        state, cycle = core.state, core.next_cycle()
        causes = {key: workload.reason_state.cause for key, workload in state.workloads.items()}
        decided = cycle is None or cycle > now + _SOON_S
        devices = state.devices.claims.copy(), state.devices.inventory.version
        return cls(state.claims.all(), state.pending.keys.copy(), causes, *devices, decided, core.shortfalls_outdated)


@dataclass
class Comparison:
    """A comparison of two cores.

    ``differences``: the facts that differ.
    ``compared``: how many objects of each kind agree or differ.
    ``left_out``: how many workloads are under way, or wait and cannot be compared, by reason.
    """

    running: Engine
    rebuilt: Engine
    at: Moment
    differences: list[Difference] = field(default_factory=list)
    compared: Counter[Kind] = field(default_factory=Counter)
    left_out: Counter[str] = field(default_factory=Counter)

    def steps(self) -> Iterator[None]:
        """Compare everything, in small steps. The running core may handle events in between."""
        yield from self._claims()
        yield from self._room()
        yield from self._devices()
        yield from self._sums_of_queues()
        yield from self._workloads()

    @property
    def _states(self) -> tuple[State, State]:
        return self.running.state, self.rebuilt.state

    def _judge(
        self, kind: Kind, name: object, running: ValueT, rebuilt: ValueT, words: Callable[[ValueT], str] = str
    ) -> None:
        self.compared[kind] += 1
        if running != rebuilt:
            self.differences.append(Difference(kind, str(name), words(running), words(rebuilt)))

    # Claims and room.

    def _claims(self) -> Iterator[None]:
        running, rebuilt = self._states
        for owner, before in self.at.claims.items():
            under_way = self._is_unseen(owner) or self._is_promise_in_flight(owner, before)
            if running.claims.get(owner) == before and not under_way:
                anew = rebuilt.claims.get(owner)
                self._judge(Kind.CLAIMS, _name(running, owner), _listed(before), _listed(anew), _of_claim)
            yield
        for owner, anew in rebuilt.claims:
            # The other core's new promises are covered by the comparison of pending workloads.
            if owner not in self.at.claims and running.claims.get(owner) is None and not anew.promised:
                self._judge(Kind.CLAIMS, _name(rebuilt, owner), None, _listed(anew), _of_claim)
            yield

    def _is_unseen(self, owner: Owner) -> bool:
        """Whether the owner is a pod whose Binding was written, and the watch has yet to show it.

        A pod never loses its node, so the objects that the other core was built from are older.
        """
        running, rebuilt = (state.pods.get(owner) if isinstance(owner, str) else None for state in self._states)
        return running is not None and rebuilt is not None and bool(running.node) and not rebuilt.node

    def _is_promise_in_flight(self, owner: Owner, claim: Claim) -> bool:
        """Whether the claim is a promise for a pod that is about to bind."""
        running = self.running.state
        if not claim.promised:
            return False
        if isinstance(owner, str):
            key = running.pods[owner].group_key if owner in running.pods else None
            if owner in running.binds.writing or owner in running.binds.unknown:
                return True
        else:
            key = owner.workload
            if owner in (*running.preemptions.rooms(key), *running.backfills.rooms(key)):
                return True
        workload = None if key is None else running.workloads.get(key)
        return workload is not None and any(holds(workload) for holds in UNDER_WAY.values())

    def _room(self) -> Iterator[None]:
        """Compare each node's free room with what its claims leave."""
        state = self.running.state
        claims = state.claims
        for name in list(claims.nodes):
            if name in claims.nodes:
                self._judge(Kind.ROOM, f"node {name}", claims.room(name), left(state, name), _of_room)
            yield

    def _devices(self) -> Iterator[None]:
        """Compare the claims of devices that have not changed meanwhile; then the devices, if none has changed."""
        running, rebuilt = (state.devices for state in self._states)
        for key in list(dict.fromkeys((*self.at.device_claims, *rebuilt.claims))):
            before = self.at.device_claims.get(key)
            if running.claims.get(key) == before:
                name = f"ResourceClaim {key[0]}/{key[1]}"
                self._judge(Kind.DEVICES, name, before, rebuilt.claims.get(key), _of_device_claim)
            yield
        for device in list(dict.fromkeys((*running.inventory.known, *rebuilt.inventory.known))):
            if running.inventory.version == self.at.devices:
                mine, other = (device in devices.inventory.known for devices in (running, rebuilt))
                self._judge(Kind.DEVICES, f"device {'/'.join(device)}", mine, other, _is_published)
            yield

    # Quota.

    def _uses(self, key: GroupKey, other: Workload) -> None:
        running, rebuilt = self._states
        planned = bool(other.members.placed or other.members.slots.planned or other.reserved)
        planned = planned or key in self.rebuilt.asks_for_nodes
        uses = key in running.quotas.uses or key in rebuilt.quotas.uses
        if uses and self._has_same_claims(key) and not planned:
            self._judge(Kind.QUOTA, key, _of_uses(running, key), _of_uses(rebuilt, key))

    def _has_same_claims(self, key: GroupKey) -> bool:
        """Whether the workload's claims are those of the recorded instant."""
        claims = self.running.state.claims
        return all(self.at.claims.get(owner) == claims.get(owner) for owner in self.running.state.quotas.uses.of(key))

    def _sums_of_queues(self) -> Iterator[None]:
        """Compare each queue's recorded usage with that of its workloads, unless it changes meanwhile."""
        quotas = self.running.state.quotas
        tree = quotas.queues.snapshot.tree
        versions = {name: quotas.members.version([name]) for name in tree.queues}
        used: dict[str, Counter[FlavorResource]] = {name: Counter() for name in tree.queues}
        for key in list(quotas.uses):
            for use in quotas.uses.of(key).values():
                if use.queue in used:
                    used[use.queue].update(use.usage)
            yield
        for name, node in tree.queues.items() if tree is quotas.queues.snapshot.tree else ():
            if quotas.members.version([name]) == versions[name]:
                self._judge(Kind.QUOTA, f"ClusterQueue {name}", +Counter(node.used), +used[name], _of_usage)

    # Workloads.

    def _workloads(self) -> Iterator[None]:
        running, rebuilt = self._states
        unsettled = self._unsettled()
        for key in list(dict.fromkeys((*self.at.causes, *rebuilt.workloads))):
            mine, other = running.workloads.get(key), rebuilt.workloads.get(key)
            if (mine is None) != (key not in self.at.causes):
                pass  # added or removed meanwhile
            elif mine is None or other is None:
                if mine is None or self._is_comparable(mine):
                    self._judge(Kind.MEMBERS, key, _whether_known(mine), _whether_known(other))
            elif any(self._is_unseen(member.uid) for member in mine.members):
                self.left_out["the watch has yet to show that pods of it are bound"] += 1
            elif self._is_comparable(mine):
                self._members(key, mine, other)
                if why := next((why for why, holds in FORGOTTEN.items() if holds(mine)), ""):
                    self.left_out[why] += 1
                    yield
                    continue
                self._uses(key, other)
                if not unsettled:
                    self._pending(key, mine, other)
                elif key in self.at.waiting:
                    self.left_out[unsettled] += 1
            yield

    def _is_comparable(self, mine: Workload) -> bool:
        """Whether the workload is not under way, and unchanged since the recorded instant."""
        if mine.reason_state.cause != self.at.causes.get(mine.key):
            return False
        why = next((why for why, holds in UNDER_WAY.items() if holds(mine)), "")
        if why:
            self.left_out[why] += 1
        return not why

    def _members(self, key: GroupKey, mine: Workload, other: Workload) -> None:
        there, anew = _of_members(mine), _of_members(other)
        for uid in dict.fromkeys((*there, *anew)):
            name = f"{_name(self.running.state, uid)} in {key}"
            self._judge(Kind.MEMBERS, name, there.get(uid, "no member"), anew.get(uid, "no member"))
        self._judge(Kind.MEMBERS, key, mine.reached(Stage.BOUND), other.reached(Stage.BOUND), _slots)

    def _unsettled(self) -> str:
        """Why pending workloads cannot be compared; empty if they can."""
        if not self.at.decided:
            return next(iter(UNSETTLED))
        anew = self.rebuilt.state.claims
        if any(claim.promised and anew.get(owner) is None for owner, claim in self.at.claims.items()):
            return "promises are under way that no object records"
        if any(claim.state is ClaimState.RESERVED and owner not in self.at.claims for owner, claim in anew):
            return "a restart keeps the room of failed members once more"
        return next((why for why, holds in UNSETTLED.items() if holds(self.running) or holds(self.rebuilt)), "")

    def _pending(self, key: GroupKey, mine: Workload, other: Workload) -> None:
        running, rebuilt = self._states
        waited = key in self.at.waiting
        if waited is not (key in running.pending.keys) or self.running.passes[1]:
            return  # it has changed, or a cycle has begun and it may have its turn just now
        self._judge(Kind.PENDING, key, _waits(running, mine), _waits(rebuilt, other))
        if self.at.outdated and isinstance(mine.reason_state.cause, Unplaced):
            self.left_out[_OUTDATED] += 1
        else:
            self._judge(Kind.STATUSES, key, _stands(mine), _stands(other))


def left(state: State, name: str) -> dict[str, int]:
    """The free room of a node, counted from the node, its devices and its claims."""
    claims = state.claims
    room = dict.fromkeys(claims.room(name), 0)
    offered = state.devices.counted_anew(name) | state.volumes.counted_anew(name)
    for resource, much in (
        *offered.items(),
        *(resource_amount for resource_amount in claims.nodes[name].allocatable if resource_amount[1]),
    ):
        room[resource] = max(0, much)
    for resource, much in offered.items():
        # A negative amount is room that the node lists but does not offer, as for the daemon of a ComputeDomain.
        room[resource] += min(0, much)
    for _, claim in claims.on(name):
        for resource, much in claim.requests:
            if resource in room:
                room[resource] -= much
    return room


def _listed(claim: Claim | None) -> Claim | None:
    """The claim without amounts of devices, which another core may count in other amounts (``Kind.ROOM``)."""
    return None if claim is None else claim._replace(requests=stated(claim.requests))


# In words.


def _name(state: State, owner: Owner) -> str:
    if isinstance(owner, SlotOf):
        return f"slot {owner.slot[1]} of {owner.workload}"
    pod = state.pods.get(owner)
    return f"pod {owner}" if pod is None else f"pod {pod.namespace}/{pod.name}"


def _of_claim(claim: Claim | None) -> str:
    if claim is None:
        return "no room"
    whose = f" of {claim.workload}" if claim.workload is not None else ""
    return f"{claim.state.value} on {claim.node}{whose} with {amounts(claim.requests)}"


def _of_device_claim(claim: DeviceClaim | None) -> str:
    if claim is None:
        return "not known"
    if claim.allocation is None:
        return "has no devices"
    return f"has {listed(device.device for device in claim.allocation.devices) or 'no device of its own'}"


def _is_published(known: bool) -> str:
    return "published" if known else "not published"


def _of_room(room: Mapping[str, int]) -> str:
    return f"{amounts(tuple(room.items()))} free"


def _of_uses(state: State, key: GroupKey) -> str:
    total: dict[str, Counter[FlavorResource]] = {}
    for use in state.quotas.uses.of(key).values():
        total.setdefault(use.queue, Counter()).update(use.usage)
    return "; ".join(f"{_of_usage(usage)} of {queue}" for queue, usage in sorted(total.items())) or "no quota"


def _of_usage(usage: Mapping[FlavorResource, int]) -> str:
    used = (f"{amount(name, much)} of flavor {flavor}" for (flavor, name), much in sorted(usage.items()) if much)
    return ", ".join(used) or "no quota"


def _slots(count: int) -> str:
    return f"{many(count, 'slot')} on nodes"


def _of_members(workload: Workload) -> dict[str, str]:
    pods = (member.pod for member in workload.members if member.pod.live)
    return {pod.uid: f"on {pod.node}" if pod.node else "without a node" for pod in pods}


def _whether_known(workload: Workload | None) -> str:
    return "known" if workload is not None else "unknown"


def _waits(state: State, workload: Workload) -> str:
    if workload.key not in state.pending.keys:
        return "does not wait"
    return "waits" if state.pending.can_be_woken(workload.key) else "waits, and no cause wakes it"


def _stands(workload: Workload) -> str:
    return f"{workload.status.value}, {code_of(workload.reason_state.cause)}"
