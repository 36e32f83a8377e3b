"""Volcano Jobs (``batch.volcano.sh/v1alpha1``): the pods that a job will make once its PodGroup is accepted.

Volcano's controller names the PodGroup and the pods (createOrUpdatePodGroup and createJobPod of volcano-sh/volcano,
pkg/controllers/job), and its webhook rejects changes of the templates. Where the templates say too little, Muster waits
for the pods and plans them as any gang.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import msgspec

from extender.core.events import Event, GroupJobGone, GroupJobSeen
from extender.kube.dialects.naming import NAMES
from extender.kube.kinds.completion import not_before_it_exists
from extender.kube.kinds.kind import Object, Template, UnreadableJobError, count_in, found, part_of
from extender.kube.kinds.plan import MOST_PODS
from extender.kube.kinds.read import Reader, meta_of, podsets_of
from extender.kube.podgroups.volcano import JOBS
from extender.kube.reading.numbering import series_of_role
from extender.kube.reading.objects import UNDECODABLE, Meta
from extender.kube.reading.plain import plain
from extender.kube.resources import Resource
from policies.model import Controller, Dialect, GroupJob, GroupKey, GroupRef, Pod, PodSet, PodSets

KIND = "Job"


def volcano_jobs_of(reader: Reader) -> Resource[GroupJob, Event]:
    """The resource to follow: jobs whose pods all name schedulers that Muster serves."""

    def read(raw: msgspec.Raw) -> tuple[Meta, GroupJob | None]:
        obj = msgspec.json.decode(raw)
        return meta_of(KIND, obj), volcano_job_from(obj, reader)

    return Resource(
        f"/apis/{JOBS}/jobs",
        read,
        GroupJobSeen,
        lambda job: GroupJobGone(job.key, job.uid),
        optional=True,
        dispensable=True,
        title=f"jobs.{JOBS.partition('/')[0]}",
    )


def volcano_job_from(obj: Object, reader: Reader) -> GroupJob | None:
    """Read the job; None if some of its pods name another scheduler.

    The result has no podsets if the pods cannot be planned before they exist. Raises UnreadableError if the metadata do
    not identify the object.
    """
    schedulers = set(_schedulers(obj))
    if not schedulers or not schedulers <= set(reader.schedulers):
        return None
    meta = meta_of(KIND, obj)
    made_by = Controller(JOBS, KIND, meta.name or "", meta.uid or "")
    key = GroupKey(meta.namespace or "", f"{made_by.name}-{made_by.uid}")
    try:
        return GroupJob(made_by, PodSets(key, tuple(_podsets(obj, meta, key, made_by, reader))))
    except UnreadableJobError:
        return GroupJob(made_by, PodSets(key, ()))


def _schedulers(obj: Object) -> Iterator[str]:
    """Yield the scheduler of each task. The job's scheduler is the default."""
    default = next(found(obj, "spec.schedulerName"), None)
    for task in _tasks(obj):
        own = next(found(task, "template.spec.schedulerName"), None)
        yield str(own or default or "")


def _tasks(obj: Object) -> list[Object]:
    return [item for item in found(obj, "spec.tasks.*") if isinstance(item, dict)]


def _podsets(obj: Object, meta: Meta, key: GroupKey, owner: Controller, reader: Reader) -> Iterator[PodSet]:
    templates, shapes, least = [], [], []
    if part_of(obj, "spec").get("volumes"):
        raise UnreadableJobError("its controller gives its pods volume claims, of which the templates tell nothing")
    for task in _tasks(obj):
        name, count = task.get("name"), count_in(task, "replicas", 1)
        if not name or task.get("dependsOn"):
            raise UnreadableJobError("its tasks have no name, or start one after the other")
        pod = _with_priority(part_of(task, "template"), part_of(obj, "spec").get("priorityClassName"))
        templates.append(Template(str(name), pod, (series_of_role(str(name)),), count))
        shapes.append(_shape(pod, str(name), meta, key, owner, reader))
        least.append(count_in(task, "minAvailable", count))
    if not 0 < sum(template.count for template in templates) <= MOST_PODS:
        raise UnreadableJobError(f"it has no pods, or more than {MOST_PODS:,}")
    minimum = count_in(part_of(obj, "spec"), "minAvailable", 0) or sum(least)
    yield from podsets_of(templates, shapes, _raised(templates, least, minimum), minimum)


def _with_priority(pod: Object, name: Any) -> Object:
    """The template with the job's PriorityClass where it names none, as the controller makes its pods."""
    spec = part_of(pod, "spec")
    return {**pod, "spec": {**spec, "priorityClassName": name}} if name and not spec.get("priorityClassName") else pod


def _raised(templates: list[Template], least: list[int], minimum: int) -> list[int]:
    """The minima of the tasks. If the job needs more pods than its tasks together, the first tasks need more."""
    more, counts = minimum - sum(least), []
    for template, count in zip(templates, least, strict=True):
        extra = max(0, min(more, template.count - count))
        counts.append(count + extra)
        more -= extra
    return counts


def _shape(pod: Object, task: str, meta: Meta, key: GroupKey, owner: Controller, reader: Reader) -> Pod:
    """A pod of that task as its controller makes it. Raises UnreadableJobError."""
    if _names_a_gang(pod.get("metadata") or {}):
        raise UnreadableJobError("its pod template names a gang itself")
    shape, problem = reader.shape_of(meta, key, owner, pod)
    if problem := problem or not_before_it_exists(shape):
        raise UnreadableJobError(problem)
    return replace(shape, group=GroupRef(key.name, Dialect.VOLCANO, role=plain(task)), queue="")


def _names_a_gang(metadata: Any) -> bool:
    try:
        meta = msgspec.convert(metadata, Meta)
    except UNDECODABLE as error:
        raise UnreadableJobError(f"its pod template cannot be read: {error}") from None
    return any(meta.values_of(name) for name in NAMES)
