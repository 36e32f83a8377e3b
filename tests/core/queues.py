"""Queue objects for scripts of the core, and queues that lend each other quota, with jobs that use it."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from extender.core.events import NamespaceSeen, QueueSeen
from extender.core.explain.reasons import Reason, reason_of
from extender.core.limits import Limits
from policies.model import Job, Node, Pod
from policies.model.mentions import full
from policies.model.queues import (
    ClusterQueue,
    Evicts,
    LocalQueue,
    Preemption,
    QueueObject,
    Quota,
    ResourceFlavor,
    ResourceGroup,
)
from tests.builders import GPU, cluster, gang, key
from tests.core.preempting import ON, Cluster
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
    by_flavor = {name: quota if isinstance(quota, Quota) else Quota(quota) for name, quota in quotas.items()}
    group = ResourceGroup((GPU, "cpu"), tuple((name, {GPU: quota}) for name, quota in by_flavor.items()))
    return replace(ClusterQueue(name, (group,), namespaces=()), **facts)  # type: ignore[arg-type]


def show(script: Script, *things: QueueObject) -> None:
    """Show these objects. For each ClusterQueue a LocalQueue of its name leads to it from the default namespace."""
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
    """Show the pods, and let the core do all that follows at once."""
    script.see(*pods)
    script.advance(0.5)


def reason(script: Script, name: str) -> Reason:
    """Why it is where it is, as an operator reads it."""
    cause_told = reason_of(script.core.state.workloads[key(name)].reason_state.cause)
    return cause_told._replace(message=full(cause_told.message))


def planned(script: Script, name: str) -> int:
    """How many of its members have a node."""
    return len(script.core.state.workloads[key(name)].placement)


def leave(script: Script, pods: list[Pod]) -> None:
    """Remove the pods, and let the core do all that follows at once."""
    for pod in pods:
        script.gone(script.pods[pod.uid])
    script.advance(0.5)


RECLAIMS = Preemption(reclaim=Evicts.ANY)


class Queued(Cluster):
    """``things``: the queue objects, which are there before anything is decided."""

    def __init__(self, *facts: Node | Pod, things: tuple[QueueObject, ...], limits: Limits = ON) -> None:
        self._things = things
        super().__init__(*facts, limits=limits)

    def feed_synced(self) -> None:
        show(self, *self._things)
        super().feed_synced()

    def start(self, name: str, size: int, queue: str, gpus: int = 8, priority: int = 0) -> list[Pod]:
        """A gang that is bound."""
        pods = in_queue(name, size, queue, gpus=gpus, priority=priority)
        self.see(pods)
        self.advance(0.5)
        self.run(pods)
        assert len(self.bound(pods)) == size
        return pods

    def come(self, name: str, size: int, queue: str, gpus: int = 8, priority: int = 0) -> list[Pod]:
        pods = in_queue(name, size, queue, gpus=gpus, priority=priority)
        self.see(pods)
        self.advance(0.5)
        return pods


def lent(research: int = 8, production: int = 16, rules: Preemption = RECLAIMS) -> tuple[QueueObject, ...]:
    """Two queues that lend each other; ``rules``: those of production."""
    return (
        flavor("gpus"),
        cluster_queue("research", {"gpus": research}, cohort="all"),
        cluster_queue("production", {"gpus": production}, cohort="all", preemption=rules),
    )


def made_at(seen: Job, created: float) -> Job:
    podsets = tuple(
        replace(podset, template=replace(podset.template, created=created)) for podset in seen.podsets.podsets
    )
    return replace(seen, queue="team", podsets=replace(seen.podsets, podsets=podsets))


FAIR = replace(ON, fair_sharing=True)


def borrowers(limits: Limits) -> Queued:
    """A queue with 16 that uses 40, and one with 8 that uses 16; both borrow from a third one, which has 32."""
    rules = Preemption(reclaim=Evicts.ANY)
    has = {"one": 16, "two": 8, "lender": 32}
    there = (cluster_queue(name, {"gpus": much}, cohort="all", preemption=rules) for name, much in has.items())
    script = Queued(*cluster("a: 7x8"), things=(flavor("gpus"), *there), limits=limits)
    for name, count in (("one", 5), ("two", 2)):
        for number in range(count):
            script.start(f"{name}-{number}", 1, name)
    script.advance(5)
    return script
