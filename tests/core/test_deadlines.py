"""Holds end at deadlines: all held binds fail, the room is freed, and the core tries again later."""

from __future__ import annotations

from dataclasses import replace

from extender.core.events import GroupSeen
from extender.core.explain.reasons import reason_of
from tests.builders import cluster, coscheduled, gang, single
from tests.core.script import Script


def test_at_the_deadline_every_held_bind_fails_and_the_room_goes_to_the_next_gang() -> None:
    pods, other = gang("train", 2, created=1), gang("other", 2, created=2)
    script = Script(*cluster("a: 2x8"), *pods, *other)
    call = script.bind(pods[0], expires_s=10)
    script.advance(7.5)
    assert call not in script.answers
    script.advance(0.6)
    assert "only 1 of 2 members reached bind" in script.answers[call]
    assert "train-1" in script.answers[call], "it names who is missing"
    assert all(script.planned(pod) for pod in other)


def test_the_answer_is_out_before_the_first_request_expires() -> None:
    pods = gang("train", 3)
    script = Script(*cluster("a: 3x8"), *pods)
    early = script.bind(pods[0], expires_s=10)
    late = script.bind(pods[1], expires_s=30)
    script.advance(9)
    assert script.answers[early]
    assert script.answers[late]


def test_a_hold_that_outlives_the_first_one_still_has_its_own_deadline() -> None:
    pods = gang("train", 3)
    script = Script(*cluster("a: 3x8"), *pods)
    early = script.bind(pods[0], expires_s=10)
    late = script.bind(pods[1], expires_s=15)
    script.disconnect(early)
    script.advance(14)
    assert script.answers[late]


def test_a_deadline_is_met_although_a_spare_member_went_away() -> None:
    pods = gang("elastic", 4, min_member=3)
    script = Script(*cluster("a: 4x8"), *pods)
    call = script.bind(pods[0], expires_s=10)
    script.gone(pods[3])
    script.advance(9.9)
    assert script.answers[call]


def test_the_schedule_timeout_of_the_podgroup_shortens_the_hold() -> None:
    group, pods = coscheduled("train", 2)
    script = Script(*cluster("a: 2x8"), group, *pods)
    script.see(type(group)(group.key, group.uid, 2, timeout_s=3.0))
    call = script.bind(pods[0], expires_s=60)
    script.advance(3.1)
    assert script.answers[call]


def test_a_placement_that_kube_scheduler_does_not_take_up_is_planned_anew() -> None:
    pods, other = gang("train", 2, created=1), gang("other", 2, created=2)
    script = Script(*cluster("a: 2x8"), *pods, *other)
    assert script.reason("other") == "NoRoom"
    script.advance(20.5)
    assert all(script.planned(pod) for pod in other), "the room does not stay promised to a gang that does nothing"


def test_a_spare_member_that_does_not_come_gives_its_room_back_after_a_release_too() -> None:
    pods, other = gang("elastic", 3, min_member=2, created=1), gang("other", 1, created=2)
    script = Script(*cluster("a: 3x8"), *pods, *other)
    script.advance(19)
    script.bind_all(pods[:2])
    script.advance(2)
    script.post_all()
    assert not script.planned(other[0])
    script.advance(20)
    assert script.planned(other[0])


def test_failures_in_a_row_make_the_gang_wait_longer_each_time() -> None:
    pods = gang("train", 2)
    script = Script(*cluster("a: 2x8"), *pods)
    script.advance(20.1)
    assert not script.planned(pods[0])
    script.advance(1.1)
    assert script.planned(pods[0])
    script.advance(20)
    script.advance(1.1)
    assert not script.planned(pods[0]), "the second wait is longer"
    script.advance(1.1)
    assert script.planned(pods[0])


def test_a_reason_is_reported_once_it_has_lasted_two_seconds() -> None:
    pods = gang("big", 3)
    for start in (1000.1, 1000.3, 1234.567, 987654.321):
        script = Script(*cluster("a: 2x8"))
        script.now = start
        script.see(pods)
        assert not script.reports
        script.advance(2.5)
        assert [code for code, _ in script.reports] == ["NoRoom"]
        script.advance(30)
        assert len(script.reports) == 1, "the same reason is not repeated"


def test_the_steps_of_a_start_are_not_reported() -> None:
    pods = gang("train", 2)
    script = Script(*cluster("a: 2x8"), *pods)
    script.bind(pods[0])
    script.advance(20)
    assert reason_of(script.gang("train").reason_state.cause).code == "Holding"
    assert not script.reports


def test_new_numbers_of_the_same_reason_are_reported_less_and_less_often() -> None:
    script = Script(*cluster("a: 2x8"), *gang("big", 9))
    for number in range(60):
        script.see(single(f"passing{number}", gpus=8 * (number % 2), node="a-0"))
        script.advance(60)
        script.gone(script.pods[f"uid-passing{number}"])
    assert 4 < len(script.reports) < 10, "in an hour"


def test_a_podgroup_that_is_written_on_without_a_change_that_matters_calls_for_nothing() -> None:
    group, pods = coscheduled("train", 3)
    script = Script(*cluster("a: 2x8"), group, *pods)
    script.advance(5)
    before = len(script.effects)
    script.feed(GroupSeen(replace(group)))
    assert len(script.effects) == before
    assert (script.core.next_wake() or script.now + 99) > script.now + 1


def test_passing_states_are_not_reported_and_the_start_is_once() -> None:
    pods = gang("train", 2)
    script = Script(*cluster("a: 2x8"), *pods)
    script.run(pods)
    script.advance(10)
    assert script.reports == [("Running", "2 members are bound")]
