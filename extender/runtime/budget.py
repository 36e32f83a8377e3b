"""Which write to the API server is next: a bounded number at once, shared fairly between gangs."""

from __future__ import annotations

from collections import deque
from collections.abc import Hashable
from enum import IntEnum

_QUANTUM = 32


class Lane(IntEnum):
    """Strict priorities: a Binding has a deadline, and what was begun should end.

    The last Binding of a release goes before all others: it is asked for when they are in, and until then its gang is
    bound in part. A report that asks nobody to act waits until there is nothing else to do.
    """

    LAST_BINDING = 0
    BINDING = 1
    UNGATE = 2
    OTHER = 3
    REPORT = 4


class Budget:
    """At most ``at_once`` turns are taken at the same time; the next free one goes to the first lane that waits.

    Inside a lane, gangs are served in the order of their arrival, up to 32 writes each before the next has its go
    (deficit round robin): small gangs are carried out whole, one after the other, and a large one delays nobody long.
    """

    def __init__(self, at_once: int) -> None:
        self._free = at_once
        self._lanes = tuple(_Waiting() for _ in Lane)

    def take(self, lane: Lane, gang: Hashable, ticket: int) -> bool:
        """Whether there is a turn at once. Else the ticket waits in line, and ``give_back`` returns it in its turn."""
        if self._free > 0:
            self._free -= 1
            return True
        self._lanes[lane].add(gang, ticket)
        return False

    def give_back(self) -> int | None:
        """A turn has ended. Returns the ticket that has it now, or None while nobody waits."""
        for lane in self._lanes:
            if (ticket := lane.next()) is not None:
                return ticket
        self._free += 1
        return None


class _Waiting:
    """The tickets of one lane, gang by gang."""

    def __init__(self) -> None:
        self._gangs: dict[Hashable, deque[int]] = {}
        self._left = _QUANTUM

    def add(self, gang: Hashable, ticket: int) -> None:
        self._gangs.setdefault(gang, deque()).append(ticket)

    def next(self) -> int | None:
        if not self._gangs:
            return None
        gang = next(iter(self._gangs))
        tickets = self._gangs[gang]
        ticket = tickets.popleft()
        self._left -= 1
        if not tickets or self._left == 0:
            del self._gangs[gang]
            self._left = _QUANTUM
            if tickets:
                self._gangs[gang] = tickets
        return ticket
