"""Name conflicts between gangs, and pods that were relabelled out of their job's gang.

Several jobs may name one gang. One of them has the name. The others wait under a conflict key, which no gang can have.
A user may also relabel a pod into another gang than its job's, or into none. While that pod exists, the controller of
its job makes no replacement.
"""

from __future__ import annotations

from collections.abc import Collection

from extender.core.causes import NameTaken
from extender.core.workload.workload import Workload
from policies.model import GroupKey, Job, Pod


class Names:
    """Managed jobs, by the gang that they name."""

    def __init__(self) -> None:
        self._jobs: dict[GroupKey, dict[str, Job]] = {}

    def jobs_of(self, key: GroupKey) -> Collection[Job]:
        return self._jobs.get(key, {}).values()

    def predecessor(self, job: Job) -> Job | None:
        """Return the job of the same kind and name that was deleted and made again as ``job``; None without one."""
        same = (other for other in self.jobs_of(job.key) if other.owner[:3] == job.owner[:3])
        return next((other for other in same if other.uid != job.uid), None)

    def add(self, job: Job) -> None:
        self._jobs.setdefault(job.key, {})[job.uid] = job

    def remove(self, key: GroupKey, uid: str) -> Job | None:
        """Remove a job that names the gang no longer. Returns it; None if it did not name the gang."""
        jobs = self._jobs.get(key, {})
        job = jobs.pop(uid, None)
        if not jobs:
            self._jobs.pop(key, None)
        return job

    def first(self, key: GroupKey) -> Job:
        """The job that has the name: one that was started before the others, then the oldest. Ended jobs come last."""
        return min(self.jobs_of(key), key=_rank)


def is_over(job: Job) -> bool:
    """Whether the job has ended and carries no marks of Muster."""
    return job.finished and not job.marked


def conflict_key(job: Job) -> GroupKey:
    """The key under which a job waits for its name. No gang has a name with brackets or spaces."""
    return GroupKey(job.key.namespace, f"{job.key.name} ({job.owner.kind} {job.owner.name})")


def foreign_pods(workload: Workload | None, job: Job) -> int:
    """Count pods that name the job's gang but that no job of that name made.

    0 unless the job has ended, or is suspended and has no pods of its own.
    """
    if workload is None or job.marked or not (job.finished or (job.suspended and job.stopped)):
        return 0
    if workload.members.declared.owners.keys() <= {job.uid}:
        return 0  # all pods are the job's own, and there may be many to look at
    return sum(_is_foreign(member.pod, job) for member in workload.members.live.values())


def _is_foreign(pod: Pod, job: Job) -> bool:
    maker = pod.controller
    if maker is None:
        return pod.owner != job.uid
    # A pod that follows a plan carries the UID of its job as owner, whatever controller made it.
    return pod.owner == maker.uid != job.uid and maker[:3] != job.owner[:3]


def name_conflict(job: Job, first: Job, pods: int) -> NameTaken:
    """Why the job has to wait: ``pods`` pods of others have its name, or else the ``first`` job of that name has it."""
    name = job.key.name
    return NameTaken(name, f"{first.owner.kind} {first.owner.name}", pods, own=name == job.owner.gang)


def _rank(job: Job) -> tuple[bool, bool, float, str]:
    begun = not job.suspended or not job.stopped or job.marked
    return is_over(job), not begun, job.created, job.uid


Touched = dict[GroupKey, None]
"""Workloads of the jobs that have gained or lost a relabelled pod."""


class MovedPods:
    """All pods that have not ended, by owner and by the gang that they name."""

    def __init__(self) -> None:
        self._pods: dict[str, dict[GroupKey | None, dict[str, None]]] = {}
        self._gang_of: dict[str, GroupKey] = {}
        """The gangs of the jobs that ``of`` was called for, by the jobs' UIDs. A change is reported to these only."""

    def record(self, pod: Pod, old: Pod | None) -> Touched:
        """Record a pod. ``old``: the pod as it was known before. Returns the workloads that this concerns."""
        before, after = None if old is None else _place(old), _place(pod)
        if before == after:
            return {}
        touched = {} if old is None else self.remove(old)
        if after is None:
            return touched
        owner, gang = after
        self._pods.setdefault(owner, {}).setdefault(gang, {})[pod.uid] = None
        return touched | self._concerned(owner, gang)

    def remove(self, pod: Pod) -> Touched:
        """Remove a pod that has ended, is gone, or changed owner or gang. Returns the workloads that this concerns."""
        if (place := _place(pod)) is None:
            return {}
        owner, gang = place
        touched, gangs = self._concerned(owner, gang), self._pods[owner]
        del gangs[gang][pod.uid]
        if not gangs[gang]:
            del gangs[gang]
        if not gangs:
            del self._pods[owner]
            self._gang_of.pop(owner, None)
        return touched

    def of(self, job: str, key: GroupKey) -> list[str]:
        """UIDs of the job's pods that are not in its gang ``key``.

        From then on ``record`` and ``remove`` return ``key`` whenever that answer changes.
        """
        gangs = self._pods.get(job, {})
        if gangs:
            self._gang_of[job] = key
        return [uid for gang, uids in gangs.items() if gang != key for uid in uids]

    def _concerned(self, owner: str, gang: GroupKey | None) -> Touched:
        key = self._gang_of.get(owner)
        return {} if key is None or key == gang else {key: None}


def _place(pod: Pod) -> tuple[str, GroupKey | None] | None:
    return None if pod.ended or not pod.owner else (pod.owner, pod.group_key)
