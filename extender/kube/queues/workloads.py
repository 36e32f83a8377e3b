"""A Workload object of ``kueue.x-k8s.io`` as a record of a job: its name, what it says, and its status.

Name, fields and conditions are Kueue's (its pkg/controller/jobframework/workload_names.go and apis/kueue/v1beta2), so
that its tools show the jobs of Muster. It is a record and nothing more: nobody reads it to decide anything.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from hashlib import sha1
from typing import Any

from extender.core.explain.reports import PodSetReport, WorkloadReport
from extender.kube.queues.status import Condition, condition, quantity, since
from policies.model.group import Controller

RECORD = "muster.dev/record"
"""The label of those that are Muster's."""
RESERVED, ADMITTED, EVICTED, FINISHED = "QuotaReserved", "Admitted", "Evicted", "Finished"
_LONGEST_NAME, _HASH = 253, 5
_MAIN = "main"
"""What Kueue calls the one podset of a Job."""
_REASONS = {
    "NoQuota": "WaitingForQuota",
    "NoRoom": "TopologyPlacementFailed",
    "AwaitingNodes": "TopologyPlacementFailed",
    "QueueMissing": "Misconfigured",
    "QueueInactive": "Misconfigured",
    "QueueStopped": "Suspended",
}
"""The codes of Muster's reasons in Kueue's words, where they mean the same."""


def name_of(job: Controller) -> str:
    """By kind, name and UID of the job."""
    group = job.version.rpartition("/")[0]
    text = "\n".join((job.kind, group, job.name, job.uid)).encode()
    end = sha1(text, usedforsecurity=False).hexdigest()[:_HASH]
    return f"{job.kind.lower()}-{job.name}"[: _LONGEST_NAME - 1 - _HASH] + f"-{end}"


def metadata_of(report: WorkloadReport) -> dict[str, Any]:
    """It goes with its job."""
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
    """Of the pod templates only what they ask for."""
    podsets = [
        {
            "name": name,
            "count": one.count,
            **({"minCount": one.minimum} if one.minimum < one.count else {}),
            "template": {"spec": {"containers": [{"name": _MAIN, "resources": {"requests": _requests(one)}}]}},
        }
        for name, one in _named(report.podsets)
    ]
    return {"queueName": report.local, "priority": report.priority, "active": True, "podSets": podsets}


def record_status(
    report: WorkloadReport, before: Iterable[Condition], place: int | None, instant: str
) -> dict[str, Any]:
    """``before``: its conditions as they are. ``place``: in its ClusterQueue, from 1. What has ended keeps them."""
    former = {one.get("type", ""): one for one in before}
    if report.finished:
        ended = condition(FINISHED, "True", "JobFinished", "The job has ended")
        return {"conditions": list(_with([ended], former, instant)), "position": None}
    admission = None
    if report.reserved and report.queue:
        assigned = [_assigned(name, one) for name, one in _named(report.podsets)]
        admission = {"clusterQueue": report.queue, "podSetAssignments": assigned}
    conditions = list(_with(_conditions(report, former), former, instant))
    return {"admission": admission, "conditions": conditions, "position": None if report.reserved else place}


def _conditions(report: WorkloadReport, former: dict[str, Condition]) -> Iterator[Condition]:
    why = _REASONS.get(report.reason.code, "Pending")
    if report.reserved:
        yield condition(RESERVED, "True", RESERVED, f"Quota reserved in ClusterQueue {report.queue}")
    else:
        yield condition(RESERVED, "False", why, report.reason.message)
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
    """The conditions of others, and those of which nothing new is said, stay."""
    told = {one["type"]: since(one, list(former.values()), instant) for one in now}
    yield from (former | told).values()


def _named(podsets: tuple[PodSetReport, ...]) -> Iterator[tuple[str, PodSetReport]]:
    """Each with a name that the API takes."""
    for one in podsets:
        yield re.sub(r"[^a-z0-9]+", "-", one.name.lower()).strip("-")[:63] or _MAIN, one


def _requests(one: PodSetReport) -> dict[str, str]:
    return {resource: quantity(resource, amount) for resource, amount in one.requests if resource != "pods"}


def _assigned(name: str, one: PodSetReport) -> dict[str, Any]:
    usage = {resource: quantity(resource, amount) for resource, amount in one.used.items()}
    return {"name": name, "flavors": dict(one.flavors), "resourceUsage": usage, "count": one.count}
