"""A cluster run by the real core, whose gangs run, start and wait for different reasons: what the pages are shown."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from extender.core.events import NamespaceSeen, QueueSeen
from extender.core.limits import Limits, Preempts
from extender.observe.utilisation import Load, Loads, Measured, Utilisation
from policies.model import CLIQUE, Node, Pod, RunTerms, Topology
from policies.model.levels import LevelKey
from policies.model.queues import Cohort, LocalQueue
from tests.builders import GPU, gang, node
from tests.core.backfilling import Backlog
from tests.core.queues import cluster_queue, flavor

BLOCK = "example.com/block"
_LASTS_S = 6_545.0
"""About how long the morning of ``busy`` is: its end is now."""
LEVELS = (LevelKey("clique", CLIQUE), LevelKey("block", BLOCK))
NAMESPACES = ("team-a", "team-b", "research")


class World(Backlog):
    """Cliques of 18 nodes with 4 GPUs each, two cliques to a block, and a ClusterQueue for each namespace."""

    def __init__(self, cliques: int = 8, namespaces: Sequence[str] = NAMESPACES, size: int = 18) -> None:
        nodes = [made for at in range(cliques) for made in _clique(at, size)]
        limits = Limits(preemption=Preempts.ON, preemption_s=60.0, reserve_after_s=60.0, forecast_s=60.0)
        super().__init__(*nodes, limits=limits, levels=LEVELS, checked=1_000_000, now=time.time() - _LASTS_S)
        self.gpus = cliques * size * 4
        self._queues(namespaces)

    def _queues(self, namespaces: Sequence[str]) -> None:
        cohort = Cohort("company")
        for thing in (flavor("gb200"), cohort):
            self.feed(QueueSeen(thing))
        for name in namespaces:
            self.feed(NamespaceSeen(name, (("kubernetes.io/metadata.name", name),)))
            self.feed(QueueSeen(cluster_queue(name, {"gb200": self.gpus // len(namespaces)}, cohort="company")))
            self.feed(QueueSeen(LocalQueue(name, "default", name)))
        self.advance(0.5)

    def come(self, namespace: str, name: str, size: int, runs_s: float | None = None, **facts: Any) -> list[Pod]:
        """A gang comes, in the queue of its namespace."""
        facts = dict[str, Any](gpus=4, queue="default", created=self.now) | facts
        made = gang(name, size, **facts)
        pods = [replace(pod, namespace=namespace, uid=f"{namespace}-{pod.uid}", run=RunTerms(runs_s)) for pod in made]
        self.see(pods)
        self.advance(0.5)
        return pods

    def run_some(self, namespace: str, name: str, size: int, runs_s: float | None = None, **facts: Any) -> list[Pod]:
        """The same, and it starts."""
        pods = self.come(namespace, name, size, runs_s, **facts)
        self.run(pods)
        assert len(self.bound(pods)) == size, f"{namespace}/{name} was to start"
        return pods


def _clique(at: int, size: int) -> list[Node]:
    labels = {BLOCK: f"block-{at // 2 + 1}"}
    return [node(f"rack{at + 1}-{number + 1:02}", 4, clique=f"rack-{at + 1}", labels=labels) for number in range(size)]


def busy() -> World:
    """A morning of three teams: most of the cluster runs, and gangs wait for each of the usual reasons."""
    world = World()
    world.run_some("team-a", "pretrain-70b", 36, 6 * 3600.0)
    world.advance(3600)
    world.run_some("team-b", "vision-finetune", 18, 5400.0)
    world.run_some("team-b", "eval-nightly", 3, 1800.0, gpus=2)
    ended = world.run_some("research", "warmup", 4, 600.0)
    world.advance(1500)
    world.run_some("research", "rlhf-sweep-1", 12, 7200.0)
    world.run_some("research", "rlhf-sweep-2", 12)
    world.run_some("team-a", "serving-chat", 6, gpus=4)
    world.run_some("team-a", "embed-docs", 5, 9000.0, gpus=2)
    world.end(ended)
    world.advance(900)
    world.run_some("research", "moe-ablation", 14, 4 * 3600.0)
    world.run_some("team-b", "speech-large", 16, 8000.0)
    cordoned = world.core.state.claims.nodes["rack8-18"]
    world.see(replace(cordoned, unschedulable=True))
    world.come("team-a", "pretrain-8b", 18, 3600.0, topology=Topology(required="clique"))
    world.advance(120)
    world.come("team-b", "distill", 4, 900.0, min_member=5)
    world.come("research", "long-context", 20, 7200.0, topology=Topology(required="clique"))
    world.come("research", "scaling-law", 90, 7200.0)
    world.advance(400)
    world.come("team-a", "tokenizer", 2, 600.0)
    return world


def measured(world: World) -> Utilisation:
    """Return how busy the GPUs of ``busy`` are: two gangs leave them idle, and the GPUs of a third are not measured."""
    percent = {"serving-chat": 3.2, "embed-docs": 0.0, "pretrain-70b": 96.4, "moe-ablation": 88.1, "rlhf-sweep-1": 41.5}
    pods = {
        (pod.namespace, pod.name): (pod.node or "", Load(dict(pod.requests)[GPU], percent[pod.group_key.name]))
        for pod in world.core.state.pods.values()
        if pod.node and pod.group_key is not None and pod.group_key.name in percent
    }
    every = tuple(Measured((pod,), (node,), "", load) for pod, (node, load) in pods.items())
    known = Loads(every, {pod: {"": load} for pod, (_, load) in pods.items()})
    return Utilisation(on=True, below_percent=10.0, window_s=1200, loads=known, at=world.now)
