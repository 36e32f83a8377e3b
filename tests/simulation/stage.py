"""The simulated stages: the model of a whole control plane, and the collapsed one that `muster simulate` uses."""

from __future__ import annotations

from dataclasses import replace

from extender.core.effects import AnswerFilter, Effect
from extender.core.engine import Engine
from extender.core.events import Event, FilterCalled, GroupGone, GroupSeen, NodeGone, NodeSeen
from extender.simulation.chance import Chance
from extender.simulation.clock import Clock, Timer
from extender.simulation.replay.control_plane import CollapsedControlPlane
from policies.model import GroupKey, Node, Pod, PodGroup
from tests.scenarios.stage import BIND_TIMEOUT_S, LONGEST_BACKOFF_S, Setting
from tests.simulation.model.cycle import Profile
from tests.simulation.model.world import World
from tests.simulation.virtual import VirtualStage, core_for

START_S, LEASE_S = 1.0, 15.0
"""How long the extender takes to be ready, and a kube-scheduler to get the Lease of one that was killed."""
_GLANCE_S = 0.01


class SimulatedStage(VirtualStage):
    """The model of the control plane. The seed decides how long everything takes."""

    def __init__(self, seed: int, setting: Setting) -> None:
        name = "muster" if setting.muster else "default-scheduler"
        profile = Profile(name, bind_timeout_s=BIND_TIMEOUT_S, longest_backoff_s=LONGEST_BACKOFF_S)
        core = (lambda: core_for(setting)) if setting.muster else None
        self.world = World(seed, (), core, profile=profile, watcher=self._watch)
        super().__init__(self.world.api, self.world.clock, self.world.chance, name)
        self._filtered = 0
        self._pass: int | None = None
        """How many pods may pass filter until kube-scheduler stands still; None: any number."""
        self._standing: Timer | None = None

    @property
    def core(self) -> Engine | None:
        return None if self.world.extender is None else self.world.extender.core

    def kill_extender(self) -> None:
        self.world.kill_extender()

    def start_extender(self) -> None:
        self.world.start_extender(START_S)
        self.wait(lambda: self.world.extender, lambda extender: extender is not None and extender.recovered)

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

    def filter_calls(self) -> int:
        return self._filtered

    def _watch(self, event: Event, effects: list[Effect]) -> None:
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


class CollapsedStage(VirtualStage):
    """The core as `muster simulate` drives it: everything that it asks for happens at once."""

    def __init__(self, setting: Setting) -> None:
        clock = Clock()
        self._control_plane = CollapsedControlPlane(core_for(setting), clock, lambda _: None)
        self._control_plane.begin(())
        super().__init__(_Collapsed(self._control_plane), clock, Chance(1), "muster")

    @property
    def core(self) -> Engine:
        return self._control_plane.core


class _Collapsed:
    """The objects that the collapsed control plane shows to the core."""

    def __init__(self, control_plane: CollapsedControlPlane) -> None:
        self.pods = control_plane.pods
        self.nodes: dict[str, Node] = {}
        self.groups: dict[GroupKey, PodGroup] = {}
        self._control_plane = control_plane

    def create_pod(self, pod: Pod) -> None:
        self._control_plane.see(pod)

    def change_pod(self, uid: str, **facts: object) -> None:
        self._control_plane.see(replace(self.pods[uid], **facts))  # type: ignore[arg-type]

    def remove_pod(self, uid: str) -> None:
        self._control_plane.gone(uid)

    def set_node(self, node: Node) -> None:
        self.nodes[node.name] = node
        self._control_plane.feed(NodeSeen(node))

    def remove_node(self, name: str) -> None:
        del self.nodes[name]
        self._control_plane.feed(NodeGone(name))

    def set_group(self, group: PodGroup) -> None:
        self.groups[group.key] = group
        self._control_plane.feed(GroupSeen(group))

    def remove_group(self, key: GroupKey) -> None:
        self._control_plane.feed(GroupGone(key, self.groups.pop(key).uid))
