"""Nonsense in the input is a ValueError that says what to do, in both decisions; a lack of room is a reason."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction
from typing import Any

import pytest

from policies.model import Pod
from policies.model.queues import (
    ClusterQueue,
    Cohort,
    Evicts,
    Fungibility,
    Preemption,
    Quota,
    ResourceFlavor,
    ResourceGroup,
    Stop,
    Strategy,
)
from policies.preemption.candidates import Candidate, Held, Limits, Request, Unit
from policies.quota.flavors import Fit
from policies.quota.parts import PodSetRequest
from tests.conformance import preemption as eviction
from tests.conformance.offers import offers
from tests.conformance.quota import Admitted, Incoming, World, decide

GPU = "nvidia.com/gpu"
NAN = float("nan")
HUGE = 1 << 200


def group(quota: Any = Quota(8), *covered: str, flavor: str = "h100") -> ResourceGroup:  # noqa: B008
    return ResourceGroup(covered or (GPU,), ((flavor, {GPU: quota}),))


def queue(name: str = "q", *groups: ResourceGroup, **facts: Any) -> ClusterQueue:
    return replace(ClusterQueue(name, groups or (group(),), "all"), **facts)


def wants(count: int = 1, requests: Any = None, **facts: Any) -> Incoming:
    podsets = [PodSetRequest("main", count, {GPU: 1} if requests is None else requests)]
    return replace(Incoming("w", "q", podsets), **facts)


def world(*queues: ClusterQueue, **facts: Any) -> World:
    return replace(World(queues or [queue()], flavors={"h100": ResourceFlavor("h100")}), **facts)


BAD: dict[str, tuple[World, list[Incoming], str]] = {
    "half a device": (world(queue("q", group(Quota(1.5)))), [], "give a whole number"),  # type: ignore[arg-type]
    "no quota": (world(queue("q", group(4))), [], "give a Quota"),
    "a quota that is not covered": (world(queue("q", group(Quota(1), "cpu"))), [], "name it in covered"),
    "two queues of a name": (world(queue(), queue()), [], "queue q is there twice"),
    "two cohorts of a name": (world(cohorts=[Cohort("c"), Cohort("c")]), [], "cohort c is there twice"),
    "a weight that is no number": (world(queue(weight=NAN)), [], "give a finite number"),
    "a negative weight": (world(cohorts=[Cohort("c", weight=Fraction(-1))]), [], "give 0 or more"),
    "a policy as text": (world(queue(preemption=Preemption("Never"))), [], "give one of NEVER"),  # type: ignore[arg-type]
    "a strategy as text": (world(queue(strategy="StrictFIFO")), [], "give one of STRICT"),
    "a search as text": (
        world(queue(fungibility=Fungibility(when_can_borrow="TryNextFlavor"))),  # type: ignore[arg-type]
        [],
        "give one of STOP",
    ),
    "borrowing from anybody": (world(queue(preemption=Preemption(borrow=Evicts.ANY))), [], "give Never or Lower"),
    "negative usage": (world(admitted=[Admitted("q", {("h100", GPU): -1})]), [], "give 0 or more"),
    "usage of no flavor": (world(admitted=[Admitted("q", {GPU: 1})]), [], r"\(flavor, resource\)"),  # type: ignore[dict-item]
    "a flavor by another name": (world(flavors={"a100": ResourceFlavor("h100")}), [], "by its own name"),
    "two workloads of a name": (world(), [wants(), wants()], "workload w is there twice"),
    "two podsets of a name": (
        world(),
        [wants(podsets=[PodSetRequest("main", 1, {}), PodSetRequest("main", 1, {})])],
        "podset main is there twice",
    ),
    "a negative count": (world(), [wants(-1)], "give 0 or more"),
    "a minimum of nobody": (
        world(),
        [wants(podsets=[PodSetRequest("main", 2, {GPU: 1}, minimum=0)])],
        "give 1 or more",
    ),
    "a negative request": (world(), [wants(1, {GPU: -1})], "give 0 or more"),
    "a request in words": (world(), [wants(1, {GPU: "1"})], "give a whole number"),
    "an age that is no number": (world(), [wants(since=NAN)], "give a finite number"),
    "a priority beyond 32 bits": (world(), [wants(priority=1 << 31)], "of 32 bits"),
}


@pytest.mark.parametrize("case", BAD)
def test_the_decision_by_quota_refuses_what_makes_no_sense(case: str) -> None:
    there, incoming, text = BAD[case]
    with pytest.raises(ValueError, match=text):
        decide(there, incoming)


REASONS: dict[str, tuple[World, Incoming, str]] = {
    "negative quota": (
        world(queue("q", group(Quota(-1)))),
        wants(),
        f"queue q: the quota of {GPU} of flavor h100 must not be negative",
    ),
    "negative limit": (
        world(queue("q", group(Quota(1, -1)))),
        wants(),
        f"queue q: the quota of {GPU} of flavor h100 must not be negative",
    ),
    "a resource in two groups": (
        world(queue("q", group(), group(flavor="a100"))),
        wants(),
        f"queue q: resource {GPU} is there twice",
    ),
    "a flavor twice": (
        world(queue("q", ResourceGroup((GPU,), (("h100", {GPU: Quota(1)}), ("h100", {GPU: Quota(2)}))))),
        wants(),
        "queue q: flavor h100 is there twice",
    ),
    "a cohort with a negative quota": (
        world(cohorts=[Cohort("all", "up"), Cohort("up", groups=(group(Quota(-1)),))]),
        wants(),
        f"cohort up: the quota of {GPU} of flavor h100 must not be negative",
    ),
    "a flavor that does not exist": (world(flavors={}), wants(), "flavor h100 does not exist"),
    "one flavor of two that does not exist": (
        world(queue("q", ResourceGroup((GPU,), (("gone", {GPU: Quota(8)}), ("h100", {GPU: Quota(8)}))))),
        wants(),
        "flavor gone does not exist",
    ),
    "a queue that does not exist": (world(), wants(queue="x"), "queue x does not exist"),
    "no flavors": (
        world(queue("q", ResourceGroup((GPU,), ()))),
        wants(),
        "",
    ),
    "a resource that is not covered": (
        world(),
        wants(1, {"cpu": 1}),
        "ClusterQueue q does not cover cpu, which it asks for",
    ),
    "no podsets": (world(), wants(podsets=[]), "it has no podsets"),
    "a stopped queue": (world(queue(stop=Stop.HOLD)), wants(), "queue q is stopped: stopPolicy Hold"),
    "more than there ever is": (
        world(),
        wants(HUGE),
        f"queue q can have 8 {GPU} of flavor h100, and it asks for {HUGE}",
    ),
}


@pytest.mark.parametrize("case", REASONS)
def test_what_cannot_be_had_is_a_reason(case: str) -> None:
    there, incoming, text = REASONS[case]
    (decision,) = decide(there, [incoming])
    if text:
        assert (decision.assignment.fit, decision.assignment.text) == (Fit.NONE, text)
    else:
        assert decision.assignment.fit is Fit.FITS, "a covered resource without quota in any flavor is not limited"


def test_nothing_fits_nothing() -> None:
    assert decide(world(), []) == []
    assert decide(World([]), []) == []
    (decision,) = decide(world(), [wants(0)])
    assert (decision.assignment.fit, decision.assignment.usage) == (Fit.FITS, {})
    (decision,) = decide(world(queue("q", group(Quota(0)))), [wants(1, {"cpu": 0})])
    assert decision.assignment.fit is Fit.FITS, "nothing of what is not covered"


def test_pods_count_where_they_are_covered() -> None:
    pods = ResourceGroup(("pods",), (("any", {"pods": Quota(2)}),))
    there = world(queue("q", group(), pods), flavors={name: ResourceFlavor(name) for name in ("h100", "any")})
    assert [decision.assignment.fit for decision in decide(there, [wants(2)])] == [Fit.FITS]
    assert [decision.assignment.fit for decision in decide(there, [wants(3)])] == [Fit.NONE]


def test_a_strict_queue_is_held_up_by_what_it_does_not_cover() -> None:
    line = [wants(1, {"cpu": 1}), wants(uid="second", since=1.0)]
    assert [decision.assignment.fit for decision in decide(world(queue(strategy=Strategy.STRICT)), line)] == [
        Fit.NONE,
        Fit.NO_CANDIDATES,
    ]


RUNS = Candidate("runs", Unit.WORKLOAD, queue="q", usage={("h100", GPU): 8})
ASKS = Request("new", (), 0, 5, queue="q", usage={("h100", GPU): 8})


def there(*running: Candidate, **facts: Any) -> eviction.World:
    rules = Preemption(within=Evicts.LOWER)
    return replace(eviction.World(running or [RUNS], [queue(preemption=rules)]), **facts)


BAD_EVICTIONS: dict[str, tuple[Callable[[], eviction.World], Request, str]] = {
    "two candidates of a name": (lambda: there(RUNS, RUNS), ASKS, "candidate runs is there twice"),
    "negative usage": (lambda: there(replace(RUNS, usage={("h100", GPU): -1})), ASKS, "give 0 or more"),
    "an age that is no number": (lambda: there(replace(RUNS, created=NAN)), ASKS, "give a finite number"),
    "more pods than it has": (there, replace(ASKS, needed=1), "no more than its 0 pods"),
    "a negative budget": (lambda: there(limits=Limits(budgets={"b": -1})), ASKS, "give 0 or more"),
    "no time": (lambda: there(limits=Limits(NAN)), ASKS, "now is nan"),
    "strategies in words": (lambda: there(fair=("Fair",)), ASKS, "give one of FINAL, INITIAL"),
    "a negative saturation": (lambda: there(saturation=Fraction(-1)), ASKS, "give 0 or more"),
    "a kind in words": (lambda: there(replace(RUNS, unit="gang")), ASKS, "give one of POD"),  # type: ignore[arg-type]
    "more than a node has": (
        lambda: there(replace(RUNS, claims=(Held("a", ((GPU, HUGE),)),))),
        ASKS,
        "give no more than",
    ),
    "pods of that size": (
        there,
        replace(ASKS, pods=[Pod("u", "n", "p", ((GPU, HUGE),))], needed=1),
        "give no more than",
    ),
}


@pytest.mark.parametrize("case", BAD_EVICTIONS)
def test_the_decision_on_preemption_refuses_what_makes_no_sense(case: str) -> None:
    made, request, text = BAD_EVICTIONS[case]
    with pytest.raises(ValueError, match=text):
        eviction.decide(made(), request)


def test_who_is_in_no_queue_that_is_there_evicts_nobody() -> None:
    answer = eviction.decide(there(), replace(ASKS, queue="x"))
    assert (answer.victims, answer.text) == (None, "queue x does not exist")
    ring = [Cohort("all", "other"), Cohort("other", "all")]
    answer = eviction.decide(there(cohorts=ring), ASKS)
    assert (answer.victims, answer.text) == (None, "its cohorts are each other's parents: all, other")


@pytest.mark.parametrize(
    ("made", "text"),
    [
        (there(), ""),
        (
            there(queues=[queue("q", group(Quota(-8)))]),
            f"queue q: the quota of {GPU} of flavor h100 must not be negative",
        ),
        (there(queues=[queue("q", group(), group(flavor="a100"))]), f"queue q: resource {GPU} is there twice"),
        (
            there(cohorts=[Cohort("all", groups=(group(Quota(-1)),))]),
            f"cohort all: the quota of {GPU} of flavor h100 must not be negative",
        ),
        (there(queues=[queue(stop=Stop.DRAIN)]), "queue q is stopped: stopPolicy HoldAndDrain"),
    ],
)
def test_who_is_in_a_queue_that_cannot_be_used_evicts_nobody(made: eviction.World, text: str) -> None:
    answer = eviction.decide(made, ASKS)
    assert (answer.victims, answer.text) == ((None, text) if text else ({"runs": "InClusterQueue"}, answer.text))


def test_nobody_gives_way_in_a_queue_that_contradicts_itself() -> None:
    """All that it uses would count as borrowed."""
    queues = [queue(preemption=Preemption(reclaim=Evicts.ANY)), queue("other", group(), group(flavor="a100"))]
    runs = replace(RUNS, queue="other")
    answer = eviction.decide(there(runs, queues=queues), ASKS)
    assert (answer.victims, "1 candidate may not: queue other" in answer.text) == (None, True)
    given = World(queues, (), {"h100": ResourceFlavor("h100")}, [Admitted("other", runs.usage)])
    (decision,) = decide(replace(given, evictions=offers(there(runs, queues=queues))), [wants(8)])
    assert (decision.assignment.fit, decision.victims) == (Fit.NO_CANDIDATES, {})


def test_a_queue_lacking_a_flavor_admits_nobody_and_goes_on_lending() -> None:
    both = queue("other", ResourceGroup((GPU,), (("gone", {GPU: Quota(8)}), ("h100", {GPU: Quota(8)}))))
    decisions = decide(world(queue(), both), [wants(16), wants(uid="v", queue="other")])
    assert [(decision.workload.uid, decision.assignment.fit) for decision in decisions] == [
        ("w", Fit.FITS),
        ("v", Fit.NONE),
    ]


def test_a_queue_that_contradicts_itself_takes_nothing_from_others() -> None:
    there = world(queue("q", group(Quota(-8))), queue("other", group(Quota(1))))
    first, other = decide(there, [wants(queue="other"), wants(uid="v")])
    assert (first.workload.uid, first.assignment.fit) == ("w", Fit.FITS)
    assert other.assignment.fit is Fit.NONE
