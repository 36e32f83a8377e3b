"""PodGroups whose job makes no pods until a scheduler has taken them up: planned first, then taken up.

The slots of such a gang are known before its pods, and each pod that comes takes the node of its slot. Nobody can take
the pods back: when they do not come in time, the room is free again, and those that come later are planned as any gang.
"""

from __future__ import annotations

from extender.core.answers import Enqueued
from extender.core.effects import Enqueue
from extender.core.events import GroupJobGone, GroupJobSeen
from extender.core.instants import pause_s
from extender.core.ledger.creation import PROBATION_S
from extender.core.ledger.state import State
from extender.core.ledger.waiting import Timers
from extender.core.workload.workload import Workload
from policies.model import Dialect, GroupJob, GroupKey, PodGroup, PodSets

_FIRST_S, _LONGEST_S = 5.0, 900.0
_SHOWN_S = 60.0
"""The watch shows within this time that a PodGroup was taken up, unless a proxy has answered for the API server."""


class Enqueues:
    """``advising``: nothing is planned for others to keep to, so that each is taken up at once."""

    def __init__(self, state: State, *, advising: bool = False) -> None:
        self._state = state
        self._advising = advising
        self.jobs: dict[str, GroupJob] = {}
        """By UID."""
        self._group_of: dict[str, GroupKey] = {}
        """The PodGroup of each, whether it is known or not."""
        self._asked: dict[GroupKey, str] = {}
        """UIDs of the PodGroups that were asked to be taken up, until the watch shows it."""
        self._coming: dict[GroupKey, float] = {}
        """By when the next pod of one that was taken up has to come."""
        self._failures: dict[GroupKey, int] = {}
        self._resting: dict[GroupKey, None] = {}
        """Those that could not be taken up: nothing is planned for them until that is tried again."""
        self._retries = Timers()

    def job_seen(self, event: GroupJobSeen, now: float) -> None:
        before, self.jobs[event.job.uid] = self.jobs.get(event.job.uid), event.job
        if before != event.job and (group := self._made_by(event.job.uid)) is not None:
            self.see(group, now)

    def job_gone(self, event: GroupJobGone, _now: float) -> None:
        if self.jobs.pop(event.uid, None) is not None:
            self._touch(event.key)

    def see(self, group: PodGroup, now: float) -> None:
        """It is new or has changed, or its job is."""
        if group.job is None:
            return
        self._group_of[group.job.uid] = group.key
        if group.pending:
            self._coming.pop(group.key, None)
        elif self._asked.get(group.key) == group.uid:
            self._await_pods(group.key, now)
        if not group.pending or self._asked.get(group.key) != group.uid:
            self._asked.pop(group.key, None)
        if self._state.synced:
            self._look_at(group)

    def _look_at(self, group: PodGroup) -> None:
        """Plan it, or ask for it where it cannot be planned before its pods exist."""
        if self._job(group) is None:
            return
        if self._podsets(group) is not None:
            if group.pending or group.key in self._coming:
                workload = self._state.workloads.get(group.key) or self._state.add(group.key)
                if workload.group is None:
                    workload.follow(group)
            self._touch(group.key)
        elif group.pending:
            self._ask(group)

    def begin(self, now: float) -> None:
        """Every list is in, nothing is settled yet. What was taken up before this life may still get its pods."""
        for group in self._state.groups.values():
            if group.starting and self._job(group) is not None:
                self._await_pods(group.key, now)
            self._look_at(group)

    def gone(self, group: PodGroup) -> None:
        """The PodGroup is."""
        if group.job is not None:
            self._group_of.pop(group.job.uid, None)
            self._asked.pop(group.key, None)
            self._coming.pop(group.key, None)
            self._resting.pop(group.key, None)
            self._failures.pop(group.key, None)
            self._state.creation.forget(group.key)

    def to_come(self, workload: Workload, now: float) -> PodSets | None:
        """The pods that are to be expected: until the gang has started, or the next of them has not come in time. None
        is made in place of one that was moved to another gang, or that an earlier PodGroup of its name has bound."""
        group = workload.group
        if group is None or group.key in self._resting or (podsets := self._podsets(group)) is None:
            return None
        if (group.job is not None and self._state.astray.of(group.job.uid, group.key)) or _has_former(workload):
            return None
        started = workload.release.complete or workload.members.started
        if not group.pending and (started or now >= self._coming.get(workload.key, now)):
            if self._coming.pop(workload.key, None) is not None and not started:
                if workload.members.slots.planned:
                    in_full = not self._state.failed_creation.on_probation(workload.key.namespace)
                    self._state.fail_creation(workload, now, in_full=in_full)
                workload.telling.note(now, "some of its pods have not come in time: those that come are planned then")
            return None
        return podsets

    def settle(self, workload: Workload, now: float) -> None:
        """Once there is a node for each that has to start, its pods may come."""
        group, slots = workload.group, workload.members.slots
        if group is None or group.job is None:
            return
        whole = bool(slots.planned) and workload.seated and not workload.filling
        if group.pending and whole and self._state.recovered:
            self._ask(group)
        awaited = group.key in self._asked or group.key in self._coming
        doubtful = self._state.failed_creation.on_probation(workload.key.namespace)
        self._state.creation.wait_for(workload.key, len(slots.planned) if awaited else 0, now, doubtful=doubtful)

    def came(self, workload: Workload, now: float) -> None:
        """A pod has filled a slot."""
        if workload.key in self._coming:
            self._state.creation.came(now)
            if not workload.members.slots.planned:
                self._state.cure_creation(workload)
            self._await_pods(workload.key, now)

    def deadlines(self, workload: Workload, now: float) -> list[float]:
        """When it has to be looked at again. After that the watch may have yet to show that it was taken up."""
        at = self._coming.get(workload.key, now)
        return [at] if at > now else []

    def ended(self, event: Enqueued, now: float) -> None:
        """A PodGroup was taken up, or could not be."""
        if not event.detail:
            self._failures.pop(event.key, None)
            self._await_pods(event.key, now)
            self._retries.set(event.key, now + _SHOWN_S)
        else:
            self._asked.pop(event.key, None)
            self._resting[event.key] = None
            times = self._failures[event.key] = self._failures.get(event.key, 0) + 1
            self._retries.set(event.key, now + pause_s(times, _FIRST_S, _LONGEST_S))
        self._touch(event.key)

    def retry(self, now: float) -> None:
        """Look again at those whose pause is over, or that should be shown as taken up by now."""
        for key in self._retries.due(now):
            group = self._group(key)
            self._resting.pop(key, None)
            if group is not None and group.pending:
                self._asked.pop(key, None)
                self.see(group, now)
            else:
                self._failures.pop(key, None)

    def next_retry(self) -> float | None:
        return self._retries.first()

    def _ask(self, group: PodGroup) -> None:
        if group.key not in self._asked and group.key not in self._resting:
            self._asked[group.key] = group.uid
            self._state.out.append(Enqueue(group.key, group.uid))

    def _await_pods(self, key: GroupKey, now: float) -> None:
        state = self._state
        doubtful = state.failed_creation.on_probation(key.namespace)
        self._coming[key] = now + state.creation.takes_s() + (PROBATION_S if doubtful else state.limits.creation_s)

    def _job(self, group: PodGroup) -> GroupJob | None:
        """What makes its pods, if those are ours to start."""
        return None if group.job is None or group.deleting else self.jobs.get(group.job.uid)

    def _podsets(self, group: PodGroup) -> PodSets | None:
        """What it is planned as before its pods exist; None: it is taken up first."""
        job = self._job(group)
        plannable = job is not None and job.key == group.key and bool(job.podsets.podsets)
        return job.podsets if job is not None and plannable and not self._advising else None

    def _made_by(self, job: str) -> PodGroup | None:
        key = self._group_of.get(job)
        return None if key is None else self._group(key)

    def _group(self, key: GroupKey) -> PodGroup | None:
        return self._state.groups.get((key, Dialect.VOLCANO))

    def _touch(self, key: GroupKey) -> None:
        if (workload := self._state.workloads.get(key)) is not None:
            self._state.touch(workload)


def _has_former(workload: Workload) -> bool:
    """Whether pods are there that an earlier PodGroup of its name has bound."""
    members = workload.members
    return len(members) > len(members.live) and any(one.pod.live and not members.is_ours(one.pod) for one in members)
