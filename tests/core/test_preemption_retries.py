"""A workload that found no victims, or whose preemption ended before they had gone, is tried again.

It is tried after a pause with nothing but time passing, or as soon as others may be evicted.
"""

from __future__ import annotations

from dataclasses import replace

import pytest

from extender.core.answers import JobWritten, Outcome
from extender.core.effects import Milestone, Reserve
from extender.core.events import GroupGone, PreemptCalled
from extender.core.limits import Limits, Preempts
from policies.model import PodSets
from tests.builders import cluster, coscheduled, gang, key, single
from tests.core.jobs import Controlled, job
from tests.core.preempting import Cluster, running

FORBIDDEN = "403 Forbidden"


def asked(script: Cluster) -> list[Reserve]:
    """The reservations that were to be written down."""
    return [write for write in script.written if write.reservation is not None]


def test_a_reservation_that_was_refused_once_is_written_again() -> None:
    script = Cluster(*cluster("a: 2x8"), writes=False)
    running(script, "low", 2)
    script.see(gang("high", 2, priority=10))
    script.write(script.written[0], FORBIDDEN)
    assert "its reservation could not be written: 403 Forbidden; it is tried again" in script.message("high")
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


def of_priority(priority: int, count: int = 1, name: str = "low") -> PodSets:
    """The podsets of a job of that priority."""
    (first,) = job(count, name=name).podsets.podsets
    return PodSets(key(name), (replace(first, template=replace(first.template, priority=priority)),))


@pytest.mark.parametrize("detail", ["", "the API server said no"])
def test_those_who_were_to_give_way_to_one_that_is_gone_give_way_to_another(detail: str) -> None:
    """The other preemptor may even be one that cannot be written on."""
    script = Cluster(*cluster("a: 2x8"), writes=False)
    running(script, "low", 2)
    first, second = gang("first", 2, priority=10), gang("second", 2, priority=10)
    script.see(first)
    script.see(second)
    assert script.message("second").endswith("nothing may be evicted")
    if detail:
        script.write(script.written[0], detail)
    else:
        script.gone(*(script.pods[pod.uid] for pod in first))
    script.advance(3)
    assert script.reason("second") == "Preempting"
    assert not script.evicted
    script.write(next(write for write in script.written if write.key == key("second")))
    assert sorted(script.evicted) == ["low-0", "low-1"]


@pytest.mark.parametrize(("size", "least"), [(2, 2), (3, 2)])
def test_a_gang_that_has_lost_members_is_evicted_like_one_that_is_whole(size: int, least: int) -> None:
    """Otherwise it would keep its room from all others for as long as its replacements do not come."""
    script = Cluster(*cluster(f"a: {size}x8"))
    low = running(script, "low", size, least=least)
    lost = low[: size - 1]
    script.gone(*(script.pods[pod.uid] for pod in lost))
    script.see(gang("high", size, priority=10))
    script.advance(3)
    assert script.reason("high") == "Preempting"
    assert script.evicted == [low[-1].name]


def test_a_job_whose_priority_becomes_lower_gives_way() -> None:
    script = Cluster(*cluster("a: 1x8"))
    low = Controlled(script, replace(job(1, name="low"), podsets=of_priority(20)))
    pods = low.run()
    script.see(gang("high", 1, priority=10))
    script.advance(3)
    assert not low.stops
    for pod in pods:
        script.change(pod, priority=0)
    low.show(podsets=of_priority(0))
    low.wait(3)
    assert len(low.stops) == 1


@pytest.mark.parametrize("change", ["node", "size", "neither"])
def test_others_give_way_if_its_victims_went_in_vain_because_nodes_or_its_size_have_changed(change: str) -> None:
    """This is not so while other pods occupy the victims' room: more evictions would be useless as well."""
    script = Cluster(*cluster("a: 3x8"))
    low = running(script, "low", 2)
    running(script, "other", 1, priority=5)
    high = gang("high", 2, priority=10)
    script.see(high)
    if change == "node":
        script.drop(script.bound(low)[0])
    elif change == "size":
        script.see(gang("high", 3, priority=10))
    else:
        script.see(single("foreign", gpus=1, scheduler="another", node=script.bound(low)[0]))
    script.leave(*low)
    script.advance(3)
    assert script.milestones(Milestone.UNRESERVED) == 1
    assert script.evicted == ["low-0", "low-1", *(["other-0"] if change != "neither" else [])]


@pytest.mark.parametrize("priority", [0, -20])
def test_after_a_restart_the_priority_of_a_victim_of_which_all_pods_terminate_is_known(priority: int) -> None:
    script = Cluster(*cluster("a: 1x8"))
    (low,) = running(script, "low", 1, priority=priority - 10)
    high = gang("high", 1, priority=priority)
    script.see(high)
    script.change(low, deleting=True)
    again = Cluster(*cluster("a: 1x8"), *script.pods.values())
    again.advance(1)
    assert again.reason("high") == "Preempting"
    again.gone(low)
    assert all(map(again.planned, high))


def test_a_gang_gives_way_to_one_alone_when_a_pod_of_its_name_has_gone() -> None:
    script = Cluster(*cluster("a: 1x8", "b: 1x8"))
    (low,) = running(script, "low", 1)
    pod = single("low", gpus=8, node="b-0")
    script.see(pod)
    for name in ("first", "second"):
        script.see(gang(name, 1, priority=10))
        script.advance(2)
    assert script.evicted == ["low", "low-0"]
    script.leave(pod)
    script.see(gang("third", 1, priority=20))
    script.advance(3)
    assert script.reason("third") == "NoRoom"
    script.leave(low)
    assert script.reason("second") == "Placed"


def test_the_reservation_of_the_second_time_stays_when_that_of_the_first_is_written_late() -> None:
    script = Cluster(*cluster("a: 1x8"), writes=False)
    running(script, "low", 1)
    script.see(gang("high", 1, priority=10))
    script.see(*cluster("b: 1x8"))
    script.drop("b-0")
    script.advance(3)
    first, off, second = script.written
    assert (off.reservation, script.reason("high")) == (None, "Preempting")
    script.write(first)
    assert script.written == [first, off, second]
    assert not script.evicted
    script.write(second)
    assert script.evicted == ["low-0"]


def test_a_pod_of_no_gang_that_muster_has_bound_meanwhile_gives_way() -> None:
    """The first victims were not enough: another pod, which could not be evicted, was in the way."""
    script = Cluster(*cluster("a: 1x8"))
    stays, low = single("stays", gpus=4, node="a-0", priority=20), single("low", gpus=4)
    script.see(stays, gang("high", 1, priority=10), low)
    script.advance(3)
    assert script.message("high").endswith("nothing may be evicted")
    script.bind(low, "a-0")
    script.post_all()
    script.gone(stays)
    script.advance(3)
    assert script.evicted == ["low"]
