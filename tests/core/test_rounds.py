"""Members that other members are in the way of for a while: kube-scheduler is asked about them round by round."""

from __future__ import annotations

from dataclasses import replace

import pytest

from extender.core.answers import Outcome, Ungated
from extender.core.effects import Nominate, Ungate
from extender.core.gate.steering import SteeringMode
from extender.core.ledger.kube_scheduler import GANG_WAITS
from policies.model import Constraints, HostPort, Pod
from tests.builders import cluster
from tests.core.relations import GATED, NEAR, members, nominated
from tests.core.script import Script


def ungated(script: Script) -> list[str]:
    return [effect.uid for effect in script.effects if isinstance(effect, Ungate)]


def test_members_of_the_next_round_are_led_when_all_of_this_one_are_at_bind() -> None:
    pods = members(8)
    script = Script(*cluster("a: 4x8"), *pods)
    first = nominated(script, pods)
    assert len(first) == 4
    assert {script.planned(pod) for pod in first} == {"a-0", "a-1", "a-2", "a-3"}
    script.bind_all(first[:3])
    assert nominated(script, pods) == first
    script.bind(first[3])
    assert nominated(script, pods) == pods
    assert not script.bindings, "the whole gang is released at once"
    script.bind_all(pod for pod in pods if pod not in first)
    script.post_all()
    assert len(script.bound(pods)) == 8


@pytest.mark.parametrize("constraints", [Constraints((HostPort(80),)), Constraints()])
def test_members_that_are_in_nobody_s_way_are_led_at_once(constraints: Constraints) -> None:
    pods = members(4, constraints)
    script = Script(*cluster("a: 4x8"), *pods)
    assert nominated(script, pods) == pods


def test_the_first_of_those_that_have_to_be_together_goes_ahead() -> None:
    pods = members(4, NEAR)
    script = Script(*cluster("a: 4x8", "b: 4x8"), *pods)
    (first,) = nominated(script, pods)
    script.bind(first)
    assert nominated(script, pods) == pods


@pytest.mark.parametrize("mode", [SteeringMode.NOMINATE, SteeringMode.PIN_NODE])
def test_gates_come_off_round_by_round(mode: SteeringMode) -> None:
    pods = members(8, **GATED)
    script = Script(*cluster("a: 4x8"), *pods, steering=mode)
    first = ungated(script)
    assert len(first) == 4
    for uid in first:
        script.feed(Ungated(uid))
        script.change(script.pods[uid], gates=())
        script.bind(script.pods[uid])
    assert len(set(ungated(script))) == 8


def test_whoever_asks_before_its_turn_waits_and_takes_nothing_back() -> None:
    pods = members(8)
    script = Script(*cluster("a: 4x8"), *pods)
    first = nominated(script, pods)
    (early, *_) = [pod for pod in pods if pod not in first]
    assert script.filter(early, [script.planned(early)]) == ()
    others = [name for name in ("a-0", "a-1", "a-2", "a-3") if name != script.planned(early)]
    answer = script.filtered(early, others)
    assert (answer.passed, answer.reason) == ((), GANG_WAITS)
    assert all(map(script.planned, pods))
    script.bind_all(first)
    assert script.filter(early) == (script.planned(early),)


def test_a_bind_before_its_turn_counts_for_its_round() -> None:
    pods = members(8)
    script = Script(*cluster("a: 4x8"), *pods)
    first = nominated(script, pods)
    early, *others = [pod for pod in pods if pod not in first]
    script.bind(early)
    script.bind_all(first[:3])
    assert nominated(script, others) == []
    script.bind(first[3])
    assert nominated(script, pods) == [pod for pod in pods if pod is not early]


def test_each_round_has_as_long_as_a_gang_without_rounds() -> None:
    """The first member waits for all of them, however many there are."""
    pods = members(24)
    script = Script(*cluster("a: 4x8"), *pods)
    led: list[Pod] = []
    for _ in range(6):
        script.advance(19)
        nominated_pods = [pod for pod in nominated(script, pods) if pod not in led]
        assert len(nominated_pods) == 4
        script.bind_all(nominated_pods, expires_s=600)
        led += nominated_pods
    script.post_all()
    assert len(script.bound(pods)) == 24


def test_a_round_that_does_not_come_ends_the_hold() -> None:
    pods = members(8)
    script = Script(*cluster("a: 4x8"), *pods)
    calls = script.bind_all(nominated(script, pods), expires_s=600)
    script.advance(29)
    assert not script.answers
    script.advance(1.1)
    assert all("only 4 of 8 members reached bind" in script.answers[call] for call in calls)


def test_whoever_waits_for_too_many_rounds_is_told_to_raise_the_timeout() -> None:
    pods = members(24)
    script = Script(*cluster("a: 4x8"), *pods)
    call, *_ = script.bind_all(nominated(script, pods), expires_s=10)
    script.advance(8)
    assert "only 4 of 24 members reached bind" in script.answers[call]
    assert "raise httpTimeout" in script.answers[call]


