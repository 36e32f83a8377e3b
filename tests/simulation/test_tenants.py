"""Attacks of one tenant on its neighbours with jobs, in the model of the control plane.

Its pods are all refused, and a neighbour's job that there is room for starts within ten seconds; or it names a
WorkloadPriorityClass, and two jobs do not evict each other in turn. Planted bugs break both.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace
from functools import partial

import pytest

from extender.core.engine import Engine
from extender.core.events import Event, JobSeen
from extender.core.jobs import upkeep
from extender.core.ledger import expected
from extender.core.ledger.creation import FailedCreation
from extender.core.limits import Limits, Preempts
from policies.model import GroupKey
from tests.builders import cluster
from tests.simulation.model.batch import BatchJob
from tests.simulation.model.world import World
from tests.simulation.plants.mutants import Core, hears
from tests.simulation.test_batch import made

PATIENCE_S = 10.0
KNOWN_AFTER_S = 45.0
"""The time of the tenant's first unsuccessful start: nothing could show the failure before."""


def of_tenant(name: str, *, priority: int = 0) -> BatchJob:
    """A job of two whole nodes for which no controller makes pods."""
    job = made(2, name=name)
    podset = replace(job.podsets[0], template=replace(job.podsets[0].template, namespace="tenant", priority=priority))
    return replace(job, key=GroupKey("tenant", name), podsets=(podset,))


class Neighbours:
    """Two nodes, a tenant that submits jobs whenever it likes, and one honest job after the other."""

    def __init__(self, squatters: int = 3) -> None:
        self.world = World(7, cluster("a: 2x8"), Engine)
        self._jobs = 0
        for _ in range(squatters):
            self.squat()

    def squat(self, priority: int = 0) -> None:
        self._jobs += 1
        job = of_tenant(f"job-squat{self._jobs}", priority=priority)
        self.world.controller.blocked[job.key] = None
        self.world.api.set_job(job)

    def let(self, seconds: float) -> None:
        self.world.clock.run(self.world.clock.now + seconds)

    def waits_s(self, name: str) -> float:
        """How long an honest job that comes now waits until its pods run."""
        job = made(2, name=name, run_s=1.0)
        self.world.api.set_job(job)
        began = self.world.clock.now
        while not self.world.api.jobs[job.key].ran and self.world.clock.now < began + 60:
            self.let(0.5)
        return self.world.clock.now - began


def judge() -> None:
    """The promise, whenever the neighbour comes."""
    for offset in (0.0, 2.0, 4.0, 9.0):
        place = Neighbours()
        place.let(KNOWN_AFTER_S + offset)
        place.squat(priority=1000)
        assert place.waits_s("job-honest1") < PATIENCE_S
        place.squat(priority=1000)
        assert place.waits_s("job-honest2") < PATIENCE_S


def test_a_neighbour_starts_within_ten_seconds() -> None:
    judge()


def test_the_first_start_of_a_tenant_keeps_its_room_no_longer_than_for_its_pods_to_come() -> None:
    place = Neighbours()
    place.let(1.0)
    assert place.waits_s("job-honest") < 35.0


def jobs_that_make_no_pods_go_first(patch: pytest.MonkeyPatch) -> None:
    """The line ignores failed creations: older and more urgent jobs come first."""
    patch.setattr(FailedCreation, "go_last", lambda self, namespace: False)
    patch.setattr(FailedCreation, "has_failed", lambda self, key: False)


def new_jobs_of_the_namespace_go_first(patch: pytest.MonkeyPatch) -> None:
    """Only the job that has failed goes last."""
    patch.setattr(FailedCreation, "go_last", lambda self, namespace: False)


def every_start_has_the_full_time(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(FailedCreation, "on_probation", lambda self, namespace: False)


def nobody_is_thought_to_wait(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(upkeep, "others_wait", lambda *_: False)


def probation_is_as_long_as_the_full_time(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(expected, "PROBATION_S", 30.0)


def evictions() -> tuple[int, int]:
    """How often two jobs are evicted in a minute: one with pods of 100, a later one of class 5,000 with pods of 0."""
    world = World(7, cluster("a: 2x8"), partial(Engine, limits=Limits(preemption=Preempts.ON)))
    jobs = [made(2, name="job-victim"), made(2, name="job-other", of_class=5000)]
    urgent = replace(jobs[0].podsets[0], template=replace(jobs[0].podsets[0].template, priority=100))
    jobs[0] = replace(jobs[0], podsets=(urgent,))
    for job in jobs:
        world.api.set_job(job)
        world.clock.run(world.clock.now + 15)
    world.clock.run(world.clock.now + 45)
    victim, other = (len(world.api.jobs[job.key].evicted) for job in jobs)
    return victim, other


def test_the_job_of_the_higher_class_stays() -> None:
    assert evictions() == (1, 0)


@hears
def jobs_run_by_the_priority_of_their_pods(event: Event, core: Core) -> Iterable[Event]:
    """Jobs wait by the priority of their class, and run by another one."""
    if isinstance(event, JobSeen) and not event.job.suspended:
        event = JobSeen(replace(event.job, of_class=None))
    yield event


def test_a_priority_that_changes_with_the_start_is_found() -> None:
    with pytest.MonkeyPatch.context() as patch:
        jobs_run_by_the_priority_of_their_pods(patch)
        assert evictions() > (1, 0)


@pytest.mark.parametrize(
    "plant",
    [
        jobs_that_make_no_pods_go_first,
        new_jobs_of_the_namespace_go_first,
        every_start_has_the_full_time,
        nobody_is_thought_to_wait,
        probation_is_as_long_as_the_full_time,
    ],
)
def test_planted_bugs_are_found(plant: Callable[[pytest.MonkeyPatch], None]) -> None:
    with pytest.MonkeyPatch.context() as patch:
        plant(patch)
        with pytest.raises(AssertionError):
            judge()
