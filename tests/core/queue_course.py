"""Events at random for cores with queues: workloads of all sizes, quota that is lent, queues and nodes that change."""

from __future__ import annotations

from dataclasses import replace
from random import Random
from typing import Any

from extender.core.events import QueueSeen
from policies.model import Node, Pod
from policies.model.queues import ClusterQueue, Cohort, Quota, Strategy
from tests.builders import gang, node
from tests.core.queues import FLAVOR, cluster_queue, show, sort
from tests.core.script import Script

TREES, QUEUES = 2, 3


class Course:
    """Events at random: ``step`` tells the same to a script whenever it is given the same number."""

    def __init__(self, seed: int) -> None:
        self.random = Random(seed)  # noqa: S311 - it is a test
        self.there: dict[str, list[Pod]] = {}
        self.queues = {name: self._queue(name) for tree in range(TREES) for name in self._names(tree)}
        self.nodes: list[Node] = [node(f"{of}-{n}", labels={FLAVOR: of}) for of in ("a", "b") for n in range(5)]
        self.made = 0

    @staticmethod
    def _names(tree: int) -> list[str]:
        return [f"q-{tree}-{number}" for number in range(QUEUES)]

    def _queue(self, name: str) -> ClusterQueue:
        chance = self.random
        quotas: dict[str, int | Quota] = {
            of: Quota(
                chance.choice((0, 4, 8, 16)), chance.choice((None, None, 0, 8)), chance.choice((None, None, 0, 4))
            )
            for of in chance.sample(("a", "b"), chance.choice((1, 2)))
        }
        strategy = chance.choice((Strategy.BEST_EFFORT, Strategy.BEST_EFFORT, Strategy.STRICT))
        cohort = chance.choice((f"tree-{name[2]}",) * 4 + ("tree-0", ""))
        return cluster_queue(name, quotas, cohort=cohort, strategy=strategy)

    def begin(self, script: Script) -> None:
        script.see(*self.nodes)
        show(script, sort("a"), sort("b"), *self.queues.values())
        script.advance(1)

    def step(self) -> object:
        """Draw and return the next event."""
        chance = self.random
        what = chance.choices(("come", "leave", "run", "queue", "node"), (10, 8, 6, 2, 1))[0]
        if what == "come" or not self.there:
            self.made += 1
            name, queue = f"g-{self.made}", chance.choice([*self.queues])
            facts: dict[str, Any] = {
                "gpus": chance.choice((1, 2, 4, 8)),
                "priority": chance.choice((0, 0, 5)),
                "queue": queue,
            }
            minimum = chance.choice((None, None, 1))
            pods = gang(name, chance.choice((1, 2, 3)), min_member=minimum, created=float(self.made), **facts)
            self.there[name] = pods
            return "come", name, pods
        if what in ("leave", "run"):
            name = chance.choice([*self.there])
            return what, name, self.there.pop(name) if what == "leave" else self.there[name]
        if what == "queue":
            name = chance.choice([*self.queues])
            if chance.random() < 0.3:
                tree, parent = f"tree-{chance.randrange(TREES)}", chance.choice(("", "", "above"))
                return "queue", tree, Cohort(tree, parent)
            self.queues[name] = self._queue(name)
            return "queue", name, self.queues[name]
        number = chance.randrange(len(self.nodes))
        self.nodes[number] = replace(self.nodes[number], unschedulable=not self.nodes[number].unschedulable)
        return "node", "", self.nodes[number]


def carry_out(script: Script, step: object) -> None:
    match step:
        case ("come", _, list() as pods):
            script.see(pods)
        case ("leave", _, list() as pods):
            script.gone(*[script.pods[pod.uid] for pod in pods])
        case ("run", _, list() as pods):
            script.run([pod for pod in pods if script.planned(pod)])
        case ("queue", _, ClusterQueue() | Cohort() as queue):
            script.feed(QueueSeen(queue))
        case ("node", _, Node() as changed):
            script.see(changed)
    script.advance(5)
