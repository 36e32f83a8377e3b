"""The queue objects of a cluster in a snapshot: as people write them, with only what a decision reads."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import suppress
from typing import Any

import msgspec
from msgspec import Struct

from extender.core.events import NamespaceSeen, QueueSeen
from extender.kube.client import Kube
from extender.kube.convert import readable
from extender.kube.queues.documents import queue_document
from extender.kube.queues.past_use import past_use_from, past_use_to
from extender.kube.queues.read import (
    ANNOTATED,
    ClusterQueueObject,
    CohortObject,
    FlavorObject,
    KueueTopology,
    LocalQueueObject,
    PriorityClassObject,
    VolcanoQueueObject,
)
from extender.kube.queues.resources import (
    CLASSES,
    QUEUE_GROUP,
    TOPOLOGIES,
    VERSIONS,
    VOLCANO_GROUP,
    VOLCANO_QUEUES,
    VOLCANO_VERSION,
    path_of,
)
from extender.kube.queues.runs import RUNS, runs_from, runs_text
from extender.kube.reading.identity import UnreadableError
from extender.kube.reading.objects import UNDECODABLE, AnyObject, Meta
from extender.kube.resources import NAMESPACES, namespace_from
from extender.kube.snapshots.jobs import listed

Document = dict[str, Any]
_UNCONVERTED = 500
"""The status of an answer if Kueue's conversion webhook is gone."""
_CLASS = "WorkloadPriorityClass"
_OBJECTS: dict[str, tuple[str, type[Struct]]] = {
    "ClusterQueue": ("clusterqueues", ClusterQueueObject),
    "LocalQueue": ("localqueues", LocalQueueObject),
    "Cohort": ("cohorts", CohortObject),
    "ResourceFlavor": ("resourceflavors", FlavorObject),
    "Topology": (TOPOLOGIES, KueueTopology),
    _CLASS: (CLASSES, PriorityClassObject),
}
"""Kinds that name others come first, so that a pseudonym shows the kind of thing that a name is of."""


async def take_queues(kube: Kube) -> tuple[list[Document], list[AnyObject]]:
    """All queue objects, and the namespaces with the labels by which queues select them. Raises ApiError."""
    documents: list[Document] = []
    for kind, (plural, _) in _OBJECTS.items():
        documents += await _of_kind(kube, kind, plural)
    documents += await _of_volcano(kube)
    raw = [item async for page in kube.list_pages(NAMESPACES.path) for item in page.items]
    named = [msgspec.json.decode(item, type=AnyObject).metadata or Meta() for item in raw]
    return documents, [
        AnyObject(Meta(name=meta.name, labels=meta.labels, deletion_timestamp=meta.deletion_timestamp))
        for meta in named
    ]


def reduced_queue(kind: str, version: str, raw: bytes | msgspec.Raw) -> Document:
    """The fields of an object of that kind that a decision reads."""
    obj: Any = msgspec.json.decode(raw, type=_OBJECTS[kind][1])
    meta = obj.metadata or Meta()
    annotations = {key: annotation for key, annotation in (meta.annotations or {}).items() if key in ANNOTATED} or None
    fields = ("name", meta.name), ("namespace", meta.namespace), ("annotations", annotations)
    names = {key: value for key, value in fields if value}
    document_of: Document = {"apiVersion": f"{QUEUE_GROUP}/{version}", "kind": kind, "metadata": names}
    if isinstance(obj, PriorityClassObject):
        return document_of | {"value": obj.value}
    document_of["spec"] = msgspec.to_builtins(obj.spec) or {}
    return document_of | (_past(obj) if isinstance(obj, LocalQueueObject) else {})


def reduced_volcano_queue(raw: bytes | msgspec.Raw) -> Document:
    """The fields of a Queue of Volcano that a decision reads."""
    obj = msgspec.json.decode(raw, type=VolcanoQueueObject)
    api_version, meta = f"{VOLCANO_GROUP}/{VOLCANO_VERSION}", {"name": (obj.metadata or Meta()).name}
    parts = {"spec": msgspec.to_builtins(obj.spec) or {}, "status": msgspec.to_builtins(obj.status) or {}}
    return {"apiVersion": api_version, "kind": "Queue", "metadata": meta, **parts}


def queue_events(
    documents: Sequence[Document], namespaces: Sequence[AnyObject], unreadable: list[str]
) -> Iterator[QueueSeen | NamespaceSeen]:
    """Yield the core's events. Why an object cannot be read is added to ``unreadable``."""
    yield from readable(namespace_from, namespaces, unreadable)
    for document in documents:
        try:
            event = queue_document(document)
        except (UnreadableError, *UNDECODABLE) as error:
            unreadable.append(str(error))
            continue
        if isinstance(event, QueueSeen):
            yield event


def priorities_in(documents: Sequence[Document]) -> dict[str, int]:
    """The values of the readable WorkloadPriorityClasses; ``queue_events`` names the others."""
    values: dict[str, int] = {}
    for document in documents:
        if document.get("kind") == _CLASS:
            with suppress(UnreadableError, *UNDECODABLE):
                value_class = queue_document(document)
                values |= dict([value_class] if isinstance(value_class, tuple) else [])
    return values


def _past(obj: LocalQueueObject) -> Document:
    """The past use and running times in the queue's status."""
    status: Document = {}
    sharing = obj.status.fair_sharing if obj.status else None
    past = past_use_from(sharing.admission_fair_sharing_status) if sharing else None
    if past is not None:
        status["fairSharing"] = {"admissionFairSharingStatus": past_use_to(past)}
    if runs := runs_from((obj.status.conditions if obj.status else None) or ()):
        status["conditions"] = [{"type": RUNS, "message": runs_text(runs)}]
    return {"status": status} if status else {}


async def _of_kind(kube: Kube, kind: str, plural: str) -> list[Document]:
    for version in VERSIONS:
        absent = (404,) if version == VERSIONS[-1] else (404, _UNCONVERTED)
        if (raws := await listed(kube, path_of(version, plural), absent)) is not None:
            return [reduced_queue(kind, version, item) for item in raws]
    return []


async def _of_volcano(kube: Kube) -> list[Document]:
    raws = await listed(kube, VOLCANO_QUEUES.path)
    return [reduced_volcano_queue(item) for item in raws or ()]
