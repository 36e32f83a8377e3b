"""Jobs where nodes cannot be asked for: they are let go without a plan, and start whole on the nodes that come."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from extender.core.answers import Ungated
from extender.core.effects import CleanJob, StartJob, SuspendJob
from extender.core.events import CapacityServed
from extender.core.limits import Limits, Preempts
from policies.model import Job, Pod, PodSet, Selection
from policies.model.queues import Strategy
from tests.builders import requests
from tests.core.jobs import template
from tests.core.let_go import GATED, TEAM, VAIN, come, stop, ungate, wanting
from tests.core.queues import FLAVOR, show, sort, used
from tests.core.script import Script
from tests.core.test_elastic import LIMITS, SPOT, of, scene


def test_it_is_let_go_with_quota_and_starts_whole_on_the_nodes_that_come() -> None:
    script = scene(served=False)
    first = come(script)
    (start,) = first.starts
    assert start.let_go is not None
    assert (start.plan, start.minimum, start.let_go.attempt, start.awaits_s) == ({}, 2, 1, 900.0)
    assert start.let_go.until == pytest.approx(script.now + 900, abs=3)
    assert start.flavors[""]["nvidia.com/gpu"] == "spot"
    assert start.tolerations == {"": (SPOT,)}
    assert script.reason("first") == "AwaitingNodes"
    assert used(script, "team", "spot") == 16
    pods = first.create(gates=GATED)
    assert ungate(script) == [pod.uid for pod in pods]
    assert [script.filter(pod) for pod in pods] == [(), ()]
    assert "kube-scheduler has its 2 pods without a plan" in script.message("first")
    assert used(script, "team", "spot") == 16
    script.see(*of("spot", 1))
    first.wait(0.5)
    assert [script.filter(pod) for pod in pods] == [(), ()], "all or none"
    script.see(*of("spot", 1, first=1))
    first.wait(0.5)
    start = first.starts[-1]
    assert (len(first.starts), start.let_go, set(start.plan[""])) == (2, None, {"spot-0", "spot-1"})
    assert {script.filter(pod) for pod in pods} == {("spot-0",), ("spot-1",)}
    script.run(pods)
    first.wait(0.5)
    assert sorted(script.bound(pods)) == ["spot-0", "spot-1"]
    assert used(script, "team", "spot") == 16
    script.advance(1000)
    first.settle()
    assert (first.stops, len(first.starts)) == ([], 2)
    assert script.reason("first") == "Running"


def test_a_gate_that_has_come_off_is_known_to_be_off_before_the_watch_shows_it() -> None:
    """It could not be taken off once more, with a pin to the nodes of the plan."""
    script = scene(served=False)
    pods = come(script).create(gates=GATED)
    script.feed(Ungated(pods[0].uid))
    script.feed(Ungated(pods[1].uid, "no answer"))
    assert [script.core.state.pods[pod.uid].gates for pod in pods] == [(), GATED]


def test_its_pods_are_shown_to_an_autoscaler_when_enough_to_start_are_there() -> None:
    script = scene(served=False, spot=24)
    first = come(script, wanting(3))
    first.create(only=2, gates=GATED)
    assert ungate(script) == []
    first.create(gates=GATED)
    assert len(ungate(script)) == 3
    script.gone(script.pods[next(iter(first.pods))])
    del first.pods[next(iter(first.pods))]
    first.create(gates=GATED)
    assert len(ungate(script)) == 1, "the one that replaces another one is shown, too"


def test_nobody_else_gets_its_quota_until_its_nodes_are_too_late() -> None:
    script = scene(served=False)
    first = come(script)
    first.create()
    second = come(script, wanting(name="second"))
    assert (second.starts, script.reason("second")) == ([], "NoQuota")
    assert "it is used by default/first (16)" in script.message("second")
    script.advance(901)
    first.settle()
    assert first.stops == [f"{VAIN}; it asks again 60 s later"]
    stop(first)
    assert (first.cleaned, first.seen.marked) == (1, False)
    second.wait(1.0)
    assert len(second.starts) == 1
    assert used(script, "team", "spot") == 16
    second.gone()
    script.advance(0.5)
    assert script.reason("first") == "NoRoom"
    assert VAIN in script.message("first")
    assert used(script, "team", "spot") == 0


def test_nobody_who_comes_before_it_in_a_strict_queue_keeps_it_from_the_nodes_that_come() -> None:
    """It has quota, and the other one lacks that very quota, and is looked at whenever somebody may give way to it."""
    script = scene(served=False, strategy=Strategy.STRICT, limits=replace(LIMITS, preemption=Preempts.ON))
    first = come(script)
    pods = first.create()
    wanted = wanting(name="urgent")
    (podset,) = wanted.podsets.podsets
    podset = replace(podset, template=replace(podset.template, priority=10))
    urgent = come(script, replace(wanted, podsets=replace(wanted.podsets, podsets=(podset,))))
    script.see(*of("spot", 2))
    first.wait(0.5)
    assert script.reason("urgent") == "NoQuota"
    assert set(map(script.planned, pods)) == {"spot-0", "spot-1"}
    assert (len(first.starts), len(urgent.starts)) == (2, 0)


def test_each_time_it_rests_longer_and_meanwhile_it_starts_where_there_is_room() -> None:
    script = scene(served=False)
    first = come(script)
    pauses = []
    for attempt in (1, 2, 3):
        asked = first.starts[-1].let_go
        assert asked is not None
        assert asked.attempt == attempt
        first.create()
        script.advance(901)
        first.settle()
        began = script.now
        stop(first)
        assert used(script, "team", "spot") == 0
        while len(first.starts) == attempt:
            assert script.now < began + 300
            first.wait(1.0)
        pauses.append(round((script.now - began) / 10) * 10)
    assert pauses == [60, 120, 240]
    script.advance(901)
    first.settle()
    stop(first)
    script.see(*of("spot", 2))
    first.wait(30.0)
    assert first.starts[-1].let_go is None
    assert set(first.starts[-1].plan[""]) == {"spot-0", "spot-1"}


def test_pods_that_were_not_even_created_are_part_of_the_reason() -> None:
    script = scene(served=False)
    first = come(script)
    first.create(only=1)
    script.advance(901)
    first.settle()
    assert first.stops == [f"{VAIN}; 1 pod was not even created; it asks again 60 s later"]


def test_nodes_that_are_there_are_enough() -> None:
    script = scene(*of("spot", 2), served=False)
    first = come(script)
    (start,) = first.starts
    assert (start.let_go, set(start.plan[""])) == (None, {"spot-0", "spot-1"})


def _in_waves(**facts: Any) -> Job:
    """``facts``: of the pod that is made when the two others run."""
    made_of: Pod = replace(template("first", series="1-late"), **facts)
    asked = wanting(2)
    return replace(
        asked,
        podsets=replace(asked.podsets, podsets=(*asked.podsets.podsets, PodSet(made_of, 1, 1, wave=1))),
    )


def test_one_that_no_autoscaler_would_see_as_it_is_is_not_let_go() -> None:
    script = scene(served=False, spot=24)
    first = come(script, _in_waves(selection=Selection(((FLAVOR, "spot"),))))
    assert (first.starts, used(script, "team", "spot")) == ([], 0)
    assert script.reason("first") == "NoRoom"
    why = "no autoscaler sees all of them: have them made together (a JobSet without startupPolicy InOrder"
    assert why in script.message("first")


def test_one_whose_later_pods_need_no_such_nodes_is_let_go_and_planned_with_them() -> None:
    script = scene(served=False)
    first = come(script, _in_waves(requests=requests(0)))
    (start,) = first.starts
    assert (start.minimum, set(start.flavors)) == (2, {""})
    pods = first.create(only=2, gates=GATED)
    assert ungate(script) == [pod.uid for pod in pods]
    assert "kube-scheduler has its 2 pods without a plan" in script.message("first")
    script.see(*of("spot", 2))
    first.wait(0.5)
    start = first.starts[-1]
    (planned,) = start.plan["1-late"]
    assert (len(first.starts), set(start.plan[""])) == (2, {"spot-0", "spot-1"})
    script.run(pods)
    assert sorted(script.bound(pods)) == ["spot-0", "spot-1"]
    (late,) = first.create(gates=GATED)
    first.wait(0.5)
    assert ungate(script) == [late.uid]
    script.run([late])
    assert script.bound([late]) == [planned]
    script.advance(1000)
    first.settle()
    assert (first.stops, script.reason("first")) == ([], "Running")


def test_those_that_are_made_later_are_not_missed_when_no_nodes_come() -> None:
    script = scene(served=False)
    first = come(script, _in_waves(requests=requests(0)))
    first.create(only=1, gates=GATED)
    assert ungate(script) == []
    first.wait(901)
    assert first.stops == [f"{VAIN}; 1 pod was not even created; it asks again 60 s later"]


@pytest.mark.parametrize("facts", [{"spot": 8}, {"limits": Limits()}])
def test_without_quota_of_an_elastic_flavor_nobody_is_let_go(facts: dict[str, Any]) -> None:
    script = scene(served=False, **facts)
    first = come(script)
    assert (first.starts, used(script, "team", "spot")) == ([], 0)


def test_nobody_is_let_go_before_it_is_known_whether_nodes_can_be_asked_for() -> None:
    script = Script(*of("owned", 1), limits=LIMITS)
    show(script, sort("owned"), sort("spot"), TEAM)
    first = come(script)
    assert first.starts == []
    script.feed(CapacityServed(served=True))
    first.wait(0.5)
    assert (first.starts, len(script.core.capacity_asks())) == ([], 1)
    script.feed(CapacityServed(served=False))
    first.wait(0.5)
    assert (len(first.starts), len(script.core.capacity_asks())) == (1, 0)
    assert used(script, "team", "spot") == 16
    written = [one for one in script.effects if isinstance(one, StartJob | SuspendJob | CleanJob)]
    assert len(written) == 1
