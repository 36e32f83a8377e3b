"""Among candidates that could replace each other the one is evicted that loses least since its start or checkpoint.

No victim is evicted without need.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from itertools import islice

from extender.core.effects import Effect, Nominate, Reserve, StartJob, Ungate
from extender.core.events import (
    BudgetGone,
    BudgetSeen,
    Event,
    GroupGone,
    GroupSeen,
    JobGone,
    JobSeen,
    NodeGone,
    NodeSeen,
    PodGone,
    PodSeen,
    QueueGone,
    QueueSeen,
    Synced,
)
from policies.model import GroupKey, Pod, Reservation, Victim
from tests.simulation import relations
from tests.simulation.claims import Claims
from tests.simulation.protections import Protections
from tests.simulation.queue_plan import FLAVOR
from tests.simulation.quota import QuotaJudge
from tests.simulation.seating import seats
from tests.simulation.shown import Shown
from tests.simulation.sight import Room, beside, nominated, on_nodes
from tests.simulation.terms import Terms

_QUIET_S = 1.0
"""A decision may rest on facts of a moment ago: workloads that have changed since then are not judged."""
_UNIT = 3600.0
"""A device-hour in seconds: losses count in whole device-hours, rounded down."""
_MOST = 12
"""The most running workloads for which the best choice is searched."""


class Losses:
    """The losses in one life of the extender. ``unsure``: whether there may be unreported promises."""

    def __init__(
        self, shown: Shown, claims: Claims, quota: QuotaJudge, terms: Terms, unsure: Callable[[], bool]
    ) -> None:
        self._shown = shown
        self._claims = claims
        self._quota = quota
        self._terms = terms
        self._unsure = unsure
        self._changed: dict[GroupKey, float] = {}
        self._disturbed = 0.0

    def hear(self, event: Event, now: float) -> None:
        """``shown`` knows of it already; of a pod that has gone or was moved the room that came free tells."""
        match event:
            case PodSeen(pod) if pod.group_key is not None:
                self._changed[pod.group_key] = now
            case JobSeen(job):
                self._changed[job.key] = now
            case GroupSeen(group):
                self._changed[group.key] = now
            case PodGone() | JobGone() | GroupGone() | NodeSeen() | NodeGone() | Synced():
                self._disturbed = now
            case QueueSeen() | QueueGone() | BudgetSeen() | BudgetGone():
                self._disturbed = now
            case _:
                pass

    def judge(
        self, key: GroupKey, reservation: Reservation, effects: Sequence[Effect], protections: Protections, now: float
    ) -> Iterator[str]:
        """Judge the victims at the decision, if it evicts and promises nothing else."""
        room = self._room(key, reservation, effects, now)
        if room is None:
            return
        for victim in reservation.victims:
            left = [other for other in reservation.victims if other != victim]
            if not victim.pod and not self._local(key) and self._fits(key, reservation, self._without(room, left)):
                yield f"{victim} is to give way to {key}, and need not"
            for other in self._instead_of(victim, reservation, now):
                swapped = replace(reservation, victims=(*left, other))
                if next(protections.judge(key, swapped, (), now), None) is not None:
                    continue
                if self._fits(key, reservation, self._without(room, swapped.victims)):
                    lost, less = (self._lost(candidate, now) / _UNIT for candidate in (victim.key, other.key))
                    yield f"{victim} is to give way to {key} and loses {lost:.1f} device-hours, and {other} {less:.1f}"

    def _room(self, key: GroupKey, reservation: Reservation, effects: Sequence[Effect], now: float) -> Room | None:
        """The room that is free before the evictions; None where the room or the candidates are unknown."""
        started = any(
            isinstance(effect, StartJob | Ungate | Nominate)
            or (isinstance(effect, Reserve) and effect.reservation is not reservation)
            for effect in effects
        )
        running = [other_key for other_key in self._keys() if self._pods(other_key, 0.0, now)]
        if started or self._terms.vague or key.name in self._terms.restless or len(running) > _MOST or self._unsure():
            return None
        if self._claims.on_their_way or now - max(self._disturbed, self._claims.freed_at) < _QUIET_S:
            return None  # some promises may not be written yet
        if any(pod.group_key is None and pod.live and not pod.node for pod in self._shown.pods.values()):
            return None  # room may be kept for waiting single pods
        return self._claims.left(self._shown.nodes)

    def _instead_of(self, victim: Victim, reservation: Reservation, now: float) -> Iterator[Victim]:
        """The workloads like the victim in priority, size, queue and flavors that would lose less."""
        mine = () if victim.pod else self._pods(victim.key, _QUIET_S, now)
        going = {victim.key for victim in reservation.victims}
        for other in self._keys() if mine else ():
            theirs = () if other in going else self._pods(other, _QUIET_S, now)
            if not theirs or self._traits(victim.key, mine) != self._traits(other, theirs):
                continue
            if self._lost(victim.key, now) - self._lost(other, now) >= 2 * _UNIT:
                yield Victim(other)

    def _traits(self, key: GroupKey, pods: Sequence[Pod]) -> object:
        """The traits by which two workloads are alike."""
        shapes = Counter((pod.requests, self._flavor(pod.node or "")) for pod in pods)
        return {pod.priority for pod in pods}, shapes, self._local(key), key in self._quota.jobs

    def _pods(self, key: GroupKey, quiet_s: float, now: float) -> Sequence[Pod]:
        """The pods of a workload that has run whole and unchanged for ``quiet_s``; empty if it may not be evicted."""
        pods, sight = [*self._shown.members.get(key, {}).values()], self._shown.sight(key)
        job = self._quota.jobs.get(key)
        if sight is None or now - self._changed.get(key, 0.0) < quiet_s or len(sight.bound) != len(pods):
            return ()
        if job is not None and (job.suspended or job.plan is None or job.finished or job.done):
            return ()
        if key not in self._claims.releases.whole or key in self._claims.admissions.writing:
            return ()
        ours = sight.needed == len(pods) and sight.enough(pods)
        ours = ours and all(pod.live and pod.node in self._shown.nodes and pod.stamp is not None for pod in pods)
        return pods if ours and not any(pod.group is not None and pod.group.owner for pod in pods) else ()

    def _lost(self, key: GroupKey, now: float) -> float:
        """Device-seconds since it was released, or since the last checkpoint that it or one of its pods tells of."""
        pods, job = self._shown.members[key].values(), self._quota.jobs.get(key)
        checkpoints = [pod.eviction.checkpointed for pod in pods] + ([] if job is None else [job.eviction.checkpointed])
        began = min([now, *(pod.stamp.at for pod in pods if pod.stamp is not None and pod.stamp.at)])
        devices = sum(amount for pod in pods for name, amount in pod.requests if "/" in name)
        return devices * max(0.0, now - max([began, *(at for at in checkpoints if at is not None)]))

    def _without(self, room: Room, victims: Sequence[Victim]) -> Room:
        """The room that is free when these victims have gone."""
        left = {name: dict(amounts) for name, amounts in room.items()}
        keys, alone = {victim.key for victim in victims if not victim.pod}, {victim.pod for victim in victims}
        for uid, pod in self._shown.pods.items():
            if (uid in alone or pod.group_key in keys) and pod.node in left and not pod.terminal:
                for name, amount in pod.requests:
                    left[pod.node][name] = left[pod.node].get(name, 0) + amount
        return left

    def _fits(self, key: GroupKey, reservation: Reservation, room: Room) -> bool:
        """Whether it surely has room then, on nodes of the flavors that it was to have."""
        pods, needed = self._wanted(key)
        shapes = {(pod.requests, pod.selection, pod.topology) for pod in pods}
        if len(shapes) != 1 or relations.related(pods, on_nodes(self._shown.pods.values())):
            return False
        if self._local(key):
            flavors = {self._flavor(node) for node, _ in reservation.rooms}
            room = {node: left for node, left in room.items() if flavors == {self._flavor(node)}}
        free = beside(room, nominated(self._shown.pods.values()), pods[0].priority)
        return seats(self._shown.nodes, free, pods, (), needed) >= needed

    def _wanted(self, key: GroupKey) -> tuple[Sequence[Pod], int]:
        """The pods that have to find room at once, and how many of them."""
        if (job := self._quota.jobs.get(key)) is not None:
            pods = [pod for podset in job.podsets.podsets for pod in islice(podset.pods(), podset.minimum)]
            return pods, len(pods)
        sight = self._shown.sight(key)
        return ((), 0) if sight is None else (sight.least, sight.lacking)

    def _keys(self) -> list[GroupKey]:
        return [*self._shown.members]

    def _local(self, key: GroupKey) -> str:
        return self._quota.local_of(key)

    def _flavor(self, node: str) -> str:
        return self._shown.nodes[node].labels.get(FLAVOR, "") if node in self._shown.nodes else ""
