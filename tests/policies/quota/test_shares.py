"""The next turn, and the whole order of admission, beside an independent reading of shares and tournament."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from random import Random

import pytest

from policies.model.queues import ClusterQueue, Cohort, FlavorResource, ResourceFlavor, Strategy
from policies.quota.flavors import Fit
from policies.quota.parts import PodSetRequest
from policies.quota.shares import Head, Share, by_borrowing, fairest, share_of
from policies.quota.tree import QuotaTree
from tests.conformance.quota import Incoming, World, by_age, decide
from tests.policies.quota.worlds import GPU, SEVERAL, Oracle, quota, tree

Ranked = tuple[bool, tuple[bool, Fraction], int, float]
Used = dict[FlavorResource, dict[str, int]]
"""The used amount of each queue, by flavor and resource."""
TREES = 5_000
ORDERS = 3_000
BLOCKS = 10


def heads_of(chance: Random, names: Sequence[str]) -> dict[str, Head]:
    heads = {}
    for at, name in enumerate(names):
        if chance.random() < 0.8:
            usage = {what: chance.randint(1, 8) for what in chance.sample(SEVERAL, chance.randint(1, 2))}
            heads[name] = Head(name, usage, chance.choice((0, 0, 5)), float(at), f"w{at}")
    return heads


def more(used: Used, queue: str, usage: Mapping[FlavorResource, int]) -> Used:
    """The usage with the additional usage of the queue."""
    return {
        what: {**by_queue, queue: by_queue.get(queue, 0) + usage[what]} if what in usage else by_queue
        for what, by_queue in used.items()
    }


class Fair:
    """The tournament by the oracle's own figures, computed afresh for every comparison."""

    def __init__(self, queues: list[ClusterQueue], cohorts: list[Cohort]) -> None:
        both: list[ClusterQueue | Cohort] = [*queues, *cohorts]
        self._weights = {member.name: member.weight for member in both}
        self._above = {queue.name: queue.cohort for queue in queues} | {
            cohort.name: cohort.parent for cohort in cohorts
        }
        self._oracles = {what: Oracle(queues, cohorts, what) for what in SEVERAL}
        guests = [ClusterQueue(f"guest of {cohort.name}", (), cohort.name) for cohort in cohorts]
        self._could = {
            (cohort.name, what): Oracle([*queues, *guests], cohorts, what).left(guest.name, {})
            for cohort, guest in zip(cohorts, guests, strict=True)
            for what in SEVERAL
        }
        """The amount that a queue without quota could get in a cohort while all quota is free."""

    def share(self, name: str, used: Used) -> tuple[bool, Fraction]:
        largest = Fraction(0)
        for resource in {resource for _, resource in SEVERAL} if self._above[name] else ():
            whats = [what for what in SEVERAL if what[1] == resource]
            borrowed = sum(
                max(0, self._oracles[what].uses(name, used[what]) - self._oracles[what].has(name)) for what in whats
            )
            could = sum(self._could[self._above[name], what] for what in whats)
            if could:
                largest = max(largest, Fraction(1000 * borrowed, could))
        weight = self._weights[name]
        return (False, largest / weight) if weight else (largest > 0, largest)

    def turn(self, heads: Mapping[str, Head], used: Used) -> Head | None:
        """Queues in no cohort first, then the best of all trees by priority and age."""
        alone = sorted(name for name in heads if not self._above[name])
        if alone:
            return heads[alone[0]]
        roots = [name for name in self._above if name.startswith("c") and not self._above[name]]
        leading = [head for root in roots if (head := self._best(root, heads, used)) is not None]
        return min(leading, key=lambda head: (-head.priority, head.since), default=None)

    def _best(self, name: str, heads: Mapping[str, Head], used: Used) -> Head | None:
        if name.startswith("q"):
            return heads.get(name)
        below = [child for child, above in self._above.items() if above == name]
        contenders = [(child, head) for child in below if (head := self._best(child, heads, used)) is not None]
        return min(contenders, key=lambda pair: self._rank(pair[0], pair[1], used))[1] if contenders else None

    def _rank(self, name: str, head: Head, used: Used) -> Ranked:
        later = more(used, head.queue, head.usage)
        borrows = any(self._oracles[what].borrows(name, later[what]) for what in head.usage)
        return borrows, self.share(name, later), -head.priority, head.since

    def level(self, queue: str, what: FlavorResource, amount: int, used: Used) -> int:
        """0 if it need not borrow, else the height of the nearest cohort above that need not."""
        later, oracle = more(used, queue, {what: amount})[what], self._oracles[what]
        above = [queue]
        while self._above[above[-1]]:
            above.append(self._above[above[-1]])
        near = next((name for name in above if not oracle.borrows(name, later)), above[-1])
        return self._height(near)

    def _height(self, name: str) -> int:
        return max((1 + self._height(child) for child, above in self._above.items() if above == name), default=0)

    def fits(self, queue: str, usage: Mapping[FlavorResource, int], used: Used) -> bool:
        later = more(used, queue, usage)
        return all(self._oracles[what].holds(queue, later[what]) for what in usage)


