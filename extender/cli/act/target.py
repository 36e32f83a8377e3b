"""Finds the workload of a typed name in the objects of a namespace. The API server is asked; no Muster has to run."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import TypeVar

import msgspec

from extender.cli.inspection.names import Known, NameProblemError, chosen, known_by, readings
from extender.kube.api.connection import ApiError
from extender.kube.client import Kube
from extender.kube.convert import pod_from
from extender.kube.keys import HOLD
from extender.kube.kinds.kind import Kind, Object
from extender.kube.kinds.read import Reader, meta_of
from extender.kube.kinds.registry import Registry, asks
from extender.kube.queues.resources import QUEUE_GROUP, VERSIONS
from extender.kube.reading.identity import UnreadableError
from extender.kube.reading.objects import UNDECODABLE, Meta, PodObject
from policies.model import Pod
from policies.words import listed

ReadT = TypeVar("ReadT")


class ActError(Exception):
    """Nothing is done; the message says why."""


@dataclass(frozen=True)
class JobFound:
    """A job as the API server has it. ``gang``: the name of its gang."""

    kind: Kind
    obj: Object
    meta: Meta
    gang: str

    @property
    def path(self) -> str:
        return self.kind.path_of(self.meta.namespace or "", self.meta.name or "")

    @property
    def held(self) -> bool:
        return "true" in self.meta.values_of(HOLD)

    @property
    def suspended(self) -> bool:
        return self.kind.is_suspended(self.obj)

    @property
    def ended(self) -> bool:
        return self.kind.has_finished(self.obj)

    def __str__(self) -> str:
        return f"{self.kind.name.lower()}/{self.meta.name}"


@dataclass
class Target:
    """A workload: its ``job`` if Muster admits one as a whole, else the pods of its gang."""

    known: Known
    job: JobFound | None
    pods: list[Pod]


@dataclass
class _There:
    """The objects of one namespace. ``barred``: missing rights."""

    jobs: list[JobFound] = field(default_factory=list)
    parts: dict[str, str] = field(default_factory=dict)
    """Jobs that cannot be acted on, with the reason: another object has made them, or Muster does not admit them."""
    pods: list[Pod] = field(default_factory=list)
    barred: list[str] = field(default_factory=list)


async def find(kube: Kube, typed: str, namespace: str | None, home: str, registry: Registry) -> Target:
    """Return the workload of that name. Raises ActError."""
    try:
        places = dict.fromkeys(way.namespace for way in readings(typed, namespace, home))
        every = {place: await _read(kube, place, registry) for place in places}
        known = [workload for place, there in every.items() for workload in _known(place, there)]
        meant = chosen(typed, namespace, home, known)
    except NameProblemError as problem:
        unmanaged = [why for there in every.values() for name, why in there.parts.items() if _is_meant(name, typed)]
        barred = [right for there in every.values() for right in there.barred]
        hint = f"; you lack the right to {listed(dict.fromkeys(barred), 20)}" if barred else ""
        raise ActError(unmanaged[0] if unmanaged else f"{problem}{hint}") from None
    except ApiError as error:
        raise ActError(f"the cluster cannot be read: {error}") from None
    there = every[meant.namespace]
    job = next((job for job in there.jobs if job.gang == meant.name and str(job) in meant.objects), None)
    pods = [pod for pod in there.pods if pod.group_key is not None and pod.group_key.name == meant.name]
    return Target(meant, job, pods)


def _is_meant(name: str, typed: str) -> bool:
    kind, _, own = name.partition("/")
    return typed.rpartition("/")[2] == own and (typed.count("/") != 1 or typed.startswith(kind))


def _known(namespace: str, there: _There) -> Iterator[Known]:
    """Return each job, also where several name the same gang, then the gangs that no job is admitted with."""
    gangs = known_by(namespace, there.pods)
    for job in there.jobs:
        yield Known(namespace, job.gang, [str(job)], gangs[job.gang].pods if job.gang in gangs else ())
    of_jobs = {job.gang for job in there.jobs}
    yield from (known for gang, known in gangs.items() if gang not in of_jobs)


async def check_queue(kube: Kube, namespace: str, queue: str) -> None:
    """Check that the LocalQueue exists, as far as it may be read. Raises ActError."""
    try:
        for version in VERSIONS:
            path = f"/apis/{QUEUE_GROUP}/{version}/namespaces/{namespace}/localqueues/{queue}"
            if await kube.find(path) is not None:
                return
    except ApiError as error:
        if error.status != 403:
            raise ActError(f"the LocalQueue cannot be read: {error}") from None
        return
    raise ActError(f"there is no LocalQueue {queue} in namespace {namespace}: muster queues lists all")


async def _read(kube: Kube, namespace: str, registry: Registry) -> _There:
    """Read the objects of a namespace; lists missing rights. Raises ApiError without an answer."""
    there, reader = _There(), Reader(registry=registry)

    async def look(path: str, take: Callable[[msgspec.Raw], None]) -> None:
        try:
            async for page in kube.list_pages(path):
                for raw in page.items:
                    try:
                        take(raw)
                    except (UnreadableError, *UNDECODABLE):
                        continue  # its name cannot be read either
        except ApiError as error:
            if error.status == 403:
                there.barred.append(error.denied.right if error.denied else str(error))
            elif error.status != 404:
                raise

    def job(kind: Kind) -> Callable[[msgspec.Raw], None]:
        return lambda raw: _take_job(there, kind, msgspec.json.decode(raw), reader, registry)

    def pod(raw: msgspec.Raw) -> None:
        there.pods.append(pod_from(msgspec.json.decode(raw, type=PodObject)))

    looks = [look(kind.path_of(namespace, "").rstrip("/"), job(kind)) for kind in registry.kinds]
    await asyncio.gather(*looks, look(f"/api/v1/namespaces/{namespace}/pods", pod))
    return there


def _take_job(there: _There, kind: Kind, obj: Object, reader: Reader, registry: Registry) -> None:
    meta = meta_of(kind.name, obj)
    name = f"{kind.name.lower()}/{meta.name}"
    if not registry.is_outermost(meta):
        maker = next(owner_reference for owner_reference in meta.owner_references or () if owner_reference.controller)
        above = f"{(maker.kind or '').lower()}/{maker.name}"
        there.parts[name] = f"{name} is a part of {above}, which is admitted as a whole: say {above}"
    elif not kind.is_left_to_us(obj):
        there.parts[name] = f"Muster does not admit {name}: another controller looks after it (spec.managedBy)"
    elif not asks(meta):
        there.parts[name] = (
            f"Muster does not admit {name}: it names no queue and has no label muster.dev/gang. Suspend it with "
            f"kubectl, or give it one of these (docs/jobs.md)"
        )
    else:
        # An object that shows a job of another kind has its templates; the name of its gang is that of the job.
        gang = reader.read(kind, obj).key.name if kind.shown_in is None else f"{kind.name.lower()}-{meta.name}"
        there.jobs.append(JobFound(kind, obj, meta, gang))


def decoded(answer: bytes, kind: type[ReadT]) -> ReadT:
    """Decode an answer. Raises ActError."""
    try:
        return msgspec.json.decode(answer, type=kind)
    except UNDECODABLE as error:
        raise ActError(f"the answer of the API server cannot be read: {error}") from None
