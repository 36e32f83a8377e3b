"""Evictions under way: the preemptor, the victims that are still there, and the room that is kept until they have gone.

Victims keep their room until they are gone. So a reservation claims only the room that its victims no longer have: no
other workload gets it, and no node is overcommitted. The evictions of a workload in the last hour are remembered, and
written on jobs to survive a restart.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from extender.core.causes import EvictionEnded, Preempting
from extender.core.ledger.claims import Claim, Claims, Owner, SlotOf
from policies.model import GroupKey, Job, Pod, Requests, Reservation, Victim
from policies.model.queues import Usage

HOUR_S = 3600.0
_ROUNDED_S = 0.001


class Evictions:
    """When workloads were evicted.

    ``of``: by the victim's name for people and the UID of its job, since a new job of that name is another workload.
    Instants are in seconds since the epoch, to the millisecond.
    """

    def __init__(self) -> None:
        self.of: dict[tuple[str, str], tuple[float, ...]] = {}

    def note(self, victim: Victim, job: Job | None, wall: float) -> None:
        """Record that the victim is evicted now. Evictions older than an hour are forgotten.

        ``job``: the victim's job, if it has one.
        """
        named = _named(victim, job)
        self.of[named] = (*self.of.get(named, ()), round(wall, 3))
        recent = {victim_key: _recent(instants, wall) for victim_key, instants in self.of.items()}
        self.of = {victim_key: instants for victim_key, instants in recent.items() if instants}

    def recent(self, victim: Victim, job: Job | None, wall: float) -> tuple[float, ...]:
        """When the victim was evicted in the last hour, by this process or, as its job says, by an earlier one."""
        written = () if job is None else job.evicted
        return _recent(tuple(sorted({*written, *self.of.get(_named(victim, job), ())})), wall)

    def next_forgotten(self, wall: float) -> float:
        """The instant at which the next remembered eviction is an hour old."""
        ends = (at + HOUR_S + _ROUNDED_S for instants in self.of.values() for at in instants)
        return min((end for end in ends if end > wall), default=math.inf)


def _named(victim: Victim, job: Job | None) -> tuple[str, str]:
    return str(victim), "" if job is None else job.uid


def _recent(instants: tuple[float, ...], wall: float) -> tuple[float, ...]:
    return tuple(at for at in instants if wall - HOUR_S < at <= wall + 1)


_LOWEST = -(1 << 31)
"""The lowest priority there is."""
MOST = 32
"""Preemptions under way at a time."""
_AGAIN_S = 15.0
"""Seconds after which a victim that is still there is evicted again: the first eviction may have been refused."""


@dataclass(slots=True)
class Preemption:
    """The eviction of victims for one workload or single pod, its owner.

    ``until``: when the preemption ends, by the core's clock.
    ``why``: the text for each victim.
    ``cause``: why the owner waits meanwhile.
    ``written_on``: the UID of the pod that the reservation is written on; empty for a job.
    ``rooms``: what the owner is to have yet, by node.
    ``left``: the victims that are still there.
    ``evicted``: whether the victims were evicted.
    ``evict_at``: when they are to be evicted, or evicted again.
    ``ready``: whether all of them have gone.
    ``alone``: whether the owner is the single pod that the reservation is written on.
    ``usage``: the quota that the owner is to have yet, where it needs any.
    ``as_of``: what the owner asked for and how often nodes had changed, at the decision; None after a restart.
    """

    reservation: Reservation
    until: float
    why: Mapping[Victim, str]
    cause: Preempting
    written_on: str
    rooms: dict[str, Counter[str]] = field(default_factory=dict)
    left: dict[Victim, None] = field(default_factory=dict)
    evicted: bool = False
    evict_at: float = math.inf
    ready: bool = False
    alone: bool = False
    usage: Usage = field(default_factory=dict)
    as_of: tuple[object, int] | None = None


@dataclass(frozen=True, slots=True)
class FailedPreemption:
    """A preemption that failed.

    No victim is evicted for the workload again as long as it asks for the same and no room has come free since. If
    victims did not go, that ends at ``rests_until``; 0 once it has.

    ``shape``: what the workload asked for; None if the victims could not be evicted: then it rests whatever changes.
    ``freed``: how often room had come free.
    ``times``: how often in a row the victims did not go.
    ``pod``: the UID of the single pod that it was for.
    """

    shape: object
    freed: int
    why: EvictionEnded | None
    """The reason of the workload that waits; None for a single pod, which has no reason of Muster."""
    rests_until: float = math.inf
    times: int = 0
    pod: str = ""

    def holds(self, shape: object, freed: int) -> bool:
        """Whether no victim may be evicted for the workload. ``shape`` and ``freed``: as they are now."""
        return self.rests_until > 0 and (self.shape is None or (self.shape, self.freed) == (shape, freed))


class Preemptions:
    """Preemptions and failed preemptions, by preemptor.

    ``leaving``: the preemptor of each victim.
    ``search_version``: how often a change made another victim search worthwhile.
    ``freed``: how many of these changes were freed room or changed nodes; ``nodes``: how many were changed nodes.
    ``lowest``: a lower bound of the priorities of all candidates.
    """

    def __init__(self, claims: Claims) -> None:
        self.under_way: dict[GroupKey, Preemption] = {}
        self.leaving: dict[GroupKey, GroupKey] = {}
        self.failed: dict[GroupKey, FailedPreemption] = {}
        self.evictions = Evictions()
        self.search_version = 0
        self.freed = 0
        self.nodes = 0
        self.lowest = 0
        self._claims = claims
        self._evictable: dict[GroupKey, tuple[int, int]] = {}
        self._moved: dict[str, None] = {}

    def begin(self, key: GroupKey, preemption: Preemption) -> None:
        """Record the preemption and keep its room. Evicts no victim yet."""
        self.under_way[key] = preemption
        for node, requests in preemption.reservation.rooms:
            preemption.rooms.setdefault(node, Counter()).update(dict(requests))
            self._moved[node] = None
        preemption.left = dict.fromkeys(preemption.reservation.victims)
        self.leaving |= {victim.key: key for victim in preemption.left if not victim.pod}
        self.claim_freed()

    def gone(self, key: GroupKey, victim: Victim) -> None:
        """Record that a victim has gone."""
        preemption = self.under_way[key]
        preemption.left.pop(victim)
        self._stays(victim)

    def _stays(self, victim: Victim) -> None:
        """Stop counting the victim as leaving. Only gangs count: a pod may have the name of a gang."""
        if not victim.pod:
            self.leaving.pop(victim.key, None)

    def make_ready(self, key: GroupKey) -> None:
        """Record that all victims of the preemption have gone."""
        self.under_way[key].ready = True
        self.stop_resting(key)

    def is_ready(self, key: GroupKey) -> bool:
        """Whether all victims for the workload have gone: then it is planned, whatever shortfall is cached."""
        preemption = self.under_way.get(key)
        return preemption is not None and preemption.ready

    def mark_evicted(self, key: GroupKey, now: float) -> None:
        """Record that the victims are evicted now, and set when to repeat it."""
        preemption = self.under_way[key]
        preemption.evicted, preemption.evict_at = True, now + _AGAIN_S

    def evict_later(self, key: GroupKey, at: float) -> None:
        """Set when the victims are to be evicted, unless the owner has got room by that time."""
        self.under_way[key].evict_at = at

    def use(self, key: GroupKey, members: Iterable[tuple[str, Requests]]) -> None:
        """Give the preemptor the room that it is about to be promised. ``members``: node and requests of each."""
        if (preemption := self.under_way.get(key)) is None:
            return
        preemption.usage = {}
        for node, requests in members:
            if node in preemption.rooms:
                preemption.rooms[node].subtract(dict(requests))
                self._moved[node] = None
        self.claim_freed()

    def end(self, key: GroupKey) -> Preemption | None:
        """End the preemption and return it. The caller frees the room that is kept for it."""
        if (preemption := self.under_way.pop(key, None)) is None:
            return None
        for victim in preemption.left:
            self._stays(victim)
        # Victims that are still there are candidates for other preemptors again.
        self.add_candidate(_LOWEST)
        return preemption

    def remember_failure(self, key: GroupKey, failure: FailedPreemption) -> None:
        """Remember a failed preemption, and drop remembered ones that do not hold any more."""
        self.failed = {
            other: known
            for other, known in self.failed.items()
            if known.holds(known.shape, self.freed) or not (known.rests_until or known.pod)
        }
        self.failed[key] = failure

    def learn(self, known: Preemptions, now: float) -> None:
        """Take over another core's failed preemptions, for they are written on no object. They hold whatever changes
        here.

        Rests that are over at ``now`` are left out.
        """
        still = {
            key: failure
            for key, failure in known.failed.items()
            if known.failed_for(key, failure.shape) is not None and failure.rests_until > now
        }
        self.failed |= {key: replace(failure, shape=None) for key, failure in still.items()}

    def stop_resting(self, key: GroupKey) -> None:
        """Forget how often the workload's victims did not go."""
        self.failed.pop(key, None)

    def failures(self, key: GroupKey) -> int:
        """How often in a row the victims chosen for the workload did not go."""
        return self.failed[key].times if key in self.failed else 0

    def take_rested(self, now: float) -> list[tuple[GroupKey, str]]:
        """Return the workloads whose rest is over, each with the UID if it is a single pod."""
        if not self.failed:
            return []
        rested = [(key, failure) for key, failure in self.failed.items() if 0 < failure.rests_until <= now]
        for key, failure in rested:
            self.failed[key] = replace(failure, rests_until=0.0)
        return [(key, failure.pod) for key, failure in rested]

    def next_rest(self) -> float | None:
        """The instant at which the first rest is over."""
        ends = (failure.rests_until for failure in self.failed.values())
        return min((end for end in ends if 0 < end < math.inf), default=None)

    def failed_for(self, key: GroupKey, shape: object) -> FailedPreemption | None:
        """The failed preemption because of which no victim is evicted for the workload; None if victims may be."""
        failure = self.failed.get(key)
        return failure if failure is not None and failure.holds(shape, self.freed) else None

    def forget(self, key: GroupKey) -> None:
        """Forget a workload that is gone."""
        self.failed.pop(key, None)
        self._evictable.pop(key, None)

    def set_evictable(self, key: GroupKey, priority: int, pods: int) -> None:
        """Record how many pods of the workload are evictable. More of them, or a lower priority, make a search
        worthwhile."""
        former, before = self._evictable.pop(key, (priority, 0))
        if pods:
            self._evictable[key] = priority, pods
        if pods > before or (pods and priority < former):
            self.add_candidate(priority)

    def add_candidate(self, priority: int) -> None:
        """Record that a new candidate of that priority may be evicted."""
        self.lowest = min(self.lowest, priority)
        self.search_version += 1

    def note_edit(self, before: object, now: object) -> None:
        """Make a search worthwhile if facts about a candidate changed: its eviction settings, or labels that budgets
        select."""
        if before != now:
            self.search_version += 1

    def invalidate_searches(self) -> None:
        """Make a search worthwhile: a candidate has run for its minimum time."""
        self.search_version += 1

    def note_quota_change(self) -> None:
        """Make a search worthwhile: queue objects or budgets have changed, so more victims may be evicted or quota is
        free."""
        self.search_version += 1
        self.freed += 1

    def set_lowest(self, lowest: int) -> None:
        """Set the lowest priority of all candidates, as found just now."""
        self.lowest = lowest

    def note_node_change(self, node: str) -> None:
        """Make a search worthwhile: the node was added, deleted or changed."""
        self.nodes += 1
        self.note_freed_room(node)

    def note_freed_room(self, node: str) -> None:
        """Make a search worthwhile: room came free on the node, or the node changed."""
        self.search_version += 1
        self.freed += 1
        if self.under_way:
            self._moved[node] = None

    def moved(self, _: Owner, claim: Claim, __: bool) -> None:
        """Note the node of a claim that was made or has ended."""
        if self.under_way:
            self._moved[claim.node] = None

    def rooms(self, key: GroupKey) -> list[SlotOf]:
        """The owners of the claims that keep room for the preemptor."""
        preemption = self.under_way.get(key)
        return [] if preemption is None else [room_of(key, node) for node in preemption.rooms]

    @property
    def pods(self) -> set[str]:
        """The UIDs of victims that are single pods, or surplus pods of a gang, and are still there."""
        return {victim.pod for preemption in self.under_way.values() for victim in preemption.left if victim.pod}

    def preempting(self, priority: int, pods: Mapping[str, Pod]) -> list[tuple[Pod, str]]:
        """The single pods of at least that priority that preempt, each with a node kept for it. ``pods``: all pods by
        UID."""
        single = [preemption for preemption in self.under_way.values() if preemption.alone]
        alone = [(pods.get(preemption.written_on), preemption.rooms) for preemption in single]
        return [(pod, node) for pod, rooms in alone if pod is not None and pod.priority >= priority for node in rooms]

    def of_pod(self, pod: Pod) -> Preemption | None:
        """The preemption for this single pod, if there is one."""
        preemption = self.under_way.get(key_of(pod))
        return preemption if preemption is not None and preemption.written_on == pod.uid else None

    def blocks(self, pod: Pod, node: str, open_to: Sequence[Owner]) -> bool:
        """Whether promised room on the node leaves too little for this single pod, even with the room kept for it.

        ``open_to``: the owners whose promised room the pod may use.
        """
        own, promised = room_of(key_of(pod), node), self._claims.promised_nodes.get(node, {})
        if pod.uid in promised or not promised.keys() - {own}:
            return False
        room = self._claims.room(node)
        for owner in (own, *open_to):
            if (claim := self._claims.get(owner)) is not None and claim.node == node:
                room |= {name: room.get(name, 0) + amount for name, amount in claim.requests}
        return any(room.get(name, 0) < amount for name, amount in pod.requests if amount)

    @property
    def has_moved(self) -> bool:
        """Whether room has changed hands since the last call of ``claim_freed``."""
        return bool(self._moved)

    def claim_freed(self) -> None:
        """Claim the room that victims have given back, and no more than is free."""
        for node in list(self._moved):
            for key, preemption in self.under_way.items():
                if (wanted := preemption.rooms.get(node)) is not None:
                    self._claim_freed_on(key, node, wanted, preemption)
        self._moved.clear()

    def _claim_freed_on(self, key: GroupKey, node: str, wanted: Counter[str], preemption: Preemption) -> None:
        owner = room_of(key, node)
        known, free = self._claims.get(owner), self._claims.room(node)
        free |= {name: free.get(name, 0) + amount for name, amount in (known.requests if known is not None else ())}
        held = self._held(node, preemption)
        amounts = {name: min(amount - held[name], free.get(name, 0)) for name, amount in wanted.items()}
        share = tuple(sorted((name, amount) for name, amount in amounts.items() if amount > 0))
        if share:
            self._claims.await_room(owner, node, share)
        else:
            self._claims.release(owner)

    def _held(self, node: str, preemption: Preemption) -> Counter[str]:
        """The amounts that victims which are still there have on the node."""
        gangs = {victim.key for victim in preemption.left if not victim.pod}
        pods = {victim.pod for victim in preemption.left if victim.pod}
        held = Counter[str]()
        for owner, claim in self._claims.on(node):
            if claim.workload in gangs or owner in pods:
                held.update(dict(claim.requests))
        return held


def key_of(pod: Pod) -> GroupKey:
    """A key that stands for a single pod among preemptors. No workload can have that name."""
    return GroupKey(pod.namespace, f"pod {pod.name}")


def room_of(key: GroupKey, node: str) -> SlotOf:
    """The owner of the claim that keeps room on a node for the workload, for any of its members."""
    return SlotOf(key, f"room on {node}")
