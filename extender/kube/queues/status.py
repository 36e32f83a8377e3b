"""The status of queue objects: which workloads wait, what is used and borrowed, and whether the object is usable.

The fields are Kueue's (site/content/en/docs/reference/kueue.v1beta2.md), so that its tools read them. The leader
writes a status when it has changed, at most once a second. People and their tools read it; no start of a workload
waits for it.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import groupby
from typing import Any, Protocol

from extender.core.instants import pause_s
from extender.kube.api.connection import ApiError, read_as
from extender.kube.client import Kube
from extender.kube.queues.past_use import past_use_to
from extender.kube.queues.resources import FollowedQueue
from extender.kube.queues.rounds import go_round
from extender.kube.queues.runs import RUNS, runs_text
from extender.kube.reports import instant
from policies.model import GroupKey
from policies.model.queues import (
    ClusterQueue,
    Cohort,
    LocalQueue,
    QueueObject,
    QueueReport,
    ResourceFlavor,
    Stop,
    TopologyObject,
)

ACTIVE = "Active"
WARNING = "Warning"
READY, STOPPED, UNUSABLE = "Ready", "Stopped", "Misconfigured"
_LONGEST = 32_768
"""Most characters of a condition's message, as the CRDs limit it."""

Condition = dict[str, str]


def status_of(thing: QueueObject, report: QueueReport, before: Iterable[Condition], instant: str) -> dict[str, Any]:
    """The fields of the status that Muster writes.

    ``before``: the present conditions; those of other clients stay.
    ``instant``: the time now, for conditions that change.
    """
    status: dict[str, Any] = {"conditions": list(_conditions(thing, report, list(before), instant))}
    if report.share is not None or report.past is not None:
        status["fairSharing"] = {"weightedShare": report.share or 0}
    if report.past is not None:
        status["fairSharing"]["admissionFairSharingStatus"] = past_use_to(report.past)
    if isinstance(thing, Cohort):
        return status
    used = list(_used(thing, report))
    return status | {
        "pendingWorkloads": len(report.pending),
        "reservingWorkloads": report.reserving,
        "admittedWorkloads": report.admitted,
        "flavorsReservation": used,
        "flavorsUsage": used,
    }


