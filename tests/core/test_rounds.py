"""Members that other members are in the way of for a while: kube-scheduler is asked about them round by round."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from extender.core.effects import Nominate, Ungate
from extender.core.events import Nominated, Outcome, PodSeen, Ungated
from extender.core.steering import SteeringMode
from extender.core.verdicts import GANG_WAITS
from policies.model import GANG_GATE, Constraints, HostPort, Job, Pod, Requirement, Spread, Term
from tests.builders import cluster, gang, single
from tests.core.jobs import Controlled, job
from tests.core.script import Script

HOST, CLIQUE = "kubernetes.io/hostname", "nvidia.com/gpu.clique"
TRAIN = (Requirement("app", "In", ("train",)),)
EVENLY = Constraints(spread=(Spread(HOST, 1, TRAIN),))
NEAR = Constraints(affinity=(Term(CLIQUE, TRAIN, ("default",)),))
GATED: dict[str, Any] = {"gates": (GANG_GATE,)}


def members(size: int, constraints: Constraints = EVENLY, **facts: Any) -> list[Pod]:
    return gang("train", size, gpus=1, labels=(("app", "train"),), constraints=constraints, **facts)


def nominated(script: Script, pods: list[Pod]) -> list[Pod]:
    """Those that are nominated for the node that they are planned on, by what was asked for last."""
    last = {effect.uid: effect.node for effect in script.effects if isinstance(effect, Nominate)}
    return [pod for pod in pods if last.get(pod.uid) and last[pod.uid] == script.planned(pod)]


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
        told = [pod for pod in nominated(script, pods) if pod not in led]
        assert len(told) == 4
        script.bind_all(told, expires_s=600)
        led += told
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
    told = {effect.uid: effect.node for effect in script.effects if isinstance(effect, Nominate) and effect.node}
    assert gone not in [told.get(pod.uid) for pod in third]
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


@pytest.mark.parametrize(
    ("words", "parked"), [("0/4 nodes: didn't match pod topology spread", True), (GANG_WAITS, False)]
)
def test_whoever_only_plugins_have_refused_is_woken_when_its_turn_comes(words: str, parked: bool) -> None:
    pods = members(8)
    script = Script(*cluster("a: 4x8"), *pods)
    first = nominated(script, pods)
    late = next(pod for pod in pods if pod not in first)
    script.change(late, refusal=words)
    script.bind_all(first)
    asked = next(one for one in script.effects if isinstance(one, Nominate) and one.uid == late.uid)
    assert asked.parked is parked


@pytest.mark.parametrize("answered", [True, False])
def test_whoever_plugins_had_refused_before_they_knew_of_the_nomination_is_woken_when_that_is_seen(
    *, answered: bool
) -> None:
    pods = members(8)
    script = Script(*cluster("a: 4x8"), *pods)
    first = nominated(script, pods)
    late = script.pods.pop(next(pod for pod in pods if pod not in first).uid)  # its nomination is written later
    script.bind_all(first)
    node = script.planned(late)
    if answered:
        script.feed(Nominated(late.uid, node))
    words = "0/4 nodes: didn't match pod topology spread"
    script.feed(PodSeen(replace(late, refusal=words)))
    asked = [one for one in script.effects if isinstance(one, Nominate) and one.uid == late.uid]
    assert [(one.node, one.parked) for one in asked] == [(node, False), (node, True)]
    script.feed(PodSeen(replace(late, refusal=words, nominated_node=node)))
    script.feed(Nominated(late.uid, node))
    for seen in (None, node):  # the watch is behind the answer
        script.feed(PodSeen(replace(late, refusal=words, nominated_node=seen)))
    assert script.planned(late) == node, "nothing is taken back for words that are older than the nomination"
    script.feed(PodSeen(replace(late, refusal="0/4 nodes: something else", nominated_node=node)))
    assert not any(map(script.planned, pods)), "these words are about the node"


def test_whoever_is_about_to_be_woken_is_not_woken_twice_for_words_that_come_to_light_meanwhile() -> None:
    """Each waking clears its nomination once: a second one would be taken for kube-scheduler's."""
    pods = members(8)
    script = Script(*cluster("a: 4x8"), *pods)
    first = nominated(script, pods)
    late = next(pod for pod in pods if pod not in first)
    script.change(late, refusal="0/4 nodes: no room")
    late = script.pods.pop(late.uid)  # its nomination is written later
    script.bind_all(first)
    node, words = script.planned(late), "0/4 nodes: didn't match pod topology spread"
    script.feed(PodSeen(replace(late, refusal=words)))
    asked = [one for one in script.effects if isinstance(one, Nominate) and one.uid == late.uid]
    assert [(one.node, one.parked) for one in asked] == [(node, True)]
    script.feed(Nominated(late.uid, node))
    for seen in (node, None, node):  # the watch is behind the answer
        script.feed(PodSeen(replace(late, refusal=words, nominated_node=seen)))
    assert script.planned(late) == node
    script.feed(PodSeen(replace(late, refusal=words)))
    assert not any(map(script.planned, pods)), "kube-scheduler has cleared it"


