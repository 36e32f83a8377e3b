"""The requests of podsets for quota, and their parts: podsets that share one flavor of one resource group."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from policies.model.node import ANY_NODE, Selection
from policies.model.queues import ClusterQueue, FlavorResource, ResourceGroup
from policies.words import COUNTED


@dataclass(frozen=True, slots=True)
class PodSetRequest:
    """A podset's request for quota.

    ``requests``: amounts for one of its ``count`` pods, by resource.
    ``minimum``: how many pods are enough to start, as ``minCount`` in Kueue; None: all of them.
    ``group``: podsets of one group get the same flavors; empty: the podset is on its own.
    """

    name: str
    count: int
    requests: Mapping[str, int]
    selection: Selection = ANY_NODE
    minimum: int | None = None
    group: str = ""


class FlavorRequest(NamedTuple):
    """Podsets that get one flavor of a resource group together, with the sum of their requests for that group."""

    podsets: Sequence[PodSetRequest]
    group: ResourceGroup
    requests: Mapping[str, int]

    def take(self, taken: Counter[FlavorResource], flavor: str) -> None:
        for name, amount in self.requests.items():
            taken[flavor, name] += amount


def flavor_requests(queue: ClusterQueue, podsets: Sequence[PodSetRequest]) -> list[FlavorRequest]:
    """The parts of the podsets that request something, in the order in which they are served."""
    every = (
        FlavorRequest(together, group, requests_for(group, together))
        for together in in_groups(podsets)
        for group in queue.groups
    )
    return [request for request in every if request.requests]


def in_groups(podsets: Sequence[PodSetRequest]) -> list[list[PodSetRequest]]:
    """Podsets grouped by the flavors that they share, in the order of the first podset of each group."""
    podsets_by_group: dict[tuple[str, str], list[PodSetRequest]] = {}
    for podset in podsets:
        podsets_by_group.setdefault((podset.group, "" if podset.group else podset.name), []).append(podset)
    return [*podsets_by_group.values()]


def requests_for(group: ResourceGroup, podsets: Sequence[PodSetRequest]) -> dict[str, int]:
    """The sum of the podsets' requests for each resource that the group limits."""
    total = {name: sum(podset.requests.get(name, 0) * podset.count for podset in podsets) for name in group.limited}
    return {name: amount for name, amount in total.items() if amount}


def uncovered(queue: ClusterQueue, podsets: Sequence[PodSetRequest]) -> list[str]:
    """Requested resources that no group of the queue covers; they keep the podsets out of the queue."""
    if queue.open:
        return []
    covered = queue.covered | {"pods"}
    requested = dict.fromkeys(
        name for podset in podsets for name, much in podset.requests.items() if much and podset.count
    )
    return [name for name in requested if name not in covered and not name.startswith(COUNTED)]
