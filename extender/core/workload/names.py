"""Which gang a job or a pod is of, where that is not what it says.

Several jobs may name one gang: one of them has the name, and the others wait, each under a name that no gang can have.
And somebody may move a pod to another gang than its job's, or to none: while it is there the controller of its job
makes no other in its place.
"""

from __future__ import annotations

from collections.abc import Collection

from extender.core.causes import NameTaken
from extender.core.workload.workload import Workload
from policies.model import GroupKey, Job, Pod


class Names:
    """The jobs that are to be admitted, by the gang that they name."""

    def __init__(self) -> None:
        self._wanted: dict[GroupKey, dict[str, Job]] = {}

    def wanted_by(self, key: GroupKey) -> Collection[Job]:
        return self._wanted.get(key, {}).values()

    def former(self, job: Job) -> Job | None:
        """Another object of the same kind and name: it is gone, and this one was made in its place."""
        same = (one for one in self.wanted_by(job.key) if one.owner[:3] == job.owner[:3])
        return next((one for one in same if one.uid != job.uid), None)

    def put(self, job: Job) -> None:
        self._wanted.setdefault(job.key, {})[job.uid] = job

    def drop(self, key: GroupKey, uid: str) -> Job | None:
        """It names that gang no more."""
        jobs = self._wanted.get(key, {})
        job = jobs.pop(uid, None)
        if not jobs:
            self._wanted.pop(key, None)
        return job

    def first(self, key: GroupKey) -> Job:
        """Who has the name: one that was started before the others, then by age. One that has ended comes last."""
        return min(self.wanted_by(key), key=_rank)


def is_over(job: Job) -> bool:
    """It has ended, and nothing of ours is on it."""
    return job.finished and not job.marked


def aside(job: Job) -> GroupKey:
    """Where it waits: brackets and spaces are in no gang's name."""
    return GroupKey(job.key.namespace, f"{job.key.name} ({job.owner.kind} {job.owner.name})")


def strangers(workload: Workload | None, job: Job) -> int:
    """Pods that name the gang and that no job of that name has made, while it has none itself or has ended."""
    if workload is None or job.marked or not (job.finished or (job.suspended and job.stopped)):
        return 0
    if workload.members.said.owners.keys() <= {job.uid}:
        return 0  # it may have many pods
    return sum(_is_strange(member.pod, job) for member in workload.members.live.values())


def _is_strange(pod: Pod, job: Job) -> bool:
    maker = pod.controller
    if maker is None:
        return pod.owner != job.uid
    # Pods that are led by a plan say the UID of their job, whoever has made them.
    return pod.owner == maker.uid != job.uid and maker[:3] != job.owner[:3]


def taken_by(job: Job, first: Job, pods: int) -> NameTaken:
    """Why it has to wait: ``pods`` have its name, or else the ``first`` job of that name."""
    name = job.key.name
    return NameTaken(name, f"{first.owner.kind} {first.owner.name}", pods, own=name == job.owner.gang)


def _rank(job: Job) -> tuple[bool, bool, float, str]:
    begun = not job.suspended or not job.stopped or job.marked
    return is_over(job), not begun, job.created, job.uid


Touched = dict[GroupKey, None]
"""Workloads whose jobs have more or fewer such pods than before."""


class Astray:
    """All pods that have yet to end, by whose they are and the gang that they name."""

    def __init__(self) -> None:
        self._pods: dict[str, dict[GroupKey | None, dict[str, None]]] = {}
        self._asked: dict[str, GroupKey] = {}
        """The gangs of jobs whose pods were asked for, by the UIDs of the jobs."""

    def see(self, pod: Pod, old: Pod | None) -> Touched:
        """The pod is there; ``old``: as it was known before."""
        before, after = None if old is None else _place(old), _place(pod)
        if before == after:
            return {}
        touched = {} if old is None else self.drop(old)
        if after is None:
            return touched
        owner, gang = after
        self._pods.setdefault(owner, {}).setdefault(gang, {})[pod.uid] = None
        return touched | self._concerned(owner, gang)

    def drop(self, pod: Pod) -> Touched:
        """It has ended, is gone, or is another's now."""
        if (place := _place(pod)) is None:
            return {}
        owner, gang = place
        touched, gangs = self._concerned(owner, gang), self._pods[owner]
        del gangs[gang][pod.uid]
        if not gangs[gang]:
            del gangs[gang]
        if not gangs:
            del self._pods[owner]
            self._asked.pop(owner, None)
        return touched

    def of(self, job: str, key: GroupKey) -> list[str]:
        """Which pods of the job with that UID are not in its gang. It is dirty when that changes."""
        gangs = self._pods.get(job, {})
        if gangs:
            self._asked[job] = key
        return [uid for gang, uids in gangs.items() if gang != key for uid in uids]

    def _concerned(self, owner: str, gang: GroupKey | None) -> Touched:
        key = self._asked.get(owner)
        return {} if key is None or key == gang else {key: None}


def _place(pod: Pod) -> tuple[str, GroupKey | None] | None:
    return None if pod.ended or not pod.owner else (pod.owner, pod.group_key)
