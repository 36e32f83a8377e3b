"""A gang behind others in kube-scheduler's queue keeps its plan while kube-scheduler takes those."""

from __future__ import annotations

from dataclasses import replace

import pytest

from policies.model import Pod
from tests.builders import cluster, gang, single
from tests.core.script import Script

UNSCHEDULABLE = "0/2 nodes are available: 2 Insufficient cpu."


def _behind(count: int) -> tuple[Script, list[Pod], list[Pod]]:
    """A gang with a plan, and single pods that were created before it and are not bound yet."""
    plain = [single(f"plain-{n}", gpus=0, created=1) for n in range(count)]
    train, rival = gang("train", 2, created=2), gang("rival", 2, created=4)
    script = Script(*cluster("a: 2x8"), *plain, *train, *rival)
    assert all(map(script.planned, train))
    assert not script.planned(rival[0])
    return script, plain, train


def _has_lost_its_plan(script: Script) -> bool:
    """Whether the gang has lost its plan: then its rival has the room."""
    return bool(script.planned(script.pods["uid-rival-0"]))


def _bind_each(script: Script, pods: list[Pod], every_s: float) -> None:
    for pod in pods:
        script.advance(every_s)
        script.change(pod, node="a-0")


def test_a_gang_keeps_its_plan_while_kube_scheduler_takes_pods_that_were_before_it() -> None:
    script, plain, train = _behind(6)
    _bind_each(script, plain, 15)
    assert all(map(script.planned, train)), "90 s after it was planned"
    script.bind_all(train)
    script.post_all()
    assert len(script.bound(train)) == 2


def test_the_time_of_a_gang_runs_from_the_last_pod_that_was_before_it() -> None:
    script, plain, train = _behind(2)
    _bind_each(script, plain, 15)
    script.advance(19)
    assert all(map(script.planned, train))
    script.advance(1.5)
    assert _has_lost_its_plan(script), "kube-scheduler takes nobody any more, nor this gang"


@pytest.mark.parametrize("late", [{"created": 3.0}, {"created": 3.0, "priority": -1}])
def test_a_gang_that_was_passed_by_gets_no_more_time(late: dict[str, float]) -> None:
    script, plain, _ = _behind(2)
    script.see(newer := replace(single("newer", gpus=0), **late))  # type: ignore[arg-type]
    script.advance(10)
    script.change(newer, node="a-0")
    _bind_each(script, plain, 5)
    assert _has_lost_its_plan(script)


def test_a_pod_of_higher_priority_passes_nobody_by() -> None:
    script, plain, train = _behind(2)
    script.see(urgent := replace(single("urgent", gpus=0), created=3.0, priority=1))
    script.advance(10)
    script.change(urgent, node="a-0")
    _bind_each(script, plain, 6)
    assert all(map(script.planned, train))


def test_a_gang_that_kube_scheduler_has_tried_gets_no_more_time() -> None:
    script, plain, train = _behind(3)
    script.change(train[0], refusal=UNSCHEDULABLE)
    _bind_each(script, plain, 8)
    assert _has_lost_its_plan(script)


def test_pods_of_another_scheduler_are_in_another_queue() -> None:
    script, _, _ = _behind(0)
    others = [replace(single(f"foreign-{n}", gpus=0, created=1), scheduler="foreign") for n in range(3)]
    script.see(*others)
    _bind_each(script, others, 8)
    assert _has_lost_its_plan(script)


def test_a_question_shows_how_far_kube_scheduler_has_come_but_not_one_that_it_has_asked_before() -> None:
    script, _, train = _behind(0)
    first, again = single("first", created=1), single("again", created=1, refusal=UNSCHEDULABLE)
    script.see(first, again)
    script.advance(15)
    script.filter(first)
    script.advance(15)
    assert all(map(script.planned, train))
    script.filter(again)
    script.advance(6)
    assert not any(map(script.planned, train))


