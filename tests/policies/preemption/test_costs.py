"""The cheapest of the choices that make the same room is taken, by the costs in their order; some are protected."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from policies.model import Topology
from policies.model.queues import ClusterQueue, Evicts, Preemption
from policies.preemption.allowed import TOO_YOUNG, protects
from policies.preemption.candidates import Candidate, Held, Limits, Request, Unit
from policies.preemption.victims import Choice, Refusal, search
from policies.statement import Statement
from tests.builders import busy, cluster, gang, requests, snapshot
from tests.conformance.preemption import World, decide
from tests.policies.quota.worlds import GPU as WHAT
from tests.policies.quota.worlds import quota

HOUR = 3600
NOW = 1000 * HOUR


def on(nodes: str, unit: Unit = Unit.WORKLOAD, hours: float = 10, priority: int = 0, **facts: Any) -> Candidate:
    """Named after its nodes; it has them whole."""
    since = {"created": NOW - hours * HOUR, "started": NOW - hours * HOUR} | facts
    return Candidate(nodes, unit, priority, claims=tuple(Held(name, requests(8, 0)) for name in nodes.split()), **since)


def evicted(*candidates: Candidate, size: int = 1, required: str | None = None, **limits: Any) -> list[str] | None:
    """The victims for a gang of ``size`` members with 8 GPUs each; every node is full."""
    nodes = cluster("a: 2x8", "b: 2x8", "c: 2x8")
    pods = [replace(pod, topology=Topology(required=required)) for pod in gang("new", size, gpus=8, cpu=0)]
    full = snapshot(nodes, *busy(" ".join(node.name for node in nodes), 8))
    answer = search(Request("new", pods, size, 1000), Statement(full), candidates, Limits(NOW, **limits))
    return [victim.name for victim in answer.victims] if isinstance(answer, Choice) else None


def test_pods_of_no_gang_go_before_any_gang() -> None:
    pods = [on(name, Unit.POD, 500, 900) for name in ("a-0", "a-1")]
    assert evicted(*pods, on("b-0 b-1", hours=0), size=2) == ["a-0", "a-1"]


def test_the_surplus_goes_before_a_whole_workload_and_the_whole_takes_its_surplus_along() -> None:
    surplus, rest = on("a-0", Unit.SURPLUS, workload="a-1"), on("a-1")
    assert evicted(surplus, rest, on("b-0", hours=0)) == ["a-0"]
    assert evicted(surplus, rest, size=2) == ["a-0", "a-1"]
    assert evicted(surplus, rest, on("b-0", priority=1), size=2) == ["a-0", "a-1"]


def test_the_lowest_priority_goes_whatever_it_has_done() -> None:
    assert evicted(on("a-0", hours=900, priority=1), on("b-0", hours=1, priority=2)) == ["a-0"]


def test_the_fewest_device_hours_are_lost_since_the_start_or_a_checkpoint() -> None:
    assert evicted(on("a-0", hours=9), on("b-0", hours=8)) == ["b-0"]
    assert evicted(on("a-0", hours=9, checkpointed=NOW - HOUR), on("b-0", hours=8)) == ["a-0"]
    assert evicted(on("a-0", hours=9, started=None), on("b-0", hours=1)) == ["a-0"]


def test_a_checkpoint_in_the_future_means_that_nothing_is_lost_and_no_less() -> None:
    ahead, now = on("a-0", hours=9, checkpointed=NOW + 900 * HOUR), on("b-0", hours=3, checkpointed=NOW)
    assert evicted(ahead, now) == ["b-0"], "both lose nothing, and it is younger"
    assert evicted(ahead, on("b-0", hours=3)) == ["a-0"]


def test_of_what_loses_equally_much_the_fewest_go() -> None:
    many = [on(name, started=None) for name in ("a-0", "a-1")]
    assert evicted(*many, on("b-0 b-1", started=None), size=2) == ["b-0 b-1"]


def test_the_local_queue_that_has_used_most_gives_way() -> None:
    assert evicted(on("a-0", past=5.0), on("b-0", past=9.0), on("c-0", hours=10.0)) == ["b-0"]
    assert evicted(on("a-0", past=5.0), on("b-0", past=float("inf")), on("c-0", hours=10.0)) == ["b-0"]


def test_no_domain_is_broken_that_need_not_be() -> None:
    here, across = on("b-0 b-1", started=None), on("a-0 c-0", started=None)
    assert evicted(across, here, size=2) == ["b-0 b-1"]
    inside, beside = on("b-0 b-1", started=None), on("a-0 a-1 c-0", started=None)
    assert evicted(beside, inside, size=2, required="clique") == ["b-0 b-1"]


def test_the_youngest_goes() -> None:
    assert evicted(on("a-0", started=None, created=NOW - 9), on("b-0", started=None, created=NOW - 5)) == ["b-0"]


def test_of_one_age_those_that_started_last_go() -> None:
    assert evicted(on("a-0", created=0, started=NOW - 9), on("b-0", created=0, started=NOW - 5)) == ["b-0"]


def test_age_and_start_are_compared_whatever_time_it_is() -> None:
    """A decision on quota alone need not know the time."""
    q = ClusterQueue("q", quota(8), preemption=Preemption(Evicts.LOWER))
    old, late, new = (
        Candidate(name, Unit.WORKLOAD, 0, created, started=started, queue="q", usage={WHAT: 4})
        for name, created, started in (("a", 1.0, 3.0), ("b", 1.0, 4.0), ("c", 2.0, 2.0))
    )
    asks = Request("new", (), 0, 1, queue="q", usage={WHAT: 4})
    assert list(decide(World([old, late], [q]), asks).victims or ()) == ["b"]
    assert list(decide(World([late, new], [q]), asks).victims or ()) == ["c"]


@pytest.mark.parametrize(
    ("facts", "limits"),
    [
        ({"hours": 1}, {"min_runtime_s": 2 * HOUR}),
        ({"hours": 1, "min_runtime_s": 2.0 * HOUR}, {}),
        ({"evictions": 3}, {"evictions_per_hour": 3}),
        ({"budgets": (("web", 1),)}, {"budgets": {"web": 0}}),
        ({"protected": "it waits for room itself"}, {}),
    ],
)
def test_who_is_protected_stays(facts: dict[str, Any], limits: dict[str, Any]) -> None:
    assert evicted(on("a-0", **facts), **limits) is None
    assert evicted(on("a-0", **facts), on("b-0", hours=100, priority=5), **limits) == ["b-0"]


def test_pods_share_what_a_budget_lets_go() -> None:
    pods = [on(name, Unit.POD, budgets=(("web", 1),)) for name in ("a-0", "a-1", "b-0")]
    assert evicted(*pods, size=2, budgets={"web": 1}) is None
    gang_of_two = on("c-0 c-1", priority=9)
    assert evicted(*pods, gang_of_two, size=2, budgets={"web": 1}) == ["c-0 c-1"]
    assert evicted(*pods, size=2, budgets={"web": 2}) == ["a-0", "a-1"]


def test_a_priority_class_that_never_preempts_evicts_nobody() -> None:
    nodes = cluster("a: 1x8")
    request = Request("new", gang("new", 1, cpu=0), 1, 1000, preempts=False)
    refusal = search(request, Statement(snapshot(nodes, *busy("a-0", 8))), [on("a-0")], Limits(NOW))
    assert refusal == Refusal("the preemptionPolicy of its PriorityClass is Never")


def test_who_is_in_no_queue_evicts_by_priority_whatever_queue_the_others_are_in() -> None:
    assert evicted(on("a-0", queue="research"), on("b-0", priority=1, queue="research")) == ["a-0"]


def test_who_has_yet_to_start_is_not_too_young() -> None:
    assert not protects(on("a-0", started=None), Limits(NOW, min_runtime_s=HOUR))


def test_who_has_run_for_its_minimum_to_the_instant_goes() -> None:
    """Rounding of sums and differences of times must not matter: the candidate is not looked at again later."""
    starts = [1000.0 + at * 0.1 for at in range(100)]
    assert any((start + 100.0) - start < 100.0 for start in starts)
    for start in starts:
        candidate = replace(on("a-0"), started=start, min_runtime_s=100.0)
        assert not protects(candidate, Limits(start + 100.0))
        assert protects(candidate, Limits(start + 99.9))


@pytest.mark.parametrize("facts", [{"evictions": 1}, {"budgets": (("pdb", 1),)}, {"protected": "has several budgets"}])
def test_a_workload_does_not_go_whose_surplus_has_to_stay(facts: dict[str, Any]) -> None:
    """Evicting the workload would evict its surplus, too."""
    surplus, rest = on("a-0", Unit.SURPLUS, workload="a-1", **facts), on("a-1")
    limits: dict[str, Any] = {"evictions_per_hour": 1, "budgets": {"pdb": 0}}
    assert evicted(surplus, rest, on("b-0", priority=1), **limits) == ["b-0"]
    assert evicted(surplus, rest, **limits) is None


def test_a_workload_takes_surplus_along_that_is_too_young_to_go_alone() -> None:
    """The room and the budget of the surplus count for the whole workload."""
    surplus, rest = on("a-0", Unit.SURPLUS, hours=1, workload="a-1", budgets=(("pdb", 1),)), on("a-1")
    facts: dict[str, Any] = {"min_runtime_s": 2 * HOUR}
    assert evicted(surplus, rest, size=2, **facts) == ["a-1"]
    assert evicted(surplus, rest, size=2, budgets={"pdb": 0}, **facts) is None


def test_a_budget_that_keeps_what_would_go_along_is_told_of_the_whole() -> None:
    surplus, rest = on("a-0", Unit.SURPLUS, hours=1, workload="a-1", budgets=(("pdb", 1),)), on("a-1")
    full = snapshot(cluster("a: 2x8"), *busy("a-0 a-1", 8))
    limits = Limits(NOW, 2 * HOUR, budgets={"pdb": 0})
    refusal = search(Request("new", gang("new", 2, cpu=0), 2, 1000), Statement(full), [surplus, rest], limits)
    assert isinstance(refusal, Refusal)
    assert "1 candidate may not: PodDisruptionBudget pdb does not let all of its pods go" in refusal.why
    assert f"1 candidate may not: {TOO_YOUNG}" in refusal.why
