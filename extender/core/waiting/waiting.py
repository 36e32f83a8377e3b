"""Who waits for nodes, whom the next admission pass has to look at, and whom it leaves aside."""

from __future__ import annotations

from extender.core.gang.shape import Shape
from extender.core.waiting.namespace_limit import NamespaceLimit
from extender.core.waiting.parked import Parked
from extender.core.workload import Workload
from policies.api import SortKey
from policies.model import GroupKey


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

    def park(self, workload: Workload, queue: str, shape: Shape, order: SortKey) -> None:
        """Free room does not help it, because it lacks quota of that ClusterQueue: until that is given back, or until
        ``look_again``, it is not looked at."""
        if (number := self.keys.get(workload.key)) is not None:
            self._open.pop(workload.key, None)
            self.parked.put(workload.key, queue, shape, (order, number, workload))

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
