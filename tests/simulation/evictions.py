"""Guarantee 9, judged by writes, requests and watches.

A workload is evicted only for one that starts. Only whole workloads, or the surplus of running ones, are evicted.
Room is reserved in time for the preemptor.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from extender.core.answers import Reserved
from extender.core.effects import Effect, Evict, Milestone, Reached, Reserve, SuspendJob
from extender.core.events import Event, NodeGone, NodeSeen, PodSeen, QueueGone, QueueSeen
from policies.model import GroupKey, Pod, Reservation, Victim
from tests.simulation.admissions import Admissions
from tests.simulation.losses import Losses
from tests.simulation.model.apiserver import ApiServer
from tests.simulation.protections import Protections
from tests.simulation.reclaims import Reclaims, alone_key
from tests.simulation.shown import Shown
from tests.simulation.sight import take
from tests.simulation.terms import Terms

_PATIENCE_S = 10.0
"""How long a calm preemptor may take to be planned when its last victim has gone."""
_PATIENCE_ALONE_S = 40.0
"""The same for a single pod: kube-scheduler tries it after its backoff, and may evict others before it is bound."""
_WORD = "preempted by "
OVERRUNS = "it has run longer than its author expected"
FOR_OTHERS = _WORD, OVERRUNS
"""How the reasons of evictions begin that are for the sake of another workload."""


@dataclass
class _Kept:
    """A reservation.

    ``since``: when its last victim had gone.
    ``written``: whether it is known to be on the preemptor.
    ``told``: whether a victim was evicted.
    """

    reservation: Reservation
    written: bool = False
    told: bool = False
    since: float | None = None
    disturbed: bool = False


class Evictions:
    """The evictions in one life of the extender."""

    def __init__(self, shown: Shown, admissions: Admissions, reclaims: Reclaims, losses: Losses, terms: Terms) -> None:
        self._shown = shown
        self._reclaims = reclaims
        self._losses = losses
        self._admissions = admissions
        self._terms = terms
        self._protections = Protections(shown, terms)
        self._kept: dict[GroupKey, _Kept] = {}

    def hear(self, event: Event) -> None:
        self._protections.hear(event)
        match event:
            case Reserved(key, reservation=Reservation() as written, detail="", backfill=False):
                if key in self._kept and self._kept[key].reservation == written:
                    self._kept[key].written = True
            case NodeSeen() | NodeGone() | QueueSeen() | QueueGone():
                for kept in self._kept.values():
                    kept.disturbed = True
            case PodSeen(Pod(node=str(node)) as pod):
                self._disturb(node, pod)
            case _:
                pass

    def follow(self, effects: Iterable[Effect], api: ApiServer) -> None:
        """Record the effects. To be called before they are judged."""
        for effect in effects:
            admission = self._admissions.slots.of.get(effect.job.key) if isinstance(effect, SuspendJob) else None
            words = FOR_OTHERS if self._terms.preempts else OVERRUNS
            if admission is not None and getattr(effect, "reason", "").startswith(words):
                admission.note("it gives way")
            self._restore(effect, api)

    def judge(self, effects: list[Effect], now: float) -> str | None:
        """The fault of the first wrong effect."""
        for complaint in self._complaints(effects, now):
            return complaint
        return None

    def look(self, now: float) -> str | None:
        """The complaint about a preemptor that does not start although all its victims have gone.

        To be called every second or so.
        """
        for key, kept in self._kept.items():
            if not kept.written or any(map(self._is_there, kept.reservation.victims)):
                continue
            kept.since = now if kept.since is None else kept.since
            alone = self._single(key) is not None
            waited = now - kept.since > (_PATIENCE_ALONE_S if alone else _PATIENCE_S)
            wanted = alone or key in self._shown.members or key in self._shown.jobs
            if self._terms.calm and waited and wanted and not kept.disturbed:
                return f"{_named(kept)} were evicted for {key}, and it is not planned"
        return None

    def _complaints(self, effects: list[Effect], now: float) -> Iterator[str]:
        yield from self._judge_whole(effects)
        for effect in effects:
            match effect:
                case Reserve(key, reservation=Reservation() as reservation, backfill=False):
                    yield from self._judge_choice(key, reservation, effects, now)
                    self._kept[key] = _Kept(reservation)
                case Reserve(key, backfill=False):
                    self._kept.pop(key, None)
                case Reached(key, Milestone.PLANNED | Milestone.UNRESERVED):
                    self._kept.pop(key, None)
                case Evict(uid, reason=reason) if reason.startswith(_WORD):
                    pod = self._shown.pods.get(uid)
                    surplus = self._is_surplus(uid, reason)
                    if surplus and pod is not None:
                        yield from self._judge_surplus(pod)
                    key = GroupKey(effect.namespace, effect.name) if pod is None or surplus else _unit(pod)
                    alone = pod is None or surplus or pod.group_key is None
                    yield from self._judge_victim(key, uid if alone else "", reason, now)
                case SuspendJob(job, reason) if reason.startswith(_WORD):
                    yield from self._judge_victim(job.key, "", reason, now)

    def _judge_whole(self, effects: list[Effect]) -> Iterator[str]:
        """Check that all bound pods of a gang are evicted, unless only its surplus is."""
        gone: dict[GroupKey, set[str]] = {}
        for effect in effects:
            if isinstance(effect, Evict) and effect.reason.startswith(FOR_OTHERS):
                pod = self._shown.pods.get(effect.uid)
                if pod is not None and not self._is_surplus(effect.uid, effect.reason):
                    gone.setdefault(_unit(pod), set()).add(effect.uid)
        for key, uids in gone.items():
            left = [pod for pod in self._shown.members.get(key, {}).values() if pod.node and pod.live]
            # Pods that were bound for an earlier PodGroup of the same name belong to another gang.
            gangs = {pod.stamp.gang for pod in left if pod.uid in uids and pod.stamp is not None}
            spared = sorted(pod.uid for pod in left if pod.uid not in uids and pod.stamp and pod.stamp.gang in gangs)
            if spared:
                yield f"{sorted(uids)} are evicted, and {spared} of the same gang are not"

    def _judge_choice(
        self, key: GroupKey, reservation: Reservation, effects: list[Effect], now: float
    ) -> Iterator[str]:
        if (awaits := self._admissions.awaiting.of.get(key)) is not None and awaits.shown:
            yield f"{_named(_Kept(reservation))} are to give way to {key}, which is let go and awaits nodes"
        job = self._admissions.jobs.get(key)
        if job is not None and job.uid in self._admissions.uncreated:
            yield f"{_named(_Kept(reservation))} are to give way to {key}, whose pods were not created"
        yield from self._judge_room(key, reservation)
        others = [kept.reservation for other, kept in self._kept.items() if other != key]
        yield from self._protections.judge(key, reservation, others, now)
        yield from self._reclaims.judge(key, reservation, others, now)
        if not others:
            yield from self._losses.judge(key, reservation, effects, self._protections, now)

    def _is_surplus(self, uid: str, reason: str) -> bool:
        """Whether that pod is evicted alone, and not its whole gang."""
        pod = self._shown.pods.get(uid)
        if pod is None or pod.group_key is None:
            return False
        for preemptor, kept in self._kept.items():
            if reason.startswith(f"{_WORD}{preemptor},"):
                victims = kept.reservation.victims
                return not any(victim.key == pod.group_key and not victim.pod for victim in victims)
        return False

    def _judge_surplus(self, pod: Pod) -> Iterator[str]:
        """Check that its gang runs without all the evicted pods."""
        going = {victim.pod for kept in self._kept.values() if kept.told for victim in kept.reservation.victims} | {
            pod.uid
        }
        sight = None if pod.group_key is None else self._shown.sight(pod.group_key)
        left = [] if sight is None else [pod for pod in sight.bound if pod.uid not in going]
        owner = self._shown.owners.get(GroupKey(pod.namespace, pod.group.owner)) if pod.group is not None else None
        if owner is not None and owner.restarts:
            yield f"{pod.uid} is evicted alone, and its owner makes all of {pod.group_key} anew then"
        few = owner is not None and len(left) < (owner.minimum or 0)
        if sight is not None and (few or not sight.enough(left)):
            yield f"{pod.uid} is evicted as a surplus, and {pod.group_key} has {sight.count(left)} without it"

    def _judge_room(self, key: GroupKey, reservation: Reservation) -> Iterator[str]:
        """Once its victims have gone there has to be room for it."""
        units = {victim.key for victim in reservation.victims if not victim.pod}
        alone = {victim.pod for victim in reservation.victims}
        single = self._single(key)
        if not reservation.victims:
            yield f"room is kept for {key}, and nobody gives way to it"
        for node, requests in reservation.rooms:
            room = self._shown.free(node)
            for pod in self._shown.pods.values():
                # For a single pod kube-scheduler evicts other single pods afterwards.
                later = single is not None and pod.group_key is None and pod.priority < single.priority
                if pod.node == node and not pod.terminal and (later or pod.uid in alone or pod.group_key in units):
                    room = {name: amount + dict(pod.requests).get(name, 0) for name, amount in room.items()}
            take(room, requests)
            # A node that has lost a GPU may have less than is used. That does not matter for resources that it does not
            # request.
            if any(room[name] < 0 for name, _ in requests):
                yield f"{reservation.victims} are to give way to {key}, and {node} has no room for it even then: {room}"

    def _judge_victim(self, key: GroupKey, uid: str, reason: str, now: float) -> Iterator[str]:
        named = [
            (preemptor, kept)
            for preemptor, kept in self._kept.items()
            if any((victim.key, victim.pod) == (key, uid) for victim in kept.reservation.victims)
            and reason.startswith(f"{_WORD}{preemptor},")
        ]
        if not self._terms.preempts:
            yield f"{key} is evicted ({reason}), and preemption is off"
        elif not named:
            yield f"{key} is evicted ({reason}), and no room is kept for that"
        for preemptor, kept in named:
            if not kept.told:
                kept.told = True
                yield from self._protections.tell(preemptor, kept.reservation.victims, now)
            if not kept.written:
                yield f"{key} is evicted before it is written down what is kept for {preemptor}"

    def _single(self, key: GroupKey) -> Pod | None:
        """The single pod that the key stands for."""
        return next((pod for pod in self._shown.pods.values() if pod.group_key is None and alone_key(pod) == key), None)

    def _is_there(self, victim: Victim) -> bool:
        if victim.pod:
            return victim.pod in self._shown.pods and not self._shown.pods[victim.pod].terminal
        members = self._shown.members.get(victim.key, {}).values()
        return any(pod.node and not pod.terminal for pod in members)

    def _restore(self, effect: Effect, api: ApiServer) -> None:
        """Read the reservation from the preemptor, as an extender does after a restart."""
        reason = effect.reason if isinstance(effect, Evict | SuspendJob) else ""
        if not reason.startswith(_WORD):
            return
        pods = [pod for pod in api.pods.values() if pod.reservation is not None]
        pairs = [(alone_key(pod) if pod.group_key is None else pod.group_key, pod.reservation) for pod in pods]
        pairs += [(job.key, job.reservation) for job in api.jobs.values() if job.reservation is not None]
        for key, reservation in pairs:
            if reservation is not None and reason.startswith(f"{_WORD}{key},"):
                self._kept.setdefault(key, _Kept(reservation, written=True, told=True, disturbed=True))

    def _disturb(self, node: str, pod: Pod) -> None:
        """Record that a pod of another scheduler, which reservations do not stop, has taken the room."""
        for key, kept in self._kept.items():
            if pod.group_key != key and pod.scheduler != "muster" and node in dict(kept.reservation.rooms):
                kept.disturbed = True


def _unit(pod: Pod) -> GroupKey:
    """The workload that is evicted as a whole with the pod."""
    return GroupKey(pod.namespace, pod.name) if pod.group_key is None else pod.group_key


def _named(kept: _Kept) -> str:
    return ", ".join(map(str, kept.reservation.victims))
