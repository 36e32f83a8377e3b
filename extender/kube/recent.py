"""The latest pods as they were decoded: of one that is seen again, only what has changed is converted."""

from __future__ import annotations

from collections.abc import Iterator
from operator import attrgetter
from typing import Any, NamedTuple

import msgspec

from extender.core.gate.stamps import WRITTEN, stamp_of
from extender.kube.convert import asked_by, pod_of, said_by
from extender.kube.reading.objects import Meta, PodObject, PodSpec, PodStatus
from extender.kube.reading.volumes import claims_of, own_claims_of
from policies.model import Pod

MOST_BYTES = 16 << 20
"""Of the pods that are remembered, as JSON: some 5,000. Most changes of a pod follow each other within seconds,
or minutes where thousands are on their way at once."""
LARGEST = 16 << 10
"""Bytes of a pod that is remembered: a user can write pods of a megabyte."""

_DECODER = msgspec.json.Decoder(PodObject)
# Whatever is decoded counts, so that no field can be forgotten here.
_metadata = attrgetter(*(name for name in Meta.__struct_fields__ if name not in ("resource_version", "annotations")))
_spec = attrgetter(*(name for name in PodSpec.__struct_fields__ if name != "node_name"))
_spec_of_many = attrgetter(*(name for name in PodSpec.__struct_fields__ if name not in ("node_name", "volumes")))
_ENCODER = msgspec.msgpack.Encoder()
MOST_ASKED = 1024
LONGEST_ASKED = 4 << 10
_asked: dict[bytes, dict[str, Any]] = {}
"""What the specs of jobs ask for, by what it is read from: their pods ask for the same."""


class _Version(msgspec.Struct, rename="camel"):
    uid: str | None = None
    resource_version: str | None = None


class _Versioned(msgspec.Struct):
    metadata: _Version | None = None


_VERSIONED = msgspec.json.Decoder(_Versioned | None)


class _Seen(NamedTuple):
    """``stamped``: its annotations that are a Binding's; the others are part of the metadata."""

    metadata: tuple[Any, ...]
    stamped: dict[str, str]
    spec: tuple[Any, ...]
    node: str | None
    status: PodStatus | None
    said: dict[str, Any]
    asked: dict[str, Any]
    pod: Pod


class _Remembered:
    """The pods that were seen last."""

    def __init__(self) -> None:
        self._seen: dict[str, tuple[_Seen, int, str | None]] = {}  # by UID, the latest last
        self._bytes = 0

    def __iter__(self) -> Iterator[str]:
        return iter(self._seen)

    def get(self, uid: str) -> _Seen | None:
        return found[0] if (found := self._seen.get(uid)) is not None else None

    def at(self, uid: str, version: str) -> Pod | None:
        """The pod as it was at that version, if that is the one that is remembered."""
        found = self._seen.get(uid)
        return found[0].pod if found is not None and found[2] == version else None

    def put(self, uid: str, seen: _Seen, size: int, version: str | None) -> None:
        self._forget(uid)
        self._seen[uid] = seen, size, version
        self._bytes += size
        while self._bytes > MOST_BYTES:
            self._forget(next(iter(self._seen)))

    def clear(self) -> None:
        self._seen.clear()
        self._bytes = 0

    def _forget(self, uid: str) -> None:
        if (found := self._seen.pop(uid, None)) is not None:
            self._bytes -= found[1]


_seen = _Remembered()


def read_pod(raw: msgspec.Raw) -> tuple[Meta, Pod]:
    """A pod as the API server sends it. Raises UnreadableError, or one of ``UNDECODABLE``."""
    return _remembered(_DECODER.decode(raw), len(raw))


def read_listed(raw: msgspec.Raw) -> tuple[Meta, Pod]:
    """A pod of a list, the same way. One that runs is not remembered: most of those will not change for long."""
    obj = _DECODER.decode(raw)
    if obj.status is None or obj.status.phase != "Running":
        return _remembered(obj, len(raw))
    meta = obj.metadata or Meta()
    return meta, pod_of(said_by(meta), _asked_by(meta, obj.spec or PodSpec()), obj)


def _remembered(obj: PodObject, size: int) -> tuple[Meta, Pod]:
    meta, seen = obj.metadata or Meta(), _look_at(obj)
    if size <= LARGEST:
        _seen.put(seen.pod.uid, seen, size, meta.resource_version)
    return meta, seen.pod


def pod_sent(raw: msgspec.Raw) -> Pod | None:
    """A pod from anybody else, None for null: mostly the one that was seen last, and then its version says all.

    It is not remembered. Raises UnreadableError, or one of ``UNDECODABLE``.
    """
    named = _VERSIONED.decode(raw)
    if named is None:
        return None
    meta = named.metadata
    if meta and meta.uid and meta.resource_version and (last := _seen.at(meta.uid, meta.resource_version)) is not None:
        return last
    return _look_at(_DECODER.decode(raw)).pod


def _look_at(obj: PodObject) -> _Seen:
    meta, spec = obj.metadata or Meta(), obj.spec or PodSpec()
    # What a spec asks for can bear the name of the pod, and the values of its labels.
    asks = (meta.name, meta.namespace, meta.labels, *_spec(spec))
    written = meta.annotations or {}
    stamped = {key: text for key, text in written.items() if key in WRITTEN}
    others = {key: text for key, text in written.items() if key not in WRITTEN} if stamped else meta.annotations
    metadata = others, *_metadata(meta)
    last = _seen.get(meta.uid or "")
    if last is None or last.metadata != metadata:
        said = said_by(meta)
    elif last.stamped != stamped:
        said = {**last.said, "stamp": stamp_of(stamped)}
    else:
        said = last.said
    asked = last.asked if last is not None and last.spec == asks else _asked_by(meta, spec)
    if last is not None and said is last.said and asked is last.asked:
        if last.node == spec.node_name and last.status == obj.status:
            return last
        # Of one that runs, the strings that it has in common with the last are kept once.
        metadata, stamped, asks = last.metadata, last.stamped, last.spec
    return _Seen(metadata, stamped, asks, spec.node_name, obj.status, said, asked, pod_of(said, asked, obj))


def _asked_by(meta: Meta, spec: PodSpec) -> dict[str, Any]:
    """As ``asked_by`` reads it: of the pod itself it looks at the claims, and at labels that selectors may name."""
    labels = meta.labels if spec.affinity or spec.topology_spread_constraints else None
    known_as = _ENCODER.encode(
        (meta.namespace, labels, claims_of(meta, spec), own_claims_of(meta, spec), *_spec_of_many(spec))
    )
    found = _asked.get(known_as)
    if found is None:
        found = asked_by(meta, spec)
        if len(known_as) <= LONGEST_ASKED:
            _asked[known_as] = found
            if len(_asked) > MOST_ASKED:
                del _asked[next(iter(_asked))]
    return found
