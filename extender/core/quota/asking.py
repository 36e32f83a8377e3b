"""What a workload asks for that has quota of an elastic flavor and no nodes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass

from extender.core.gang.letting_go import awaiting, shown
from extender.core.gang.shape import Demand, Shape
from extender.core.quota.flavoring import Flavoring, PartKey
from extender.core.reasons import Reason
from policies.model import Controller, GroupKey, Pod, Requests, Toleration
from policies.words import many


@dataclass(frozen=True, slots=True)
class AskedPods:
    """Pods of one podset: what they select and tolerate, by their flavor and by what the API server adds to them.
    ``requests``: what each asks for, also where its template says less."""

    podset: str
    count: int
    labels: tuple[tuple[str, str], ...]
    tolerations: tuple[Toleration, ...]
    requests: Requests = ()


@dataclass(frozen=True, slots=True)
class CapacityAsk:
    """Nodes for all of these pods of a job together. ``attempt`` counts from 1."""

    key: GroupKey
    job: Controller
    pods: tuple[AskedPods, ...]
    attempt: int


@dataclass(frozen=True, slots=True)
class Asking:
    """``attempt`` counts from 1. ``until``: by then the nodes have to be there; 0 for a job that is being let go, which
    says so itself. ``ask``: what is asked for, of a job. ``granted``: they are being made, or are there. ``shown``: the
    pods (by UID) of a gang that were let go."""

    attempt: int
    pods: tuple[Pod, ...]
    shape: Shape
    queue: str
    flavors: tuple[str, ...]
    until: float
    ask: CapacityAsk | None
    granted: bool = False
    shown: frozenset[str] = frozenset()

    @property
    def reason(self) -> Reason:
        pods = many(len(self.pods), "pod")
        text = shown(self.pods) if self.ask is None else f"a ProvisioningRequest asks for nodes for {pods}"
        if self.granted:
            text = "those that it asked for are granted, and yet to be seen"
        return awaiting(self.queue, self.flavors, text)


def asked_pods(demand: Demand, made: Mapping[PartKey, Flavoring]) -> tuple[AskedPods, ...]:
    """Of a job: its podsets."""
    found = []
    pods = {pod.series: pod for pod in demand.pods}
    for name, count in sorted(Counter(pod.series for pod in demand.pods).items()):
        one, selection = made.get(name), pods[name].selection
        labels = dict(selection.node_selector) | dict(one.labels if one else ())
        tolerations = dict.fromkeys((*selection.tolerations, *(one.tolerations if one else ())))
        found.append(AskedPods(name, count, tuple(labels.items()), tuple(tolerations), pods[name].requests))
    return tuple(found)
