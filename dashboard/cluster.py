"""The latest picture of the cluster, kept up to date by the updates of the extender. It holds whatever Muster knows.

Nothing of it goes to a browser but through ``dashboard.views``, which leaves out what a person may not see.
"""

from __future__ import annotations

import asyncio
import math
import time
from collections import OrderedDict
from collections.abc import Awaitable, Callable

from pydantic import BaseModel

from extender.api.feed import Happening, NodeView, Update
from extender.api.models import DomainStock, Explanation, GangView, QueueView, TopologyView

BIN_S = 300.0
DAY_S = 86_400.0
Explain = Callable[[str, str], Awaitable[Explanation | None]]
"""Asks the extender to explain a gang, by namespace and name; None: it knows no such gang."""


class UnansweredError(Exception):
    """The extender cannot be asked now; the message says why."""


class Bin(BaseModel):
    """Five minutes of the last day."""

    at: float
    """When it begins, in seconds since 1970."""
    starts: int = 0
    evictions: int = 0
    waited_s: float = 0.0
    """How long the workloads that started in it had waited, added up."""
    longest_wait_s: float = 0.0
    waiting: int = 0
    """Workloads that waited at its end, or wait now."""
    gpus: int = 0
    gpus_used: int = 0
    """GPUs of bound pods at its end, or now."""


class History:
    """The last day in bins of five minutes, oldest first. A bin in which nothing was heard is missing."""

    def __init__(self) -> None:
        self._bins: OrderedDict[float, Bin] = OrderedDict()

    def bins(self, now: float) -> list[Bin]:
        """Return the bins that are not older than a day."""
        return [one for one in self._bins.values() if one.at > now - DAY_S - BIN_S]

    def note(self, happening: Happening) -> None:
        """Count a start or an eviction in the bin of its time."""
        its = self._bin(happening.at)
        if happening.kind == "start":
            its.starts += 1
            its.waited_s += happening.waited_s
            its.longest_wait_s = max(its.longest_wait_s, happening.waited_s)
        else:
            its.evictions += 1

    def sample(self, now: float, *, waiting: int, gpus: int, gpus_used: int) -> None:
        """Record how the cluster stands in the present bin."""
        its = self._bin(now)
        its.waiting, its.gpus, its.gpus_used = waiting, gpus, gpus_used

    def _bin(self, at: float) -> Bin:
        begins = math.floor(at / BIN_S) * BIN_S
        if begins not in self._bins:
            self._bins[begins] = Bin(at=begins)
            self._bins = OrderedDict(sorted(self._bins.items())[-int(DAY_S / BIN_S) - 1 :])
        return self._bins.get(begins) or Bin(at=begins)


class Cluster:
    """``gangs`` by namespace and name, with texts whose mentions are marked. ``as_of``: when the extender made the last
    update, in seconds since 1970; 0 before the first. ``stale_since``: when the extender was lost, None while it is
    connected. ``version`` grows with every change."""

    def __init__(self) -> None:
        self.gangs: dict[tuple[str, str], GangView] = {}
        self.gang_as_of: dict[tuple[str, str], float] = {}
        """When each view was made: its seconds count back from there."""
        self.nodes: dict[str, NodeView] = {}
        self.queues: list[QueueView] = []
        self.queues_as_of = 0.0
        self.domains: list[DomainStock] = []
        self.topology = TopologyView(configured=False, levels=[])
        self.history = History()
        self.version = 0
        self.as_of = 0.0
        self.stale_since: float | None = time.time()
        self.explain: Explain = _nobody
        """Raises UnansweredError."""
        self._changed = asyncio.Condition()

    @property
    def ready(self) -> bool:
        """Whether anything is known."""
        return self.as_of > 0

    def namespaces(self) -> list[str]:
        """Return the namespaces of all workloads and LocalQueues, by name."""
        found = {namespace for namespace, _ in self.gangs}
        found |= {queue.namespace for queue in self.queues}
        found |= {one.namespace for node in self.nodes.values() for one in node.workloads}
        return sorted(found - {""})

    async def take(self, update: Update) -> None:
        """Take over what has changed, and wake whoever waits for changes."""
        if update.whole:
            self.gangs, self.gang_as_of, self.nodes = {}, {}, {}
        for gang in update.gangs:
            key = gang.namespace, gang.name
            self.gangs[key], self.gang_as_of[key] = gang, update.as_of
        for gone in update.gone_gangs:
            self.gangs.pop(gone, None)
            self.gang_as_of.pop(gone, None)
        self.nodes |= {node.name: node for node in update.nodes}
        for name in update.gone_nodes:
            self.nodes.pop(name, None)
        if update.queues is not None:
            self.queues, self.queues_as_of = update.queues, update.as_of
        if update.domains is not None:
            self.domains = update.domains
        if update.topology is not None:
            self.topology = update.topology
        for happening in update.happenings:
            self.history.note(happening)
        self.as_of = update.as_of
        self._sample()
        await self.wake()

    async def wake(self) -> None:
        """Begin a new version."""
        self.version += 1
        async with self._changed:
            self._changed.notify_all()

    async def lose(self) -> None:
        """Note that the extender is not connected any more: what is known stays, and gets old."""
        if self.stale_since is None:
            self.stale_since = time.time()
            await self.wake()

    async def changes(self, seen: int) -> int:
        """Wait until there is a newer version than the one that was seen. Returns it."""
        async with self._changed:
            await self._changed.wait_for(lambda: self.version > seen)
        return self.version

    def _sample(self) -> None:
        waiting = sum(gang.status == "PENDING" for gang in self.gangs.values())
        gpus = sum(node.gpus for node in self.nodes.values())
        used = sum(node.used for node in self.nodes.values())
        self.history.sample(self.as_of, waiting=waiting, gpus=gpus, gpus_used=used)


async def _nobody(_namespace: str, _name: str) -> Explanation | None:
    raise UnansweredError("the extender is not connected")
