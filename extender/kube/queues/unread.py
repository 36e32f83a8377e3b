"""Fields of queue objects in files that nobody reads: misspelt ones, which kubectl would refuse."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from msgspec import Struct, inspect

from extender.kube.queues.objects import (
    ClusterQueueObject,
    CohortObject,
    FlavorObject,
    KueueTopology,
    LocalQueueObject,
)

_OBJECTS: Mapping[str, type[Struct]] = {
    "Topology": KueueTopology,
    "ResourceFlavor": FlavorObject,
    "Cohort": CohortObject,
    "ClusterQueue": ClusterQueueObject,
    "LocalQueue": LocalQueueObject,
}


def unread(document: Mapping[str, Any]) -> list[str]:
    """The paths of such fields in the spec of an object that has been read."""
    kind = _OBJECTS.get(str(document.get("kind")))
    if kind is None:
        return []
    spec = next(one.type for one in inspect.type_info(kind).fields if one.name == "spec")  # type: ignore[attr-defined]
    return list(dict.fromkeys(_unread(document.get("spec"), spec, "spec")))


def _unread(value: Any, shape: inspect.Type, path: str) -> Iterator[str]:
    match shape:
        case inspect.UnionType(types):
            for one in types:
                yield from _unread(value, one, path)
        case inspect.ListType(item) if isinstance(value, list):
            for one in value:
                yield from _unread(one, item, path)
        # Those of other modules are Kubernetes' own, of which only a part is ever read.
        case inspect.StructType(cls, fields) if isinstance(value, dict) and cls.__module__ == _HERE:
            known = {one.encode_name: one.type for one in fields}
            for name, said in value.items():
                if name in known:
                    yield from _unread(said, known[name], f"{path}.{name}")
                else:
                    yield f"{path}.{name}"
        case _:
            pass


_HERE = ClusterQueueObject.__module__
