"""A workload of a queue may evict some workloads of its own queue and of others in its cohort."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from typing import Any
from unittest.mock import Mock

import pytest

from policies.model import Topology
from policies.model.queues import ClusterQueue, Cohort, Evicts, FairStrategy, Preemption, Quota, ResourceGroup
from policies.preemption import reclaim
from policies.preemption.allowed import Why
from policies.preemption.candidates import Candidate, Held, Limits, Request, Unit
from policies.quota.shares import share_of
from tests.builders import busy, cluster, gang, requests, snapshot
from tests.conformance.preemption import World, decide
from tests.policies.quota.worlds import GPU, quota

ANY = Preemption(Evicts.LOWER, Evicts.ANY)


def has(name: str, queue: str, gpus: int, priority: int = 0, created: float = 0.0, **facts: Any) -> Candidate:
    return Candidate(name, Unit.WORKLOAD, priority, created, queue=queue, usage={GPU: gpus}, **facts)


def wants(queue: str, gpus: int, priority: int = 0, since: float = 0.0) -> Request:
    return Request("new", (), 0, priority, since=since, queue=queue, usage={GPU: gpus})


def evicted(world: World, request: Request) -> dict[str, Why] | None:
    victims = decide(world, request).victims
    return None if victims is None else dict(victims)


def queue(name: str, nominal: int, rules: Preemption = ANY, **facts: Any) -> ClusterQueue:
    borrowing = facts.pop("borrowing", None)
    return ClusterQueue(name, quota(nominal, borrowing), preemption=rules, **{"cohort": "all", **facts})


def test_lent_quota_is_taken_back_from_the_borrower_alone() -> None:
    queues = [queue("research", 8, borrowing=8), queue("production", 16)]
    own, borrowed = has("own", "research", 8, 900), has("borrowed", "research", 8, 100)
    busy_one = has("production-1", "production", 8)
    assert evicted(World([own, borrowed, busy_one], queues), wants("production", 8)) == {"borrowed": Why.RECLAIM}


def test_what_comes_back_has_to_be_enough_and_no_more_is_taken() -> None:
    queues = [queue("research", 8), queue("production", 16)]
    there = [has(f"r{at}", "research", 4, at) for at in range(6)]
    assert evicted(World(there, queues), wants("production", 8)) == {"r0": Why.RECLAIM, "r1": Why.RECLAIM}
    assert evicted(World(there, queues), wants("production", 17)) is None


def test_what_a_surplus_uses_that_is_too_young_to_go_alone_comes_back_with_the_rest_of_it() -> None:
    rest = has("r", "research", 4, started=0.0)
    surplus = replace(rest, name="r-surplus", unit=Unit.SURPLUS, workload="r", started=9.0)
    world = World([rest, surplus], [queue("research", 0), queue("production", 8)], limits=Limits(9.0, 5.0))
    assert evicted(world, wants("production", 8)) == {"r": Why.RECLAIM}


def test_nobody_is_evicted_while_a_queue_uses_its_own() -> None:
    queues = [queue("a", 8), queue("b", 8)]
    decision = decide(World([has("a1", "a", 8), has("b1", "b", 8, 5)], queues), wants("b", 1, 3))
    assert decision.victims is None
    assert "1 candidate may not: withinClusterQueue of queue b is LowerPriority" in decision.text


@pytest.mark.parametrize(
    ("policy", "priority", "since", "gone"),
    [
        (Evicts.NEVER, 9, 0, None),
        (Evicts.LOWER, 9, 0, ["low"]),
        (Evicts.LOWER, 1, 0, None),
        (Evicts.LOWER_OR_NEWER, 1, 5, ["low"]),
        (Evicts.LOWER_OR_NEWER, 1, 10, None),
        (Evicts.LOWER_OR_NEWER, 1, 20, None),
        (Evicts.LOWER_OR_NEWER, 9, 20, ["low"]),
    ],
)
def test_within_a_queue(policy: Evicts, priority: int, since: float, gone: list[str] | None) -> None:
    world = World([has("low", "q", 4, 1, 10), has("high", "q", 4, 10, 10)], [queue("q", 8, Preemption(policy))])
    victims = evicted(world, wants("q", 4, priority, since))
    assert (victims and list(victims)) == gone
    assert victims is None or set(victims.values()) == {Why.IN_QUEUE}


@pytest.mark.parametrize(
    ("policy", "priority", "gone"),
    [(Evicts.NEVER, 9, None), (Evicts.LOWER, 9, ["b1"]), (Evicts.LOWER, 5, None), (Evicts.ANY, 0, ["b1"])],
)
def test_reclaim_within_the_cohort(policy: Evicts, priority: int, gone: list[str] | None) -> None:
    queues = [queue("a", 8, Preemption(reclaim=policy)), queue("b", 0)]
    victims = evicted(World([has("b1", "b", 8, 5)], queues), wants("a", 8, priority))
    assert (victims and list(victims)) == gone


def test_whom_the_threshold_keeps_is_told() -> None:
    rules = Preemption(Evicts.LOWER, Evicts.ANY, Evicts.LOWER, 1)
    world = World([has("low", "b", 8, 2), has("own", "a", 4, 9)], [queue("a", 4, rules), queue("b", 4)])
    text = decide(world, wants("a", 4, 5)).text
    assert text.endswith(
        "1 candidate may not if it has to borrow: borrowWithinCohort.maxPriorityThreshold of queue a is 1"
    )
    lower = replace(world, running=[has("low", "b", 8, 2), has("own", "a", 4, 9)], fair=(FairStrategy.FINAL,))
    assert "maxPriorityThreshold" not in decide(lower, wants("a", 4, 5)).text


@pytest.mark.parametrize(
    ("borrow", "threshold", "priority", "gone"),
    [
        (Evicts.NEVER, None, 9, None),
        (Evicts.LOWER, None, 9, {"b1": Why.WHILE_BORROWING}),
        (Evicts.LOWER, 4, 9, None),
        (Evicts.LOWER, 5, 9, {"b1": Why.WHILE_BORROWING}),
        (Evicts.LOWER, None, 5, None),
    ],
)
def test_borrowing_within_the_cohort(
    borrow: Evicts, threshold: int | None, priority: int, gone: dict[str, Why] | None
) -> None:
    rules = Preemption(Evicts.LOWER, Evicts.ANY, borrow, threshold)
    queues = [queue("a", 4, rules), queue("b", 0), queue("idle", 4)]
    assert evicted(World([has("b1", "b", 8, 5)], queues), wants("a", 8, priority)) == gone


def test_a_queue_that_may_not_borrow_gives_up_its_own_for_what_it_takes_back() -> None:
    queues = [queue("a", 8, ANY), queue("b", 0), queue("c", 4)]
    there = [has("a1", "a", 4, 1), has("b1", "b", 8, 0)]
    assert evicted(World(there, queues), wants("a", 8, 9)) == {"a1": Why.IN_QUEUE, "b1": Why.RECLAIM}


@pytest.mark.parametrize(
    ("memory", "gone"),
    [(4, {"b1": Why.RECLAIM}), (5, {"a1": Why.IN_QUEUE})],
)
def test_who_borrows_what_is_free_takes_nothing_back_beside_it(memory: int, gone: dict[str, Why]) -> None:
    """Queue b has borrowed GPUs of a. A workload of a would have to borrow memory, which is free, as well."""
    has_both = (ResourceGroup((GPU[1], "memory"), ((GPU[0], {GPU[1]: Quota(8), "memory": Quota(4)}),)),)
    queues = [replace(queue(name, 0), groups=has_both) for name in "ab"]
    there = [has("a1", "a", 4, 1), has("b1", "b", 8, 0), has("b2", "b", 4, 9)]
    request = replace(wants("a", 4, 9), usage={GPU: 4, (GPU[0], "memory"): memory})
    assert evicted(World(there, queues), request) == gone


def test_a_queue_that_is_not_reclaimable_keeps_what_it_borrows() -> None:
    queues = [queue("a", 8), queue("b", 0, reclaimable=False)]
    decision = decide(World([has("b1", "b", 8)], queues), wants("a", 8))
    assert decision.victims is None
    assert "its queue is not reclaimable" in decision.text


def test_workloads_of_another_cohort_are_no_candidates() -> None:
    queues = [queue("a", 4), queue("b", 8, cohort="others")]
    decision = decide(World([has("b1", "b", 8)], queues), wants("a", 8, 9))
    assert decision.victims is None
    assert "its queue is not in the cohort" in decision.text


def test_a_cohort_within_its_own_quota_keeps_what_it_uses() -> None:
    cohorts = [Cohort("left", "all", quota(8)), Cohort("right", "all", quota(8))]
    queues = [queue("a", 0, cohort="left"), queue("b", 0, cohort="right"), queue("c", 0, cohort="right")]
    there = [has("b1", "b", 8), has("a1", "a", 4)]
    assert evicted(World(there, queues, cohorts), wants("a", 8)) is None
    over = [has("b1", "b", 8, 1), has("c1", "c", 4)]
    assert evicted(World(over, queues, cohorts), wants("a", 8)) == {"c1": Why.RECLAIM}


FINAL, INITIAL = (FairStrategy.FINAL,), (FairStrategy.INITIAL,)
BOTH = FINAL + INITIAL


@pytest.mark.parametrize(
    ("strategies", "gpus", "gone"),
    [(FINAL, 4, ["b1"]), (FINAL, 7, None), (INITIAL, 7, ["b1"]), (BOTH, 7, ["b1"]), (INITIAL, 9, None), ((), 4, None)],
)
def test_fair_sharing_compares_the_shares(
    strategies: tuple[FairStrategy, ...], gpus: int, gone: list[str] | None
) -> None:
    queues = [queue("a", 0), queue("b", 0), queue("idle", 9)]
    there = [has("b1", "b", 4, 0), has("b2", "b", 4, 1), has("pad", "idle", 1)]
    if gpus > 4:
        there = [has("b1", "b", 8, 0), has("pad", "idle", 1)]
    victims = evicted(World(there, queues, fair=strategies), wants("a", gpus))
    assert (victims and list(victims)) == gone
    assert victims is None or set(victims.values()) == {Why.FAIR}


def test_with_fair_sharing_who_takes_back_its_own_may_borrow_what_is_free_beside_it() -> None:
    """Queue a borrows free GPUs, and so has a larger share than b would have; but it does not borrow memory."""
    has_both = (ResourceGroup((GPU[1], "memory"), ((GPU[0], {GPU[1]: Quota(4), "memory": Quota(1)}),)),)
    queues = [replace(queue(name, 0), groups=has_both) for name in "ab"]
    memory = GPU[0], "memory"
    there = [has("a1", "a", 2), replace(has("b1", "b", 0, 9), usage={memory: 2})]
    request = replace(wants("a", 4, 5), usage={GPU: 4, memory: 1})
    assert evicted(World(there, queues, fair=FINAL), request) == {"b1": Why.RECLAIM}


def test_of_candidates_that_are_alike_shares_are_worked_out_once(monkeypatch: pytest.MonkeyPatch) -> None:
    spy = Mock(side_effect=share_of)
    monkeypatch.setattr(reclaim, "share_of", spy)
    queues = [queue("a", 0), queue("b", 0), queue("idle", 200)]
    there = [has(f"{name}{at}", name, 1) for name in "ab" for at in range(100)]
    assert evicted(World(there, queues, fair=BOTH), wants("a", 2)) is None
    assert spy.call_count < 20


@pytest.mark.parametrize(
    ("used", "wanted", "saturation", "why"),
    [
        (4, 2, None, Why.WHILE_BORROWING),
        (4, 2, 1, None),
        (4, 1, 1, Why.WHILE_BORROWING),
        (4, 1, 2, None),
        (0, 4, 100, Why.RECLAIM),
    ],
    ids=["no such rule", "150 % of 150 %", "125 % of 150 %", "twice 125 % of 150 %", "its own"],
)
def test_by_saturation_nobody_evicts_for_a_queue_that_is_as_full(
    used: int, wanted: int, saturation: int | None, why: Why | None
) -> None:
    rules = Preemption(Evicts.LOWER, Evicts.ANY, Evicts.LOWER)
    queues = [queue("a", 4, rules), queue("b", 8, rules), queue("idle", 4)]
    there = [has("a1", "a", used, 9), has("b1", "b", 16 - used, 0)]
    world = World(there, queues, saturation=None if saturation is None else Fraction(saturation))
    assert evicted(world, wants("a", wanted, 9)) == ({"b1": why} if why else None)


def test_victims_free_the_quota_and_the_nodes() -> None:
    queues = [queue("research", 8, borrowing=8), queue("production", 24)]
    amounts = requests(8, 0)

    def on(name: str, node: str, priority: int) -> Candidate:
        return has(name, "research", 8, priority, claims=(Held(node, amounts),))

    # The cheapest of the borrowers is where production has no use for the room.
    there = [on("r0", "a-0", 0), on("r1", "b-0", 1), on("r2", "b-1", 2)]
    nodes = snapshot(cluster("a: 2x8", "b: 2x8"), *busy("a-0 b-0 b-1 a-1", 8))
    pods = [replace(pod, topology=Topology(required="clique")) for pod in gang("new", 2, gpus=8, cpu=0)]
    request = replace(wants("production", 16), pods=pods, needed=2)
    assert evicted(World(there, queues, snapshot=nodes), request) == {"r1": Why.RECLAIM, "r2": Why.RECLAIM}


def test_who_is_in_no_queue_gives_way_by_priority_where_nodes_are_lacking() -> None:
    nodes = snapshot(cluster("a: 2x8"), *busy("a-0 a-1", 8))
    free = Candidate("free", Unit.WORKLOAD, claims=(Held("a-0", requests(8, 0)),))
    equal = Candidate("equal", Unit.WORKLOAD, 5, claims=(Held("a-1", requests(8, 0)),))
    wanted = replace(wants("a", 8, 5), pods=gang("new", 1, gpus=8, cpu=0), needed=1)
    world = World([free, equal], [queue("a", 8), queue("b", 8)], snapshot=nodes)
    assert evicted(world, wanted) == {"free": Why.PRIORITY}
    assert evicted(world, replace(wanted, priority=6, needed=2, pods=gang("new", 2, gpus=8, cpu=0))) == {
        "free": Why.PRIORITY,
        "equal": Why.PRIORITY,
    }


def test_whoever_goes_for_quota_is_enough_where_its_room_is() -> None:
    """If only nodes were short, a pod of a lower priority in another clique would be the victim."""
    own = has("own", "q", 8, 2, claims=(Held("b-0", requests(8, 0)),))
    pod = Candidate("pod", Unit.POD, 1, claims=(Held("a-0", requests(8, 0)),))
    pods = [replace(member, topology=Topology(required="clique")) for member in gang("new", 2, gpus=1, cpu=0)]
    request = replace(wants("q", 2, 10), pods=pods, needed=2)
    nodes = snapshot(cluster("a: 1x8", "b: 1x8"), *busy("a-0 b-0", 8))
    world = World([own, pod], [queue("q", 8)], snapshot=nodes)
    assert evicted(world, request) == {"own": Why.IN_QUEUE}


def test_whoever_may_not_go_makes_no_domain_the_better_one() -> None:
    """In clique a, a workload of the lowest priority has room, and its queue does not borrow."""
    stays = has("stays", "within", 4, 0, claims=(Held("a-0", requests(4, 0)),))
    high = has("high", "borrows", 4, 2, claims=(Held("a-0", requests(4, 0)),))
    low = has("low", "borrows", 4, 1, claims=(Held("b-0", requests(4, 0)),))
    fixed = has("fixed", "borrows", 4, 9, claims=(Held("b-0", requests(4, 0)),))
    pods = [replace(pod, topology=Topology(required="clique")) for pod in gang("new", 1, gpus=4, cpu=0)]
    queues = [queue("own", 8, Preemption(Evicts.LOWER, Evicts.LOWER)), queue("within", 8), queue("borrows", 2)]
    nodes = snapshot(cluster("a: 1x8", "b: 1x8"), *busy("a-0 b-0", 8))
    world = World([stays, high, low, fixed], [*queues, queue("idle", 16)], snapshot=nodes)
    assert evicted(world, replace(wants("own", 4, 3), pods=pods, needed=1)) == {"low": Why.RECLAIM}


def test_quota_is_taken_back_from_whoever_has_no_room_that_is_of_use() -> None:
    """The required clique is free, and the node of the victim is too small."""
    small = has("small", "q", 2, 1, claims=(Held("c-0", requests(2, 0)),))
    pods = [replace(pod, topology=Topology(required="clique")) for pod in gang("new", 2, gpus=4, cpu=0)]
    nodes = snapshot(cluster("a: 2x8", "b: 1x4", "c: 1x2"), *busy("c-0", 2))
    world = World([small], [queue("q", 8)], snapshot=nodes)
    request = replace(wants("q", 8, 10), pods=pods, needed=2)
    assert evicted(world, request) == {"small": Why.IN_QUEUE}
    wider = [replace(pod, topology=Topology()) for pod in pods]
    assert evicted(world, replace(request, pods=wider)) == {"small": Why.IN_QUEUE}