@dataclass(frozen=True)
class Order:
    """The admissions of one pass, in order, each with its flavor: the first one of which there is quota."""

    queues: list[ClusterQueue]
    cohorts: list[Cohort]
    fair: bool

    def admitted(self, incoming: Sequence[Incoming]) -> list[tuple[str, str]]:
        fair = Fair(self.queues, self.cohorts)
        used: Used = {what: {} for what in SEVERAL}
        lines = {queue.name: [each for each in incoming if each.queue == queue.name] for queue in self.queues}
        for line in lines.values():
            line.sort(key=lambda workload: (-workload.priority, workload.since))
        starts = []
        while heads := dict(self._heads(fair, lines, used)):
            by_level = sorted(heads.values(), key=lambda head: (head.level, -head.priority, head.since))
            next_ = fair.turn(heads, used) if self.fair else by_level[0]
            assert next_ is not None
            starts.append((next_.uid, next(flavor for flavor, _ in next_.usage)))
            used = more(used, next_.queue, next_.usage)
            del lines[next_.queue][0]
        return starts

    def _heads(self, told: Fair, lines: dict[str, list[Incoming]], used: Used) -> list[tuple[str, Head]]:
        """The first workload of each line for which there is quota.

        A skipped workload is out, because no quota comes back.
        """
        heads = []
        for queue in self.queues:
            line = lines[queue.name]
            while line and (head := self._head(told, line[0], used)) is None:
                line[:] = [] if queue.strategy is Strategy.STRICT else line[1:]
            if line and head is not None:
                heads.append((queue.name, head))
        return heads

    def _head(self, told: Fair, one: Incoming, used: Used) -> Head | None:
        (podset,) = one.podsets
        for flavor in dict.fromkeys(flavor for flavor, _ in SEVERAL):
            usage = {(flavor, name): podset.count * amount for name, amount in podset.requests.items()}
            if told.fits(one.queue, usage, used):
                level = max(told.level(one.queue, what, amount, used) for what, amount in usage.items())
                return Head(one.queue, usage, one.priority, one.since, one.uid, level)
        return None


