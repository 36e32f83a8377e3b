"""A referee that is fed step by step, without a simulation."""

from __future__ import annotations

from collections.abc import Iterable

from extender.core.answers import BindingPosted, Outcome
from extender.core.effects import Effect, Milestone, Nominate, PostBinding, Reached, Ungate
from extender.core.events import (
    BindArrived,
    Event,
    NodeSeen,
    PodSeen,
)
from policies.model import Node, Pod
from tests.builders import GPU
from tests.simulation.admissions import Admissions
from tests.simulation.claims import Claims
from tests.simulation.company import Company
from tests.simulation.fairness import Fairness
from tests.simulation.room import judge_room
from tests.simulation.sends import Sends, to_be_forgotten
from tests.simulation.shown import RELEASE, Shown
from tests.simulation.terms import Terms


class Life:
    """A life of an extender, as the referee follows it, event by event."""

    def __init__(self, *facts: Node | Pod | Iterable[Pod], pins: bool = False) -> None:
        self.now = 100.0
        self.shown = Shown()
        self.claims = Claims(self.shown, 60.0, Admissions(self.shown, calm=False, creation_s=30.0))
        self.sends = Sends(64)
        self.company = Company(self.shown, self.claims)
        self.fairness = Fairness(self.shown, self.claims, self.company, Terms(calm=False, waiting=100, pins=pins))
        self.see(*facts)
        self.now += 1

    def see(self, *facts: Node | Pod | Iterable[Pod]) -> None:
        for fact in facts:
            if isinstance(fact, Node):
                self.tell(NodeSeen(fact))
            elif isinstance(fact, Pod):
                self.tell(PodSeen(fact))
            else:
                self.see(*fact)

    def tell(self, event: Event, *effects: Effect) -> list[str]:
        """Feed the event and its effects; returns the faults of the effects."""
        self.fairness.hear(event, self.now)
        self.shown.watch(event)
        self.claims.hear(event, self.now)
        forgotten = to_be_forgotten(effects, self.claims, self.shown)
        complaints = []
        for effect in effects:
            self.sends.ask(effect)
            complaints.append(judge_room(effect, event, self.shown, self.claims))
            self.claims.apply(effect, event)
            self.fairness.apply(effect)
        complaints += [self.fairness.judge(effect, event, self.now) for effect in effects]
        complaints.append(self.sends.judge_forgotten(uid for uid in forgotten if uid not in self.claims.promised))
        return [complaint for complaint in complaints if complaint]

    def bind(self, pod: Pod, where: str) -> None:
        """kube-scheduler asks for the Binding, and the core for the write."""
        self.tell(BindArrived(1, pod.uid, pod.namespace, pod.name, where, self.now + 60), posting(pod, where))

    def end(self, pod: Pod, outcome: Outcome) -> None:
        self.tell(BindingPosted(pod.uid, outcome))

    def late(self) -> bool:
        """Whether a workload waits although there has been room for some seconds."""
        return bool([self.fairness.look(at) for at in (self.now, self.now + 3, self.now + 6)][-1])

    def gpus(self, name: str) -> int:
        """The GPUs that are certainly free on the node."""
        return self.claims.left([name])[name][GPU]


def posting(pod: Pod, where: str) -> PostBinding:
    marks = {RELEASE: "r", "muster.dev/gang-uid": "g"} if pod.group_key is not None else {}
    return PostBinding(pod.uid, pod.namespace, pod.name, where, (1,), 999.0, marks, pod.group_key)


def nomination(pod: Pod, where: str | None) -> Nominate:
    return Nominate(pod.uid, pod.namespace, pod.name, where, group=pod.group_key)


def pin(pod: Pod, where: str) -> Ungate:
    return Ungate(pod.uid, pod.namespace, pod.name, pod.group_key, (where,))


def reached(pod: Pod, milestone: Milestone) -> Reached:
    assert pod.group_key is not None
    return Reached(pod.group_key, milestone, 1, 0.0)
