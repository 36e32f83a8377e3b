"""The additions of the API server to created pods, in seeds with such additions: the shape of a podset tells them."""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple

from policies.model import Pod, PodSet, Toleration

POOL = "pool"
"""A label of some nodes."""
TOLERATION = Toleration("dedicated", "Equal", "gang", "NoSchedule")


class Added(NamedTuple):
    """The additions to a pod.

    ``cpu``: millicores of a sidecar.
    ``tolerates``: whether the pod gets a toleration for the taint of some nodes.
    ``pool``: the value of the label to which the pod is restricted.
    """

    cpu: int = 0
    tolerates: bool = False
    pool: str = ""

    def shape(self, uid: str) -> str:
        """The shape of the podsets of that job."""
        return f"{self.cpu}/{int(self.tolerates)}/{self.pool}/{uid}"


def _added_to(podset: PodSet) -> Added:
    if not podset.shape:
        return Added()
    cpu, tolerates, pool, _ = podset.shape.split("/", 3)
    return Added(int(cpu), tolerates == "1", pool)


def as_created(podset: PodSet, pod: Pod) -> Pod:
    """The pod with the additions of the API server."""
    added = _added_to(podset)
    if added == Added():
        return pod
    amounts, selection = dict(pod.requests), pod.selection
    amounts["cpu"] = amounts.get("cpu", 0) + added.cpu
    tolerations = selection.tolerations
    if added.tolerates and TOLERATION not in tolerations:
        tolerations = (*tolerations, TOLERATION)
    selector = dict(selection.node_selector) | ({POOL: added.pool} if added.pool else {})
    selection = replace(selection, tolerations=tolerations, node_selector=tuple(sorted(selector.items())))
    requests = tuple(sorted((name, much) for name, much in amounts.items() if much))
    return replace(pod, requests=requests, selection=selection)


def real(podset: PodSet) -> PodSet:
    """The podset as its pods will be. It loses its shape, since its pods differ no more from their template."""
    return replace(podset, template=as_created(podset, podset.template), shape="")
