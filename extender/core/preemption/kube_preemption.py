"""kube-scheduler's own preemption, for single pods: it never evicts a part of a gang.

kube-scheduler would delete only the gang's pods on the node that it chooses, at once, and a job would count each as a
failure. So no member is offered to it. If no other victim will do, gangs are evicted as for a workload
(``reservations.py``): their surplus if that is enough, else whole gangs. The reservation is written on the pod first.
Then the victims are evicted, and the room is kept for the pod.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import inf

from extender.core.causes import Preempting
from extender.core.effects import Milestone, Reached
from extender.core.ledger.budgets import DisruptionBudgets
from extender.core.ledger.claims import Claims, Owner, SlotOf
from extender.core.ledger.preemptions import MOST, Preemption, Preemptions, key_of
from extender.core.ledger.store import Namespaces, Outbox, Process, Store
from extender.core.limits import Limits
from extender.core.preemption.candidates import Candidates, evicted, named, named_alone, surplus_of
from extender.core.preemption.reservations import Reservations, VictimEviction
from extender.core.queue.line import Singles
from extender.core.workload.workload import Workload
from policies.model import UNCONSTRAINED, GroupKey, Pod, Requests, Reservation, Victim
from policies.preemption.allowed import Why
from policies.steps import AT_ONCE, Steps, batched
from policies.words import listed

Victims = Mapping[str, tuple[str, ...]]
"""Node -> UIDs of the pods that kube-scheduler would delete there."""


@dataclass(frozen=True, slots=True)
class _Choice:
    """Victims on one node.

    ``whole``: whether they are whole gangs.
    ``priority``: their highest priority.
    ``pods``: how many pods are evicted.
    """

    victims: tuple[Victim, ...]
    whole: bool
    priority: int
    pods: int


_REST_S = 1.0
"""Seconds between looks at pods for which no gang could be evicted."""
_UNSEEN_S = 30.0
"""How long the watch may have yet to show a pod that kube-scheduler asks for."""
_LOOKS = 8
"""Pods that are looked at each time."""


class KubePreemption:
    """Answers kube-scheduler's preempt calls, which are for pods without a gang."""

    def __init__(
        self,
        schedulers: tuple[str, ...],
        limits: Limits,
        process: Process,
        store: Store,
        outbox: Outbox,
        claims: Claims,
        preemptions: Preemptions,
        namespaces: Namespaces,
        budgets: DisruptionBudgets,
        candidates: Candidates,
        single_pods: Singles,
        reservations: Reservations,
        victim_eviction: VictimEviction,
    ) -> None:
        self._schedulers = schedulers
        self._limits = limits
        self._process = process
        self._store = store
        self._outbox = outbox
        self._claims = claims
        self._preemptions = preemptions
        self._namespaces = namespaces
        self._budgets = budgets
        self._candidates = candidates
        self._single_pods = single_pods
        self._reservations = reservations
        self._victim_eviction = victim_eviction
        self._later: dict[str, tuple[Victims, float]] = {}
        """Calls for pods that may evict gangs at another time: by UID, the victims offered and the time of the call."""
        self._look_at = inf

    def answer(self, pod: Pod, victims: Victims, now: float) -> Victims:
        """The candidates without members of gangs. If there are none, the answer is empty and gangs may be evicted."""
        offered = self._offered(pod, victims)
        self._later.pop(pod.uid, None)
        if (preemption := self._preemptions.of_pod(pod)) is not None:
            # Room is already kept for the pod there, so no pod is evicted on other nodes.
            return {node: offered[node] for node, _ in preemption.reservation.rooms if node in offered}
        if not offered and self._may(pod) and not self._evict_gangs(pod, victims, now):
            self._later[pod.uid] = victims, now
            self._look_at = min(self._look_at, now + _REST_S)
        return offered

    def review(self, now: float) -> None:
        """Try again to evict gangs for earlier calls, without a new call of kube-scheduler.

        Called after every event.
        """
        if now < self._look_at:
            return
        for uid in list(self._later)[:_LOOKS]:
            pod, (victims, since) = self._store.pods.get(uid), self._later.pop(uid)
            if pod is None:
                waits = now < since + _UNSEEN_S
            else:
                waits = self._may(pod) and not self._evict_gangs_now(pod, victims, now)
            if waits:
                self._later[uid] = victims, since
        self._look_at = now + _REST_S if self._later else inf

    def _evict_gangs_now(self, pod: Pod, victims: Victims, now: float) -> bool:
        """Evict gangs for the pod, if it has no room and kube-scheduler finds no victims itself.

        Returns whether any are.
        """
        if self._has_room(pod) or self._offered(pod, victims):
            return False
        return self._evict_gangs(pod, victims, now)

    def next_look(self) -> float | None:
        """When ``review`` is due."""
        return self._look_at if self._later else None

    def without_gangs(self, victims: Victims) -> Victims:
        """The candidates all of whose victims are known single pods, each with the victims that are on that node.

        Since Kubernetes 1.37 the pods of a native group on other nodes are victims, too, where kube-scheduler starts
        such groups. It fails the whole attempt if the answer names a pod that is not on that node. Since 1.38 a
        candidate may have no victim: Muster has refused that node for another reason, and an eviction would not help.
        """
        known = {node: uids for node, uids in victims.items() if all(map(self._is_single, uids))}
        there = {node: tuple(uid for uid in uids if self._may_be_on(uid, node)) for node, uids in known.items()}
        return {node: uids for node, uids in there.items() if uids}

    def restore(self, now: float) -> Steps[None]:
        """Continue the reservations that are written on waiting pods, as far as they are valid.

        Called after a restart.
        """
        for uids in batched(list(self._store.pods)):
            for pod in filter(None, map(self._store.pods.get, uids)):
                if pod.reservation is None or pod.group_key is not None:
                    continue
                if (preemption := self._believed(pod, pod.reservation, now)) is None:
                    self._reservations.write(key_of(pod), pod.uid, None)
                else:
                    self._reservations.resume(key_of(pod), preemption, now)
            yield AT_ONCE // 16

    def _offered(self, pod: Pod, victims: Victims) -> Victims:
        return {
            node: uids
            for node, uids in self.without_gangs(victims).items()
            if self._single_pods.may_preempt(pod, node, uids)
        }

    def _has_room(self, pod: Pod) -> bool:
        view = self._claims.snapshot()
        return bool(((view.slots(pod.requests) > 0) & view.eligible(pod.selection)).any())

    def _evict_gangs(self, pod: Pod, by_kube_scheduler: Victims, now: float) -> bool:
        """Evict the gangs that matter least, if any may be evicted. Returns whether any are.

        None is while a victim is unknown, since it may be a pod without a gang, or while the pod itself is unknown.
        """
        known = all(uid in self._store.pods for uids in by_kube_scheduler.values() for uid in (pod.uid, *uids))
        if not known or len(self._preemptions.under_way) >= MOST:
            return False
        choices = {
            node: choice
            for node, uids in by_kube_scheduler.items()
            if (choice := self._choice_on(pod, node, uids, now))
        }
        rooms = {node: ((node, _positive(pod)),) for node in choices}
        failed_for = self._preemptions.failed_for
        left = [node for node in choices if not failed_for(key_of(pod), rooms[node])]
        if not left:
            return False
        node = min(left, key=lambda name: (choices[name].whole, choices[name].priority, choices[name].pods, name))
        victims = choices[node].victims
        until = now + self._limits.preemption_s
        reservation = Reservation(rooms[node], victims, until - self._process.wall_offset)
        self._reservations.reserve(key_of(pod), _preemption(pod, reservation, until))
        detail = f"evicts {listed(map(str, victims))}: kube-scheduler found no other pods that may be evicted"
        rules = (Why.PRIORITY,) * len(victims)
        self._outbox.append(Reached(key_of(pod), Milestone.PREEMPTING, 1, 0.0, detail=detail, alone=True, rules=rules))
        return True

    def _may(self, pod: Pod) -> bool:
        """Whether it is a waiting pod of Muster's schedulers whose PriorityClass allows preemption."""
        waits = pod.live and not pod.node and self._claims.get(pod.uid) is None
        waits = waits and self._namespaces.ending(pod.namespace) is None
        return self._limits.pods_preempt_gangs and waits and pod.preempts and pod.scheduler in self._schedulers

    def _choice_on(self, pod: Pod, node: str, uids: tuple[str, ...], now: float) -> _Choice | None:
        """Victims on a node: surplus of the gangs of these pods, else these gangs; None if one may not be evicted.

        kube-scheduler evicts the pods without a gang once the gangs have gone.
        """
        gangs: dict[GroupKey, Workload] = {}
        for uid in uids:
            victim = self._store.pods.get(uid)
            if victim is None:
                return None
            if (workload := self._store.workload_of(victim)) is not None:
                if not self._may_go(workload, pod.priority, now):
                    return None
                gangs[workload.key] = workload
        if spare := self._surplus_on(
            pod, node, uids, sorted(gangs.values(), key=lambda workload: workload.priority), now
        ):
            highest = max(workload.priority for workload in gangs.values())
            return _Choice(tuple(map(named_alone, spare)), whole=False, priority=highest, pods=len(spare))
        pods = [pod for workload in gangs.values() for pod in evicted(workload)]
        if not gangs or self._budgets.forbids(pods, self._candidates.budgets_left()):
            return None
        leaving: list[Owner] = [*uids]
        for workload in gangs.values():
            leaving += [member.uid for member in workload.members]
            leaving += [SlotOf(workload.key, slot) for slot in workload.reserved]
        if not self._fits_without(pod, node, leaving):
            return None
        highest, count = (
            max(workload.priority for workload in gangs.values()),
            sum(len(workload.bound) for workload in gangs.values()),
        )
        return _Choice(tuple(map(named, gangs.values())), whole=True, priority=highest, pods=count)

    def _surplus_on(
        self, pod: Pod, node: str, uids: tuple[str, ...], gangs: Sequence[Workload], now: float
    ) -> list[Pod]:
        """Surplus of these gangs on that node, no more than is needed, the highest ranks first.

        Empty if all of it makes too little room. If the pod asks for more than room, kube-scheduler's own choice
        counts.
        """
        going = self._preemptions.pods
        spare = [
            pod
            for gang in gangs
            for pod in surplus_of(gang, going)
            if pod.node == node and self._has_run(gang, [pod], now)
        ]
        alone: list[Owner] = [uid for uid in uids if self._is_single(uid)]
        by_name = [pod for pod in spare if pod.uid in uids]
        related = any(pod.constraints is not UNCONSTRAINED for pod in (pod, *(self._store.pods[uid] for uid in uids)))
        chosen = [] if related else self._highest(pod, node, spare, alone)
        if not chosen and len(alone) + len(by_name) == len(uids):
            chosen = by_name
        fits = self._fits_without(pod, node, [*alone, *(pod.uid for pod in chosen)])
        return chosen if fits and not self._budgets.forbids(chosen, self._candidates.budgets_left()) else []

    def _highest(self, pod: Pod, node: str, spare: Sequence[Pod], alone: Sequence[Owner]) -> list[Pod]:
        """The first of these pods that make room, without pods that the others make needless."""
        chosen: list[Pod] = []
        for candidate in spare:
            if self._fits_without(pod, node, [*alone, *(victim.uid for victim in chosen)]):
                break
            chosen.append(candidate)
        for tried in chosen[::-1]:
            others = [victim for victim in chosen if victim is not tried]
            if self._fits_without(pod, node, [*alone, *(victim.uid for victim in others)]):
                chosen = others
        return chosen

    def _fits_without(self, pod: Pod, node: str, leaving: Sequence[Owner]) -> bool:
        """Whether the pod fits then. kube-scheduler may know more than Muster, or less if it asked some time ago."""
        return self._single_pods.may_preempt(pod, node, leaving, surely=True)

    def _may_go(self, workload: Workload, below: int, now: float) -> bool:
        if workload.priority >= below or not self._candidates.is_evictable(workload):
            return False
        wall, most = now - self._process.wall_offset, self._limits.evictions_per_hour
        if most and self._candidates.evictions_of(workload, wall) >= most:
            return False
        return self._has_run(workload, workload.bound, now)

    def _has_run(self, workload: Workload, pods: Sequence[Pod], now: float) -> bool:
        """Whether these pods of the workload have run for its minimum runtime, counted from the first start."""
        began = [pod.stamp.at for pod in pods if pod.stamp is not None and pod.stamp.at]
        ran = now - self._process.wall_offset - min(began, default=workload.created)
        least = self._candidates.terms_of(workload).min_runtime_s
        return ran >= (self._limits.min_runtime_s if least is None else least)

    def _believed(self, pod: Pod, written: Reservation, now: float) -> Preemption | None:
        """The preemption by a written reservation; None if it is not valid.

        Any user can write one on a pod, so it may be for no more than the pod asks for, on one node.
        """
        until = min(written.until + self._process.wall_offset, now + self._limits.preemption_s)
        if until <= now or not self._may(pod) or len(written.rooms) != 1 or key_of(pod) in self._preemptions.under_way:
            return None
        ((node, requests),) = written.rooms
        wanted = dict(pod.requests)
        if any(amount > wanted.get(name, 0) for name, amount in requests):
            return None
        victims = tuple(victim for victim in written.victims if self._goes_on(victim, pod.priority, node))
        return _preemption(pod, Reservation(written.rooms, victims, written.until), until) if victims else None

    def _goes_on(self, victim: Victim, below: int, node: str) -> bool:
        """Whether the victim is still to be evicted. kube-scheduler evicts pods without a gang itself.

        If some pods of a gang were evicted already, pods on that node may have gone before.
        """
        if victim.pod and ((pod := self._store.pods.get(victim.pod)) is None or pod.group_key is None):
            return False
        nodes, workload = {node}, self._store.workloads.get(victim.key)
        if workload is not None and not workload.has_bound_quorum:
            nodes |= {member.pod.node for member in workload.members if member.pod.node}
        return self._victim_eviction.may_evict(victim, below, nodes)

    def _may_be_on(self, uid: str, node: str) -> bool:
        """Whether the pod may be on that node: kube-scheduler places a pod before the watch shows its node."""
        return self._store.pods[uid].node in (None, "", node)

    def _is_single(self, uid: str) -> bool:
        pod = self._store.pods.get(uid)
        return pod is not None and pod.group_key is None


def _preemption(pod: Pod, reservation: Reservation, until: float) -> Preemption:
    why = f"preempted by {key_of(pod).mention}, which has priority {pod.priority} and lacked room"
    whys = dict.fromkeys(reservation.victims, why)
    return Preemption(reservation, until, whys, Preempting(reservation.victims), pod.uid, alone=True)


def _positive(pod: Pod) -> Requests:
    return tuple((name, amount) for name, amount in pod.requests if amount)
