"""What quota a refused workload waits for: before so much of it is left, it is refused again."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from extender.core.quota.queues import Picture
from extender.core.waiting.shortfalls import Amounts, Lack
from policies.model.queues import ClusterQueue, FlavorResource, ResourceGroup
from policies.quota.parts import PodSetRequest
from policies.quota.suiting import suits
from policies.quota.tree import QuotaNode


def awaited(
    picture: Picture,
    queue: ClusterQueue,
    podsets: Sequence[PodSetRequest],
    refused: Mapping[tuple[str, str], str],
    lack: Lack,
) -> Amounts | None:
    """For podsets that have to start together. ``refused``: by podset and flavor, what cannot be had, or was tried and
    had no room. None where one number for each flavor does not say it."""
    node = picture.tree.queues[queue.name]
    if lack is Lack.ROOM:
        # With several podsets or groups what was tried is not told by the flavors of one alone.
        if len(podsets) > 1 or len(queue.groups) > 1:
            return None
        return tuple(what for _, what in _of_flavors(picture, node, queue.groups[0], podsets[0], refused))
    for podset in podsets:
        for group in queue.groups:
            found = [*_of_flavors(picture, node, group, podset, refused)]
            if not any(there for there, _ in found) and any(podset.requests.get(name) for name in group.limited()):
                return tuple(what for _, what in found)
    return None


def _of_flavors(
    picture: Picture,
    node: QuotaNode,
    group: ResourceGroup,
    podset: PodSetRequest,
    refused: Mapping[tuple[str, str], str],
) -> Iterator[tuple[bool, tuple[FlavorResource, int]]]:
    """Of each flavor that it might get with more quota: whether all that it asks for of it is there, and what it lacks
    most plainly of it."""
    wanted = {name: much for name in group.limited() if (much := podset.requests.get(name, 0) * podset.count)}
    for name, quotas in group.flavors:
        flavor = picture.flavors.get(name)
        if flavor is None or (podset.name, name) in refused or not suits(flavor, podset.selection):
            continue
        if not wanted or any(one not in quotas or much > node.potential((name, one)) for one, much in wanted.items()):
            continue
        short = [(one, much) for one, much in wanted.items() if much > node.left((name, one))]
        resource, much = (short or [*wanted.items()])[0]
        yield not short, ((name, resource), much)
