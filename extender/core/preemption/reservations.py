"""Reservations of preemptors: written, then their victims are evicted, and the room is kept until the start.

First the reservation is written on the preemptor, so that it outlives the process. Then the victims are evicted, each
as a whole: a job is suspended, pods without one are evicted together. When the last one has gone, the preemptor is
planned like any other workload.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import assert_never

from extender.core.answers import Reserved
from extender.core.causes import EvictionEnded, Lacks, Late, NoRoom, Preempting, Protected, Unwritten
from extender.core.effects import Milestone, Reached, Reserve, RevokedFor, Wake
from extender.core.explain.reasons import text_of
from extender.core.explain.telling import Reporter
from extender.core.gate.revocations import Revocations
from extender.core.gate.steering import Repeats
from extender.core.instants import pause_s
from extender.core.ledger.budgets import DisruptionBudgets
from extender.core.ledger.claims import Claims, Owner, SlotOf
from extender.core.ledger.devices import Devices
from extender.core.ledger.pending import Own, Pending
from extender.core.ledger.preemptions import FailedPreemption, Preemption, Preemptions, room_of
from extender.core.ledger.quotas import Quotas
from extender.core.ledger.room import Room
from extender.core.ledger.singles import BlockedSinglePods
from extender.core.ledger.store import Namespaces, Outbox, Process, Store
from extender.core.limits import Limits, Preempts
from extender.core.preemption.candidates import Candidates, gang_of, runs_without, surplus_of
from extender.core.preemption.reclaim import may_not_evict, quota_of_rooms, quota_to_reserve
from extender.core.preemption.search import Found
from extender.core.workload.job import JobWrite
from extender.core.workload.workload import Workload
from policies.model import GroupKey, Pod, Requests, Reservation, Victim
from policies.model.queues import ClusterQueue
from policies.preemption.allowed import Why
from policies.preemption.victims import Choice
from policies.steps import Steps
from policies.words import without_devices


@dataclass(eq=False)
class VictimEviction:
    """Evicts victims. An eviction is not a failure: a suspended job returns to its queue with the age that it has."""

    _store: Store
    _room: Room
    _claims: Claims
    _devices: Devices
    _quotas: Quotas
    _preemptions: Preemptions
    _pending: Pending
    _candidates: Candidates
    _revocations: Revocations

    def may_evict(
        self, victim: Victim, priority: int, nodes: Collection[str], preemptor: Workload | None = None
    ) -> bool:
        """Whether a victim in a written reservation may still be evicted, after a restart.

        It has to be the chosen one, of a lower priority, and to have room on one of these nodes. Or it uses quota that
        the queue of the ``preemptor`` may reclaim. A victim that has started again since is another one.
        """
        pod = self._store.pods.get(victim.pod)
        if pod is not None and pod.group_key is None:
            lower = pod.node in nodes and pod.priority < priority
            return lower and (pod.deleting or self._candidates.is_evictable_alone(pod))
        workload = self._store.workloads.get(gang_of(self._store.pods, victim))
        if workload is None or (preemptor is None and workload.priority >= priority):
            return False
        if preemptor is not None and may_not_evict(self._quotas, preemptor, workload):
            return False
        by_quota = preemptor is not None and self.rule(victim, preemptor) is not Why.PRIORITY
        if pod is not None:
            return (by_quota or pod.node in nodes) and (
                pod.deleting or pod in surplus_of(workload, self._preemptions.pods)
            )
        stamps = [member.pod.stamp for member in workload.members if by_quota or member.pod.node in nodes]
        ours = any(stamp is not None and stamp.release in victim.releases for stamp in stamps)
        return ours and (self._candidates.is_evictable(workload) or not workload.has_bound_quorum or workload.paused)

    def rule(self, victim: Victim, preemptor: Workload) -> Why:
        """The rule that allows the eviction, as far as the queues of both tell."""
        keys = preemptor.key, gang_of(self._store.pods, victim)
        ours, theirs = map(self._quotas.members.queue_of, keys)
        if ours is None or theirs is None:
            return Why.PRIORITY
        return Why.IN_QUEUE if ours == theirs else Why.RECLAIM

    def has_room(self, victim: Victim) -> bool:
        """Whether the victim still has room, including devices of its claims."""
        claims = self._claims
        if self._devices.linger(victim):
            return True
        if victim.pod:
            return claims.get(victim.pod) is not None
        workload = self._store.workloads.get(victim.key)
        if workload is None:
            return False
        owners: list[Owner] = [member.uid for member in workload.members]
        owners += [SlotOf(victim.key, slot) for slot in workload.members.slots.planned]
        return any(claims.get(owner) is not None for owner in owners)

    def evict(self, victim: Victim, preemptor: GroupKey, why: str, now: float) -> None:
        """Evict the victim, or evict it again if that was asked before."""
        if victim.pod:
            for pod in self._candidates.going(victim):
                if pod.live and not self.why_needed(victim):
                    self._revocations.evict(pod, why)
        elif (workload := self._store.workloads.get(victim.key)) is not None:
            self._evict_whole(workload, preemptor, why, now)

    def why_needed(self, victim: Victim) -> str:
        """Why a surplus victim may not be evicted alone any more; empty if it may, or is no surplus."""
        pod = self._store.pods.get(victim.pod)
        workload = None if pod is None else self._store.workload_of(pod)
        if workload is None or workload.key in self._preemptions.leaving:
            return ""
        if runs_without(workload, self._preemptions.pods):
            return ""
        return f"{victim.mention} is no surplus any more: its gang has too few members without it"

    def cancel(self, victim: Victim, preemptor: GroupKey) -> None:
        """Cancel the eviction for that workload: a job that was not suspended yet runs on."""
        workload = None if victim.pod else self._store.workloads.get(victim.key)
        if workload is not None and workload.job is not None:
            workload.job.withdraw_stop(preemptor)
            self._pending.wake(Own(workload.key, recompute=True))

    def _evict_whole(self, workload: Workload, preemptor: GroupKey, why: str, now: float) -> None:
        job = workload.job
        self._pending.wake(Own(workload.key, recompute=True))
        if job is not None:
            if job.plan is not None and not job.seen.suspended:
                job.decide_stop(why, preemptor)
            return
        self._room.unreserve_all(workload)
        if not workload.releasing:
            self._revocations.revoke(workload, why, now, RevokedFor.PREEMPTED)
        self._revocations.evict_bound(workload, why)


def preempted_by(pods: Mapping[str, Pod], quotas: Quotas, workload: Workload, victim: Victim, rule: Why) -> str:
    """The text of an eviction: the preemptor, and the rule of whose queue allows it."""
    return f"preempted by {workload.key.mention}, {_why(pods, quotas, workload, victim, rule)}"


def _why(pods: Mapping[str, Pod], quotas: Quotas, workload: Workload, victim: Victim, rule: Why) -> str:
    ours, theirs = quotas.queue_of(workload.key), quotas.queue_of(gang_of(pods, victim))
    if ours is None or theirs is None or rule is Why.PRIORITY:
        return f"which has priority {workload.priority} and lacked room"
    match rule:
        case Why.IN_QUEUE:
            return f"which comes before it in {ours.title} (withinClusterQueue: {ours.preemption.within})"
        case Why.RECLAIM:
            return f"{_lacked(quotas, ours, theirs)} (reclaimWithinCohort: {ours.preemption.reclaim})"
        case Why.WHILE_BORROWING:
            return f"{_lacked(quotas, ours, theirs)} (borrowWithinCohort: {ours.preemption.borrow})"
        case Why.FAIR:
            return f"{_lacked(quotas, ours, theirs)}, and has the smaller share (fair sharing)"
        case _:
            assert_never(rule)


def _lacked(quotas: Quotas, ours: ClusterQueue, theirs: ClusterQueue) -> str:
    if ours.open:
        return f"whose {ours.title} deserves what {theirs.title} uses beyond what that deserves"
    if ours.cohort == theirs.cohort:
        return f"whose ClusterQueue {ours.name} needs what {theirs.name} has borrowed in cohort {theirs.cohort}"
    # The cohorts contain each other: both queues borrow in the common one.
    paths = (_path(quotas, queue) for queue in (ours, theirs))
    return "whose ClusterQueue {} needs what {} has borrowed".format(*paths)


def _path(quotas: Quotas, queue: ClusterQueue) -> str:
    """The cohorts of a queue from the root down, and the queue itself."""
    node = quotas.queues.snapshot.tree.queues[queue.name]
    return "/".join(reversed([quota_node.name for quota_node in node.path()]))


_NAMED = 5
_UNTOLD_S, _LATE_S, _LATEST_S = 1.0, 600.0, 3600.0
"""Pauses after a failed preemption: if victims could not be evicted; the first and the longest if they were late."""


@dataclass(eq=False)
class Reservations:
    """The reservations of preemptors, from the decision to the start. ``follow`` is called after every event."""

    _limits: Limits
    _process: Process
    _pods: Mapping[str, Pod]
    _workloads: Mapping[GroupKey, Workload]
    _room: Room
    _outbox: Outbox
    _claims: Claims
    _quotas: Quotas
    _preemptions: Preemptions
    _namespaces: Namespaces
    _budgets: DisruptionBudgets
    _pending: Pending
    _blocked_singles: BlockedSinglePods
    _reporter: Reporter
    _candidates: Candidates
    _victim_eviction: VictimEviction
    _repeats: Repeats

    def begin(self, workload: Workload, search: Found, chosen: Choice, now: float) -> Preempting:
        """Reserve the room of these pods, and write it down. Returns the cause that the workload waits for."""
        rooms = dict[str, Counter[str]]()
        for pod in search.pods:
            if (node := chosen.nodes.get(pod.uid)) is not None:
                rooms.setdefault(node, Counter()).update(dict(pod.requests))
        until = now + self._limits.preemption_s
        reserved = tuple((node, tuple(sorted(amounts.items()))) for node, amounts in rooms.items())
        first = None if workload.job is not None else workload.members.first
        reservation = Reservation(reserved, tuple(search.victims), until - self._process.wall_offset)
        written_on = "" if first is None else first.uid
        why = {
            victim: preempted_by(self._pods, self._quotas, workload, victim, chosen.why[candidate.name])
            for victim, candidate in zip(search.victims, chosen.victims, strict=True)
        }
        as_of = None if (demand := workload.demand) is None else (demand.shape, self._preemptions.nodes)
        waits = Preempting(tuple(search.victims))
        self.reserve(
            workload.key, Preemption(reservation, until, why, waits, written_on, usage=search.usage, as_of=as_of)
        )
        wall = now - self._process.wall_offset
        lost = sum(candidate.lost(wall) for candidate in chosen.victims)
        detail = f"{chosen.text}; that loses {lost:.0f} device-seconds of their work"
        self._reporter.reached(workload, Milestone.PREEMPTING, now, detail=detail, rules=tuple(chosen.why.values()))
        return self._preemptions.under_way[workload.key].cause

    def reserve(self, key: GroupKey, preemption: Preemption) -> None:
        """Reserve that room, and write the reservation."""
        self._reserve(key, preemption)
        self.write(key, preemption.written_on, preemption.reservation)

    def written(self, event: Reserved, now: float) -> None:
        """Handle the outcome of a write. Victims are evicted only once the reservation is written.

        The write that removes a reservation is repeated if it failed, unless the job was being started. A newer
        reservation stays.
        """
        if event.reservation is None:
            if event.detail:
                self._repeats.repeat_later(Reserve(event.key, event.pod, event.job, None), now)
            return
        preemption = self._preemptions.under_way.get(event.key)
        if preemption is None:
            self._outbox.append(Reserve(event.key, event.pod, event.job, None))
        elif preemption.reservation != event.reservation:
            return
        elif event.detail:
            self._give_up(event.key, preemption, Unwritten(event.detail), now)
        elif not preemption.evicted:
            self._evict_first(event.key, preemption, now)

    def follow(self, now: float) -> None:
        """Keep freed room for its preemptors, and end preemptions that are late or no longer needed."""
        preemptions = self._preemptions
        for key, uid in preemptions.take_rested(now):
            self._go_on(key, uid)
        if not preemptions.under_way:
            return
        moved = preemptions.has_moved
        for key, preemption in list(preemptions.under_way.items()):
            if not self._waits(key, preemption):
                self._end(key)
                continue
            if moved:
                self._take_note(key, preemption)
                self._quotas.reserve_part(key, quota_to_reserve(self._pods, self._quotas, preemption))
            if now >= preemption.until:
                self._give_up(key, preemption, self._late(preemption), now)
            elif preemption.left and now >= preemption.evict_at:
                self._evict(key, preemption, now)
        preemptions.claim_freed()

    def _go_on(self, key: GroupKey, uid: str) -> None:
        """Try a workload again whose pause is over. A pod without a gang is woken, so that kube-scheduler tries it."""
        pod = self._pods.get(uid)
        if pod is not None and pod.live and not pod.node:
            self._outbox.append(Wake(pod.uid, pod.namespace, pod.name))
        elif key in self._pending.keys:
            self._pending.wake(Own(key))
        else:
            self._preemptions.stop_resting(key)

    def _late(self, preemption: Preemption) -> Late:
        """The victims that are still there, and what kept a job from being suspended."""
        left = tuple(preemption.left)[:_NAMED]
        gangs = [gang for victim in left if not victim.pod and (gang := self._workloads.get(victim.key)) is not None]
        refused = ((gang.key, gang.job.refused) for gang in gangs if gang.job is not None and gang.job.refused)
        return Late(round(self._limits.preemption_s), left, next(refused, None))

    def next_end(self) -> float | None:
        """When the next preemption ends, evicts again, or is tried again."""
        under_way, rested = self._preemptions.under_way.values(), self._preemptions.next_rest()
        ends = [
            min(preemption.until, preemption.evict_at) if preemption.left else preemption.until
            for preemption in under_way
        ]
        return min([*ends, *([] if rested is None else [rested])], default=None)

    def fail(self, workload: Workload, why: Lacks, now: float) -> Lacks:
        """End a preemption that failed. Returns the cause why the workload waits.

        If its victims have gone, no victim is evicted again for it until it asks for something else, or nodes change.
        If they have not, it is tried again after a pause.
        """
        preemption, demand = self._end(workload.key), workload.demand
        if preemption is None:
            return why
        ended = EvictionEnded(preemption.reservation.victims, preemption.evicted, why, again=not preemption.ready)
        preemptions, shape = self._preemptions, None if demand is None else demand.shape
        changed = preemption.ready and preemption.as_of not in (None, (shape, preemptions.nodes))
        if not changed and (shape is not None or not preemption.ready):
            preemptions.remember_failure(workload.key, self._failure(workload.key, preemption, shape, ended, now))
        self._reporter.reached(workload, Milestone.UNRESERVED, now, detail=text_of(why))
        return type(why)(ended)

    def restore(self, now: float) -> Steps[None]:
        """Continue the reservations that are written on waiting workloads, as far as they are valid.

        Called after a restart.
        """
        for key in list(self._pending.keys):
            if (workload := self._workloads.get(key)) is None:
                continue  # it has gone meanwhile
            for written_on, reservation in written_on_it(workload, "reservation"):
                preemption = self._believed(workload, written_on, reservation, now)
                if preemption is None or key in self._preemptions.under_way:
                    self.write(key, written_on, None)
                else:
                    self.resume(key, preemption, now)
            yield 1 + len(workload.members) // 4

    def resume(self, key: GroupKey, preemption: Preemption, now: float) -> None:
        """Continue a preemption that was written down before a restart.

        Victims are evicted again unless room is free.
        """
        self._reserve(key, preemption)
        self._take_note(key, preemption)
        self._preemptions.evict_later(key, now)

    def write(self, key: GroupKey, written_on: str, reservation: Reservation | None) -> None:
        """Write the reservation on the job of the workload, or on its pod ``written_on``; None removes it."""
        workload, pod = self._workloads.get(key), self._pods.get(written_on)
        for effect in writes_of(key, workload, pod, written_on, reservation):
            self._outbox.append(effect)

    def _believed(self, workload: Workload, written_on: str, reservation: Reservation, now: float) -> Preemption | None:
        """The preemption by a written reservation; None if it is not valid, since any user can write one on a pod.

        It may be for no more than the workload asks for. A victim has a lower priority, and room on these nodes.
        No devices of claims are kept: their amounts may have other names after a restart.
        """
        until = min(reservation.until + self._process.wall_offset, now + self._limits.preemption_s)
        if self._limits.preemption is not Preempts.ON or until <= now:
            return None
        rooms = tuple((node, without_devices(requests)) for node, requests in reservation.rooms)
        if not asks_for(workload, rooms):
            return None
        nodes = {node for node, _ in rooms}
        may, priority = self._victim_eviction.may_evict, workload.priority
        victims = tuple(victim for victim in reservation.victims if may(victim, priority, nodes, workload))
        valid = Reservation(rooms, victims, reservation.until)
        why = {
            victim: preempted_by(
                self._pods, self._quotas, workload, victim, self._victim_eviction.rule(victim, workload)
            )
            for victim in victims
        }
        usage = quota_of_rooms(self._claims, self._quotas, workload.key, rooms)
        return Preemption(valid, until, why, Preempting(victims), written_on, usage=usage)

    def _reserve(self, key: GroupKey, preemption: Preemption) -> None:
        """Keep room and quota for the preemptor, as they become free."""
        self._preemptions.begin(key, preemption)
        self._quotas.reserve_part(key, quota_to_reserve(self._pods, self._quotas, preemption))

    def _evict(self, key: GroupKey, preemption: Preemption, now: float) -> None:
        preemptions = self._preemptions
        for victim in () if preemption.evicted else preemption.left:
            workload = None if victim.pod else self._workloads.get(victim.key)
            job = None if workload is None or workload.job is None else workload.job.seen
            preemptions.evictions.note(victim, job, now - self._process.wall_offset)
        preemptions.mark_evicted(key, now)
        for victim in list(preemption.left):
            self._victim_eviction.evict(victim, key, preemption.why[victim], now)

    def _evict_first(self, key: GroupKey, preemption: Preemption, now: float) -> None:
        """Evict the victims, if their surplus and the PodDisruptionBudgets still allow all of them."""
        pods = [pod for victim in preemption.left for pod in self._candidates.going(victim)]
        needed = next(filter(None, map(self._victim_eviction.why_needed, preemption.left)), "")
        if why := needed or self._budgets.forbids(pods, self._budgets.left):
            return self._give_up(key, preemption, Protected(why), now)
        return self._evict(key, preemption, now)

    def _take_note(self, key: GroupKey, preemption: Preemption) -> None:
        """Take note of victims that have gone. When all have, the preemptor is planned."""
        for victim in [victim for victim in preemption.left if not self._victim_eviction.has_room(victim)]:
            self._preemptions.gone(key, victim)
            self._pending.wake(Own(victim.key))
        if not preemption.left and not preemption.ready:
            self._preemptions.make_ready(key)
            self._pending.wake(Own(key))
            if (pod := self._blocked_singles.pods.get(preemption.written_on)) is not None:
                # kube-scheduler saw the victims go before Muster did, and was refused because others have room there.
                self._blocked_singles.drop(pod.uid)
                self._outbox.append(Wake(pod.uid, pod.namespace, pod.name))

    def _end(self, key: GroupKey) -> Preemption | None:
        """End the preemption. Its room becomes free, and victims that are left are not evicted."""
        if (preemption := self._preemptions.end(key)) is None:
            return None
        self._quotas.reserve_part(key, {})
        for node in preemption.rooms:
            self._room.free(room_of(key, node))
        for victim in preemption.left:
            self._victim_eviction.cancel(victim, key)
            self._pending.wake(Own(victim.key))
        self.write(key, preemption.written_on, None)
        return preemption

    def _waits(self, key: GroupKey, preemption: Preemption) -> bool:
        """Whether the preemptor exists and still lacks its room.

        Members beyond its quorum wait without a reservation.
        """
        if self._namespaces.ending(key.namespace) is not None:
            return False
        if not preemption.alone:
            workload = self._workloads.get(key)
            if workload is None or key not in self._pending.keys:
                return False
            return workload.filling or not workload.has_promised_quorum
        pod = self._pods.get(preemption.written_on)
        return pod is not None and pod.live and not pod.node and self._claims.get(pod.uid) is None

    def _failure(
        self, key: GroupKey, preemption: Preemption, shape: object, why: EvictionEnded | None, now: float
    ) -> FailedPreemption:
        """The record of a failed preemption. The pause is longer if victims were evicted and did not go in time."""
        preemptions, pod = self._preemptions, preemption.written_on if preemption.alone else ""
        if preemption.ready:
            return FailedPreemption(shape, preemptions.freed, why, pod=pod)
        times = preemptions.failures(key) + 1
        if preemption.evicted:
            return FailedPreemption(shape, preemptions.freed, why, now + pause_s(times, _LATE_S, _LATEST_S), times, pod)
        rests_s = pause_s(times, _UNTOLD_S, self._limits.retry_max_s)
        return FailedPreemption(None, preemptions.freed, why, now + rests_s, times, pod)

    def _give_up(self, key: GroupKey, preemption: Preemption, what: Unwritten | Protected | Late, now: float) -> None:
        """End a preemption that failed, and report why."""
        workload = self._workloads.get(key)
        if workload is not None:
            why, demand = self.fail(workload, NoRoom(what), now), workload.current_demand
            # The cause that keeps it from being planned stays the one that it waits for.
            return self._reporter.explain(workload, why if demand is None else demand.trouble or why, now)
        self._end(key)
        self._preemptions.remember_failure(key, self._failure(key, preemption, preemption.reservation.rooms, None, now))
        detail = text_of(NoRoom(what))
        self._outbox.append(Reached(key, Milestone.UNRESERVED, 1, 0.0, detail=detail, alone=preemption.alone))
        return None


def writes_of(
    key: GroupKey,
    workload: Workload | None,
    pod: Pod | None,
    written_on: str,
    reservation: Reservation | None,
) -> list[Reserve]:
    """The write of a reservation on the pod, or on the job if the UID ``written_on`` is empty.

    There is none if the pod or the job is gone. The write that starts a job removes its reservations.
    """
    record = None if workload is None else workload.job
    if pod is not None:
        return [Reserve(key, pod, None, reservation)]
    if record is None or written_on or record.writing is JobWrite.START:
        return []
    return [Reserve(key, None, record.seen, reservation)]


def written_on_it(workload: Workload, field: str) -> list[tuple[str, Reservation]]:
    """The reservations on the job of the workload, or on its pods, each with the UID of the pod; empty for a job.

    ``field``: that of a pod or job that has them, as ``Reserve.fields`` names it.
    """
    carriers = [("", workload.job.seen)] if workload.job is not None else [(pod.uid, pod) for pod in workload.live]
    reservations = ((uid, getattr(carrier, field)) for uid, carrier in carriers)
    return [(uid, reservation) for uid, reservation in reservations if reservation is not None]


def asks_for(workload: Workload, rooms: Iterable[tuple[str, Requests]]) -> bool:
    """Whether the workload asks for at least the rooms of a reservation, which any user may have written."""
    requested, reserved = Counter[str](), Counter[str]()
    for slot in workload.members.slots.lacking:
        requested.update(dict(workload.members.pod_for(slot).requests))
    for _, requests in rooms:
        reserved.update(dict(requests))
    return all(amount <= requested[name] for name, amount in reserved.items())
