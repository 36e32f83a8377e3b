"""What podsets ask a ClusterQueue for: pods are counted where it covers them, and what it does not cover is refused."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from policies.model.queues import ClusterQueue
from policies.quota.parts import PodSetRequest
from policies.words import listed

_PODS = "pods"


def uncovered(queue: ClusterQueue, podsets: Sequence[PodSetRequest]) -> str:
    """What the pods ask for that no resource group of the queue covers; empty if there is nothing."""
    covered = {name for group in queue.groups for name in group.covered} | {_PODS}
    asked = dict.fromkeys(name for one in podsets for name, much in one.requests.items() if much and one.count)
    missing = [name for name in asked if name not in covered]
    refuses = bool(missing) and not queue.open
    return f"{queue.title} does not cover {listed(missing)}, which it asks for" if refuses else ""


def with_pods(queue: ClusterQueue, podsets: Sequence[PodSetRequest]) -> Sequence[PodSetRequest]:
    """Each pod counts as one, where the queue covers that."""
    if not any(_PODS in group.covered for group in queue.groups):
        return podsets
    return [replace(one, requests={**one.requests, _PODS: 1}) for one in podsets]
