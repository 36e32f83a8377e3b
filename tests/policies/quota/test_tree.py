"""The quota tree beside an independent reading of it, and the rules one by one."""

from __future__ import annotations

from random import Random

import pytest

from policies.model.queues import ClusterQueue, Cohort
from policies.quota.tree import QuotaTree
from tests.policies.quota.worlds import GPU, SEVERAL, Oracle, quota, tree


def used(queues: QuotaTree, **amounts: int) -> QuotaTree:
    for name, amount in amounts.items():
        queues.use(name, {GPU: amount})
    return queues


def left(queues: QuotaTree, name: str) -> int:
    return queues.queues[name].left(GPU)


@pytest.mark.parametrize("block", range(10))
def test_what_is_left_is_what_can_be_tried_out(block: int) -> None:
    """On 2,000 trees; of each one flavor and resource of several is used and given back."""
    for seed in range(block * 200, block * 200 + 200):
        chance = Random(seed)
        queues, cohorts = tree(chance, SEVERAL)
        what = chance.choice(SEVERAL)
        ours, theirs, uses = QuotaTree(queues, cohorts), Oracle(queues, cohorts, what), dict[str, int]()
        for _ in range(6):
            name = chance.choice(queues).name
            if uses.get(name) and chance.random() < 0.4:
                amount = -chance.randint(1, uses[name])
            else:
                amount = chance.randint(0, max(0, ours.queues[name].left(what)))
            ours.use(name, {what: amount})
            uses[name] = uses.get(name, 0) + amount
            for queue in queues:
                assert max(0, ours.queues[queue.name].left(what)) == theirs.left(queue.name, uses), (seed, queue.name)


@pytest.mark.parametrize("block", range(10))
def test_what_one_could_have_is_what_is_left_while_nobody_uses_anything(block: int) -> None:
    for seed in range(block * 300, block * 300 + 300):
        queues, cohorts = tree(Random(seed), SEVERAL)
        ours = QuotaTree(queues, cohorts)
        for what in SEVERAL:
            theirs = Oracle(queues, cohorts, what)
            for queue in queues:
                assert max(0, ours.queues[queue.name].potential(what)) == theirs.left(queue.name, {}), (
                    seed,
                    queue.name,
                )


def test_three_teams_share_64_gpus() -> None:
    """16, 16 and 32 of their own, of which they may borrow 32, 32 and 16."""
    shares = {"nlp": (16, 32), "vision": (16, 32), "rec": (32, 16)}
    teams = QuotaTree([ClusterQueue(name, quota(*share), "all") for name, share in shares.items()])
    assert [left(teams, name) for name in shares] == [48, 48, 48]
    used(teams, rec=48)
    assert [left(teams, name) for name in shares] == [16, 16, 0]


def test_what_is_not_lent_stays() -> None:
    two = QuotaTree([ClusterQueue("lender", quota(10, lending=4), "c"), ClusterQueue("other", quota(0), "c")])
    assert left(two, "other") == 4
    used(two, other=4)
    assert left(two, "lender") == 6
    used(two, lender=6)
    assert left(two, "other") == 0


def test_a_cohort_has_quota_of_its_own_and_limits() -> None:
    cohorts = [Cohort("org"), Cohort("dept", "org", quota(8, borrowing=2))]
    queues = [ClusterQueue("a", quota(4), "dept"), ClusterQueue("rest", quota(100), "org")]
    both = QuotaTree(queues, cohorts)
    assert left(both, "a") == 14, "4 and 8 of the department, and 2 that it may borrow"
    assert both.level("a", GPU, 4) == (0, True)
    assert both.level("a", GPU, 12) == (1, True)
    assert both.level("a", GPU, 14) == (2, False)


def test_a_queue_in_no_cohort_borrows_nothing() -> None:
    alone = QuotaTree([ClusterQueue("q", quota(5, borrowing=3))])
    assert left(alone, "q") == 5
    assert alone.level("q", GPU, 9) == (0, False)


def test_cohorts_in_a_ring_are_a_problem_of_the_queues_below_and_of_no_other() -> None:
    ring = [Cohort("a", "b"), Cohort("b", "a"), Cohort("below", "a"), Cohort("fine")]
    queues = [ClusterQueue(f"in-{cohort.name}", quota(1), cohort.name) for cohort in ring]
    quotas = QuotaTree(queues, ring)
    assert quotas.problems == {
        "in-a": "its cohorts are each other's parents: a, b",
        "in-b": "its cohorts are each other's parents: b, a",
        "in-below": "its cohorts are each other's parents: a, b",
    }
    assert list(quotas.queues) == ["in-fine"]


def test_usage_beyond_what_there_is_leaves_nothing_and_is_given_back_whole() -> None:
    """Quota may be made smaller while workloads run."""
    two = used(QuotaTree([ClusterQueue("a", quota(4), "c"), ClusterQueue("b", quota(4), "c")]), a=11)
    assert left(two, "b") == -3
    assert two.lacks("b", {GPU: 2}) == {GPU: 2}
    two.free("a", {GPU: 11})
    assert left(two, "b") == 8
    assert two.lacks("b", {GPU: 9}) == {GPU: 1}


def test_a_cohort_without_queues_makes_borrowing_no_farther() -> None:
    """An empty cohort may bring quota of its own."""
    queues = [ClusterQueue("a", quota(0), "all"), ClusterQueue("b", quota(8), "all")]
    empty = [Cohort("all"), Cohort("pool", "all", quota(8))]
    assert QuotaTree(queues, empty).level("a", GPU, 12) == (1, False)
    assert QuotaTree([*queues, ClusterQueue("c", quota(0), "pool")], empty).level("a", GPU, 12) == (2, False)
