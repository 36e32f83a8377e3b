"""Expected pods of a job: which are to come, and by when the next of them has to.

Pods without an index that wait beyond the plan take slots that no pod fills."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from math import inf
from typing import TypeVar

from extender.core.ledger.claims import Claims
from extender.core.ledger.creation import PROBATION_S, Creation, FailedCreation, Trials
from extender.core.ledger.devices import Devices, plain
from extender.core.ledger.pending import Config, Own, Pending
from extender.core.ledger.room import Room
from extender.core.ledger.store import Store
from extender.core.ledger.volumes import Volumes, anywhere
from extender.core.limits import Limits
from extender.core.workload.additions import Additions, applied
from extender.core.workload.job import JobRecord
from extender.core.workload.names import MovedPods
from extender.core.workload.workload import Workload
from policies.model import Pod, PodSets, SlotKey

T = TypeVar("T")


@dataclass(eq=False)
class ExpectedPods:
    """The pods that a job is expected to have, and when the next of them has to come."""

    _limits: Limits
    _store: Store
    _room: Room
    _claims: Claims
    _volumes: Volumes
    _devices: Devices
    _creation: Creation
    _failed_creation: FailedCreation
    _trials: Trials
    _additions: Additions
    _moved_pods: MovedPods
    _pending: Pending

    def expect(self, workload: Workload, podsets: PodSets | None) -> None:
        """Set the podsets of the workload, and drop plans for other podsets. Changed volumes or devices drop no
        plan."""
        if podsets is not None:
            podsets = self._volumes.resolved_all(self._as_created(workload, podsets))
            podsets = self._devices.resolved_all(podsets)
        if workload.podsets == podsets:
            return
        slots = workload.members.slots
        before = slots.templates
        workload.expect(podsets)
        for slot in list(slots.planned):
            if plain(anywhere(slots.templates.get(slot))) != plain(anywhere(before[slot])):
                self._room.assume_slot(workload, slot, "")
            elif slots.templates[slot].requests != before[slot].requests:
                self._room.assume_slot(workload, slot, slots.planned[slot], slots.turns.get(slot, 0))
        for pod in _order_by_planned_node(workload):
            self._store.enlist(pod)
        self.finish(workload)
        self._store.mark_dirty(workload)

    def _as_created(self, workload: Workload, podsets: PodSets) -> PodSets:
        """Return the podsets with the fields that the API server adds to their pods.

        For a running job only the additions of its own pods count beside those of its start: other jobs are no reason
        to suspend it.
        """
        known, record = self._additions.of(podsets), workload.job
        if record is None:
            return applied(podsets, known)
        if record.ran and workload.admitted:
            own = {shape: addition for shape, addition in known.items() if addition.source == record.source}
            known = {**record.additions, **own}
        record.learn(known)
        return applied(podsets, known)

    def finish(self, workload: Workload) -> None:
        """Mark slots as done that have succeeded by the job's status, and free their room, wherever their pods are."""
        slots, record = workload.members.slots, workload.job
        done: Collection[SlotKey] = ()
        if record is not None:
            done = record.seen.done
            if record.seen.closed or slots.in_turn:
                done = done.union(self._closed(workload, record))
        for slot in [slot for slot in slots.planned if slot in done]:
            self._room.assume_slot(workload, slot, "")
        if slots.set_done(done):
            self._pending.wake(Own(workload.key, recompute=True))

    def _closed(self, workload: Workload, record: JobRecord) -> list[SlotKey]:
        """Choose vacant slots of pods without an index that no pod fills any more."""
        counts = self._closed_counts(workload, record).items()
        return [slot for podset, count in counts if count for slot in self._closed_of(workload, record, podset, count)]

    @staticmethod
    def _closed_counts(workload: Workload, record: JobRecord) -> dict[str, int]:
        """How many slots of each podset without indexes no pod fills any more, less those whose pods have succeeded.

        Their number is in the job, or follows from its pods.
        """
        slots, newest = workload.members.slots, dict[str, Pod]()
        for member in workload.members.live.values():
            if (known := newest.get(member.pod.identity[0])) is None or known.created <= member.pod.created:
                newest[member.pod.identity[0]] = member.pod
        ended = Counter[str]()
        podsets = dict.fromkeys(slot[0] for slot in slots.templates if slot[0] not in slots.indexed)
        for slot in slots.templates:
            uids = slots.pods(slot)
            ended[slot[0]] += bool(uids) and not any(uid in workload.members.live for uid in uids)
        return {
            podset: max(0, max(record.seen.closed, slots.closed(podset, newest.get(podset))) - ended[podset])
            for podset in podsets
        }

    def _closed_of(self, workload: Workload, record: JobRecord, podset: str, count: int) -> list[SlotKey]:
        """Choose ``count`` vacant slots of a podset: first those chosen the last time, then those without room."""
        slots, claims, plan = workload.members.slots, self._claims, record.plan or {}

        def has_room(slot: SlotKey) -> bool:
            node, pod = plan.get(slot, ""), workload.constrained(slots.templates[slot])
            return claims.admits(node, pod.selection) and claims.fits(node, pod.requests)

        free = [slot for slot in slots.templates if slot[0] == podset and not slots.pods(slot)]
        free.sort(key=lambda slot: (slot not in slots.done, slot in slots.planned, has_room(slot)))
        return free[:count]

    def cede_dropped_slots(self, workload: Workload, record: JobRecord) -> None:
        """Cede slots that the plan has just dropped to pods that have succeeded, as ``cede_slots`` does."""
        slots, plan = workload.members.slots, record.plan or {}
        dropped = [slot for slot in slots.lacking if slot in slots.templates and slot not in plan]
        self.cede_slots(workload, record, dropped)

    def cede_slots(self, workload: Workload, record: JobRecord, without_room: Sequence[SlotKey]) -> bool:
        """Cede slots without room to pods that have succeeded, while fewer slots are done than those.

        A pod beyond the plan takes the slot of one that has succeeded for its room. Without that it waits beyond the
        plan again, and the one that has succeeded counts. Returns whether any slot is ceded.
        """
        slots = workload.members.slots
        if not without_room or not (record.seen.closed or slots.in_turn):
            return False
        nodes = {**record.seen.podsets.by_slot(record.seen.plan or {}), **(record.plan or {})}
        lacking = {
            podset: count - sum(slot[0] == podset for slot in slots.done)
            for podset, count in self._closed_counts(workload, record).items()
        }
        ceded = dict[SlotKey, str]()
        for slot in without_room:
            if lacking.get(slot[0], 0) > 0 and slot in nodes:
                lacking[slot[0]] -= 1
                ceded[slot] = nodes[slot]
                for uid in slots.pods(slot):
                    self._store.enlist(replace(workload.members[uid].pod, index=None), has_slot=True)
        if ceded:
            record.restore_slots(ceded)
            self.finish(workload)
        return bool(ceded)

    def still_planned(self, workload: Workload, record: JobRecord) -> PodSets | None:
        """The podsets for which the job has nodes.

        Once it runs, slots of pods that a user has moved to another gang are left out while those pods exist: no pod
        comes for them.
        """
        if record.over:
            return self._made_again(workload, record)
        planned = record.planned
        if planned is None or not workload.release.complete:
            return planned  # it starts as a whole, or is suspended when pods do not come
        left = self._left(workload, record)
        return planned.without(left) if left else planned

    def _made_again(self, workload: Workload, record: JobRecord) -> PodSets | None:
        """The podsets of a finished job whose pods its controller may create again; None if it creates none.

        These are the planned slots whose pods have neither succeeded nor been moved. New pods go to their planned
        nodes.
        """
        podsets, plan = record.planned, record.plan or {}
        if podsets is None or record.stop:
            return None
        done = record.done.union(self._left(workload, record))
        return podsets.without(done) if plan.keys() - done else None

    def _left(self, workload: Workload, record: JobRecord) -> dict[SlotKey, None]:
        """The slots of pods that a user has moved to another gang."""
        left: dict[SlotKey, None] = {}
        for pod in moved_away(self._store.pods, self._moved_pods, workload):
            left[pod.identity if pod.index is not None else _left_by(pod, workload, record, left)] = None
        return left

    def await_pods(self, record: JobRecord, now: float) -> None:
        """Set when the next pod has to come. In a namespace with failed creations that is sooner while other jobs
        wait."""
        before = self._creation.takes_s()
        until = in_full = now + self._limits.creation_s + before
        if self._failed_creation.on_probation(record.seen.key.namespace):
            until = min(in_full, now + PROBATION_S + before)
        record.expect(until, in_full)

    def fail_creation(self, workload: Workload, now: float, *, in_full: bool) -> None:
        """Record that pods of the workload were not created in time. ``in_full``: whether they had the full time."""
        self._creation.stop_waiting(workload.key.namespace)
        if (job := workload.job) is not None:
            self._trials.try_again(workload.key, job.seen.podsets, now)
        if self._failed_creation.fail(workload.key, workload.priority, now, in_full=in_full, job=job is not None):
            self._pending.wake(Config(workload.key.namespace))

    def cure_creation(self, workload: Workload) -> None:
        """Record that all pods of the workload were created."""
        if self._failed_creation.cure(workload.key, workload.priority):
            self._pending.wake(Config(workload.key.namespace))

    def fill_vacant_slots(self, workload: Workload, record: JobRecord) -> None:
        """Give vacant slots to pods without an index that are beyond the plan, then mark as done what stays vacant.

        A slot is vacant if a smaller job has dropped it or its pod has succeeded, so that no other pod comes for it.
        The result is the same after a restart, and whether the pod's success or the job's status is shown first.
        """
        slots = workload.members.slots
        if slots.surplus:
            self._take_vacant_slots(workload, record)
        if slots.in_turn or (slots.lacking and record.seen.closed):
            self.finish(workload)

    def _take_vacant_slots(self, workload: Workload, record: JobRecord) -> None:
        slots = workload.members.slots
        for podset in (podset for podset in record.seen.podsets.podsets if not podset.indexed):
            name, made_of = podset.prefix, (podset.template.owner, podset.template.series)
            live = [
                member for member in workload.members.live.values() if (member.pod.owner, member.pod.series) == made_of
            ]
            for member in [member for member in live if member.pod.identity not in slots.templates]:
                if (index := slots.vacant_slot(name, None, {})) is None:
                    break
                slot = podset.slot(index)
                self._room.assume_slot(workload, slot, "")
                record.move(slot, member.pod.node or member.node)
                self._store.enlist(replace(member.pod, index=index), has_slot=True)


