"""The simulated stage: scenarios under a virtual clock. Objects are read by the converter that reads the real ones."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from itertools import count
from pathlib import Path
from typing import TypeVar

import msgspec

from devcluster import nodes
from extender.config import load
from extender.core.effects import AnswerFilter, Effect
from extender.core.events import Event, FilterCalled
from extender.core.scheduler import Scheduler
from extender.kube.convert import group_from, node_from, pod_from
from extender.kube.objects import GroupObject, NodeObject, PodObject
from extender.simulate.clock import Timer
from extender.simulate.cycle import Profile
from extender.simulate.world import World
from extender.views import GangView, view
from policies.model import GroupKey, Pod
from tests.scenarios.stage import BIND_TIMEOUT_S, LONGEST_BACKOFF_S, PRIORITIES, Object, Setting

SHIPPED = Path(__file__).parents[2] / "manifests" / "base" / "muster.yaml"
PATIENCE_S = 120.0
START_S, LEASE_S = 1.0, 15.0
"""How long the extender takes to be ready, and a kube-scheduler to get the Lease of one that was killed."""
_CREATE_S = 0.002
_GLANCE_S = 0.01
T = TypeVar("T")


class SimulatedStage:
    """A virtual cluster of its own; the seed decides how long everything takes."""

    def __init__(self, seed: int, setting: Setting) -> None:
        self.namespace = "stage"
        self.cliques: dict[str, str] = {}
        settings = load(SHIPPED, **setting.settings())
        self._scheduler = "muster" if setting.muster else "default-scheduler"
        profile = Profile(self._scheduler, bind_timeout_s=BIND_TIMEOUT_S, longest_backoff_s=LONGEST_BACKOFF_S)

        def core() -> Scheduler:
            return Scheduler(
                settings.scheduler_names,
                settings.limits,
                settings.policies,
                settings.steering,
                settings.levels,
                settings.mode,
            )

        self.world = World(seed, (), core if setting.muster else None, profile=profile, watcher=self._count)
        self._order = self.world.chance.stream("order of creation")
        self._numbers = count(1)
        self._filtered = 0
        self._pass: int | None = None
        """How many pods may pass filter until kube-scheduler stands still; None: any number."""
        self._standing: Timer | None = None

    # What users and operators do.

    def add_nodes(self, count: int, gpus: int = 8, *, clique: str = "") -> list[str]:
        first = len(self.world.api.nodes)
        added = [f"{self.namespace}-{first}-node-{i}" for i in range(count)]
        labels = {"stage": self.namespace} | ({"nvidia.com/gpu.clique": f"{self.namespace}.{clique}"} if clique else {})
        resources = {"cpu": "96", "memory": "1Ti", "pods": "110", "nvidia.com/gpu": str(gpus)}
        for name in added:
            written = nodes.node(name, resources, labels, "v1")
            self.world.api.set_node(node_from(msgspec.convert(written, NodeObject)))
        self.cliques |= dict.fromkeys(added, clique) if clique else {}
        return added

    def remove_node(self, name: str) -> None:
        self.world.api.remove_node(name)

    def cordon(self, name: str, *, on: bool = True) -> None:
        self.world.api.set_node(replace(self.world.api.nodes[name], unschedulable=on))

    def create(self, *pods: Object) -> None:
        for written in pods:
            pod = self._admitted(written)
            assert self.world.api.create_pod(pod) == 200, f"there is a pod called {pod.name}"
            self.let(_CREATE_S)

    def create_all(self, pods: Iterable[Object]) -> None:
        some = list(pods)
        self._order.shuffle(some)
        self.create(*some)

    def create_until(self, pods: Iterable[Object], holds: Callable[[Pod], bool]) -> None:
        self.create_all(pods)
        self.until(lambda seen: any(map(holds, seen)))

    def delete(self, *names: str) -> None:
        for name in names:
            self.world.api.remove_pod(self._pod(name).uid)

    def succeed(self, *names: str) -> None:
        self.until(lambda _: all(self._pod(name).phase == "Running" for name in names))
        for name in names:
            self.world.api.change_pod(self._pod(name).uid, phase="Succeeded")

    def open_gate(self, name: str, gate: str) -> None:
        pod = self._pod(name)
        self.world.api.change_pod(pod.uid, gates=tuple(one for one in pod.gates if one != gate))

    def set_group(self, name: str, min_member: int) -> None:
        known = self.world.api.groups.get(GroupKey(self.namespace, name))
        uid = known.uid if known else f"{name}.{next(self._numbers)}"
        meta = {"name": name, "namespace": self.namespace, "uid": uid}
        written = {"metadata": meta, "spec": {"minMember": min_member}}
        self.world.api.set_group(group_from(msgspec.convert(written, GroupObject)))

    def remove_group(self, name: str) -> None:
        self.world.api.remove_group(GroupKey(self.namespace, name))

    # What befalls processes.

    def kill_extender(self) -> None:
        self.world.kill_extender()

    def start_extender(self) -> None:
        self.world.start_extender(START_S)
        self.wait(lambda: self.world.extender, lambda one: one is not None and one.synced)

    def kill_scheduler(self) -> None:
        self.world.kill_scheduler()
        self.let_scheduler_go_on()

    def start_scheduler(self) -> None:
        self.let(LEASE_S)
        self.world.start_scheduler()

    def stop_scheduler_after(self, pods: int) -> None:
        self._pass = pods

    def let_scheduler_go_on(self) -> None:
        self._pass = None
        if self._standing is not None:
            self._standing.cancel()

    # What can be seen.

    def pods(self) -> list[Pod]:
        return list(self.world.api.pods.values())

    def gangs(self) -> dict[str, GangView]:
        if self.world.extender is None:
            return {}
        gangs = self.world.extender.core.state.gangs
        return {key.name: view(gang, self.world.clock.now) for key, gang in gangs.items()}

    def held(self) -> int:
        assert self.world.extender is not None
        return len(self.world.extender.core.state.calls)

    def filter_calls(self) -> int:
        return self._filtered

    def until(self, holds: Callable[[Sequence[Pod]], bool]) -> Sequence[Pod]:
        return self.wait(self.pods, holds)

    def until_told(self, gang: str, holds: Callable[[GangView], bool]) -> GangView:
        seen = self.wait(lambda: self.gangs().get(gang), lambda seen: seen is not None and holds(seen))
        assert seen is not None
        return seen

    def until_held(self, holds: Callable[[int], bool]) -> None:
        self.wait(self.held, holds)

    def let(self, seconds: float) -> None:
        """Let time pass."""
        self.world.clock.run(self.world.clock.now + seconds)

    def wait(self, look: Callable[[], T], holds: Callable[[T], bool]) -> T:
        """Let time pass until what is looked at is so, and return it."""
        clock = self.world.clock
        deadline = clock.now + PATIENCE_S
        while not holds(seen := look()):
            if not clock.step(deadline):
                raise TimeoutError(f"not as expected within {PATIENCE_S} s; last seen: {seen}")
        return seen

    def _pod(self, name: str) -> Pod:
        return next(pod for pod in self.world.api.pods.values() if pod.name == name)

    def _admitted(self, written: Object) -> Pod:
        """The pod as the API server stores it."""
        one = copy.deepcopy(written)
        number, spec = next(self._numbers), one["spec"]
        one["metadata"] |= {"namespace": self.namespace, "uid": f"{one['metadata']['name']}.{number}"}
        spec |= {"schedulerName": self._scheduler, "nodeSelector": {"stage": self.namespace}}
        spec["priority"] = PRIORITIES.get(spec.get("priorityClassName", ""), 0)
        # Instants of creation are whole seconds there.
        return replace(pod_from(msgspec.convert(one, PodObject)), created=float(int(self.world.clock.now)))

    def _count(self, event: Event, effects: list[Effect]) -> None:
        self._filtered += isinstance(event, FilterCalled)
        passed = any(isinstance(effect, AnswerFilter) and effect.passed for effect in effects)
        if passed and self._pass is not None:
            self._pass -= 1
            if self._pass < 0:
                self._pass = None
                self._stand_still()

    def _stand_still(self) -> None:
        """kube-scheduler is frozen for a moment, again and again."""
        assert self.world.scheduler is not None
        self.world.scheduler.freeze(2 * _GLANCE_S)
        self._standing = self.world.clock.after(_GLANCE_S, self._stand_still)
