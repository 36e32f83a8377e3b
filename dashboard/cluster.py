"""The latest picture of the cluster, kept up to date by the updates of the extender. It holds whatever Muster knows.

Nothing of it goes to a browser but through ``dashboard.views``, which leaves out what a person may not see.
"""

from __future__ import annotations

import asyncio
import math
import time
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Iterable

from pydantic import BaseModel

from extender.api.feed import Happening, NodeView, Update
from extender.api.models import (
    DeviceStock,
    DomainStock,
    Explanation,
    GangView,
    QueueView,
    TopologyView,
    UtilisationView,
)

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
        return [interval for interval in self._bins.values() if interval.at > now - DAY_S - BIN_S]

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
    """The picture that the extender has sent, with the mentions in all texts still marked.

    ``gangs``, ``gang_loads``: by namespace and name; the loads say how busy GPUs are.
    ``as_of``: when the extender made the last update, in seconds since 1970; 0 before the first.
    ``views_as_of``: the instant of all views: seconds in them count back from there.
    ``stale_since``: when the extender was lost, None while it is connected.
    ``version`` grows with every change.
    """

    def __init__(self) -> None:
        self.gangs: dict[tuple[str, str], GangView] = {}
        self.nodes: dict[str, NodeView] = {}
        self.gang_loads: dict[tuple[str, str], UtilisationView | None] = {}
        self.node_loads: dict[str, UtilisationView | None] = {}
        self.queues: list[QueueView] = []
        self.topology = TopologyView(configured=False, levels=[])
        self.history = History()
        self._domains: list[DomainStock] | None = None
        self._namespaces: list[str] | None = None
        self.version = 0
        self.as_of = 0.0
        self.views_as_of = 0.0
        self.stale_since: float | None = time.time()
        self.explain: Explain = _nobody
        """Raises UnansweredError."""
        self._heard_at = time.monotonic()
        self._changed = asyncio.Condition()

    @property
    def ready(self) -> bool:
        """Whether anything is known."""
        return self.as_of > 0

    @property
    def domains(self) -> list[DomainStock]:
        """All domains, the nearest level first, by name; nodes in no domain of a level are one entry without a name."""
        if self._domains is None:
            self._domains = domains_of(self.topology, self.nodes.values())
        return self._domains

    def now(self) -> float:
        """Return the present by the extender's clock, in seconds since 1970."""
        return self.as_of + time.monotonic() - self._heard_at if self.ready else time.time()

    def namespaces(self) -> list[str]:
        """Return the namespaces of all workloads and LocalQueues, by name."""
        if self._namespaces is None:
            names = {namespace for namespace, _ in self.gangs}
            names |= {queue.namespace for queue in self.queues}
            names |= {workload.namespace for node in self.nodes.values() for workload in node.workloads}
            self._namespaces = sorted(names - {""})
        return self._namespaces

    async def take(self, update: Update) -> None:
        """Take over the changes, and wake all tasks that wait for changes."""
        if update.whole:
            self.gangs, self.nodes, self.gang_loads, self.node_loads = {}, {}, {}, {}
        self.gangs |= {(gang.namespace, gang.name): gang for gang in update.gangs}
        self.gang_loads |= {(load.namespace, load.name): load.utilisation for load in update.gang_loads}
        self.node_loads |= {load.name: load.utilisation for load in update.node_loads}
        for gone in update.gone_gangs:
            self.gangs.pop(gone, None)
            self.gang_loads.pop(gone, None)
        self.nodes |= {node.name: node for node in update.nodes}
        for name in update.gone_nodes:
            self.nodes.pop(name, None)
            self.node_loads.pop(name, None)
        if update.queues is not None:
            self.queues = update.queues
        if update.topology is not None:
            self.topology = update.topology
        if update.whole or update.nodes or update.gone_nodes or update.topology is not None:
            self._domains = None
        self._namespaces = None
        for happening in update.happenings:
            self.history.note(happening)
        self.as_of, self.views_as_of, self._heard_at = update.as_of, update.views_as_of, time.monotonic()
        self.stale_since = None
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


def domains_of(topology: TopologyView, nodes: Iterable[NodeView]) -> list[DomainStock]:
    """Add the nodes up by domain, as the extender's API does."""
    inside = {(level.name, domain.name): domain.inside for level in topology.levels for domain in level.domains}
    sums: dict[tuple[str, str], DomainStock] = {
        (level.name, name): DomainStock(
            level=level.name, name=name, inside=inside.get((level.name, name)),
            nodes=0, open=0, whole=0, gpus=0, free_gpus=0, gangs=[],
        )
        for level in topology.levels
        for name in (*(domain.name for domain in level.domains), "")
    }  # fmt: skip
    gangs: dict[tuple[str, str], dict[str, None]] = {}
    devices: dict[tuple[str, str], dict[str, DeviceStock]] = {}
    for node in nodes:
        here = [
            f"{workload.namespace}/{workload.name}"
            for workload in node.workloads
            if not workload.name.startswith("pod ")
        ]
        for level in topology.levels:
            key = level.name, node.domains.get(level.name, "")
            if (its := sums.get(key)) is None:
                continue
            its.nodes += 1
            its.gpus += node.gpus
            if node.open:
                its.open += 1
                its.free_gpus += node.free
                its.whole += 0 < node.gpus == node.free
            gangs.setdefault(key, {}).update(dict.fromkeys(here))
            for stock in node.devices:
                _add(stock, devices.setdefault(key, {}))
    for key, names in gangs.items():
        sums[key].gangs = sorted(names)
    for key, stocks in devices.items():
        sums[key].devices = [stock for _, stock in sorted(stocks.items())]
    return [domain for domain in sums.values() if domain.nodes]


def _add(stock: DeviceStock, stocks: dict[str, DeviceStock]) -> None:
    """Add the devices of a node to those of its domain, by name."""
    if (total := stocks.get(stock.name)) is None:
        stocks[stock.name] = stock.model_copy()
        return
    total.devices += stock.devices
    total.free += stock.free
    total.promised += stock.promised
    total.used += stock.used


async def _nobody(_namespace: str, _name: str) -> Explanation | None:
    raise UnansweredError("the extender is not connected")
