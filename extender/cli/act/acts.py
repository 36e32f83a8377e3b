"""The writes of each act, decided before any of them is sent: an act that is refused has changed nothing."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from extender.cli.act.target import ActError, JobFound, Target, decoded
from extender.core.events import BudgetSeen
from extender.core.ledger.budgets import DisruptionBudgets
from extender.core.preemption.candidates import SYSTEM_CRITICAL
from extender.kube.api.connection import ApiError
from extender.kube.client import Kube
from extender.kube.keys import HOLD, QUEUES, REQUEUED_AT
from extender.kube.kinds.change import merge_patch
from extender.kube.kinds.kind import Object, put
from extender.kube.kinds.registry import Registry
from extender.kube.reading.budgets import BudgetObject, budget_from
from policies.model import Pod
from policies.model.mentions import full
from policies.words import listed, many

_AT_ONCE = 16
_DRY = {"dryRun": "All"}
_ONLY_JOBS = (
    "{} is a gang of pods, and only a job that Muster admits as a whole can be {}: its pods exist already. Scale what "
    "makes them to 0, or evict it"
)


@dataclass(frozen=True)
class Write:
    """A request to the API server.

    ``what``: the object, as people name it.
    ``says``: the change, for people.
    """

    what: str
    says: str
    method: str
    path: str
    body: Mapping[str, Any]
    content_type: str = "application/json"


@dataclass
class Act:
    """All writes of one command.

    ``then``: what follows.
    ``notes``: warnings for the user.
    ``stops``: whether something that runs is stopped.
    """

    writes: list[Write]
    then: str
    notes: list[str] = field(default_factory=list)
    stops: bool = False


def hold(target: Target) -> Act:
    """Keep the job from being started. Raises ActError."""
    job = _job(target, "held")
    if job.held:
        raise ActError(f"{job} is held already: muster resume {_typed(job)} lets it go")
    after = _with_hold(job)
    if job.suspended:
        then = f"it stays suspended until: muster resume {_typed(job)}"
    else:
        then = f"it runs on, and is not started again once it has stopped. To stop it now: muster evict {_typed(job)}"
    return Act([_patch(job, after, "is held")], then)


def resume(target: Target) -> Act:
    """End a hold. Raises ActError."""
    job = _job(target, "resumed")
    if not job.held:
        why = "it is suspended, and waits for its turn: muster explain says why" if job.suspended else "it runs"
        raise ActError(f"{job} is not held: {why}")
    after = _without_hold(job)
    return Act([_patch(job, after, "is held no more")], "it waits for its turn" if job.suspended else "it runs on")


def requeue(target: Target, queue: str | None, now: datetime) -> Act:
    """Put the job back in the line; a running job is stopped. This ends a hold, and pauses after failed attempts.

    ``queue``: the LocalQueue in which it is to wait. Raises ActError.
    """
    job = _job(target, "requeued")
    after = _without_hold(job)
    says = ["is held no more"] if job.held else []
    _annotations(after)[REQUEUED_AT] = now.astimezone(UTC).isoformat(timespec="seconds")
    if queue is not None:
        if not job.suspended:
            raise ActError(
                f"{job} runs, and uses the quota of its queue: muster evict {_typed(job)}, and requeue it when it has "
                "stopped"
            )
        labels = after["metadata"].setdefault("labels", {})
        key = next((key for key in QUEUES if key in labels), QUEUES[0])
        if labels.get(key) == queue:
            raise ActError(f"{job} is in the queue {queue} already")
        labels[key] = queue
        says.append(f"waits in the queue {queue}")
    if job.suspended:
        says.append("is tried again at once")
        return Act([_patch(job, after, ", ".join(says))], "it waits for its turn")
    put(after, job.kind.suspend, value=True)
    says.append("is suspended")
    return Act([_patch(job, after, ", ".join(says))], "its pods end, and it waits for its turn again", stops=True)


async def evict(target: Target, kube: Kube, registry: Registry, *, held: bool) -> Act:
    """Free the workload's room: a job is suspended as a whole, and the pods of any other gang are evicted.

    ``held``: it must not start again by itself. Raises ActError.
    """
    if target.job is not None:
        job = _job(target, "evicted")
        if job.suspended:
            raise ActError(f"{job} does not run: it is suspended already, and there is nothing to evict")
        after = _with_hold(job) if held else deepcopy(job.obj)
        put(after, job.kind.suspend, value=True)
        then = "its pods end, and it waits for its turn again"
        if held:
            then = f"its pods end, and it stays suspended until: muster resume {_typed(job)}"
        return Act([_patch(job, after, "is suspended and held" if held else "is suspended")], then, stops=True)
    if held:
        raise ActError(_ONLY_JOBS.format(target.known, "held"))
    return await _evict_pods(target, kube, registry)


async def _evict_pods(target: Target, kube: Kube, registry: Registry) -> Act:
    bound = sorted((pod for pod in target.pods if pod.node and pod.live), key=lambda pod: pod.rank)
    if not bound:
        raise ActError(f"{target.known} does not run: none of its pods has a node, and there is nothing to evict")
    for pod in bound:
        maker = pod.controller
        if maker is not None and registry.kind_of(maker.version, maker.kind) is not None:
            raise ActError(
                f"{maker.kind.lower()}/{maker.name} makes the pods of {target.known}, and counts each pod that is "
                "evicted as a failure: suspend that job with kubectl, or let Muster admit it (docs/jobs.md)"
            )
    if protected := await _protected(bound, kube):
        raise ActError(
            f"nothing was evicted, because not all of its pods may go: {listed(protected, 10)}. A gang goes as a whole"
        )
    alone = [pod.name for pod in bound if pod.controller is None]
    notes = [f"no controller makes these pods again, so they are gone for good: {listed(alone, 10)}"] if alone else []
    then = "its controller makes its pods again, and they wait together for their turn"
    return Act([_eviction(pod) for pod in bound], "" if len(alone) == len(bound) else then, notes, stops=True)


async def _protected(pods: Sequence[Pod], kube: Kube) -> list[str]:
    """Return the pods that may not be evicted, each with the reason."""
    namespace, budgets = pods[0].namespace, DisruptionBudgets()
    try:
        async for page in kube.list_pages(f"/apis/policy/v1/namespaces/{namespace}/poddisruptionbudgets"):
            for raw in page.items:
                budgets.note(BudgetSeen(budget_from(decoded(bytes(raw), BudgetObject))))
    except ApiError as error:
        why = f"you lack the right to {error.denied.right}" if error.denied else str(error)
        raise ActError(f"{why}: without it Muster cannot tell whether all pods of the gang may be evicted") from None
    left, reasons = Counter(budgets.left), []
    for pod in pods:
        own = dict(budgets.counts((pod,)))
        if pod.priority >= SYSTEM_CRITICAL:
            reasons.append(f"{pod.name} (it has a priority of the system)")
        elif len(own) > 1:
            reasons.append(f"{pod.name} (it is in several PodDisruptionBudgets: {full(listed(own), namespace)})")
        elif short := [name for name in own if left[name] < 1]:
            reasons.append(f"{pod.name} (PodDisruptionBudget {full(short[0], namespace)} lets no more pods go)")
        left.subtract(own)
    return reasons


async def carry_out(act: Act, kube: Kube, *, dry_run: bool) -> dict[str, str]:
    """Make all writes; several ones are tried by a dry run first. Returns what failed, by object.

    Raises ActError if nothing was written.
    """
    if dry_run or len(act.writes) > 1:
        failed = await _send(act.writes, kube, dry=True)
        if failed:
            raise ActError(_failure(failed))
    if dry_run:
        return {}
    failed = await _send(act.writes, kube, dry=False)
    if len(failed) == len(act.writes):
        raise ActError(_failure(failed))
    return failed


def _failure(failed: Mapping[str, str]) -> str:
    same = dict.fromkeys(failed.values())
    if len(same) == 1:
        return next(iter(same))
    return f"nothing was done: {listed((f'{what}: {why}' for what, why in failed.items()), 10)}"


async def _send(writes: Sequence[Write], kube: Kube, *, dry: bool) -> dict[str, str]:
    room, failed = asyncio.Semaphore(_AT_ONCE), dict[str, str]()

    async def send(write: Write) -> None:
        # An eviction has the dry run in its body only.
        options = {**write.body.get("deleteOptions", {}), "dryRun": ["All"]}
        body = {**write.body, "deleteOptions": options} if dry and write.method == "POST" else write.body
        async with room:
            try:
                query = _DRY if dry else None
                await kube.call(write.method, write.path, body=body, content_type=write.content_type, query=query)
            except ApiError as error:
                failed[write.what] = _refusal(write, error)

    await asyncio.gather(*(send(write) for write in writes))
    return {write.what: failed[write.what] for write in writes if write.what in failed}


def _refusal(write: Write, error: ApiError) -> str:
    if denied := error.denied:
        return f"you lack the right to {denied.right} (docs/acting.md has a role with it)"
    if error.status == 409:
        return f"{write.what} has changed meanwhile: run this again"
    if error.status == 404:
        return f"{write.what} is gone"
    if error.status == 429:
        return f"a PodDisruptionBudget does not let {write.what} go now"
    return f"the API server refuses it: {error.message or error}"


def _job(target: Target, done: str) -> JobFound:
    """The job of the workload. Raises ActError if there is none, or if it has ended."""
    if target.job is None:
        raise ActError(_ONLY_JOBS.format(target.known, done))
    if target.job.ended:
        raise ActError(f"{target.job} has ended, or is being deleted")
    return target.job


def _typed(job: JobFound) -> str:
    return f"{job} -n {job.meta.namespace}"


def _annotations(obj: Object) -> dict[str, Any]:
    meta = obj["metadata"]
    if not isinstance(meta.get("annotations"), dict):
        meta["annotations"] = {}
    annotations: dict[str, Any] = meta["annotations"]
    return annotations


def _with_hold(job: JobFound) -> Object:
    after = deepcopy(job.obj)
    _annotations(after)[HOLD] = "true"
    return after


def _without_hold(job: JobFound) -> Object:
    after = deepcopy(job.obj)
    for place in ("annotations", "labels"):
        (after["metadata"].get(place) or {}).pop(HOLD, None)
    return after


def _patch(job: JobFound, after: Object, says: str) -> Write:
    change = merge_patch(job.obj, after)
    seen = {key: job.obj["metadata"].get(key) for key in ("uid", "resourceVersion")}
    body = {**change, "metadata": {**change.get("metadata", {}), **seen}}
    return Write(str(job), says, "PATCH", job.path, body, "application/merge-patch+json")


def _eviction(pod: Pod) -> Write:
    body = {
        "apiVersion": "policy/v1",
        "kind": "Eviction",
        "metadata": {"name": pod.name, "namespace": pod.namespace},
        "deleteOptions": {"preconditions": {"uid": pod.uid}},
    }
    path = f"/api/v1/namespaces/{pod.namespace}/pods/{pod.name}/eviction"
    return Write(f"pod/{pod.name}", f"is evicted from {pod.node}", "POST", path, body)


def outcome(act: Act, target: Target, failed: Mapping[str, str], *, dry_run: bool) -> dict[str, Any]:
    """Return the act for programs, with its failures."""
    changes = [
        {"object": write.what, "says": write.says, **({"failed": failed[write.what]} if write.what in failed else {})}
        for write in act.writes
    ]
    gang = {"namespace": target.known.namespace, "name": target.known.name}
    return {"gang": gang, "dry_run": dry_run, "changes": changes, "then": act.then, "notes": act.notes}


def summary(act: Act, failed: Mapping[str, str]) -> str:
    """Return how many of several objects were changed."""
    done = len(act.writes) - len(failed)
    return f"{many(done, 'object')} changed, {many(len(failed), 'object')} not: run this again for the rest"
