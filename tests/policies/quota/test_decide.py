"""A pass over queues: which workloads are admitted, in which order, and why the others wait."""

from __future__ import annotations

from dataclasses import replace
from random import Random

import pytest

from policies.model.queues import ClusterQueue, Cohort, Quota, ResourceFlavor, ResourceGroup, Strategy
from policies.quota.flavors import Fit
from policies.quota.history import History, Sampling
from policies.quota.parts import PodSetRequest
from policies.quota.tree import QuotaTree
from tests.conformance.quota import Admitted, Incoming, World, decide
from tests.policies.quota.worlds import GPU, Oracle, quota, tree

FLAVOR = {GPU[0]: ResourceFlavor(GPU[0])}


def wants(uid: str, queue: str, gpus: int, priority: int = 0, since: float = 0.0, local: str = "") -> Incoming:
    return Incoming(uid, queue, [PodSetRequest("main", gpus, {GPU[1]: 1})], priority, since, local)


def started(world: World, *incoming: Incoming) -> list[str]:
    return [decision.workload.uid for decision in decide(world, incoming) if decision.assignment.fit is Fit.FITS]


def reasons(world: World, *incoming: Incoming) -> dict[str, str]:
    return {
        decision.workload.uid: decision.assignment.text
        for decision in decide(world, incoming)
        if decision.assignment.text
    }


def queue(strategy: Strategy) -> World:
    return World([ClusterQueue("q", quota(8), strategy=strategy)], flavors=FLAVOR)


def test_what_does_not_fit_holds_up_those_behind_it_in_a_strict_queue_only() -> None:
    line = wants("large", "q", 9, since=1), wants("small", "q", 4, since=2)
    assert started(queue(Strategy.BEST_EFFORT), *line) == ["small"]
    assert started(queue(Strategy.STRICT), *line) == []
    assert reasons(queue(Strategy.STRICT), *line) == {
        "large": "queue q can have 8 nvidia.com/gpu of flavor h100, and it asks for 9",
        "small": "large is before it in queue q, which is StrictFIFO",
    }


HOUR = Sampling(3600.0)


def test_priority_goes_before_age_and_past_usage_before_both() -> None:
    line = [wants("old", "q", 4, since=1), wants("high", "q", 4, priority=1, since=2), wants("used", "q", 4, 9, 0, "x")]
    by_usage = ClusterQueue("q", quota(8), by_past_usage=True)
    world = World([by_usage], flavors=FLAVOR, histories={"x": History(HOUR, consumed={GPU[1]: 5.0})})
    assert started(world, *line) == ["high", "old"]
    assert started(replace(world, queues=[replace(by_usage, by_past_usage=False)]), *line) == ["used", "high"]


def test_each_admission_counts_for_the_local_queue_at_once() -> None:
    """The lines are random. An independent reading adds up the grants of each LocalQueue."""
    for seed in range(500):
        chance = Random(seed)
        consumed = {name: chance.choice((0.0, 0.1, 1.0)) for name in "xyz"}
        weights = {name: chance.choice((0.5, 1.0, 3.0)) for name in "xyz"}
        histories = {name: History(HOUR, weights[name], consumed={GPU[1]: consumed[name]}) for name in "xyz"}
        world = World([ClusterQueue("q", quota(999), by_past_usage=True)], (), FLAVOR, histories=histories)
        line = [
            wants(
                f"w{at:02}",
                "q",
                chance.randint(1, 9),
                chance.randrange(2),
                float(chance.randrange(4)),
                chance.choice("xyz"),
            )
            for at in range(12)
        ]
        before = {name: history.value for name, history in histories.items()}
        expected, left, counted_share = [], list(line), 1 - 0.5 ** (1 / 12)
        while left:
            least = min(consumed[workload.local] / weights[workload.local] for workload in left)
            near = [workload for workload in left if consumed[workload.local] / weights[workload.local] <= least]
            chosen = min(near, key=lambda workload: (-workload.priority, workload.since, workload.uid))
            expected.append(chosen.uid)
            left.remove(chosen)
            consumed[chosen.local] += counted_share * chosen.podsets[0].count
        assert started(world, *line) == expected, seed
        assert all(history.value == before[name] for name, history in histories.items()), "it is a question"


def test_what_runs_counts() -> None:
    world = World([ClusterQueue("q", quota(8))], flavors=FLAVOR, admitted=[Admitted("q", {GPU: 5})])
    assert started(world, wants("four", "q", 4, since=1), wants("three", "q", 3, since=2)) == ["three"]


