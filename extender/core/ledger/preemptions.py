"""Evictions under way: for whom, who has yet to go, and the room that is kept until then.

Victims keep their room until they are gone, so of a reservation only that counts as taken which its victims no longer
have: nobody else gets it, and no node is overcommitted. How often a workload was evicted in the last hour is
remembered, and written on jobs, to outlive the process.
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
    """Instants are in seconds since the epoch, to the millisecond. ``of``: of each victim, by its name for people and
    the UID of its job: a new job of that name is another workload. ``job``: that of the victim, if it has one."""

    def __init__(self) -> None:
        self.of: dict[tuple[str, str], tuple[float, ...]] = {}

    def note(self, victim: Victim, job: Job | None, wall: float) -> None:
        """It is told to go now. What is more than an hour old is forgotten."""
        named = _named(victim, job)
        self.of[named] = (*self.of.get(named, ()), round(wall, 3))
        recent = {one: _recent(instants, wall) for one, instants in self.of.items()}
        self.of = {one: instants for one, instants in recent.items() if instants}

    def recent(self, victim: Victim, job: Job | None, wall: float) -> tuple[float, ...]:
        """When it was evicted in the last hour: by us, or, as its job says, by one of us before."""
        written = () if job is None else job.evicted
        return _recent(tuple(sorted({*written, *self.of.get(_named(victim, job), ())})), wall)

    def next_forgotten(self, wall: float) -> float:
        """When the next one that is remembered is an hour old."""
        ends = (at + HOUR_S + _ROUNDED_S for some in self.of.values() for at in some)
        return min((end for end in ends if end > wall), default=math.inf)


def _named(victim: Victim, job: Job | None) -> tuple[str, str]:
    return str(victim), "" if job is None else job.uid


def _recent(instants: tuple[float, ...], wall: float) -> tuple[float, ...]:
    return tuple(at for at in instants if wall - HOUR_S < at <= wall + 1)


_LOWEST = -(1 << 31)
"""Nobody has a lower priority."""
MOST = 32
"""Workloads that are given way to at a time."""
_AGAIN_S = 15.0
"""A victim that is still there is told again: an eviction may have been refused."""


@dataclass(slots=True)
class Preemption:
    """``rooms``: what its owner is to have yet, by node. ``left``: victims who have yet to go. ``until``: when it ends,
    by the core's clock. ``why``: what each of its victims is told. ``cause``: what it waits for itself.
    ``written_on``: the UID of the pod that it is written on; empty for a job. ``told``: the victims know. ``tell_at``:
    when they are told, once more if they know. ``ready``: all of them have gone. ``alone``: it is for the pod of no
    gang that it is written on. ``usage``: the quota that its owner is to have yet, where it needs any. ``as_of``: what
    it asked for, and how often nodes had changed, when that was decided; None where a restart has forgotten that.
    """

    reservation: Reservation
    until: float
    why: Mapping[Victim, str]
    cause: Preempting
    written_on: str
    rooms: dict[str, Counter[str]] = field(default_factory=dict)
    left: dict[Victim, None] = field(default_factory=dict)
    told: bool = False
    tell_at: float = math.inf
    ready: bool = False
    alone: bool = False
    usage: Usage = field(default_factory=dict)
    as_of: tuple[object, int] | None = None


@dataclass(frozen=True, slots=True)
class Spared:
    """A preemption that came to nothing: nobody is evicted again for that workload as long as it asks for the same and
    no room has come free since. Where its victims did not go, only until ``rests_until``; 0 once that is over.

    ``shape``: None where they could not be told, so that it rests whatever changes. ``times``: how often in a row they
    did not go. ``pod``: the UID of the pod of no gang that it was for.
    """

    shape: object
    freed: int
    why: EvictionEnded | None
    """What the workload that waits is told; None for a pod of no gang, which has no reason of ours."""
    rests_until: float = math.inf
    times: int = 0
    pod: str = ""

    def holds(self, shape: object, freed: int) -> bool:
        """Whether nobody is to be evicted for a workload that asks for this, after room came free so often."""
        return self.rests_until > 0 and (self.shape is None or (self.shape, self.freed) == (shape, freed))


class Preemptions:
    """``under_way`` by preemptor. ``leaving``: the preemptor of each victim. ``epoch``: how often something has changed
    that makes another search worth while, ``freed``: of those, how often room came free or a node changed; ``nodes``:
    of these, how often a node did. ``lowest``: no candidate has a lower priority."""

    def __init__(self, claims: Claims) -> None:
        self.under_way: dict[GroupKey, Preemption] = {}
        self.leaving: dict[GroupKey, GroupKey] = {}
        self.spared: dict[GroupKey, Spared] = {}
        self.evictions = Evictions()
        self.epoch = 0
        self.freed = 0
        self.nodes = 0
        self.lowest = 0
        self._claims = claims
        self._offers: dict[GroupKey, tuple[int, int]] = {}
        self._moved: dict[str, None] = {}

    def begin(self, key: GroupKey, preemption: Preemption) -> None:
        """Keep the room. Nobody is told by that."""
        self.under_way[key] = preemption
        for node, requests in preemption.reservation.rooms:
            preemption.rooms.setdefault(node, Counter()).update(dict(requests))
            self._moved[node] = None
        preemption.left = dict.fromkeys(preemption.reservation.victims)
        self.leaving |= {victim.key: key for victim in preemption.left if not victim.pod}
        self.keep()

    def gone(self, key: GroupKey, victim: Victim) -> None:
        """It has no room any more."""
        preemption = self.under_way[key]
        preemption.left.pop(victim)
        self._stays(victim)

    def _stays(self, victim: Victim) -> None:
        """It gives way no longer, or has gone. A pod may be called like a gang."""
        if not victim.pod:
            self.leaving.pop(victim.key, None)

    def make_ready(self, key: GroupKey) -> None:
        """All of its victims have gone."""
        self.under_way[key].ready = True
        self.stop_resting(key)

    def is_ready(self, key: GroupKey) -> bool:
        """Whether its victims have gone: whatever was found before, it is planned now."""
        preemption = self.under_way.get(key)
        return preemption is not None and preemption.ready

    def tell(self, key: GroupKey, now: float) -> None:
        """Its victims know of it from now on."""
        preemption = self.under_way[key]
        preemption.told, preemption.tell_at = True, now + _AGAIN_S

    def tell_later(self, key: GroupKey, at: float) -> None:
        """They are told then, unless its owner has got room by that time."""
        self.under_way[key].tell_at = at

    def use(self, key: GroupKey, seats: Iterable[tuple[str, Requests]]) -> None:
        """The preemptor is about to be promised this."""
        if (preemption := self.under_way.get(key)) is None:
            return
        preemption.usage = {}
        for node, requests in seats:
            if node in preemption.rooms:
                preemption.rooms[node].subtract(dict(requests))
                self._moved[node] = None
        self.keep()

    def end(self, key: GroupKey) -> Preemption | None:
        """It is over. What is kept for it has to be freed yet."""
        if (preemption := self.under_way.pop(key, None)) is None:
            return None
        for victim in preemption.left:
            self._stays(victim)
        # Whoever has not gone yet may give way to somebody else.
        self.came(_LOWEST)
        return preemption

    def spare(self, key: GroupKey, spared: Spared) -> None:
        """It came to nothing. What did so before something has changed counts no more."""
        self.spared = {
            other: one
            for other, one in self.spared.items()
            if one.holds(one.shape, self.freed) or not (one.rests_until or one.pod)
        }
        self.spared[key] = spared

    def learn(self, known: Preemptions, now: float) -> None:
        """Take over from another core which preemptions came to nothing, whatever changes here: no object says so.
        A rest that is over by ``now`` is not taken over."""
        still = {
            key: one
            for key, one in known.spared.items()
            if known.spares(key, one.shape) is not None and one.rests_until > now
        }
        self.spared |= {key: replace(one, shape=None) for key, one in still.items()}

    def stop_resting(self, key: GroupKey) -> None:
        """How often its victims did not go counts no more."""
        self.spared.pop(key, None)

    def failures(self, key: GroupKey) -> int:
        """How often in a row the victims that were chosen for it did not go."""
        return self.spared[key].times if key in self.spared else 0

    def take_rested(self, now: float) -> list[tuple[GroupKey, str]]:
        """Return the workloads whose rest is over by now, and the UID of a pod of no gang."""
        rested = [(key, one) for key, one in self.spared.items() if 0 < one.rests_until <= now]
        for key, one in rested:
            self.spared[key] = replace(one, rests_until=0.0)
        return [(key, one.pod) for key, one in rested]

    def next_rest(self) -> float | None:
        """When the first of them has rested."""
        return min((one.rests_until for one in self.spared.values() if 0 < one.rests_until < math.inf), default=None)

    def spares(self, key: GroupKey, shape: object) -> Spared | None:
        """The last one that came to nothing, if nobody is evicted for it because of that."""
        spared = self.spared.get(key)
        return spared if spared is not None and spared.holds(shape, self.freed) else None

    def forget(self, key: GroupKey) -> None:
        """It is gone: what came to nothing is of the past."""
        self.spared.pop(key, None)
        self._offers.pop(key, None)

    def offers(self, key: GroupKey, priority: int, pods: int) -> None:
        """So many of its pods may be evicted now. Where they are more than before, or its priority is lower, somebody
        may get room by that."""
        former, before = self._offers.pop(key, (priority, 0))
        if pods:
            self._offers[key] = priority, pods
        if pods > before or (pods and priority < former):
            self.came(priority)

    def came(self, priority: int) -> None:
        """Somebody runs who may give way."""
        self.lowest = min(self.lowest, priority)
        self.epoch += 1

    def edited(self, before: object, now: object) -> None:
        """What somebody says of its eviction, or its labels, by which budgets count it, are others: it may give way."""
        if before != now:
            self.epoch += 1

    def ripen(self) -> None:
        """Somebody has run for long enough to give way."""
        self.epoch += 1

    def redrawn(self) -> None:
        """Queue objects or budgets have changed: others may give way by them, or have room without that."""
        self.epoch += 1
        self.freed += 1

    def looked(self, lowest: int) -> None:
        """The lowest priority of all candidates as of now."""
        self.lowest = lowest

    def node_changed(self, node: str) -> None:
        """It is there, gone, or another one."""
        self.nodes += 1
        self.changed(node)

    def changed(self, node: str) -> None:
        """Room came free there, or the node is another one."""
        self.epoch += 1
        self.freed += 1
        if self.under_way:
            self._moved[node] = None

    def moved(self, _: Owner, claim: Claim, __: bool) -> None:
        """Room has changed hands."""
        if self.under_way:
            self._moved[claim.node] = None

    def rooms(self, key: GroupKey) -> list[SlotOf]:
        """Whose claims are what is kept for it by now."""
        preemption = self.under_way.get(key)
        return [] if preemption is None else [room_of(key, node) for node in preemption.rooms]

    @property
    def pods(self) -> set[str]:
        """The UIDs of the victims that are pods of no gang, or the surplus of one, and have yet to go."""
        return {victim.pod for one in self.under_way.values() for victim in one.left if victim.pod}

    def preempting(self, priority: int, pods: Mapping[str, Pod]) -> list[tuple[Pod, str]]:
        """The pods of no gang, of at least that priority, that others give way to, and where. ``pods``: all, by UID."""
        alone = [(pods.get(one.written_on), one.rooms) for one in self.under_way.values() if one.alone]
        return [(pod, node) for pod, rooms in alone if pod is not None and pod.priority >= priority for node in rooms]

    def of_pod(self, pod: Pod) -> Preemption | None:
        """The one that is for this pod of no gang."""
        preemption = self.under_way.get(key_of(pod))
        return preemption if preemption is not None and preemption.written_on == pod.uid else None

    def keeps_out(self, pod: Pod, node: str, open_to: Sequence[Owner]) -> bool:
        """Whether others are promised so much there that this pod of no gang does not fit, not even with what is kept
        for it. ``open_to``: whose promised room it may use."""
        own, promised = room_of(key_of(pod), node), self._claims.promised_nodes.get(node, {})
        if pod.uid in promised or not promised.keys() - {own}:
            return False
        room = self._claims.room(node)
        for owner in (own, *open_to):
            if (kept := self._claims.get(owner)) is not None and kept.node == node:
                room |= {name: room.get(name, 0) + amount for name, amount in kept.requests}
        return any(room.get(name, 0) < amount for name, amount in pod.requests if amount)

    @property
    def has_moved(self) -> bool:
        """Whether room has changed hands since the last time that it was kept."""
        return bool(self._moved)

    def keep(self) -> None:
        """Claim what the victims have given back by now, and no more than there is."""
        for node in list(self._moved):
            for key, preemption in self.under_way.items():
                if (wanted := preemption.rooms.get(node)) is not None:
                    self._keep(key, node, wanted, preemption)
        self._moved.clear()

    def _keep(self, key: GroupKey, node: str, wanted: Counter[str], preemption: Preemption) -> None:
        owner = room_of(key, node)
        known, free = self._claims.get(owner), self._claims.room(node)
        free |= {name: free.get(name, 0) + amount for name, amount in (known.requests if known is not None else ())}
        held = self._held(node, preemption)
        amounts = {name: min(amount - held[name], free.get(name, 0)) for name, amount in wanted.items()}
        kept = tuple(sorted((name, amount) for name, amount in amounts.items() if amount > 0))
        if kept:
            self._claims.await_room(owner, node, kept)
        else:
            self._claims.release(owner)

    def _held(self, node: str, preemption: Preemption) -> Counter[str]:
        """What those who have yet to go have there."""
        gangs = {victim.key for victim in preemption.left if not victim.pod}
        pods = {victim.pod for victim in preemption.left if victim.pod}
        held = Counter[str]()
        for owner, claim in self._claims.on(node):
            if claim.workload in gangs or owner in pods:
                held.update(dict(claim.requests))
        return held


def key_of(pod: Pod) -> GroupKey:
    """What stands for a pod of no gang among the workloads that are given way to; none of these can have that name."""
    return GroupKey(pod.namespace, f"pod {pod.name}")


def room_of(key: GroupKey, node: str) -> SlotOf:
    """The owner of what is kept on a node for that workload, whoever of it goes there."""
    return SlotOf(key, f"room on {node}")
