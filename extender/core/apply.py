"""Apply what the watches show to the ledger: pods, nodes, PodGroups, jobs, owners and namespaces. The first step."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import NamedTuple, get_args

from extender.core.answers import BindingPosted, Nominated, Outcome, Ungated
from extender.core.calls import Calls
from extender.core.effects import Nominate, RevokedFor, Ungate
from extender.core.events import (
    BudgetGone,
    BudgetSeen,
    DeviceClaimGone,
    DeviceClaimSeen,
    DeviceClassGone,
    DeviceClassSeen,
    DeviceEvent,
    GroupGone,
    GroupJobGone,
    GroupJobSeen,
    GroupSeen,
    Handlers,
    JobGone,
    JobSeen,
    NamespaceGone,
    NamespaceSeen,
    NativeGangGone,
    NativeGangSeen,
    NodeGone,
    NodeSeen,
    OwnerGone,
    OwnerSeen,
    PodGone,
    PodSeen,
    PodsSeen,
    QueueGone,
    QueueSeen,
    VolumeEvent,
)
from extender.core.explain.telling import Hints
from extender.core.gate.allocations import Allocations
from extender.core.gate.binding import Bindings, UnknownBinding
from extender.core.gate.refusals import Refusals, refused_by_plugins, refused_unawares
from extender.core.gate.revocations import Revocations
from extender.core.gate.steering import Repeats, Steering
from extender.core.jobs.elastic import ungated_pod
from extender.core.jobs.jobs import Jobs
from extender.core.jobs.makers import Enqueues, Owners
from extender.core.ledger.budgets import DisruptionBudgets
from extender.core.ledger.claims import Claim, Claims
from extender.core.ledger.cliques import Cliques
from extender.core.ledger.creation import FailedCreation
from extender.core.ledger.device_users import DeviceUsers
from extender.core.ledger.devices import Devices
from extender.core.ledger.kube_scheduler import KubeQueue
from extender.core.ledger.pending import Changes, Nodes, Own, Pending
from extender.core.ledger.preemptions import Preemptions
from extender.core.ledger.quotas import Quotas
from extender.core.ledger.room import Room
from extender.core.ledger.singles import WaitingSingles
from extender.core.ledger.store import Namespaces, Outbox, Process, Store
from extender.core.ledger.volumes import Volumes
from extender.core.lifecycle import Lifecycle, Recovery
from extender.core.limits import Limits
from extender.core.workload.members import Member, MemberState, means
from extender.core.workload.release import BindCalls
from extender.core.workload.workload import Workload
from policies.model import GANG_GATE, GroupKey, Pod, PodGroup, stamped_group


@dataclass(eq=False)
class Apply:
    """Passes each fact about nodes, PodGroups, jobs and owners to the workload that it concerns, and marks it dirty."""

    _limits: Limits
    _store: Store
    _claims: Claims
    _quotas: Quotas
    _preemptions: Preemptions
    _volumes: Volumes
    _namespaces: Namespaces
    _budgets: DisruptionBudgets
    _devices: Devices
    _device_users: DeviceUsers
    _cliques: Cliques
    _allocations: Allocations
    _failed_creation: FailedCreation
    _changes: Changes
    _pending: Pending
    _singles: WaitingSingles
    _revocations: Revocations
    _hints: Hints
    _steering: Steering
    _enqueues: Enqueues
    _jobs: Jobs
    _owners: Owners
    _recovery: Recovery
    _pods_seen: PodFacts

    def __post_init__(self) -> None:
        self._successors: dict[GroupKey, GroupSeen] = {}
        """PodGroups that were created again before the start of an earlier one of their name has ended."""
        self._leaving: dict[GroupKey, str] = {}
        """Why workloads lose what was promised to them for their PodGroup, as soon as no member is being bound."""

    @property
    def handlers(self) -> Handlers:
        """The handlers by the type of the event."""
        return {
            NodeSeen: self.node_seen,
            NodeGone: self.node_gone,
            GroupSeen: self.group_seen,
            GroupGone: self.group_gone,
            JobSeen: self.job_seen,
            JobGone: self.job_gone,
            OwnerSeen: self.owner_seen,
            OwnerGone: self.owner_gone,
            NativeGangSeen: self.native_gang_seen,
            NativeGangGone: lambda event, _: self._singles.natives.gang_gone(event.key, event.uid),
            NamespaceSeen: self.namespace_noted,
            NamespaceGone: self.namespace_noted,
            GroupJobSeen: self._enqueues.job_seen,
            GroupJobGone: self._enqueues.job_gone,
            BudgetSeen: self.budget_noted,
            BudgetGone: self.budget_noted,
            **dict.fromkeys(get_args(DeviceEvent), self.device_noted),
            **dict.fromkeys(get_args(VolumeEvent), self.volume_noted),
            QueueSeen: self._quotas.queues.note,
            QueueGone: self._quotas.queues.note,
        }

    def node_seen(self, event: NodeSeen, now: float) -> None:
        node = self._cliques.seen(event.node)
        if (before := self._claims.nodes.get(node.name)) == node:
            return
        self._claims.set_node(node)
        self._jobs.node_changed(node.name, now)
        self._revocations.check(node.name, now, relabelled=before is not None and before.labels != node.labels)

    def node_gone(self, event: NodeGone, now: float) -> None:
        self._cliques.gone(event.name)
        self._claims.drop_node(event.name)
        self._jobs.node_changed(event.name, now)
        self._revocations.check(event.name, now)

    def group_seen(self, event: GroupSeen, now: float) -> None:
        group = event.group
        self._recovery.recover_workload(group.key, now)
        if self._store.groups.get((group.key, group.dialect)) == group:
            return  # Muster's own reports change the object, too
        workload = self._meant_by(group)
        if workload is not None and _is_another(workload, group) and self._is_starting(workload):
            if (earlier := self._store.groups.get((group.key, group.dialect))) is not None:
                self.group_gone(GroupGone(earlier.key, earlier.uid, earlier.dialect), now)
            self._successors[group.key] = event
            self._leaving[group.key] = "its PodGroup was created again"
            return
        self._store.groups[group.key, group.dialect] = group
        self._enqueues.record(group, now)
        if (workload := self._meant_by(group)) is None:
            return
        another, started = _is_another(workload, group), workload.members.started
        workload.follow(group)
        self._store.mark_dirty(workload)
        if another or (started and not workload.members.started):
            workload.release.start_anew()
            self._revocations.revoke(workload, "its PodGroup was created again", now, RevokedFor.PODGROUP_CHANGED)
        elif group.deleting:
            self._leaving[group.key] = "its PodGroup is being deleted"

    def _meant_by(self, group: PodGroup) -> Workload | None:
        """The workload that the PodGroup belongs to; None if there is none."""
        if (workload := self._store.workloads.get(group.key)) is None:
            return None
        meant = _followed(workload, group) or any(means(member.pod, group) for member in workload.members)
        return workload if meant else None

    def follow_groups(self, now: float) -> None:
        """Follow PodGroups that were created again, where the start of the earlier one is over.

        Workloads leave a PodGroup that ends, where no member is being bound.
        """
        if not (self._successors or self._leaving):
            return
        workloads = self._store.workloads
        over = [key for key in self._successors if not ((of := workloads.get(key)) and self._is_starting(of))]
        for key in over:
            self._leaving.pop(key, None)
            self.group_seen(self._successors.pop(key), now)
        for key in [key for key in self._leaving if not ((of := workloads.get(key)) and of.releasing)]:
            why = self._leaving.pop(key)
            if (workload := workloads.get(key)) is not None:
                self._leave_group(workload, why, now)

    def _leave_group(self, workload: Workload, why: str, now: float) -> None:
        """Revoke what was promised for the PodGroup, which is gone or about to go."""
        key, group = workload.key, workload.group
        if group is not None and (key, group.dialect) not in self._store.groups:
            workload.follow(None)
        if key in self._successors:  # its start is in part, and no replacement completes it any more
            workload.release.break_off(now - self._limits.partial_s, workload.release.partial_count)
        self._revocations.revoke(workload, why, now, RevokedFor.PODGROUP_CHANGED)

    def _is_starting(self, workload: Workload) -> bool:
        """Whether members are being bound, or are bound in part and evicted unless the others come."""
        broken = workload.release.partial_since is not None and self._limits.evict_partial
        return workload.releasing or broken

    def group_gone(self, event: GroupGone, now: float) -> None:
        key = event.key
        if key in self._successors and self._successors[key].group.uid == event.uid:
            del self._successors[key]
        self._recovery.recover_workload(key, now)
        if (known := self._store.groups.get((key, event.dialect))) is None or known.uid != event.uid:
            return
        del self._store.groups[key, event.dialect]
        self._enqueues.gone(known)
        workload = self._store.workloads.get(key)
        if workload is not None and workload.group is not None and workload.group.uid == event.uid:
            self._leaving[key] = "its PodGroup was deleted"
            self._store.mark_dirty(workload)

    def native_gang_seen(self, event: NativeGangSeen, now: float) -> None:
        """Handle a gang's PodGroup, made by the Job controller. The watch may show its pods before."""
        natives = self._singles.natives
        if natives.gang_seen(event.key, event.uid):
            for uid in natives.uids(event.key):
                self._pods_seen.record_claimed(self._store.pods[uid], now)

    def job_seen(self, event: JobSeen, now: float) -> None:
        self._recovery.recover_workload(event.job.key, now)
        self._jobs.naming.seen(event.job, now)
        self._hints.consider_job(event.job, now)

    def job_gone(self, event: JobGone, now: float) -> None:
        self._recovery.recover_workload(event.key, now)
        self._jobs.naming.gone(event.key, event.uid, now)

    def owner_seen(self, event: OwnerSeen, now: float) -> None:
        for pod in self._owners.see(event.owner):
            self._pods_seen.record(pod, now)

    def owner_gone(self, event: OwnerGone, _: float) -> None:
        self._owners.gone(event.key, event.uid)

    def namespace_noted(self, event: NamespaceSeen | NamespaceGone, now: float) -> None:
        """Record the namespace. ClusterQueues and pod affinity terms choose namespaces by their labels.

        Nothing starts in a namespace that is being deleted.
        """
        labels = event.labels if isinstance(event, NamespaceSeen) else ()
        if isinstance(event, NamespaceSeen) and self._namespaces.labels.get(event.name) != labels:
            self._quotas.queues.relabelled()
        if self._namespaces.changes(event):
            self._jobs.namespace_changed(event.name, now)
        if self._namespaces.note(event):
            for workload in [
                workload for key, workload in self._store.workloads.items() if key.namespace == event.name
            ]:
                self._pending.wake(Own(workload.key, recompute=True))
        if isinstance(event, NamespaceGone):
            self._failed_creation.namespace_gone(event.name)
        changed = [
            tenants.describe(event.name, labels) for tenants in (self._claims.tenants, self._singles.nominated_tenants)
        ]
        if any(changed) and self._changes.has_affinity_waiters:
            # Workloads that wait may have affinity to other pods now, be kept away by others, or be so no longer.
            self._pending.wake(Nodes())

    def volume_noted(self, event: VolumeEvent, now: float) -> None:
        """Update pods whose claims have changed, and wake workloads that wait for volumes if some came free."""
        changed = self._volumes.note(event)
        for claim in changed:
            uids = list(self._volumes.users.get(claim, ()))
            for uid in uids:
                workload = self._update_pod(uid, now)
                if workload is not None and workload.members.placed:
                    self._steering.storage_seen(workload, now)
            self._device_users.ask_again(uids, self._volumes)
        if changed:
            self._device_users.look_at_jobs(self._volumes)
        if self._volumes.refresh():
            self._pending.wake(Nodes())
        self._device_users.wake_for_grown(self._volumes)

    def _update_pod(self, uid: str, now: float) -> Workload | None:
        """Update a pod whose claims have changed, and wake its workload if it waits. Returns the workload."""
        self._pods_seen.record(self._store.pods[uid], now)
        member = self._store.member(uid)
        workload = None if member is None else member[0]
        if workload is not None and workload.key in self._pending.keys:
            self._pending.wake(Own(workload.key, recompute=True))
        return workload

    def budget_noted(self, event: BudgetSeen | BudgetGone, _: float) -> None:
        if self._budgets.note(event):
            self._preemptions.note_quota_change()

    def device_noted(self, event: DeviceEvent, now: float) -> None:
        """Update pods whose claims have changed, and wake workloads that wait for room if devices came free."""
        may_concern_jobs = self._devices.may_concern_jobs(event)
        uids = [uid for uid in self._devices.note(event) if uid in self._store.pods]
        if isinstance(event, DeviceClaimSeen | DeviceClaimGone):
            self._allocations.note(event)
            # Devices of a lost member may be free now, to be kept for its replacement.
            self._store.mark_keys_dirty(self._devices.take_relieved())
        if isinstance(event, DeviceClassSeen):
            # The class may offer a resource that pods have asked for before.
            uids = [uid for uid, pod in self._store.pods.items() if self._devices.concerns(pod)]
        for uid in uids:
            self._update_pod(uid, now)
        self._device_users.ask_again(uids, self._devices)
        if may_concern_jobs:
            self._device_users.look_at_jobs(self._devices)
        if isinstance(event, DeviceClassSeen | DeviceClassGone):
            self._pending.wake(Nodes())

    def follow_cliques(self, now: float) -> None:
        """Remove nodes from their last clique if no pod uses GPUs there since their label vanished."""
        for node in self._cliques.take_left():
            self.node_seen(NodeSeen(node), now)

    def follow_devices(self, now: float) -> None:
        """Update pods whose requests for devices may have changed, and revoke promises where devices or volumes
        went."""
        if self._volumes.offers.changed:
            for node in self._volumes.offers.take_shrunk():
                self._revocations.revoke_newest(node, now, "has fewer volumes")
        if not self._devices.has_news:
            return
        for uid in (stale := self._devices.take_stale()):
            self._pods_seen.record(self._store.pods[uid], now)
        self._device_users.ask_again(stale, self._devices)
        self._device_users.wake_for_grown(self._devices)
        for node in self._devices.offers.take_shrunk():
            self._revocations.revoke_newest(node, now, "has lost devices")


