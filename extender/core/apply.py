"""Apply what the watches show to the ledger: pods, nodes, PodGroups, jobs, owners and namespaces. The first step."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from extender.core.answers import Nominated, Ungated
from extender.core.calls import Calls
from extender.core.effects import Cause, Nominate, Ungate
from extender.core.events import (
    BudgetGone,
    BudgetSeen,
    ClaimGone,
    ClaimSeen,
    DeviceClassGone,
    DeviceClassSeen,
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
    VolumeGone,
    VolumeSeen,
)
from extender.core.explain.hints import Hints
from extender.core.gate.binding import Bindings, Doubt
from extender.core.gate.refusals import Refusals, refused_by_plugins, refused_unawares
from extender.core.gate.repeats import Repeats
from extender.core.gate.revocations import Revocations
from extender.core.gate.steering import Steering
from extender.core.jobs.coming import Enqueues, Owners
from extender.core.jobs.elastic import let_in
from extender.core.jobs.jobs import Jobs
from extender.core.ledger.state import State
from extender.core.lifecycle import Lifecycle
from extender.core.recovery import Recovery
from extender.core.workload.members import Member, MemberState, means
from extender.core.workload.workload import Workload
from policies.model import GANG_GATE, GroupKey, Pod, PodGroup


@dataclass(slots=True, eq=False)
class Apply:
    """Hands each fact about nodes, PodGroups, jobs and owners to the workload that it concerns, and touches it."""

    _state: State
    _revocations: Revocations
    _hints: Hints
    _enqueues: Enqueues
    _jobs: Jobs
    _owners: Owners
    _recovery: Recovery
    _pods: PodFacts
    _successors: dict[GroupKey, GroupSeen] = field(default_factory=dict)
    """PodGroups that were made anew before a start of an earlier one of their name has ended."""

    @property
    def handlers(self) -> Handlers:
        """By the type of the fact."""
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
            NativeGangGone: lambda event, _: self._state.singles.natives.gang_gone(event.key, event.uid),
            NamespaceSeen: self.namespace_noted,
            NamespaceGone: self.namespace_noted,
            GroupJobSeen: self._enqueues.job_seen,
            GroupJobGone: self._enqueues.job_gone,
            BudgetSeen: self.budget_noted,
            BudgetGone: self.budget_noted,
            DeviceClassSeen: self.device_class_noted,
            DeviceClassGone: self.device_class_noted,
            QueueSeen: self._state.quotas.queues.note,
            QueueGone: self._state.quotas.queues.note,
        }

    def node_seen(self, event: NodeSeen, now: float) -> None:
        state, node = self._state, event.node
        if (before := state.claims.nodes.get(node.name)) == node:
            return
        state.claims.set_node(node)
        if before is None or before.labels != node.labels:
            state.quotas.node_seen(node.name)
        state.node_changed(node.name)
        self._jobs.node_changed(node.name, now)
        self._revocations.check(node.name, now, relabelled=before is not None and before.labels != node.labels)

    def node_gone(self, event: NodeGone, now: float) -> None:
        self._state.claims.drop_node(event.name)
        self._state.node_changed(event.name)
        self._jobs.node_changed(event.name, now)
        self._revocations.check(event.name, now)

    def group_seen(self, event: GroupSeen, now: float) -> None:
        state, group = self._state, event.group
        self._recovery.find_out(group.key, now)
        if state.groups.get((group.key, group.dialect)) == group:
            return  # what we report is written on it, too
        workload = self._meant_by(group)
        if workload is not None and _is_another(workload, group) and self._is_starting(workload):
            self._successors[group.key] = event
            if (release := workload.release).partial_since is not None:  # nobody completes it any more
                release.break_off(now - state.limits.partial_s, release.partial_count)
                state.touch(workload)
            return
        state.groups[group.key, group.dialect] = group
        self._enqueues.see(group, now)
        if (workload := self._meant_by(group)) is None:
            return
        another, started = _is_another(workload, group), workload.members.started
        workload.follow(group)
        state.touch(workload)
        if another or (started and not workload.members.started):
            workload.release.start_anew()
            self._revocations.revoke(workload, "its PodGroup was made anew", now, Cause.PODGROUP_CHANGED)
        elif group.deleting and not workload.releasing:
            self._revocations.revoke(workload, "its PodGroup is being deleted", now, Cause.PODGROUP_CHANGED)

    def _meant_by(self, group: PodGroup) -> Workload | None:
        """Whose PodGroup it is."""
        if (workload := self._state.workloads.get(group.key)) is None:
            return None
        meant = _followed(workload, group) or any(means(one.pod, group) for one in workload.members)
        return workload if meant else None

    def follow_successors(self, now: float) -> None:
        """Go on with PodGroups that were made anew, where the start of an earlier one is over."""
        workloads = self._state.workloads
        over = [key for key in self._successors if not ((of := workloads.get(key)) and self._is_starting(of))]
        for key in over:
            self.group_seen(self._successors.pop(key), now)

    def _is_starting(self, workload: Workload) -> bool:
        """Its members are being bound, or some of them are, which give way unless the others come."""
        broken = workload.release.partial_since is not None and self._state.limits.evict_partial
        return workload.releasing or broken

    def group_gone(self, event: GroupGone, now: float) -> None:
        state, key = self._state, event.key
        if key in self._successors and self._successors[key].group.uid == event.uid:
            del self._successors[key]
        self._recovery.find_out(key, now)
        if (known := state.groups.get((key, event.dialect))) is None or known.uid != event.uid:
            return
        del state.groups[key, event.dialect]
        self._enqueues.gone(known)
        workload = state.workloads.get(key)
        if workload is not None and workload.group is not None and workload.group.uid == event.uid:
            workload.follow(None)
            state.touch(workload)
            if not workload.releasing:
                self._revocations.revoke(workload, "its PodGroup was deleted", now, Cause.PODGROUP_CHANGED)

    def native_gang_seen(self, event: NativeGangSeen, now: float) -> None:
        """The Job controller makes the PodGroup before its pods, which the watch may show first all the same."""
        natives = self._state.singles.natives
        if natives.gang_seen(event.key, event.uid):
            for uid in natives.uids(event.key):
                self._pods.take_up(self._state.pods[uid], now)

    def job_seen(self, event: JobSeen, now: float) -> None:
        self._recovery.find_out(event.job.key, now)
        self._jobs.naming.seen(event.job, now)
        self._hints.see_job(event.job, now)

    def job_gone(self, event: JobGone, now: float) -> None:
        self._recovery.find_out(event.key, now)
        self._jobs.naming.gone(event.key, event.uid, now)

    def owner_seen(self, event: OwnerSeen, now: float) -> None:
        for pod in self._owners.see(event.owner):
            self._pods.see(pod, now)

    def owner_gone(self, event: OwnerGone, _: float) -> None:
        self._owners.gone(event.key, event.uid)

    def namespace_noted(self, event: NamespaceSeen | NamespaceGone, now: float) -> None:
        """ClusterQueues choose by its labels whom they serve, and pod affinity terms whom they mean. Nothing starts in
        one that is being deleted."""
        state, labels = self._state, event.labels if isinstance(event, NamespaceSeen) else ()
        if isinstance(event, NamespaceSeen) and state.namespaces.labels.get(event.name) != labels:
            state.quotas.queues.relabelled()
        if state.namespaces.changes(event):
            self._jobs.namespace_changed(event.name, now)
        if state.namespaces.note(event):
            for workload in [one for key, one in state.workloads.items() if key.namespace == event.name]:
                state.nudge(workload)
        if isinstance(event, NamespaceGone):
            state.failed_creation.namespace_gone(event.name)
        changed = [one.describe(event.name, labels) for one in (state.claims.tenants, state.singles.coming)]
        if any(changed) and state.changes.wary:
            # Whoever waits may be drawn to other pods by now, or kept away by them, or no longer.
            state.changes.nodes = True

    def budget_noted(self, event: BudgetSeen | BudgetGone, _: float) -> None:
        if self._state.budgets.note(event):
            self._state.preemptions.redrawn()

    def device_class_noted(self, event: DeviceClassSeen | DeviceClassGone, _: float) -> None:
        self._state.devices.note(event)
        self._state.changes.nodes = True  # whatever no node offers may be offered by it


def _is_another(workload: Workload, group: PodGroup) -> bool:
    """It was known by an earlier PodGroup of that name."""
    before = workload.group.uid if workload.group is not None else workload.former
    return bool(before) and before != group.uid


def _followed(workload: Workload, group: PodGroup) -> bool:
    """It is known by that PodGroup, or one before it of the same name, before it has any pod."""
    return workload.group is not None and workload.group.dialect is group.dialect


@dataclass(slots=True, eq=False)
class PodFacts:
    """Hands each fact about a pod to the member that it is, and touches its workload."""

    _state: State
    _steering: Steering
    _revocations: Revocations
    _bindings: Bindings
    _refusals: Refusals
    _lifecycle: Lifecycle
    _calls: Calls
    _hints: Hints
    _enqueues: Enqueues
    _jobs: Jobs
    _owners: Owners
    _recovery: Recovery
    _repeats: Repeats

    @property
    def handlers(self) -> Handlers:
        """By the type of the fact."""
        return {
            PodSeen: lambda event, now: self.seen(event.pod, now),
            PodsSeen: self.seen_together,
            PodGone: self.gone,
            ClaimSeen: self.volume_noted,
            ClaimGone: self.volume_noted,
            VolumeSeen: self.volume_noted,
            VolumeGone: self.volume_noted,
            Nominated: self.nominated,
            Ungated: self.ungated,
        }

    def seen_together(self, event: PodsSeen, now: float) -> None:
        for pod in event.pods:
            self._state.subject = pod.uid
            self.seen(pod, now)
        self._state.subject = None

    def seen(self, pod: Pod, now: float) -> None:
        """As the watch shows it."""
        state = self._state
        if pod.node:
            state.kube_queue.shown(pod, state.pods.get(pod.uid), state.schedulers, now)
            state.confirm_bound(pod.uid)
        self.take_up(self._owners.claimed(pod), now)

    def take_up(self, pod: Pod, now: float) -> None:
        """Take it over, as one of a native group where its Job asks for a native gang."""
        state, known = self._state, self._state.pods.get(pod.uid)
        pod = state.singles.natives.claimed(pod)
        if pod.native_group and GANG_GATE in pod.gates and not (known and known.native_group):
            # The admission policy cannot know what its Job asks for.
            state.out.append(Ungate(pod.uid, pod.namespace, pod.name))
        self.see(pod, now)

    def see(self, pod: Pod, now: float) -> None:
        """Take it over: as the watch shows it, or as it is known, with something about it that has changed."""
        state = self._state
        self._recovery.find_out(pod.group_key, now)
        known = state.pods.get(pod.uid)
        moved = known is not None and known.group_key != pod.group_key
        doubt = self._leaves(pod, now) if moved else None
        had = state.claims.get(pod.uid)
        old = state.put_pod(pod)
        pod = state.pods[pod.uid]
        found = state.member(pod.uid)
        if found is not None:
            if moved:
                self._bindings.taken_over(*found, now, doubt)
            self._member_seen(*found, old, now)
            if pod.terminal and had is not None and not had.promised:
                self._revocations.keep_room(found[0], pod, had, now)
            if pod.node and (old is None or not old.node) and not moved:  # a moved one tells of its former gang
                _take_up_release(*found, now)
        elif moved:
            self._bindings.taken_over_alone(pod, doubt)
        if pod.node and (old is None or old.node != pod.node):
            self._revocations.give_way(pod.node, now)
        if old is not None and pod.node:
            state.preemptions.edited((old.eviction, old.labels), (pod.eviction, pod.labels))
        if old is None and (unseen := state.binds.stop_awaiting(pod.uid)) is not None:
            self._calls.bind(unseen, now)
        if known is None or known.hint != pod.hint:
            self._hints.see(pod, now, changed=known is not None)

    def _leaves(self, pod: Pod, now: float) -> Doubt | None:
        """Its labels or annotations were edited: the old gang has lost it. Returns where it may have been bound."""
        state = self._state
        member, doubt = state.member(pod.uid), self._bindings.doubt_of(pod.uid)
        nominated = member is not None and member[1].nominated
        self._drop(pod.uid, now)
        if nominated and pod.live and not pod.node:
            # Nobody else takes it back: it may be yet to be written.
            state.out.append(Nominate(pod.uid, pod.namespace, pod.name, None))
        return doubt

    def gone(self, event: PodGone, now: float) -> None:
        state = self._state
        pod, had, found = state.pods.get(event.uid), state.claims.get(event.uid), state.member(event.uid)
        self._drop(event.uid, now)
        state.confirm_bound(event.uid)
        if pod is not None and had is not None and found is not None and not had.promised:
            self._revocations.keep_room(found[0], pod, had, now)

    def _drop(self, uid: str, now: float) -> None:
        """Forget the pod; but whether it was bound by us stays known."""
        state = self._state
        if (pod := state.pods.get(uid)) is None:
            return
        self._recovery.find_out(pod.group_key, now)
        unseen = state.binds.unseen.get(uid)
        if pod.live:
            self.see(replace(pod, deleting=True), now)
        state.drop_pod(uid)
        if unseen is not None:
            state.binds.await_pod(unseen[0], now)

    def volume_noted(self, event: ClaimSeen | ClaimGone | VolumeSeen | VolumeGone, now: float) -> None:
        """What waits for the claim can be planned, or in another way; pods that mount it are seen anew."""
        state = self._state
        if (claim := state.volumes.note(event)) is None:
            return
        for uid in list(state.volumes.users.get(claim, ())):
            self.see(state.pods[uid], now)
            found = state.member(uid)
            if found is not None and found[0].key in state.waiting.keys:
                state.nudge(found[0])
        namespace, name = claim
        for key in state.waiting.keys:
            podsets = state.workloads[key].podsets if key.namespace == namespace else None
            if podsets is not None and any(name in one.template.claims for one in podsets.podsets):
                state.touch(state.workloads[key])

    def nominated(self, event: Nominated, now: float) -> None:
        self._led(event, self._steering.nominated(event, now), "nominated", now)

    def ungated(self, event: Ungated, now: float) -> None:
        self._led(event, self._steering.ungated(event, now), "ungated", now)
        if (pod := let_in(self._state, event)) is not None:
            self.see(pod, now)
        elif event.detail and (pod := self._state.pods.get(event.uid)) is not None:
            self._repeats.put(Ungate(pod.uid, pod.namespace, pod.name, pod.group_key), now)

    def _led(self, event: Nominated | Ungated, failed: Workload | None, what: str, now: float) -> None:
        """``failed``: the workload that cannot be led any further without this write."""
        if failed is not None and failed.releasing:
            self._steering.failed(failed, failed.members[event.uid])
        elif failed is not None and failed.admitted:
            # Its job would be suspended as a whole for one write.
            pod = failed.members[event.uid].pod
            named, node = (pod.uid, pod.namespace, pod.name), None if isinstance(event, Ungated) else event.node
            again = Ungate(*named, failed.key) if node is None else Nominate(*named, node, group=failed.key)
            self._repeats.put(again, now)
        elif failed is not None:
            why = f"pod {failed.members[event.uid].pod.name} could not be {what}: {event.detail}"
            self._revocations.revoke(failed, why, now, Cause.WRITE_FAILED, penalty=True)

    def _fill_slot(self, workload: Workload, member: Member, now: float) -> None:
        """The pod has come that its slot was planned for: it gets the node, unless it is bound or asks for something
        else, or others have taken the room. A pod of a job goes there all the same: it was made for that node."""
        slots, slot = workload.members.slots, member.pod.identity
        node, template = slots.planned.get(slot), slots.templates.get(slot)
        if node is None or template is None or not member.pod.live:
            return
        turn = slots.turns.get(slot, 0)
        self._state.assume_slot(workload, slot, "")
        same = (member.pod.requests, member.pod.topology) == (template.requests, template.topology)
        open_to_it = self._state.claims.admits(node, member.pod.selection)
        roomy = workload.job is not None or self._state.claims.fits(node, member.pod.requests)
        if member.state is MemberState.WAITING and not member.pod.node and same and open_to_it and roomy:
            self._steering.await_uptake(workload, now)
            self._steering.lead(workload, member, node, turn)
            self._jobs.came(workload, now)
            self._enqueues.came(workload, now)

    def _member_seen(self, workload: Workload, member: Member, old: Pod | None, now: float) -> None:
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
        self._steering.shown(workload, member)

    def _nomination_seen(self, workload: Workload, member: Member, old: Pod | None, now: float) -> None:
        pod = member.pod
        if pod.nominated_node and not member.placed and (old is None or not old.nominated_node):
            # An earlier life of ours may have asked for it, and the write came late: nobody else takes it back.
            self._steering.sweep_later(workload, now)
        if old is not None and old.nominated_node and not pod.nominated_node:
            workload.members.expect_clearing(member, clears=False)
        if old is not None and refused_unawares(member, old, self._state.claims.tenants):
            self._steering.tell(workload, member)


def _take_up_release(workload: Workload, member: Member, now: float) -> None:
    """Bindings of an earlier life may be shown only when this one has read the cluster: what they began goes on."""
    stamp = member.pod.own_stamp
    if stamp is not None and not workload.release.name and workload.members.is_ours(member.pod):
        workload.release.begin(stamp.release, now)
