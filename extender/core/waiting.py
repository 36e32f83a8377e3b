"""Who waits for nodes, whom the next admission pass has to look at, and whom it leaves aside."""

from __future__ import annotations

from extender.core.crowd import Crowd
from policies.model import GroupKey


class Waiting:
    """``keys``: workloads with slots that have no node and no promise of one. ``stale``: those of them that have
    changed since a pass looked at them. No more than ``most`` of one namespace are looked at.
    """

    def __init__(self, most: int) -> None:
        self.keys: dict[GroupKey, int] = {}
        """Numbered in the order in which they came."""
        self.stale: dict[GroupKey, None] = {}
        self._came = 0
        self._open: dict[GroupKey, None] = {}
        self._parked: dict[GroupKey, None] = {}
        self._crowd = Crowd()
        self._most = most

    def come(self, key: GroupKey, *, changed: bool) -> None:
        """It waits, or waits still."""
        if key not in self.keys:
            self._came += 1
            self.keys[key] = self._came
            self._open[key] = None
            self._crowd.come(key, self._most)
        if changed:
            self.look_again(key)

    def leave(self, key: GroupKey) -> GroupKey | None:
        """It waits no longer. Returns the one that is looked at from now on instead, if any was left aside."""
        self.keys.pop(key, None)
        self.stale.pop(key, None)
        self._open.pop(key, None)
        self._parked.pop(key, None)
        return self._crowd.leave(key)

    def look_again(self, key: GroupKey) -> None:
        if key in self.keys:
            self.stale[key] = None
            self._parked.pop(key, None)
            self._open[key] = None

    def park(self, key: GroupKey) -> None:
        """No news of room helps it, because it lacks quota: until ``look_again`` it is not looked at."""
        if key in self.keys:
            self._open.pop(key, None)
            self._parked[key] = None

    def unpark(self) -> None:
        """More than news of room may help those by now."""
        self._open |= self._parked
        self._parked.clear()

    def open(self) -> list[GroupKey]:
        """Those whom news of room may help, in the order in which they came."""
        return sorted(self._open, key=self.keys.__getitem__)

    def looked_at(self, key: GroupKey) -> None:
        self.stale.pop(key, None)

    def keeps_out(self, key: GroupKey) -> bool:
        """Whether too many of its namespace wait."""
        return self._crowd.keeps_out(key)
