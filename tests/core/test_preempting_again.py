"""Whoever found nobody to give way, or whose victims went in vain, is looked at again once others may go."""

from __future__ import annotations

from dataclasses import replace

import pytest

from extender.core.effects import Milestone
from policies.model import PodSets
from tests.builders import cluster, gang, key, single
from tests.core.jobs import Controlled, job
from tests.core.preempting import Cluster, running


def of_priority(priority: int, count: int = 1, name: str = "low") -> PodSets:
    """Those of a job of that priority."""
    (first,) = job(count, name=name).podsets.podsets
    return PodSets(key(name), (replace(first, template=replace(first.template, priority=priority)),))


@pytest.mark.parametrize("detail", ["", "the API server said no"])
def test_those_who_were_to_give_way_to_one_that_is_gone_give_way_to_another(detail: str) -> None:
    """Also to one that cannot be written on."""
    script = Cluster(*cluster("a: 2x8"), writes=False)
    running(script, "low", 2)
    first, second = gang("first", 2, priority=10), gang("second", 2, priority=10)
    script.see(first)
    script.see(second)
    assert script.message("second").endswith("nobody may be evicted")
    if detail:
        script.write(script.written[0], detail)
    else:
        script.gone(*(script.pods[pod.uid] for pod in first))
    script.advance(3)
    assert script.reason("second") == "Preempting"
    assert not script.evicted
    script.write(next(one for one in script.written if one.key == key("second")))
    assert sorted(script.evicted) == ["low-0", "low-1"]


@pytest.mark.parametrize(("size", "least"), [(2, 2), (3, 2)])
def test_a_gang_that_has_lost_members_is_evicted_like_one_that_is_whole(size: int, least: int) -> None:
    """Else it would keep its room from all others for as long as its replacements do not come."""
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
    """But not while the room of its victims was taken by others: who is evicted next would go as much in vain."""
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
    """When it came there was somebody else of whom the gang could not be rid."""
    script = Cluster(*cluster("a: 1x8"))
    stays, low = single("stays", gpus=4, node="a-0", priority=20), single("low", gpus=4)
    script.see(stays, gang("high", 1, priority=10), low)
    script.advance(3)
    assert script.message("high").endswith("nobody may be evicted")
    script.bind(low, "a-0")
    script.post_all()
    script.gone(stays)
    script.advance(3)
    assert script.evicted == ["low"]
