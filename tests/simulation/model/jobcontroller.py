"""The controller of jobs: it makes their pods at a rate, deletes them on suspension, replaces lost ones, ends jobs."""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass, field, replace
from itertools import count

from extender.simulation.clock import Clock, Timer
from policies.model import GroupKey, Pod, PodSet, SlotKey
from tests.simulation.model.apiserver import CONFLICT, ApiServer
from tests.simulation.model.batch import BatchJob
from tests.simulation.model.changes import Change, Kind
from tests.simulation.model.tasks import Process, spawn

_APART_S = 10.0
"""Between the ends of pods that have work of their own."""
_LONGEST_PAUSE_S = 8.0
"""The longest pause between two attempts at a refused creation."""


@dataclass(slots=True, eq=False)
class _Record:
    """State of one job. ``slots``: pod UID -> the slot that it was made for. ``succeeded``: UIDs of the pods that have
    succeeded, gone ones as well: a finalizer keeps each pod until it is counted."""

    key: GroupKey
    slots: dict[str, tuple[PodSet, int]] = field(default_factory=dict)
    succeeded: dict[str, None] = field(default_factory=dict)
    failed: int = 0
    busy: bool = False
    dirty: bool = False
    refusals: int = 0
    works: bool = False
    timer: Timer | None = None


