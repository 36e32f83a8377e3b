"""Volcano's Queues as one tree: what each may use and deserves, whose turn it is, and which reclaims from which."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from fractions import Fraction
from random import Random
from typing import Any

import pytest

from policies.model.queues import VOLCANO, ClusterQueue, Cohort, Stop, VolcanoQueue
from policies.order import Drf, FairSharing, Proportion
from policies.preemption.allowed import Why
from policies.preemption.candidates import Candidate, Request, Unit
from policies.quota.flavors import Fit
from policies.quota.parts import PodSetRequest
from policies.quota.proportion import Deserved, deserve
from policies.quota.shares import QueueOrder, share_of
from policies.quota.tree import QuotaNode, QuotaTree
from policies.quota.volcano import FLAVOR, from_volcano, misplaced
from policies.statement import Statement
from tests.conformance.preemption import World as Evictions
from tests.conformance.preemption import decide as victims
from tests.conformance.quota import Admitted, Incoming, World, decide

GPU = "nvidia.com/gpu"
WHAT = (FLAVOR.name, GPU)


def queue(name: str, weight: int = 1, parent: str = "", **facts: Any) -> VolcanoQueue:
    """The amounts are of GPUs."""
    for field in ("capability", "deserved", "guarantee"):
        facts |= {field: {GPU: facts[field]}} if field in facts else {}
    return VolcanoQueue(name, Fraction(weight), parent=parent, **facts)


def built(total: int, *queues: VolcanoQueue) -> tuple[list[ClusterQueue], list[Cohort]]:
    converted = from_volcano(queues, {GPU: total, "cpu": 1000 * total})
    return [item for item in converted if isinstance(item, ClusterQueue)], [
        item for item in converted if isinstance(item, Cohort)
    ]


def world(total: int, *queues: VolcanoQueue, order: QueueOrder | None = None, **used: int) -> World:
    cluster_queues, cohorts = built(total, *queues)
    admitted = [Admitted(VOLCANO + name, {WHAT: much}) for name, much in used.items()]
    return World(cluster_queues, cohorts, {FLAVOR.name: FLAVOR}, admitted, order=order)


def gangs(queue: str, *gpus: int, since: float = 0.0) -> list[Incoming]:
    """Each of one pod."""
    return [
        Incoming(f"{queue}-{at}", VOLCANO + queue, [PodSetRequest("main", 1, {GPU: much})], since=since + at)
        for at, much in enumerate(gpus)
    ]


def started(world: World, *some: Incoming) -> list[str]:
    return [decision.workload.uid for decision in decide(world, some) if decision.assignment.fit is Fit.FITS]


def deserved(total: int, asked: dict[str, int], *queues: VolcanoQueue) -> dict[str, int]:
    tree = QuotaTree(*built(total, *queues))
    shares = Deserved(tree, {VOLCANO + name: {GPU: much} for name, much in asked.items()})
    return {name: int(shares(tree.queues[VOLCANO + name], GPU)) for name in asked}


def test_by_weight_of_what_the_nodes_have_as_in_volcano() -> None:
    """The examples of its plugin ``proportion``."""
    by_weight = queue("a", 1), queue("b", 2), queue("c", 3)
    assert deserved(72, {"a": 100, "b": 100, "c": 12}, *by_weight) == {"a": 20, "b": 40, "c": 12}
    assert deserved(72, {"a": 100, "b": 100}, queue("a", capability=16), queue("b")) == {"a": 16, "b": 56}
    assert deserved(72, {"a": 0, "b": 72}, queue("a", guarantee=24), queue("b")) == {"a": 24, "b": 48}


def test_what_is_configured_is_deserved_and_below_a_parent_its_part_is_divided() -> None:
    assert deserved(72, {"a": 72, "b": 72}, queue("a", deserved=60), queue("b")) == {"a": 60, "b": 12}
    nested = queue("lab", deserved=24), queue("a", 1, "lab"), queue("b", 2, "lab"), queue("c")
    assert deserved(72, {"a": 72, "b": 72, "c": 72}, *nested) == {"a": 8, "b": 16, "c": 48}


def test_a_queue_uses_no_more_than_its_capability_and_all_that_others_leave() -> None:
    here = world(72, queue("a", capability=16), queue("b"))
    assert started(here, *gangs("a", 8, 8, 8), *gangs("b", 72, since=9)) == ["a-0", "a-1", "b-0"]
    (refused,) = [decision for decision in decide(here, gangs("a", 24)) if decision.assignment.fit is not Fit.FITS]
    assert refused.assignment.text.startswith(f"queue {VOLCANO}a can have 16 {GPU}")


def test_the_nodes_are_no_quota_unless_some_of_them_are_guaranteed_to_somebody() -> None:
    """Nodes may be gone, or about to be made."""
    assert started(world(8, queue("a")), *gangs("a", 16)) == ["a-0"]
    guaranteed = world(72, queue("a"), queue("b", guarantee=24))
    assert started(guaranteed, *gangs("a", 48, 1), *gangs("b", 24, since=9)) == ["b-0", "a-0"]
    assert started(world(72, queue("root", capability=16), queue("a")), *gangs("a", 16, 1)) == ["a-0"]


@pytest.mark.parametrize("order", [Proportion(), Drf(), FairSharing()])
def test_the_queue_that_has_used_least_by_its_weight_is_served_first(order: QueueOrder) -> None:
    waiting = *gangs("big", 8, 8, 8), *gangs("small", 8, 8, since=60)
    here = world(72, queue("big", 1), queue("small", 1), order=order, big=32)
    assert started(here, *waiting)[:2] == ["small-0", "small-1"]
    heavy = world(72, queue("big", 9), queue("small", 1), order=order, big=32, small=16)
    assert started(heavy, *waiting)[:2] == ["big-0", "big-1"]
    assert started(replace(here, order=None), *waiting)[:2] == ["big-0", "big-1"]


def test_shares_are_counted_of_what_the_nodes_have_also_where_that_is_no_limit() -> None:
    tree = QuotaTree(*built(72, queue("a"), queue("b")))
    tree.use(f"{VOLCANO}a", {WHAT: 18})
    assert share_of(tree.queues[f"{VOLCANO}a"]).value == 250
    assert tree.lacks(f"{VOLCANO}a", {WHAT: 99}) == {}


def test_a_closed_queue_and_one_that_is_not_reclaimable() -> None:
    cluster_queues, _ = built(8, queue("a", closed=True), queue("b", reclaimable=False))
    assert [
        (cluster_queue.title, cluster_queue.stop, cluster_queue.reclaimable) for cluster_queue in cluster_queues
    ] == [
        ("Queue a", Stop.HOLD, True),
        ("Queue b", Stop.NONE, False),
    ]


def test_queues_whose_parents_are_wrong_are_in_the_root() -> None:
    wrong = queue("a", parent="b"), queue("b", parent="a"), queue("c", parent="a"), queue("d", parent="ghost")
    assert misplaced([*wrong, queue("e", parent="root"), queue("f", parent="e")]) == {
        "a": "its parents are below each other: a, b",
        "b": "its parents are below each other: a, b",
        "c": "its parents are below each other: a, b",
        "d": "there is no Queue ghost, which is its parent",
    }
    assert {cluster_queue.cohort for cluster_queue in built(8, *wrong)[0]} == {f"{VOLCANO}root"}


def evicted(request: Request, *queues: VolcanoQueue, **used: int) -> dict[str, Why] | None:
    """``used``: GPUs of one workload in each of these."""
    cluster_queues, cohorts = built(72, *queues)
    there = [
        Candidate(f"in-{name}", Unit.WORKLOAD, 9, 0.0, queue=VOLCANO + name, usage={WHAT: much})
        for name, much in used.items()
    ]
    gone = victims(Evictions(there, cluster_queues, cohorts), request).victims
    return None if gone is None else dict(gone)


def wants(queue: str, gpus: int, priority: int = 0) -> Request:
    return Request("new", (), 0, priority, queue=VOLCANO + queue, usage={WHAT: gpus})


def test_what_a_queue_deserves_it_takes_back_from_those_above_theirs() -> None:
    pair = queue("a", deserved=48, guarantee=1), queue("b", deserved=24)
    assert evicted(wants("a", 48), *pair, b=71) == {"in-b": Why.RECLAIM}
    assert evicted(wants("a", 49), *pair, b=71) is None  # more than it deserves
    assert evicted(wants("a", 49), *pair, b=24) is None  # the other one has no more than it deserves
    weights = queue("a", deserved=48, guarantee=1), queue("b")
    assert evicted(wants("a", 48), *weights, b=71) == {"in-b": Why.RECLAIM}  # which says nothing that it deserves


def test_what_a_queue_does_not_speak_of_keeps_nobody_from_taking_back_the_rest() -> None:
    request = replace(wants("a", 8), usage={WHAT: 8, (FLAVOR.name, "cpu"): 9})
    others = queue("b", deserved=24), queue("c", guarantee=1)
    assert evicted(request, queue("a", deserved=48), *others, b=71) == {"in-b": Why.RECLAIM}
    assert evicted(request, queue("a"), *others, b=71) is None  # it speaks of nothing


@pytest.mark.parametrize("block", range(5))
def test_what_is_deserved_by_weight_becomes_a_queues_own_and_changes_no_limit(block: int) -> None:
    for seed in range(60):
        chance = Random(f"own/{block}/{seed}")
        total, queues = chance.randint(20, 80), [*some_queues(chance)]
        tree = QuotaTree(*built(total, *queues))
        for name in tree.queues:
            tree.use(name, {WHAT: chance.randrange(20)})
        requested = {name: {GPU: node.used[WHAT] + chance.randrange(20)} for name, node in tree.queues.items()}
        shares, statement = Deserved(tree, requested), Statement(tree=tree)
        stated = {VOLCANO + volcano_queue.name for volcano_queue in queues if volcano_queue.deserved}
        nodes = [*tree.queues.values(), *tree.cohorts.values()]
        before = [_limits(node) for node in nodes]
        fixed = [node.name in stated or node.parent is None for node in nodes]
        own = [max(node.local(WHAT), int(shares(node, GPU))) for node in nodes]
        expected = [now[0] if stays else more for now, stays, more in zip(before, fixed, own, strict=True)]
        with statement.open():
            deserve(statement, next(iter(tree.queues)), requested)
            after = [_limits(node) for node in nodes]
            assert [limits[0] for limits in after] == expected, (block, seed)
            assert [limits[1:] for limits in after] == [limits[1:] for limits in before], (block, seed)
        assert [_limits(node) for node in nodes] == before, (block, seed)


def _limits(node: QuotaNode) -> tuple[int, ...]:
    """The node's own quota; then what it can use, what it could ever use, and what it does not lend."""
    return node.subtree[WHAT], node.left(WHAT), node.potential(WHAT), node.local(WHAT)


