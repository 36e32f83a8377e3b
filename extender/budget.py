"""Who may write to the API server next: a bounded number of writes at once, shared fairly between gangs."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Hashable
from contextlib import asynccontextmanager
from enum import IntEnum

_QUANTUM = 32


class Lane(IntEnum):
    """What goes first, always: whoever waits for a Binding has a deadline, and what was begun should end.

    The last Binding of a release goes before all others: it is asked for when they are in, and until then its gang is
    bound in part. What is only told, and asks nobody to act, waits until there is nothing to do.
    """

    LAST_BINDING = 0
    BINDING = 1
    UNGATE = 2
    OTHER = 3
    NEWS = 4


class Budget:
    """At most ``at_once`` turns are taken at the same time; the next free one goes to the first lane that waits.

    Inside a lane, gangs are served in the order of their arrival, up to 32 writes each before the next has its go
    (deficit round robin): small gangs are carried out whole, one after the other, and a large one delays nobody long.
    """

    def __init__(self, at_once: int) -> None:
        self._free = at_once
        self._lanes = tuple(_Waiting() for _ in Lane)

    @asynccontextmanager
    async def turn(self, lane: Lane, gang: Hashable) -> AsyncIterator[None]:
        """Wait for a turn, and hold it for the body of the ``async with``."""
        if self._free > 0:
            self._free -= 1
        else:
            ticket = asyncio.get_running_loop().create_future()
            self._lanes[lane].add(gang, ticket)
            try:
                await ticket
            except asyncio.CancelledError:
                if ticket.done() and not ticket.cancelled():
                    self._pass_on()
                raise
        try:
            yield
        finally:
            self._pass_on()

    def _pass_on(self) -> None:
        for lane in self._lanes:
            while (ticket := lane.next()) is not None:
                if not ticket.done():
                    ticket.set_result(None)
                    return
        self._free += 1


class _Waiting:
    """The tickets of one lane, gang by gang."""

    def __init__(self) -> None:
        self._gangs: dict[Hashable, deque[asyncio.Future[None]]] = {}
        self._left = _QUANTUM

    def add(self, gang: Hashable, ticket: asyncio.Future[None]) -> None:
        self._gangs.setdefault(gang, deque()).append(ticket)

    def next(self) -> asyncio.Future[None] | None:
        gang = next(iter(self._gangs), None)
        if gang is None:
            return None
        tickets = self._gangs[gang]
        ticket = tickets.popleft()
        self._left -= 1
        if not tickets or self._left == 0:
            del self._gangs[gang]
            self._left = _QUANTUM
            if tickets:
                self._gangs[gang] = tickets
        return ticket
