"""The bind requests that a gang has waiting, and which of them ends first."""

from __future__ import annotations

import heapq
from collections.abc import Iterator, Mapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Hold:
    """A bind request that waits for the rest of the gang."""

    call: int
    node: str
    arrived: float
    expires: float


class Holds(Mapping[str, Hold]):
    """Pod UID -> its request, in the order of arrival."""

    def __init__(self) -> None:
        self._holds: dict[str, Hold] = {}
        self._ends: list[tuple[float, int, str]] = []
        """A heap of (expires, call, UID); whoever has left is dropped when it comes up."""

    def __getitem__(self, uid: str) -> Hold:
        return self._holds[uid]

    def __iter__(self) -> Iterator[str]:
        return iter(self._holds)

    def __len__(self) -> int:
        return len(self._holds)

    def __contains__(self, uid: object) -> bool:
        return uid in self._holds

    def put(self, uid: str, hold: Hold) -> None:
        self._holds.pop(uid, None)
        self._holds[uid] = hold
        if len(self._ends) > 2 * len(self._holds) + 64:
            self._ends = [(one.expires, one.call, whose) for whose, one in self._holds.items()]
            heapq.heapify(self._ends)
        else:
            heapq.heappush(self._ends, (hold.expires, hold.call, uid))

    def pop(self, uid: str) -> Hold | None:
        hold = self._holds.pop(uid, None)
        if not self._holds:
            self._ends.clear()
        return hold

    def first_to_expire(self) -> float:
        """The instant at which the first of them ends. There must be one."""
        while (held := self._holds.get(self._ends[0][2])) is None or held.call != self._ends[0][1]:
            heapq.heappop(self._ends)
        return self._ends[0][0]

    def first_arrived(self) -> float:
        """The instant at which the first of them came: they are kept in that order. There must be one."""
        return next(iter(self._holds.values())).arrived
