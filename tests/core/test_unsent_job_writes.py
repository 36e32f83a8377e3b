"""A job's write that was not sent, or had to wait, is requested again, unless its plan's grounds have changed."""

from __future__ import annotations

from dataclasses import replace

from extender.core.answers import JobWritten, Outcome
from tests.builders import cluster, gang, single
from tests.core.jobs import Controlled, job
from tests.core.node_waits import come, wanting
from tests.core.relations import PORT
from tests.core.script import Script
from tests.core.test_elastic import of, scene


def test_a_start_that_was_not_sent_is_asked_for_again_at_once_with_the_same_nodes() -> None:
    script = Script(*cluster("a: 2x8"))
    train = Controlled(script, job(2), obeys=False)
    rival = gang("rival", 2, priority=1000)
    script.see(rival)
    for _ in range(3):
        script.feed(JobWritten(train.seen.key, train.seen.uid, Outcome.UNSENT, "no answer"))
        assert not script.planned(rival[0]), "its nodes stay promised"
    train.settle()
    assert [start.plan for start in train.starts] == [train.starts[0].plan] * 4
    train.obeys = True
    script.feed(JobWritten(train.seen.key, train.seen.uid, Outcome.UNSENT, "no answer"))
    train.settle()
    assert len(script.bound(train.run())) == 2


def test_a_start_that_was_not_sent_is_planned_anew_when_somebody_has_come_in_the_way_of_its_pods() -> None:
    script, seen = Script(*cluster("a: 3x8")), job(2)
    (podset,) = seen.podsets.podsets
    podset = replace(podset, template=replace(podset.template, constraints=PORT))
    train = Controlled(script, replace(seen, podsets=replace(seen.podsets, podsets=(podset,))), obeys=False)
    script.see(single("other", gpus=0, constraints=PORT, node="a-0"))
    train.obeys = True
    script.feed(JobWritten(train.seen.key, train.seen.uid, Outcome.UNSENT, "no answer"))
    train.settle()
    assert [set(start.plan[""]) for start in train.starts] == [{"a-0", "a-1"}, {"a-1", "a-2"}]


def test_a_suspension_that_was_not_sent_is_asked_for_again_at_once() -> None:
    script = Script(*cluster("a: 2x8"))
    train = Controlled(script, job(2))
    train.create()
    train.obeys = False
    script.drop("a-0")
    train.settle()
    script.feed(JobWritten(train.seen.key, train.seen.uid, Outcome.UNSENT, "no answer"))
    train.settle()
    assert len(train.stops) == 2


def test_a_start_that_was_not_sent_is_planned_anew_when_a_node_of_its_plan_has_gone_meanwhile() -> None:
    script = Script(*cluster("a: 2x8"))
    train = Controlled(script, job(2), obeys=False)
    script.drop("a-0")
    train.wait(3)
    train.obeys = True
    script.feed(JobWritten(train.seen.key, train.seen.uid, Outcome.UNSENT, "no answer"))
    train.wait(3)
    assert script.reason("job") == "NoRoom"
    script.see(*cluster("b: 1x8"))
    train.wait(3)
    assert len(train.starts) == 2


def test_nodes_that_have_come_before_its_start_was_shown_are_not_written_when_somebody_is_in_the_way_by_then() -> None:
    script, seen = scene(served=False), wanting()
    (podset,) = seen.podsets.podsets
    podset = replace(podset, template=replace(podset.template, constraints=PORT))
    first = come(script, replace(seen, podsets=replace(seen.podsets, podsets=(podset,))), obeys=False)
    script.see(*of("spot", 3))
    first.wait(0.5)
    (start,) = first.starts
    script.see(single("other", gpus=0, constraints=PORT, node="spot-0"))
    first.obeys = True
    first.show(suspended=False, stopped=False, marked=True, flavors=start.flavors, node_wait=start.node_wait)
    first.wait(0.5)
    assert [set(start.plan.get("", ())) for start in first.starts] == [set(), {"spot-1", "spot-2"}]
    assert first.stops == []
