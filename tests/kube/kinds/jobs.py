"""Manifests of jobs as the API server shows them, and their readings and changes by Muster."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from copy import deepcopy
from typing import Any

import yaml
from msgspec import convert

from extender.core.effects import StartJob
from extender.kube.convert import pod_from
from extender.kube.kinds.change import clean, merge_patch, start, suspend
from extender.kube.kinds.completion import Completion
from extender.kube.kinds.kind import Kind, Object
from extender.kube.kinds.read import Reader
from extender.kube.reading.objects import PodObject
from policies.model import Job, PlannedNodes, Pod, SlotKey

UID = "6f9a-uid"
SUSPENDED = {"conditions": [{"type": "Suspended", "status": "True"}]}


def stored(manifest: str, **status: Any) -> Object:
    """The object that was applied, with the additions of the API server, and of the admission policy for jobs."""
    obj = yaml.safe_load(manifest)
    assert isinstance(obj, dict)
    obj["metadata"] |= {"namespace": "team", "uid": UID, "resourceVersion": "7"}
    obj["metadata"]["creationTimestamp"] = "2026-01-02T03:04:05Z"
    return obj | ({"status": status} if status else {})


def read(kind: Kind, obj: Object, *schedulers: str, completion: Completion | None = None) -> Job:
    return Reader(schedulers or ("muster", "default-scheduler"), completion).read(kind, obj)


def plan_for(job: Job, nodes: Sequence[str] = ("n0", "n1", "n2", "n3", "n4")) -> dict[str, tuple[str, ...]]:
    """Two slots on each node, one node after the other."""
    places = [node for node in nodes for _ in range(2)]
    plan: dict[str, tuple[str, ...]] = {}
    for podset in job.podsets.podsets:
        plan[podset.name], places = tuple(places[: podset.count]), places[podset.count :]
        assert len(plan[podset.name]) == podset.count, "the test has too few nodes"
    return plan


def started(kind: Kind, obj: Object, plan: PlannedNodes | None = None, minimum: int | None = None) -> Object:
    """A copy, started."""
    after, job = deepcopy(obj), read(kind, obj)
    start(kind, after, StartJob(job, plan_for(job) if plan is None else plan, minimum or job.podsets.minimum))
    return after


def stopped_again(kind: Kind, obj: Object, **status: Any) -> Object:
    """A copy, suspended, and cleaned when its controller has seen that."""
    after = deepcopy(obj)
    suspend(kind, after)
    after["status"] = SUSPENDED | status
    clean(kind, after)
    return after


def without_status(obj: Object) -> Object:
    return {key: value for key, value in obj.items() if key != "status"}


def pod(template: Object, name: str, owner: str = "maker-uid", **labels: str) -> Pod:
    """A pod that a controller makes of the template."""
    made = deepcopy(template)
    meta = made.setdefault("metadata", {})
    meta |= {"name": name, "namespace": "team", "uid": f"uid-of-{name}"}
    meta["labels"] = {**(meta.get("labels") or {}), **labels}
    meta["ownerReferences"] = [
        {"apiVersion": "batch/v1", "kind": "Job", "name": "maker", "uid": owner, "controller": True}
    ]
    return pod_from(convert(made, PodObject))


def slots(job: Job) -> set[SlotKey]:
    return {podset.slot(index) for podset in job.podsets.podsets for index in range(podset.count)}


def sizes(job: Job) -> dict[str, int]:
    return {podset.name: podset.count for podset in job.podsets.podsets}


def patched(before: Object, patch: Object) -> Object:
    """RFC 7396, by the other way round."""
    result = dict(before)
    for key, value in patch.items():
        if value is None:
            result.pop(key, None)
        elif isinstance(value, dict):
            known = result.get(key)
            result[key] = patched(known if isinstance(known, dict) else {}, value)
        else:
            result[key] = value
    return result


def by_patch(before: Object, after: Object) -> Object:
    """The object in the API server after the patch that turns ``before`` into ``after`` is merged."""
    return patched(before, merge_patch(before, after))


def affinity_names(template: Object) -> Iterator[str]:
    required = template["spec"]["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]
    for term in required["nodeSelectorTerms"]:
        (requirement,) = term["matchFields"]
        assert (requirement["key"], requirement["operator"]) == ("metadata.name", "In")
        (name,) = requirement["values"]
        yield name