def test_nobody_takes_back_from_a_queue_that_is_not_reclaimable() -> None:
    pair = queue("a", deserved=48, guarantee=1), queue("b", deserved=24, reclaimable=False)
    assert evicted(wants("a", 48), *pair, b=71) is None


def test_within_a_queue_the_priority_decides() -> None:
    only = (queue("a", capability=8),)
    assert evicted(wants("a", 8, priority=10), *only, a=8) == {"in-a": Why.IN_QUEUE}
    assert evicted(wants("a", 8, priority=9), *only, a=8) is None


def some_queues(chance: Random) -> Iterator[VolcanoQueue]:
    """Up to 7, of which some are in others. No guarantee is above a capability, as Volcano's webhook has it."""
    names: list[str] = []
    for at in range(chance.randint(1, 7)):
        amounts: dict[str, int] = {}
        if chance.random() < 0.5:
            amounts["capability"] = chance.randint(8, 40)
        if chance.random() < 0.4:
            amounts["deserved"] = chance.randrange(40)
        if chance.random() < 0.3:
            amounts["guarantee"] = chance.randrange(6)
        yield queue(f"q{at}", chance.randint(1, 4), chance.choice(["", *names]), **amounts)
        names.append(f"q{at}")


@pytest.mark.parametrize("block", range(10))
def test_capabilities_and_guarantees_hold_in_any_tree(block: int) -> None:
    """The final usage is summed over the queues as they are written."""
    for seed in range(60):
        chance = Random(f"{block}/{seed}")
        total, queues = chance.randint(20, 80), [*some_queues(chance)]
        leaves = [leaf.name for leaf in queues if not any(other.parent == leaf.name for other in queues)]
        waiting = [
            replace(gang, uid=f"{gang.uid}-{at}")
            for at in range(30)
            for gang in gangs(chance.choice(leaves), chance.randint(1, 8), since=float(at))
        ]
        order = chance.choice([None, Proportion(), Drf(), FairSharing()])
        used: Counter[str] = Counter()
        parents = {child.name: child.parent for child in queues}
        for decision in decide(world(total, *queues, order=order), waiting):
            name = decision.workload.queue.removeprefix(VOLCANO)
            while name and decision.assignment.fit is Fit.FITS:
                used[name] += decision.assignment.usage[WHAT]
                name = parents[name]
        for limited in queues:
            assert used[limited.name] <= limited.capability.get(GPU, total * 99), (block, seed)
        if any(guaranteed.guarantee.get(GPU) for guaranteed in queues):
            top = [outer for outer in queues if not outer.parent]
            idle = sum(max(0, topmost.guarantee.get(GPU, 0) - used[topmost.name]) for topmost in top)
            assert sum(used[topmost.name] for topmost in top) + idle <= total, (block, seed)