class JobController:
    """The controller. Each job states whether the success of one pod completes it, or that of all its pods.

    ``rate``: requests a second, of all jobs together.
    ``lag``: gives the seconds until it looks at a change.
    ``blocked``: jobs of which no pod can be created, as with a ResourceQuota.
    """

    def __init__(self, api: ApiServer, clock: Clock, lag: Callable[[], float], rate: float = 20.0) -> None:
        self.blocked = api.blocked
        self._api = api
        self._clock = clock
        self._lag = lag
        self._rate = rate
        self._free_at = 0.0
        self._numbers = count(1)
        self._records: dict[str, _Record] = {}
        self._owners: dict[str, str] = {}
        self._deleted: dict[str, None] = {}
        """Pods that the controller has deleted itself: pods that others delete count as failed."""
        api.listeners[Kind.JOBS].append(self._job_changed)
        api.listeners[Kind.PODS].append(self._pod_changed)

    @property
    def running(self) -> list[BatchJob]:
        """Jobs of which enough pods run."""
        jobs = (self._job(uid) for uid, record in self._records.items() if record.works)
        return [job for job in jobs if job is not None]

    def pods(self, job: BatchJob) -> list[Pod]:
        record = self._records.get(job.uid)
        return [] if record is None else [pod for uid in record.slots if (pod := self._api.pods.get(uid)) is not None]

    def finish(self, job: BatchJob) -> None:
        """End the work of the job: its pods succeed.

        If each pod has to succeed, half of them do so now, and the others later, like the pods that come after them.
        """
        running = [pod for pod in self.pods(job) if pod.phase == "Running" and not pod.deleting]
        ended = running[: (len(running) + 1) // 2] if job.by_pod or job.closes else running
        for pod in ended:
            self._api.change_pod(pod.uid, phase="Succeeded")
        now = self._job(job.uid)
        if len(ended) < len(running) or (job.completions and running and now is not None and not now.ended):
            self._clock.after(_APART_S, lambda: self.finish(job))

    def delete(self, job: BatchJob) -> None:
        """Delete the job's object, and then its pods."""
        if self._job(job.uid) is not None:
            self._api.remove_job(job.key)

    # News.

    def _job_changed(self, change: Change) -> None:
        if change.gone:
            self._clock.after(self._lag(), lambda: self._collect(change.uid))
            return
        job = change.value
        assert isinstance(job, BatchJob)
        self._records.setdefault(job.uid, _Record(job.key))
        self._look_at(job.uid)

    def _pod_changed(self, change: Change) -> None:
        owner = self._owners.get(change.uid)
        record = self._records.get(owner or "")
        if owner is None or record is None:
            return
        pod, job = change.value, self._job(owner)
        assert isinstance(pod, Pod)
        if pod.phase == "Succeeded":
            record.succeeded[pod.uid] = None
        if change.gone:
            del self._owners[change.uid]
            if change.uid in record.slots:
                del record.slots[change.uid]
                deleted = pod.deleting or not pod.terminal
                record.failed += bool(pod.node) and deleted and change.uid not in self._deleted
            self._deleted.pop(change.uid, None)
        elif pod.phase == "Failed" and change.uid in record.slots and job is not None and not pod.deleting:
            record.failed += 1
            del record.slots[change.uid]
            if job.same_names:
                self._deleted[change.uid] = None
                self._clock.after(self._lag(), lambda: self._api.delete_pod(change.uid))
        self._meet(owner, record)
        self._look_at(owner)

    def _meet(self, uid: str, record: _Record) -> None:
        """Start the work once enough of its pods run. When one of those is lost, the work begins again."""
        job = self._job(uid)
        phases = [pod.phase for pod in map(self._api.pods.get, record.slots) if pod is not None and not pod.deleting]
        running, done = phases.count("Running"), phases.count("Succeeded")
        works = job is not None and not job.ended and running > 0 and running + done >= job.least
        if works == record.works:
            return
        if record.timer is not None:
            record.timer.cancel()
        record.works, record.timer = works, None
        if job is not None and works and job.run_s < float("inf"):
            record.timer = self._clock.after(job.run_s, lambda: self.finish(job))

    # The work of the controller

    def _look_at(self, uid: str, pause_s: float = 0.0) -> None:
        record = self._records[uid]
        record.dirty = True
        if not record.busy:
            record.busy = True
            self._clock.after(pause_s + self._lag(), lambda: self._begin(uid))

    def _begin(self, uid: str) -> None:
        record = self._records.get(uid)
        job = self._job(uid)
        if record is None or job is None:
            return
        record.dirty = False
        spawn(self._clock, self._sync(job, record), lambda: self._ended(uid))

    def _ended(self, uid: str) -> None:
        record = self._records.get(uid)
        if record is not None:
            record.busy = False
            if record.dirty:
                pause_s = min(0.25 * 2**record.refusals, _LONGEST_PAUSE_S) if record.refusals else 0.0
                self._look_at(uid, pause_s)

    def _sync(self, job: BatchJob, record: _Record) -> Process[None]:
        """Look at a job once, as it was at the beginning: later news waits for the next look."""
        there = [pod for uid in record.slots if (pod := self._api.pods.get(uid)) is not None]
        active = [pod for pod in there if pod.live]
        well = [pod for pod in there if pod.phase == "Succeeded"]
        # With more completions than slots another pod comes for each that has ended well, while some are left.
        left = job.completions - len(record.succeeded)
        done = set[SlotKey]() if job.completions else {self._slot(record, pod) for pod in well} | job.done
        ended = job.ended
        if record.failed > job.backoff_limit:
            ended = ended or "Failed"
        elif left <= 0 if job.completions else self._is_complete(job, done, active):
            ended = ended or "Complete"
        if ended or job.suspended:
            yield from self._delete(there if job.same_names and job.suspended else active)
        elif job.remakes and record.failed > job.failed:
            yield from self._delete(there)
        else:
            wanted = job.slots
            surplus = [pod for pod in active if self._slot(record, pod) not in wanted]
            taken = {self._slot(record, pod) for pod in active} | done
            running = sum(pod.phase == "Running" for pod in active) + sum(
                slot in done for slot in self._of_wave(job, 0)
            )
            runs = running >= sum(podset.minimum for podset in job.podsets if podset.wave == 0)
            waves = self._of_wave(job, 0) + (self._of_wave(job, 1) if runs else [])
            missing = [slot for slot in waves if slot not in taken and not (job.closes and done)]
            if job.completions:
                missing = missing[: max(0, left - len(active))]
            yield from self._delete(surplus)
            yield from self._create(job, record, [wanted[slot] for slot in missing])
        self._report(job.uid, record, suspended=job.suspended, ended=ended)

    def _is_complete(self, job: BatchJob, done: Collection[SlotKey], active: list[Pod]) -> bool:
        """Whether the job is complete, without its pods that have to end because it is suspended."""
        if job.by_pod:
            return job.slots.keys() <= set(done)
        return bool(done) and (not job.closes or job.suspended or not active)

    def _of_wave(self, job: BatchJob, wave: int) -> list[SlotKey]:
        return [slot for slot, (podset, _) in job.slots.items() if podset.wave == wave]

    def _slot(self, record: _Record, pod: Pod) -> SlotKey:
        podset, index = record.slots[pod.uid]
        return podset.slot(index)

    def _delete(self, pods: list[Pod]) -> Process[None]:
        for pod in pods:
            yield from self._turn()
            self._deleted[pod.uid] = None
            self._api.delete_pod(pod.uid)

    def _create(self, job: BatchJob, record: _Record, missing: list[tuple[PodSet, int]]) -> Process[None]:
        for podset, index in missing:
            yield from self._turn()
            if job.key in self.blocked:
                record.refusals += 1
                record.dirty = True
                return
            record.refusals = 0
            if self._job(job.uid) is None:
                return
            name = f"{job.uid}-{podset.name}{index}.{next(self._numbers)}"
            pod = job.pod(podset, index, name, self._clock.now)
            if job.same_names:
                pod = replace(pod, name=f"{job.uid}-{podset.name}{index}")
            self._owners[name] = job.uid
            record.slots[name] = podset, index
            if self._api.create_pod(pod) == CONFLICT:
                # The controller looks again when the pod of that name has gone.
                del self._owners[name], record.slots[name]

    def _turn(self) -> Process[None]:
        """Wait until the next request may be sent."""
        self._free_at = max(self._free_at, self._clock.now) + 1 / self._rate
        yield self._free_at - self._clock.now

    def _report(self, uid: str, record: _Record, *, suspended: bool, ended: str) -> None:
        """Write the status; the other fields keep their present values."""
        job = self._job(uid)
        if job is None:
            return
        pods = [pod for pod in map(self._api.pods.get, record.slots) if pod is not None]
        active = sum(pod.live for pod in pods)
        well = [pod for pod in pods if (job.by_pod or job.closes) and pod.phase == "Succeeded"]
        began = (job.began or not suspended) and not (suspended and not active)
        self._api.set_job(
            replace(
                job,
                began=began,
                idle=suspended and not active and not ended,
                active=active,
                failed=record.failed,
                succeeded=len(record.succeeded) if job.completions else max(job.succeeded, len(well)),
                ran=record.failed > 0
                or any(pod.phase in ("Running", "Succeeded") and not pod.deleting for pod in pods),
                done=job.done if job.completions else job.done | {self._slot(record, pod) for pod in well},
                ended=job.ended or ended,
            )
        )
        if ended and not job.ended and job.ttl_s < float("inf"):
            self._clock.after(job.ttl_s, lambda: self.delete(job))

    def _collect(self, uid: str) -> None:
        """The garbage collector: the pods of a job that is gone."""
        record = self._records.pop(uid)
        if record.timer is not None:
            record.timer.cancel()
        for pod_uid in [pod for pod, owner in self._owners.items() if owner == uid]:
            self._api.delete_pod(pod_uid)

    def _job(self, uid: str) -> BatchJob | None:
        record = self._records.get(uid)
        job = self._api.jobs.get(record.key) if record is not None else None
        return job if job is not None and job.uid == uid else None
