"""Jobs, and the objects that complete their pods, as resources to follow."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

import msgspec

from extender.core.events import Event, JobGone, JobSeen
from extender.kube.kinds.completion import LimitRange, PriorityClass, RuntimeClass
from extender.kube.kinds.kind import Kind
from extender.kube.kinds.read import Reader
from extender.kube.reading.identity import UnreadableError
from extender.kube.reading.objects import AnyObject, Meta
from extender.kube.resources import Resource
from policies.model import Job

LookupT = TypeVar("LookupT", LimitRange, RuntimeClass, PriorityClass)
_SKETCH = msgspec.json.Decoder(AnyObject)


def jobs_of(kind: Kind, reader: Reader) -> Resource[Job, Event]:
    """The resource to follow: the jobs that Muster admits, which objects of that kind are or show. Of other objects
    only the metadata is decoded."""

    def read(raw: msgspec.Raw) -> tuple[Meta, Job | None]:
        meta = _SKETCH.decode(raw).metadata or Meta()
        shown = reader.registry.read_as(kind, meta)
        if not reader.registry.is_wanted(shown, meta):
            return meta, None
        job = reader.read(shown, msgspec.json.decode(raw))
        return meta, job if job.managed else None

    return Resource(
        kind.path,
        read,
        JobSeen,
        lambda job: JobGone(job.key, job.uid),
        known_as=lambda job: job.key,
        optional=True,
        dispensable=True,
    )


def _lookup(path: str, kind: type[LookupT]) -> Resource[LookupT, None]:
    decoder = msgspec.json.Decoder(kind)

    def read(raw: msgspec.Raw) -> tuple[Meta, LookupT]:
        obj = decoder.decode(raw)
        meta = obj.metadata or Meta()
        if not meta.name:
            raise UnreadableError("it has no name")
        # Other metadata, such as heartbeats, is no change.
        meta = Meta(name=meta.name, namespace=meta.namespace, uid=meta.uid, resource_version=meta.resource_version)
        obj.metadata = Meta(name=meta.name, namespace=meta.namespace)
        return meta, obj

    nothing: Callable[[LookupT], None] = lambda _: None  # noqa: E731 - whoever follows it looks at what is known
    return Resource(path, read, nothing, nothing, optional=True, dispensable=True)


LIMITS = _lookup("/api/v1/limitranges", LimitRange)
RUNTIMES = _lookup("/apis/node.k8s.io/v1/runtimeclasses", RuntimeClass)
PRIORITIES = _lookup("/apis/scheduling.k8s.io/v1/priorityclasses", PriorityClass)
