"""A workload has one status. Each step has a name and a row in the table; any other is an exception with the story."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from extender.api.models import STATUSES
from extender.core.answers import Outcome
from extender.core.gate.advisory import Mode
from extender.core.workload.members import IllegalTransitionError
from extender.core.workload.status import LEGAL, Status, StatusRecord
from extender.observe.views import view
from policies.model import Stamp
from tests.builders import cluster, gang, reborn
from tests.core.invariants import validate
from tests.core.jobs import Controlled, job
from tests.core.script import Script

PENDING, PLANNED, STARTING, HOLDING = Status.PENDING, Status.PLANNED, Status.STARTING, Status.HOLDING
RELEASING, PARTIAL, RUNNING = Status.RELEASING, Status.PARTIAL, Status.RUNNING
STOPPING, ENDED = Status.STOPPING, Status.ENDED

STEPS: dict[str, Callable[[StatusRecord, Status], None]] = {
    "plan": lambda record, _: record.plan(2.0),
    "start": lambda record, _: record.start(2.0),
    "hold": lambda record, _: record.hold(2.0),
    "release": lambda record, _: record.release(2.0),
    "complete": lambda record, _: record.complete(2.0),
    "break_off": lambda record, _: record.break_off(2.0),
    "stop": lambda record, _: record.stop(2.0),
    "end": lambda record, _: record.end(2.0),
    "fall_back": lambda record, to: record.fall_back(to, 2.0),
    "adopt": lambda record, _: record.adopt(2.0),
    "come_again": lambda record, _: record.come_again(2.0),
}
LATER = {
    "plan": (PLANNED, STARTING, HOLDING, RELEASING, PARTIAL, RUNNING, STOPPING),
    "start": (STARTING, HOLDING, RELEASING, PARTIAL, RUNNING, STOPPING),
    "hold": (HOLDING, RELEASING, PARTIAL, RUNNING, STOPPING),
    "release": (RELEASING, RUNNING, STOPPING),
}
"""The states in which an act of one member changes nothing."""


def statuses(script: Script, name: str = "train") -> list[Status]:
    return [status for _, status in script.gang(name).status.steps]


def test_each_step_of_the_table_has_a_function() -> None:
    assert set(STEPS) == set(LEGAL)
    assert tuple(Status) == STATUSES


@pytest.mark.parametrize("name", STEPS)
@pytest.mark.parametrize("before", Status)
def test_only_the_steps_of_the_table_are_legal(name: str, before: Status) -> None:
    for to, allowed in LEGAL[name].items():
        record = StatusRecord(before, 1.0)
        if before in LATER.get(name, ()):
            STEPS[name](record, to)
            assert (record.value, record.since) == (before, 1.0)
        elif before in allowed:
            STEPS[name](record, to)
            assert (record.value, record.since, [*record.steps]) == (to, 2.0, [(2.0, to)])
        else:
            with pytest.raises(IllegalTransitionError, match=f"cannot {name} from {before} to {to}"):
                STEPS[name](record, to)


def test_an_illegal_step_is_an_exception_with_the_story() -> None:
    script = Script(*cluster("a: 2x8"), *(pods := gang("train", 2)))
    script.gang("train").status.end(script.now)
    with pytest.raises(IllegalTransitionError, match="cannot hold from ENDED to HOLDING") as raised:
        script.bind(pods[0])
    assert "status ENDED by ['PENDING', 'PLANNED', 'ENDED']" in "\n".join(raised.value.__notes__)


def test_a_status_that_no_act_has_led_to_is_taken_over_and_remembered() -> None:
    script = Script(*cluster("a: 2x8"), *(pods := gang("train", 2)))
    record = script.gang("train").status
    record.fall_back(PENDING, script.now)
    with pytest.raises(AssertionError, match="no act has led its status from PENDING to PLANNED"):
        script.change(pods[0], labels=(("a", "b"),))
    assert record.value is PLANNED, "users see what is"


def test_a_change_that_is_not_settled_is_found() -> None:
    script = Script(*cluster("a: 2x8"), *(pods := gang("train", 2)))
    script.run(pods)
    script.gang("train").members.drop(pods[0].uid)
    with pytest.raises(AssertionError):
        validate(script.core.state)
    assert script.gang("train").status_by_facts is PARTIAL


def test_a_gang_is_planned_held_released_and_runs_until_it_has_ended() -> None:
    script = Script(*cluster("a: 2x8"), *(pods := gang("train", 2)))
    script.run(pods)
    script.change(pods[0], deleting=True)
    script.change(pods[1], deleting=True)
    script.change(pods[0], phase="Succeeded")
    script.change(pods[1], phase="Succeeded")
    assert statuses(script) == [PENDING, PLANNED, HOLDING, RELEASING, RUNNING, PARTIAL, STOPPING, ENDED]


def test_binds_that_are_given_up_leave_it_planned() -> None:
    script = Script(*cluster("a: 2x8"), *(pods := gang("train", 2)))
    script.disconnect(script.bind(pods[0]))
    assert statuses(script) == [PENDING, PLANNED, HOLDING, PLANNED]
    script.drop("a-0", "a-1")
    assert statuses(script)[-1] is PENDING


def test_a_start_that_breaks_off_is_partial_and_is_released_once_more() -> None:
    script = Script(*cluster("a: 3x8"), *(pods := gang("train", 2)))
    script.bind_all(pods)
    script.post(pods[0])
    script.post(pods[1], Outcome.REFUSED)
    assert statuses(script)[-2:] == [RELEASING, PARTIAL]
    script.advance(5)
    script.run([pods[1]])
    assert statuses(script)[-3:] == [PARTIAL, RELEASING, RUNNING]


def test_a_running_gang_stays_so_when_it_is_made_larger_and_while_more_are_bound() -> None:
    script = Script(*cluster("a: 4x8"), *(pods := gang("train", 2)))
    script.run(pods)
    more = gang("train", 4, min_member=2)[2:]
    script.see(more)
    script.run(more)
    script.see(gang("train", 6)[4:])
    assert statuses(script)[-2:] == [RELEASING, RUNNING]


def test_a_lost_member_makes_it_partial_until_it_is_replaced() -> None:
    script = Script(*cluster("a: 3x8"), *(pods := gang("train", 2)))
    script.run(pods)
    script.change(pods[0], phase="Failed")
    again = reborn(pods[0])
    script.see(again)
    assert statuses(script)[-1] is PARTIAL, "its replacement is planned"
    script.run([again])
    assert statuses(script)[-3:] == [RUNNING, PARTIAL, RUNNING]


def test_a_job_is_started_before_its_pods_and_stopped_as_a_whole() -> None:
    script = Script(*cluster("a: 2x8"))
    train = Controlled(script, job(2))
    assert statuses(script, "job") == [PENDING, PLANNED, STARTING]
    train.run()
    train.show(suspended=True)
    assert statuses(script, "job")[3:] == [HOLDING, RELEASING, RUNNING, STOPPING]
    train.delete()
    train.show(stopped=True)
    assert statuses(script, "job")[7:10] == [PENDING, PLANNED, STARTING]


def test_a_job_that_is_held_waits() -> None:
    script = Script(*cluster("a: 2x8"))
    Controlled(script, replace(job(2), held=True))
    assert statuses(script, "job") == [PENDING]


def test_advice_shows_what_kube_scheduler_binds_in_part() -> None:
    script = Script(*cluster("a: 2x8"), *(pods := gang("train", 2)), mode=Mode.ADVISE)
    script.bind(pods[0], "a-0")
    script.post_all()
    assert statuses(script)[-1] is PARTIAL
    script.bind(pods[1], "a-1")
    script.post_all()
    assert statuses(script)[-1] is RUNNING


@pytest.mark.parametrize(("bound", "status"), [(0, PENDING), (1, PARTIAL), (2, RUNNING)])
def test_after_a_restart_it_is_read_from_the_objects(bound: int, status: Status) -> None:
    pods = gang("train", 2)
    stamp = Stamp("", "uid-train-1", complete=False, quorum=2, size=2, at=900.0, name="train")
    there = [replace(pod, node=f"a-{at}", stamp=stamp) for at, pod in enumerate(pods[:bound])]
    script = Script(*there, *pods[bound:], synced=False)
    script.feed_synced()
    assert script.gang("train").status.value is status


def test_the_api_has_it_with_its_changes() -> None:
    script = Script(*cluster("a: 2x8"), *(pods := gang("train", 2)))
    script.run(pods)
    script.advance(60)
    seen = view(script.core.state, script.gang("train"), script.now)
    assert seen.status == RUNNING
    assert 60 <= seen.status_for_s == seen.statuses[-1][0] < seen.statuses[0][0]
    assert [status for _, status in seen.statuses] == [PENDING, PLANNED, HOLDING, RELEASING, RUNNING]
