"""Who waits for nodes, whom the next admission pass has to look at, and whom it leaves aside."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from extender.core.gang.shape import Shape
from extender.core.workload import Workload
from policies.api import SortKey
from policies.model import GroupKey

Turn = tuple[int, SortKey]
"""How far it is put off, and its order by the queue policy."""
Entry = tuple[Turn, int, Workload]
"""The turn, a number that no other entry has, and the workload."""


class Waiting:
    """``keys``: workloads with slots that have no node and no promise of one. ``stale``: those of them that have
    changed since a pass looked at them. ``parked``: those of them that free room does not help. No more than
    ``most`` of one namespace are looked at.
    """

    def __init__(self, most: int) -> None:
        self.keys: dict[GroupKey, int] = {}
        """Numbered in the order in which they came."""
        self.stale: dict[GroupKey, None] = {}
        self.parked = Parked()
        self._came = 0
        self._open: dict[GroupKey, None] = {}
        self._limit = NamespaceLimit()
        self._most = most

    def come(self, key: GroupKey, *, changed: bool) -> None:
        """It waits, or waits still."""
        if key not in self.keys:
            self._came += 1
            self.keys[key] = self._came
            self._open[key] = None
            self._limit.come(key, self._most)
        if changed:
            self.look_again(key)

    def leave(self, key: GroupKey) -> GroupKey | None:
        """It waits no longer. Returns the one that is looked at from now on instead, if any was left aside."""
        self.keys.pop(key, None)
        self.stale.pop(key, None)
        self._open.pop(key, None)
        self.parked.drop(key)
        return self._limit.leave(key)

    def look_again(self, key: GroupKey) -> None:
        if key in self.keys:
            self.stale[key] = None
            self.parked.drop(key)
            self._open[key] = None

    def park(self, workload: Workload, queue: str, shape: Shape, turn: Turn) -> None:
        """Free room does not help it, because it lacks quota of that ClusterQueue: until that is given back, or until
        ``look_again``, it is not looked at."""
        if (number := self.keys.get(workload.key)) is not None:
            self._open.pop(workload.key, None)
            self.parked.put(workload.key, queue, shape, (turn, number, workload))

    def unpark(self) -> None:
        """More than free room may help those by now."""
        self._open.update((key, None) for key in self.parked)
        self.parked.clear()

    def open(self) -> list[GroupKey]:
        """Those whom free room may help, in the order in which they came."""
        return sorted(self._open, key=self.keys.__getitem__)

    def looked_at(self, key: GroupKey) -> None:
        self.stale.pop(key, None)

    def keeps_out(self, key: GroupKey) -> bool:
        """Whether too many of its namespace wait."""
        return self._limit.keeps_out(key)


class NamespaceLimit:
    """Gangs that wait, by namespace, in the order in which they came: inside as many as are looked at."""

    def __init__(self) -> None:
        self._inside: dict[str, dict[GroupKey, None]] = {}
        self._outside: dict[str, dict[GroupKey, None]] = {}

    def come(self, key: GroupKey, most: int) -> None:
        """It waits, inside if fewer than ``most`` of its namespace are. Nothing changes for one that waited already."""
        inside = self._inside.setdefault(key.namespace, {})
        if key not in inside:
            place = inside if len(inside) < most else self._outside.setdefault(key.namespace, {})
            place[key] = None

    def leave(self, key: GroupKey) -> GroupKey | None:
        """It waits no longer. Returns the one that gets in for it."""
        inside, outside = self._inside.get(key.namespace, {}), self._outside.get(key.namespace, {})
        outside.pop(key, None)
        if key not in inside:
            return None
        del inside[key]
        following = next(iter(outside), None)
        if following is not None:
            del outside[following]
            inside[following] = None
        elif not inside:
            del self._inside[key.namespace]
        if not outside:
            self._outside.pop(key.namespace, None)
        return following

    def keeps_out(self, key: GroupKey) -> bool:
        return key in self._outside.get(key.namespace, {})


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
