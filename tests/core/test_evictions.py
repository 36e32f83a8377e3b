"""A workload is evicted at most a few times in an hour, also across restarts of Muster."""

from __future__ import annotations

from dataclasses import replace

import pytest

from extender.core.effects import Milestone, SuspendJob
from policies.model import Pod
from tests.builders import cluster, gang, single
from tests.core.jobs import Controlled, job
from tests.core.preempting import ON, Cluster, running

ONCE = replace(ON, evictions_per_hour=1)


def evicted_once(script: Cluster) -> list[Pod]:
    """Evict a gang, and bring it back when its preemptor has ended. Returns its members."""
    low = running(script, "low", 1)
    high = gang("high", 1, priority=10)
    script.see(high)
    assert script.evicted == ["low-0"]
    script.leave(*low)
    script.run(high)
    script.gone(*(script.pods[pod.uid] for pod in high))
    again = [replace(pod, uid=f"{pod.uid}-again") for pod in gang("low", 1)]
    script.see(again)
    script.run(again)
    return again


def test_who_has_given_way_so_often_stays_until_an_hour_has_passed() -> None:
    script = Cluster(*cluster("a: 1x8"), limits=ONCE)
    evicted_once(script)
    script.see(gang("next", 1, priority=10))
    script.advance(3000)
    assert len(script.evicted) == 1
    assert "was evicted too often in the last hour" in script.message("next")
    script.advance(610)
    assert script.milestones(Milestone.PREEMPTING) == 2, "it is looked at again when the hour is over"


@pytest.mark.parametrize("most", [0, 2])
def test_without_a_cap_or_below_it_the_same_one_goes_again(most: int) -> None:
    script = Cluster(*cluster("a: 1x8"), limits=replace(ON, evictions_per_hour=most))
    evicted_once(script)
    script.see(gang("next", 1, priority=10))
    assert len(script.evicted) == 2


def test_a_gang_stays_whose_surplus_has_given_way_so_often() -> None:
    """Otherwise the whole gang would be evicted, where one pod would be enough."""
    script = Cluster(*cluster("a: 2x8"), limits=ONCE)
    low = running(script, "low", 2, least=1)
    high = gang("high", 1, priority=10)
    script.see(high)
    assert script.evicted == ["low-1"]
    script.leave(low[1])
    script.run(high)
    script.gone(*(script.pods[pod.uid] for pod in high))
    again = replace(low[1], uid="uid-again")
    script.see(again)
    script.run([again])
    script.see(gang("next", 1, priority=10))
    script.advance(600)
    assert script.evicted == ["low-1"]
    assert "was evicted too often in the last hour" in script.message("next")


def test_others_are_not_kept_by_that() -> None:
    script = Cluster(*cluster("a: 1x8"), limits=ONCE)
    again = evicted_once(script)
    script.gone(*(script.pods[pod.uid] for pod in again))
    running(script, "other", 1)
    script.see(gang("next", 1, priority=10))
    assert script.evicted[-1] == "other-0"


def test_when_a_job_was_evicted_is_written_on_it_and_read_after_a_restart() -> None:
    script = Cluster(*cluster("a: 1x8"), limits=ONCE)
    low = Controlled(script, job(1, name="low"))
    low.run()
    script.see(gang("high", 1, priority=10))
    low.settle()
    (stop,) = (effect for effect in script.effects if isinstance(effect, SuspendJob))
    (at,) = stop.evicted
    assert script.now - 1 < at <= script.now
    again = Cluster(*cluster("a: 1x8"), limits=ONCE)
    low = Controlled(again, replace(job(1, name="low"), evicted=(again.now - 60,)))
    low.run()
    again.see(gang("high", 1, priority=10))
    low.wait(5)
    assert not low.stops
    assert "was evicted too often in the last hour" in again.message("high")


def test_a_new_job_of_the_same_name_has_never_been_evicted() -> None:
    script = Cluster(*cluster("a: 1x8"), limits=ONCE)
    first = Controlled(script, job(1, name="low"))
    first.run()
    high = gang("high", 1, priority=10)
    script.see(high)
    first.settle()
    first.delete()
    first.gone()
    script.run(high)
    script.gone(*(script.pods[pod.uid] for pod in high))
    anew = job(1, name="low")
    second = Controlled(script, replace(anew, owner=anew.owner._replace(uid="another")))
    second.run()
    script.see(gang("next", 1, priority=10))
    second.settle()
    assert len(second.stops) == 1
    assert len([effect for effect in script.effects if isinstance(effect, SuspendJob)][-1].evicted) == 1


def test_what_a_job_says_of_the_future_or_of_long_ago_does_not_count() -> None:
    script = Cluster(*cluster("a: 1x8"), limits=ONCE)
    low = Controlled(script, replace(job(1, name="low"), evicted=(script.now - 3601, script.now + 600)))
    low.run()
    script.see(gang("high", 1, priority=10))
    low.settle()
    assert len(low.stops) == 1


def test_nor_does_it_give_way_to_a_pod_of_no_gang() -> None:
    script = Cluster(*cluster("a: 1x8"), limits=ONCE)
    (low,) = evicted_once(script)
    urgent = single("urgent", gpus=8, priority=10)
    script.see(urgent)
    script.preempt(urgent, {"a-0": (low.uid,)})
    script.advance(600)
    assert len(script.evicted) == 1
