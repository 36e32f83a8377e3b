"""Jobs where nodes cannot be asked for: they start without a plan, and are bound whole on the nodes that come.

They may be stopped, edited or refused, lose a node, or name no nodes: then the labels of their flavors are written
for them. The leader may change meanwhile.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from extender.core.answers import JobWritten, Outcome, Ungated
from extender.core.effects import CleanJob, StartJob, SuspendJob
from extender.core.events import CapacityServed, QueueSeen
from extender.core.limits import Limits, Preempts
from policies.model import Job, Pod, PodSet, Selection, Taint, Toleration, Topology
from policies.model.queues import Stop, Strategy
from tests.builders import requests
from tests.core.jobs import Controlled, template, wakes_later
from tests.core.node_waits import GATED, TEAM, VAIN, again, come, naming_only_its_queue, stop, ungate, wanting
from tests.core.queues import FLAVOR, cluster_queue, show, sort, used
from tests.core.script import Script
from tests.core.test_elastic import LIMITS, SPOT, of, scene


def awaiting_nodes() -> tuple[Script, Controlled]:
    """A job that was started without nodes, and whose pods exist."""
    script = scene(served=False)
    first = come(script)
    first.create()
    return script, first


def nodes_join(first: Controlled) -> None:
    """Let both nodes join that the job waits for."""
    first.script.see(*of("spot", 2))
    first.wait(0.5)


def test_it_is_started_without_nodes_with_quota_and_starts_whole_on_the_nodes_that_come() -> None:
    script = scene(served=False)
    first = come(script)
    (start,) = first.starts
    assert start.node_wait is not None
    assert (start.plan, start.minimum, start.node_wait.attempt, start.awaits_s) == ({}, 2, 1, 900.0)
    assert start.node_wait.until == pytest.approx(script.now + 900, abs=3)
    assert start.flavors[""]["nvidia.com/gpu"] == "spot"
    assert start.tolerations == {"": (SPOT,)}
    assert script.reason("first") == "AwaitingNodes"
    assert used(script, "team", "spot") == 16
    pods = first.create(gates=GATED)
    assert ungate(script) == [pod.uid for pod in pods]
    assert [script.filter(pod) for pod in pods] == [(), ()]
    assert "its 2 pods are pending without a plan" in script.message("first")
    assert used(script, "team", "spot") == 16
    script.see(*of("spot", 1))
    first.wait(0.5)
    assert [script.filter(pod) for pod in pods] == [(), ()], "all or none"
    script.see(*of("spot", 1, first=1))
    first.wait(0.5)
    start = first.starts[-1]
    assert (len(first.starts), start.node_wait, set(start.plan[""])) == (2, None, {"spot-0", "spot-1"})
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
    """Another removal would pin the pod to the nodes of the plan, which fails."""
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
    script, first = awaiting_nodes()
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
    """The first job has quota.

    The urgent one lacks that very quota, and is looked at whenever victims for it may exist.
    """
    script = scene(served=False, strategy=Strategy.STRICT, limits=replace(LIMITS, preemption=Preempts.ON))
    first = come(script)
    pods = first.create()
    wanted = wanting(name="urgent")
    (podset,) = wanted.podsets.podsets
    podset = replace(podset, template=replace(podset.template, priority=10))
    urgent = come(script, replace(wanted, podsets=replace(wanted.podsets, podsets=(podset,))))
    nodes_join(first)
    assert script.reason("urgent") == "NoQuota"
    assert set(map(script.planned, pods)) == {"spot-0", "spot-1"}
    assert (len(first.starts), len(urgent.starts)) == (2, 0)


def test_each_time_it_rests_longer_and_meanwhile_it_starts_where_there_is_room() -> None:
    script = scene(served=False)
    first = come(script)
    pauses = []
    for attempt in (1, 2, 3):
        wait = first.starts[-1].node_wait
        assert wait is not None
        assert wait.attempt == attempt
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
    assert first.starts[-1].node_wait is None
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
    assert (start.node_wait, set(start.plan[""])) == (None, {"spot-0", "spot-1"})


def _in_waves(**facts: Any) -> Job:
    """``facts``: of the pod that is made when the two others run."""
    made_of: Pod = replace(template("first", series="1-late"), **facts)
    seen = wanting(2)
    return replace(
        seen,
        podsets=replace(seen.podsets, podsets=(*seen.podsets.podsets, PodSet(made_of, 1, 1, wave=1))),
    )


def test_one_that_no_autoscaler_would_see_as_it_is_does_not_await_nodes() -> None:
    script = scene(served=False, spot=24)
    first = come(script, _in_waves(selection=Selection(((FLAVOR, "spot"),))))
    assert (first.starts, used(script, "team", "spot")) == ([], 0)
    assert script.reason("first") == "NoRoom"
    why = "no autoscaler sees all of them: have them made together (a JobSet without startupPolicy InOrder"
    assert why in script.message("first")


def test_one_whose_later_pods_need_no_such_nodes_is_started_without_nodes_and_planned_with_them() -> None:
    script = scene(served=False)
    first = come(script, _in_waves(requests=requests(0)))
    (start,) = first.starts
    assert (start.minimum, set(start.flavors)) == (2, {""})
    pods = first.create(only=2, gates=GATED)
    assert ungate(script) == [pod.uid for pod in pods]
    assert "its 2 pods are pending without a plan" in script.message("first")
    nodes_join(first)
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
def test_without_quota_of_an_elastic_flavor_no_workload_awaits_nodes(facts: dict[str, Any]) -> None:
    script = scene(served=False, **facts)
    first = come(script)
    assert (first.starts, used(script, "team", "spot")) == ([], 0)


def test_no_workload_awaits_nodes_before_it_is_known_whether_nodes_can_be_asked_for() -> None:
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
    written = [effect for effect in script.effects if isinstance(effect, StartJob | SuspendJob | CleanJob)]
    assert len(written) == 1


def test_one_that_is_suspended_by_its_owner_or_deleted_gives_its_quota_back() -> None:
    script, first = awaiting_nodes()
    script.advance(300)
    first.show(suspended=True, node_wait=None)
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
    assert [why in stop for stop in first.stops] == [True]
    stop(first)
    first.wait(3.0)
    assert first.starts[-1].node_wait is not None
    size = first.seen.podsets.minimum
    assert used(script, first.seen.queue, "spot") == 8 * size
    assert {used(script, name, "spot") for name in ("team", "other")} == {8 * size, 0}


def test_one_whose_queue_stops_is_suspended_and_what_runs_goes_on() -> None:
    script, first = awaiting_nodes()
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
    nodes_join(first)
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
    assert first.seen.node_wait is not None
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
        first.show(suspended=False, stopped=False, marked=True, node_wait=start.node_wait, flavors=start.flavors)
        assert used(script, "team", "spot") == 16
        first.obeys = True
        first.wait(6.0)
        assert [VAIN in stop for stop in first.stops] == [True]
        stop(first)
    second.wait(2.0)
    assert (len(second.starts), used(script, "team", "spot")) == (1, 16)


def test_a_plan_that_cannot_be_written_is_made_anew() -> None:
    script, first = awaiting_nodes()
    first.obeys = False
    nodes_join(first)
    assert first.starts[-1].node_wait is None
    script.feed(JobWritten(first.seen.key, first.seen.uid, Outcome.REFUSED, "no such luck"))
    assert used(script, "team", "spot") == 16, "it is let go still"
    first.obeys = True
    first.wait(3.0)
    assert (len(first.starts), first.stops) == (3, [])
    assert first.seen.plan == first.starts[-1].plan


def test_one_that_loses_a_node_before_it_starts_is_started_over_like_any_other() -> None:
    script, first = awaiting_nodes()
    nodes_join(first)
    script.drop("spot-0")
    first.wait(0.5)
    assert len(first.stops) == 1
    assert "spot-0" in first.stops[0]
    stop(first)
    first.wait(3.0)
    assert first.starts[-1].node_wait is not None
    assert used(script, "team", "spot") == 16


def test_a_plan_that_may_not_have_been_written_is_written_again() -> None:
    script, first = awaiting_nodes()
    pods = [*first.pods.values()]
    first.obeys = False
    nodes_join(first)
    (written,) = first.starts[1:]
    script.feed(JobWritten(first.seen.key, first.seen.uid, Outcome.UNKNOWN, "no answer"))
    script.run(pods)
    first.obeys = True
    first.wait(script.core.state.limits.plan_s + 1.0)
    assert first.starts[2:] == [written], "its pods run, and nobody would know by which plan"
    assert (first.seen.plan, first.seen.node_wait, first.stops) == (written.plan, None, [])


def test_one_that_is_held_is_suspended_and_gives_its_quota_back() -> None:
    script, first = awaiting_nodes()
    first.show(held=True)
    assert first.stops == ["muster.dev/hold keeps it suspended"]
    stop(first)
    first.wait(0.5)
    assert (used(script, "team", "spot"), script.reason("first")) == (0, "Held")
    first.show(held=False)
    first.wait(3.0)
    assert (len(first.starts), used(script, "team", "spot")) == (2, 16)


def test_one_that_is_held_when_it_has_its_nodes_runs_on() -> None:
    _, first = awaiting_nodes()
    nodes_join(first)
    first.show(held=True)
    first.wait(3.0)
    assert (len(first.starts), first.stops) == (2, [])


def test_one_that_names_only_its_queue_asks_for_the_nodes_of_its_flavor() -> None:
    script = scene(served=False)
    first = come(script, naming_only_its_queue())
    (start,) = first.starts
    assert (start.node_wait is not None, start.labels) == (True, {"": ((FLAVOR, "spot"),)})
    pods = first.create(gates=GATED, selection=Selection(((FLAVOR, "spot"),), tolerations=(SPOT,)))
    ungate(script)
    script.see(*of("owned", 2, first=1), *of("spot", 1))
    first.wait(0.5)
    assert (len(first.starts), script.reason("first")) == (1, "AwaitingNodes"), "no nodes of another flavor"
    script.see(*of("spot", 1, first=1))
    first.wait(0.5)
    start = first.starts[-1]
    assert (start.node_wait, start.labels, set(start.plan[""])) == (None, {}, {"spot-0", "spot-1"})
    script.run(pods)
    first.wait(0.5)
    assert sorted(script.bound(pods)) == ["spot-0", "spot-1"]


def test_a_flavor_without_labels_asks_for_nothing() -> None:
    script = scene(served=False)
    show(script, replace(sort("spot"), node_labels={}, tolerations=(SPOT,)))
    first = come(script, naming_only_its_queue())
    (start,) = first.starts
    assert (start.node_wait is not None, start.labels) == (True, {})


def test_one_whose_pods_come_without_them_is_taken_back_and_rests() -> None:
    script = scene(served=False)
    first = come(script, naming_only_its_queue())
    first.create(gates=GATED, selection=Selection(tolerations=(SPOT,)), created=script.now)
    first.settle()
    (why,) = first.stops
    assert "for nodes of spot its pods need the nodeSelector nvidia.com/flavor=spot" in why
    assert "is the component job-admission installed as this version of Muster has it?" in why
    assert ungate(script) == []
    stop(first)
    first.wait(35)
    assert (len(first.starts), used(script, "team", "spot")) == (1, 0)
    first.wait(20)
    assert (len(first.starts), used(script, "team", "spot")) == (2, 16)


def test_a_pod_of_an_earlier_start_that_is_seen_late_does_not_end_it() -> None:
    script = scene(served=False)
    script.advance(60)
    first = come(script, naming_only_its_queue())
    first.create(selection=Selection(tolerations=(SPOT,)))
    assert (first.stops, script.reason("first")) == ([], "AwaitingNodes")


@pytest.mark.parametrize("tolerations", [(), (SPOT,)])
def test_pods_that_cannot_be_in_one_clique_with_the_nodes_that_come_are_part_of_the_reason(
    tolerations: tuple[Toleration, ...],
) -> None:
    """Pods without quota get no flavor."""
    script = scene(served=False)
    show(script, replace(sort("spot"), taints=(Taint("spot", "", "NoSchedule"),), tolerations=(SPOT,)))
    seen = naming_only_its_queue()
    (workers,) = seen.podsets.podsets
    clique = Topology("clique")
    launcher = replace(template("first", 0, "launcher"), topology=clique, selection=Selection(tolerations=tolerations))
    workers = replace(workers, template=replace(workers.template, topology=clique))
    first = come(script, replace(seen, podsets=replace(seen.podsets, podsets=(workers, PodSet(launcher, 1, 1)))))
    first.create()
    script.advance(901)
    first.settle()
    (why,) = first.stops
    assert "not enough joined within 900 s" in why
    text = "the pods of launcher have to share one clique with those on nodes of spot, and need tolerations"
    assert (text in why) is not bool(tolerations)


def test_each_podset_asks_for_the_nodes_of_its_own_flavor() -> None:
    script = scene(served=False)
    seen = naming_only_its_queue()
    other = replace(template("first", series="1-small"), selection=Selection(((FLAVOR, "owned"),)))
    podsets = (*seen.podsets.podsets, PodSet(other, 1, 1))
    first = come(script, replace(seen, podsets=replace(seen.podsets, podsets=podsets)))
    (start,) = first.starts
    assert start.labels == {"": ((FLAVOR, "spot"),), "1-small": ((FLAVOR, "owned"),)}


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
    assert "did not come, 2 times in a row; it asks again 1" in other.message("first")
    adopted.wait(60)
    assert (adopted.starts, used(other, "team", "spot")) == ([], 0)
    adopted.wait(40)
    (start,) = adopted.starts
    assert start.node_wait is not None
    assert (start.node_wait.attempt, adopted.seen.in_vain) == (3, None)


def test_another_leader_plans_it_on_the_nodes_that_came_meanwhile() -> None:
    script, first = awaiting_nodes()
    pods = [*first.pods.values()]
    other, adopted = again(first, *of("spot", 2), now=script.now + 2000)
    (start,) = adopted.starts
    assert (start.node_wait, set(start.plan[""])) == (None, {"spot-0", "spot-1"}), "late, and there"
    other.run(pods)
    adopted.wait(0.5)
    assert len(other.bound(pods)) == 2
    assert used(other, "team", "spot") == 16


def test_a_plan_that_was_not_written_any_more_is_that_of_its_bound_pods() -> None:
    script, first = awaiting_nodes()
    pods = [*first.pods.values()]
    first.obeys = False
    nodes_join(first)
    script.run(pods)
    assert len(script.bound(pods)) == 2
    other, adopted = again(first, *of("spot", 2))
    (start,) = adopted.starts
    there = {pod.index: other.pods[pod.uid].node for pod in first.pods.values()}
    assert start.plan == {"": (there[0], there[1])}
    other.advance(1000)
    adopted.settle()
    assert (adopted.stops, used(other, "team", "spot"), other.reason("first")) == ([], 16, "Running")
