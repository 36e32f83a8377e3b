"""The amounts that queues deserve by weight, and whose turn it is by that.

They are compared with an independent reading that searches for the level by halves, and with Volcano's own passes.
"""

from __future__ import annotations

from fractions import Fraction
from random import Random

import pytest

from policies.model.queues import ClusterQueue, Cohort, FlavorResource, Quota, ResourceFlavor, ResourceGroup
from policies.order import Proportion
from policies.quota.flavors import Fit
from policies.quota.parts import PodSetRequest
from policies.quota.proportion import Claimant, Deserved, by_proportion, water_fill
from policies.quota.shares import Head, fairest
from policies.quota.tree import QuotaTree
from tests.conformance.quota import Incoming, World, decide
from tests.policies.quota.test_drf import heads_of
from tests.policies.quota.worlds import GPU, Oracle, quota, tree

CPU: FlavorResource = ("h100", "cpu")


def wishes(*some: tuple[int, int]) -> list[Claimant]:
    """Claimants, each with a weight and a request."""
    return [Claimant(Fraction(weight), 0, request) for weight, request in some]


def by_passes(total: float, some: list[Claimant]) -> list[float]:
    """Volcano's loop for one resource and no floors, until nothing changes."""
    deserved, met, remaining = [0.0] * len(some), set[int](), total
    for _ in range(10_000):
        weight = sum(float(unmet.weight) for at, unmet in enumerate(some) if at not in met)
        if not weight:
            break
        before = list(deserved)
        for at, claimant in enumerate(some):
            if at not in met:
                deserved[at] = min(deserved[at] + remaining * float(claimant.weight) / weight, claimant.ceiling)
                if deserved[at] >= claimant.ceiling or deserved[at] == before[at]:
                    met.add(at)
        remaining = max(0.0, remaining - (sum(deserved) - sum(before)))
    return deserved


def by_halves(total: float, some: list[Claimant]) -> list[float]:
    """The level at which all is given away, found by halving."""

    def filled(level: float) -> list[float]:
        return [
            max(float(claimant.floor), min(float(claimant.ceiling), level * float(claimant.weight)))
            for claimant in some
        ]

    least, most = 0.0, 1e4
    for _ in range(50):
        middle = (least + most) / 2
        least, most = (middle, most) if sum(filled(middle)) <= total else (least, middle)
    return filled(least)


@pytest.mark.parametrize("block", range(10))
def test_what_is_deserved_is_what_volcanos_passes_and_a_search_by_halves_find(block: int) -> None:
    for seed in range(block * 200, block * 200 + 200):
        chance = Random(seed)
        total = chance.randrange(100)
        claimants = []
        for _ in range(chance.randint(1, 7)):
            floor = chance.choice((0, 0, chance.randrange(20)))
            weight = chance.choice((Fraction(1), Fraction(3), Fraction(1, 2), Fraction(0)))
            claimants.append(Claimant(weight, floor, floor + chance.randrange(60)))
        deserved = [float(amount) for amount in water_fill(Fraction(total), claimants)]
        assert deserved == pytest.approx(by_halves(total, claimants), abs=1e-6), seed
        flat = [Claimant(claimant.weight, 0, claimant.ceiling) for claimant in claimants if claimant.weight]
        deserved = [float(amount) for amount in water_fill(Fraction(total), flat)]
        assert deserved == pytest.approx(by_passes(total, flat), abs=1e-6), seed


def test_what_is_deserved_in_volcanos_cases() -> None:
    assert water_fill(Fraction(72), wishes((1, 100), (2, 100), (3, 12))) == [20, 40, 12]
    assert water_fill(Fraction(72), [Claimant(Fraction(1), 0, 16), Claimant(Fraction(1), 0, 72)]) == [16, 56]
    assert water_fill(Fraction(72), [Claimant(Fraction(1), 24, 24), Claimant(Fraction(1), 0, 72)]) == [24, 48]
    assert water_fill(Fraction(10), [Claimant(Fraction(1), 8, 8), Claimant(Fraction(1), 6, 9)]) == [8, 6]
    assert water_fill(Fraction(10), []) == []


class Naive:
    """Deserved amounts from the root down, by the oracle's figures and the search by halves."""

    def __init__(self, queues: list[ClusterQueue], cohorts: list[Cohort], requested: dict[str, int]) -> None:
        both: list[ClusterQueue | Cohort] = [*queues, *cohorts]
        self._weights = {member.name: member.weight for member in both}
        self.above = {queue.name: queue.cohort for queue in queues} | {cohort.name: cohort.parent for cohort in cohorts}
        self._queues, self._cohorts, self._requested = queues, cohorts, requested
        self.oracle = Oracle(queues, cohorts)
        self._known: dict[str, float] = {}

    def below(self, name: str) -> list[str]:
        return [child for child, above in self.above.items() if above == name]

    def _asks(self, name: str) -> int:
        """The request of a queue, or of a cohort to its parents. An amount that no queue can have is not requested."""
        below = self.below(name)
        if below:
            demand = sum(max(0, self._asks(child) - self.oracle.keeps(child)) for child in below)
            guest = ClusterQueue("guest", (), name)
            most = Oracle([*self._queues, guest], self._cohorts).left("guest", {})
        else:
            demand, most = self._requested.get(name, 0), self.oracle.left(name, {})
        return min(demand, most)

    def deserved(self, name: str) -> float:
        if name not in self._known:
            self._known[name] = self._divided(name)
        return self._known[name]

    def _divided(self, name: str) -> float:
        above = self.above[name]
        if not above:
            return self.oracle.has(name)
        siblings = self.below(above)
        kept = [self.oracle.keeps(sibling) for sibling in siblings]
        claimants = [
            Claimant(self._weights[sibling], floor, max(floor, self._asks(sibling)))
            for sibling, floor in zip(siblings, kept, strict=True)
        ]
        return by_halves(self.deserved(above) + sum(kept), claimants)[siblings.index(name)]

    def share(self, name: str, used: dict[str, int]) -> float:
        uses, deserved = self.oracle.uses(name, used), self.deserved(name)
        return 0.0 if not uses else 1.0 if deserved < 1e-9 else uses / deserved


