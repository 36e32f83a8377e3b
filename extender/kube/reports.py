"""A gang's reason where people look: Events on a member, its owner and the PodGroup, and the PodGroup's status."""

from __future__ import annotations

import socket
import time
from collections.abc import Awaitable, Iterator
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Any

from extender.core.effects import Evict, Hint, Report, SuspendJob
from extender.kube.api.connection import ApiError
from extender.kube.client import Kube
from extender.kube.podgroups.volcano import INQUEUE, PODGROUPS
from extender.kube.reading.queue_name import MISSPELT, MISSPELT_OF_PODS
from policies.model import Dialect, GroupKey

CONDITION = "Scheduled"
EVICTED = "Evicted"
SUSPENDED = "Suspended"
MISSPELT_KEY = "MisspeltKey"
"""The reason of the Event about a misspelt key that is read all the same: UnreadKey would be wrong."""
_PHASES = {
    "Running": "Scheduled",
    "Ended": "Finished",
    "Partial": "Scheduling",
}
_VOLCANOS_PHASES = {"Running": "Running", "Ended": "Completed"}
"""Volcano's words. Any other reason is Inqueue: Volcano does not replace pods of a group that is Pending."""
_PODGROUPS = {
    Dialect.COSCHEDULING: "scheduling.x-k8s.io/v1alpha1",
    Dialect.KAI: "scheduling.run.ai/v2alpha2",
    Dialect.VOLCANO: PODGROUPS,
}
_STARTED = ("Running", "Ended")
_WAITS = "Pending"
"""The default of ``status.phase`` in the coscheduling plugin's words."""
CONTROLLER = "muster.dev/extender"
_LONGEST_NOTE = 1024  # bytes, a limit of the API
_REMEMBERED = 10_000


@dataclass(frozen=True, slots=True)
class _LastReport:
    """The last report of a gang, and the objects that it is about.

    ``since``: when the condition of the PodGroup got its present status.
    """

    regarding: tuple[str, ...]
    group_uid: str | None
    code: str
    message: str
    since: str

    @property
    def runs(self) -> bool:
        return self.code in _STARTED


class Reporter:
    """Writes reports of gangs, and skips one that repeats the last."""

    def __init__(self, kube: Kube) -> None:
        self._kube = kube
        self._instance = socket.gethostname()[:128] or "muster"
        self._last: dict[GroupKey, _LastReport] = {}

    async def report(self, report: Report) -> None:
        """Write the report. Raises ApiError; a namespace or PodGroup that is gone is no error."""
        regarding = list(_regarding(report))
        fresh = self._next(report, tuple(obj["uid"] for obj in regarding))
        if fresh is None or not regarding:
            return
        self._remember(report.key, fresh)
        try:
            for obj in regarding:
                await self._post(obj, report.code, report.message, warning=report.warning)
            if report.group_uid is not None and not report.pending:
                await self._unless_gone(self._write(report, report.group_uid, fresh.since))
        except Exception:
            self._last.pop(report.key, None)
            raise

    async def _write(self, report: Report, uid: str, since: str) -> None:
        if report.dialect is Dialect.VOLCANO:
            phase = _VOLCANOS_PHASES.get(report.code, INQUEUE)
            return await self._kube.patch_volcano_phase(*report.key, {"uid": uid}, phase)
        status = _unschedulable(report, since) if report.dialect is Dialect.KAI else _status(report, since)
        path = f"/apis/{_PODGROUPS[report.dialect]}/namespaces/{report.key.namespace}/podgroups/{report.key.name}"
        return await self._kube.patch_podgroup_status(path, uid, status)

    async def report_evicted(self, pod: Evict) -> None:
        """Write on the pod itself why it was evicted. Raises ApiError."""
        await self._post(_object("Pod", "v1", pod.namespace, pod.name, pod.uid), EVICTED, pod.reason)

    async def report_suspended(self, effect: SuspendJob) -> None:
        """Write on the job itself why it was suspended. Raises ApiError."""
        version, kind, name, uid = effect.job.owner
        await self._post(_object(kind, version, effect.job.key.namespace, name, uid), SUSPENDED, effect.reason)

    async def hint(self, hint: Hint) -> None:
        """Write the hint on the pod and on the object that made it. Raises ApiError."""
        about = [_object("Pod", "v1", hint.namespace, hint.name, hint.uid)] if hint.uid else []
        if hint.owner is not None:
            about.append(_object(hint.owner.kind, hint.owner.version, hint.namespace, hint.owner.name, hint.owner.uid))
        reason = MISSPELT_KEY if hint.message in (MISSPELT, MISSPELT_OF_PODS) else hint.reason
        for obj in about:
            name = f"{obj['name'][:200].rstrip('-.')}.{reason.lower()}.{obj['uid']}" if hint.once else ""
            await self._post(obj, reason, hint.message, name=name)

    def _next(self, report: Report, uids: tuple[str, ...]) -> _LastReport | None:
        """The report to remember; None if it repeats the last."""
        last = self._last.get(report.key)
        if last is not None and (last.regarding, last.code, last.message) == (uids, report.code, report.message):
            return None
        fresh = _LastReport(uids, report.group_uid, report.code, report.message, instant("seconds"))
        if last is not None and (last.group_uid, last.runs) == (fresh.group_uid, fresh.runs):
            return replace(fresh, since=last.since)
        return fresh

    def _remember(self, key: GroupKey, fresh: _LastReport) -> None:
        self._last.pop(key, None)
        self._last[key] = fresh
        if len(self._last) > _REMEMBERED:
            del self._last[next(iter(self._last))]

    async def _post(
        self, regarding: dict[str, str], reason: str, text: str, *, warning: bool = True, name: str = ""
    ) -> None:
        """Create an Event. ``name``: makes it the only one of its kind; an existing one is no error."""
        namespace = regarding["namespace"] or "default"  # for objects without a namespace, such as a node
        event = {
            "apiVersion": "events.k8s.io/v1",
            "kind": "Event",
            "metadata": {"name": name or _event_name(regarding["name"]), "namespace": namespace},
            "eventTime": instant("microseconds"),
            "reportingController": CONTROLLER,
            "reportingInstance": self._instance,
            "action": "Scheduling",
            "type": "Warning" if warning else "Normal",
            "reason": reason,
            "note": _note(text),
            "regarding": regarding,
        }
        try:
            await self._unless_gone(self._kube.create_event(namespace, event))
        except ApiError as error:
            if not (name and error.status == 409):
                raise

    async def _unless_gone(self, writing: Awaitable[None]) -> None:
        try:
            await writing
        except ApiError as error:
            if error.status != 404 and "being terminated" not in error.message:
                raise


