"""Keep a Workload object of ``kueue.x-k8s.io`` for each job that names a queue, while Kueue does not run.

Name, fields and conditions are Kueue's (its pkg/controller/jobframework/workload_names.go and apis/kueue/v1beta2), so
that its tools show the jobs of Muster. The leader writes a bounded number in each round, and no start waits for a
write. The objects are a record: Muster never reads them back to decide anything.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from hashlib import sha1
from typing import Any, Protocol

from extender.core.explain.reports import PodSetReport, WorkloadReport
from extender.kube.api.connection import ApiError, decoded
from extender.kube.client import Kube
from extender.kube.queues.resources import path_of
from extender.kube.queues.rounds import Turns, go_round
from extender.kube.queues.status import Condition, condition, quantity, since
from extender.kube.reports import instant
from policies.model import GroupKey
from policies.model.group import Controller

RECORD = "muster.dev/record"
"""The label of Muster's Workload objects."""
RESERVED, ADMITTED, EVICTED, FINISHED = "QuotaReserved", "Admitted", "Evicted", "Finished"
_LONGEST_NAME, _HASH = 253, 5
_MAIN = "main"
"""Kueue's name for the only podset of a Job."""
_REASONS = {
    "NoQuota": "WaitingForQuota",
    "NoRoom": "TopologyPlacementFailed",
    "AwaitingNodes": "TopologyPlacementFailed",
    "QueueMissing": "Misconfigured",
    "QueueInactive": "Misconfigured",
    "QueueStopped": "Suspended",
}
"""Kueue's codes for those reasons of Muster that mean the same."""


def name_of(job: Controller) -> str:
    """The name of the job's Workload: the job's kind and name, with a hash that includes its UID."""
    group = job.version.rpartition("/")[0]
    text = "\n".join((job.kind, group, job.name, job.uid)).encode()
    end = sha1(text, usedforsecurity=False).hexdigest()[:_HASH]
    return f"{job.kind.lower()}-{job.name}"[: _LONGEST_NAME - 1 - _HASH] + f"-{end}"


def metadata_of(report: WorkloadReport) -> dict[str, Any]:
    """Metadata that make the Workload end with its job."""
    version, kind, name, uid = report.job
    owner = {"apiVersion": version, "kind": kind, "name": name, "uid": uid, "controller": True}
    labels = {RECORD: "true", "kueue.x-k8s.io/job-uid": uid}
    return {
        "name": name_of(report.job),
        "namespace": report.key.namespace,
        "labels": labels,
        "ownerReferences": [owner],
    }


def spec_of(report: WorkloadReport) -> dict[str, Any]:
    """The spec of the Workload. Its pod templates only have resource requests."""
    podsets = [
        {
            "name": name,
            "count": set_report.count,
            **({"minCount": set_report.minimum} if set_report.minimum < set_report.count else {}),
            "template": {"spec": {"containers": [{"name": _MAIN, "resources": {"requests": _requests(set_report)}}]}},
        }
        for name, set_report in _named(report.podsets)
    ]
    return {"queueName": report.local, "priority": report.priority, "active": True, "podSets": podsets}


def record_status(
    report: WorkloadReport, before: Iterable[Condition], place: int | None, instant: str
) -> dict[str, Any]:
    """The status of the job's Workload.

    ``before``: its present conditions; those of other clients stay.
    ``place``: the job's place in its ClusterQueue, from 1.
    """
    former = {condition.get("type", ""): condition for condition in before}
    if report.finished:
        ended = condition(FINISHED, "True", "JobFinished", "The job has ended")
        return {"conditions": list(_with([ended], former, instant)), "position": None}
    admission = None
    if report.reserved and report.queue:
        assigned = [_assigned(name, set_report) for name, set_report in _named(report.podsets)]
        admission = {"clusterQueue": report.queue, "podSetAssignments": assigned}
    conditions = list(_with(_conditions(report, former), former, instant))
    return {"admission": admission, "conditions": conditions, "position": None if report.reserved else place}


