"""What one person may see of the cluster: workloads of the person's namespaces whole, of others counts and shares."""

from __future__ import annotations

import time
from collections import Counter
from dataclasses import dataclass, field

from dashboard.access import Person
from dashboard.cluster import Bin, Cluster
from extender.api.feed import NodeView
from extender.api.models import DomainStock, Explanation, GangView, QueueView, TopologyView


@dataclass(slots=True)
class Totals:
    """Counts over the whole cluster, which everybody may see. ``waiting``: workloads by reason code."""

    gpus: int = 0
    used: int = 0
    promised: int = 0
    reserved: int = 0
    free: int = 0
    nodes: int = 0
    closed_nodes: int = 0
    workloads: int = 0
    statuses: Counter[str] = field(default_factory=Counter)
    waiting: Counter[str] = field(default_factory=Counter)


class Seen:
    """The cluster as that person may see it now. Seconds count back from ``now`` (seconds since 1970)."""

    def __init__(self, cluster: Cluster, person: Person, now: float | None = None) -> None:
        self.person = person
        self.now = time.time() if now is None else now
        self._cluster = cluster

    @property
    def as_of(self) -> float:
        """When the extender made the last update; 0: it has made none yet."""
        return self._cluster.as_of

    @property
    def stale_since(self) -> float | None:
        """Since when the extender is not connected; None while it is."""
        return self._cluster.stale_since

    def gangs(self) -> list[GangView]:
        """Return the workloads that the person sees, by namespace and name."""
        return [gang for (namespace, _), gang in sorted(self._cluster.gangs.items()) if self.person.sees(namespace)]

    def gang(self, namespace: str, name: str) -> GangView | None:
        """Return one workload; None where there is none, and where the person may not see it."""
        return self._cluster.gangs.get((namespace, name)) if self.person.sees(namespace) else None

    def queues(self) -> list[QueueView]:
        """Return Cohorts, ClusterQueues, then the person's LocalQueues. Of those who wait: the person's own."""
        return self._cluster.queues

    def domains(self) -> list[DomainStock]:
        """Return all domains, with the gangs there that the person sees."""
        return self._cluster.domains

    def topology(self) -> TopologyView:
        """Return the levels in force."""
        return self._cluster.topology

    def nodes(self) -> list[NodeView]:
        """Return all nodes, by name, with the workloads there that the person sees. Others count in the numbers."""
        return [node for _, node in sorted(self._cluster.nodes.items())]

    def history(self) -> list[Bin]:
        """Return the last day, oldest first."""
        return self._cluster.history.bins(self.now)

    def totals(self) -> Totals:
        """Return the counts of the whole cluster."""
        return Totals()

    async def explain(self, namespace: str, name: str) -> Explanation | None:
        """Return what the extender says of a workload; None where ``gang`` is. Raises UnansweredError."""
        if self.gang(namespace, name) is None:
            return None
        return await self._cluster.explain(namespace, name)
