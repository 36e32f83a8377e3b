"""The part of the cluster that one person may see: workloads of own namespaces whole, of others counts and shares.

Texts say which parts of them are names of workloads (``policies.model.mentions``); those of namespaces that the person
does not see become counts. Lists of names lose the names of others, and keep their numbers beside them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import NamedTuple, TypeVar

from pydantic import BaseModel

from dashboard.access import Person
from dashboard.cluster import Bin, Cluster
from extender.api.feed import NodeView
from extender.api.models import (
    DomainStock,
    Explanation,
    GangView,
    QueueView,
    TopologyView,
    UtilisationView,
    WaitingView,
)
from extender.api.texts import with_texts
from policies.model.mentions import discreet

ModelT = TypeVar("ModelT", bound=BaseModel)
PENDING = "PENDING"


@dataclass(slots=True)
class Totals:
    """Counts over the whole cluster, which everybody may see.

    ``idle``: GPUs of gangs that leave them idle, of ``measured`` ones. ``waiting``: workloads by reason code.
    """

    gpus: int = 0
    used: int = 0
    promised: int = 0
    reserved: int = 0
    free: int = 0
    idle: int = 0
    measured: int = 0
    nodes: int = 0
    closed_nodes: int = 0
    workloads: int = 0
    statuses: Counter[str] = field(default_factory=Counter)
    waiting: Counter[str] = field(default_factory=Counter)


class Brief(NamedTuple):
    """A workload without its texts and members, which take long to make of thousands. ``for_s``: as of GangView."""

    namespace: str
    name: str
    status: str
    state: str
    for_s: float
    idle: bool


class Seen:
    """The cluster as that person may see it now. Seconds count back from ``now`` (seconds since 1970)."""

    def __init__(self, cluster: Cluster, person: Person, now: float | None = None) -> None:
        self.person = person
        self.now = cluster.now() if now is None else now
        self._cluster = cluster

    def without_name(self) -> Seen:
        """Return the same sight of the cluster, without the name of the person."""
        return Seen(self._cluster, replace(self.person, name=""), self.now)

    @property
    def as_of(self) -> float:
        """When the extender made the last update; 0: it has made none yet."""
        return self._cluster.as_of

    @property
    def version(self) -> int:
        """Grows with every change of the cluster."""
        return self._cluster.version

    @property
    def stale_since(self) -> float | None:
        """Since when the extender is not connected; None while it is."""
        return self._cluster.stale_since

    def gangs(self) -> list[GangView]:
        """Return the workloads that the person sees, by namespace and name."""
        return [self._gang(gang) for (space, _), gang in sorted(self._cluster.gangs.items()) if self.person.sees(space)]

    def briefs(self) -> list[Brief]:
        """Return what the workloads that the person sees are counted and sorted by, by namespace and name."""
        age_s = self.now - self._cluster.views_as_of
        return [
            Brief(
                gang.namespace, gang.name, gang.status, gang.state, _older(gang.for_s, age_s), self._idle_gpus(key) > 0
            )
            for key, gang in sorted(self._cluster.gangs.items())
            if self.person.sees(key[0])
        ]

    def message(self, namespace: str, name: str) -> str:
        """Return why the workload is where it is; empty where ``gang`` is None."""
        gang = self._cluster.gangs.get((namespace, name))
        return self._text(gang.message, namespace) if gang is not None and self.person.sees(namespace) else ""

    def gang(self, namespace: str, name: str) -> GangView | None:
        """Return one workload; None where there is none, and where the person may not see it."""
        gang = self._cluster.gangs.get((namespace, name))
        return self._gang(gang) if gang is not None and self.person.sees(namespace) else None

    def queues(self) -> list[QueueView]:
        """Return Cohorts, ClusterQueues, then the person's LocalQueues. Others' waiting workloads are left out."""
        return [
            queue.model_copy(
                update={
                    "waiting": [
                        self._waiting(workload) for workload in queue.waiting if self.person.sees(workload.namespace)
                    ],
                    "problems": [self._text(text, queue.namespace) for text in queue.problems],
                    "warnings": [self._text(text, queue.namespace) for text in queue.warnings],
                }
            )
            for queue in self._cluster.queues
            if not queue.namespace or self.person.sees(queue.namespace)
        ]

    def domains(self) -> list[DomainStock]:
        """Return all domains, with the gangs there that the person sees.

        A kind of devices that selectors describe is named in the words of pods, which may be another tenant's.
        """
        return [
            domain.model_copy(
                update={
                    "gangs": [name for name in domain.gangs if self.person.sees(name.partition("/")[0])],
                    "devices": [stock for stock in domain.devices if self.person.sees_all or " " not in stock.name],
                }
            )
            for domain in self._cluster.domains
        ]

    def topology(self) -> TopologyView:
        """Return the levels in force."""
        return self._cluster.topology

    def nodes(self) -> list[NodeView]:
        """Return all nodes, by name, with the workloads there that the person sees. Others count in the numbers."""
        return [self._node(node) for _, node in sorted(self._cluster.nodes.items())]

    def node_loads(self) -> Mapping[str, UtilisationView | None]:
        """Return how busy the GPUs of nodes are, by name; None, or no entry, where that is not known."""
        return self._cluster.node_loads

    def history(self) -> list[Bin]:
        """Return the last day, oldest first."""
        return self._cluster.history.bins(self.now)

    def totals(self) -> Totals:
        """Return the counts of the whole cluster."""
        totals = Totals(nodes=len(self._cluster.nodes), workloads=len(self._cluster.gangs))
        for node in self._cluster.nodes.values():
            totals.gpus += node.gpus
            totals.used += node.used
            totals.promised += node.promised
            totals.reserved += node.reserved
            totals.free += node.free
            totals.closed_nodes += not node.open
        totals.idle = sum(map(self._idle_gpus, self._cluster.gangs))
        totals.measured = sum(load.gpus for load in self._cluster.gang_loads.values() if load is not None)
        totals.statuses = Counter(gang.status for gang in self._cluster.gangs.values())
        totals.waiting = Counter(gang.state for gang in self._cluster.gangs.values() if gang.status == PENDING)
        return totals

    async def explain(self, namespace: str, name: str) -> Explanation | None:
        """Return what the extender says of a workload; None where ``gang`` is. Raises UnansweredError."""
        if self.gang(namespace, name) is None:
            return None
        explanation = await self._cluster.explain(namespace, name)
        if explanation is None:
            return None
        shown = self._rendered(explanation, namespace)
        for domain in shown.compute_domains:
            domain.workloads = [name for name in domain.workloads if self.person.sees(name.partition("/")[0])]
        shown.gang.utilisation = self._cluster.gang_loads.get((namespace, name))
        return shown

    def _node(self, node: NodeView) -> NodeView:
        workloads = [workload for workload in node.workloads if self.person.sees(workload.namespace)]
        return node if len(workloads) == len(node.workloads) else node.model_copy(update={"workloads": workloads})

    def _gang(self, gang: GangView) -> GangView:
        shown = aged(gang, self.now - self._cluster.views_as_of)
        shown.utilisation = self._cluster.gang_loads.get((gang.namespace, gang.name))
        return self._rendered(shown, gang.namespace)

    def _idle_gpus(self, key: tuple[str, str]) -> int:
        load = self._cluster.gang_loads.get(key)
        return 0 if load is None else load.idle_gpus

    def _waiting(self, one: WaitingView) -> WaitingView:
        age_s = self.now - self._cluster.views_as_of
        return self._rendered(one.model_copy(update={"for_s": _older(one.for_s, age_s)}), one.namespace)

    def _rendered(self, model: ModelT, namespace: str) -> ModelT:
        return with_texts(model, lambda text: self._text(text, namespace))

    def _text(self, text: str, namespace: str) -> str:
        return discreet(text, namespace, self.person.sees)


def aged(gang: GangView, age_s: float) -> GangView:
    """Return the view as it is ``age_s`` seconds later, if nothing has happened."""
    return gang.model_copy(
        update={
            "for_s": _older(gang.for_s, age_s),
            "status_for_s": _older(gang.status_for_s, age_s),
            "story": [(_older(ago, age_s), text) for ago, text in gang.story],
            "statuses": [(_older(ago, age_s), status) for ago, status in gang.statuses],
            "waiting_on_nodes": {
                node: round(left - age_s, 1) for node, left in gang.waiting_on_nodes.items() if left > age_s
            },
        }
    )


def _older(ago: float, age_s: float) -> float:
    return max(0.0, round(ago + age_s, 3))
