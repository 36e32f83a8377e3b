"""Jobs that were let go without a plan, and are stopped, edited, refused, or lose a node."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from extender.core.answers import JobWritten, Outcome
from extender.core.events import QueueSeen
from policies.model.queues import Stop
from tests.core.jobs import wakes_later
from tests.core.let_go import TEAM, VAIN, come, stop, wanting
from tests.core.queues import cluster_queue, show, used
from tests.core.test_elastic import of, scene


def test_one_that_is_suspended_by_its_owner_or_deleted_gives_its_quota_back() -> None:
    script = scene(served=False)
    first = come(script)
    first.create()
    script.advance(300)
    first.show(suspended=True, let_go=None)
    assert used(script, "team", "spot") == 0
    stop(first)
    first.wait(0.5)
    assert (first.cleaned, first.stops, len(first.starts)) == (1, [], 2)
    assert used(script, "team", "spot") == 16
    first.create()
    script.advance(895)
    first.settle()
    assert first.stops == [], "it has all of its time again"
    first.create()
    first.gone()
    first.delete()
    script.advance(0.5)
    assert used(script, "team", "spot") == 0


@pytest.mark.parametrize(
    ("change", "why"),
    [
        ({"podsets": wanting(3).podsets}, "it asks for other pods, or names another queue"),
        ({"queue": "other"}, "it asks for other pods, or names another queue"),
    ],
)
def test_one_that_is_edited_is_suspended_and_asks_anew(change: dict[str, Any], why: str) -> None:
    script = scene(served=False, spot=24)
    show(script, cluster_queue("other", {"spot": 24}))
    first = come(script)
    first.create()
    first.show(**change)
    assert [why in one for one in first.stops] == [True]
    stop(first)
    first.wait(3.0)
    assert first.starts[-1].let_go is not None
    size = first.seen.podsets.minimum
    assert used(script, first.seen.queue, "spot") == 8 * size
    assert {used(script, name, "spot") for name in ("team", "other")} == {8 * size, 0}


def test_one_whose_queue_stops_is_suspended_and_what_runs_goes_on() -> None:
    script = scene(served=False)
    first = come(script)
    first.create()
    stopped = replace(TEAM, stop=Stop.HOLD)
    script.feed(QueueSeen(stopped))
    first.wait(0.5)
    assert len(first.stops) == 1
    assert "stopPolicy" in first.stops[0]
    stop(first)
    assert (used(script, "team", "spot"), script.reason("first")) == (0, "QueueStopped")
    script.feed(QueueSeen(TEAM))
    first.wait(3.0)
    assert len(first.starts) == 2
    first.create()
    script.see(*of("spot", 2))
    first.wait(0.5)
    script.feed(QueueSeen(stopped))
    first.wait(0.5)
    assert len(first.stops) == 1


def test_a_start_that_is_refused_keeps_no_quota_and_is_tried_again() -> None:
    script = scene(served=False)
    first = come(script, obeys=False)
    assert used(script, "team", "spot") == 16
    script.feed(JobWritten(first.seen.key, first.seen.uid, Outcome.REFUSED, "no such luck"))
    assert used(script, "team", "spot") == 0
    assert "no such luck" in script.message("first")
    first.obeys = True
    first.wait(3.0)
    assert len(first.starts) == 2
    assert first.seen.let_go is not None
    assert used(script, "team", "spot") == 16


@pytest.mark.parametrize("done", [True, False])
def test_nobody_else_gets_its_quota_while_its_start_has_no_answer_however_late_that_is(*, done: bool) -> None:
    script = scene(served=False)
    first = come(script, obeys=False)
    second = come(script, wanting(name="second"))
    script.advance(1000)
    assert wakes_later(script, 1.0)
    second.wait(1.0)
    assert (second.starts, used(script, "team", "spot")) == ([], 16)
    assert (script.reason("first"), script.reason("second")) == ("AwaitingNodes", "NoQuota")
    script.feed(JobWritten(first.seen.key, first.seen.uid, Outcome.DONE if done else Outcome.REFUSED))
    if done:
        (start,) = first.starts
        first.show(suspended=False, stopped=False, marked=True, let_go=start.let_go, flavors=start.flavors)
        assert used(script, "team", "spot") == 16
        first.obeys = True
        first.wait(6.0)
        assert [VAIN in one for one in first.stops] == [True]
        stop(first)
    second.wait(2.0)
    assert (len(second.starts), used(script, "team", "spot")) == (1, 16)


def test_a_plan_that_cannot_be_written_is_made_anew() -> None:
    script = scene(served=False)
    first = come(script)
    first.create()
    first.obeys = False
    script.see(*of("spot", 2))
    first.wait(0.5)
    assert first.starts[-1].let_go is None
    script.feed(JobWritten(first.seen.key, first.seen.uid, Outcome.REFUSED, "no such luck"))
    assert used(script, "team", "spot") == 16, "it is let go still"
    first.obeys = True
    first.wait(3.0)
    assert (len(first.starts), first.stops) == (3, [])
    assert first.seen.plan == first.starts[-1].plan


def test_one_that_loses_a_node_before_it_starts_is_started_over_like_any_other() -> None:
    script = scene(served=False)
    first = come(script)
    first.create()
    script.see(*of("spot", 2))
    first.wait(0.5)
    script.drop("spot-0")
    first.wait(0.5)
    assert len(first.stops) == 1
    assert "spot-0" in first.stops[0]
    stop(first)
    first.wait(3.0)
    assert first.starts[-1].let_go is not None
    assert used(script, "team", "spot") == 16


def test_a_plan_that_may_not_have_been_written_is_written_again() -> None:
    script = scene(served=False)
    first = come(script)
    pods = first.create()
    first.obeys = False
    script.see(*of("spot", 2))
    first.wait(0.5)
    (written,) = first.starts[1:]
    script.feed(JobWritten(first.seen.key, first.seen.uid, Outcome.UNKNOWN, "no answer"))
    script.run(pods)
    first.obeys = True
    first.wait(script.core.state.limits.plan_s + 1.0)
    assert first.starts[2:] == [written], "its pods run, and nobody would know by which plan"
    assert (first.seen.plan, first.seen.let_go, first.stops) == (written.plan, None, [])


def test_one_that_is_held_is_suspended_and_gives_its_quota_back() -> None:
    script = scene(served=False)
    first = come(script)
    first.create()
    first.show(held=True)
    assert first.stops == ["muster.dev/hold keeps it suspended"]
    stop(first)
    first.wait(0.5)
    assert (used(script, "team", "spot"), script.reason("first")) == (0, "Held")
    first.show(held=False)
    first.wait(3.0)
    assert (len(first.starts), used(script, "team", "spot")) == (2, 16)


def test_one_that_is_held_when_it_has_its_nodes_runs_on() -> None:
    script = scene(served=False)
    first = come(script)
    first.create()
    script.see(*of("spot", 2))
    first.wait(0.5)
    first.show(held=True)
    first.wait(3.0)
    assert (len(first.starts), first.stops) == (2, [])
