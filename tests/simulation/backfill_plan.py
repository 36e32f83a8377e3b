"""Seeds with reservations and backfill: the fourth of every hundred millions.

Small workloads fill the nodes before large ones come, and others come later. Most say how long they run: exactly, too
short or too long. In steady seeds all of them say it exactly, and nothing but the extender fails: there the referee
judges that workloads start when that was said.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import inf
from random import Random

from extender.core.limits import Limits, Preempts
from extender.simulation.chance import Chance
from policies.model import (
    GANG_GATE,
    Dialect,
    EvictionTerms,
    GroupKey,
    GroupRef,
    Node,
    Pod,
    PodSet,
    RunTerms,
    Topology,
)
from tests.builders import node, requests
from tests.simulation.model.batch import BatchJob
from tests.simulation.model.job_specs import JobSpec, Role
from tests.simulation.model.world import BEGIN_S

SLACK_S = 10.0
"""The time of an exact duration beside the run itself: from the plan to the first running pods, and to the end."""
RESTARTS = ("the extender is killed", "the extender is replaced at once", "the leader changes")
_LONG_S = 120.0
_MAY_END = EvictionTerms(when_overrun=True)
_AMONG_OTHERS = (*RESTARTS, "a node is removed", "a node is cordoned", "a job is deleted", "a pod fails")


@dataclass(frozen=True, slots=True)
class Drawn:
    """``faults``: what, when, or how long after which moment, and after how many of those."""

    nodes: tuple[Node, ...]
    jobs: tuple[tuple[float, JobSpec], ...]
    batch: tuple[tuple[float, BatchJob], ...]
    faults: tuple[tuple[str, float, str, int], ...]


def has_backfill(seed: int) -> bool:
    """The seeds of the fourth of every hundred millions: no other seed is changed by them."""
    return seed // 1_000_000 % 100 == 3


def is_steady(seed: int) -> bool:
    """Half of them."""
    return seed % 2 == 0


def reserving(limits: Limits, chance: Chance, *, steady: bool) -> Limits:
    """Reserve soon, so that it happens in the time of a run. Where some overrun, these may be ended."""
    dice, overruns = chance.stream("limits of reservations"), chance.stream("limits of overruns")
    return replace(
        limits,
        reserve_after_s=dice.choice((1.0, 3.0, 10.0, 30.0)),
        forecast_s=5.0,
        reservations=dice.choice((1, 1, 1, 2, 1000)),
        drain_share=dice.choice((0.1, 0.5, 1.0)),
        overrun_s=inf if steady else overruns.choice((inf, 1.0, 10.0)),
        preemption=Preempts.OFF if steady else limits.preemption,
        pods_preempt_gangs=not steady and limits.pods_preempt_gangs,
    )


def draw_backfill(chance: Chance, *, calm: bool, steady: bool) -> Drawn:
    """Draw the nodes, the workloads and the faults of a seed."""
    dice, when = chance.stream("workloads that wait for others to end"), chance.stream("faults beside reservations")
    nodes = tuple(node(f"n{at:02}", clique=f"c{at // 3}") for at in range(dice.randint(2, 6)))
    drawing = _Drawing(dice, steady=steady, ranks=(0,) if dice.random() < 0.7 else (0, 0, 0, 10))
    count = len(nodes)
    for _ in range(count):
        drawing.add(dice.random(), dice.choice((1, 1, 2)), 8, 15 + 60 * dice.random())
    for _ in range(dice.choice((1, 1, 2, 3))):
        drawing.add(2 + 10 * dice.random(), dice.randint(max(1, count - 2), count), 8, 10 + 30 * dice.random())
    for _ in range(dice.choice((3, 6, 10))):
        run_s = dice.choice((5 + 10 * dice.random(), 5 + 120 * dice.random()))
        drawing.add(3 + 80 * dice.random(), dice.choice((1, 1, 2, 3)), dice.choice((8, 8, 4, 2)), run_s)
    for _ in range(dice.choice((0, 0, 2, 4))):
        drawing.add_single(60 * dice.random(), dice.choice((8, 4, 1)), 5 + 60 * dice.random())
    if not steady:
        drawing.let_one_overrun(chance.stream("what may be ended when it overruns"))
    few = 0 if calm else when.choice((1, 2, 3))
    faults = tuple(_fault(when, RESTARTS if steady else _AMONG_OTHERS) for _ in range(few))
    return Drawn(nodes, tuple(drawing.jobs), tuple(drawing.batch), faults)


def _fault(dice: Random, what: tuple[str, ...]) -> tuple[str, float, str, int]:
    if dice.random() < 0.5:
        return dice.choice(what), 90 * dice.random(), "", 0
    return dice.choice(what), dice.choice((0.0, 0.003, 1.0, 10.0)) * dice.random(), "reservation", dice.randint(1, 4)


class _Drawing:
    """The workloads, one after the other. Half of the gangs are suspended jobs."""

    def __init__(self, dice: Random, *, steady: bool, ranks: tuple[int, ...]) -> None:
        self.jobs: list[tuple[float, JobSpec]] = []
        self.batch: list[tuple[float, BatchJob]] = []
        self._dice = dice
        self._steady = steady
        self._ranks = ranks

    def add(self, at: float, size: int, gpus: int, run_s: float) -> None:
        dice, number = self._dice, len(self.jobs) + len(self.batch)
        topology = dice.choice((Topology(),) * 4 + (Topology(preferred="clique"),))
        priority, terms = dice.choice(self._ranks), self._terms(run_s)
        if not self._steady and dice.random() < 0.1:
            run_s = inf
        if dice.random() < 0.5:
            self.batch.append((at, _job(f"batch{number}", size, gpus, run_s, terms, topology, priority, BEGIN_S + at)))
            return
        gates = (GANG_GATE,) if dice.random() < 0.7 else ()
        role = Role(size, requests(gpus))
        dialect = dice.choice((Dialect.ANNOTATION, Dialect.COSCHEDULING))
        spec = JobSpec(f"job{number}", (role,), size, run_s, priority=priority, topology=topology, gates=gates)
        self.jobs.append((at, replace(spec, run=terms, dialect=dialect)))

    def add_single(self, at: float, gpus: int, run_s: float) -> None:
        """Add a pod without a gang. Some belong to their node, as pods of DaemonSets do."""
        stays = not self._steady and self._dice.random() < 0.3
        role = Role(1, requests(1 if stays else gpus))
        spec = JobSpec(f"single{len(self.jobs)}", (role,), run_s=run_s, replaces=False, stays=stays)
        self.jobs.append((at, replace(spec, run=self._terms(run_s))))

    def let_one_overrun(self, dice: Random) -> None:
        """Let a gang or job, in half of the seeds, run longer than it says, and declare that it may be ended then.

        Of two such workloads each could end for the other again and again. One that is said to be short is also let in
        again and again beside a reservation, so all of the others end.
        """
        gangs = [at for at, (_, spec) in enumerate(self.jobs) if spec.min_member]
        number = dice.randrange(2 * (len(gangs) + len(self.batch)))
        if number >= len(gangs) + len(self.batch):
            return
        self.jobs = [(at, replace(spec, run_s=min(spec.run_s, _LONG_S))) for at, spec in self.jobs]
        self.batch = [(at, replace(job, run_s=min(job.run_s, _LONG_S))) for at, job in self.batch]
        if number < len(gangs):
            at, spec = self.jobs[gangs[number]]
            self.jobs[gangs[number]] = at, replace(spec, run=RunTerms(spec.run_s / 3), eviction=_MAY_END)
        else:
            at, job = self.batch[number - len(gangs)]
            self.batch[number - len(gangs)] = at, replace(job, run=RunTerms(job.run_s / 3), eviction=_MAY_END)

    def _terms(self, run_s: float) -> RunTerms:
        exact = run_s + SLACK_S
        terms = RunTerms(exact), RunTerms(None, exact)
        wrong = RunTerms(run_s / 3), RunTerms(4 * run_s), RunTerms()
        return self._dice.choice(terms if self._steady else (*terms, *wrong))


def _job(
    name: str, size: int, gpus: int, run_s: float, terms: RunTerms, topology: Topology, priority: int, created: float
) -> BatchJob:
    key, uid = GroupKey("default", f"job-{name}"), f"{name}.1"
    group = GroupRef(key.name, Dialect.ANNOTATION, size)
    amounts = requests(gpus)
    template = Pod("", "default", name, amounts, created=created, priority=priority, owner=uid, topology=topology)
    podset = PodSet(replace(template, group=group), size, size, indexed=True)
    return BatchJob(key, uid, (podset,), run_s=run_s, ttl_s=20.0, run=terms, backoff_limit=100)
