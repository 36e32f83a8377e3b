"""Pods of no gang: kube-scheduler's business, except where room is promised to a gang."""

from __future__ import annotations

from dataclasses import replace

from extender.core.events import Outcome
from extender.core.verdicts import ROOM_KEPT
from tests.builders import cluster, gang, node, single
from tests.core.script import Script


def test_a_single_passes_every_node_while_no_gang_starts() -> None:
    pods = gang("waits", 3)
    script = Script(*cluster("a: 2x8"), *pods)
    assert script.filter(single("alone")) == ("a-0", "a-1")
    assert script.filter(single("unknown"), ["never-seen"]) == ("never-seen",)


def test_a_single_is_kept_out_of_promised_room_and_may_use_what_is_left() -> None:
    pods = gang("train", 1, gpus=6)
    script = Script(node("a"), node("b"), *pods)
    here = script.planned(pods[0])
    answer = script.filtered(single("big", gpus=4))
    assert answer.refused == (here,)
    assert answer.reason == ROOM_KEPT
    assert set(script.filter(single("small", gpus=2))) == {"a", "b"}


def test_a_single_is_bound_at_once() -> None:
    alone = single("alone")
    script = Script(*cluster("a: 1x8"), alone)
    call = script.bind(alone, "a-0")
    assert not script.bindings[alone.uid].annotations
    script.post_all()
    assert script.answers[call] == ""


def test_a_single_whose_binding_is_refused_gets_the_error_and_leaves_the_room() -> None:
    alone, pods = single("alone", gpus=8), gang("train", 1)
    script = Script(*cluster("a: 1x8"), alone)
    call = script.bind(alone, "a-0")
    script.see(pods)
    assert not script.planned(pods[0]), "the room of a Binding under way is taken"
    script.post(alone, Outcome.REFUSED)
    script.advance(0.1)
    assert script.answers[call]
    assert script.planned(pods[0])


def test_a_single_that_somebody_else_bound_meanwhile_stays_counted() -> None:
    alone = single("alone", gpus=8)
    script = Script(*cluster("a: 1x8"), alone)
    script.bind(alone, "a-0")
    script.change(alone, node="a-0")
    script.post(alone, Outcome.REFUSED)
    script.see(gang("train", 1))
    assert script.reason("train") == "NoRoom"


def test_a_single_that_passed_filter_before_the_gang_was_planned_is_not_bound_into_its_room() -> None:
    alone, pods = single("alone", gpus=8), gang("train", 2)
    script = Script(*cluster("a: 2x8"), alone)
    assert "a-0" in script.filter(alone)
    script.see(pods)
    call = script.bind(alone, "a-0")
    script.post_all()
    assert script.answers[call]
    script.run(pods)
    assert len(script.bound(pods)) == 2


def test_a_single_refused_for_a_gang_is_woken_once_when_the_gang_gives_up() -> None:
    alone, pods = single("alone", gpus=8), gang("train", 2)
    script = Script(*cluster("a: 2x8"), alone, *pods)
    assert script.filter(alone) == ()
    assert script.filter(alone) == ()
    script.gone(pods[1])
    assert script.woken == ["alone"]


def test_a_single_refused_for_a_spare_member_is_woken_when_that_member_goes() -> None:
    alone, pods = single("alone", gpus=8), gang("elastic", 2, min_member=1)
    script = Script(*cluster("a: 2x8"), alone, *pods)
    assert script.filter(alone) == ()
    script.gone(pods[1])
    assert script.woken == ["alone"]


def test_a_pod_of_a_native_group_passes_untouched() -> None:
    pod = replace(gang("native", 1)[0], native_group=True)
    script = Script(*cluster("a: 2x8"), pod)
    assert script.filter(pod) == ("a-0", "a-1")
    script.bind(pod, "a-1")
    script.post_all()
    assert script.bound([pod]) == ["a-1"]


def test_a_single_that_takes_planned_room_after_all_makes_the_gang_give_way() -> None:
    """kube-scheduler does not ask the extender for pods of another scheduler."""
    pods = gang("train", 1)
    script = Script(*cluster("a: 2x8"), *pods)
    taken = script.planned(pods[0])
    script.see(single("foreign", gpus=8, scheduler="default-scheduler", node=taken))
    assert script.planned(pods[0]) not in ("", taken)
