"""Dominant resource fairness: the paper's example, and the turn beside an independent reading on random trees."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from random import Random

import pytest

from policies.model.queues import ClusterQueue, Cohort, Quota, ResourceFlavor, ResourceGroup
from policies.order import Drf
from policies.quota.drf import by_drf
from policies.quota.flavors import Fit
from policies.quota.parts import PodSetRequest
from policies.quota.shares import Head, fairest
from policies.quota.tree import QuotaTree
from tests.conformance.quota import Incoming, World, decide
from tests.policies.quota.worlds import GPU, tree


def heads_of(chance: Random, names: Sequence[str]) -> dict[str, Head]:
    chosen = [name for name in names if chance.random() < 0.8]
    return {
        name: Head(name, {GPU: chance.randint(1, 8)}, chance.choice((0, 0, 5)), float(at), f"w{at}")
        for at, name in enumerate(chosen)
    }


def pair(cpu: int, memory: int) -> tuple[ResourceGroup, ...]:
    return (ResourceGroup(("cpu", "memory"), (("any", {"cpu": Quota(cpu), "memory": Quota(memory)}),)),)


def test_the_example_of_the_paper() -> None:
    """9 CPUs and 18 GB: tasks of A ask for 1 CPU and 4 GB, those of B for 3 CPUs and 1 GB. A gets 3 tasks, B 2."""
    queues = [ClusterQueue(name, pair(0, 0), "c") for name in "ab"]
    world = World(queues, [Cohort("c", groups=pair(9, 18))], {"any": ResourceFlavor("any")}, order=Drf())
    requests = {"a": {"cpu": 1, "memory": 4}, "b": {"cpu": 3, "memory": 1}}
    line = [
        Incoming(f"{name}{at}", name, [PodSetRequest("m", 1, requests[name])], since=at)
        for name in "ab"
        for at in range(9)
    ]
    started = [decision.workload.uid for decision in decide(world, line) if decision.assignment.fit is Fit.FITS]
    assert sorted(started) == ["a0", "a1", "a2", "b0", "b1"]


def test_what_a_queue_uses_of_its_own_counts_and_weight_divides_it() -> None:
    queues = [
        ClusterQueue("own", pair(8, 8), "c"),
        ClusterQueue("none", pair(0, 0), "c"),
        ClusterQueue("heavy", pair(0, 0), "c", weight=Fraction(4)),
    ]
    quotas = QuotaTree(queues)
    for name, amount in (("own", 2), ("none", 1), ("heavy", 3)):
        quotas.use(name, {("any", "cpu"): amount})
    heads = {queue.name: Head(queue.name, {("any", "cpu"): 1}) for queue in queues}
    order = []
    while (head := fairest(quotas, heads, by_drf(quotas, {}))) is not None:
        order.append(head.queue)
        del heads[head.queue]
    assert order == ["heavy", "none", "own"]


class ByUse:
    """The tournament by the usage of all queues below a node."""

    def __init__(self, queues: list[ClusterQueue], cohorts: list[Cohort]) -> None:
        both: list[ClusterQueue | Cohort] = [*queues, *cohorts]
        self.used = {queue.name: 0 for queue in queues}
        self._above = {queue.name: queue.cohort for queue in queues} | {
            cohort.name: cohort.parent for cohort in cohorts
        }
        self._weights = {member.name: member.weight for member in both}
        self._has = {member.name: member.groups[0].flavors[0][1][GPU[1]].nominal for member in both if member.groups}

    def way(self, name: str) -> list[str]:
        return [name, *(self.way(self._above[name]) if self._above[name] else [])]

    def _share(self, name: str) -> tuple[bool, Fraction]:
        """The total is the same for all that compete: it matters only where there is none."""
        root = self.way(name)[-1]
        total = sum(amount for other, amount in self._has.items() if self.way(other)[-1] == root)
        share = Fraction(sum(amount for other, amount in self.used.items() if name in self.way(other)) if total else 0)
        weight = self._weights[name]
        return (False, share / weight) if weight else (share > 0, share)

    def best(self, name: str, heads: dict[str, Head]) -> Head | None:
        below = [child for child, above in self._above.items() if above == name]
        if not below:
            return heads.get(name)
        ranked = [(self._share(child), head) for child in below if (head := self.best(child, heads)) is not None]
        return min(ranked, key=lambda entry: (entry[0], -entry[1].priority, entry[1].since))[1] if ranked else None


@pytest.mark.parametrize("block", range(10))
def test_the_turn_is_the_one_of_an_independent_reading(block: int) -> None:
    compared = 0
    for seed in range(block * 100, block * 100 + 100):
        chance = Random(seed)
        queues, cohorts = tree(chance)
        ours, theirs = QuotaTree(queues, cohorts), ByUse(queues, cohorts)
        heads = heads_of(chance, [queue.name for queue in queues if queue.cohort])
        rank = by_drf(ours, {})
        while heads:
            roots = dict.fromkeys(theirs.way(name)[-1] for name in heads)
            leading = [head for root in roots if (head := theirs.best(root, heads)) is not None]
            expected = min(leading, key=lambda head: (-head.priority, head.since))
            assert fairest(ours, heads, rank) == expected, seed
            compared += 1
            del heads[expected.queue]
            ours.use(expected.queue, expected.usage)
            theirs.used[expected.queue] += expected.usage[GPU]
    assert compared > 100
