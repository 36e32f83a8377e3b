"""Run several schedulers on the same jobs and the same cluster, one after the other."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum

from extender.core.engine import Engine
from extender.simulation.chance import Chance
from extender.simulation.replay.arrivals import Arrival
from extender.simulation.replay.baselines import Fifo, HardQuota, Ideal, PodByPod
from extender.simulation.replay.course import Course, Decider, Terms
from extender.simulation.replay.muster import Muster
from extender.simulation.replay.queueing import Queueing
from extender.simulation.replay.shape import GPU, InputError
from extender.simulation.report.outcome import Outcome, outcome
from policies.model import Node

NO_QUEUES = "muster-no-queues"
"""Muster without the queue objects, beside Muster with them."""

Advance = Callable[[str, int], None]
"""Called with the name of the scheduler at work, and how many jobs have ended."""


class Baseline(StrEnum):
    """The schedulers to compare Muster with; ``baselines.py`` says how each decides."""

    KUBE = "kube-scheduler"
    KUBE_PACKED = "kube-scheduler-packed"
    FIFO = "fifo"
    HARD_QUOTA = "fifo-quota"
    IDEAL = "ideal"


@dataclass(frozen=True, slots=True)
class Case:
    """The input of every scheduler. ``cores``: makes Muster's core for each policy set, by name."""

    arrivals: Sequence[Arrival]
    nodes: Sequence[Node]
    terms: Terms
    seed: int
    cores: Mapping[str, Callable[[], Engine]]
    queueing: Queueing = field(default_factory=Queueing)

    def schedulers(self) -> list[str]:
        """The names that ``run`` accepts."""
        return [*self.cores, *Baseline]


def run(case: Case, names: Iterable[str], advance: Advance) -> list[Outcome]:
    """Simulate the case with each of these schedulers. Raises InputError for an unknown name."""
    names = list(names)
    if unknown := [name for name in names if name not in case.schedulers()]:
        raise InputError(f"there is no scheduler {', '.join(unknown)}; there are {', '.join(case.schedulers())}")
    return [_play(case, name, advance) for name in names]


def misfits(arrivals: Iterable[Arrival], nodes: Sequence[Node]) -> list[Arrival]:
    """The jobs that even the empty cluster cannot start."""
    arrivals = list(arrivals)
    there = {gpus: slots(gpus, nodes) for gpus in {arrival.gpus for arrival in arrivals}}
    return [arrival for arrival in arrivals if arrival.needed > there[arrival.gpus]]


def slots(gpus: int, nodes: Sequence[Node]) -> int:
    """How many pods of that many GPUs the empty cluster has room for."""
    return sum(dict(node.allocatable).get(GPU, 0) // gpus for node in nodes)


def _play(case: Case, name: str, advance: Advance) -> Outcome:
    course = Course(case.arrivals, case.terms, lambda over: advance(name, over))
    advance(name, 0)
    decider = _decider(case, name, course)
    course.play(decider)
    played = outcome(name, course, case.nodes, case.queueing, spans=name != Baseline.IDEAL)
    if not isinstance(decider, Muster):
        return played
    return replace(played, reasons=decider.reasons(), foresight=decider.foresight())


def _decider(case: Case, name: str, course: Course) -> Decider:
    if name in case.cores:
        facts = () if name == NO_QUEUES else case.queueing.facts(case.arrivals)
        return Muster(course, case.nodes, case.cores[name](), facts=facts)
    match Baseline(name):
        case Baseline.KUBE:
            return PodByPod(course, case.nodes, Chance(case.seed).stream("kube-scheduler"))
        case Baseline.KUBE_PACKED:
            return PodByPod(course, case.nodes, Chance(case.seed).stream("kube-scheduler"), spread=False)
        case Baseline.FIFO:
            return Fifo(course, case.nodes)
        case Baseline.HARD_QUOTA:
            return HardQuota(course, case.nodes, case.queueing)
        case Baseline.IDEAL:
            return Ideal(course, case.nodes)
