"""Start, suspend and clean jobs at the API server: a GET, a comparison, one conditional PATCH.

Reservations are written on the job, or on a pod of a workload without one. Some kinds are read in a copy that their
controller makes (a TrainJob in its JobSet). Muster then writes to the original what it would write to the copy.

Some API servers refuse changes of a Job's template while ``status.startTime`` is set, changes of its annotations too.
From Kubernetes 1.36 on the Job controller clears that field when it has suspended a Job. Before, or with the feature
gate MutableSchedulingDirectivesForSuspendedJobs off, the field stays, and Muster clears it first, as Kueue does.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from typing import Any, assert_never

import msgspec

from extender.core.effects import CleanJob, Deallocate, Enqueue, JobEffect, Reserve, StartJob, SuspendJob, TryPod
from extender.kube.api.connection import REQUEST_TIMEOUT_S, ApiError, read_as
from extender.kube.client import Kube
from extender.kube.devices.writing import deallocate
from extender.kube.keys import HOLD
from extender.kube.kinds.change import clean, lead, merge_patch, reserve, start, suspend
from extender.kube.kinds.kind import Kind, Object, UnreadableJobError
from extender.kube.kinds.read import Reader, meta_of
from extender.kube.kinds.registry import Registry, asks
from extender.kube.kinds.trainer import before_start, carried
from extender.kube.podgroups.volcano import INQUEUE, PODGROUPS, VolcanoGroup
from extender.kube.reading.identity import UnreadableError
from extender.kube.reading.objects import UNDECODABLE, AnyObject, Meta
from extender.kube.reading.reserved import annotation_of
from extender.kube.reports import Reporter
from extender.kube.trials import PodTrials
from extender.runtime.requests import OK, Response
from policies.model import Job

GONE = Response(404, "the job is gone, or another one has its name")
NOT_WANTED = "the job is not to be started any more"


class JobWriter:
    """Writes the core's decisions to jobs, unless a job differs from what the core knows of it."""

    def __init__(self, kube: Kube, reader: Reader, reporter: Reporter) -> None:
        self._kube = kube
        self._reader = reader
        self._reporter = reporter
        self._trials = PodTrials(kube, reader)

    async def write(self, effect: JobEffect | Reserve | Enqueue | TryPod | Deallocate, timeout_s: float) -> Response:
        """Make one attempt. 409: another client has just written to the job; 412: the job must not be written as it is.

        A trial is answered as ``PodTrials.send`` says.
        """
        if isinstance(effect, TryPod):
            return await self._trials.send(effect, timeout_s)
        if isinstance(effect, Deallocate):
            return await deallocate(self._kube, effect, timeout_s)
        if isinstance(effect, Enqueue):
            await enqueue(self._kube, effect, timeout_s)
            return OK
        if effect.job is None:
            if (pod := effect.pod) is not None:
                key, text = annotation_of(effect)
                await self._kube.annotate(pod.namespace, pod.name, pod.uid, {key: text}, timeout_s=timeout_s)
            return OK
        return await self._write(effect.job, effect, timeout_s)

    async def _write(self, job: Job, effect: JobEffect | Reserve, timeout_s: float) -> Response:
        kind = self._reader.registry.kind_of(job.owner.version, job.owner.kind)
        if kind is None:
            return Response(404, f"{job.owner.kind} is no kind of job")
        path = (kind.shown_in or kind).path_of(job.key.namespace, job.owner.name)
        try:
            body = await self._kube.call("GET", path, timeout_s=timeout_s)
        except ApiError as error:
            return Response(error.status, str(error), error.retry_after_s or 0.0, unsent=True)
        return await self._change(job, effect, kind, path, body, timeout_s)

    async def _change(
        self, job: Job, effect: JobEffect | Reserve, kind: Kind, path: str, body: bytes, timeout_s: float
    ) -> Response:
        before, after = _decoded(body), _decoded(body)
        try:
            now = _read(self._reader, kind, before)
            if now.uid != job.uid:
                return GONE
            if why := _change(kind, after, now, effect):
                return Response(412, why)
        except (UnreadableError, UnreadableJobError) as error:
            return Response(422, str(error))
        if kind.shown_in is not None:
            source = SourceJob(self._kube, kind, now, self._reader.registry, timeout_s)
            if not await source.look():
                return GONE
            if isinstance(effect, StartJob) and not source.may_start:
                return Response(412, NOT_WANTED)
            leads = isinstance(effect, StartJob) and not now.suspended
            changed = await source.write(before, after, entry=not isinstance(effect, SuspendJob), leads=leads)
        elif changed := merge_patch(before, after):
            meta = await thaw(self._kube, kind, path, before, changed, timeout_s=timeout_s)
            await self._kube.patch_job(path, meta, changed, timeout_s=timeout_s)
        if isinstance(effect, SuspendJob) and "spec" in changed:
            with suppress(ApiError):
                await self._reporter.report_suspended(effect)
        return OK