def _is_another(workload: Workload, group: PodGroup) -> bool:
    """Whether the workload belonged to an earlier PodGroup of that name."""
    before = workload.group.uid if workload.group is not None else workload.previous_group_uid
    return bool(before) and before != group.uid


def _followed(workload: Workload, group: PodGroup) -> bool:
    """Whether the workload belongs to that PodGroup, or an earlier one of its name, even without pods."""
    return workload.group is not None and workload.group.dialect is group.dialect


class PodChange(NamedTuple):
    """A pod as it is recorded, with what is known from before.

    ``old``: the pod before, in the same gang. ``known``: the pod before, in any gang.
    ``had``: its room before.
    ``moved``: whether it has left another gang.
    ``unknown_binding``: the Binding of that gang, if its outcome is unknown.
    """

    pod: Pod
    old: Pod | None
    known: Pod | None
    had: Claim | None
    now: float
    moved: bool
    unknown_binding: UnknownBinding | None

    @property
    def newly_bound(self) -> bool:
        return bool(self.pod.node) and (self.old is None or not self.old.node)


@dataclass(eq=False)
class PodFacts:
    """Records what the watch shows of pods, in whatever gang they are."""

    _schedulers: tuple[str, ...]
    _process: Process
    _store: Store
    _outbox: Outbox
    _claims: Claims
    _singles: WaitingSingles
    _kube_queue: KubeQueue
    _binds: BindCalls
    _revocations: Revocations
    _bindings: Bindings
    _calls: Calls
    _hints: Hints
    _owners: Owners
    _recovery: Recovery
    _members: MemberFacts

    def __post_init__(self) -> None:
        # For its gang: the Binding that is under way for the pod, then the member, then the room of a lost one.
        self._gang_followers = self._take_over, self._pass_to_member, self._reserve_room, self._follow_release
        # Then for others: a member that is bound as planned has the room that was promised to it.
        self._followers = (
            self._revoke_taken_room,
            # Calls and hints last: their answers depend on all of that.
            self._bind_unseen,
            self._take_up_refusal,
            self._hint,
        )

    @property
    def handlers(self) -> Handlers:
        """The handlers by the type of the event."""
        return {
            PodSeen: lambda event, now: self.seen(event.pod, now),
            PodsSeen: self.seen_together,
            PodGone: self.gone,
            BindingPosted: self.posted,
        }

    def seen_together(self, event: PodsSeen, now: float) -> None:
        for pod in event.pods:
            self._process.subject = pod.uid
            self.seen(pod, now)
        self._process.subject = None

    def seen(self, pod: Pod, now: float) -> None:
        """Record a pod as the watch shows it."""
        if pod.node:
            self._kube_queue.note_bound(pod, self._store.pods.get(pod.uid), self._schedulers, now)
            self._store.confirm_bound(pod.uid)
        self.record_claimed(self._owners.claimed(pod), now)

    def record_claimed(self, pod: Pod, now: float) -> None:
        """Record a pod; one whose Job asks for a native gang is in its native group."""
        known = self._store.pods.get(pod.uid)
        pod = self._singles.natives.claimed(pod)
        if pod.native_group and GANG_GATE in pod.gates and not (known and known.native_group):
            # The admission policy cannot know what the pod's Job asks for.
            self._outbox.append(Ungate(pod.uid, pod.namespace, pod.name))
        self.record(pod, now)

    def record(self, pod: Pod, now: float) -> None:
        """Record a pod as the watch shows it, or as it is known with a changed fact."""
        if not pod.node and (done := self._store.bound_by_us.get(pod.uid)):
            # A watch event from before Muster's Binding must not unbind the pod, nor move it out of the gang that was
            # bound.
            pod = pod.bound(done.node, done.stamp)
        self._recovery.recover_workload(pod.group_key, now)
        known = self._store.pods.get(pod.uid)
        if known is not None and known.group_key != pod.group_key:
            unknown_binding = self._leave(pod, now)
            self._apply(pod, now, known, moved=True, unknown_binding=unknown_binding)
        else:
            self._apply(pod, now, known)

    def _leave(self, pod: Pod, now: float) -> UnknownBinding | None:
        """Remove the pod from its old gang, after an edit of its labels. Returns its Binding of unknown outcome, if
        any."""
        member, unknown_binding = self._store.member(pod.uid), self._bindings.unknown_binding_of(pod.uid)
        nominated = member is not None and member[1].nominated
        self._drop(pod.uid, now)
        if nominated and pod.live and not pod.node:
            # No other code clears the nomination: its write may not be out yet.
            self._outbox.append(Nominate(pod.uid, pod.namespace, pod.name, None))
        return unknown_binding

    def posted(self, event: BindingPosted, now: float) -> None:
        """Handle the outcome of a Binding. A pod that an edit has moved goes back to the gang that its Binding
        names."""
        pod, binding = self._store.pods.get(event.uid), self._binds.writing.get(event.uid)
        if event.outcome is Outcome.DONE and pod is not None and binding is not None and not pod.node:
            bound_in = stamped_group(pod.group, binding.stamp)
            if bound_in != pod.group:
                self.record(replace(pod, group=bound_in), now)
        self._bindings.posted(event, now)

    def gone(self, event: PodGone, now: float) -> None:
        pod, had, entry = self._store.pods.get(event.uid), self._claims.get(event.uid), self._store.member(event.uid)
        self._drop(event.uid, now)
        self._store.confirm_bound(event.uid)
        if pod is not None and had is not None and entry is not None and not had.promised:
            self._revocations.reserve_room(entry[0], pod, had, now)

    def _drop(self, uid: str, now: float) -> None:
        """Forget the pod, after its gang has lost it. Whether Muster has bound it stays known."""
        if (pod := self._store.pods.get(uid)) is None:
            return
        self._recovery.recover_workload(pod.group_key, now)
        unseen = self._binds.unseen.get(uid)
        if pod.live:
            self._apply(replace(pod, deleting=True), now, pod)
        self._store.drop_pod(uid)
        if unseen is not None:
            self._binds.await_pod(unseen[0], now)

    def _apply(
        self,
        pod: Pod,
        now: float,
        known: Pod | None,
        *,
        moved: bool = False,
        unknown_binding: UnknownBinding | None = None,
    ) -> None:
        """Record the pod with the consequences in the ledger, then those for its gang and for others."""
        had = self._claims.get(pod.uid)
        old = self._store.put_pod(pod)
        pod = self._store.pods[pod.uid]
        change = PodChange(pod, old, known, had, now, moved, unknown_binding)
        if (member := self._store.member(pod.uid)) is not None:
            for follow_member in self._gang_followers:
                follow_member(*member, change)
        elif moved:
            self._bindings.left_gang(pod, unknown_binding)
        for follow in self._followers:
            follow(change)

    def _take_over(self, workload: Workload, member: Member, change: PodChange) -> None:
        """Continue the Binding of the gang that the pod has left."""
        if change.moved:
            self._bindings.moved_in(workload, member, change.now, change.unknown_binding)

    def _pass_to_member(self, workload: Workload, member: Member, change: PodChange) -> None:
        """Pass the pod to its member."""
        self._members.seen(workload, member, change.old, change.now)

    def _reserve_room(self, workload: Workload, _: Member, change: PodChange) -> None:
        """Keep the room of an ended member for its replacement."""
        if change.pod.terminal and change.had is not None and not change.had.promised:
            self._revocations.reserve_room(workload, change.pod, change.had, change.now)

    def _follow_release(self, workload: Workload, member: Member, change: PodChange) -> None:
        """Continue a release of an earlier process, whose Binding is shown."""
        if change.newly_bound:
            _take_up_release(workload, member, change.now)

    def _revoke_taken_room(self, change: PodChange) -> None:
        """Revoke promises on the pod's node whose room it has taken."""
        if change.pod.node and (change.old is None or change.old.node != change.pod.node):
            self._revocations.revoke_newest(change.pod.node, change.now)

    def _bind_unseen(self, change: PodChange) -> None:
        """Handle the bind call that came before the watch has shown the pod."""
        if change.old is None and (unseen := self._binds.stop_awaiting(change.pod.uid)) is not None:
            self._calls.bind(unseen, change.now)

    def _take_up_refusal(self, change: PodChange) -> None:
        """Take up what Muster has refused the pod before it came, or in the gang that it has left."""
        if change.old is None and self._process.recovered:
            self._calls.take_up_refusal(change.pod)

    def _hint(self, change: PodChange) -> None:
        """Report mistakes in the pod's annotations to its owner."""
        if change.known is None or change.known.hint != change.pod.hint:
            self._hints.consider(change.pod, change.now, changed=change.known is not None)


