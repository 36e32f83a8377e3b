"""Applying what the watches show of nodes, PodGroups, jobs, owners and namespaces. The first of handle's steps."""

from __future__ import annotations

from dataclasses import dataclass, field

from extender.core.events import (
    GroupGone,
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
)
from extender.core.gang.hints import Hints
from extender.core.gang.milestones import Cause
from extender.core.gang.owners import Owners
from extender.core.gang.said import means
from extender.core.jobs.enqueues import Enqueues
from extender.core.jobs.jobs import Jobs
from extender.core.pod_facts import PodFacts
from extender.core.recovery import Recovery
from extender.core.revocations import Revocations
from extender.core.state import State
from extender.core.workload import Workload
from policies.model import GroupKey, PodGroup


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
        self._revocations.check(node.name, now)

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

    def succeed(self, now: float) -> bool:
        """Go on with PodGroups that were made anew, where the start of an earlier one is over: whether one does."""
        workloads = self._state.workloads
        over = [key for key in self._successors if not ((of := workloads.get(key)) and self._is_starting(of))]
        for key in over:
            self.group_seen(self._successors.pop(key), now)
        return bool(over)

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


def _is_another(workload: Workload, group: PodGroup) -> bool:
    """It was known by an earlier PodGroup of that name."""
    before = workload.group.uid if workload.group is not None else workload.former
    return bool(before) and before != group.uid


def _followed(workload: Workload, group: PodGroup) -> bool:
    """It is known by that PodGroup, or one before it of the same name, before it has any pod."""
    return workload.group is not None and workload.group.dialect is group.dialect
