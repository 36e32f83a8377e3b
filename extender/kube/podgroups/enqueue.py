"""Lets Volcano's job controller make the pods of a PodGroup, where those are for a scheduler that Muster serves.

A Volcano Job has pods only when the phase of its PodGroup is neither empty nor Pending (syncJob of
pkg/controllers/job/job_controller_actions.go): the scheduler says with the phase Inqueue that it has taken the PodGroup
up. Which scheduler that is no field of the PodGroup says, but ``schedulerName`` of its job, and of the job's tasks.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import TypeVar

import msgspec

from extender.core.effects import Enqueue
from extender.kube.client import Kube
from extender.kube.connection import ApiError
from extender.kube.objects import UNDECODABLE, Meta
from extender.kube.podgroups.volcano import JOBS, PODGROUPS, VolcanoGroup

INQUEUE = "Inqueue"


class PodSpec(msgspec.Struct, rename="camel"):
    scheduler_name: str | None = None


class Template(msgspec.Struct):
    spec: PodSpec | None = None


class Task(msgspec.Struct):
    template: Template | None = None


class JobSpec(msgspec.Struct, rename="camel"):
    scheduler_name: str | None = None
    tasks: list[Task] | None = None


class VolcanoJob(msgspec.Struct):
    metadata: Meta | None = None
    spec: JobSpec | None = None

    def schedulers(self) -> set[str]:
        """Of its pods: the job's is the default of its tasks (createJobPod of job_controller_util.go)."""
        spec = self.spec or JobSpec()
        pods = [(task.template and task.template.spec) or PodSpec() for task in spec.tasks or ()]
        return {pod.scheduler_name or spec.scheduler_name or "" for pod in pods}


ObjectT = TypeVar("ObjectT", VolcanoJob, VolcanoGroup)


async def enqueue(kube: Kube, effect: Enqueue, schedulers: Collection[str], timeout_s: float) -> None:
    """One attempt; nothing is written where the job is another scheduler's, or the PodGroup has been taken up.

    Raises ApiError; 409 means that somebody has written to the PodGroup meanwhile.
    """
    namespace, name = effect.key
    job = await _get(kube, f"/apis/{JOBS}/namespaces/{namespace}/jobs/{effect.job.name}", VolcanoJob, timeout_s)
    if job is None or _meta(job).uid != effect.job.uid:
        return
    asked = job.schedulers()
    if not asked or not asked <= set(schedulers):
        return
    group = await _get(kube, f"/apis/{PODGROUPS}/namespaces/{namespace}/podgroups/{name}", VolcanoGroup, timeout_s)
    if group is None or _meta(group).uid != effect.uid or not group.pending:
        return
    seen = {"uid": effect.uid, "resourceVersion": _meta(group).resource_version}
    await kube.patch_volcano_phase(namespace, name, seen, INQUEUE, timeout_s=timeout_s)


def _meta(found: VolcanoJob | VolcanoGroup) -> Meta:
    return found.metadata or Meta()


async def _get(kube: Kube, path: str, kind: type[ObjectT], timeout_s: float) -> ObjectT | None:
    """None where there is none of that name."""
    try:
        return msgspec.json.decode(await kube.call("GET", path, timeout_s=timeout_s), type=kind)
    except ApiError as error:
        if error.status != 404:
            raise
        return None
    except UNDECODABLE as error:
        raise ApiError(422, "Unreadable", f"{path} cannot be read: {error}") from None
