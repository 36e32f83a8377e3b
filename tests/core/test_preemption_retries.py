"""A preemption that ended before its victims had gone is tried again after a pause, with nothing but time passing."""

from __future__ import annotations

import pytest

from extender.core.answers import JobWritten, Outcome
from extender.core.effects import Reserve
from extender.core.events import GroupGone, PreemptCalled
from extender.core.limits import Limits, Preempts
from tests.builders import cluster, coscheduled, gang, single
from tests.core.jobs import Controlled, job
from tests.core.preempting import Cluster, running

FORBIDDEN = "403 Forbidden"


def asked(script: Cluster) -> list[Reserve]:
    """The reservations that were to be written down."""
    return [one for one in script.written if one.reservation is not None]


def test_a_reservation_that_was_refused_once_is_written_again() -> None:
    script = Cluster(*cluster("a: 2x8"), writes=False)
    running(script, "low", 2)
    script.see(gang("high", 2, priority=10))
    script.write(script.written[0], FORBIDDEN)
    assert "it could not be written down: 403 Forbidden; it is tried again" in script.message("high")
    script.advance(0.5)
    assert len(asked(script)) == 1
    script.advance(1)
    assert len(asked(script)) == 2
    script.write(script.written[-1])
    assert sorted(script.evicted) == ["low-0", "low-1"]


def test_a_job_is_tried_again_as_well() -> None:
    script = Cluster(*cluster("a: 1x8"), writes=False)
    low = Controlled(script, job(1, name="low"))
    low.run()
    script.see(gang("high", 1, priority=10))
    script.write(script.written[0], FORBIDDEN)
    low.wait(2)
    script.write(script.written[-1])
    low.wait(1)
    assert len(low.stops) == 1


def test_one_that_is_always_refused_is_tried_less_and_less_often() -> None:
    script = Cluster(*cluster("a: 2x8"), writes=False)
    running(script, "low", 2)
    script.see(gang("high", 2, priority=10))
    answered = 0
    for _ in range(600):
        for effect in asked(script)[answered:]:
            answered += 1
            script.write(effect, FORBIDDEN)
        script.advance(0.5)
    assert 10 < answered < 20, "1, 2, 4, 8, 16 and then 30 s"
    assert not script.evicted


def test_two_that_are_always_refused_do_not_wake_each_other() -> None:
    script = Cluster(*cluster("a: 2x8"), writes=False)
    running(script, "low", 2)
    script.see(gang("high", 2, priority=10))
    script.see(gang("higher", 2, priority=20))
    answered = 0
    for _ in range(200):
        for effect in asked(script)[answered:]:
            answered += 1
            script.write(effect, FORBIDDEN)
        script.advance(0.5)
    assert answered < 20


@pytest.mark.parametrize("lost", [True, False])
def test_room_that_comes_meanwhile_is_taken_at_once(*, lost: bool) -> None:
    script = Cluster(*cluster("a: 2x8"), writes=False)
    low = running(script, "low", 2)
    high = gang("high", 2, priority=10)
    script.see(high)
    script.write(script.written[0], FORBIDDEN)
    if lost:
        script.gone(*(script.pods[pod.uid] for pod in low))
    else:
        script.see(*cluster("b: 2x8"))
    assert all(map(script.planned, high))


def test_victims_that_did_not_go_in_time_are_told_again_much_later() -> None:
    script = Cluster(*cluster("a: 1x8"))
    low = Controlled(script, job(1, name="low"))
    low.run()
    low.obeys = False
    script.see(gang("high", 1, priority=10))
    low.wait(1)
    script.feed(JobWritten(low.seen.key, low.seen.uid, Outcome.REFUSED, FORBIDDEN))
    low.wait(80)
    script.feed(JobWritten(low.seen.key, low.seen.uid, Outcome.REFUSED, FORBIDDEN))
    low.wait(1)
    stops = len(low.stops)
    assert "it is tried again" in script.message("high")
    low.wait(200)
    assert len(low.stops) == stops
    low.wait(450)
    assert len(low.stops) == stops + 1


def test_a_pod_of_no_gang_is_woken_so_that_kube_scheduler_asks_again() -> None:
    limits = Limits(preemption=Preempts.ON, preemption_s=60.0, pods_preempt_gangs=True)
    script = Cluster(*cluster("a: 1x8"), writes=False, limits=limits)
    low = running(script, "low", 1)
    alone = single("alone", gpus=8, priority=10)
    script.see(alone)
    script.feed(PreemptCalled(1, alone, {"a-0": (low[0].uid,)}))
    script.write(script.written[0], FORBIDDEN)
    assert not script.woken
    script.advance(2)
    assert script.woken == ["alone"]
    script.feed(PreemptCalled(2, alone, {"a-0": (low[0].uid,)}))
    script.write(asked(script)[-1])
    assert script.evicted == ["low-0"]


def test_what_else_it_waits_for_by_then_stays_its_reason() -> None:
    """Seed 730000572 of the campaign: after a restart it said that its PodGroup is missing, and before that NoRoom."""
    script = Cluster(*cluster("a: 2x8"))
    low = running(script, "low", 2)
    group, pods = coscheduled("high", 2, priority=10)
    script.see(group, pods)
    script.leave(low[0])
    script.feed(GroupGone(group.key, group.uid))
    script.advance(1)
    assert script.reason("high") == "PodGroupMissing"
    script.advance(70)
    assert script.reason("high") == "PodGroupMissing"
