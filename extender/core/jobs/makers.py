"""Expected pods of a workload without a job of its own: made by its owner, or by the job of its PodGroup.

The owner, such as a StatefulSet, says how many pods it wants, and which of them are created only when others run. The
job of a PodGroup makes no pods until a scheduler has enqueued the PodGroup. So Muster plans it first, and enqueues it
then.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from extender.core.answers import Enqueued
from extender.core.effects import Enqueue
from extender.core.events import GroupJobGone, GroupJobSeen
from extender.core.gate.steering import Steering
from extender.core.instants import pause_s
from extender.core.ledger.claims import Claims
from extender.core.ledger.creation import PROBATION_S, Creation, FailedCreation
from extender.core.ledger.expected import ExpectedPods
from extender.core.ledger.pending import Own, Pending, Timers
from extender.core.ledger.room import Room
from extender.core.ledger.store import Outbox, Process, Store
from extender.core.limits import Limits
from extender.core.workload.additions import carried_over
from extender.core.workload.members import MemberState
from extender.core.workload.names import MovedPods
from extender.core.workload.workload import Workload
from policies.model import Dialect, GangOwner, GroupJob, GroupKey, GroupRef, Order, Pod, PodGroup, PodSets, SlotKey
from policies.model.node import ANY_NODE
from policies.placement.request import MemberShape, shape_of

_FIRST_S, _LONGEST_S = 5.0, 900.0
_SHOWN_S = 60.0
"""Within this time the watch shows an enqueued PodGroup, unless a proxy has answered for the API server."""


@dataclass(eq=False)
class Enqueues:
    """Enqueues PodGroups whose job waits for that, once they are planned.

    ``advising``: advisory mode makes no plans that bind others, so each is enqueued at once.
    """

    _limits: Limits
    _process: Process
    _store: Store
    _outbox: Outbox
    _creation: Creation
    _failed_creation: FailedCreation
    _moved_pods: MovedPods
    _expected: ExpectedPods
    _advising: bool = field(default=False, kw_only=True)

    def __post_init__(self) -> None:
        self.jobs: dict[str, GroupJob] = {}
        """Jobs of PodGroups, by UID."""
        self._group_of: dict[str, GroupKey] = {}
        """The PodGroup of each job, by the job's UID, whether the job is known or not."""
        self._enqueuing: dict[GroupKey, str] = {}
        """UIDs of the PodGroups that were asked to be enqueued, until the watch shows it."""
        self._pod_deadlines: dict[GroupKey, float] = {}
        """The deadline for the next pod of each enqueued PodGroup."""
        self._failures: dict[GroupKey, int] = {}
        self._resting: dict[GroupKey, None] = {}
        """PodGroups that could not be enqueued. They are not planned until that is tried again."""
        self._retries = Timers()

    def job_seen(self, event: GroupJobSeen, now: float) -> None:
        before, self.jobs[event.job.uid] = self.jobs.get(event.job.uid), event.job
        if before != event.job and (group := self._made_by(event.job.uid)) is not None:
            self.record(group, now)

    def job_gone(self, event: GroupJobGone, _now: float) -> None:
        if self.jobs.pop(event.uid, None) is not None:
            self._mark_dirty(event.key)

    def record(self, group: PodGroup, now: float) -> None:
        """Handle a PodGroup that is new or has changed, or whose job has."""
        if group.job is None:
            return
        self._group_of[group.job.uid] = group.key
        if group.pending:
            self._pod_deadlines.pop(group.key, None)
        elif self._enqueuing.get(group.key) == group.uid:
            self._await_pods(group.key, now)
        if not group.pending or self._enqueuing.get(group.key) != group.uid:
            self._enqueuing.pop(group.key, None)
        if self._process.synced:
            self._look_at(group)

    def _look_at(self, group: PodGroup) -> None:
        """Have the PodGroup planned, or enqueue it if it cannot be planned before its pods exist."""
        if self._job(group) is None:
            return
        if self._podsets(group) is not None:
            if group.pending or group.key in self._pod_deadlines:
                workload = self._store.workloads.get(group.key) or self._store.add(group.key)
                if workload.group is None:
                    workload.follow(group)
            self._mark_dirty(group.key)
        elif group.pending:
            self._ask(group)

    def begin(self, now: float) -> None:
        """Handle all PodGroups, after every list was read and before anything is settled.

        PodGroups that were enqueued before the restart may still get pods. A gang that has started gets no more, even
        if its PodGroup does not show the start.
        """
        for group in self._store.groups.values():
            workload = self._store.workloads.get(group.key)
            if group.starting and self._job(group) is not None and not (workload and _has_started(workload)):
                self._await_pods(group.key, now)
            self._look_at(group)

    def gone(self, group: PodGroup) -> None:
        """Forget a PodGroup that is gone."""
        if group.job is not None:
            self._group_of.pop(group.job.uid, None)
            self._enqueuing.pop(group.key, None)
            self._pod_deadlines.pop(group.key, None)
            self._resting.pop(group.key, None)
            self._failures.pop(group.key, None)
            self._creation.forget(group.key)

    def expected_podsets(self, workload: Workload, now: float) -> PodSets | None:
        """The pods to expect; None once the gang has started, or its next pod is late.

        Also None while a pod of its job is relabelled into another gang, or pods of an earlier PodGroup of its name are
        bound. Their controller makes no others.
        """
        group = workload.group
        if group is None or group.key in self._resting or (podsets := self._podsets(group)) is None:
            return None
        if (group.job is not None and self._moved_pods.of(group.job.uid, group.key)) or _has_former(workload):
            return None
        started = workload.release.complete or workload.members.started
        if not group.pending and (started or now >= self._pod_deadlines.get(workload.key, now)):
            if self._pod_deadlines.pop(workload.key, None) is not None and not started:
                if workload.members.slots.planned:
                    in_full = not self._failed_creation.on_probation(workload.key.namespace)
                    self._expected.fail_creation(workload, now, in_full=in_full)
                workload.reason_state.note(
                    now, "some of its pods have not come in time: those that come are planned then"
                )
            return None
        return podsets

    def podsets_of(self, workload: Workload) -> PodSets | None:
        """The podsets of its PodGroup, if it can be planned before its pods exist."""
        return None if workload.group is None else self._podsets(workload.group)

    def settle(self, workload: Workload, now: float) -> None:
        """Enqueue the PodGroup once each pod that has to start has a node."""
        group, slots = workload.group, workload.members.slots
        if group is None or group.job is None:
            return
        whole = bool(slots.planned) and workload.has_promised_quorum and not workload.filling
        if group.pending and whole and self._process.recovered:
            self._ask(group)
        awaited = group.key in self._enqueuing or group.key in self._pod_deadlines
        doubtful = self._failed_creation.on_probation(workload.key.namespace)
        self._creation.wait_for(workload.key, len(slots.planned) if awaited else 0, now, may_never_come=doubtful)

    def slot_filled(self, workload: Workload, now: float) -> None:
        """Record that a pod has filled a slot, which gives the missing ones more time."""
        if workload.key in self._pod_deadlines:
            self._creation.count_created(now)
            if not workload.members.slots.planned:
                self._expected.cure_creation(workload)
            self._await_pods(workload.key, now)

    def deadlines(self, workload: Workload, now: float) -> list[float]:
        """The deadline for the next pod. After it the watch may still have to show that the PodGroup was enqueued."""
        at = self._pod_deadlines.get(workload.key, now)
        return [at] if at > now else []

    def ended(self, event: Enqueued, now: float) -> None:
        """Handle the outcome of enqueuing a PodGroup."""
        if not event.detail:
            self._failures.pop(event.key, None)
            self._await_pods(event.key, now)
            self._retries.set(event.key, now + _SHOWN_S)
        else:
            self._enqueuing.pop(event.key, None)
            self._resting[event.key] = None
            times = self._failures[event.key] = self._failures.get(event.key, 0) + 1
            self._retries.set(event.key, now + pause_s(times, _FIRST_S, _LONGEST_S))
        self._mark_dirty(event.key)

    def retry(self, now: float) -> None:
        """Handle PodGroups whose pause is over, or that the watch should show as enqueued."""
        for key in self._retries.due(now):
            group = self._group(key)
            self._resting.pop(key, None)
            if group is not None and group.pending:
                self._enqueuing.pop(key, None)
                self.record(group, now)
            else:
                self._failures.pop(key, None)

    def next_retry(self) -> float | None:
        return self._retries.first()

    def _ask(self, group: PodGroup) -> None:
        if group.key not in self._enqueuing and group.key not in self._resting:
            self._enqueuing[group.key] = group.uid
            self._outbox.append(Enqueue(group.key, group.uid))

    def _await_pods(self, key: GroupKey, now: float) -> None:
        doubtful = self._failed_creation.on_probation(key.namespace)
        self._pod_deadlines[key] = (
            now + self._creation.takes_s() + (PROBATION_S if doubtful else self._limits.creation_s)
        )

    def _job(self, group: PodGroup) -> GroupJob | None:
        """The job that makes the group's pods; None if it has none, or is being deleted."""
        return None if group.job is None or group.deleting else self.jobs.get(group.job.uid)

    def _podsets(self, group: PodGroup) -> PodSets | None:
        """The podsets that it is planned as before its pods exist; None: it has to be enqueued first."""
        job = self._job(group)
        plannable = job is not None and job.key == group.key and bool(job.podsets.podsets)
        return job.podsets if job is not None and plannable and not self._advising else None

    def _made_by(self, job: str) -> PodGroup | None:
        key = self._group_of.get(job)
        return None if key is None else self._group(key)

    def _group(self, key: GroupKey) -> PodGroup | None:
        return self._store.groups.get((key, Dialect.VOLCANO))

    def _mark_dirty(self, key: GroupKey) -> None:
        if (workload := self._store.workloads.get(key)) is not None:
            self._store.mark_dirty(workload)


