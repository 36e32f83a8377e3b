"""A gang that kube-scheduler's own plugins refuse everywhere: it rests without room, says why, and others start."""

from __future__ import annotations

from dataclasses import replace

from extender.core.effects import Nominate
from policies.model import Pod
from tests.builders import cluster, gang, single
from tests.core.queues import cluster_queue, flavor, in_queue, show
from tests.core.script import Script

WORDS = "0/4 nodes are available: 4 node(s) didn't match pod affinity rules"


class Cycles(Script):
    """``stubborn``: kube-scheduler refuses their planned nodes, and clears their nominations as it finds no victims."""

    def refuse(self, stubborn: list[Pod]) -> int:
        """Run one cycle for each planned pod. Returns how many there were."""
        planned = [pod for pod in stubborn if self.planned(pod)]
        for pod in planned:
            if self.planned(pod):
                self.change(pod, refusal=f"{WORDS}.", nominated_node=None)
        return len(planned)

    def holds_room(self, pods: list[Pod]) -> bool:
        return any(self.planned(pod) for pod in pods)


def test_it_holds_room_ever_more_rarely_and_others_start_with_it() -> None:
    stubborn = gang("stubborn", 2, priority=5)
    script = Cycles(*cluster("a: 4x8"), *stubborn)
    held = tries = 0
    for _ in range(600):
        held += script.holds_room(stubborn)
        tries += script.refuse(stubborn) > 0
        script.advance(0.9)
    assert tries < 45
    assert held <= tries
    others = gang("others", 4, priority=0)
    script.see(others)
    script.advance(40)
    assert all(script.planned(pod) for pod in others) or script.bound(others)


def test_its_reason_has_the_words_of_kube_scheduler() -> None:
    stubborn = gang("stubborn", 1)
    script = Cycles(*cluster("a: 2x8"), *stubborn)
    reasons = set()
    for _ in range(60):
        script.refuse(stubborn)
        script.advance(0.9)
        if script.reason("stubborn") != "Placed":
            reasons.add(script.reason("stubborn"))
            assert script.reason("stubborn") in ("Forgotten", "Refused", "NoRoom")
            if script.reason("stubborn") == "Refused":
                assert WORDS in script.message("stubborn")
    assert "Refused" in reasons
    assert script.reason("stubborn") == "Refused"
    assert any(code == "Refused" and WORDS in text for code, text in script.reports)


def test_the_words_are_told_while_the_refusal_counts_and_with_no_other_reason() -> None:
    stubborn = in_queue("stubborn", 2)
    script = Cycles(*cluster("a: 2x8", "b: 2x8"))
    show(script, flavor("gpus"), cluster_queue("team", {"gpus": 16}))
    script.see(stubborn)
    for _ in range(100):
        script.refuse(stubborn)
        script.advance(0.9)
    assert script.reason("stubborn") == "Refused"
    others = in_queue("others", 2, priority=9)
    script.see(others)
    script.run(others)
    script.advance(60)
    assert script.reason("stubborn") == "NoQuota"
    script.gone(*others)
    script.see(single(f"busy-{node}", gpus=8, node=node) for node in ("a-0", "a-1", "b-0"))
    script.advance(1000)
    assert script.reason("stubborn") == "NoRoom", "no node is left out any more"


def test_words_that_stay_the_same_and_a_nomination_that_stays_cost_one_plans_time_at_most() -> None:
    """With preemptionPolicy Never kube-scheduler writes nothing at all when it refuses once more."""
    stubborn = [replace(pod, refusal=f"{WORDS}.") for pod in gang("stubborn", 2)]
    script = Script(*cluster("a: 2x8"), *stubborn)
    held = 0
    for _ in range(600):
        held += bool(script.planned(stubborn[0]))
        script.advance(1)
    assert held < 100, "in ten minutes"
    assert script.reason("stubborn") in ("Refused", "Placed")


def test_a_gang_that_other_nodes_take_starts_there() -> None:
    pods = gang("train", 2)
    script = Cycles(*cluster("a: 4x8"), *pods)
    for _ in range(100):
        script.refuse(pods)
        script.advance(1)
    script.see(*cluster("b: 2x8"))
    for _ in range(300):
        script.refuse([pod for pod in pods if script.planned(pod).startswith("a")])
        if {script.planned(pod) for pod in pods} == {"b-0", "b-1"}:
            break
        script.advance(1)
    script.run(pods)
    assert script.reason("train") == "Running"
    assert (script.gang("train").retries.refusals, script.gang("train").retries.words) == (0, "")


def test_room_that_comes_free_on_a_node_that_refused_ends_the_rest() -> None:
    pods, busy = gang("train", 1, gpus=4), single("busy", gpus=4, node="a-0")
    script = Cycles(*cluster("a: 1x8"), busy, *pods)
    for _ in range(200):
        script.refuse(pods)
        script.advance(1)
    script.refuse(pods)
    assert not script.planned(pods[0])
    script.gone(busy)
    assert script.planned(pods[0]) == "a-0"


def test_two_of_them_do_not_wake_each_other() -> None:
    first, two = gang("one", 2), gang("two", 2)
    script = Cycles(*cluster("a: 2x8"), *first, *two)
    for _ in range(300):
        script.refuse(first)
        script.refuse(two)
        script.advance(1)
    nominated = [effect for effect in script.effects if isinstance(effect, Nominate) and effect.node]
    assert len(nominated) < 120


def test_a_node_that_refused_one_again_and_again_is_planned_around_whatever_another_was_promised_there() -> None:
    first, two = gang("one", 1), gang("two", 1)
    script = Cycles(*cluster("a: 1x8"), *first)
    for _ in range(30):
        script.refuse(first)
        script.advance(1)
    script.refuse(first)
    script.see(two)
    assert script.planned(two[0]) == "a-0"
    script.refuse(two)
    assert not script.planned(two[0])
    assert "a-0" in [cap.node for cap in script.gang("one").retries.caps]


def test_its_own_renewal_of_a_nomination_is_no_refusal() -> None:
    pods = [replace(pod, refusal=WORDS) for pod in gang("train", 1)]
    script = Script(*cluster("a: 1x8"), *pods, nominates=False)
    planned = script.planned(pods[0])
    assert planned == "a-0"
    script.change(pods[0], nominated_node=None)
    assert script.planned(pods[0]) == "a-0", "it is being written"
