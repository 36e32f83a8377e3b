"""What a workload of a ClusterQueue asks quota for, part by part, and what flavors demand of the nodes of each part."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from extender.core.ledger.queues import Picture
from extender.core.workload.least import left_short
from extender.core.workload.shape import Flavoring, PartKey, Shape, is_hidden, of_gang, of_job, part_of
from extender.core.workload.workload import Workload
from policies.model import Pod, Selection
from policies.model.queues import ClusterQueue
from policies.quota.flavors import Assignment
from policies.quota.parts import PodSetRequest


@dataclass(frozen=True, slots=True)
class _Part:
    """Pods that get their flavors together."""

    name: str
    part: PartKey
    selection: Selection
    group: str


class Asked:
    """By the pods that stand for those of its slots that lack a node."""

    def __init__(self, workload: Workload, pods: Sequence[Pod], queue: ClusterQueue, picture: Picture) -> None:
        self._workload = workload
        self._queue = queue
        self._flavors = picture.flavors
        self._of: dict[object, _Part] = {}
        by_part: dict[PartKey, _Part] = {}
        of_job, stands_for = workload.job is not None, workload.members.stands_for
        for pod in pods:
            raw = stands_for(pod.identity)
            part = part_of(raw, of_job=of_job)
            if (known := by_part.get(part)) is None:
                name = raw.series if of_job else str(len(by_part))
                known = by_part[part] = _Part(name, part, raw.selection, raw.podset_group)
            self._of[pod.identity] = known
        self._parts = tuple(by_part.values())

    def podsets(self, pods: Sequence[Pod]) -> list[PodSetRequest]:
        """For these of them."""
        total: dict[str, dict[str, int]] = {}
        for pod in pods:
            some = total.setdefault(self._of[pod.identity].name, {})
            for name, much in pod.requests:
                some[name] = some.get(name, 0) + much
        return [
            PodSetRequest(one.name, 1, total[one.name], one.selection, group=one.group)
            for one in self._parts
            if one.name in total
        ]

    def flavorings(self, found: Assignment) -> dict[PartKey, Flavoring]:
        """What those flavors demand of the nodes of each part, beside what is demanded of the others already."""
        chosen = ((one.part, found.flavors.get(one.name, {})) for one in self._parts)
        if self._workload.job is not None:
            made = {part: of_job(self._flavors, some) for part, some in chosen}
        else:
            made = {part: of_gang(self._queue, self._flavors, some) for part, some in chosen}
        return dict(self._workload.flavoring) | made

    def closed(self) -> dict[tuple[str, str], str]:
        """Flavors that a part cannot have, whatever quota there is of them."""
        closed: dict[tuple[str, str], str] = {}
        queue, flavors = self._queue, self._flavors
        of_job = self._workload.job is not None
        started = of_job or self._workload.release.partial_since is not None
        for one in self._parts:
            held = self._workload.flavoring.get(one.part) if started else None
            for group in queue.groups:
                for name, _ in group.flavors:
                    if held is not None and held.flavors and name not in held.flavors.values():
                        closed[one.name, name] = (
                            f"it was started with flavor {', '.join(dict.fromkeys(held.flavors.values()))}"
                        )
                    elif not of_job and name in flavors and (first := is_hidden(queue, flavors, name)):
                        closed[one.name, name] = f"its nodes count as those of flavor {first}, which comes first"
        return closed


def must_of(workload: Workload, pods: Sequence[Pod], shape: Shape) -> Sequence[Pod]:
    """Those that have to start together."""
    return left_short(workload, pods, ()) or pods[: shape.needed]


def in_whole_slices(workload: Workload, pods: Sequence[Pod], shape: Shape) -> Sequence[Pod]:
    """Those that have to start together, where there is quota for all. Of a workload whose parts have no minimum of
    their own these are whole slices: no plan for it cuts one then."""
    if least := left_short(workload, pods, ()):
        return least
    begun = set(map(_slice_of, pods[: shape.needed]))
    return [pod for pod in pods if _slice_of(pod) in begun]


def _slice_of(pod: Pod) -> object:
    """The largest that it is in; itself where it asks for none."""
    sizes = [pod.topology.slice_size, *(size for size, _ in pod.topology.around)]
    return pod.uid if sizes[-1] is None else pod.slice_of(sizes[-1])