def _conditions(report: WorkloadReport, former: dict[str, Condition]) -> Iterator[Condition]:
    why = _REASONS.get(report.reason.code, "Pending")
    if report.reserved:
        yield condition(RESERVED, "True", RESERVED, f"Quota reserved in ClusterQueue {report.queue}")
    else:
        message = f"{report.reason.message}; {report.expected}" if report.expected else report.reason.message
        yield condition(RESERVED, "False", why, message)
    if report.admitted:
        yield condition(ADMITTED, "True", ADMITTED, f"Started with quota of ClusterQueue {report.queue}")
    else:
        yield condition(ADMITTED, "False", "NoReservation", "The job is not started")
    was_admitted = former.get(ADMITTED, {}).get("status") == "True"
    if was_admitted and not report.admitted:
        stopped = report.reason.code == "QueueStopped"
        yield condition(EVICTED, "True", "ClusterQueueStopped" if stopped else "JobStopped", report.reason.message)
    elif report.admitted and EVICTED in former:
        yield condition(EVICTED, "False", RESERVED, "It was started again")


def _with(now: Iterable[Condition], former: dict[str, Condition], instant: str) -> Iterator[Condition]:
    """The new conditions, and the former ones that they do not replace."""
    fresh = {condition["type"]: since(condition, list(former.values()), instant) for condition in now}
    yield from (former | fresh).values()


def _named(podsets: tuple[PodSetReport, ...]) -> Iterator[tuple[str, PodSetReport]]:
    """Yield each podset with a name that the API accepts."""
    for podset in podsets:
        yield re.sub(r"[^a-z0-9]+", "-", podset.name.lower()).strip("-")[:63] or _MAIN, podset


def _requests(set_report: PodSetReport) -> dict[str, str]:
    return {resource: quantity(resource, amount) for resource, amount in set_report.requests if resource != "pods"}


def _assigned(name: str, set_report: PodSetReport) -> dict[str, Any]:
    usage = {resource: quantity(resource, amount) for resource, amount in set_report.used.items()}
    return {"name": name, "flavors": dict(set_report.flavors), "resourceUsage": usage, "count": set_report.count}


EVERY_S = 1.0
LOOKED_AT = 500
"""Jobs looked at in one round. Their reports are made in the thread that decides."""
WRITTEN = 20
"""Objects written in one round. Objects with a changed condition come first."""
_RESTS = 10
"""Rounds to skip after one whose writes all failed, and turns an object skips after its own write failed."""
_MERGE = "application/merge-patch+json"


class Core(Protocol):
    """The part of the core that reports the state of jobs."""

    def queued(self) -> Sequence[GroupKey]: ...

    def workload_report(self, key: GroupKey, /) -> WorkloadReport | None: ...


@dataclass(frozen=True, slots=True)
class _Written:
    """The last written state of the job with that UID. ``foreign``: another client's object has the name."""

    uid: str
    spec: dict[str, Any]
    status: dict[str, Any]
    foreign: bool = False


@dataclass(frozen=True, slots=True)
class _Due:
    """An object that differs from its report, or has not been read yet."""

    report: WorkloadReport
    written: _Written | None
    status: dict[str, Any]

    @property
    def is_urgent(self) -> bool:
        return self.written is None or _states(self.written.status) != _states(self.status)