@pytest.mark.parametrize("block", range(BLOCKS))
def test_the_turn_is_the_one_of_an_independent_tournament(block: int) -> None:
    """The turns are the same until no workload is left, with or without quota.

    There are cohorts in cohorts, with two flavors of two resources, limits of borrowing and lending, and weights of
    which some are fractions or 0.
    """
    compared = 0
    for seed in range(block * TREES // BLOCKS, (block + 1) * TREES // BLOCKS):
        chance = Random(seed)
        queues, cohorts = tree(chance, SEVERAL)
        ours, theirs = QuotaTree(queues, cohorts), Fair(queues, cohorts)
        used: Used = {what: {} for what in SEVERAL}
        heads = heads_of(chance, [queue.name for queue in queues])
        while heads:
            expected = theirs.turn(heads, used)
            assert expected is not None
            assert fairest(ours, heads, by_borrowing(ours)) == expected, seed
            compared += 1
            del heads[expected.queue]
            ours.use(expected.queue, expected.usage)
            used = more(used, expected.queue, expected.usage)
    assert compared > TREES // BLOCKS


@pytest.mark.parametrize("block", range(BLOCKS))
def test_the_order_of_admission_is_that_of_an_independent_pass(block: int) -> None:
    """Every second pass by fair shares; some queues are StrictFIFO."""
    admitted = 0
    for seed in range(block * ORDERS // BLOCKS, (block + 1) * ORDERS // BLOCKS):
        chance = Random(seed)
        queues, cohorts = tree(chance, SEVERAL)
        queues = [replace(queue, strategy=chance.choice([*Strategy])) for queue in queues]
        flavors = {flavor: ResourceFlavor(flavor) for flavor, _ in SEVERAL}
        resources = [*dict.fromkeys(resource for _, resource in SEVERAL)]
        incoming = []
        for at in range(chance.randint(2, 10)):
            requests = {name: chance.randint(1, 4) for name in chance.sample(resources, chance.randint(1, 2))}
            podsets = [PodSetRequest("main", chance.randint(1, 3), requests)]
            incoming.append(
                Incoming(f"w{at}", chance.choice(queues).name, podsets, chance.choice((0, 0, 5)), float(at))
            )
        fair = seed % 2 == 0
        starts = [
            (decision.workload.uid, next(iter(decision.assignment.flavors["main"].values())))
            for decision in decide(World(queues, cohorts, flavors, fair=fair), incoming)
            if decision.assignment.fit is Fit.FITS
        ]
        assert starts == Order(queues, cohorts, fair).admitted(incoming), seed
        admitted += len(starts)
    assert admitted > ORDERS // BLOCKS


def test_two_queues_take_turns_by_what_they_borrow() -> None:
    both = QuotaTree([ClusterQueue(name, quota(0), "c") for name in "ab"], [Cohort("c", groups=quota(12))])
    order = []
    for at in range(6):
        heads = {name: Head(name, {GPU: size}, since=float(at)) for name, size in (("a", 1), ("b", 2))}
        winner = fairest(both, heads, by_borrowing(both))
        assert winner is not None
        order.append(winner.queue)
        both.use(winner.queue, winner.usage)
    assert "".join(order) == "aabaab"


def test_weight_is_how_much_more_a_queue_may_borrow() -> None:
    queues = [ClusterQueue("heavy", quota(0), "c", weight=Fraction(2)), ClusterQueue("light", quota(0), "c")]
    both = QuotaTree(queues, [Cohort("c", groups=quota(10))])
    both.use("heavy", {GPU: 4})
    both.use("light", {GPU: 3})
    assert share_of(both.queues["heavy"]) == Share(Fraction(400), Fraction(2))
    assert share_of(both.queues["heavy"]).rank < share_of(both.queues["light"]).rank


def test_who_borrows_with_weight_0_comes_last_and_among_such_who_borrows_less_is_first() -> None:
    queues = [
        ClusterQueue(name, quota(0), "c", weight=Fraction(weight)) for name, weight in (("a", 0), ("b", 0), ("c", 1))
    ]
    three = QuotaTree(queues, [Cohort("c", groups=quota(20))])
    for name, amount in (("a", 2), ("b", 1), ("c", 9)):
        three.use(name, {GPU: amount})
    shares = sorted(queues, key=lambda queue: share_of(three.queues[queue.name]).rank)
    assert [queue.name for queue in shares] == ["c", "b", "a"]
    assert share_of(three.queues["a"]).endless


def test_a_queue_in_no_cohort_waits_for_nobody() -> None:
    both = QuotaTree([ClusterQueue("alone", quota(4)), ClusterQueue("member", quota(4), "c")])
    head = fairest(both, {name: Head(name, {GPU: 1}) for name in ("member", "alone")}, by_borrowing(both))
    assert head is not None
    assert head.queue == "alone"


def test_without_fair_shares_near_quota_goes_first_then_priority_then_age() -> None:
    far = Head("a", {}, priority=9, since=0, uid="far", level=1)
    old, young = Head("b", {}, since=1, uid="old"), Head("c", {}, since=2, uid="young")
    high = Head("d", {}, priority=1, since=3, uid="high")
    ordered = by_age({head.queue: head for head in (far, young, old, high)})
    assert [head.uid for head in ordered] == ["high", "old", "young", "far"]
