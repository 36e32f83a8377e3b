"""Who waits for nodes, whom the next admission pass has to look at, and whom it leaves aside."""

from __future__ import annotations

from extender.core.crowd import Crowd
from policies.model import GroupKey


class Waiting:
    """``keys``: workloads with slots that have no node and no promise of one. ``stale``: those of them that have
    changed since a pass looked at them. ``parked``: those whom no news of room helps, because they lack quota. No more
    than ``most`` of one namespace are looked at.
    """

    def __init__(self, most: int) -> None:
        self.keys: dict[GroupKey, None] = {}
        self.stale: dict[GroupKey, None] = {}
        self.parked: dict[GroupKey, None] = {}
        self._crowd = Crowd()
        self._most = most

    def come(self, key: GroupKey, *, changed: bool) -> None:
        """It waits, or waits still."""
        if key not in self.keys:
            self.keys[key] = None
            self._crowd.come(key, self._most)
        if changed:
            self.look_again(key)

    def leave(self, key: GroupKey) -> GroupKey | None:
        """It waits no longer. Returns the one that is looked at from now on instead, if any was left aside."""
        self.keys.pop(key, None)
        self.stale.pop(key, None)
        self.parked.pop(key, None)
        return self._crowd.leave(key)

    def look_again(self, key: GroupKey) -> None:
        if key in self.keys:
            self.stale[key] = None
            self.parked.pop(key, None)

    def park(self, key: GroupKey) -> None:
        """Until ``look_again`` it is not looked at."""
        if key in self.keys:
            self.parked[key] = None

    def unpark(self) -> None:
        """More than news of room may help those by now."""
        self.parked.clear()

    def open(self) -> list[GroupKey]:
        """Those whom news of room may help."""
        parked = self.parked
        return [key for key in self.keys if key not in parked]

    def looked_at(self, key: GroupKey) -> None:
        self.stale.pop(key, None)

    def keeps_out(self, key: GroupKey) -> bool:
        """Whether too many of its namespace wait."""
        return self._crowd.keeps_out(key)