def quantity(resource: str, amount: int) -> str:
    """The amount as Kubernetes writes it. cpu is counted in millicores, everything else in its base unit."""
    return f"{amount}m" if resource == "cpu" and amount % 1000 else str(amount // 1000 if resource == "cpu" else amount)


def _used(thing: QueueObject, report: QueueReport) -> Iterator[dict[str, Any]]:
    """Yield the use by flavor and resource; a ClusterQueue also lists unused resources, and what it borrows."""
    known = dict.fromkeys(_limited(thing), None) | dict.fromkeys(report.used, None)
    ours = isinstance(thing, ClusterQueue)
    for flavor, pairs in groupby(sorted(known) if not ours else list(_by_flavor(known)), key=lambda pair: pair[0]):
        resources = []
        for pair in pairs:
            entry = {"name": pair[1], "total": quantity(pair[1], report.used.get(pair, 0))}
            if ours:
                entry["borrowed"] = quantity(pair[1], report.borrowed.get(pair, 0))
            resources.append(entry)
        yield {"name": flavor, "resources": resources}


def _by_flavor(pairs: Mapping[tuple[str, str], None]) -> Iterator[tuple[str, str]]:
    """Yield the pairs by flavor, in the order in which the object lists flavors."""
    for flavor in dict.fromkeys(flavor for flavor, _ in pairs):
        yield from (pair for pair in pairs if pair[0] == flavor)


def _limited(thing: QueueObject) -> Iterator[tuple[str, str]]:
    if isinstance(thing, ClusterQueue):
        for group in thing.groups:
            for flavor, quotas in group.flavors:
                yield from ((flavor, resource) for resource in quotas)


def _conditions(thing: QueueObject, report: QueueReport, before: list[Condition], instant: str) -> Iterator[Condition]:
    yield from (condition for condition in before if condition.get("type") not in (ACTIVE, WARNING, RUNS))
    stopped = isinstance(thing, ClusterQueue | LocalQueue) and thing.stop is not Stop.NONE
    if report.problems:
        now = condition(ACTIVE, "False", STOPPED if stopped else UNUSABLE, "; ".join(report.problems))
    else:
        now = condition(ACTIVE, "True", READY, "It can admit workloads")
    yield since(now, before, instant)
    if report.warnings:
        yield since(condition(WARNING, "True", "Warning", "; ".join(report.warnings)), before, instant)
    if report.runs:
        yield since(condition(RUNS, "True", "Observed", runs_text(report.runs)), before, instant)


def condition(kind: str, status: str, reason: str, message: str) -> Condition:
    """A condition as the API has it, without the instant of its last transition."""
    return {"type": kind, "status": status, "reason": reason, "message": message[:_LONGEST]}


def since(now: Condition, before: list[Condition], instant: str) -> Condition:
    """The condition with the instant at which its status became what it is."""
    was = next((condition for condition in before if condition.get("type") == now["type"]), {})
    same = was.get("status") == now["status"] and was.get("lastTransitionTime")
    return now | {"lastTransitionTime": was["lastTransitionTime"] if same else instant}


log = logging.getLogger("muster")
UNREPORTED = (ResourceFlavor, TopologyObject)
"""Kinds without a status."""
EVERY_S = 1.0
_LONGEST_S = 60.0
"""Most seconds until a refused status is written again."""
_PLACES = 100
"""How many workloads of each ClusterQueue get a place."""


class Core(Protocol):
    """The part of the core that reports on queues. ``queue_version`` changes whenever a report may have changed."""

    @property
    def queue_version(self) -> int: ...

    def queue_reports(self, now: float, /) -> Mapping[tuple[str, str, str], QueueReport]: ...


class QueueWriter:
    """Writes the statuses of queue objects.

    ``core``: the core that decides now; None while none does.
    ``known``: every queue object.
    Written statuses are remembered by UID: an object that was deleted and created again has no status.
    """

    def __init__(
        self,
        kube: Kube,
        core: Callable[[], Core | None],
        known: Callable[[], Iterable[FollowedQueue]],
        *,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._kube = kube
        self._core = core
        self._known = known
        self._clock = clock
        self.places: Mapping[GroupKey, int] = {}
        """The place of each of the first waiting workloads in its ClusterQueue, from 1, as last reported."""
        self._last_reported: tuple[Core, int] | None = None
        """The core whose reports were written last, and their version."""
        self._failing: dict[str, tuple[int, float]] = {}
        """Objects whose write failed, by UID: how often in a row, and when to try again."""
        self._written: dict[str, dict[str, Any]] = {}
        """The status of each object, as last seen or written."""

    async def run(self) -> None:
        """Run rounds until cancelled."""
        await go_round(self.write, "the status of queues could not be written", every_s=EVERY_S)

    async def write(self) -> None:
        """Write every status that differs from its report. A failed write is repeated in a later round."""
        core = self._core()
        if core is None:
            self._last_reported = None
            self._written.clear()
            return
        if self._last_reported == (core, core.queue_version):
            return
        objects = [followed for followed in self._known() if not isinstance(followed.object, UNREPORTED)]
        if self._last_reported is not None and self._last_reported[0] is not core:
            self._written.clear()
        reported = core, core.queue_version
        reports = core.queue_reports(self._clock()) if objects else {}
        self.places = _places(reports)
        self._written = {uid: self._written[uid] for _, uid, _ in objects if uid in self._written}
        if await self._write_all(objects, reports):
            self._last_reported = reported

    async def _write_all(
        self, objects: Iterable[FollowedQueue], reports: Mapping[tuple[str, str, str], QueueReport]
    ) -> bool:
        """Write the statuses; returns whether all are written."""
        failing: dict[str, tuple[int, float]] = {}
        now = self._clock()
        for followed in objects:
            thing, uid, path = followed
            namespace = thing.namespace if isinstance(thing, LocalQueue) else ""
            report = reports.get((type(thing).__name__, namespace, thing.name))
            if report is None:
                continue
            times, until = self._failing.get(uid, (0, now))
            if now < until:
                failing[uid] = times, until
                continue
            try:
                await self._write(followed, report)
            except Exception as error:
                # The object is gone if the status is 404, and the watch is about to say so.
                known = isinstance(error, ApiError)
                if not times and not (isinstance(error, ApiError) and error.status == 404):
                    text = "the status of %s could not be written: %s"
                    log.warning(text, path, error, exc_info=None if known else error)
                failing[uid] = times + 1, now + pause_s(times + 1, EVERY_S, _LONGEST_S)
                self._written.pop(uid, None)
        self._failing = failing
        return not failing

    async def _write(self, followed: FollowedQueue, report: QueueReport) -> None:
        thing, uid, path = followed
        before = self._written.get(uid)
        if before is None:
            before = self._written[uid] = _status(await self._kube.call("GET", f"{path}/status"))
        conditions = [item for item in before.get("conditions") or () if isinstance(item, dict)]
        status = status_of(thing, report, conditions, instant("seconds"))
        if any(before.get(field) != value for field, value in status.items()):
            body, kind = {"status": status}, "application/merge-patch+json"
            await self._kube.call("PATCH", f"{path}/status", body=body, content_type=kind)
            self._written[uid] = {**before, **status}


def _places(reports: Mapping[tuple[str, str, str], QueueReport]) -> dict[GroupKey, int]:
    lines = [report.pending for (kind, _, _), report in reports.items() if kind == ClusterQueue.__name__]
    return {key: at for line in lines for at, key in enumerate(line[:_PLACES], start=1)}


def _status(answer: bytes) -> dict[str, Any]:
    status = read_as(answer, dict[str, Any]).get("status")
    return status if isinstance(status, dict) else {}
