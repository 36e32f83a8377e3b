"""The latest pods as they were decoded: of one that is seen again, only what has changed is converted."""

from __future__ import annotations

from operator import attrgetter
from typing import Any, NamedTuple

import msgspec

from extender.kube.convert import asked_by, pod_of, said_by
from extender.kube.objects import Meta, PodObject, PodSpec, PodStatus
from policies.model import Pod

_MOST = 1024
"""Pods that are remembered. Most changes of a pod follow each other within seconds."""
_LARGEST = 16 << 10
"""Bytes of a pod that is remembered: a user can write pods of a megabyte."""

_DECODER = msgspec.json.Decoder(PodObject)
# Whatever is decoded counts, so that no field can be forgotten here.
_metadata = attrgetter(*(name for name in Meta.__struct_fields__ if name != "resource_version"))
_spec = attrgetter(*(name for name in PodSpec.__struct_fields__ if name != "node_name"))


class _Seen(NamedTuple):
    metadata: tuple[Any, ...]
    spec: tuple[Any, ...]
    node: str | None
    status: PodStatus | None
    said: dict[str, Any]
    asked: dict[str, Any]
    pod: Pod


_seen: dict[str, _Seen] = {}  # by UID, the latest last


def read_pod(raw: msgspec.Raw) -> tuple[Meta, Pod]:
    """A pod as the API server sends it. Raises UnreadableError, or one of ``UNDECODABLE``."""
    obj = _DECODER.decode(raw)
    seen = _look_at(obj)
    if len(raw) <= _LARGEST:
        _seen.pop(seen.pod.uid, None)
        _seen[seen.pod.uid] = seen
        if len(_seen) > _MOST:
            del _seen[next(iter(_seen))]
    return obj.metadata or Meta(), seen.pod


def pod_again(obj: PodObject) -> Pod:
    """The same from anybody else. It is not remembered. Raises UnreadableError."""
    return _look_at(obj).pod


def _look_at(obj: PodObject) -> _Seen:
    meta, spec = obj.metadata or Meta(), obj.spec or PodSpec()
    # What a spec asks for can bear the name of the pod, and the values of its labels.
    metadata, asks = _metadata(meta), (meta.name, meta.namespace, meta.labels, *_spec(spec))
    last = _seen.get(meta.uid or "")
    said = last.said if last is not None and last.metadata == metadata else said_by(meta)
    asked = last.asked if last is not None and last.spec == asks else asked_by(meta, spec)
    if last is not None and said is last.said and asked is last.asked:
        if last.node == spec.node_name and last.status == obj.status:
            return last
        # Of one that runs, the strings that it has in common with the last are kept once.
        metadata, asks = last.metadata, last.spec
    return _Seen(metadata, asks, spec.node_name, obj.status, said, asked, pod_of(said, asked, obj))