class WorkloadWriter:
    """Writes the Workload objects.

    ``core``: the core that decides now; None while none does.
    ``version``: the version to write Workloads in; empty if the cluster serves none.
    ``places``: the places of waiting jobs in their ClusterQueues.
    """

    def __init__(
        self,
        kube: Kube,
        core: Callable[[], Core | None],
        version: Callable[[], str],
        places: Callable[[], Mapping[GroupKey, int]],
    ) -> None:
        self._kube = kube
        self._core = core
        self._version = version
        self._places = places
        self._written: dict[GroupKey, _Written] = {}
        self._of: Core | None = None
        self._next = 0
        self._turns = Turns(_RESTS)

    async def run(self) -> None:
        """Run rounds until cancelled."""
        await go_round(self.write, "the Workloads of jobs could not be written", every_s=EVERY_S)

    async def write(self) -> None:
        """Run one round. Raises TurnError or ApiError."""
        core, version = self._core(), self._version()
        if core is not self._of or not version:
            self._written.clear()
            self._turns = Turns(_RESTS)
            self._of, self._next = core, 0
        if core is None or not version:
            return
        if self._turns.begin():
            due = self._due(core)
            due.sort(key=lambda due: not due.is_urgent)
            for due_report in due[:WRITTEN]:
                await self._turns.take(due_report.report.key, self._update(due_report, version))
        self._turns.end()

    def _due(self, core: Core) -> list[_Due]:
        """The objects to write among the next jobs in turn."""
        keys = core.queued()
        if self._next >= len(keys):
            self._next = 0
            known = set(keys)
            self._written = {key: written for key, written in self._written.items() if key in known}
            self._turns.keep_only(known)
        batch = keys[self._next : self._next + LOOKED_AT]
        self._next += LOOKED_AT
        places, now, dues = self._places(), instant("seconds"), list[_Due]()
        for key in batch:
            if not self._turns.comes(key):
                continue
            try:
                if (due := self._due_of(core, key, places.get(key), now)) is not None:
                    dues.append(due)
            except Exception as error:  # The fault is in one object, for example in what another client wrote.
                self._written.pop(key, None)
                self._turns.fail(key, error)
        return dues

    def _due_of(self, core: Core, key: GroupKey, place: int | None, now: str) -> _Due | None:
        """The object to write for this job; None if nothing has to be written."""
        report, written = core.workload_report(key), self._written.get(key)
        if report is None or (written is not None and written.foreign and written.uid == report.job.uid):
            return None
        written = written if written is not None and written.uid == report.job.uid else None
        if written is None and report.finished:
            return None  # The Workload ends with its job.
        status = record_status(report, written.status["conditions"] if written else (), place, now)
        up_to_date = written is not None and all(written.status.get(field) == value for field, value in status.items())
        is_due = written is None or not up_to_date or (not report.finished and written.spec != spec_of(report))
        return _Due(report, written, status) if is_due else None

    async def _update(self, due: _Due, version: str) -> None:
        self._written.pop(due.report.key, None)  # The state is unknown until the write is answered.
        try:
            self._written[due.report.key] = await self._write(due, version)
        except ApiError as error:
            if error.status != 404:  # The namespace or the job ends, or another client deleted it.
                raise

    async def _write(self, due: _Due, version: str) -> _Written:
        report, written, spec, status = due.report, due.written, spec_of(due.report), due.status
        within = path_of(version, f"namespaces/{report.key.namespace}/workloads")
        path = f"{within}/{name_of(report.job)}"
        if written is None:
            written = await self._look(within, path, report, spec, version)
            if written.foreign:
                return written
            place = self._places().get(report.key)
            status = record_status(report, written.status["conditions"], place, instant("seconds"))
        if written.spec != spec and not report.finished:
            await self._kube.call("PATCH", path, body={"spec": spec}, content_type=_MERGE)
        if any(written.status.get(field) != value for field, value in status.items()):
            await self._kube.call("PATCH", f"{path}/status", body={"status": status}, content_type=_MERGE)
        return _Written(report.job.uid, spec, {**written.status, **status})

    async def _look(
        self, within: str, path: str, report: WorkloadReport, spec: dict[str, Any], version: str
    ) -> _Written:
        """Create the Workload, or read the one that has its name: from before a restart, or another client's."""
        header = {"apiVersion": f"kueue.x-k8s.io/{version}", "kind": "Workload"}
        try:
            await self._kube.call("POST", within, body={**header, "metadata": metadata_of(report), "spec": spec})
            return _Written(report.job.uid, spec, {"conditions": []})
        except ApiError as error:
            if error.status != 409:
                raise
        record = decoded(await self._kube.call("GET", path))
        meta = record.get("metadata") or {}
        status = record.get("status") or {}
        foreign = (meta.get("labels") or {}).get(RECORD) != "true"
        return _Written(
            report.job.uid, record.get("spec") or {}, {**status, "conditions": status.get("conditions") or []}, foreign
        )


def _states(status: Mapping[str, Any]) -> list[tuple[str, str]]:
    """The status of each condition, without its message."""
    return sorted(
        (condition.get("type", ""), condition.get("status", "")) for condition in status.get("conditions") or ()
    )
