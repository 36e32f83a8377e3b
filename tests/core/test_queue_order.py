"""The order of admission among workloads that wait for one quota, and the quota that may be borrowed."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction

import pytest

from extender.config import catalogue
from extender.core.limits import Limits
from policies.model.queues import (
    Quota,
    Strategy,
)
from tests.builders import cluster
from tests.core.queues import cluster_queue, come, flavor, in_queue, leave, planned, reason, show, used
from tests.core.script import Script


def test_what_is_lent_may_be_borrowed_up_to_the_limit() -> None:
    script = Script(*cluster("a: 16x8"))
    lender = cluster_queue("lender", {"gpus": 32}, cohort="all")
    show(script, flavor("gpus"), lender, cluster_queue("team", {"gpus": Quota(16, borrowing=16)}, cohort="all"))
    come(script, in_queue("first", 4))
    come(script, in_queue("second", 1))
    assert (planned(script, "first"), planned(script, "second")) == (4, 0)
    assert reason(script, "second").code == "NoQuota"
    come(script, in_queue("third", 2, "lender"))
    assert planned(script, "third") == 2


def test_strict_order_lets_nobody_pass() -> None:
    script = Script(*cluster("a: 8x8"))
    show(script, flavor("gpus"), cluster_queue("team", {"gpus": 32}, strategy=Strategy.STRICT))
    first = in_queue("first", 3)
    come(script, first)
    come(script, in_queue("second", 2, created=1.0))
    come(script, in_queue("third", 1, created=2.0))
    assert planned(script, "third") == 0
    assert reason(script, "second").code == "NoQuota"
    assert reason(script, "third").message.startswith("default/second is before it in ClusterQueue team")
    leave(script, first)
    assert (planned(script, "second"), planned(script, "third")) == (2, 1)


def test_whoever_cannot_be_planned_says_so_and_not_who_is_before_it() -> None:
    """Seeds 820000108 and 450021084 of the campaign: Contradiction, and QueueOrder after a restart."""
    script = Script(*cluster("a: 8x8"), synced=False)
    show(script, flavor("gpus"), cluster_queue("team", {"gpus": 16}, strategy=Strategy.STRICT))
    come(script, in_queue("large", 4, created=1.0))
    first, second = in_queue("broken", 2, created=2.0)
    come(script, [first, replace(second, priority=-1)])
    come(script, in_queue("small", 1, created=3.0))
    script.feed_synced()
    assert reason(script, "broken").code == "Contradiction"
    assert reason(script, "small").code == "QueueOrder"


def test_whoever_comes_before_the_first_of_a_strict_queue_is_named_to_all_who_wait_in_it() -> None:
    """Seed 398000474 of the campaign: the one that was first before said NoQuota, and QueueOrder after a restart."""
    script = Script(*cluster("a: 8x8"))
    show(script, flavor("gpus"), cluster_queue("team", {"gpus": 16}, strategy=Strategy.STRICT))
    come(script, in_queue("first", 4))
    come(script, in_queue("second", 1, created=1.0))
    assert [reason(script, name).code for name in ("first", "second")] == ["NoQuota", "QueueOrder"]
    come(script, in_queue("urgent", 3, created=2.0, priority=10))
    assert reason(script, "urgent").code == "NoQuota"
    for name in ("first", "second"):
        assert reason(script, name).message.startswith("default/urgent is before it in ClusterQueue team")


def test_who_waits_first_in_a_strict_queue_and_is_gone_lets_the_others_go_on() -> None:
    script = Script(*cluster("a: 8x8"))
    show(script, flavor("gpus"), cluster_queue("team", {"gpus": 16}, strategy=Strategy.STRICT))
    large = in_queue("large", 4, created=1.0)
    come(script, large)
    come(script, in_queue("small", 1, created=2.0))
    assert planned(script, "small") == 0
    leave(script, large)
    assert planned(script, "small") == 1


def test_who_need_not_borrow_comes_before_who_is_older() -> None:
    script = Script(*cluster("a: 2x8"), synced=False)
    show(
        script,
        flavor("gpus"),
        cluster_queue("owner", {"gpus": 16}, cohort="all"),
        cluster_queue("team", {"gpus": 0}, cohort="all"),
    )
    script.see(*in_queue("older", 2, created=1.0), *in_queue("younger", 2, "owner", created=2.0))
    script.feed_synced()
    script.advance(0.5)
    assert (planned(script, "older"), planned(script, "younger")) == (0, 2)


def test_with_fair_sharing_the_queue_that_borrows_least_of_its_cohort_comes_first() -> None:
    script = Script(*cluster("a: 3x8"), synced=False, limits=Limits(fair_sharing=True))
    queues = [cluster_queue(name, {"gpus": 0}, cohort="all") for name in ("one", "two")]
    show(script, flavor("gpus"), cluster_queue("pool", {"gpus": 24}, cohort="all"), *queues)
    script.see(*in_queue("a", 1, "one", created=1.0), *in_queue("b", 1, "one", created=2.0))
    script.see(*in_queue("c", 1, "two", created=3.0), *in_queue("d", 1, "two", created=4.0))
    script.feed_synced()
    script.advance(0.5)
    assert [planned(script, name) for name in "abcd"] == [1, 1, 1, 0]


@pytest.mark.parametrize(
    ("policy", "expected"),
    [("priority-then-age", "abc"), ("proportion", "abd"), ("drf", "abd")],
)
def test_with_shares_by_weight_a_queue_of_twice_the_weight_gets_twice_as_much(policy: str, expected: str) -> None:
    script = Script(*cluster("a: 3x8"), synced=False, policies=catalogue.policies(policy, "best-fit", {"packing": 1}))
    heavy = cluster_queue("one", {"gpus": 0}, cohort="all", weight=Fraction(2))
    others = [cluster_queue(name, {"gpus": much}, cohort="all") for name, much in (("two", 0), ("pool", 24))]
    show(script, flavor("gpus"), heavy, *others)
    for at, name in enumerate("abcdef"):
        script.see(*in_queue(name, 1, "one" if at < 3 else "two", created=float(at)))
    script.feed_synced()
    script.advance(0.5)
    assert "".join(name for name in "abcdef" if planned(script, name)) == expected


def test_by_drf_what_a_queue_uses_of_its_own_counts() -> None:
    script = Script(*cluster("a: 3x8"), synced=False, policies=catalogue.policies("drf", "best-fit", {"packing": 1}))
    queues = [cluster_queue(name, {"gpus": much}, cohort="all") for name, much in (("owner", 24), ("guest", 0))]
    show(script, flavor("gpus"), *queues)
    for at, name in enumerate("abcd"):
        script.see(*in_queue(name, 1, "guest" if name == "d" else "owner", created=float(at)))
    script.feed_synced()
    script.advance(0.5)
    assert [planned(script, name) for name in "abcd"] == [1, 1, 0, 1]


def test_an_elastic_gang_starts_with_as_many_as_there_is_quota_for() -> None:
    script = Script(*cluster("a: 8x8"))
    show(script, flavor("gpus"), cluster_queue("team", {"gpus": 40}))
    come(script, in_queue("other", 2))
    come(script, in_queue("elastic", 6, min_member=2))
    assert planned(script, "elastic") == 3
    assert used(script, "team") == 40
