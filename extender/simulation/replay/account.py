"""How many GPUs are in each use, step by step."""

from __future__ import annotations

from enum import IntEnum
from operator import itemgetter

Step = tuple[float, float, float, float, float]
"""From when on, and the GPUs that were productive, starting, held without work, and whose work was lost."""


class Use(IntEnum):
    """What a GPU that a pod has is doing."""

    PRODUCTIVE = 0
    STARTING = 1
    """The gang is whole: its containers start, and its members find each other."""
    HELD = 2
    """The pod has its node, and others without which it cannot run have none."""
    LOST = 3
    """Its job is evicted before what it does is saved."""


class Account:
    """Whether work is lost shows only later: so changes are kept, and added up in the end."""

    def __init__(self) -> None:
        self._changes: list[tuple[float, Use, int]] = []

    def move(self, now: float, gpus: int, old: Use | None, new: Use | None) -> None:
        """From one use to another; None: free."""
        if old is not None:
            self._changes.append((now, old, -gpus))
        if new is not None:
            self._changes.append((now, new, gpus))

    def lost(self, since: float, until: float, gpus: int) -> None:
        """What these have done in that time counts for nothing."""
        if since < until:
            self.move(since, gpus, Use.PRODUCTIVE, Use.LOST)
            self.move(until, gpus, Use.LOST, Use.PRODUCTIVE)

    def steps(self) -> list[Step]:
        """From 0 on; no two of them begin at the same moment."""
        found: list[Step] = [(0.0, 0, 0, 0, 0)]
        amounts = [0] * len(Use)
        for at, use, gpus in sorted(self._changes, key=itemgetter(0)):
            amounts[use] += gpus
            if found[-1][0] == at:
                found.pop()
            productive, starting, held, lost = amounts
            found.append((at, productive, starting, held, lost))
        return found
