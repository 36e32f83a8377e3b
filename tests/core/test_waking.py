"""Members that plugins have refused: they are woken once, when kube-scheduler hears of their nodes."""

from __future__ import annotations

from dataclasses import replace

import pytest

from extender.core.answers import Nominated
from extender.core.effects import Nominate
from extender.core.events import PodSeen
from extender.core.ledger.kube_scheduler import GANG_WAITS
from policies.model import Constraints, Pod
from tests.builders import cluster, node, single
from tests.core.relations import APART, asking, members, nominated
from tests.core.script import Script


def in_rounds() -> tuple[Script, list[Pod], list[Pod], Pod]:
    """A gang that is led in rounds, its members, those of the first round, and one of a later one."""
    pods = members(8)
    script = Script(*cluster("a: 4x8"), *pods)
    first = nominated(script, pods)
    return script, pods, first, next(pod for pod in pods if pod not in first)


def wakings(script: Script, pod: Pod) -> list[tuple[str | None, bool]]:
    """The last requested nominations of the pod: the node, and whether the nomination is to wake the pod."""
    return [
        (effect.node, effect.parked)
        for effect in script.effects
        if isinstance(effect, Nominate) and effect.uid == pod.uid
    ]


@pytest.mark.parametrize(
    ("words", "parked"), [("0/4 nodes: didn't match pod topology spread", True), (GANG_WAITS, False)]
)
def test_whoever_only_plugins_have_refused_is_woken_when_its_turn_comes(words: str, parked: bool) -> None:
    script, _, first, late = in_rounds()
    script.change(late, refusal=words)
    script.bind_all(first)
    nomination = next(effect for effect in script.effects if isinstance(effect, Nominate) and effect.uid == late.uid)
    assert nomination.parked is parked


@pytest.mark.parametrize("answered", [True, False])
def test_whoever_plugins_had_refused_before_they_knew_of_the_nomination_is_woken_when_that_is_seen(
    *, answered: bool
) -> None:
    script, pods, first, late = in_rounds()
    late = script.pods.pop(late.uid)  # its nomination is written later
    script.bind_all(first)
    node = script.planned(late)
    if answered:
        script.feed(Nominated(late.uid, node))
    words = "0/4 nodes: didn't match pod topology spread"
    script.feed(PodSeen(replace(late, refusal=words)))
    assert wakings(script, late) == [(node, False), (node, True)]
    script.feed(PodSeen(replace(late, refusal=words, nominated_node=node)))
    script.feed(Nominated(late.uid, node))
    for seen in (None, node):  # the watch is behind the answer
        script.feed(PodSeen(replace(late, refusal=words, nominated_node=seen)))
    assert script.planned(late) == node, "nothing is taken back for words that are older than the nomination"
    script.feed(PodSeen(replace(late, refusal="0/4 nodes: something else", nominated_node=node)))
    assert not any(map(script.planned, pods)), "these words are about the node"


def test_whoever_is_about_to_be_woken_is_not_woken_twice_for_words_that_come_to_light_meanwhile() -> None:
    """Each waking clears its nomination once: a second one would be taken for kube-scheduler's."""
    script, pods, first, late = in_rounds()
    script.change(late, refusal="0/4 nodes: no room")
    late = script.pods.pop(late.uid)  # its nomination is written later
    script.bind_all(first)
    node, words = script.planned(late), "0/4 nodes: didn't match pod topology spread"
    script.feed(PodSeen(replace(late, refusal=words)))
    assert wakings(script, late) == [(node, True)]
    script.feed(Nominated(late.uid, node))
    for seen in (node, None, node):  # the watch is behind the answer
        script.feed(PodSeen(replace(late, refusal=words, nominated_node=seen)))
    assert script.planned(late) == node
    script.feed(PodSeen(replace(late, refusal=words)))
    assert not any(map(script.planned, pods)), "kube-scheduler has cleared it"


def test_kube_scheduler_clears_a_nomination_that_we_have_cleared_ourselves_before() -> None:
    """The member has no victims: the words are the same, and the nomination goes."""
    script, pods, first, late = in_rounds()
    script.change(late, refusal="0/4 nodes: didn't match pod topology spread")
    script.bind_all(first)
    node = script.planned(late)
    for seen in (None, node):
        script.change(late, nominated_node=seen)
    assert script.planned(late) == node
    script.change(late, nominated_node=None)
    assert not any(map(script.planned, pods))


@pytest.mark.parametrize(("words", "wakes"), [("0/1 nodes: anti-affinity of existing pods", True), (GANG_WAITS, False)])
@pytest.mark.parametrize("late", [False, True])
def test_members_that_ask_for_nothing_are_woken_where_other_pods_may_have_kept_them_away(
    words: str, *, wakes: bool, late: bool
) -> None:
    """kube-scheduler does not try them for a new node then. ``late``: it says so when they have been nominated."""
    script, (pod,) = Script(*cluster("a: 1x8")), asking("train", 1, Constraints())
    script.see(single("keeper", gpus=0, cpu=0, node="a-0", constraints=APART), pod)
    if late:
        script.pods.pop(pod.uid)  # its nomination is written later
    else:
        script.change(pod, refusal=words)
    script.see(node("b"))
    script.advance(1.0)
    if late:
        script.feed(PodSeen(replace(pod, refusal=words)))
    assert script.planned(pod) == "b"
    assert wakings(script, pod)[-1] == ("b", wakes)


def test_nobody_is_woken_where_no_pod_can_have_kept_it_away() -> None:
    script, (pod,) = Script(*cluster("a: 1x8")), asking("train", 1, Constraints())
    script.see(single("full", node="a-0", gpus=8), replace(pod, refusal="0/1 nodes: insufficient nvidia.com/gpu"))
    script.see(node("b"))
    script.advance(1.0)
    assert wakings(script, pod) == [("b", False)]
