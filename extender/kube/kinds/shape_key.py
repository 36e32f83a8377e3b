"""The shape of a podset: all that admission may go by when the API server creates its pods, as one short key."""

from __future__ import annotations

import json
from collections.abc import Sequence
from hashlib import blake2b

from extender.kube.kinds.kind import Object
from policies.model import Pod

_PER_JOB = ("env", "envFrom", "args", "command", "image")
"""What differs between jobs of one shape, in each container."""
_CONTAINERS = ("containers", "initContainers")
_NAME = "(name)"


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
    text = json.dumps(said, sort_keys=True)  # escapes whatever cannot be encoded
    for name in filter(None, names):
        # A name has no sign that JSON escapes. It is looked for as a whole text, and at the beginning of one.
        for end in ('"', "-"):
            text = text.replace(f'"{name}{end}', f'"{_NAME}{end}')
    return blake2b(text.encode("ascii", "replace"), digest_size=16).hexdigest()


def _without_work(spec: Object) -> Object:
    found: Object = {}
    for field in _CONTAINERS:
        containers = spec.get(field) or ()
        found[field] = [
            {key: value for key, value in one.items() if key not in _PER_JOB} if isinstance(one, dict) else one
            for one in containers
        ]
    return found
