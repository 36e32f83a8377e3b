"""What the status of a queue object says: who waits, what is used and borrowed, and whether it can be used as it is.

The fields are Kueue's (site/content/en/docs/reference/kueue.v1beta2.md), so that its tools read them.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from itertools import groupby
from typing import Any

from extender.kube.queues.past_use import past_use_to
from policies.model.queues import ClusterQueue, Cohort, LocalQueue, QueueObject, QueueReport, Stop

ACTIVE = "Active"
WARNING = "Warning"
READY, STOPPED, UNUSABLE = "Ready", "Stopped", "Misconfigured"
_LONGEST = 4096
"""Of the message of a condition."""

Condition = dict[str, str]


def status_of(thing: QueueObject, report: QueueReport, before: Iterable[Condition], instant: str) -> dict[str, Any]:
    """The fields of its status that are written. ``before``: its conditions as they are, of which those of others stay.
    ``instant``: the present, for those that change."""
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
    """As Kubernetes writes it: cpu is counted in millicores, everything else in its base unit."""
    return f"{amount}m" if resource == "cpu" and amount % 1000 else str(amount // 1000 if resource == "cpu" else amount)


def _used(thing: QueueObject, report: QueueReport) -> Iterator[dict[str, Any]]:
    """By flavor and resource; of a ClusterQueue also what is not used at all, and what is borrowed."""
    known = dict.fromkeys(_limited(thing), None) | dict.fromkeys(report.used, None)
    ours = isinstance(thing, ClusterQueue)
    for flavor, pairs in groupby(sorted(known) if not ours else list(_by_flavor(known)), key=lambda pair: pair[0]):
        resources = []
        for pair in pairs:
            said = {"name": pair[1], "total": quantity(pair[1], report.used.get(pair, 0))}
            if ours:
                said["borrowed"] = quantity(pair[1], report.borrowed.get(pair, 0))
            resources.append(said)
        yield {"name": flavor, "resources": resources}


def _by_flavor(pairs: Mapping[tuple[str, str], None]) -> Iterator[tuple[str, str]]:
    """The flavors in the order of the object, and all resources of each."""
    for flavor in dict.fromkeys(flavor for flavor, _ in pairs):
        yield from (pair for pair in pairs if pair[0] == flavor)


def _limited(thing: QueueObject) -> Iterator[tuple[str, str]]:
    if isinstance(thing, ClusterQueue):
        for group in thing.groups:
            for flavor, quotas in group.flavors:
                yield from ((flavor, resource) for resource in quotas)


def _conditions(thing: QueueObject, report: QueueReport, before: list[Condition], instant: str) -> Iterator[Condition]:
    yield from (one for one in before if one.get("type") not in (ACTIVE, WARNING))
    stopped = isinstance(thing, ClusterQueue | LocalQueue) and thing.stop is not Stop.NONE
    if report.problems:
        now = condition(ACTIVE, "False", STOPPED if stopped else UNUSABLE, "; ".join(report.problems))
    else:
        now = condition(ACTIVE, "True", READY, "It can admit workloads")
    yield since(now, before, instant)
    if report.warnings:
        yield since(condition(WARNING, "True", "Warning", "; ".join(report.warnings)), before, instant)


def condition(kind: str, status: str, reason: str, message: str) -> Condition:
    """As it is on the wire, without the instant."""
    return {"type": kind, "status": status, "reason": reason, "message": message[:_LONGEST]}


def since(now: Condition, before: list[Condition], instant: str) -> Condition:
    """With the instant at which it became what it is."""
    was = next((one for one in before if one.get("type") == now["type"]), {})
    same = was.get("status") == now["status"] and was.get("lastTransitionTime")
    return now | {"lastTransitionTime": was["lastTransitionTime"] if same else instant}
