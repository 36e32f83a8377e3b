"""Workloads that lack quota, so that free room does not help them: by ClusterQueue and by what they ask for."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from extender.core.gang.shape import Shape
from extender.core.workload import Workload
from policies.api import SortKey
from policies.model import GroupKey

Entry = tuple[SortKey, int, Workload]
"""Its order, a number that no other one has, and the workload."""


class Parked:
    """A pass takes up all of a shape at once, without a look at each."""

    def __init__(self) -> None:
        self._spots: dict[GroupKey, tuple[str, Shape]] = {}
        self._entries: dict[str, dict[Shape, dict[GroupKey, Entry]]] = {}

    def __contains__(self, key: GroupKey) -> bool:
        return key in self._spots

    def __iter__(self) -> Iterator[GroupKey]:
        return iter(self._spots)

    def of(self, queue: str, shapes: Iterable[Shape]) -> list[Entry]:
        """Those of that ClusterQueue that ask for one of these."""
        some = self._entries.get(queue, {})
        return [entry for shape in shapes if shape in some for entry in some[shape].values()]

    def put(self, key: GroupKey, queue: str, shape: Shape, entry: Entry) -> None:
        """It is parked, there and nowhere else."""
        self.drop(key)
        self._spots[key] = queue, shape
        self._entries.setdefault(queue, {}).setdefault(shape, {})[key] = entry

    def drop(self, key: GroupKey) -> None:
        """It is not parked any more, if it was."""
        if (spot := self._spots.pop(key, None)) is not None:
            queue, shape = spot
            some = self._entries[queue]
            del some[shape][key]
            if not some[shape]:
                del some[shape]

    def clear(self) -> None:
        """Nobody is."""
        self._spots.clear()
        self._entries.clear()
