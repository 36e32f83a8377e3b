"""Jobs in a snapshot: every kind in one shape, with the facts that its reader found.

The templates are as their author wrote them, completed as the API server completes their pods.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import replace

import msgspec
from msgspec import Struct, field

from extender.kube.api.connection import ApiError
from extender.kube.client import Kube
from extender.kube.dialects import POD_GROUP
from extender.kube.keys import MIN_PARALLELISM, PLAN, WORKLOAD
from extender.kube.kinds.completion import (
    ClassT,
    Completion,
    LimitRange,
    PriorityClass,
    RuntimeClass,
    TemplateSpec,
    by_name,
    limits_of,
)
from extender.kube.kinds.kind import Kind, Object, Template, UnreadableJobError
from extender.kube.kinds.read import Reader, decoded, meta_of, templates_of
from extender.kube.kinds.resources import LIMITS, PRIORITIES, RUNTIMES
from extender.kube.kinds.template import Originals, bare, originals_of
from extender.kube.reading.identity import UnreadableError
from extender.kube.reading.objects import UNDECODABLE, AnyObject, Meta, PodObject
from policies.model import GroupKey, Job

_ALIKE = ("suspended", "stopped", "finished", "running", "marked", "delay", "same_names", "backs_off", "began")
"""Fields that mean the same on a JobObject and on a Job."""
_SKETCH = msgspec.json.Decoder(AnyObject)


class PodSetObject(Struct, rename="camel"):
    """The podsets that are made of one pod template: the fields of ``Template`` that a plan needs."""

    template: PodObject
    series: list[str]
    count: int
    indexed: bool = True
    wave: int = 0
    minimum: int | None = None
    done: list[int] = field(default_factory=list)
    ended: list[int] = field(default_factory=list)
    closed: int = 0
    completions: int = 0
    deadline_s: float | None = None


class JobObject(Struct, rename="camel"):
    """A job of any kind.

    ``metadata``: of the object in which the job is read (``Kind.shown_in``).
    ``problem``: only what the other fields do not show. All other fields are as in Job.
    """

    api_version: str
    kind: str
    metadata: Meta
    suspended: bool = False
    stopped: bool = False
    finished: bool = False
    running: bool = False
    marked: bool = False
    resumes: bool = False
    same_names: bool = False
    backs_off: bool = False
    began: float | None = None
    delay: str = ""
    problem: str = ""
    pod_sets: list[PodSetObject] = field(default_factory=list)

    @property
    def templates(self) -> Iterator[PodObject]:
        return (pod_set.template for pod_set in self.pod_sets)


async def take_jobs(kube: Kube, reader: Reader, pods: Collection[PodObject]) -> list[JobObject]:
    """Read the jobs that Muster manages; an ended one is kept while pods of it exist. Raises ApiError."""
    reader.completion = await _completion(kube)
    ended = ("Succeeded", "Failed")
    busy = {uid for pod in pods if pod.status is None or pod.status.phase not in ended for uid in _makers(pod)}
    kinds = [kind for kind in reader.registry.kinds if kind.shown_in is None]
    jobs = [_job(kind, raw, reader, busy) for kind in kinds for raw in await listed(kube, kind.path) or ()]
    return [job for job in jobs if job is not None]


def job_from(obj: JobObject, reader: Reader) -> Job:
    """The Job of the core. Raises UnreadableError if the metadata do not identify the object."""
    known = reader.registry.kind_of(obj.api_version, obj.kind)
    kind = Kind(
        version=obj.api_version,
        name=obj.kind,
        plural="",
        templates=lambda _: _templates(obj),
        suspend="",
        finished=(),
        active=(),
        ran=(),
        managed_by="",
        managers=(),
        min_parallelism=True,
        resumes=obj.resumes,
        shown_in=known.shown_in if known is not None else None,
    )
    job = reader.read(kind, {"metadata": msgspec.to_builtins(obj.metadata)})
    return replace(
        job,
        managed=True,
        problem=obj.problem or job.problem,
        **{name: getattr(obj, name) for name in _ALIKE},
    )


def job_object(kind: Kind, obj: Object, reader: Reader) -> tuple[JobObject, Job]:
    """The object to keep of a job, and the Job of the core. Raises UnreadableError."""
    job, meta = reader.read(kind, obj), meta_of(kind.name, obj)
    annotations = dict(meta.annotations or {})
    if job.plan is None and job.node_wait is None:
        annotations.pop(PLAN, None)
    if not kind.min_parallelism:
        annotations.pop(MIN_PARALLELISM, None)
    originals, meta.annotations = originals_of(meta), annotations
    problem, podsets = "", []
    try:
        for template in templates_of(kind, obj):
            podset, why = _podset(template, originals.get(template.name, {}), job.key, reader.completion)
            podsets.append(podset)
            problem = problem or why
    except UnreadableJobError as error:
        problem, podsets = str(error), []
    read_object = JobObject(
        api_version=kind.version,
        kind=kind.name,
        metadata=meta,
        resumes=job.resumes,
        problem=problem,
        pod_sets=podsets,
        **{name: getattr(job, name) for name in _ALIKE},
    )
    return read_object, job


def _job(kind: Kind, raw: msgspec.Raw, reader: Reader, busy: Collection[str]) -> JobObject | None:
    """The object to keep; None if the job is not managed, has ended, ends without a pod, or cannot be read."""
    try:
        meta = _SKETCH.decode(raw).metadata or Meta()
        shown = reader.registry.read_as(kind, meta)
        if not reader.registry.is_wanted(shown, meta):
            return None
        obj = msgspec.json.decode(raw)
        read_object, job = job_object(shown, obj, reader)
    except (UnreadableError, *UNDECODABLE):
        return None
    return read_object if job.managed and not shown.is_empty(obj) and (not job.finished or job.uid in busy) else None


def _podset(
    template: Template, originals: Originals, key: GroupKey, completion: Completion
) -> tuple[PodSetObject, str]:
    """The podset, and why its pods cannot be completed. The template names the gang, as the pods will."""
    made_of = decoded(bare(template, originals))
    meta, spec = made_of.metadata or Meta(), made_of.spec or TemplateSpec()
    problem = completion.complete(key.namespace, spec)
    spec.runtime_class_name = spec.priority_class_name = None
    annotations = {**(meta.annotations or {}), POD_GROUP: key.name}
    pod_set = PodSetObject(
        PodObject(Meta(labels=meta.labels, annotations=annotations), spec),
        list(template.series),
        template.count,
        template.indexed,
        template.wave,
        template.minimum,
        sorted(template.done),
        sorted(template.ended),
        template.closed,
        template.completions,
        template.deadline_s,
    )
    return pod_set, problem


def _templates(obj: JobObject) -> Iterator[Template]:
    for pod_set in obj.pod_sets:
        yield Template(
            "",
            msgspec.to_builtins(pod_set.template),
            tuple(pod_set.series),
            pod_set.count,
            pod_set.indexed,
            pod_set.wave,
            minimum=pod_set.minimum,
            done=frozenset(pod_set.done),
            ended=frozenset(pod_set.ended),
            closed=pod_set.closed,
            completions=pod_set.completions,
            deadline_s=pod_set.deadline_s,
        )


def _makers(pod: PodObject) -> Iterator[str]:
    """Yield the UIDs of the objects that made the pod."""
    meta = pod.metadata or Meta()
    yield (meta.annotations or {}).get(WORKLOAD, "")
    yield from (
        owner_reference.uid or "" for owner_reference in meta.owner_references or () if owner_reference.controller
    )


async def _completion(kube: Kube) -> Completion:
    limits = [msgspec.json.decode(raw, type=LimitRange) for raw in await listed(kube, LIMITS.path) or ()]
    return Completion(
        limits=limits_of(limits),
        runtimes=await _by_name(kube, RUNTIMES.path, RuntimeClass),
        priorities=await _by_name(kube, PRIORITIES.path, PriorityClass),
    )


async def _by_name(kube: Kube, path: str, kind: type[ClassT]) -> dict[str, ClassT]:
    return by_name([msgspec.json.decode(raw, type=kind) for raw in await listed(kube, path) or ()])


async def listed(kube: Kube, path: str, absent: Collection[int] = (404,)) -> list[msgspec.Raw] | None:
    """All objects at that path; None if the API server answers with one of these statuses."""
    try:
        return [item async for page in kube.list_pages(path) for item in page.items]
    except ApiError as error:
        if error.status in absent:
            return None
        raise
