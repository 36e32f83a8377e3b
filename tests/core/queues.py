"""Queue objects for scripts of the core."""

from __future__ import annotations

from dataclasses import replace

from extender.core.events import NamespaceSeen, QueueSeen
from policies.model.queues import ClusterQueue, LocalQueue, QueueObject, Quota, ResourceFlavor, ResourceGroup
from tests.builders import GPU
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
