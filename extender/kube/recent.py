"""The latest pods as they were decoded: if a pod is seen again, only what has changed is converted."""

from __future__ import annotations

from collections.abc import Iterator
from operator import attrgetter
from typing import Any, NamedTuple

import msgspec

from extender.core.gate.stamps import WRITTEN, stamp_of
from extender.kube.convert import metadata_fields, pod_of, spec_fields
from extender.kube.reading.objects import Meta, PodObject, PodSpec, PodStatus
from extender.kube.reading.volumes import claims_of, own_claims_of
from policies.model import Pod

MOST_BYTES = 16 << 20
"""Most bytes of JSON of the remembered pods, some 5,000 of them.

Most changes of a pod follow each other within seconds, or minutes while thousands are created at once.
"""
LARGEST = 16 << 10
"""Most bytes of a remembered pod: a user can write pods of a megabyte."""

_DECODER = msgspec.json.Decoder(PodObject)
# Every decoded field is compared, so that none can be forgotten here.
_metadata = attrgetter(*(name for name in Meta.__struct_fields__ if name not in ("resource_version", "annotations")))
_spec = attrgetter(*(name for name in PodSpec.__struct_fields__ if name != "node_name"))
_spec_of_many = attrgetter(*(name for name in PodSpec.__struct_fields__ if name not in ("node_name", "volumes")))
_ENCODER = msgspec.msgpack.Encoder()
MOST_SPECS = 1024
LONGEST_SPEC = 4 << 10
_known_specs: dict[bytes, dict[str, Any]] = {}
"""Converted specs, by the parts that they are read from: the pods of a job share one."""


class _Version(msgspec.Struct, rename="camel"):
    uid: str | None = None
    resource_version: str | None = None


class _Versioned(msgspec.Struct):
    metadata: _Version | None = None


_VERSIONED = msgspec.json.Decoder(_Versioned | None)


class _Seen(NamedTuple):
    """A decoded and converted pod. ``stamped``: the annotations that a Binding wrote; others are in ``metadata``."""

    metadata: tuple[Any, ...]
    stamped: dict[str, str]
    spec: tuple[Any, ...]
    node: str | None
    status: PodStatus | None
    by_metadata: dict[str, Any]
    by_spec: dict[str, Any]
    pod: Pod


class _Remembered:
    """The pods that were seen last, limited by bytes."""

    def __init__(self) -> None:
        self._seen: dict[str, tuple[_Seen, int, str | None]] = {}  # by UID, the latest last
        self._bytes = 0

    def __iter__(self) -> Iterator[str]:
        return iter(self._seen)

    def get(self, uid: str) -> _Seen | None:
        return entry[0] if (entry := self._seen.get(uid)) is not None else None

    def at(self, uid: str, version: str) -> Pod | None:
        """The pod as it was at that version, if that is the remembered one."""
        entry = self._seen.get(uid)
        return entry[0].pod if entry is not None and entry[2] == version else None

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
        if (entry := self._seen.pop(uid, None)) is not None:
            self._bytes -= entry[1]


_seen = _Remembered()


def read_pod(raw: msgspec.Raw) -> tuple[Meta, Pod]:
    """Convert a pod as the API server sends it. Raises UnreadableError, or one of ``UNDECODABLE``."""
    return _remembered(_DECODER.decode(raw), len(raw))


def read_listed(raw: msgspec.Raw) -> tuple[Meta, Pod]:
    """Convert a pod of a list. A running pod is not remembered, because most of those do not change for long."""
    obj = _DECODER.decode(raw)
    if obj.status is None or obj.status.phase != "Running":
        return _remembered(obj, len(raw))
    meta = obj.metadata or Meta()
    return meta, pod_of(metadata_fields(meta), _spec_fields(meta, obj.spec or PodSpec()), obj)


def _remembered(obj: PodObject, size: int) -> tuple[Meta, Pod]:
    meta, seen = obj.metadata or Meta(), _look_at(obj)
    if size <= LARGEST:
        _seen.put(seen.pod.uid, seen, size, meta.resource_version)
    return meta, seen.pod


def pod_sent(raw: msgspec.Raw) -> Pod | None:
    """Convert a pod that another client sends; None for null. Mostly it has the remembered version, and is not decoded.

    The pod is not remembered. Raises UnreadableError, or one of ``UNDECODABLE``.
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
    # The fields of a spec can depend on the pod's name and labels.
    spec_key = (meta.name, meta.namespace, meta.labels, *_spec(spec))
    written = meta.annotations or {}
    stamped = {key: text for key, text in written.items() if key in WRITTEN}
    others = {key: text for key, text in written.items() if key not in WRITTEN} if stamped else meta.annotations
    metadata = others, *_metadata(meta)
    last = _seen.get(meta.uid or "")
    if last is None or last.metadata != metadata:
        by_metadata = metadata_fields(meta)
    elif last.stamped != stamped:
        by_metadata = {**last.by_metadata, "stamp": stamp_of(stamped)}
    else:
        by_metadata = last.by_metadata
    by_spec = last.by_spec if last is not None and last.spec == spec_key else _spec_fields(meta, spec)
    if last is not None and by_metadata is last.by_metadata and by_spec is last.by_spec:
        if last.node == spec.node_name and last.status == obj.status:
            return last
        # Equal strings of a pod and its last version are kept once.
        metadata, stamped, spec_key = last.metadata, last.stamped, last.spec
    pod = pod_of(by_metadata, by_spec, obj)
    return _Seen(metadata, stamped, spec_key, spec.node_name, obj.status, by_metadata, by_spec, pod)


def _spec_fields(meta: Meta, spec: PodSpec) -> dict[str, Any]:
    """The result of ``spec_fields``, shared by pods with equal specs, claims and selectable labels."""
    labels = meta.labels if spec.affinity or spec.topology_spread_constraints else None
    known_as = _ENCODER.encode(
        (meta.namespace, labels, claims_of(meta, spec), own_claims_of(meta, spec), *_spec_of_many(spec))
    )
    fields = _known_specs.get(known_as)
    if fields is None:
        fields = spec_fields(meta, spec)
        if len(known_as) <= LONGEST_SPEC:
            _known_specs[known_as] = fields
            if len(_known_specs) > MOST_SPECS:
                del _known_specs[next(iter(_known_specs))]
    return fields
