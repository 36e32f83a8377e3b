"""Jobs that one leader has let go without a plan, and another goes on with."""

from __future__ import annotations

import pytest

from tests.core.let_go import GATED, VAIN, again, come, stop, ungate, wanting
from tests.core.queues import used
from tests.core.test_elastic import of, scene


def test_another_leader_goes_on_with_its_quota_and_its_deadline() -> None:
    script = scene(served=False)
    first = come(script)
    first.create(gates=GATED)
    script.advance(600)
    other, adopted = again(first)
    assert (adopted.starts, adopted.stops) == ([], [])
    assert used(other, "team", "spot") == 16
    assert other.reason("first") == "AwaitingNodes"
    assert len(ungate(other)) == 2
    late = come(other, wanting(name="late"))
    assert (late.starts, other.reason("late")) == ([], "NoQuota")
    other.advance(290)
    adopted.settle()
    assert adopted.stops == []
    other.advance(15)
    adopted.settle()
    assert adopted.stops == [f"{VAIN}; it asks again 60 s later"]
    stop(adopted)
    late.settle()
    assert (adopted.cleaned, len(late.starts), used(other, "team", "spot")) == (1, 1, 16)


def test_another_leader_lets_it_rest_as_long_as_its_job_says_and_counts_on() -> None:
    script = scene(served=False)
    first = come(script)
    for attempt in (1, 2):
        first.create()
        script.advance(901)
        first.settle()
        stop(first)
        while len(first.starts) == attempt < 2:
            first.wait(1.0)
    rest = first.seen.in_vain
    assert rest is not None
    assert rest.attempts == 2
    assert rest.until == pytest.approx(script.now + 120, abs=3)
    other, adopted = again(first)
    assert "in vain, 2 times in a row; it asks again 1" in other.message("first")
    adopted.wait(60)
    assert (adopted.starts, used(other, "team", "spot")) == ([], 0)
    adopted.wait(40)
    (start,) = adopted.starts
    assert start.let_go is not None
    assert (start.let_go.attempt, adopted.seen.in_vain) == (3, None)


def test_another_leader_plans_it_on_the_nodes_that_came_meanwhile() -> None:
    script = scene(served=False)
    first = come(script)
    pods = first.create()
    other, adopted = again(first, *of("spot", 2), now=script.now + 2000)
    (start,) = adopted.starts
    assert (start.let_go, set(start.plan[""])) == (None, {"spot-0", "spot-1"}), "late, and there"
    other.run(pods)
    adopted.wait(0.5)
    assert len(other.bound(pods)) == 2
    assert used(other, "team", "spot") == 16


def test_a_plan_that_was_not_written_any_more_is_that_of_its_bound_pods() -> None:
    script = scene(served=False)
    first = come(script)
    pods = first.create()
    first.obeys = False
    script.see(*of("spot", 2))
    first.wait(0.5)
    script.run(pods)
    assert len(script.bound(pods)) == 2
    other, adopted = again(first, *of("spot", 2))
    (start,) = adopted.starts
    there = {pod.index: other.pods[pod.uid].node for pod in first.pods.values()}
    assert start.plan == {"": (there[0], there[1])}
    other.advance(1000)
    adopted.settle()
    assert (adopted.stops, used(other, "team", "spot"), other.reason("first")) == ([], 16, "Running")
