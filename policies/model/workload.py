"""A workload that is known before its pods: how many of which kind will come."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from policies.model.group import GroupKey
from policies.model.pod import Pod


@dataclass(frozen=True, slots=True)
class PodSet:
    """``count`` pods like ``template``, numbered from 0; at least ``minimum`` of them have to start together.

    ``template``: its ``owner`` and ``series`` are those that the pods will have, so that each of them fills its slot.
    """

    template: Pod
    count: int
    minimum: int

    def pods(self) -> Iterator[Pod]:
        """What will come, by slot. The UIDs are no pod's."""
        one = self.template
        for index in range(self.count):
            yield replace(one, uid=f"slot:{one.owner}{one.series}/{index}", name=f"{one.name}-{index}", index=index)


@dataclass(frozen=True, slots=True)
class PodSets:
    """All podsets of the workload of that name."""

    key: GroupKey
    podsets: tuple[PodSet, ...]

    @property
    def minimum(self) -> int:
        """How many pods have to start together."""
        return sum(podset.minimum for podset in self.podsets)