def test_a_member_that_is_lost_before_its_turn_holds_up_nobody() -> None:
    pods = members(8, min_member=7)
    script = Script(*cluster("a: 4x8"), *pods)
    first = nominated(script, pods)
    lost, *others = [pod for pod in pods if pod not in first]
    script.gone(lost)
    script.bind_all(first)
    assert nominated(script, others) == others


def test_members_beyond_the_quorum_are_led_after_the_release() -> None:
    pods = members(8, min_member=4)
    script = Script(*cluster("a: 4x8"), *pods)
    first = nominated(script, pods)
    others = [pod for pod in pods if pod not in first]
    script.bind_all(first)
    script.post_all()
    assert nominated(script, others) == others
    script.bind_all(others)
    script.post_all()
    assert len(script.bound(pods)) == 8


def test_a_member_is_not_led_to_a_node_that_has_gone_during_the_release() -> None:
    pods = members(12, min_member=4)
    script = Script(*cluster("a: 4x8"), *pods)
    first = nominated(script, pods)
    script.bind_all(first)
    *second, last = [pod for pod in nominated(script, pods) if pod not in first]
    script.bind_all(second)
    assert script.bindings
    gone = script.bindings[second[0].uid].node
    script.drop(gone)
    script.bind(last)
    third = [pod for pod in pods if pod not in (*first, *second, last)]
    nodes = {effect.uid: effect.node for effect in script.effects if isinstance(effect, Nominate) and effect.node}
    assert gone not in [nodes.get(pod.uid) for pod in third]
    script.post_all()
    script.advance(1)
    assert gone not in [script.planned(pod) for pod in third]


def test_members_that_come_while_others_are_on_their_way_are_led_after_these() -> None:
    pods = members(6, min_member=4)
    first, later = pods[:4], pods[4:]
    script = Script(*cluster("a: 4x8"), *first)
    script.see(later)
    assert all(map(script.planned, pods))
    assert nominated(script, pods) == first
    script.bind_all(first)
    script.post_all()
    assert nominated(script, later) == later
    script.bind_all(later)
    script.post_all()
    assert len(script.bound(pods)) == 6


def test_a_member_that_others_count_is_led_after_them_though_it_asks_for_nothing_itself() -> None:
    evenly = [replace(pod, created=float(pod.index or 0)) for pod in members(6, min_member=4)]
    plain = replace(evenly[5], constraints=Constraints())
    script = Script(*cluster("a: 1x8", "b: 1x8"), *evenly[:5])
    last = next(pod for pod in evenly[:5] if pod not in nominated(script, evenly[:5]))
    assert script.planned(last)
    script.see(plain)
    script.advance(1)
    assert script.planned(plain)
    assert plain not in nominated(script, [plain])


def test_members_whose_order_does_not_matter_are_led_as_they_come() -> None:
    pods = members(4, Constraints((HostPort(80),)), min_member=2)
    script = Script(*cluster("a: 4x8"), *pods[:2])
    script.see(pods[2:])
    assert nominated(script, pods) == pods


def test_a_refusal_in_a_later_round_takes_the_whole_plan_back() -> None:
    pods = members(8)
    script = Script(*cluster("a: 4x8"), *pods)
    first = nominated(script, pods)
    calls = script.bind_all(first)
    late = next(pod for pod in pods if pod not in first)
    script.filter(late, [name for name in ("a-0", "a-1", "a-2", "a-3") if name != script.planned(late)])
    assert all(script.answers[call] for call in calls)
    assert script.core.state.binds.held == {}


def test_after_a_restart_members_of_several_rounds_are_planned_anew() -> None:
    """All their nominations are still there, and each is in the way of another."""
    pods = members(8)
    first = Script(*cluster("a: 4x8"), *pods)
    nodes = {pod.uid: first.planned(pod) for pod in pods}
    again = Script(*cluster("a: 4x8"), synced=False)
    for pod in pods:
        again.see(pod)
        again.change(pod, nominated_node=nodes[pod.uid])
    again.feed_synced()
    again.advance(1.0)
    assert len(nominated(again, pods)) == 4
    assert sum(bool(pod.nominated_node) for pod in again.pods.values()) == 4


def test_a_binding_that_fails_takes_up_its_round_again() -> None:
    pods = members(8)
    script = Script(*cluster("a: 4x8"), *pods)
    first = nominated(script, pods)
    script.bind_all(first)
    script.bind_all(pod for pod in pods if pod not in first)
    failing = script.pods[next(iter(script.bindings))]
    script.post(failing, Outcome.REFUSED)
    script.post_all()
    script.advance(1.0)
    assert nominated(script, [failing]) == [failing]
    script.bind(failing)
    script.post_all()
    assert len(script.bound(pods)) == 8
