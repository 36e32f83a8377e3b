"""The steps of `muster release`: one step for each object, after which no waiting object is Muster's any more."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass
from functools import partial
from typing import Any

import msgspec

from extender.kube.api.connection import ApiError
from extender.kube.client import Kube
from extender.kube.convert import pod_from
from extender.kube.jobs import SourceJob, thaw
from extender.kube.keys import IN_VAIN
from extender.kube.kinds.change import clean, forget, merge_patch
from extender.kube.kinds.kind import Kind, Object, UnreadableJobError, found, put
from extender.kube.kinds.read import Reader, meta_of, unread_booleans
from extender.kube.kinds.registry import Registry
from extender.kube.queues.protection import NODES, given_back
from extender.kube.reading.constraints import WOKEN
from extender.kube.reading.eviction import EVICTED_AT
from extender.kube.reading.identity import UnreadableError
from extender.kube.reading.objects import Meta, PodObject
from extender.kube.reading.reserved import RESERVATIONS
from policies.model import GANG_GATE, Job, Pod

CLEANED = "what Muster wrote on it comes off"
STARTED = "it is unsuspended"
WAITS = "stays suspended: unsuspend it yourself, or with --unsuspend"
HELD = "stays suspended: muster.dev/hold"
STOPPING = "its pods are still terminating: run this again when they are gone"
RUNS = "runs on, by the plan that is written on it"
STARTS = (
    "was started, and no pod of it is seen to run: those with a node run on; if none has one, suspend it and run this "
    "again"
)
AWAITS = "runs on without a plan: it was started before it had nodes, and its pods start one by one as nodes join"
SERVED = "its pods ask for the scheduler {}"
UNGATED = "the gate muster.dev/gang comes off"
SCALABLE = "it may be scaled down again: the annotations that Muster wrote come off"
CLEARED = "its nomination to node {} is cleared"

_LASTING = (EVICTED_AT, IN_VAIN)
"""Annotations that Muster leaves on a job that it has stopped: the next start needs them."""

Write = Callable[[Kube], Awaitable[None]]


@dataclass(frozen=True, slots=True)
class Step:
    """The change of one object.

    ``says``: what happens to it, and what its author has to know.
    ``write``: None: it stays as it is.
    ``again``: the change is not possible yet.
    """

    namespace: str
    kind: str
    name: str
    says: tuple[str, ...]
    write: Write | None = None
    again: bool = False


class Planner:
    """Plans the steps. ``unsuspend``: start the jobs that wait for Muster, without any plan."""

    def __init__(self, schedulers: tuple[str, ...], registry: Registry, *, unsuspend: bool) -> None:
        self._schedulers = schedulers
        self._registry = registry
        self._reader = Reader(schedulers, registry=registry)
        self._unsuspend = unsuspend

    @property
    def kinds(self) -> Iterable[Kind]:
        return self._registry.kinds

    def of_job(self, kind: Kind, obj: Object) -> Step | None:
        """The step for a job; None if it has nothing to do with Muster. Raises UnreadableError."""
        try:
            meta = msgspec.convert(obj.get("metadata"), Meta)
        except msgspec.MsgspecError as error:
            raise UnreadableError(f"a {kind.name} has no readable metadata: {error}") from None
        kind = self._registry.read_as(kind, meta)
        job = self._reader.read(kind, obj, managed=self._registry.is_wanted(kind, meta))
        marked = job.marked or any(key in (meta.annotations or {}) for key in _LASTING)
        if not (job.managed or marked) or (job.finished and not marked):
            return None
        step = partial(Step, job.key.namespace, kind.name, job.owner.name)
        if not job.suspended and not job.finished:
            goes_on = AWAITS if job.node_wait is not None else RUNS if job.running else STARTS
            return step((goes_on,)) if job.marked else None
        if not job.stopped and not job.finished:
            return step((STOPPING,), again=True)
        after = deepcopy(obj)
        try:
            clean(kind, after, for_good=kind.shown_in is None)
            forget(after, *_LASTING)
            says = [CLEANED] if after != obj else []
            says += self._start(kind, after, job)
        except UnreadableJobError as error:
            raise UnreadableError(f"{kind.name} {job.key.namespace}/{job.owner.name}: {error}") from None
        patch = merge_patch(obj, after)
        if patch and kind.shown_in is not None:
            return step(tuple(says), partial(self._carry, kind, obj, after, job))
        return step(tuple(says), partial(_patch_job, kind, obj, patch, job) if patch else None)

    def of_pod(self, obj: PodObject) -> Step | None:
        """The step for a pod; None if nothing of Muster's is on it. Raises UnreadableError."""
        pod = pod_from(obj)
        if pod.node or not pod.live:
            return None
        meta, gated = obj.metadata or Meta(), GANG_GATE in pod.gates
        # kube-scheduler nominates pods, too, for which it has preempted others: it knows no gangs.
        nominated = bool(pod.nominated_node) and pod.scheduler in self._schedulers and pod.group is not None
        woken = WOKEN in (meta.labels or {})
        reserved = [key for key in RESERVATIONS if key in (meta.annotations or {})]
        says = [UNGATED] if gated else []
        if nominated:
            says.append(CLEARED.format(pod.nominated_node))
        if woken or reserved:
            says.append(CLEANED)
        write = partial(_free, pod, gated=gated, nominated=nominated, woken=woken, reserved=reserved)
        return Step(pod.namespace, "Pod", pod.name, tuple(says), write) if says else None

    def of_node(self, obj: Object) -> Step | None:
        """The step for a node; None if nothing of Muster's is on it. Raises UnreadableError."""
        meta = obj.get("metadata") or {}
        if not (name := meta.get("name")):
            raise UnreadableError("the node has no name")
        change = {"metadata": given_back(meta)}
        return Step("", "Node", name, (SCALABLE,), partial(_patch_node, meta, change)) if change["metadata"] else None

    def _start(self, kind: Kind, after: Object, job: Job) -> Iterator[str]:
        """Tell what happens to a job.

        An admission policy suspends each job for Muster, so its author's own value is unknown.
        """
        if job.finished or not job.managed:
            return
        unread = next(unread_booleans(meta_of(kind.name, after)), None)
        if job.held or unread:
            yield HELD if job.held else f"stays suspended: {unread}"
            return
        if self._unsuspend:
            put(after, kind.suspend, value=False)
        yield STARTED if self._unsuspend else WAITS
        named = {name for template in kind.templates(after) for name in found(template.pod, "spec.schedulerName")}
        yield from (SERVED.format(name) for name in self._schedulers if name in named and name != "default-scheduler")

    async def _carry(self, kind: Kind, before: Object, after: Object, job: Job, kube: Kube) -> None:
        source = SourceJob(kube, kind, job, self._registry)
        if await source.look():
            await _check_start(kind, await source.write(before, after, entry=True), job, kube)