@dataclass(eq=False)
class MemberFacts:
    """Passes what a pod shows to its member: the slot that it fills, its Binding, its end, its refusals."""

    _room: Room
    _claims: Claims
    _steering: Steering
    _revocations: Revocations
    _bindings: Bindings
    _refusals: Refusals
    _lifecycle: Lifecycle
    _jobs: Jobs
    _enqueues: Enqueues

    def seen(self, workload: Workload, member: Member, old: Pod | None, now: float) -> None:
        pod = member.pod
        if old is None:
            self._jobs.created(workload, pod)
        self._fill_slot(workload, member, now)
        if workload.seen_at is None and old is None and not workload.release.complete:
            workload.begin(now)
        if pod.node and (old is None or not old.node):
            self._jobs.upkeep.bound(workload, member, now)
            self._revocations.note_bound(workload, member, pod.node)
            self._bindings.bound(workload, member)
        if not pod.live and (old is None or old.live):
            self._lifecycle.lost(workload, member, now)
        elif old is not None and not pod.node and refused_by_plugins(member, old):
            self._refusals.refused(workload, member, now)
        elif pod.live:
            workload.members.show(member)
        if old is not None and pod.refusal != old.refusal:
            self._refusals.heard(workload, member, now)
        if member.placed and old is not None and pod.selection != old.selection:
            self._revocations.recheck(workload, member)
        if not pod.node:
            self._nomination_seen(workload, member, old, now)
        self._steering.watch_updated(workload, member)

    def _fill_slot(self, workload: Workload, member: Member, now: float) -> None:
        """Give the pod the node that its slot is planned for.

        Not if the pod is bound or asks for something else, or other pods have taken the room. A pod of a job gets its
        node even then: it was created for that node.
        """
        slots, slot = workload.members.slots, member.pod.identity
        node, template = slots.planned.get(slot), slots.templates.get(slot)
        if node is None or template is None or not member.pod.live:
            return
        turn = slots.turns.get(slot, 0)
        self._room.assume_slot(workload, slot, "")
        same = (member.pod.requests, member.pod.topology) == (template.requests, template.topology)
        open_to_it = self._claims.admits(node, member.pod.selection)
        roomy = workload.job is not None or self._claims.fits(node, member.pod.requests)
        if member.state is MemberState.WAITING and not member.pod.node and same and open_to_it and roomy:
            self._steering.await_uptake(workload, now)
            self._steering.promise(workload, member, node, turn)
            self._jobs.slot_filled(workload, now)
            self._enqueues.slot_filled(workload, now)

    def _nomination_seen(self, workload: Workload, member: Member, old: Pod | None, now: float) -> None:
        pod = member.pod
        if pod.nominated_node and not member.placed and (old is None or not old.nominated_node):
            # An earlier process may have written the nomination late: no other code clears it.
            self._steering.sweep_later(workload, now)
        if old is not None and old.nominated_node and not pod.nominated_node:
            workload.members.expect_clearing(member, clears=False)
        if old is not None and refused_unawares(member, old, self._claims.tenants):
            self._steering.steer(workload, member)


