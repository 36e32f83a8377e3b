"""Queue objects as people keep them in files: YAML with one document or several."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

import msgspec
from msgspec import Struct, inspect

from extender.config.reading import NOT_YAML, RefusedYamlError, parse_documents
from extender.core.events import Event, QueueSeen
from extender.kube.queues.read import ClusterQueueObject, CohortObject, FlavorObject, KueueTopology, LocalQueueObject
from extender.kube.queues.resources import (
    CLASSES,
    QUEUE_GROUP,
    QUEUE_KINDS,
    TOPOLOGIES,
    VERSIONS,
    VOLCANO_GROUP,
    VOLCANO_QUEUES,
    VOLCANO_VERSION,
    workload_priorities,
)
from extender.kube.reading.identity import UnreadableError
from extender.kube.reading.objects import UNDECODABLE
from extender.kube.reading.plain import plain, quoted
from extender.kube.resources import Resource

_KINDS = {
    "Topology": TOPOLOGIES,
    "ResourceFlavor": "resourceflavors",
    "Cohort": "cohorts",
    "ClusterQueue": "clusterqueues",
    "LocalQueue": "localqueues",
    "WorkloadPriorityClass": CLASSES,
}
_OF_VOLCANO = f"{VOLCANO_GROUP}/{VOLCANO_VERSION}"
_NAMESPACE = "default"
"""The namespace of a LocalQueue that states none, as in ``kubectl apply``."""


def queue_documents(text: str) -> Iterator[QueueSeen | tuple[str, int]]:
    """Yield each object as an event; a WorkloadPriorityClass as its name and value.

    A field that Muster does not read becomes a warning. Raises UnreadableError.
    """
    try:
        documents = [document for document in parse_documents(text) if document is not None]
    except RefusedYamlError as error:
        raise UnreadableError(str(error)) from None
    except NOT_YAML as error:
        raise UnreadableError(f"this is not YAML: {error}") from None
    for number, document in enumerate(documents, 1):
        for place, content in _items(document, f"document {number}"):
            try:
                yield _with_warnings(content, queue_document(content))
            except (UnreadableError, *UNDECODABLE) as error:
                raise UnreadableError(f"{place}: {error}") from None


def _items(document: Any, place: str) -> Iterator[tuple[str, Any]]:
    """Yield each object with its place: the items of a List, or the document itself."""
    items = document.get("items") if isinstance(document, dict) else None
    if isinstance(items, list) and str(document.get("kind")).endswith("List"):
        yield from ((f"{place}, item {number}", element) for number, element in enumerate(items, 1))
    else:
        yield place, document


def _with_warnings(document: Any, read: QueueSeen | tuple[str, int]) -> QueueSeen | tuple[str, int]:
    if not isinstance(read, QueueSeen) or not (fields := unread(document)):
        return read
    return replace(read, warnings=(*read.warnings, f"nothing is called {', '.join(map(plain, fields))}"))


def queue_document(document: Any) -> QueueSeen | tuple[str, int]:
    """Read one object. Raises UnreadableError, and what msgspec raises for a field of another type."""
    if not isinstance(document, dict) or not document.keys() >= {"apiVersion", "kind"}:
        raise UnreadableError("it is no object with apiVersion and kind")
    kind, text = str(document.get("kind")), str(document.get("apiVersion"))
    group, _, version = text.rpartition("/")
    of_volcano = (text, kind) == (_OF_VOLCANO, "Queue")
    if not of_volcano and (group != QUEUE_GROUP or version not in VERSIONS or kind not in _KINDS):
        known = f"{', '.join(_KINDS)} of {QUEUE_GROUP}/{' and '.join(VERSIONS)}, and Queue of {_OF_VOLCANO}"
        raise UnreadableError(f"a {quoted(kind)} of {quoted(text)} is not read here, but {known}")
    meta = document.get("metadata")
    if kind == "LocalQueue" and isinstance(meta, dict):
        meta.setdefault("namespace", _NAMESPACE)
    raw = msgspec.Raw(msgspec.json.encode(document))
    reader = VOLCANO_QUEUES if of_volcano else _reader(_KINDS[kind], version)
    queue: QueueSeen | tuple[str, int] | None = reader.read(raw)[1]
    if queue is None:
        raise UnreadableError(f"the {kind} cannot be read")
    return queue


def _reader(plural: str, version: str) -> Resource[QueueSeen, Event] | Resource[tuple[str, int], None]:
    return workload_priorities(version) if plural == CLASSES else QUEUE_KINDS[plural](version)


_OBJECTS: Mapping[str, type[Struct]] = {
    "Topology": KueueTopology,
    "ResourceFlavor": FlavorObject,
    "Cohort": CohortObject,
    "ClusterQueue": ClusterQueueObject,
    "LocalQueue": LocalQueueObject,
}


def unread(document: Mapping[str, Any]) -> list[str]:
    """The paths of fields in the object's spec that Muster does not read."""
    kind = _OBJECTS.get(str(document.get("kind")))
    if kind is None:
        return []
    spec = next(field.type for field in inspect.type_info(kind).fields if field.name == "spec")  # type: ignore[attr-defined]
    return list(dict.fromkeys(_unread(document.get("spec"), spec, "spec")))


def _unread(value: Any, shape: inspect.Type, path: str) -> Iterator[str]:
    match shape:
        case inspect.UnionType(types):
            for type_ in types:
                yield from _unread(value, type_, path)
        case inspect.ListType(item) if isinstance(value, list):
            for element in value:
                yield from _unread(element, item, path)
        # Structs of other modules are Kubernetes' own; Muster reads only a part of them.
        case inspect.StructType(cls, fields) if isinstance(value, dict) and cls.__module__ == _HERE:
            known = {field.encode_name: field.type for field in fields}
            for name, below in value.items():
                if name in known:
                    yield from _unread(below, known[name], f"{path}.{name}")
                else:
                    yield f"{path}.{name}"
        case _:
            pass


_HERE = ClusterQueueObject.__module__
