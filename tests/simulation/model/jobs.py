"""Jobs: they create pods, replace lost ones, run once enough of them have found each other, and end."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from extender.core.events import ClaimSeen
from extender.simulation.clock import Clock, Timer
from policies.model import (
    Controller,
    Dialect,
    GroupJob,
    GroupRef,
    Pod,
    PodGroup,
    PodSet,
    PodSets,
)
from tests.simulation.model.apiserver import OK, ApiServer
from tests.simulation.model.changes import Change, Kind
from tests.simulation.model.job_specs import Job, JobSpec


class Jobs:
    """The job controller and the jobs' own code. ``on_end`` is called with every job that has ended."""

    def __init__(
        self,
        api: ApiServer,
        clock: Clock,
        *,
        pause: Callable[[], float] = lambda: 0.0,
        late: Callable[[], float] = lambda: 0.0,
        on_end: Callable[[Job], None] | None = None,
    ) -> None:
        """``pause`` gives the seconds between the creation of one pod and the next, ``late`` those before the creation
        of a replacement beside that."""
        self.jobs: dict[str, Job] = {}
        self._api = api
        self._clock = clock
        self._pause = pause
        self._late = late
        self._on_end = on_end
        self._members: dict[str, tuple[Job, int]] = {}
        self._lives = 0
        api.listeners[Kind.PODS].append(self._pod_changed)
        api.listeners[Kind.GROUPS].append(self._group_changed)

    def submit(self, spec: JobSpec) -> Job:
        """Create its pods one after the other, and its PodGroup if the dialect has one."""
        self._lives += 1
        job = Job(spec, f"{spec.name}.{self._lives}", self._clock.now)
        self.jobs[job.uid] = job
        if spec.min_member and spec.dialect.has_objects:
            self._after(lambda: self._create_group(job))
        if not spec.pending:
            self._create_all(job)
        return job

    def _create_all(self, job: Job) -> None:
        at = 0.0
        for number in range(job.spec.size):
            at += self._pause()
            self._clock.after(at, lambda number=number: self._create(job, number))  # type: ignore[misc]

    def _group_changed(self, change: Change) -> None:
        """Create the pods of a PodGroup that was taken up."""
        group = change.value
        assert isinstance(group, PodGroup)
        job = None if group.job is None or group.pending or change.gone else self.jobs.get(group.job.uid)
        if job is not None and not job.taken_up:
            job.taken_up = True
            self._create_all(job)

    def delete(self, job: Job) -> None:
        """Delete the job as its user does: its PodGroup and its pods are deleted."""
        if not job.ended:
            self._end(job, succeeded=False)
        group = self._api.groups.get(job.spec.key)
        if group is not None and group.uid == job.uid:
            self._api.remove_group(job.spec.key)
        made_by = self._api.group_jobs.get(job.spec.key)
        if made_by is not None and made_by.uid == job.uid:
            self._api.remove_group_job(job.spec.key)
        for uid in list(job.pods.values()):
            self._api.delete_pod(uid)
        for number in range(job.spec.size):
            self._api.remove_storage(f"claim {job.spec.namespace}/data-{job.uid}-{number}")
        self.jobs.pop(job.uid, None)

    def finish(self, job: Job) -> None:
        """End the work of the job: its members succeed, and members that never ran are deleted."""
        self._end(job, succeeded=True)
        for uid in list(job.pods.values()):
            pod = self._api.pods.get(uid)
            if pod is not None and pod.phase == "Running" and not pod.deleting:
                self._api.change_pod(uid, phase="Succeeded")
            else:
                self._api.delete_pod(uid)
        self._clock.after(job.spec.ttl_s, lambda: self.delete(job))

    def _end(self, job: Job, *, succeeded: bool) -> None:
        job.ended, job.succeeded = True, succeeded
        self._set_timer(job, None)
        if self._on_end is not None:
            self._on_end(job)

    def _create_group(self, job: Job) -> None:
        spec = job.spec
        if not job.ended:
            group = PodGroup(spec.key, job.uid, spec.min_member, created=self._clock.now, queue=spec.queue)
            group = replace(group, dialect=spec.dialect, minima=spec.minima)
            if spec.pending:
                made_by = Controller("batch.volcano.sh/v1alpha1", "Job", spec.name, job.uid)
                self._api.set_group_job(GroupJob(made_by, PodSets(spec.key, self._podsets(job))))
                group = replace(group, job=made_by, pending=True)
            self._api.set_group(group)

    def _podsets(self, job: Job) -> tuple[PodSet, ...]:
        first, podsets = 0, []
        for role, least in zip(job.spec.roles, job.spec.least, strict=True):
            podsets.append(PodSet(replace(self._pod(job, first), uid="", index=None), role.replicas, least))
            first += role.replicas
        return tuple(podsets)

    def _create(self, job: Job, number: int) -> None:
        if job.ended or number in job.pods:
            return
        pod = self._pod(job, number)
        job.made += 1
        job.pods[number] = pod.uid
        self._members[pod.uid] = (job, number)
        for name in pod.claims if job.spec.storage is not None else ():
            if f"claim {pod.namespace}/{name}" not in self._api.storage and job.spec.storage is not None:
                self._api.set_storage(ClaimSeen(pod.namespace, name, False, job.spec.storage))  # noqa: FBT003
        if self._api.create_pod(pod) != OK:
            raise AssertionError(f"two pods of one name: {pod}")

    def _pod(self, job: Job, number: int) -> Pod:
        spec = job.spec
        left, role = number, spec.roles[0]
        for role in spec.roles:
            if left < role.replicas:
                break
            left -= role.replicas
        ref = None
        if spec.min_member:
            stated = spec.min_member if spec.dialect is Dialect.ANNOTATION else None
            ref = GroupRef(spec.name, spec.dialect, stated, role=role.name)
        name = f"{job.uid}-{number}.{job.made}"
        return Pod(
            uid=name,
            namespace=spec.namespace,
            name=name,
            requests=role.requests,
            scheduler=spec.scheduler,
            created=self._clock.now,
            priority=spec.priority,
            gates=spec.gates,
            owner=job.uid if spec.replaces else "",
            index=(left if role.series else number) if spec.indexed and spec.replaces else None,
            series=role.series,
            selection=role.selection,
            labels=role.labels,
            constraints=role.constraints,
            device_claims=role.claims,
            topology=spec.topology,
            group=ref,
            queue=spec.queue,
            eviction=spec.eviction,
            run=spec.run,
            stays=spec.stays,
            claims=(f"data-{job.uid}-{number}",) if spec.storage is not None else (),
        )

    def _pod_changed(self, change: Change) -> None:
        membership = self._members.get(change.uid)
        if membership is None:
            return
        job, number = membership
        pod = change.value
        assert isinstance(pod, Pod)
        if change.gone or pod.deleting or pod.phase == "Failed":
            del self._members[change.uid]
            self._lost(job, number, change.uid)
        elif pod.phase == "Running" and number not in job.running:
            job.running[number] = None
            self._meet(job)

    def _lost(self, job: Job, number: int, uid: str) -> None:
        job.running.pop(number, None)
        if job.pods.get(number) != uid or job.ended:
            return
        del job.pods[number]
        if job.productive_since is not None and len(job.running) < job.spec.needed:
            job.productive_since = None
            self._set_timer(job, None)
        if job.spec.replaces:
            self._after(lambda: self._create(job, number), self._late())
        elif not job.pods:
            self._end(job, succeeded=False)

    def _meet(self, job: Job) -> None:
        """A member runs: with the others it may be enough to begin; without them it waits."""
        spec = job.spec
        if job.first_running is None:
            job.first_running = self._clock.now
        if job.productive_since is not None or job.ended:
            return
        if len(job.running) >= spec.needed:
            self._set_timer(job, self._clock.after(spec.rendezvous_s, lambda: self._begin(job)))
        elif job.timer is None and spec.give_up_s < float("inf"):
            self._set_timer(job, self._clock.after(spec.give_up_s, lambda: self._give_up(job)))

    def _begin(self, job: Job) -> None:
        if len(job.running) < job.spec.needed:
            self._set_timer(job, None)
            return
        job.productive_since = self._clock.now
        self._set_timer(job, self._clock.after(job.spec.run_s, lambda: self.finish(job)))

    def _give_up(self, job: Job) -> None:
        """Delete the job, whose running members have waited long enough, and submit it again."""
        self.delete(job)
        self._after(lambda: self._resubmit(job))

    def _resubmit(self, job: Job) -> None:
        self.submit(job.spec)

    def _set_timer(self, job: Job, timer: Timer | None) -> None:
        if job.timer is not None:
            job.timer.cancel()
        job.timer = timer

    def _after(self, action: Callable[[], None], late_s: float = 0.0) -> None:
        self._clock.after(self._pause() + late_s, action)
