"""Turning points of a gang: each is reported once, with its duration and cause, and restarts repeat none."""

from __future__ import annotations

from extender.core.effects import Milestone, Reached, Report, RevokedFor
from tests.builders import cluster, coscheduled, gang, node, single
from tests.core.jobs import Controlled, job
from tests.core.script import Script


def milestones(script: Script) -> list[tuple[str, str | None]]:
    return [(effect.milestone.value, effect.cause) for effect in script.effects if isinstance(effect, Reached)]


def last(script: Script, milestone: Milestone) -> Reached:
    return [effect for effect in script.effects if isinstance(effect, Reached) and effect.milestone is milestone][-1]


def test_a_gang_is_planned_released_and_started_once_each() -> None:
    pods = gang("train", 3)
    script = Script(*cluster("a: 3x8"))
    script.see(pods[:2])
    script.advance(10)
    script.see(pods[2])
    script.bind(pods[0])
    script.advance(2)
    script.run(pods[1:])
    assert milestones(script) == [("planned", None), ("released", None), ("started", None)]
    assert last(script, Milestone.STARTED).size == 3
    assert 12 < last(script, Milestone.STARTED).after_s < 13, "from the first member on"
    assert 2 <= last(script, Milestone.RELEASED).after_s < 2.5, "from the first bind on"


def test_a_deadline_is_told_at_once_and_counted_by_its_cause() -> None:
    pods = gang("train", 2)
    script = Script(*cluster("a: 2x8"), *pods)
    script.bind(pods[0], expires_s=10)
    script.advance(8.1)
    assert milestones(script)[-1] == ("forgotten", RevokedFor.HOLD_DEADLINE)
    assert any(code == "Forgotten" and "before the deadline" in text for code, text in script.reports)
    script.advance(30)
    assert ("forgotten", RevokedFor.PLAN_DEADLINE) in milestones(script)


def test_a_lost_node_and_taken_room_are_causes_of_their_own() -> None:
    pods = gang("train", 2)
    script = Script(*cluster("a: 3x8"), *pods)
    script.drop(script.planned(pods[0]))
    assert ("forgotten", RevokedFor.NODE_CHANGED) in milestones(script)
    script.see(single("thief", gpus=8, node=script.planned(pods[0]), scheduler="other"))
    assert ("forgotten", RevokedFor.ROOM_TAKEN) in milestones(script)


def test_a_node_that_offers_less_is_not_told_as_taken_by_a_pod() -> None:
    pods = gang("train", 2)
    script = Script(*cluster("a: 2x8"), *pods)
    held = script.bind(pods[0])
    script.see(node("a-0", 4, clique="a"))
    assert milestones(script)[-1] == ("forgotten", RevokedFor.NODE_CHANGED)
    assert script.answers[held] == "the room planned on node a-0 is gone: the node has less than before"


def test_what_was_never_planned_is_not_forgotten() -> None:
    script = Script(*cluster("a: 1x8"), *gang("train", 2))
    script.gone(next(iter(script.pods.values())))
    assert milestones(script) == []


def test_reports_count_members() -> None:
    pods = gang("train", 2)
    script = Script(*cluster("a: 2x8"), *pods)
    script.run(pods)
    script.advance(3)
    (report,) = [effect for effect in script.effects if isinstance(effect, Report)]
    assert (report.code, report.members, report.bound) == ("Running", 2, 2)


def test_after_a_restart_nothing_is_told_of_gangs_that_run() -> None:
    pods = gang("train", 2)
    before = Script(*cluster("a: 2x8"), *pods)
    before.run(pods)
    after = Script(*cluster("a: 2x8"), *before.pods.values())
    after.advance(10)
    assert after.reason("train") == "Running"
    assert (after.reports, milestones(after)) == ([], [])


def test_a_gang_that_ends_has_started_once() -> None:
    group, pods = coscheduled("train", 2)
    script = Script(*cluster("a: 2x8"), group, *pods)
    script.run(pods)
    for pod in pods:
        script.change(pod, phase="Succeeded")
    assert [name for name, _ in milestones(script)].count("started") == 1


def test_the_plan_of_a_job_whose_pods_do_not_come_is_counted_once() -> None:
    script = Script(*cluster("a: 2x8"))
    train = Controlled(script, job(2))
    train.wait(35)
    assert len(train.stops) == 1
    milestones_told = [("planned", None), ("forgotten", RevokedFor.JOB_SUSPENDED), ("planned", None)]
    assert milestones(script) == milestones_told
    train.run()
    train.show(suspended=True)
    train.delete()
    assert milestones(script)[len(milestones_told) :] == [("released", None), ("started", None)], (
        "it ran: no placement was in vain"
    )


def test_a_node_that_is_lost_before_a_pod_of_the_job_came_is_counted() -> None:
    script = Script(*cluster("a: 3x8"))
    train = Controlled(script, job(2))
    script.drop(train.starts[0].plan[""][0])
    train.settle()
    assert ("forgotten", RevokedFor.NODE_CHANGED) in milestones(script)
