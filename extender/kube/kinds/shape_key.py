"""The shape of a podset: all that admission may go by when the API server creates its pods, as one short key."""

from __future__ import annotations

from collections.abc import Sequence
from hashlib import blake2b
from typing import Any

import msgspec

from extender.kube.kinds.kind import Object
from policies.model import Pod

_PER_JOB = ("env", "envFrom", "args", "command", "image")
"""What differs between jobs of one shape, in each container."""
_CONTAINERS = ("containers", "initContainers")
_NAME = "\0name"


def shape_key(namespace: str, names: Sequence[str], pod: Object, completed: Pod) -> str:
    """``completed``: what its pods ask for as LimitRanges, its RuntimeClass and its PriorityClass complete it: when one
    of these changes, so does the shape. ``names``: the name and the UID of the job. Where they stand in the template,
    as in the labels that controllers write, every job has its own: jobs that differ in nothing else have one shape.
    """
    meta, spec = pod.get("metadata") or {}, pod.get("spec") or {}
    if not isinstance(meta, dict) or not isinstance(spec, dict):
        return ""
    selection = completed.selection
    asked = completed.requests, selection.node_selector, selection.tolerations
    said = [namespace, meta.get("labels"), meta.get("annotations"), {**spec, **_without_work(spec)}, asked]
    text = msgspec.json.encode(_without_names(said, tuple(filter(None, names))), order="deterministic")
    return blake2b(text, digest_size=16).hexdigest()


def _without_work(spec: Object) -> Object:
    found: Object = {}
    for field in _CONTAINERS:
        containers = spec.get(field) or ()
        found[field] = [
            {key: value for key, value in one.items() if key not in _PER_JOB} if isinstance(one, dict) else one
            for one in containers
        ]
    return found


def _without_names(value: Any, names: tuple[str, ...]) -> Any:
    if isinstance(value, str):
        name = next((one for one in names if value == one or value.startswith(f"{one}-")), None)
        return value if name is None else _NAME + value[len(name) :]
    if isinstance(value, dict):
        return {key: _without_names(one, names) for key, one in value.items()}
    if isinstance(value, list | tuple):
        return [_without_names(one, names) for one in value]
    return value
