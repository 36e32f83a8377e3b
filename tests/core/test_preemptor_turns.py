"""The turn among queues in which some workloads get other quota than it first seemed.

They have victims, or their first flavors have no nodes. Also: the flavor for which others are evicted.
"""

from __future__ import annotations

import pytest

from extender.core.effects import Milestone, Nominate, Reserve
from extender.core.limits import Limits, Preempts
from policies.model.queues import Evicts, Preemption, Strategy
from tests.builders import cluster, node
from tests.core.preempting import ON
from tests.core.queues import FLAVOR, Queued, cluster_queue, flavor, in_queue, sort

BORROWS = Preemption(within=Evicts.LOWER, borrow=Evicts.LOWER)
FAIR = Limits(preemption=Preempts.ON, preemption_s=60.0, fair_sharing=True)


def scene(limits: Limits = ON, strategy: Strategy = Strategy.BEST_EFFORT) -> Queued:
    """A queue borrows 16 of the 32 that another one has."""
    things = (
        flavor("gpus"),
        cluster_queue("alpha", {"gpus": 16}, cohort="all", preemption=BORROWS, strategy=strategy),
        cluster_queue("beta", {"gpus": 32}, cohort="all"),
    )
    script = Queued(*cluster("a: 12x8"), things=things, limits=limits)
    script.start("low", 4, "alpha")
    return script


@pytest.mark.parametrize("limits", [ON, FAIR])
def test_who_need_not_borrow_comes_before_a_preemptor_that_does(limits: Limits) -> None:
    """This holds for every priority. The amount that the preemptor would need is not free any more then."""
    script = scene(limits)
    high, owner = in_queue("high", 5, "alpha", priority=100), in_queue("owner", 2, "beta")
    script.see(*high, *owner)
    assert all(map(script.planned, owner))
    assert not script.evicted
    assert script.reason("high") == "NoQuota"


def test_one_whose_turn_is_yet_to_come_holds_nobody_up_and_is_told_once() -> None:
    """In a StrictFIFO queue those behind it wait until it has had its turn."""
    script = scene(strategy=Strategy.STRICT)
    high, small = in_queue("high", 4, "alpha", priority=100), in_queue("small", 1, "alpha")
    owner = in_queue("owner", 2, "beta")
    script.see(*high, *small, *owner)
    assert all(map(script.planned, owner))
    assert len(script.evicted) == 4
    assert script.milestones(Milestone.PREEMPTING) == 1
    assert (script.reason("high"), script.reason("small")) == ("Preempting", "QueueOrder")
    done = [effect for effect in script.effects if isinstance(effect, (Nominate, Reserve))]
    assert [isinstance(effect, Reserve) for effect in done[-3:]] == [False, False, True]


def test_in_a_strict_queue_nobody_is_evicted_for_those_behind_one_whom_others_give_way_to() -> None:
    """Even equal requests, whose shortfall is known, do not matter. Their turn comes when the first one has started."""
    strict = cluster_queue("team", {"gpus": 32}, strategy=Strategy.STRICT, preemption=BORROWS)
    script = Queued(*cluster("a: 4x8"), things=(flavor("gpus"), strict))
    low = [script.start(f"low-{at}", 1, "team")[0] for at in range(4)]
    first, _ = (script.come(name, 1, "team", priority=10) for name in ("first", "second"))
    assert script.evicted == ["low-3-0"]
    assert (script.reason("first"), script.reason("second")) == ("Preempting", "QueueOrder")
    script.leave(low[3])
    assert all(map(script.planned, first))
    assert script.evicted == ["low-3-0", "low-2-0"]
    assert script.reason("second") == "Preempting"


@pytest.mark.parametrize("fair", [False, True])
def test_who_has_nodes_for_borrowed_quota_alone_comes_after_who_need_not_borrow(fair: bool) -> None:
    """The first flavor of the workload has quota, and no nodes."""
    things = (
        sort("none"),
        sort("some"),
        cluster_queue("team", {"none": 8, "some": 0}, cohort="all"),
        cluster_queue("owner", {"some": 8}, cohort="all"),
    )
    limits = Limits(fair_sharing=fair)
    script = Queued(*(node(f"n-{at}", labels={FLAVOR: "some"}) for at in range(2)), things=things, limits=limits)
    high, own = in_queue("high", 1, "team", priority=100), in_queue("own", 1, "owner")
    script.see(*high, *own)
    assert (script.planned(own[0]), script.planned(high[0])) == ("n-0", "")


def test_of_two_flavors_the_one_is_had_that_need_not_be_borrowed_when_others_have_given_way() -> None:
    """Before the evictions, either flavor would have to be borrowed."""
    things = (
        sort("first"),
        sort("second"),
        cluster_queue("team", {"first": 8, "second": 8}, cohort="all", preemption=Preemption(within=Evicts.LOWER)),
        cluster_queue("bank", {"first": 8, "second": 8}, cohort="all"),
    )
    labels = ("first", "second")
    script = Queued(*(node(f"{name}-{at}", labels={FLAVOR: name}) for name in labels for at in (0, 1)), things=things)
    for name in ("one", "two", "three"):
        script.start(name, 1, "team")
    script.start("other", 1, "bank")
    script.come("wants", 1, "team", priority=10)
    assert script.evicted == ["three-0"]
