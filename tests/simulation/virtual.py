"""The common part of both simulated stages: a virtual clock, and manifests read by the real converter."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from itertools import count
from pathlib import Path
from typing import Protocol, TypeVar

import msgspec

from devcluster import nodes
from extender.api.models import GangView
from extender.config.settings import load
from extender.core.engine import Engine
from extender.kube.convert import node_from, pod_from
from extender.kube.podgroups.coscheduling import group_from
from extender.kube.reading.objects import GroupObject, NodeObject, PodObject
from extender.observe.views import view
from extender.simulation.chance import Chance
from extender.simulation.clock import Clock
from policies.model import GroupKey, Node, Pod, PodGroup
from tests.scenarios.stage import PRIORITIES, Object, Setting

SHIPPED = Path(__file__).parents[2] / "manifests" / "base" / "muster.yaml"
PATIENCE_S = 120.0
_CREATE_S = 0.002
T = TypeVar("T")


class Objects(Protocol):
    """The API server, as far as users need it."""

    pods: dict[str, Pod]
    nodes: dict[str, Node]
    groups: dict[GroupKey, PodGroup]

    def create_pod(self, pod: Pod) -> object: ...

    def change_pod(self, uid: str, **facts: object) -> object: ...

    def remove_pod(self, uid: str) -> object: ...

    def set_node(self, node: Node) -> None: ...

    def remove_node(self, name: str) -> None: ...

    def set_group(self, group: PodGroup) -> None: ...

    def remove_group(self, key: GroupKey) -> None: ...


def core_for(setting: Setting) -> Engine:
    """A core as ``muster serve`` makes it."""
    return load(SHIPPED, **setting.settings()).engine()


class VirtualStage:
    """A cluster of its own. Processes and calls are for the subclasses that model them."""

    namespace = "stage"

    def __init__(self, api: Objects, clock: Clock, chance: Chance, scheduler: str) -> None:
        self._api = api
        self._clock = clock
        self._order = chance.stream("order of creation")
        self._scheduler = scheduler
        self._numbers = count(1)
        self._cliques: dict[str, str] = {}
        self._added = 0

    @property
    def cliques(self) -> Mapping[str, str]:
        return self._cliques

    @property
    def core(self) -> Engine | None:
        """None while no extender runs."""
        raise NotImplementedError

    # Acts of users and operators.

    def add_nodes(self, count: int, gpus: int = 8, *, clique: str = "") -> list[str]:
        added = [f"{self.namespace}-{self._added}-node-{i}" for i in range(count)]
        self._added += count
        labels = {"stage": self.namespace} | ({"nvidia.com/gpu.clique": f"{self.namespace}.{clique}"} if clique else {})
        resources = {"cpu": "96", "memory": "1Ti", "pods": "110", "nvidia.com/gpu": str(gpus)}
        for name in added:
            written = nodes.node(name, resources, labels, "v1")
            self._api.set_node(node_from(msgspec.convert(written, NodeObject)))
        self._cliques |= dict.fromkeys(added, clique) if clique else {}
        return added

    def remove_node(self, name: str) -> None:
        self._api.remove_node(name)

    def cordon(self, name: str, *, on: bool = True) -> None:
        self._api.set_node(replace(self._api.nodes[name], unschedulable=on))

    def create(self, *pods: Object) -> None:
        for written in pods:
            self._api.create_pod(self._admitted(written))
            self.let(_CREATE_S)

    def create_all(self, pods: Iterable[Object]) -> None:
        shuffled = list(pods)
        self._order.shuffle(shuffled)
        self.create(*shuffled)

    def create_until(self, pods: Iterable[Object], holds: Callable[[Pod], bool]) -> None:
        self.create_all(pods)
        self.until(lambda seen: any(map(holds, seen)))

    def delete(self, *names: str) -> None:
        for name in names:
            self._api.remove_pod(self._pod(name).uid)

    def succeed(self, *names: str) -> None:
        for name in names:
            self._api.change_pod(self._pod(name).uid, phase="Succeeded")

    def open_gate(self, name: str, gate: str) -> None:
        pod = self._pod(name)
        self._api.change_pod(pod.uid, gates=tuple(other for other in pod.gates if other != gate))

    def set_group(self, name: str, min_member: int) -> None:
        known = self._api.groups.get(GroupKey(self.namespace, name))
        if known is not None:
            return self._api.set_group(replace(known, min_member=min_member))
        meta = {"name": name, "namespace": self.namespace, "uid": f"{name}.{next(self._numbers)}"}
        written = {"metadata": meta, "spec": {"minMember": min_member}}
        self._api.set_group(replace(group_from(msgspec.convert(written, GroupObject)), created=self._second()))

    def remove_group(self, name: str) -> None:
        self._api.remove_group(GroupKey(self.namespace, name))

    # Faults of processes.

    def kill_extender(self) -> None:
        raise NotImplementedError

    def start_extender(self) -> None:
        raise NotImplementedError

    def kill_scheduler(self) -> None:
        raise NotImplementedError

    def start_scheduler(self) -> None:
        raise NotImplementedError

    def stop_scheduler_after(self, pods: int) -> None:
        raise NotImplementedError

    def let_scheduler_go_on(self) -> None:
        raise NotImplementedError

    # Views.

    def pods(self) -> list[Pod]:
        return list(self._api.pods.values())

    def gangs(self) -> dict[str, GangView]:
        if self.core is None:
            return {}
        state = self.core.state
        return {key.name: view(state, gang, self._clock.now) for key, gang in state.workloads.items()}

    def held(self) -> int:
        assert self.core is not None
        return len(self.core.state.binds.held)

    def filter_calls(self) -> int:
        raise NotImplementedError

    def advised(self, verdict: str) -> int:
        assert self.core is not None
        return self.core.state.counts.advised[verdict]

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
        self._clock.run(self._clock.now + seconds)

    def wait(self, look: Callable[[], T], holds: Callable[[T], bool]) -> T:
        """Let time pass until the view is as expected, and return it."""
        deadline = self._clock.now + PATIENCE_S
        while not holds(seen := look()):
            if not self._clock.step(deadline):
                raise TimeoutError(f"not as expected within {PATIENCE_S} s; last seen: {seen}")
        return seen

    def _pod(self, name: str) -> Pod:
        return next(pod for pod in self._api.pods.values() if pod.name == name)

    def _admitted(self, written: Object) -> Pod:
        """The pod as the API server stores it."""
        obj = copy.deepcopy(written)
        number, spec = next(self._numbers), obj["spec"]
        obj["metadata"] |= {"namespace": self.namespace, "uid": f"{obj['metadata']['name']}.{number}"}
        spec |= {"schedulerName": self._scheduler, "nodeSelector": {"stage": self.namespace}}
        spec["priority"] = PRIORITIES.get(spec.get("priorityClassName", ""), 0)
        return replace(pod_from(msgspec.convert(obj, PodObject)), created=self._second())

    def _second(self) -> float:
        """The present as the API server writes instants of creation: in whole seconds."""
        return float(int(self._clock.now))