def test_kube_scheduler_clears_a_nomination_that_we_have_cleared_ourselves_before() -> None:
    """Nobody can be preempted for the member: the words are the same, and the nomination goes."""
    pods = members(8)
    script = Script(*cluster("a: 4x8"), *pods)
    first = nominated(script, pods)
    late = next(pod for pod in pods if pod not in first)
    script.change(late, refusal="0/4 nodes: didn't match pod topology spread")
    script.bind_all(first)
    node = script.planned(late)
    for seen in (None, node):
        script.change(late, nominated_node=seen)
    assert script.planned(late) == node
    script.change(late, nominated_node=None)
    assert not any(map(script.planned, pods))


def spread_job(count: int) -> Job:
    made = job(count, gpus=1)
    (podset,) = made.podsets.podsets
    asking = replace(podset, template=replace(podset.template, labels=(("app", "train"),), constraints=EVENLY))
    return replace(made, podsets=replace(made.podsets, podsets=(asking,)))


def pods_of(train: Controlled) -> list[Pod]:
    """As its controller makes them, in the order of their indexes."""
    (podset,) = train.seen.podsets.podsets
    return [replace(pod, uid=f"pod-{pod.index}", name=f"pod-{pod.index}") for pod in podset.pods()]


def test_pods_of_a_job_are_asked_about_in_rounds_whatever_the_order_in_which_they_come() -> None:
    script = Script(*cluster("a: 4x8"))
    train = Controlled(script, spread_job(8))
    nodes = train.starts[0].plan[""]
    pods = pods_of(train)
    script.see(*reversed(pods))
    led = [pod for pod in pods if script.filter(pod)]
    assert sorted(map(script.planned, led)) == sorted(nodes[:4]) == ["a-0", "a-1", "a-2", "a-3"]
    assert nominated(script, pods) == [], "nothing is written on those that are led by what they are made of"
    script.bind_all(led[:3])
    assert nominated(script, pods) == []
    script.bind(led[3])
    others = [pod for pod in pods if pod not in led]
    assert nominated(script, pods) == others, "kube-scheduler has tried them, and has to be told"
    script.bind_all(others)
    script.post_all()
    assert len(script.bound(pods)) == 8
    assert not train.stops


def test_pods_of_a_job_wait_for_those_before_them_that_are_yet_to_be_created() -> None:
    script = Script(*cluster("a: 4x8"))
    train = Controlled(script, spread_job(8))
    pods = pods_of(train)
    missing, *first = pods[:4]
    assert script.filter(missing), "kube-scheduler may have seen it already"
    assert not script.filter(pods[4])
    script.see(*first, *pods[4:])
    script.bind_all(first)
    assert nominated(script, pods) == []
    script.see(missing)
    script.bind(missing)
    assert nominated(script, pods) == pods[4:]


@pytest.mark.parametrize("seen", ["before", "afterwards"])
def test_what_a_node_let_in_before_others_went_is_soon_forgotten(seen: str) -> None:
    """The pod that counted in the other domain has gone, and the plan is refused for that. No limit of the node is."""
    pods, other = members(4), single("other", gpus=1, node="a-1", labels=(("app", "train"),))
    script = Script(*cluster("a: 2x8"), other, *pods)
    (first, *_) = nominated(script, pods)
    assert script.planned(first) == "a-0"
    script.bind_all(nominated(script, pods))
    second = next(pod for pod in nominated(script, pods) if pod != first and script.planned(pod) == "a-0")
    if seen == "before":
        script.gone(other)
    script.filter(second, ["a-1"])
    if seen == "afterwards":
        script.gone(other)
    assert not any(script.planned(pod) for pod in pods)
    script.advance(31)
    assert all(script.planned(pod) for pod in pods)