def _order_by_planned_node(workload: Workload) -> list[Pod]:
    """The workload's pods without an index, in the order in which they take slots.

    First come as many pods on each node as have slots planned there; other pods may wait, or be bound beyond the plan.
    """
    plan = workload.job.plan if workload.job is not None else None
    pods = [member.pod for member in workload.members.live.values() if member.pod.index is None]
    homes = ((slot[0], node) for slot, node in (plan or {}).items())
    return _wanted_first(pods, lambda pod: (f"{pod.owner}{pod.series}", pod.node or ""), homes)


def moved_away(pods: Mapping[str, Pod], moved_pods: MovedPods, workload: Workload) -> list[Pod]:
    """The pods of the workload's job that a user has moved to another gang, or to none."""
    if workload.job is None:
        return []
    return [pods[uid] for uid in moved_pods.of(workload.job.seen.uid, workload.key)]


def _left_by(pod: Pod, workload: Workload, record: JobRecord, but: Collection[SlotKey]) -> SlotKey:
    """The slot that a moved pod without an index has left: the one chosen the last time, else a vacant one on its
    node."""
    slots, plan, prefix = workload.members.slots, record.plan or {}, f"{pod.owner}{pod.series}"
    free = (slot for slot in plan if slot[0] == prefix and slot not in but and not slots.pods(slot))
    return min(free, key=lambda slot: (slot in slots.templates, plan[slot] != pod.node), default=pod.identity)


def uncreated(workload: Workload) -> int:
    """How many pods with a planned node may be created now and are not. Pods of later waves count when the first wave
    runs."""
    started = workload.release.complete or (workload.job is not None and workload.job.ran)
    first = inf if started or workload.podsets is None else workload.podsets.first
    return workload.members.slots.uncreated(first)


def present_first(names: Sequence[str], there: Iterable[str | None]) -> tuple[str, ...]:
    """The planned nodes of a podset without indexes, first those with pods: a smaller job may keep any of its pods."""
    return tuple(_wanted_first(names, lambda name: name, there))


def _wanted_first(things: Iterable[T], key: Callable[[T], Hashable], wanted: Iterable[Hashable]) -> list[T]:
    """Sort first the things with ``wanted`` keys, as many of each key as are wanted. Otherwise the order stays."""
    left = Counter(wanted)
    first: list[T] = []
    others: list[T] = []
    for thing in things:
        value = key(thing)
        (first if left[value] > 0 else others).append(thing)
        left[value] -= 1
    return [*first, *others]
