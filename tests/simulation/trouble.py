"""Strikes the faults in a run: it has the cluster, the dice that choose the target, and all repairs."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from random import Random
from typing import TypeVar

from policies.model import Node, Pod
from tests.simulation.model.batch import BatchJob
from tests.simulation.model.changes import Kind
from tests.simulation.model.job_specs import Job
from tests.simulation.model.world import World
from tests.simulation.referee import Referee

ThingT = TypeVar("ThingT")


@dataclass(slots=True)
class Trouble:
    """The cluster, and the dice that choose the target of a fault."""

    world: World
    random: Random
    referee: Referee
    made: int = 0
    healed: bool = False

    def heal(self) -> None:
        """End all faults; what is broken stays broken where users would have to repair it."""
        world, self.healed = self.world, True
        world.network.weather = replace(world.network.weather, errors=0.0, losses=0.0, spikes=0.0)
        world.network.api_down = world.network.unread = False
        world.network.queue_s, world.network.hanging, world.network.refuses = 0.0, 0, 0
        world.controller.blocked.clear()
        if world.autoscaler is not None:
            world.autoscaler.heal()
        for uid in list(world.api.failing):
            self.mend(uid)
        self.start_extender()
        world.start_scheduler()
        for node in list(world.api.nodes.values()):
            world.kubelets.set_down(node.name, down=False)
            if not node.ready:
                world.api.set_node(replace(node, ready=True))
        for name in world.plugins.lists:
            world.plugins.start(name)
        for pod in list(world.api.pods.values()):
            world.api.change_pod(pod.uid, gates=tuple(gate for gate in pod.gates if gate.startswith("muster.dev/")))

    def mend(self, uid: str) -> None:
        """The core fails on this object no more. Its author has changed it."""
        api = self.world.api
        if api.failing.pop(uid, None) is not None:
            self.edit(uid)

    def edit(self, uid: str) -> None:
        """The author of a pod, a node or a job changes something that no decision uses."""
        api, label = self.world.api, ("example.com/edited", f"{self.number()}")
        if (pod := api.pods.get(uid)) is not None:
            api.change_pod(uid, labels=tuple(sorted({**dict(pod.labels), label[0]: label[1]}.items())))
        for kind in (Kind.NODES, Kind.JOBS):
            change = api.changes[kind].get(uid)
            if change is not None and isinstance(change.value, Node):
                api.set_node(replace(change.value, labels={**change.value.labels, label[0]: label[1]}))
            elif change is not None and isinstance(change.value, BatchJob):
                api.set_job(replace(change.value, hint=label[1]))

    def silence(self, node: Node) -> Callable[[], None]:
        """Silence the kubelet of a node. Returns what ends the silence."""
        world = self.world
        world.kubelets.set_down(node.name, down=True)
        world.api.set_node(replace(node, ready=False))

        def back() -> None:
            world.kubelets.set_down(node.name, down=False)
            if (now := world.api.nodes.get(node.name)) is not None:
                world.api.set_node(replace(now, ready=node.ready))

        return back

    def later(self, action: Callable[[], None], longest_s: float = 8.0) -> None:
        self.world.clock.after(longest_s * self.random.random(), action)

    def number(self) -> int:
        self.made += 1
        return self.made

    def some(self, things: list[ThingT]) -> ThingT | None:
        return self.random.choice(things) if things else None

    def start_extender(self) -> None:
        self.world.start_extender(start_s=0.5)

    def some_pod(self, holds: Callable[[Pod], bool] = lambda pod: pod.live) -> Pod | None:
        return self.some([pod for pod in self.world.api.pods.values() if holds(pod)])

    def some_job(self) -> Job | None:
        return self.some([job for job in self.world.jobs.jobs.values() if not job.ended])

    def some_node(self) -> Node | None:
        return self.some(list(self.world.api.nodes.values()))
