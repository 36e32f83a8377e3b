"""The acts that a pod's author can repeat without end stay within bounds: pauses, timers, stories, lists."""

from __future__ import annotations

from dataclasses import replace

import pytest

from extender.core.answers import Outcome
from extender.core.causes import NOBODY, NoRoom, Short
from extender.core.effects import Effect, Nominate
from extender.core.events import BindArrived
from extender.core.instants import pause_s
from extender.core.workload.release import Hold, Holds
from extender.core.workload.status import ReasonState
from tests.builders import cluster, gang, single
from tests.core.script import Script

MANY = 10_001
ENOUGH = 1_100
"""A power of two with such an exponent is no float: beyond 1,024 it raises OverflowError."""


def timers(script: Script) -> int:
    return len(script.core.state.timers)


@pytest.mark.parametrize("times", [0, 1, 2, 5, 1024, 1025, MANY, 10**30])
def test_a_pause_is_doubled_up_to_its_bound(times: int) -> None:
    assert pause_s(times, 1.0, 30.0) == min(2 ** (min(max(times, 1), 10) - 1), 30.0)


def test_ten_thousand_refusals_of_a_node_end_nothing() -> None:
    """Required podAffinity that a thousand nodes refuse, again and again: kube-scheduler leaves the node out."""
    pods = gang("train", 1)
    script = Script(*cluster("a: 1x8"), *pods, checked=1000)
    for _ in range(MANY):
        script.filter(pods[0], ["elsewhere"])
        script.advance(31)
    member = script.gang("train")
    assert script.planned(pods[0]) == "a-0", "it is tried again, as ever"
    assert len(member.reason_state.story) <= 32
    assert len(member.retries.nodes) <= 1
    assert timers(script) < 20


def test_refusals_in_the_conditions_of_a_pod_end_nothing() -> None:
    pods = gang("train", 1)
    script = Script(*cluster("a: 1x8"), *pods, checked=100)
    for number in range(ENOUGH):
        script.change(pods[0], refusal=f"0/1 nodes are available: 1 node(s) did not match, {number}.")
        script.advance(31)
    assert timers(script) < 20


def test_a_thousand_holds_that_end_at_their_deadline_end_nothing() -> None:
    pods = gang("train", 2)
    script = Script(*cluster("a: 2x8"), *pods, checked=100)
    for _ in range(ENOUGH):
        call = script.bind(pods[0], expires_s=10)
        script.advance(60)
        assert script.answers.pop(call), "it was told that the others are missing"
    member = script.gang("train")
    assert member.retries.not_before <= script.now + 30
    assert timers(script) < 20


def lacking(number: int) -> NoRoom:
    return NoRoom(Short(number, 2, grows=False, near="", holders=NOBODY, detail=""))


def test_ten_thousand_reports_of_one_code_end_nothing() -> None:
    state, now = ReasonState(), 0.0
    for number in range(MANY):
        state.explain(lacking(number), 0.0)
        at = state.report_due(2.0)
        assert at is not None
        now = max(now, at)
        state.reported(now)
    assert state.last_report.times == MANY
    state.explain(lacking(MANY), now)
    assert state.report_due(2.0) == now + 900.0


def test_nominations_that_cannot_be_cleared_need_one_timer_for_the_gang() -> None:
    """kube-scheduler fails to clear them, and so does Muster: each look for the rest calls for one more."""

    class Stuck(Script):
        def _note(self, effect: Effect) -> None:
            if not isinstance(effect, Nominate) or effect.node is not None:
                super()._note(effect)

    pods = gang("train", 2)
    spare = replace(gang("train", 3, min_member=2)[2], nominated_node="a-0")
    script = Stuck(*cluster("a: 2x8"), *pods, spare, checked=100)
    for _ in range(300):
        script.bind(pods[0], expires_s=5)
        script.advance(40)
        assert not script.gang("train").members.holds
    assert timers(script) < 20


def test_binds_that_supersede_each_other_leave_nothing_behind() -> None:
    holds = Holds()
    holds.add("first", Hold(0, "a-0", 0.0, 100.0))
    for call in range(1, MANY):
        holds.add("second", Hold(call, "a-1", float(call), 1000.0 + call))
    assert len(holds._ends) < 100
    assert holds.first_to_expire() == 100.0
    holds.remove("first")
    assert holds.first_to_expire() == 1000.0 + MANY - 1


def test_binds_of_one_pod_beside_its_binding_are_bounded() -> None:
    alone = single("alone")
    script = Script(*cluster("a: 1x8"), alone)
    for call in range(1, MANY):
        script.feed(BindArrived(call, alone.uid, alone.namespace, alone.name, "a-0", script.now + 60))
    assert len(script.core.state.binds.writing[alone.uid].calls) <= 8
    script.post(alone, Outcome.DONE)
    assert script.answers[1] == "", "the one for which the Binding was sent"
    assert len(script.answers) == MANY - 1


def test_singles_that_come_and_go_are_not_remembered() -> None:
    pods = gang("train", 1)
    script = Script(*cluster("a: 1x8"), *pods, checked=100)
    for number in range(1000):
        alone = single(f"alone-{number}")
        script.see(alone)
        script.filter(alone)
        script.gone(alone)
    assert not script.core.state.blocked_singles.pods