@pytest.mark.parametrize("block", range(10))
def test_the_turn_is_the_one_of_a_naive_reading(block: int) -> None:
    compared = 0
    for seed in range(block * 100, block * 100 + 100):
        chance = Random(seed)
        queues, cohorts = tree(chance)
        ours = QuotaTree(queues, cohorts)
        used = {queue.name: chance.randrange(1 + max(0, ours.queues[queue.name].left(GPU)) // 2) for queue in queues}
        for name, amount in used.items():
            ours.use(name, {GPU: min(amount, max(0, ours.queues[name].left(GPU)))})
        used = {queue.name: ours.queues[queue.name].used[GPU] for queue in queues}
        heads = heads_of(chance, [queue.name for queue in queues if queue.cohort])
        requested = {queue.name: used[queue.name] + chance.randrange(12) for queue in queues}
        theirs, deserved = Naive(queues, cohorts, requested), Deserved(ours, _by_resource(requested))
        used_roots = {node.root for node in ours.queues.values()}
        for name, node in {**ours.cohorts, **ours.queues}.items():
            if node.root in used_roots:
                assert float(deserved(node, GPU[1])) == pytest.approx(theirs.deserved(name), abs=1e-5), (seed, name)
        rank = by_proportion(ours, _by_resource(requested))
        while heads and (chosen := fairest(ours, heads, rank)) is not None:
            at = chosen.queue
            while ours.queues[chosen.queue].root.name != at:
                above = theirs.above[at]
                rivals = [rival for rival in theirs.below(above) if _stands(theirs, rival, heads)]
                least = min(theirs.share(rival, used) for rival in rivals)
                assert theirs.share(at, used) <= least + 1e-6, (seed, at, rivals)
                at, compared = above, compared + 1
            del heads[chosen.queue]
            ours.use(chosen.queue, chosen.usage)
            used[chosen.queue] += chosen.usage[GPU]
    assert compared > 100


def _by_resource(requested: dict[str, int]) -> dict[str, dict[str, int]]:
    return {name: {GPU[1]: amount} for name, amount in requested.items()}


def _stands(theirs: Naive, name: str, heads: dict[str, Head]) -> bool:
    return name in heads or any(_stands(theirs, child, heads) for child in theirs.below(name))


def two(name: str, gpus: Quota, cpus: Quota, weight: int = 1) -> ClusterQueue:
    group = ResourceGroup((GPU[1], "cpu"), ((GPU[0], {GPU[1]: gpus, "cpu": cpus}),))
    return ClusterQueue(name, (group,), "all", weight=Fraction(weight))


def test_each_resource_is_divided_by_itself() -> None:
    pool = Cohort("all", groups=two("", Quota(72), Quota(1152)).groups)
    both = QuotaTree([two("a", Quota(0), Quota(0)), two("b", Quota(0), Quota(0))], [pool])
    deserved = Deserved(both, {"a": {GPU[1]: 72, "cpu": 288}, "b": {GPU[1]: 8, "cpu": 32}})
    assert [[deserved(both.queues[name], resource) for resource in (GPU[1], "cpu")] for name in "ab"] == [
        [64, 288],
        [8, 32],
    ]


def test_what_is_configured_as_deserved_goes_before_weights() -> None:
    pool = Cohort("all", groups=quota(64))
    queues = [two("a", Quota(0, deserved=48), Quota(0)), two("b", Quota(0), Quota(0), weight=9)]
    both = QuotaTree(queues, [pool])
    for requested, parts in ((64, [48, 16]), (20, [20, 44])):
        deserved = Deserved(both, {"a": {GPU[1]: requested}, "b": {GPU[1]: 64}})
        assert [deserved(both.queues[name], GPU[1]) for name in "ab"] == parts


def test_a_queue_may_use_more_than_it_deserves_and_comes_later_then() -> None:
    queues = [ClusterQueue(name, quota(0), "c", weight=Fraction(weight)) for name, weight in (("a", 3), ("b", 1))]
    world = World(queues, [Cohort("c", groups=quota(12))], {GPU[0]: ResourceFlavor(GPU[0])}, order=Proportion())
    line = [
        Incoming(f"{name}{at}", name, [PodSetRequest("m", 1, {GPU[1]: 1})], since=at)
        for name in "ab"
        for at in range(12)
    ]
    started = [decision.workload.queue for decision in decide(world, line) if decision.assignment.fit is Fit.FITS]
    assert "".join(started) == "abaabaaabaaa"
    few = [workload for workload in line if workload.queue == "b" or workload.since < 2]
    started = [decision.workload.queue for decision in decide(world, few) if decision.assignment.fit is Fit.FITS]
    assert (started.count("a"), started.count("b")) == (2, 10), "what nobody else asks for is not left idle"
