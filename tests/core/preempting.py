"""A script in which workloads are evicted for others, and a single pod for which kube-scheduler would preempt."""

from __future__ import annotations

from extender.core.answers import Reserved
from extender.core.effects import Effect, Milestone, Reached, Reserve
from extender.core.limits import Limits, Preempts
from policies.model import Node, Pod, Reservation
from tests.builders import cluster, gang, single
from tests.core.script import Script

ON = Limits(preemption=Preempts.ON, preemption_s=60.0)


class Cluster(Script):
    """Writes reservations at once, unless ``writes`` is off."""

    def __init__(self, *facts: Node | Pod, writes: bool = True, limits: Limits = ON) -> None:
        self.writes = writes
        self.written: list[Reserve] = []
        super().__init__(*facts, limits=limits)

    def _note(self, effect: Effect) -> None:
        super()._note(effect)
        if isinstance(effect, Reserve):
            self.written.append(effect)
            if self.writes:
                self.write(effect)

    def write(self, effect: Reserve, detail: str = "") -> None:
        if not detail and effect.pod is not None and effect.pod.uid in self.pods:
            self.change(self.pods[effect.pod.uid], reservation=effect.reservation)
        self.feed(Reserved(effect.key, effect.pod, effect.job, effect.reservation, detail))
        self.advance(0.1)

    @property
    def kept(self) -> Reservation | None:
        return self.written[-1].reservation if self.written else None

    def leave(self, *pods: Pod) -> None:
        """End these pods, which have been evicted."""
        for pod in pods:
            self.change(pod, deleting=True)
        self.gone(*(self.pods[pod.uid] for pod in pods))

    def milestones(self, milestone: Milestone) -> int:
        return sum(isinstance(effect, Reached) and effect.milestone is milestone for effect in self.effects)


def running(
    script: Cluster, name: str, size: int, gpus: int = 8, priority: int = 0, least: int | None = None
) -> list[Pod]:
    """A gang that is bound. ``least``: its minMember, if not all."""
    pods = gang(name, size, min_member=least, gpus=gpus, priority=priority)
    script.see(pods)
    script.run(pods)
    assert len(script.bound(pods)) == size
    return pods


def lacks(script: Cluster, name: str) -> str:
    """The recorded reason why the waiting members are not planned."""
    demand = script.gang(name).current_demand
    assert demand is not None
    return str(demand.trouble)


OFF = Limits(preemption_s=60.0)


def urgent(gpus: int = 8, priority: int = 10, name: str = "urgent") -> Pod:
    return single(name, gpus=gpus, priority=priority)


class Asked:
    """Two nodes with a gang of two on them, and an urgent pod for which kube-scheduler would delete one of its pods."""

    def __init__(self, *, limits: Limits = OFF, writes: bool = True, priority: int = 10) -> None:
        self.script = Cluster(*cluster("a: 2x8"), limits=limits, writes=writes)
        self.low = running(self.script, "low", 2)
        self.pod = urgent(priority=priority)
        self.script.see(self.pod)
        self.node = self.script.pods[self.low[0].uid].node or ""
        self.other = self.script.pods[self.low[1].uid].node or ""

    def ask(self) -> dict[str, tuple[str, ...]]:
        return self.script.preempt(self.script.pods[self.pod.uid], {self.node: (self.low[0].uid,)})

    def restart(self) -> Cluster:
        """Start another extender, which reads the objects."""
        return Cluster(*cluster("a: 2x8"), *self.script.pods.values(), limits=OFF)
