"""Which job each workload follows, as jobs come, change and go."""

from __future__ import annotations

from dataclasses import replace

from extender.core.ledger.expected import expect, finish
from extender.core.ledger.state import State
from extender.core.workload.names import Names, aside, is_over, strangers, taken_by
from policies.model import GroupKey, Job, PodSets


class JobNaming:
    """One job has the name of its gang; others that name it wait beside it, as workloads of their own."""

    def __init__(self, state: State) -> None:
        self._state = state
        self._names = Names()

    def contested(self, key: GroupKey) -> bool:
        """Whether several jobs name that gang."""
        return len(self._names.wanted_by(key)) > 1

    def seen(self, job: Job, now: float) -> None:
        """The watch shows a job. One that is not ours to admit is forgotten."""
        # Anybody can write what stands there for a plan: without an elastic flavor none was let go.
        if job.let_go is not None and self._state.limits.elastic.flavors.isdisjoint(job.flavor_names):
            job = replace(job, let_go=None)
        if not job.managed:
            return self.gone(job.key, job.uid, now, left_alone=True)
        if (former := self._names.former(job)) is not None:
            self.gone(former.key, former.uid, now)
        self._names.put(job)
        if (holder := self._state.workloads.get(job.key)) and holder.job and holder.job.seen.uid == job.uid:
            self._follow(job.key, job, "")
        self.share(job.key, now)

    def gone(self, key: GroupKey, uid: str, now: float, *, left_alone: bool = False) -> None:
        """Its object no longer exists: its pods use the quota of its queue until they have gone, too. ``left_alone``:
        somebody else admits it."""
        if (job := self._names.drop(key, uid)) is not None:
            self._part(key, uid, now, "" if left_alone else job.queue)
            self._part(aside(job), uid, now)
            self.share(key, now)

    def share(self, key: GroupKey, now: float) -> None:
        """One job has the name of its gang, or pods that are there already; the others wait beside it."""
        names, workload = self._names, self._state.workloads.get(key)
        if not (jobs := names.wanted_by(key)):
            return
        record = workload.job if workload is not None else None
        bound = record is not None and (record.writing is not None or record.plan is not None)
        first = record.seen if record is not None and bound else names.first(key)
        pods = 0 if bound else strangers(workload, first)
        for job in list(jobs):
            if job.uid == first.uid and not pods:
                self._part(aside(job), job.uid, now)
                self._follow(key, job, "")
            elif len(jobs) > 1 or pods:
                self._part(key, job.uid, now)
                if is_over(job):
                    self._part(aside(job), job.uid, now)
                else:
                    beside = replace(job, podsets=PodSets(aside(job), ()))
                    self._follow(beside.key, beside, taken_by(job, first, pods))

    def _follow(self, key: GroupKey, job: Job, taken: str) -> None:
        """``taken``: why it has to wait for the name of its gang."""
        state = self._state
        workload = state.workloads.get(key) or state.add(key)
        known = workload.job
        if known is not None and known.seen == job and known.taken == taken:
            return
        state.preemptions.edited(job.eviction if known is None else known.seen.eviction, job.eviction)
        if known is not None and (known.seen.uid != job.uid or known.asks_otherwise(job)):
            state.failed_creation.forget(key)  # what kept its pods from being created may be fixed
        if known is not None and known.seen.uid == job.uid and known.seen.requeued != job.requeued:
            state.failed_creation.forget(key)
            workload.retries.forget()
        workload.follow_job(job, taken)
        finish(state, workload)
        state.nudge(workload)

    def _part(self, key: GroupKey, uid: str, now: float, queue: str = "") -> None:
        """The workload has that job no more; its pods are left in that queue."""
        workload = self._state.workloads.get(key)
        if workload is None or workload.job is None or workload.job.seen.uid != uid:
            return
        expect(self._state, workload, None)
        workload.telling.note(now, "its job is gone")
        workload.follow_job(None, left_in=queue)
        self._state.creation.forget(key)
        self._state.failed_creation.forget(key)
        self._state.touch(workload)