def _has_started(workload: Workload) -> bool:
    """Whether a pod of the present PodGroup was released, even if all of its pods have ended since."""
    return any(member.pod.stamp is not None and workload.members.is_ours(member.pod) for member in workload.members)


def _has_former(workload: Workload) -> bool:
    """Whether pods exist that an earlier PodGroup of the same name has bound."""
    members = workload.members
    return len(members) > len(members.live) and any(
        member.pod.live and not members.is_ours(member.pod) for member in members
    )


@dataclass(eq=False)
class Owners:
    """Owners whose pods form a gang, such as StatefulSets, and the pods that they will make.

    A pod of the owner dialect declares what its owner does, and counts as its owner's pod. The pods of a Deployment
    have another ReplicaSet after each rollout, and those of a LeaderWorkerSet one of two StatefulSets.
    """

    _store: Store
    _room: Room
    _claims: Claims
    _pending: Pending
    _steering: Steering

    def __post_init__(self) -> None:
        self.known: dict[GroupKey, GangOwner] = {}
        self._gangs: dict[GroupKey, dict[GroupKey, tuple[str, PodSets] | None]] = {}
        """The gangs of each owner, whether it is known or not, and the expected pods of each gang.

        Those are worked out from the newest pod, whose UID is kept with them: it shows what the API server adds.
        """
        self._owner_of: dict[GroupKey, GroupKey] = {}

    def see(self, owner: GangOwner) -> list[Pod]:
        """Handle an owner that is new or has changed. Returns its pods with its new declarations."""
        if (before := self.known.get(owner.key)) == owner:
            return []
        self.known[owner.key] = owner
        pods = [member.pod for workload in self._renewed(owner.key) for member in workload.members]
        return [self.claimed(_without(pod, before.problem if before is not None else "")) for pod in pods]

    def gone(self, key: GroupKey, uid: str) -> None:
        """Forget an owner that is gone. Its pods stay as they are, and are mostly deleted, too."""
        if (known := self.known.get(key)) is not None and known.uid == uid:
            del self.known[key]
            self._renewed(key)

    def claimed(self, pod: Pod) -> Pod:
        """The pod with the declarations of its owner, if that is known."""
        ref = pod.group
        if ref is None or not ref.owner or pod.group_key is None:
            return pod
        key = GroupKey(pod.namespace, ref.owner)
        self._owner_of[pod.group_key] = key
        self._gangs.setdefault(key, {}).setdefault(pod.group_key)
        if (owner := self.known.get(key)) is None:
            return pod
        size = ref.min_member if owner.minimum is None else owner.minimum
        problem = ref.problem or owner.problem or None
        ref = ref._replace(min_member=size, problem=problem, restarts=owner.restarts, queue=owner.queue)
        return replace(pod, owner=owner.uid, controller=owner.controller, group=ref)

    def take_later_room(self, workload: Workload, now: float) -> None:
        """Give a waiting pod the node reserved for a later wave: the later pod is created only once this one runs."""
        slots, members = workload.members.slots, workload.members
        for slot in list(slots.lacking) if slots.planned else ():
            pod = members.pod_for(slot)
            member = members.get(pod.uid)
            waits = member is not None and member.state is MemberState.WAITING and not pod.foreign_gates
            later = self._later_slot(workload, slot, pod) if waits else None
            if member is not None and later is not None:
                node, turn = slots.planned[later], slots.turns.get(later, 0)
                self._room.assume_slot(workload, later, "")
                self._steering.await_uptake(workload, now)
                self._steering.promise(workload, member, node, turn)

    def _later_slot(self, workload: Workload, slot: SlotKey, pod: Pod) -> SlotKey | None:
        """The last planned slot of a later wave whose pod asks for the same, on a node that is open to ``pod``; else
        None.

        The pod may be pinned to some nodes, which the planned slots are not.
        """
        slots, claims, asks = workload.members.slots, self._claims, workload.constrained(pod)
        if slot not in slots.templates:
            return None
        later = [planned for planned in slots.planned if slots.templates[planned].wave > slots.templates[slot].wave]
        there = [planned for planned in later if claims.admits(slots.planned[planned], asks.selection)]
        alike = (
            planned for planned in there if _amounts(workload.constrained(slots.templates[planned])) == _amounts(asks)
        )
        return max(alike, default=None)

    def forget(self, key: GroupKey) -> None:
        """Forget a gang that is gone."""
        if (owner := self._owner_of.pop(key, None)) is not None:
            del self._gangs[owner][key]
            if not self._gangs[owner]:
                del self._gangs[owner]

    def _renewed(self, key: GroupKey) -> list[Workload]:
        """The gangs of a changed owner. Their expected pods are worked out again."""
        gangs = self._gangs.get(key, {})
        workloads = [workload for gang in gangs if (workload := self._store.workloads.get(gang)) is not None]
        for workload in workloads:
            gangs[workload.key] = None
            self._pending.wake(Own(workload.key, recompute=True))
        return workloads

    def remakes(self, workload: Workload) -> bool:
        """Whether its owner exists and makes its pods again when they are gone."""
        key = self._owner_of.get(workload.key)
        owner = self.known.get(key) if key is not None else None
        return owner is not None and not owner.ends

    def expected_podsets(self, workload: Workload) -> PodSets | None:
        """The pods to expect: while the gang has a pod, all that its owner makes in order."""
        key, newest = self._owner_of.get(workload.key), workload.members.newest
        owner = self.known.get(key) if key is not None else None
        if owner is None or owner.podset is None or newest is None:
            return None
        gangs = self._gangs[owner.key]
        if (worked_out := gangs[workload.key]) is None or worked_out[0] != newest.uid:
            podset, gang = owner.podset, GroupRef(workload.key.name, Dialect.OWNER, owner=owner.key.name)
            # The leader of a group of a LeaderWorkerSet has the name of the group.
            kind, grouped = owner.controller.kind, podset.order is Order.LEADER_FIRST
            stem = workload.key.name.removeprefix(f"{kind.lower()}-")
            pod = podset.template if podset.leader is None or newest.index else podset.leader

            def like(template: Pod) -> Pod:
                """A template with the facts of the newest pod. It has no gates: pods get them when they are created."""
                made = carried_over(template, pod, newest)
                makers = tuple(claim_maker._replace(stem=stem, bare=grouped) for claim_maker in template.claim_makers)
                return replace(made, series=newest.series, group=gang, gates=(), claim_makers=makers)

            leader = None if podset.leader is None else like(podset.leader)
            made = replace(podset, template=like(podset.template), leader=leader)
            worked_out = gangs[workload.key] = newest.uid, PodSets(workload.key, (made,))
        return worked_out[1]


