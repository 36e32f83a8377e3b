"""The job that another object was made of, which it is read in: what was written on a copy of that is written on it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from extender.kube.api.connection import REQUEST_TIMEOUT_S, ApiError, read_as
from extender.kube.client import Kube
from extender.kube.kinds.change import merge_patch
from extender.kube.kinds.keys import HOLD
from extender.kube.kinds.kind import Kind, Object
from extender.kube.kinds.registry import Registry, asks
from extender.kube.kinds.trainer import before_start, carried
from extender.kube.reading.objects import Meta
from policies.model import Job


class SourceJob:
    """The job itself, as it is now. Raises ApiError or UnreachableError."""

    def __init__(
        self, kube: Kube, kind: Kind, job: Job, registry: Registry, timeout_s: float = REQUEST_TIMEOUT_S
    ) -> None:
        self._kube = kube
        self._kind = kind
        self._registry = registry
        self._timeout_s = timeout_s
        self._job = job
        self._path = kind.path_of(job.key.namespace, job.owner.name)
        self._shown_path = (kind.shown_in or kind).path_of(job.key.namespace, job.owner.name)
        self._obj: Object = {}

    async def look(self) -> bool:
        """Whether it is there."""
        answer = await self._kube.call("GET", self._path, timeout_s=self._timeout_s)
        self._obj = read_as(answer, Object)
        return bool(self._meta.uid == self._job.uid)

    @property
    def may_start(self) -> bool:
        """Its author asks for it still, and has not held it meanwhile, or suspended it where it runs by now. What it is
        read in may not show that."""
        meta = self._meta
        stopped = "true" in meta.said(HOLD) if self._job.suspended else self._kind.is_suspended(self._obj)
        return asks(meta) and self._registry.is_outermost(meta) and not stopped

    async def write(self, before: Object, after: Object, *, entry: bool, leads: bool = False) -> Mapping[str, Any]:
        """``before``, ``after``: what shows it; ``entry``: as for ``carried``, of one that is suspended; ``leads``: it
        runs, and gets its nodes. Returns what was changed."""
        if self._job.finished or leads:
            # Its controller brings nothing from the one to the other any more, or not while it runs.
            await self._patch(self._shown_path, before, after)
        job = carried(self._obj, after, entry=entry and self._job.suspended and not self._job.finished)
        try:
            return await self._patch(self._path, self._obj, job)
        except ApiError as error:
            if error.status != 403 or job["spec"]["suspend"]:
                raise
        # Its controller may be one that does not let this be written at once.
        entered = before_start(self._obj, job)
        await self._patch(self._path, self._obj, entered)
        return await self._patch(self._path, entered, job)

    async def _patch(self, path: str, before: Object, after: Object) -> Mapping[str, Any]:
        """Refused where the CRD lacks a field of it: a plan that is dropped without a word would lead no pod. The
        version that this makes is from then on that of ``after``."""
        changed = merge_patch(before, after)
        if changed:
            answer = await self._kube.patch_job(
                path, before["metadata"], changed, strict=True, timeout_s=self._timeout_s
            )
            version = read_as(answer, Object).get("metadata", {}).get("resourceVersion")
            after["metadata"] = {**after["metadata"], "resourceVersion": version}
        return changed

    @property
    def _meta(self) -> Meta:
        return msgspec.convert(self._obj.get("metadata") or {}, Meta)