async def _patch_node(seen: dict[str, Any], change: Object, kube: Kube) -> None:
    await kube.patch_job(f"{NODES}/{seen['name']}", seen, change)


async def _patch_job(kind: Kind, obj: Object, patch: Object, job: Job, kube: Kube) -> None:
    path = kind.path_of(job.key.namespace, job.owner.name)
    await kube.patch_job(path, await thaw(kube, kind, path, obj, patch), patch)
    await _check_start(kind, patch, job, kube)


async def _check_start(kind: Kind, patch: Mapping[str, Any], job: Job, kube: Kube) -> None:
    path, starts = kind.path_of(job.key.namespace, job.owner.name), False in found(patch, kind.suspend)
    if starts and kind.is_suspended(msgspec.json.decode(await kube.call("GET", path))):
        # A policy stays in force for a moment after its deletion.
        raise ApiError(409, "Conflict", "an admission policy has suspended it again; run this command once more")


async def _free(pod: Pod, kube: Kube, *, gated: bool, nominated: bool, woken: bool, reserved: Sequence[str]) -> None:
    if nominated or woken:
        status, labels = {"nominatedNodeName": ""} if nominated else {}, {WOKEN: None} if woken else None
        await kube.patch_status(pod.namespace, pod.name, pod.uid, status, labels)
    if reserved:
        await kube.annotate(pod.namespace, pod.name, pod.uid, dict.fromkeys(reserved))
    if gated:
        await kube.ungate(pod.namespace, pod.name, pod.uid)
