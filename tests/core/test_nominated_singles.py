"""Room for pods of no gang that kube-scheduler has nominated: where they wait for their victims, and elsewhere."""

from __future__ import annotations

import pytest

from policies.model import Pod
from tests.builders import cluster, gang, single
from tests.core.script import Script


def beside_a_nominated_single(priority: int) -> tuple[Script, Pod, Pod]:
    """A gang of one, for which there is room on a node where a pod of no gang waits for its victim, and that pod."""
    victim, (pod,) = single("victim", gpus=4, node="a-0"), gang("train", 1, gpus=4, priority=priority)
    urgent = single("urgent", gpus=8, priority=1000, nominated_node="a-0")
    script = Script(*cluster("a: 1x8", "b: 1x2"), victim, urgent)
    script.see(pod)
    return script, pod, urgent


def with_two_rooms() -> tuple[Script, Pod, Pod, Pod]:
    """A pod of no gang that waits for its victim on one node while another has room, and gangs that each fit there."""
    victim, urgent = single("victim", gpus=1, node="a-0"), single("urgent", gpus=8, priority=1000, nominated_node="a-0")
    (small,), (large,) = gang("small", 1, gpus=7, priority=5), gang("large", 1, priority=10)
    script = Script(*cluster("a: 1x8"), victim, urgent, small, large)
    script.see(*cluster("b: 1x8"))
    return script, urgent, small, large


def test_a_single_that_waits_for_its_victims_stands_in_line_for_other_room() -> None:
    script, _, small, large = with_two_rooms()
    assert not script.planned(small)
    assert not script.planned(large)
    assert "room is kept for 1 pod in no gang (" in script.message("small")
    script.advance(21)
    assert script.planned(large) == "b-0", "kube-scheduler has not taken the other up in time"
    assert not script.planned(small), "it is nominated still"


def test_both_rooms_of_a_nominated_single_are_planned_with_when_it_has_gone() -> None:
    script, urgent, small, large = with_two_rooms()
    script.gone(urgent)
    assert script.planned(small) == "a-0"
    assert script.planned(large) == "b-0"


def test_the_room_that_a_single_is_nominated_for_is_planned_with_when_it_is_bound_elsewhere() -> None:
    script, urgent, small, large = with_two_rooms()
    script.change(urgent, node="b-0", nominated_node=None)
    assert script.planned(small) == "a-0"
    assert not script.planned(large)


def test_a_single_keeps_its_other_room_when_it_is_nominated() -> None:
    victim, urgent = single("victim", gpus=1, node="a-0"), single("urgent", gpus=8, priority=1000)
    holder, large = single("holder", gpus=8, node="b-0"), gang("large", 1, priority=5)
    script = Script(*cluster("a: 1x8", "b: 1x8"), victim, holder, urgent, *large)
    script.gone(holder)
    script.change(urgent, nominated_node="a-0")
    script.advance(3)
    assert not script.planned(large[0])


def test_the_room_of_a_nominated_single_whose_victims_are_gone_counts_once() -> None:
    victim, (pod,) = single("victim", gpus=8, node="a-0"), gang("train", 1, gpus=4)
    urgent = single("urgent", gpus=4, priority=1000, nominated_node="a-0")
    script = Script(*cluster("a: 1x8"), victim, urgent, pod)
    script.gone(victim)
    assert script.planned(pod) == "a-0"


def test_a_nominated_single_whose_victims_are_gone_keeps_no_room_elsewhere() -> None:
    """Not even on a node that it would fill: kube-scheduler looks first where it has nominated the pod."""
    urgent = single("urgent", gpus=4, priority=1000, nominated_node="a-0")
    gangs = [gang(name, 1, gpus=4)[0] for name in ("one", "two")]
    script = Script(*cluster("a: 1x8", "b: 1x4"), urgent, *gangs)
    assert sorted(script.planned(pod) for pod in gangs) == ["a-0", "b-0"]


def test_a_gang_gets_no_room_that_a_single_of_higher_priority_is_nominated_for() -> None:
    """kube-scheduler has found victims for it, and lets in nobody beside it who would leave too little room."""
    script, pod, urgent = beside_a_nominated_single(priority=10)
    assert not script.planned(pod)
    assert "room is kept for 1 pod in no gang (" in script.message("train")
    script.change(urgent, nominated_node=None)
    assert script.planned(pod) == "a-0"


@pytest.mark.parametrize("ends", ["gone", "moves"])
def test_room_that_nobody_is_nominated_for_any_more_is_planned_with(ends: str) -> None:
    script, pod, urgent = beside_a_nominated_single(priority=0)
    assert not script.planned(pod)
    if ends == "gone":
        script.gone(urgent)
    else:
        script.change(urgent, nominated_node="b-0")
    assert script.planned(pod) == "a-0"


def test_a_gang_of_higher_priority_goes_before_a_nominated_single() -> None:
    script, pod, _ = beside_a_nominated_single(priority=2000)
    assert script.planned(pod) == "a-0"
