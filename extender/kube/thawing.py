"""Makes the pod templates of a Job that has run writable again, on API servers that go by its start time.

From Kubernetes 1.36 on the Job controller clears ``status.startTime`` when it has suspended a Job. Before, and where
the feature gate MutableSchedulingDirectivesForSuspendedJobs is off, it stays. While it is there the API server refuses
every change of the template, of its annotations too. Kueue clears it as well.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from extender.kube.api.connection import ApiError, read_as
from extender.kube.client import Kube
from extender.kube.kinds.kind import Kind, Object
from extender.kube.reading.objects import AnyObject, Meta


async def thaw(
    kube: Kube, kind: Kind, path: str, obj: Object, change: Mapping[str, Any], **request: Any
) -> Mapping[str, Any]:
    """Clear what would have the API server refuse ``change``, if ``obj`` has stopped. Returns the metadata to write
    with. Raises ApiError; without the right nothing is cleared, and the answer to the write itself says why."""
    meta: Mapping[str, Any] = obj["metadata"]
    frozen = bool(kind.freezes) and obj.get("status", {}).get(kind.freezes) is not None
    if not frozen or "template" not in change.get("spec", {}) or not kind.is_stopped(obj):
        return meta
    try:
        answer = await kube.patch_job(f"{path}/status", meta, {"status": {kind.freezes: None}}, **request)
    except ApiError as error:
        if error.status != 403:
            raise
        return meta
    return {**meta, "resourceVersion": (read_as(answer, AnyObject).metadata or Meta()).resource_version}
