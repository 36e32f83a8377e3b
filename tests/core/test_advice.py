"""Advisory mode: no workload waits, and all is explained and counted.

Only Bindings are written, gates removed, and pods woken that Muster refused in another mode.
"""

from __future__ import annotations

from dataclasses import replace
from random import Random
from typing import Any

import pytest

from extender.core.answers import Outcome, Ungated
from extender.core.effects import Evict, Nominate, Ungate
from extender.core.events import PodSeen, Synced
from extender.core.gate.advisory import Mode
from extender.core.ledger.kube_scheduler import REFUSALS
from policies.model import GANG_GATE, Node, Pod, Stamp
from tests.builders import busy, cluster, gang, reborn, single
from tests.core.jobs import Controlled, job
from tests.core.script import Script


def advising(*facts: Node | Pod, **facts_of_script: Any) -> Script:
    return Script(*facts, mode=Mode.ADVISE, **facts_of_script)


def test_a_gang_larger_than_the_room_is_bound_one_by_one_and_its_lack_is_explained() -> None:
    pods = gang("train", 4)
    script = advising(*cluster("a: 3x8"), *pods)
    assert script.reason("train") == "NoRoom"
    for number, pod in enumerate(pods[:3]):
        assert script.filter(pod) == ("a-0", "a-1", "a-2")
        call = script.bind(pod, f"a-{number}")
        script.post_all()
        assert script.answers[call] == ""
    script.advance(0.1)
    assert script.bound(pods) == ["a-0", "a-1", "a-2"]
    assert script.reason("train") == "NoRoom"
    assert script.core.state.counts.advised == {"would_reject": 3, "would_hold": 3}


def test_a_gang_with_room_would_pass_and_is_told_to_run() -> None:
    pods = gang("train", 2)
    script = advising(*cluster("a: 2x8"), *pods)
    assert script.reason("train") == "Placed"
    for pod, node in zip(pods, ("a-1", "a-0"), strict=True):
        script.filter(pod)
        script.bind(pod, node)
        script.post_all()
    assert script.reason("train") == "Running"
    assert script.core.state.counts.advised == {"would_pass": 2, "would_hold": 1}, "the last one makes the quorum"


@pytest.mark.parametrize("text", REFUSALS)
def test_pods_that_were_refused_in_the_other_mode_are_woken(text: str) -> None:
    pods = [replace(pod, refusal=f"0/2 nodes are available: 2 {text}.") for pod in (*gang("train", 2), single("s"))]
    script = advising(*cluster("a: 2x8"), *pods)
    assert script.woken == [pod.name for pod in pods]


def test_a_plan_keeps_no_room_from_anybody() -> None:
    pods, other = gang("train", 2), single("s", gpus=8)
    script = advising(*cluster("a: 2x8"), *pods, other)
    assert script.filter(other) == ("a-0", "a-1")
    call = script.bind(other, "a-0")
    script.post_all()
    script.advance(60)
    assert script.answers[call] == ""
    assert script.reason("train") == "NoRoom"


def test_a_suspended_job_still_waits_for_its_nodes_and_keeps_them_from_nobody() -> None:
    script, other = advising(*cluster("a: 3x8")), single("s", gpus=8)
    train = Controlled(script, job(4))
    assert (train.starts, script.reason("job")) == ([], "NoRoom")
    script.see(*cluster("b: 1x8"))
    train.settle()
    (start,) = train.starts
    assert sorted(start.plan[""]) == ["a-0", "a-1", "a-2", "b-0"]
    assert sorted(script.filter(other)) == ["a-0", "a-1", "a-2", "b-0"]


def test_gates_come_off_at_once_whether_there_is_room_or_not() -> None:
    pods = gang("train", 4, gates=(GANG_GATE,))
    script = advising(*cluster("a: 1x8"), *pods)
    assert [effect.uid for effect in script.effects if isinstance(effect, Ungate)] == [pod.uid for pod in pods]
    assert not any(effect.pin for effect in script.effects if isinstance(effect, Ungate))


def test_a_gate_that_stays_on_is_tried_again_when_the_pod_is_seen() -> None:
    (pod,) = gang("train", 1, min_member=2, gates=(GANG_GATE,))
    script = advising(*cluster("a: 1x8"), pod)
    script.feed(Ungated(pod.uid, "the API server said no"))
    again = script.feed(PodSeen(replace(pod, priority=1)))
    assert [effect.uid for effect in again if isinstance(effect, Ungate)] == [pod.uid]


def test_nothing_is_nominated_and_nominations_of_kube_scheduler_stay() -> None:
    pods = gang("train", 2)
    script = advising(*cluster("a: 2x8"), replace(pods[0], nominated_node="a-1"), pods[1])
    late = advising(*cluster("a: 1x8"), *(replace(pod, nominated_node="a-0") for pod in pods), synced=False)
    late.feed(Synced())
    late.advance(120)
    script.advance(120)
    assert not [effect for effect in script.effects + late.effects if isinstance(effect, Nominate)]


