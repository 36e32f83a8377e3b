"""Queue objects as people keep them in files: YAML with one document or several."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import msgspec
import yaml

from extender.core.events import Event, QueueSeen
from extender.kube.convert import UnreadableError
from extender.kube.objects import UNDECODABLE
from extender.kube.plain import quoted
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
from extender.kube.resources import Resource

NOT_YAML = (yaml.YAMLError, ValueError, RecursionError)
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
"""Of a LocalQueue that says none, as ``kubectl apply`` has it."""


def queue_documents(text: str) -> Iterator[QueueSeen | tuple[str, int]]:
    """Each object as the extender would be told of it; of a WorkloadPriorityClass its name and value. Raises
    UnreadableError."""
    try:
        documents = [one for one in yaml.safe_load_all(text) if one is not None]
    except NOT_YAML as error:
        raise UnreadableError(f"this is not YAML: {error}") from None
    for number, document in enumerate(documents, 1):
        try:
            yield queue_document(document)
        except (UnreadableError, *UNDECODABLE) as error:
            raise UnreadableError(f"document {number}: {error}") from None


def queue_document(document: Any) -> QueueSeen | tuple[str, int]:
    """The same of one object. Raises UnreadableError, and what msgspec raises for a field of another type."""
    if not isinstance(document, dict):
        raise UnreadableError("it is no object with apiVersion and kind")
    kind, said = document.get("kind"), str(document.get("apiVersion"))
    group, _, version = said.rpartition("/")
    of_volcano = (said, kind) == (_OF_VOLCANO, "Queue")
    if not of_volcano and (group != QUEUE_GROUP or version not in VERSIONS or kind not in _KINDS):
        known = f"{', '.join(_KINDS)} of {QUEUE_GROUP}/{' and '.join(VERSIONS)}, and Queue of {_OF_VOLCANO}"
        raise UnreadableError(f"a {quoted(str(kind))} of {quoted(said)} is not read here, but {known}")
    meta = document.get("metadata")
    if kind == "LocalQueue" and isinstance(meta, dict):
        meta.setdefault("namespace", _NAMESPACE)
    raw = msgspec.Raw(msgspec.json.encode(document))
    reader = VOLCANO_QUEUES if of_volcano else _reader(_KINDS[str(kind)], version)
    found: QueueSeen | tuple[str, int] | None = reader.read(raw)[1]
    if found is None:
        raise UnreadableError(f"the {kind} cannot be read")
    return found


def _reader(plural: str, version: str) -> Resource[QueueSeen, Event] | Resource[tuple[str, int], None]:
    return workload_priorities(version) if plural == CLASSES else QUEUE_KINDS[plural](version)