def test_borrowers_come_after_those_who_use_their_own() -> None:
    world = World([ClusterQueue("a", quota(0), "c"), ClusterQueue("b", quota(8), "c")], flavors=FLAVOR)
    assert started(world, wants("borrows", "a", 4, 9, 0), wants("own", "b", 6, 0, 1)) == ["own"]


def test_fair_shares_are_worked_out_anew_after_each_admission() -> None:
    queues = [ClusterQueue("a", quota(0), "c"), ClusterQueue("b", quota(0), "c")]
    line = [wants(f"a{at}", "a", 1, since=at) for at in range(6)] + [
        wants(f"b{at}", "b", 2, since=9 + at) for at in range(4)
    ]
    pool = [Cohort("c", groups=quota(8))]
    by_age = started(World(queues, pool, FLAVOR), *line)
    fair = started(World(queues, pool, FLAVOR, fair=True), *line)
    assert by_age == ["a0", "a1", "a2", "a3", "a4", "a5", "b0"]
    assert fair == ["a0", "a1", "b0", "a2", "a3", "b1"]


def test_a_queue_that_is_not_there_or_cannot_be_used_is_the_reason() -> None:
    world = World([ClusterQueue("q", quota(8), "x")], [Cohort("x", "y"), Cohort("y", "x")], FLAVOR)
    assert reasons(world, wants("one", "q", 1), wants("two", "none", 1)) == {
        "one": "its cohorts are each other's parents: x, y",
        "two": "queue none does not exist",
    }


def test_a_workload_that_has_quota_and_no_nodes_waits_and_the_one_behind_it_starts() -> None:
    def places(podset: PodSetRequest, _: ResourceFlavor) -> str:
        return "0 of 6 members fit at once" if podset.count == 6 else ""

    world = World([ClusterQueue("q", quota(8))], flavors=FLAVOR, places=places)
    line = wants("fragments", "q", 6, since=1), wants("fits", "q", 4, since=2)
    assert started(world, *line) == ["fits"]
    assert reasons(world, *line) == {"fragments": "0 of 6 members fit at once"}


@pytest.mark.parametrize("block", range(5))
def test_no_quota_is_exceeded_and_nobody_waits_whose_quota_is_there(block: int) -> None:
    """On random trees, by an independent reading of the limits."""
    for seed in range(block * 60, block * 60 + 60):
        chance = Random(seed)
        queues, cohorts = tree(chance)
        oracle = Oracle(queues, cohorts)
        line = [
            wants(f"w{at}", chance.choice(queues).name, chance.randint(1, 9), chance.randrange(3), float(at))
            for at in range(20)
        ]
        world = World(queues, cohorts, FLAVOR, fair=seed % 2 == 0)
        used: dict[str, int] = {}
        waiting: list[Incoming] = []
        for decision in decide(world, line):
            size = decision.workload.podsets[0].count
            name = decision.workload.queue
            if decision.assignment.fit is Fit.FITS:
                assert oracle.left(name, used) >= size, (seed, decision)
                used[name] = used.get(name, 0) + size
            else:
                waiting.append(decision.workload)
        for left in waiting:
            assert oracle.left(left.queue, used) < left.podsets[0].count, (seed, left)


def test_the_tutorials_queue() -> None:
    """Quota for GPUs alone, 32 of them: of two jobs of 4 x 8 the second waits."""
    group = ResourceGroup(("cpu", "memory", GPU[1]), (("a100-gpu-80gb", {GPU[1]: Quota(32)}),))
    heavy = ClusterQueue("heavy-ml-cluster-queue", (group,), "ml-cohort")
    flavor = ResourceFlavor("a100-gpu-80gb", {"cloud.google.com/gke-gpu": "nvidia-tesla-a100"})
    world = World([heavy], flavors={flavor.name: flavor})
    pods = [PodSetRequest("main", 4, {"cpu": 8000, "memory": 1 << 34, GPU[1]: 8})]
    line = [Incoming(uid, heavy.name, pods, since=at) for at, uid in enumerate(("first", "second"))]
    assert started(world, *line) == ["first"]
    text = "queue heavy-ml-cluster-queue has 0 nvidia.com/gpu of flavor a100-gpu-80gb left, and it asks for 32"
    assert reasons(world, *line) == {"second": text}
    assert QuotaTree([heavy]).queues[heavy.name].potential(("a100-gpu-80gb", GPU[1])) == 32
