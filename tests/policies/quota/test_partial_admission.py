"""Partial admission: as many pods as there is quota for, if they are enough."""

from __future__ import annotations

from collections.abc import Sequence
from random import Random

from policies.model.queues import ClusterQueue, ResourceFlavor
from policies.quota.flavors import Assignment, Fit
from policies.quota.partial_admission import most_admitted
from policies.quota.parts import PodSetRequest
from tests.conformance.quota import Decision, Incoming, World, decide
from tests.policies.quota.worlds import GPU, quota

FLAVORS = {GPU[0]: ResourceFlavor(GPU[0])}


def podset(name: str, count: int, minimum: int | None = None) -> PodSetRequest:
    return PodSetRequest(name, count, {GPU[1]: 1}, minimum=minimum)


def decided(nominal: int, *jobs: Sequence[PodSetRequest]) -> list[Decision]:
    world = World([ClusterQueue("q", quota(nominal))], flavors=FLAVORS)
    return decide(world, [Incoming(f"job-{at}", "q", podsets, since=at) for at, podsets in enumerate(jobs)])


def test_as_many_start_as_there_is_quota_for_and_the_rest_is_for_the_next() -> None:
    first, second, third = decided(8, [podset("main", 4, 2)], [podset("main", 6, 2)], [podset("main", 1, 1)])
    assert (first.assignment.fit, first.assignment.counts) == (Fit.FITS, {})
    assert (second.assignment.fit, second.assignment.counts, second.assignment.usage) == (
        Fit.FITS,
        {"main": 4},
        {GPU: 4},
    )
    assert third.assignment.fit is not Fit.FITS


def test_the_first_podsets_have_all_theirs_before_the_others() -> None:
    (decision,) = decided(7, [podset("launcher", 1), podset("workers", 4, 2), podset("others", 4, 1)])
    assert decision.assignment.counts == {"launcher": 1, "workers": 4, "others": 2}


def test_who_cannot_have_the_minimum_waits_for_that() -> None:
    (decision,) = decided(4, [podset("main", 8, 5)])
    assert decision.assignment.fit is Fit.NONE
    assert decision.assignment.text == "queue q can have 4 nvidia.com/gpu of flavor h100, and it asks for 5"


def test_halving_finds_what_trying_one_after_the_other_does() -> None:
    chance = Random(7)
    for _ in range(500):
        extra, limit = chance.randint(1, 40), chance.randint(-1, 50)

        def assign(more: int, limit: int = limit) -> Assignment:
            return Assignment(Fit.FITS if more <= limit else Fit.NONE, level=more)

        count, assignment = most_admitted(extra, assign)
        fitting = [more for more in range(extra) if more <= limit]
        assert count == max(fitting, default=0)
        assert (assignment.fit is Fit.FITS, assignment.level) == (bool(fitting), count)
