"""The identity of an object: its UID, namespace and name, without which it cannot be read."""

from __future__ import annotations

from extender.kube.reading.objects import Meta
from extender.kube.reading.plain import plain, quoted


class UnreadableError(ValueError):
    """The object lacks what every object has, or one of its amounts or instants cannot be read."""


def identity(meta: Meta, kind: str) -> tuple[str, str, str]:
    """The UID, namespace and name. Raises UnreadableError."""
    if not meta.name or not meta.namespace or not meta.uid:
        absent = next(word for word, value in _identifying(meta) if not value)
        raise UnreadableError(f"the {kind} has no {absent}")
    for word, value in _identifying(meta):
        if value and plain(value) != value:
            raise UnreadableError(f"the {kind} has the {word} {quoted(value)}, which is none")
    return meta.uid, meta.namespace, meta.name


def name_of(meta: Meta | None, kind: str) -> str:
    """The name of a cluster-scoped object. Raises UnreadableError without one."""
    if meta is None or not meta.name:
        raise UnreadableError(f"the {kind} has no name")
    return plain(meta.name)


def owning_pod(meta: Meta) -> str:
    """The UID of the pod for which the object was made, or empty."""
    owners = meta.owner_references or ()
    return next((plain(owner.uid or "") for owner in owners if owner.kind == "Pod" and owner.controller), "")


def _identifying(meta: Meta) -> tuple[tuple[str, str | None], ...]:
    return ("name", meta.name), ("namespace", meta.namespace), ("UID", meta.uid)
