"""Reads the objects to release from the API server, and releases them; no Muster has to run."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import partial
from typing import NamedTuple

import msgspec

from extender.cli.release.steps import Planner, Step
from extender.kube.api.connection import ApiError
from extender.kube.client import Kube
from extender.kube.convert import PROTECTED_NODE
from extender.kube.kinds.kind import Kind
from extender.kube.lease import lease_from
from extender.kube.queues.capacity import CAPACITY
from extender.kube.queues.protection import NODES
from extender.kube.queues.resources import PROVISIONING, VERSIONS, path_of
from extender.kube.queues.workloads import RECORD
from extender.kube.reading.identity import UnreadableError
from extender.kube.reading.objects import UNDECODABLE, AnyObject, PodObject
from extender.kube.resources import PODS
from extender.runtime.election import LeaderElection, Lease

_BINDINGS = "/apis/admissionregistration.k8s.io/v1/mutatingadmissionpolicybindings"
_POLICIES = ("muster-gang-gate", "muster-gang-owners", "muster-jobs", "muster-job-pods")
_AT_ONCE = 16
_LOOK_EVERY_S = 1.0


class ReleaseError(Exception):
    """Nothing can be released; the message says why."""


@dataclass(slots=True)
class Survey:
    """The state of the cluster before a release.

    ``steps``: those of pods come last.
    ``unreadable``: objects that cannot be judged.
    ``leader``: a Lease that is alive.
    ``policies``: Muster's policies that still change new objects.
    """

    steps: list[Step] = field(default_factory=list)
    unreadable: list[str] = field(default_factory=list)
    leader: Lease | None = None
    policies: list[str] = field(default_factory=list)

    def obstacle(self) -> str:
        """Explain why nothing should be written; empty if nothing prevents it."""
        if self.leader:
            return (
                f"Muster is still running ({self.leader.holder} renews its Lease), and would manage these objects "
                "again. Delete its Deployment first, or pass --force"
            )
        if self.policies:
            return (
                f"admission policies of Muster are in force: {', '.join(self.policies)}. They would gate and suspend "
                "again what is released: delete the components admission-gate and job-admission first, or pass --force"
            )
        return ""


async def survey(kube: Kube, planner: Planner, election: LeaderElection) -> Survey:
    """Look at everything; write nothing. Raises ReleaseError."""
    facts = Survey()
    try:
        facts.leader = await _leader(kube, election)
        facts.policies = [name for name in _POLICIES if name in await _bound(kube)]
        for kind in (kind for kind in planner.kinds if kind.shown_in is None):
            await _look(kube, facts, kind.path, partial(_job, planner, kind))
        await _look(kube, facts, PODS.path, partial(_pod, planner), fields="spec.nodeName=")
        await _look(kube, facts, NODES, partial(_node, planner), labels=PROTECTED_NODE)
        async for step in made(kube):
            if isinstance(step, Step):
                facts.steps.append(step)
            else:
                facts.unreadable.append(step)
    except ApiError as error:
        raise ReleaseError(f"the cluster cannot be read: {error.brief}") from None
    return facts


async def await_end(kube: Kube, facts: Survey, election: LeaderElection) -> None:
    """Wait for the end of a Lease that is not renewed: a killed Muster has not released it. Raises ReleaseError."""
    try:
        seen = facts.leader
        while facts.leader is not None and facts.leader == seen:
            await asyncio.sleep(_LOOK_EVERY_S)
            facts.leader = await _leader(kube, election)
    except ApiError as error:
        raise ReleaseError(f"the Lease cannot be read: {error.brief}") from None


async def carry_out(kube: Kube, steps: list[Step], done: Callable[[], None]) -> dict[Step, str]:
    """Carry out the steps. Returns what went wrong, by step."""
    room, failed = asyncio.Semaphore(_AT_ONCE), dict[Step, str]()

    async def take(step: Step) -> None:
        async with room:
            try:
                if step.write is not None:
                    await step.write(kube)
            except ApiError as error:
                if error.status != 404:
                    failed[step] = error.brief
            done()

    # Pods after jobs: a job that is being cleaned makes none.
    for jobs in (True, False):
        await asyncio.gather(*(take(step) for step in steps if (step.kind != "Pod") is jobs))
    return failed


def _job(planner: Planner, kind: Kind, raw: msgspec.Raw) -> Step | None:
    return planner.of_job(kind, msgspec.json.decode(raw))


def _pod(planner: Planner, raw: msgspec.Raw) -> Step | None:
    return planner.of_pod(msgspec.json.decode(raw, type=PodObject))


def _node(planner: Planner, raw: msgspec.Raw) -> Step | None:
    return planner.of_node(msgspec.json.decode(raw))


async def _look(
    kube: Kube, facts: Survey, path: str, plan: Callable[[msgspec.Raw], Step | None], fields: str = "", labels: str = ""
) -> None:
    """Add the steps for all objects at a path.

    A kind that is not installed has no objects. A kind that may not be listed is reported, and the others are read.
    """
    try:
        async for page in kube.list_pages(path, selector=fields, labels=labels):
            for raw in page.items:
                _add(facts, raw, plan)
    except ApiError as error:
        if error.status == 403:
            facts.unreadable.append(f"all {path.rpartition('/')[2]}: {error.brief}")
        elif error.status != 404:
            raise


def _add(facts: Survey, raw: msgspec.Raw, plan: Callable[[msgspec.Raw], Step | None]) -> None:
    try:
        step = plan(raw)
    except (UnreadableError, *UNDECODABLE) as error:
        facts.unreadable.append(str(error))
        return
    if step is not None:
        facts.steps.append(step)


async def _leader(kube: Kube, election: LeaderElection) -> Lease | None:
    """The Lease while it is alive; else None."""
    path = f"/apis/coordination.k8s.io/v1/namespaces/{election.namespace}/leases/{election.name}"
    raw = await kube.find(path)
    lease = None if raw is None else lease_from(msgspec.Raw(raw))
    now = (await kube.clock() or datetime.now(UTC)).timestamp()
    return lease if lease is not None and now < lease.renewed_at + lease.duration_s else None


async def _bound(kube: Kube) -> set[str]:
    raw = await kube.find(_BINDINGS)  # None: an API server that knows no such policies
    items = [] if raw is None else json.loads(raw).get("items") or []
    return {binding["metadata"]["name"] for binding in items}


DELETED = "it is deleted: Muster made it"


class _Kind(NamedTuple):
    """A kind of objects that Muster makes.

    ``paths``: one for each version; the first that the API server knows is used.
    ``label``: the label of Muster's own objects.
    """

    name: str
    paths: tuple[str, ...]
    label: str


_KINDS = (
    _Kind("Workload", tuple(path_of(version, "workloads") for version in VERSIONS), f"{RECORD}=true"),
    _Kind("ProvisioningRequest", ("/apis/{}/{}".format(*PROVISIONING),), CAPACITY),
    _Kind("PodTemplate", ("/api/v1/podtemplates",), CAPACITY),
)


async def made(kube: Kube) -> AsyncIterator[Step | str]:
    """Yield a step for each object that Muster made, or a text if some cannot be read."""
    for kind in _KINDS:
        for path in kind.paths:
            try:
                async for page in kube.list_pages(path, labels=kind.label):
                    for raw in page.items:
                        yield _step(kind, path, raw)
                break
            except ApiError as error:
                if error.status != 404:
                    yield f"{kind.name} objects cannot be read: {error.brief}"
                    break


def _step(kind: _Kind, path: str, raw: msgspec.Raw) -> Step | str:
    try:
        meta = msgspec.json.decode(raw, type=AnyObject).metadata
    except UNDECODABLE as error:
        return f"a {kind.name} cannot be read: {error}"
    if meta is None or not (meta.name and meta.namespace and meta.uid):
        return f"a {kind.name} lacks its name, namespace or UID"
    above, _, plural = path.rpartition("/")
    place = f"{above}/namespaces/{meta.namespace}/{plural}/{meta.name}"
    return Step(meta.namespace, kind.name, meta.name, (DELETED,), partial(_delete, place, meta.uid))


async def _delete(path: str, uid: str, kube: Kube) -> None:
    await kube.call("DELETE", path, body={"preconditions": {"uid": uid}})
