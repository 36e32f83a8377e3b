"""Seeds with preemption on, and their draws: by dice of their own, so that no other draw shifts."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction

from extender.core.limits import Limits, Preempts
from extender.simulation.chance import Chance
from policies.model import DisruptionBudget, EvictionTerms
from tests.simulation.batch_plan import BatchPlan
from tests.simulation.model.batch import BatchJob
from tests.simulation.model.job_specs import JobSpec
from tests.simulation.model.world import BEGIN_S

Submissions = tuple[tuple[float, JobSpec], ...]
_FIRST, _LATER = (0, 0, 0, 10), (0, 10, 30, 30)
"""The priorities of workloads that come at once, and of the others."""


def has_preemption(seed: int) -> bool:
    """True for one seed in fourteen."""
    return seed % 14 == 0


def with_preemption(limits: Limits, chance: Chance) -> Limits:
    """The limits with preemption.

    Victims get less time than by default, so that its end falls into the time of a run.
    """
    dice = chance.stream("limits of preemption")
    preemption_s, min_runtime_s = dice.choice((20.0, 60.0)), dice.choice((0.0, 0.0, 15.0))
    limits = replace(limits, preemption=Preempts.ON, preemption_s=preemption_s, min_runtime_s=min_runtime_s)
    most = chance.stream("cap of evictions").choice((4, 4, 1, 2))
    return replace(limits, pods_preempt_gangs=True, evictions_per_hour=most)


def budgeted(chance: Chance) -> tuple[DisruptionBudget, ...]:
    """The budgets: in a third of the seeds one counts all pods, and seldom allows the eviction of a whole gang."""
    dice = chance.stream("budgets")
    if dice.random() > 1 / 3:
        return ()
    return (DisruptionBudget("default", "all", (), dice.choice((0, 1, 2, 4))),)


def saturated(chance: Chance) -> Fraction | None:
    """The rule of saturation, in half of the seeds with queues."""
    return chance.stream("saturation").choice((None, None, Fraction(1), Fraction(3, 2)))


def termed(jobs: Submissions, batch: BatchPlan, chance: Chance) -> tuple[Submissions, BatchPlan]:
    """The workloads of which some declare a minimum runtime, in a third of the seeds, whatever the settings say."""
    dice = chance.stream("terms of eviction")
    if dice.random() > 1 / 3:
        return jobs, batch

    def drawn() -> EvictionTerms:
        return EvictionTerms(dice.choice((None, 0.0, 10.0, 40.0)))

    gangs = tuple((at, replace(gang, eviction=drawn())) for at, gang in jobs)
    return gangs, replace(batch, jobs=tuple((at, _templated(job, eviction=drawn())) for at, job in batch.jobs))


def ranked(jobs: Submissions, batch: BatchPlan, chance: Chance) -> tuple[Submissions, BatchPlan]:
    """The same gangs and jobs: some come later than before, and those are more often urgent."""
    dice = chance.stream("who is urgent")

    def drawn(at: float) -> tuple[float, int]:
        at = at or dice.choice((0.0, 10 + 60 * dice.random()))
        return at, dice.choice(_LATER if at else _FIRST)

    gangs, others = [], []
    for at, gang in jobs:
        later, priority = drawn(at) if gang.min_member else (at, gang.priority)
        gangs.append((later, replace(gang, priority=priority)))
    for at, job in batch.jobs:
        later, priority = drawn(at)
        others.append((later, _templated(job, priority=priority, created=BEGIN_S + later)))
    return tuple(gangs), replace(batch, jobs=tuple(others))


def _templated(job: BatchJob, **facts: object) -> BatchJob:
    """The same, with these facts of its pods."""
    podsets = (replace(podset, template=replace(podset.template, **facts)) for podset in job.podsets)  # type: ignore[arg-type]
    return replace(job, podsets=tuple(podsets))
