"""Faults of suspended jobs: others edit, suspend, start, hold, delete and remake them, and their nodes are lost."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from policies.model import GroupKey, PodSet
from tests.simulation.model.batch import BatchJob, resume, suspend
from tests.simulation.trouble import Trouble

Edit = Callable[[BatchJob], BatchJob]


def suspend_job(trouble: Trouble, *keys: GroupKey) -> None:
    """Any of these, or any at all."""

    def runs(job: BatchJob) -> bool:
        return not job.suspended and (not keys or job.key in keys)

    _edit(trouble, lambda job: suspend(job, polices=trouble.world.polices), runs)


def resume_job(trouble: Trouble) -> None:
    _edit(trouble, lambda job: resume(job, polices=trouble.world.polices), lambda job: job.suspended)


def edit_job(trouble: Trouble) -> None:
    """Change the number of the job's pods by one."""
    more = trouble.random.choice((-1, 1))

    def resized(job: BatchJob) -> BatchJob:
        first, *others = job.podsets
        count = max(1, first.count + more)
        least = max(1, first.minimum + more)
        return _grouped(replace(job, podsets=(replace(first, count=count, minimum=min(least, count)), *others)))

    _edit(trouble, resized)


def hold_job(trouble: Trouble) -> None:
    """Hold the job, and lift the hold some time later."""
    job = _edit(trouble, lambda job: replace(job, held=True))

    def end_hold() -> None:
        now = trouble.world.api.jobs.get(job.key) if job is not None else None
        if now is not None:
            trouble.world.api.set_job(replace(now, held=False))

    trouble.later(end_hold, 40.0)


def delete_batch_job(trouble: Trouble) -> None:
    """Delete a job. Every second time a job of the same name is created at once."""
    job = _some(trouble)
    if job is None:
        return
    trouble.world.api.remove_job(job.key)
    if trouble.random.random() < 0.5:
        uid = f"{job.uid}+{trouble.number()}"
        podsets = tuple(replace(podset, template=replace(podset.template, owner=uid)) for podset in job.podsets)
        anew = BatchJob(
            job.key,
            uid,
            podsets,
            pins=job.pins,
            remakes=job.remakes,
            by_pod=job.by_pod,
            closes=job.closes,
            backoff_limit=job.backoff_limit,
            run_s=job.run_s,
            ttl_s=job.ttl_s,
        )
        trouble.world.api.set_job(anew)


def take_plan_off(trouble: Trouble) -> None:
    """Remove the annotation with the plan, or with the time until which nodes are awaited, as a user does."""

    def holds(job: BatchJob) -> bool:
        return job.plan is not None or job.node_wait is not None

    _edit(trouble, lambda job: replace(job, plan=None, node_wait=None), holds)


def silence_kubelet(trouble: Trouble, *keys: GroupKey) -> None:
    """A node with pods of a job is silent for long; every third time its object is deleted after a while."""
    world, name = trouble.world, _node_of_a_job(trouble, *keys)
    node = world.api.nodes.get(name or "")
    if node is None:
        return
    back = trouble.silence(node)

    def go() -> None:
        if node.name in world.api.nodes and not world.api.nodes[node.name].ready:
            world.api.remove_node(node.name)

    if trouble.random.random() < 0.3:
        trouble.later(go, 40.0)
    elif trouble.random.random() < 0.5:
        trouble.later(back, 80.0)


def delete_node(trouble: Trouble, *keys: GroupKey) -> None:
    """A node that a job was planned on; every second time it comes back."""
    api, name = trouble.world.api, _node_of_a_job(trouble, *keys)
    node = api.nodes.get(name or "")
    if node is None:
        return
    api.remove_node(node.name)
    if trouble.random.random() < 0.5:
        trouble.later(lambda: api.set_node(node) if node.name not in api.nodes else None, 30.0)


def block_creation(trouble: Trouble) -> None:
    """A ResourceQuota keeps the pods of a job from being created."""
    job = _some(trouble)
    if job is not None:
        trouble.world.controller.blocked[job.key] = None
        trouble.later(lambda: trouble.world.controller.blocked.pop(job.key, None), 60.0)


def fail_job_pod(trouble: Trouble) -> None:
    job = _some(trouble)
    pods = [pod for pod in trouble.world.controller.pods(job) if pod.live and pod.node] if job is not None else []
    if pods:
        trouble.world.api.change_pod(trouble.random.choice(pods).uid, phase="Failed")


def delete_job_pod(trouble: Trouble) -> None:
    job = _some(trouble)
    pods = [pod for pod in trouble.world.controller.pods(job) if pod.live] if job is not None else []
    if pods:
        trouble.world.api.delete_pod(trouble.random.choice(pods).uid)


def stop_work_queue(trouble: Trouble) -> None:
    """Let some pods of a job succeed before another client suspends it, or before it loses a node."""
    controller = trouble.world.controller
    job = trouble.some([job for job in controller.running if (job.by_pod or job.closes) and not job.podsets[0].indexed])
    if job is not None:
        controller.finish(job)
        stop = trouble.random.choice((suspend_job, delete_node, silence_kubelet))
        trouble.later(lambda: stop(trouble, job.key), 2.0)


WORK_FAULTS: dict[str, Callable[[Trouble], None]] = {"a job is stopped when some of its pods are done": stop_work_queue}
JOB_FAULTS: dict[str, Callable[[Trouble], None]] = {
    "a suspended job is suspended by others": suspend_job,
    "a suspended job is started by others": resume_job,
    "a suspended job is edited": edit_job,
    "a suspended job is held": hold_job,
    "a suspended job is deleted": delete_batch_job,
    "the plan of a job is removed": take_plan_off,
    "a node of a job is silent": silence_kubelet,
    "a node of a job is deleted": delete_node,
    "no pod of a job can be created": block_creation,
    "a pod of a job fails": fail_job_pod,
    "a pod of a job is deleted": delete_job_pod,
}


def _some(trouble: Trouble, holds: Callable[[BatchJob], bool] = lambda job: True) -> BatchJob | None:
    return trouble.some([job for job in trouble.world.api.jobs.values() if not job.ended and holds(job)])


def _edit(trouble: Trouble, edit: Edit, holds: Callable[[BatchJob], bool] = lambda job: True) -> BatchJob | None:
    job = _some(trouble, holds)
    if job is not None:
        trouble.world.api.set_job(edit(job))
    return job


def _grouped(job: BatchJob) -> BatchJob:
    """The job with the minMember in its templates that follows from its podsets."""
    least = sum(podset.minimum for podset in job.podsets if podset.wave == 0)

    def regrouped(podset: PodSet) -> PodSet:
        group = podset.template.group
        return replace(
            podset, template=replace(podset.template, group=group._replace(min_member=least) if group else None)
        )

    return replace(job, podsets=tuple(map(regrouped, job.podsets)))


def _node_of_a_job(trouble: Trouble, *keys: GroupKey) -> str | None:
    jobs = trouble.world.api.jobs
    planned = [jobs[key] for key in keys or jobs if key in jobs and jobs[key].plan is not None and not jobs[key].ended]
    job = trouble.some(planned)
    if job is None or job.plan is None:
        return None
    return trouble.some(list(dict.fromkeys(node for nodes in job.plan.values() for node in nodes if node)))