def _take_up_release(workload: Workload, member: Member, now: float) -> None:
    """Continue a release of an earlier process whose Binding is shown only after recovery."""
    stamp = member.pod.stamp
    if stamp is not None and not workload.release.name and workload.members.is_ours(member.pod):
        workload.release.begin(stamp.release, now)


@dataclass(eq=False)
class SteeringAnswers:
    """Handles the outcomes of the writes that steer members."""

    _store: Store
    _steering: Steering
    _revocations: Revocations
    _repeats: Repeats
    _pods_seen: PodFacts

    @property
    def handlers(self) -> Handlers:
        """The handlers by the type of the answer."""
        return {Nominated: self.nominated, Ungated: self.ungated}

    def nominated(self, event: Nominated, now: float) -> None:
        self._handle(event, self._steering.nominated(event, now), "nominated", now)

    def ungated(self, event: Ungated, now: float) -> None:
        self._handle(event, self._steering.ungated(event, now), "ungated", now)
        if (pod := ungated_pod(self._store, event)) is not None:
            self._pods_seen.record(pod, now)
        elif event.detail and (pod := self._store.pods.get(event.uid)) is not None:
            self._repeats.repeat_later(Ungate(pod.uid, pod.namespace, pod.name, pod.group_key), now)

    def _handle(self, event: Nominated | Ungated, failed: Workload | None, what: str, now: float) -> None:
        """Handle an outcome. ``failed``: the workload that cannot be steered any further without this write."""
        if failed is not None and failed.releasing:
            self._steering.write_failed(failed, failed.members[event.uid])
        elif failed is not None and failed.admitted:
            # A revocation would suspend the whole job because of one write.
            pod = failed.members[event.uid].pod
            named, node = (pod.uid, pod.namespace, pod.name), None if isinstance(event, Ungated) else event.node
            again = Ungate(*named, failed.key) if node is None else Nominate(*named, node, group=failed.key)
            self._repeats.repeat_later(again, now)
        elif failed is not None:
            why = f"pod {failed.members[event.uid].pod.name} could not be {what}: {event.detail}"
            self._revocations.revoke(failed, why, now, RevokedFor.WRITE_FAILED, penalty=True)