def test_a_release_that_broke_off_before_the_mode_was_changed_is_not_evicted() -> None:
    pods = gang("train", 3)
    half = replace(pods[0], node="a-0", stamp=Stamp("job-train", pods[2].uid, complete=False))
    script = advising(*cluster("a: 1x8"), half, *pods[1:])
    script.advance(600)
    assert not [effect for effect in script.effects if isinstance(effect, Evict)]


def test_a_gangs_pod_may_preempt_singles_and_nobody_preempts_a_gangs_pod() -> None:
    running, pods = replace(gang("old", 1)[0], node="a-1"), gang("train", 2)
    script = advising(*cluster("a: 2x8"), *busy("a-0", 8), running, *pods)
    victims: dict[str, tuple[str, ...]] = {"a-0": ("uid-busy-a-0",), "a-1": (running.uid,)}
    assert script.preempt(pods[0], victims) == {"a-0": ("uid-busy-a-0",)}
    assert script.preempt(single("s"), victims) == {"a-0": ("uid-busy-a-0",)}


def test_scores_lead_a_gang_to_the_clique_that_holds_it() -> None:
    """Packing alone would begin in the broken clique, which is too small."""
    pods = gang("train", 3)
    script = advising(*cluster("small: 3x8", "large: 4x8"), *busy("small-0", 8), *pods)
    small, large = script.core.prioritize(pods[0], ["small-1", "large-0"])
    assert large > small


def test_a_binding_that_fails_gives_its_room_back() -> None:
    pods = gang("train", 2)
    script = advising(*cluster("a: 1x8"), *pods)
    for outcome in (Outcome.REFUSED, Outcome.UNKNOWN):
        script.bind(pods[0], "a-0")
        script.post(pods[0], outcome)
        script.advance(120)
        assert script.core.state.claims.fits("a-0", pods[0].requests), outcome
    assert script.bound(pods) == []


def test_a_replacement_of_a_lost_member_is_bound_at_once() -> None:
    pods = gang("train", 2)
    script = advising(*cluster("a: 3x8"), *pods)
    for pod, node in zip(pods, ("a-0", "a-1"), strict=True):
        script.bind(pod, node)
    script.post_all()
    script.gone(pods[1])
    fresh = reborn(pods[1])
    script.see(fresh)
    script.filter(fresh)
    script.bind(fresh, "a-2")
    script.post_all()
    assert script.bound([pods[0], fresh]) == ["a-0", "a-2"]


@pytest.mark.parametrize("seed", range(8))
def test_whatever_happens_no_bind_is_held_and_the_state_stays_sound(seed: int) -> None:
    """The script checks the whole state after every event. Gangs compete for nodes, and Bindings fail in all ways."""
    dice = Random(seed)  # noqa: S311
    script = advising(*cluster("a: 3x8", "b: 3x8"))
    waiting = [pod for name in "uvw" for pod in gang(name, 3, gates=(GANG_GATE,))] + [single("s", gpus=8)]
    script.see(waiting)
    outcomes = [Outcome.DONE, Outcome.DONE, Outcome.REFUSED, Outcome.UNKNOWN]
    for _ in range(120):
        pod = script.pods[dice.choice(list(script.pods))]
        match dice.randrange(5):
            case 0 | 1 if not pod.node:
                call = script.bind(pod, dice.choice("ab") + f"-{dice.randrange(3)}")
                assert call in script.answers or pod.uid in script.bindings
            case 2 if pod.uid in script.bindings:
                script.post(pod, dice.choice(outcomes), seen=dice.random() < 0.7)
            case 3 if pod.uid not in script.bindings:
                script.gone(pod)
                script.see(reborn(pod, f"{len(script.effects)}"))
            case _:
                script.advance(dice.choice([0.1, 5, 40]))
    assert not script.core.state.binds.held
    assert not [effect for effect in script.effects if isinstance(effect, Nominate | Evict)]


def test_the_scores_alone_lead_a_gang_to_where_it_was_planned() -> None:
    """kube-scheduler binds each member to a node with the best score; ties and its own scores are taken against us."""
    pods = gang("train", 4)
    here = cluster("a: 5x8", "b: 7x8", "c: 3x8")
    script = advising(*here, *busy("a-0 b-0 b-1", 8), *pods)
    names = [node.name for node in here]
    for pod in pods:
        taken = {pod.node for pod in script.pods.values() if pod.node}
        free = [name for name in reversed(names) if name not in taken]
        marks = script.core.prioritize(pod, free)
        script.bind(pod, free[marks.index(max(marks))])
        script.post_all()
    assert {name[0] for name in script.bound(pods)} == {"a"}, "the tightest clique that holds all four"