def instant(precision: str) -> str:
    """The time now as the API writes it. ``precision``: "seconds" or "microseconds"."""
    return datetime.now(UTC).isoformat(timespec=precision).replace("+00:00", "Z")


def _regarding(report: Report) -> Iterator[dict[str, str]]:
    """Yield the PodGroup object, a member, and the object that made it; a gang may have any of them or none."""
    namespace, name = report.key.namespace, report.key.name
    if report.group_uid is not None:
        yield _object("PodGroup", _PODGROUPS[report.dialect], namespace, name, report.group_uid)
    if report.member is not None:
        yield _object("Pod", "v1", namespace, report.member[1], report.member[0])
    if report.owner is not None and report.owner.uid != report.group_uid:
        version, kind, owner, uid = report.owner
        yield _object(kind, version, namespace, owner, uid)


def _object(kind: str, version: str, namespace: str, name: str, uid: str) -> dict[str, str]:
    return {"kind": kind, "apiVersion": version, "namespace": namespace, "name": name, "uid": uid}


def _status(report: Report, since: str) -> dict[str, Any]:
    condition = {
        "type": CONDITION,
        "status": "True" if report.code in _STARTED else "False",
        "lastTransitionTime": since,
        "reason": report.code,
        "message": report.message,
    }
    phase = _PHASES.get(report.code, _WAITS)
    return {"phase": phase, "members": report.members, "scheduled": report.bound, "conditions": [condition]}


def _unschedulable(report: Report, since: str) -> dict[str, Any]:
    """The status in KAI-Scheduler's words: why no pod of the group has a node yet, without phase or counts.

    It follows markPodGroupUnschedulable in KAI's pkg/scheduler/cache/status_updater.
    """
    if report.bound or report.code in _STARTED:
        return {"schedulingConditions": None}
    condition = {
        "type": "UnschedulableOnNodePool",
        "nodePool": "default",
        "status": "True",
        "transitionID": "1",
        "lastTransitionTime": since,
        "reason": "Unschedulable",
        "message": report.message,
        "reasons": [{"reason": report.code, "message": report.message}],
    }
    return {"schedulingConditions": [condition]}


def _event_name(name: str) -> str:
    """A unique name for an Event, short enough even if the object's name has the greatest length."""
    return f"{name[:230].rstrip('-.')}.{time.time_ns():x}"


def _note(message: str) -> str:
    whole = message.encode("utf-8", "replace")
    return whole.decode() if len(whole) <= _LONGEST_NOTE else whole[: _LONGEST_NOTE - 3].decode(errors="ignore") + "..."
