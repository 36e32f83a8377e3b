"""Who gives quota back under fair sharing, and who is spared."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction

import pytest

from extender.core.preemption import search as victim_search
from tests.builders import cluster
from tests.core.lending import FAIR, RECLAIMS, Queued, borrowers
from tests.core.preempting import ON
from tests.core.queues import cluster_queue, flavor


def test_with_fair_sharing_the_larger_share_gives_way() -> None:
    things = (
        flavor("gpus"),
        cluster_queue("one", {"gpus": 0}, cohort="all", preemption=RECLAIMS),
        cluster_queue("two", {"gpus": 0}, cohort="all", preemption=RECLAIMS),
        cluster_queue("idle", {"gpus": 32}, cohort="all"),
    )
    script = Queued(*cluster("a: 4x8"), things=things, limits=replace(ON, fair_sharing=True))
    for name in ("a", "b", "c", "d"):
        script.start(name, 1, "one")
    script.come("first", 1, "two")
    assert len(script.evicted) == 1
    script.leave(script.pods[f"uid-{script.evicted[0]}"])
    script.run([script.pods["uid-first-0"]])
    script.come("second", 1, "two")
    assert len(script.evicted) == 2
    script.leave(script.pods[f"uid-{script.evicted[1]}"])
    script.run([script.pods["uid-second-0"]])
    script.come("third", 1, "two")
    script.advance(30)
    assert len(script.evicted) == 2, "the shares are equal now"


def test_a_queue_that_would_use_as_much_of_its_own_as_the_other_evicts_nobody_of_it() -> None:
    """It would have borrowed 16 and the other one has borrowed 24; but that is 3 times its own beside 2.5 times."""
    for saturation, evicted in ((None, 1), (Fraction(1), 0)):
        script = borrowers(replace(FAIR, saturation=saturation))
        script.come("more", 1, "two")
        script.advance(5)
        assert len(set(script.evicted)) == evicted


def test_with_fair_sharing_no_victims_are_searched_for_where_no_other_share_is_as_large(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    script = borrowers(FAIR)
    with monkeypatch.context() as context:
        context.delattr(victim_search, "search")
        script.come("more", 1, "one")
        script.advance(60)
    why = "no other queue borrows with so large a share, and nobody in queue one may go"
    assert script.message("more").endswith(f"nobody may be evicted: {why}")
    script.come("owed", 1, "two")
    assert len(script.evicted) == 1, "its share would be the smaller one"


def test_those_of_queues_that_shares_spare_are_no_candidates() -> None:
    """It would borrow 24, as the other one does; its own queue is spared by its rules; the lender borrows nothing."""
    script = borrowers(FAIR)
    script.come("more", 2, "two")
    assert script.message("more").endswith("of the 5 candidates that may be evicted for it, not enough may go together")


def test_saturation_keeps_nobody_from_what_is_its_own() -> None:
    script = borrowers(replace(FAIR, saturation=Fraction(2)))
    script.come("own", 1, "lender")
    script.advance(5)
    assert len(set(script.evicted)) == 1