def _change(kind: Kind, obj: Object, now: Job, effect: JobEffect | Reserve) -> str:
    """Apply the effect to the object. Returns why the object must stay as it is; empty if it was changed."""
    match effect:
        case StartJob(job, plan):
            written = now.plan == dict(plan) if effect.node_wait is None else now.node_wait == effect.node_wait
            if not now.suspended and written:
                return ""  # This write was made before, and its answer was lost.
            leads = effect.node_wait is None and now.node_wait is not None and not now.suspended
            if why := _unready(now, job, runs=leads):
                return why
            if leads:
                lead(obj, effect)
            else:
                start(kind, obj, effect)
        case SuspendJob():
            if not now.finished:
                suspend(kind, obj, effect.evicted, effect.in_vain)
        case Reserve():
            reserve(obj, effect)
        case CleanJob():
            if not now.stopped and not now.finished:
                return "the job has not stopped"
            clean(kind, obj)
        case _:
            assert_never(effect)
    return ""


def _unready(now: Job, planned: Job, *, runs: bool) -> str:
    """Why the job must not be started, or get its nodes; empty if it may.

    ``runs``: the job was started without a plan, and gets its nodes while it runs.
    """
    if now.problem:
        return now.problem
    if not now.managed or (now.held and not runs) or now.finished:
        return NOT_WANTED
    if not (now.stopped or runs):
        return "the job has not stopped"
    return "" if now.podsets == planned.podsets else "the job asks for other pods than those that were planned"


def _read(reader: Reader, kind: Kind, obj: Object) -> Job:
    return reader.read(kind, obj, managed=reader.registry.is_wanted(kind, meta_of(kind.name, obj)))


def _decoded(body: bytes) -> Object:
    obj = read_as(body, object)
    return obj if isinstance(obj, dict) else {}


async def enqueue(kube: Kube, effect: Enqueue, timeout_s: float) -> None:
    """Let Volcano's job controller make the pods of a PodGroup, by setting its phase to Inqueue.

    The controller makes pods once the phase is neither empty nor Pending (syncJob of
    pkg/controllers/job/job_controller_actions.go). Inqueue says that a scheduler has accepted the PodGroup. One
    attempt; nothing is written if the PodGroup is gone or no longer pending. Raises ApiError; 409: another client has
    just written to the PodGroup.
    """
    namespace, name = effect.key
    path = f"/apis/{PODGROUPS}/namespaces/{namespace}/podgroups/{name}"
    if (raw := await kube.find(path, timeout_s=timeout_s)) is None:
        return
    try:
        group = msgspec.json.decode(raw, type=VolcanoGroup)
    except UNDECODABLE as error:
        raise ApiError(422, "Unreadable", f"{path} cannot be read: {error}") from None
    meta = group.metadata or Meta()
    if meta.uid == effect.uid and group.pending:
        seen = {"uid": effect.uid, "resourceVersion": meta.resource_version}
        await kube.patch_volcano_phase(namespace, name, seen, INQUEUE, timeout_s=timeout_s)


class SourceJob:
    """The job behind the object in which Muster reads it, such as a TrainJob behind its JobSet.

    Methods raise ApiError or UnreachableError.
    """

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
        """Read the job; returns whether it still exists."""
        answer = await self._kube.call("GET", self._path, timeout_s=self._timeout_s)
        self._obj = read_as(answer, Object)
        return bool(self._meta.uid == self._job.uid)

    @property
    def may_start(self) -> bool:
        """Whether the author still wants the job admitted, and has neither held it nor suspended it while it ran.

        The object in which Muster reads the job may not show that yet.
        """
        meta = self._meta
        stopped = "true" in meta.values_of(HOLD) if self._job.suspended else self._kind.is_suspended(self._obj)
        return asks(meta) and self._registry.is_outermost(meta) and not stopped

    async def write(self, before: Object, after: Object, *, entry: bool, leads: bool = False) -> Mapping[str, Any]:
        """Write the changes of the copy to the job; returns what was changed.

        ``before``, ``after``: the copy in which Muster reads the job.
        ``entry``: as in ``carried``; counts only while the job is suspended.
        ``leads``: the job runs and gets its nodes.
        """
        if self._job.finished or leads:
            # The controller copies nothing between the two once the job has finished, nor while it runs.
            await self._patch(self._shown_path, before, after)
        job = carried(self._obj, after, entry=entry and self._job.suspended and not self._job.finished)
        try:
            return await self._patch(self._path, self._obj, job)
        except ApiError as error:
            if error.status != 403 or job["spec"]["suspend"]:
                raise
        # Some versions of the controller refuse both changes in one write.
        entered = before_start(self._obj, job)
        await self._patch(self._path, self._obj, entered)
        return await self._patch(self._path, entered, job)

    async def _patch(self, path: str, before: Object, after: Object) -> Mapping[str, Any]:
        """Write the difference, and update the version of ``after``.

        A field that the CRD lacks makes the API server refuse the write. If it dropped the field, a plan would steer no
        pod.
        """
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


async def thaw(
    kube: Kube, kind: Kind, path: str, obj: Object, change: Mapping[str, Any], **request: Any
) -> Mapping[str, Any]:
    """Clear the status field that makes the API server refuse ``change``, if the job has stopped.

    Returns the metadata to write with. Raises ApiError. Without the right to clear the field nothing is cleared, and
    the answer to the write itself says why.
    """
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
