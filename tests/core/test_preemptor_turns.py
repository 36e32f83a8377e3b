"""Whose turn it is among queues of whose workloads some have others give way: by what they borrow in the end."""

from __future__ import annotations

import pytest

from extender.core.effects import Nominate, Reserve
from extender.core.limits import Limits, Preempts
from extender.core.turns import Turn
from policies.model.queues import Evicts, Preemption, Strategy
from tests.builders import cluster
from tests.core.preempting import ON
from tests.core.queues import cluster_queue, flavor, in_queue
from tests.core.test_reclaim import Queued

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
    """However high its priority is. What the preemptor would need is not there any more then."""
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
    assert script.turns(Turn.PREEMPTING) == 1
    assert (script.reason("high"), script.reason("small")) == ("Preempting", "QueueOrder")
    done = [one for one in script.effects if isinstance(one, (Nominate, Reserve))]
    assert [isinstance(one, Reserve) for one in done[-3:]] == [False, False, True]
