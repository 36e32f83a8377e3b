"""How a workload that waits could be had by preempting, in the decision by quota."""

from __future__ import annotations

from dataclasses import replace

import pytest

from policies.model.queues import ClusterQueue, Evicts, FairStrategy, Preemption, Quota, ResourceFlavor, ResourceGroup
from policies.preemption.candidates import Candidate, Unit
from policies.quota.flavors import Fit
from policies.quota.parts import PodSetRequest
from tests.conformance import preemption as eviction
from tests.conformance.offers import offers
from tests.conformance.quota import Admitted, Decision, Incoming, World, decide

GPU = "nvidia.com/gpu"
RULES = Preemption(Evicts.LOWER, Evicts.ANY)
FLAVORS = {name: ResourceFlavor(name) for name in ("h100", "a100")}


def queue(name: str, rules: Preemption = RULES, cohort: str = "all", **nominal: int) -> ClusterQueue:
    groups = (ResourceGroup((GPU,), tuple((flavor, {GPU: Quota(much)}) for flavor, much in nominal.items())),)
    return ClusterQueue(name, groups, cohort, preemption=rules)


def has(name: str, queue: str, flavor: str, gpus: int, priority: int = 0) -> Candidate:
    return Candidate(name, Unit.WORKLOAD, priority, queue=queue, usage={(flavor, GPU): gpus})


def decided(
    queues: list[ClusterQueue],
    running: list[Candidate],
    *incoming: Incoming,
    fair: tuple[FairStrategy, ...] = (),
) -> list[Decision]:
    evictions = offers(eviction.World(running, queues, fair=fair))
    used = [Admitted(candidate.queue, candidate.usage) for candidate in running]
    return decide(World(queues, flavors=FLAVORS, admitted=used, fair=bool(fair), evictions=evictions), incoming)


def wants(gpus: int, priority: int, queue: str = "a", since: float = 0) -> Incoming:
    return Incoming(f"{queue}-{gpus}", queue, [PodSetRequest("main", gpus, {GPU: 1})], priority, since)


@pytest.mark.parametrize(
    ("gpus", "priority", "fit", "level"),
    [
        (4, 5, Fit.PREEMPT, 0),
        (4, 0, Fit.NO_CANDIDATES, 1),
        (9, 10, Fit.NONE, 0),
        (17, 10, Fit.NONE, 0),
    ],
)
def test_who_would_give_way_in_its_queue(gpus: int, priority: int, fit: Fit, level: int) -> None:
    queues = [queue("a", h100=8), queue("b", h100=8)]
    running = [has("low", "a", "h100", 4), has("high", "a", "h100", 4, 9), has("b1", "b", "h100", 8)]
    (decision,) = decided(queues, running, wants(gpus, priority))
    assert (decision.assignment.fit, decision.assignment.level) == (fit, level)


def test_a_flavor_that_is_taken_back_comes_before_one_for_which_its_own_queue_gives_way() -> None:
    queues = [queue("a", h100=8, a100=8), queue("b", h100=0, a100=0)]
    running = [has("low", "a", "h100", 8), has("b1", "b", "a100", 8)]
    (decision,) = decided(queues, running, wants(8, 5))
    assert decision.assignment.fit is Fit.RECLAIM
    assert decision.assignment.flavors == {"main": {GPU: "a100"}}


def test_with_fair_sharing_who_borrows_may_evict_by_shares() -> None:
    queues = [queue("a", h100=0), queue("b", h100=0), queue("idle", h100=8)]
    running = [has("b1", "b", "h100", 4), has("b2", "b", "h100", 4)]
    (decision,) = decided(queues, running, wants(4, 0), fair=(FairStrategy.FINAL,))
    assert (decision.assignment.fit, decision.assignment.level) == (Fit.RECLAIM, 1)
    (decision,) = decided(queues, running, wants(4, 0))
    assert decision.assignment.fit is not Fit.RECLAIM


def test_what_was_admitted_before_it_counts() -> None:
    queues = [queue("a", h100=8), queue("b", h100=8)]
    running = [has("low", "a", "h100", 8)]
    first, second = decided(queues, running, wants(8, 5), wants(8, 0, "b", 1))
    assert (first.workload.queue, first.assignment.fit) == ("b", Fit.FITS)
    assert (second.workload.queue, second.assignment.fit) == ("a", Fit.PREEMPT)


@pytest.mark.parametrize(("priority", "fit", "counts"), [(5, Fit.PREEMPT, {}), (0, Fit.FITS, {"main": 4})])
def test_all_by_preempting_comes_before_a_part_that_fits(priority: int, fit: Fit, counts: dict[str, int]) -> None:
    partial = Incoming("part", "a", [PodSetRequest("main", 8, {GPU: 1}, minimum=2)], priority)
    (decision,) = decided([queue("a", h100=8)], [has("low", "a", "h100", 4)], partial)
    assert (decision.assignment.fit, decision.assignment.counts) == (fit, counts)


def test_nobody_gives_way_for_a_flavor_without_nodes() -> None:
    """The search finds victims for both resources together, and none for the second one alone."""
    both = (ResourceGroup((GPU, "cpu"), (("h100", {GPU: Quota(2), "cpu": Quota(0)}),)),)
    others = (ResourceGroup((GPU, "cpu"), (("h100", {GPU: Quota(0), "cpu": Quota(4)}),)),)
    queues = [
        ClusterQueue("a", both, "all", preemption=Preemption(Evicts.NEVER, Evicts.ANY, Evicts.LOWER)),
        ClusterQueue("b", others, "all"),
    ]
    running = [Candidate("b1", Unit.WORKLOAD, queue="b", usage={("h100", GPU): 2, ("h100", "cpu"): 4})]
    evictions, used = offers(eviction.World(running, queues)), [Admitted("b", running[0].usage)]
    job = Incoming("job", "a", [PodSetRequest("main", 1, {GPU: 1, "cpu": 1})], 1)
    world = World(queues, (), FLAVORS, used, evictions=evictions)
    (decision,) = decide(world, [job])
    assert (decision.assignment.fit, [*decision.victims]) == (Fit.RECLAIM, ["b1"])
    (decision,) = decide(replace(world, places=lambda _, __: "no nodes"), [job])
    assert (decision.assignment.fit, [*decision.victims]) == (Fit.NO_CANDIDATES, [])