def test_members_that_are_held_wait_for_the_others_while_kube_scheduler_takes_pods_that_were_before_those() -> None:
    script, plain, train = _behind(8)
    call = script.bind(train[0], expires_s=600)
    _bind_each(script, plain, 15)
    assert call not in script.answers, "120 s after it came"
    script.advance(31)
    assert "only 1 of 2 members reached bind" in script.answers[call]


@pytest.mark.parametrize("refused", [False, True])
def test_members_are_held_for_those_yet_to_be_tried_while_a_bind_is_late_but_not_for_one_that_is_refused(
    *, refused: bool
) -> None:
    train = [replace(pod, created=float(n)) for n, pod in enumerate(gang("train", 4, gpus=1))]
    script = Script(*cluster("a: 1x8"), *train)
    script.filter(train[0])
    call = script.bind(train[0], expires_s=600)
    script.advance(15)
    script.filter(train[1])
    script.advance(10)
    script.filter(train[2])
    script.bind(train[2], expires_s=600)
    if refused:
        script.change(train[1], refusal=UNSCHEDULABLE)
    script.advance(22)
    assert (call in script.answers) is refused, "12 s after the last was tried"
    script.advance(20)
    assert call in script.answers


def test_members_that_reach_bind_one_by_one_are_held_until_the_last_has() -> None:
    train = gang("train", 8, gpus=1)
    script = Script(*cluster("a: 1x8"), *train)
    for member in train[:-1]:
        script.filter(member)
        script.bind(member, expires_s=600)
        script.advance(15)
    script.bind(train[-1], expires_s=600)
    script.post_all()
    assert len(script.bound(train)) == 8


def test_members_are_not_held_for_longer_than_kube_scheduler_waits() -> None:
    script, plain, train = _behind(8)
    call = script.bind(train[0], expires_s=50)
    _bind_each(script, plain, 7)
    assert "only 1 of 2 members reached bind" in script.answers[call]


def test_room_is_kept_for_a_pod_of_no_gang_while_kube_scheduler_takes_pods_that_were_before_it() -> None:
    plain = [single(f"plain-{n}", gpus=0, created=1) for n in range(4)]
    alone, train = single("alone", gpus=8, created=2), gang("train", 1, created=3)
    script = Script(*cluster("a: 1x8"), *plain, alone, *train)
    assert not script.planned(train[0])
    _bind_each(script, plain, 15)
    script.advance(19)
    assert not script.planned(train[0]), "79 s after it came"
    script.advance(22)
    assert script.planned(train[0]), "kube-scheduler takes nobody any more"


def test_a_pod_of_no_gang_that_was_passed_by_stands_aside() -> None:
    alone, newer = single("alone", gpus=8, created=1), single("newer", gpus=0, created=3)
    train = gang("train", 1, created=2)
    script = Script(*cluster("a: 1x8"), alone, *train, newer)
    script.advance(15)
    script.change(newer, node="a-0")
    script.advance(6)
    assert script.planned(train[0])


def _three_gangs() -> tuple[Script, list[Pod]]:
    pods = [pod for name in ("one", "two", "three") for pod in gang(name, 1)]
    return Script(*cluster("a: 3x8"), *pods), pods


def _without_plan(script: Script, pods: list[Pod]) -> int:
    return sum(not script.planned(pod) for pod in pods)


def test_while_kube_scheduler_tries_nobody_one_gang_at_a_time_loses_its_plan() -> None:
    script, pods = _three_gangs()
    script.advance(20.5)
    assert _without_plan(script, pods) == 1, "it may stand still"
    script.advance(15)
    assert _without_plan(script, pods) == 0, "at 35.5 s"
    script.advance(5)
    assert _without_plan(script, pods) == 1


def test_every_gang_loses_its_plan_that_kube_scheduler_does_not_take_up_while_it_tries_others() -> None:
    script, pods = _three_gangs()
    script.advance(15)
    script.filter(single("again", created=1, refusal=UNSCHEDULABLE))
    script.advance(5.5)
    assert _without_plan(script, pods) == 3
