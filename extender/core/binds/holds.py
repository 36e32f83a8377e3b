"""The bind requests that a gang has waiting, and which of them ends first."""

from __future__ import annotations

import heapq
from typing import NamedTuple


class Hold(NamedTuple):
    """A bind request that waits for the rest of the gang."""

    call: int
    node: str
    arrived: float
    expires: float


class Holds(dict[str, Hold]):
    """Pod UID -> its request, in the order of arrival."""

    def __init__(self) -> None:
        self._ends: list[tuple[float, int, str]] = []
        """A heap of (expires, call, UID); whoever has left is dropped when it comes up."""
        self._told_at = 0.0

    def put(self, uid: str, hold: Hold) -> None:
        self.pop(uid, None)
        self[uid] = hold
        if len(self._ends) > 2 * len(self) + 64:
            self._ends = [(one.expires, one.call, whose) for whose, one in self.items()]
            heapq.heapify(self._ends)
        else:
            heapq.heappush(self._ends, (hold.expires, hold.call, uid))

    def take(self, uid: str) -> None:
        """It waits no longer, if it did."""
        self.pop(uid, None)
        if not self:
            self._ends.clear()
            self._told_at = 0.0

    def wait_from(self, now: float) -> None:
        """They have as long as before to wait for those of whom kube-scheduler is told only now."""
        self._told_at = now

    def first_to_expire(self) -> float:
        """The instant at which the first of them ends. There must be one."""
        while (held := self.get(self._ends[0][2])) is None or held.call != self._ends[0][1]:
            heapq.heappop(self._ends)
        return self._ends[0][0]

    def first_arrived(self) -> float:
        """The instant at which the first of them came: they are kept in that order. There must be one."""
        return next(iter(self.values())).arrived

    def began(self) -> float:
        """The instant from which they wait for who is to come next. There must be one."""
        return max(self._told_at, self.first_arrived())
