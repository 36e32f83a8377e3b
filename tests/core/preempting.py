"""A script in which workloads give way to others."""

from __future__ import annotations

from extender.core.answers import Reserved
from extender.core.effects import Effect, Milestone, Reached, Reserve
from extender.core.limits import Limits, Preempts
from policies.model import Node, Pod, Reservation
from tests.builders import gang
from tests.core.script import Script

ON = Limits(preemption=Preempts.ON, preemption_s=60.0)


class Cluster(Script):
    """Writes reservations down at once, unless it is told not to."""

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
        """They have been told to go, and go."""
        for pod in pods:
            self.change(pod, deleting=True)
        self.gone(*(self.pods[pod.uid] for pod in pods))

    def milestones(self, milestone: Milestone) -> int:
        return sum(isinstance(effect, Reached) and effect.milestone is milestone for effect in self.effects)


def running(
    script: Cluster, name: str, size: int, gpus: int = 8, priority: int = 0, least: int | None = None
) -> list[Pod]:
    """A gang that is bound. ``least``: so many of it have to run, if not all."""
    pods = gang(name, size, min_member=least, gpus=gpus, priority=priority)
    script.see(pods)
    script.run(pods)
    assert len(script.bound(pods)) == size
    return pods


def lacks(script: Cluster, name: str) -> str:
    """What is taken to keep those of it that wait from being planned."""
    demand = script.gang(name).asked
    assert demand is not None
    return str(demand.trouble)