def fills_up(workload: Workload) -> bool:
    """Whether pods will come for which room was kept.

    Either the workload runs, and its owner makes them then, or its PodGroup was enqueued.
    """
    if workload.job is not None or workload.podsets is None:
        return False
    return workload.release.complete or (workload.group is not None and not workload.group.pending)


def _amounts(pod: Pod) -> MemberShape:
    """The pod's demand, apart from which nodes it may use."""
    return shape_of(replace(pod, selection=ANY_NODE))


def _without(pod: Pod, problem: str) -> Pod:
    """The pod without the problem that its owner had."""
    if pod.group is None or pod.group.problem != problem:
        return pod
    return replace(pod, group=pod.group._replace(problem=None))


@dataclass(eq=False)
class PodMakers:
    """Sets the expected pods of a workload, from its owner or its PodGroup, whenever it is settled."""

    _expected: ExpectedPods
    _owners: Owners
    _enqueues: Enqueues

    def to_come(self, workload: Workload) -> PodSets | None:
        """The podsets of its job, its owner or its PodGroup, of which it is to expect pods once it is settled."""
        if workload.job is not None:
            return None if workload.job.seen.finished else workload.job.seen.podsets
        return self._owners.expected_podsets(workload) or self._enqueues.podsets_of(workload)

    def settle(self, workload: Workload, now: float) -> None:
        """Set the workload's slots to its existing and expected pods."""
        if workload.job is not None:
            return
        workload.follow_owner(remakes=self._owners.remakes(workload))
        podsets = self._owners.expected_podsets(workload) or self._enqueues.expected_podsets(workload, now)
        self._expected.expect(workload, podsets)
        self._owners.take_later_room(workload, now)
        self._enqueues.settle(workload, now)

    def deadlines(self, workload: Workload, now: float) -> list[float]:
        """When the workload has to be looked at again."""
        return self._enqueues.deadlines(workload, now)

    def forget(self, key: GroupKey) -> None:
        """Forget a workload that is gone."""
        self._owners.forget(key)
