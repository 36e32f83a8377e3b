"""Queues that lend each other quota, and jobs that use it."""

from __future__ import annotations

from dataclasses import replace

from extender.core.limits import Limits
from policies.model import Job, Node, Pod
from policies.model.queues import Evicts, Preemption, QueueObject
from tests.builders import cluster
from tests.core.preempting import ON, Cluster
from tests.core.queues import cluster_queue, flavor, in_queue, show

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


def made_at(one: Job, created: float) -> Job:
    podsets = tuple(replace(some, template=replace(some.template, created=created)) for some in one.podsets.podsets)
    return replace(one, queue="team", podsets=replace(one.podsets, podsets=podsets))


FAIR = replace(ON, fair_sharing=True)


def borrowers(limits: Limits) -> Queued:
    """One queue has 16 and uses 40, another one has 8 and uses 16; both borrow from a third one, which has 32."""
    rules = Preemption(reclaim=Evicts.ANY)
    has = {"one": 16, "two": 8, "lender": 32}
    there = (cluster_queue(name, {"gpus": much}, cohort="all", preemption=rules) for name, much in has.items())
    script = Queued(*cluster("a: 7x8"), things=(flavor("gpus"), *there), limits=limits)
    for name, count in (("one", 5), ("two", 2)):
        for number in range(count):
            script.start(f"{name}-{number}", 1, name)
    script.advance(5)
    return script
