"""Preemption: a gang's pod preempts nobody, and nobody preempts a gang's pod, until whole gangs can."""

from __future__ import annotations

from tests.builders import cluster, gang, single
from tests.core.script import Script


def test_a_gang_member_preempts_nobody() -> None:
    pods, victim = gang("train", 2), single("victim", node="a-0")
    script = Script(*cluster("a: 1x8"), *pods, victim)
    assert script.preempt(pods[0], {"a-0": (victim.uid,)}) == {}


def test_a_single_may_preempt_singles_and_never_members() -> None:
    member, victim = gang("train", 1, node="a-0")[0], single("victim", node="a-1")
    preemptor = single("urgent", priority=9)
    script = Script(*cluster("a: 3x8"), member, victim, preemptor)
    asked = {"a-0": (member.uid,), "a-1": (victim.uid,), "a-2": (victim.uid, member.uid)}
    assert script.preempt(preemptor, asked) == {"a-1": (victim.uid,)}


def test_victims_that_nobody_knows_and_empty_lists_are_taken_out() -> None:
    script = Script(*cluster("a: 2x8"))
    assert script.preempt(single("urgent"), {"a-0": ("who",), "a-1": ()}) == {}
