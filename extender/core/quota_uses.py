"""What is counted as used of a quota, for whom: pods and slots with room, and pods that nobody has seen yet."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass

from extender.core.claims import Owner
from extender.core.flavoring import PartKey
from extender.core.workload import Workload
from policies.model import Requests
from policies.model.queues import ClusterQueue, Usage


@dataclass(frozen=True, slots=True)
class Use:
    """Of one pod or slot. ``queue``: the ClusterQueue. ``part``: as in ``Flavoring``. ``unseen``: of pods that have no
    node yet, of a job that somebody else has started."""

    queue: str
    part: PartKey
    flavors: Mapping[str, str]
    usage: Usage
    unseen: bool = False


class Unseen(str):
    """The pods of a podset that have no node yet, of a job that runs by no plan of ours."""

    __slots__ = ()


def unseen_of(workload: Workload, queue: ClusterQueue, uses: Collection[Use]) -> dict[Owner, Use]:
    job = workload.job
    if job is None or job.plan is not None or job.seen.suspended or job.seen.finished:
        return {}
    found: dict[Owner, Use] = {}
    for podset in job.seen.podsets.podsets:
        there = sum(use.part == podset.name and not use.unseen for use in uses)
        done = sum(slot[0] == podset.prefix for slot in job.seen.done)
        missing = podset.size - there - done
        flavors = (job.seen.flavors or {}).get(podset.name) or _first_of(queue)
        requests = tuple((name, amount * missing) for name, amount in podset.template.requests)
        if missing > 0:
            usage = amounts_of(requests, flavors)
            found[Unseen(podset.name)] = Use(queue.name, podset.name, flavors, usage, unseen=True)
    return found


def amounts_of(requests: Requests, flavors: Mapping[str, str]) -> Usage:
    return {(flavors[name], name): amount for name, amount in requests if amount and name in flavors}


def _first_of(queue: ClusterQueue) -> dict[str, str]:
    """Of a pod whose node nobody knows."""
    return {
        resource: name
        for group in queue.groups
        for name, quotas in reversed(group.flavors)
        for resource in group.limited()
        if resource in quotas
    }
