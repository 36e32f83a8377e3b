"""Whose turn it is, beside an independent reading of shares and tournament."""

from __future__ import annotations

from fractions import Fraction
from random import Random

import pytest

from policies.model.queues import ClusterQueue, Cohort
from policies.quota.shares import Head, Share, by_age, fairest, share_of
from policies.quota.tree import QuotaTree
from tests.policies.quota.worlds import GPU, Oracle, quota, tree

Ranked = tuple[bool, tuple[bool, Fraction], int, float]


def heads_of(chance: Random, names: list[str]) -> dict[str, Head]:
    some = [name for name in names if chance.random() < 0.8]
    return {
        name: Head(name, {GPU: chance.randint(1, 8)}, chance.choice((0, 0, 5)), float(at), f"w{at}")
        for at, name in enumerate(some)
    }


class Fair:
    """The tournament by the oracle's own figures, worked out anew for every comparison."""

    def __init__(self, queues: list[ClusterQueue], cohorts: list[Cohort]) -> None:
        self._queues, self._cohorts = queues, cohorts
        both: list[ClusterQueue | Cohort] = [*queues, *cohorts]
        self._weights = {one.name: one.weight for one in both}
        self._above = {one.name: one.cohort for one in queues} | {one.name: one.parent for one in cohorts}
        self._oracle = Oracle(queues, cohorts)

    def _could(self, cohort: str) -> int:
        """What somebody without quota of his own could get there while nobody uses anything."""
        guest = ClusterQueue("guest", (), cohort)
        return Oracle([*self._queues, guest], self._cohorts).left("guest", {})

    def share(self, name: str, used: dict[str, int]) -> tuple[bool, Fraction]:
        borrowed = self._oracle.uses(name, used) - self._oracle.has(name)
        could = self._could(self._above[name]) if self._above[name] else 0
        if borrowed <= 0 or not could:
            return False, Fraction(0)
        weight, part = self._weights[name], Fraction(1000 * borrowed, could)
        return (False, part / weight) if weight else (True, part)

    def best(self, name: str, heads: dict[str, Head], used: dict[str, int]) -> Head | None:
        below = [one for one, above in self._above.items() if above == name]
        if not below:
            return heads.get(name)
        found = [(one, head) for one in below if (head := self.best(one, heads, used)) is not None]
        return min(found, key=lambda pair: self._rank(pair[0], pair[1], used))[1] if found else None

    def _rank(self, name: str, head: Head, used: dict[str, int]) -> Ranked:
        later = {**used, head.queue: used.get(head.queue, 0) + head.usage[GPU]}
        borrows = self._oracle.uses(name, later) > self._oracle.has(name)
        return borrows, self.share(name, later), -head.priority, head.since


@pytest.mark.parametrize("block", range(10))
def test_the_turn_is_the_one_of_an_independent_tournament(block: int) -> None:
    compared = 0
    for seed in range(block * 100, block * 100 + 100):
        chance = Random(seed)
        queues, cohorts = tree(chance)
        ours, theirs, used = QuotaTree(queues, cohorts), Fair(queues, cohorts), dict[str, int]()
        roots = {ours.queues[one.name].root.name for one in queues}
        for root in sorted(roots):
            heads = heads_of(chance, [one.name for one in queues if ours.queues[one.name].root.name == root])
            while heads:
                expected = theirs.best(root, heads, used)
                found = fairest(ours, heads)
                assert expected is not None
                assert found == expected, (seed, root)
                compared += 1
                del heads[expected.queue]
                ours.use(expected.queue, expected.usage)
                used[expected.queue] = used.get(expected.queue, 0) + expected.usage[GPU]
    assert compared > 100


def test_two_queues_take_turns_by_what_they_borrow() -> None:
    both = QuotaTree([ClusterQueue(name, quota(0), "c") for name in "ab"], [Cohort("c", groups=quota(12))])
    order = []
    for at in range(6):
        heads = {name: Head(name, {GPU: size}, since=float(at)) for name, size in (("a", 1), ("b", 2))}
        winner = fairest(both, heads)
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
    shares = sorted(queues, key=lambda one: share_of(three.queues[one.name]).rank)
    assert [one.name for one in shares] == ["c", "b", "a"]
    assert share_of(three.queues["a"]).endless


def test_a_queue_in_no_cohort_waits_for_nobody() -> None:
    queues = [ClusterQueue("alone", quota(4)), ClusterQueue("member", quota(4), "c")]
    found = fairest(QuotaTree(queues), {name: Head(name, {GPU: 1}) for name in ("member", "alone")})
    assert found is not None
    assert found.queue == "alone"


def test_without_fair_shares_near_quota_goes_first_then_priority_then_age() -> None:
    far = Head("a", {}, priority=9, since=0, uid="far", level=1)
    old, young = Head("b", {}, since=1, uid="old"), Head("c", {}, since=2, uid="young")
    high = Head("d", {}, priority=1, since=3, uid="high")
    found = by_age({one.queue: one for one in (far, young, old, high)})
    assert [one.uid for one in found] == ["high", "old", "young", "far"]
