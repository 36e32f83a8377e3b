"""Order the writes to the API server: a bounded number at once, shared fairly between gangs."""

from __future__ import annotations

from collections import deque
from collections.abc import Hashable
from enum import IntEnum

_QUANTUM = 32


class Lane(IntEnum):
    """Strict priorities: a Binding has a deadline, and started work comes before new work.

    The last Binding of a release goes before all others: it is asked for once they are in, and until then its gang is
    partly bound. A report that needs no action waits until there is nothing else to write.
    """

    LAST_BINDING = 0
    BINDING = 1
    UNGATE = 2
    OTHER = 3
    REPORT = 4


class Budget:
    """Limits the writes under way to ``at_once``. A free turn goes to the first lane with a waiting write.

    Inside a lane, gangs are served in the order of their arrival, with up to 32 writes each (deficit round robin). So
    small gangs are written whole, one after the other, and a large one does not delay them long.
    """

    def __init__(self, at_once: int) -> None:
        self._free = at_once
        self._lanes = tuple(_Waiting() for _ in Lane)

    def take(self, lane: Lane, gang: Hashable, ticket: int) -> bool:
        """Whether a turn is free now. Else the ticket waits, and ``give_back`` returns it later."""
        if self._free > 0:
            self._free -= 1
            return True
        self._lanes[lane].add(gang, ticket)
        return False

    def give_back(self) -> int | None:
        """End a turn. Returns the ticket that has the turn now; None if no write waits."""
        for lane in self._lanes:
            if (ticket := lane.next()) is not None:
                return ticket
        self._free += 1
        return None


class _Waiting:
    """The waiting tickets of a lane, gang by gang."""

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
