"""Queue objects for scripts of the core."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from extender.core.events import NamespaceSeen, QueueSeen
from extender.core.reasons import Reason
from policies.model import Pod
from policies.model.mentions import full
from policies.model.queues import ClusterQueue, LocalQueue, QueueObject, Quota, ResourceFlavor, ResourceGroup
from tests.builders import GPU, gang, key
from tests.core.script import Script

FLAVOR = "nvidia.com/flavor"
"""The label by which the nodes of flavors differ here."""


def flavor(name: str, **labels: str) -> ResourceFlavor:
    return ResourceFlavor(name, labels)


def sort(name: str) -> ResourceFlavor:
    """A flavor whose nodes have the label FLAVOR with its name."""
    return ResourceFlavor(name, {FLAVOR: name})


def cluster_queue(name: str, quotas: dict[str, int | Quota], **facts: object) -> ClusterQueue:
    """``quotas``: of GPUs, by flavor, in order of preference. Cpu is covered and has no limit."""
    some = {one: quota if isinstance(quota, Quota) else Quota(quota) for one, quota in quotas.items()}
    group = ResourceGroup((GPU, "cpu"), tuple((one, {GPU: quota}) for one, quota in some.items()))
    return replace(ClusterQueue(name, (group,), namespaces=()), **facts)  # type: ignore[arg-type]


def show(script: Script, *things: QueueObject) -> None:
    """The watch shows these; a LocalQueue of the name of each ClusterQueue leads to it from the default namespace."""
    script.feed(NamespaceSeen("default", (("kubernetes.io/metadata.name", "default"),)))
    for thing in things:
        script.feed(QueueSeen(thing))
        if isinstance(thing, ClusterQueue):
            script.feed(QueueSeen(LocalQueue("default", thing.name, thing.name)))


def used(script: Script, queue: str, name: str = "gpus") -> int:
    """How many GPUs of that flavor the workloads of the ClusterQueue use."""
    node = script.core.state.quotas.node_of(queue)
    assert node is not None, f"there is no ClusterQueue {queue}"
    return node.used[name, GPU]


def in_queue(name: str, size: int, queue: str = "team", **facts: Any) -> list[Pod]:
    """A gang whose members name that queue."""
    return [replace(pod, queue=queue) for pod in gang(name, size, **facts)]


def come(script: Script, pods: list[Pod]) -> None:
    """They are seen, and all that follows at once."""
    script.see(*pods)
    script.advance(0.5)


def reason(script: Script, name: str) -> Reason:
    """Why it is where it is, as an operator reads it."""
    found = script.core.state.workloads[key(name)].telling.reason
    return found._replace(message=full(found.message))


def planned(script: Script, name: str) -> int:
    """How many of its members have a node."""
    return len(script.core.state.workloads[key(name)].placement)


def leave(script: Script, pods: list[Pod]) -> None:
    """They are gone, and all that follows at once."""
    for pod in pods:
        script.gone(script.pods[pod.uid])
    script.advance(0.5)
