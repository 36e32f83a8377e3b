"""Single pods: kube-scheduler places them, except where room is promised to a gang.

Pods that kube-scheduler has nominated have room where they wait for their victims, and may find some elsewhere.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from extender.core.answers import Outcome
from extender.core.ledger.kube_scheduler import GANG_WAITS, LEFT_OUT, ROOM_RESERVED
from extender.core.limits import Limits
from policies.model import Pod, Selection
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
    assert answer.reason == ROOM_RESERVED
    assert set(script.filter(single("small", gpus=2))) == {"a", "b"}


def test_a_single_is_bound_at_once() -> None:
    alone = single("alone")
    script = Script(*cluster("a: 1x8"), alone)
    call = script.bind(alone, "a-0")
    assert not script.bindings[alone.uid].annotations
    script.post_all()
    assert script.answers[call] == ""


def test_a_single_whose_binding_is_refused_gets_the_error_and_leaves_the_room() -> None:
    alone, pods = single("alone", gpus=8, created=9), gang("train", 1)
    script = Script(*cluster("a: 1x8"), alone)
    call = script.bind(alone, "a-0")
    script.see(pods)
    assert not script.planned(pods[0]), "the room of a Binding under way is taken"
    script.post(alone, Outcome.REFUSED)
    script.advance(0.1)
    assert script.answers[call]
    assert script.planned(pods[0])


def test_a_single_that_somebody_else_bound_meanwhile_stays_counted() -> None:
    alone = single("alone", gpus=8, created=9)
    script = Script(*cluster("a: 1x8"), alone)
    script.bind(alone, "a-0")
    script.change(alone, node="a-0")
    script.post(alone, Outcome.REFUSED)
    script.see(gang("train", 1))
    assert script.reason("train") == "NoRoom"


def test_a_single_that_passed_filter_before_the_gang_was_planned_is_not_bound_into_its_room() -> None:
    alone, pods = single("alone", gpus=8, created=9), gang("train", 2)
    script = Script(*cluster("a: 2x8"), alone)
    assert "a-0" in script.filter(alone)
    script.see(pods)
    call = script.bind(alone, "a-0")
    script.post_all()
    assert script.answers[call]
    script.run(pods)
    assert len(script.bound(pods)) == 2


def test_a_single_refused_for_a_gang_is_woken_once_when_the_gang_gives_up() -> None:
    alone, pods = single("alone", gpus=8, created=9), gang("train", 2)
    script = Script(*cluster("a: 2x8"), alone, *pods)
    assert script.filter(alone) == ()
    assert script.filter(alone) == ()
    script.gone(pods[1])
    assert script.woken == ["alone"]


def test_a_single_refused_for_a_spare_member_is_woken_when_that_member_goes() -> None:
    alone, pods = single("alone", gpus=8, created=9), gang("elastic", 2, min_member=1)
    script = Script(*cluster("a: 2x8"), alone, *pods)
    assert script.filter(alone) == ()
    script.gone(pods[1])
    assert script.woken == ["alone"]


def test_a_single_refused_for_kept_room_is_woken_when_that_is_kept_no_longer() -> None:
    alone, pods = single("alone", gpus=8, created=9), gang("train", 3)
    script = Script(*cluster("a: 3x8"), *pods, alone, limits=Limits(evict_partial=False))
    script.bind_all(pods)
    first, second = list(script.bindings)
    room = script.bindings[second].node
    script.post(script.pods[first])
    script.post(script.pods[second], Outcome.REFUSED)
    script.gone(script.pods[second])
    script.post_all()
    assert script.filter(alone, [room]) == ()
    assert not script.woken
    script.advance(61)
    assert script.woken == ["alone"]
    assert script.filter(alone, [room]) == (room,)


def refused(pod: Pod, text: str) -> Pod:
    return replace(pod, refusal=f"0/1 nodes are available: 1 {text}.")


@pytest.mark.parametrize("text", [GANG_WAITS, LEFT_OUT])
@pytest.mark.parametrize("restart", [False, True])
def test_a_single_that_muster_refused_before_this_core_knew_it_is_woken_once(text: str, *, restart: bool) -> None:
    """Seed 6015339: the pod had changed, was tried and refused once more, and was taken in a while later."""
    alone = refused(single("alone"), text)
    script = Script(*cluster("a: 1x8"), *([alone] if restart else []))
    script.see(alone)
    script.change(alone, labels=(("a", "b"),))
    assert script.woken == ["alone"]


def test_a_pod_that_muster_refused_for_its_gang_is_woken_when_it_has_left_that() -> None:
    """kube-scheduler may see the edit first, and ask about a member of the gang."""
    pods = [refused(pod, GANG_WAITS) for pod in gang("train", 3)[:2]]
    script = Script(*cluster("a: 1x8"), *pods)
    assert not script.woken, "a nomination wakes a member"
    script.change(pods[0], group=None)
    assert script.woken == [pods[0].name]


@pytest.mark.parametrize("facts", [{"node": "a-0"}, {"phase": "Failed"}, {"deleting": True}, {"scheduler": "other"}])
def test_only_singles_that_wait_for_kube_scheduler_are_woken(facts: dict[str, Any]) -> None:
    script = Script(*cluster("a: 1x8"), replace(refused(single("alone"), LEFT_OUT), **facts))
    assert not script.woken


def test_a_single_that_an_earlier_process_kept_out_is_woken_when_the_promise_ends() -> None:
    alone, pods = refused(single("alone", gpus=8, created=9), ROOM_RESERVED), gang("train", 2)
    script = Script(*cluster("a: 2x8"), alone, *pods)
    assert not script.woken
    script.gone(pods[1])
    assert script.woken == ["alone"]


def test_a_single_is_not_woken_for_room_that_the_next_gang_gets_at_once() -> None:
    alone, first, second = single("alone", gpus=8, created=9), gang("one", 1, created=1), gang("two", 1, created=2)
    script = Script(*cluster("a: 1x8"), alone, *first, *second)
    assert script.filter(alone) == ()
    script.gone(first[0])
    assert script.planned(second[0])
    assert not script.woken
    script.gone(second[0])
    assert script.woken == ["alone"]


def test_a_single_is_not_woken_for_room_that_is_too_small_or_not_for_it() -> None:
    big, elsewhere = single("big", gpus=8, created=9), single("elsewhere", gpus=4, created=9)
    elsewhere = replace(elsewhere, selection=Selection((("zone", "moon"),)))
    pods = gang("train", 1, gpus=8)
    script = Script(*cluster("a: 1x8"), big, elsewhere, *pods)
    assert script.filter(big) == script.filter(elsewhere) == ()
    script.see(node("a-0", gpus=7))
    script.gone(pods[0])
    assert not script.woken


def test_a_pod_of_a_native_group_passes_untouched() -> None:
    pod = replace(gang("native", 1)[0], native_group="them")
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


def test_the_room_of_a_binding_that_may_have_been_written_is_given_back_in_time() -> None:
    """The pod may not be bound anywhere any more, so no later event would free that room."""
    alone, pods = single("alone", gpus=8, created=9), gang("train", 1)
    script = Script(*cluster("a: 1x8"), alone)
    script.bind(alone, "a-0")
    script.feed_outcome(alone.uid, Outcome.UNKNOWN)
    script.see(pods)
    assert not script.planned(pods[0]), "the watch may yet show it there"
    script.advance(15)
    assert not script.planned(pods[0])
    script.advance(6)
    assert script.planned(pods[0]) == "a-0"


def test_a_binding_that_was_in_doubt_and_is_asked_for_again_keeps_its_room() -> None:
    alone = single("alone", gpus=8, created=9)
    script = Script(*cluster("a: 1x8"), alone)
    script.bind(alone, "a-0")
    script.feed_outcome(alone.uid, Outcome.UNKNOWN)
    script.advance(10)
    script.bind(alone, "a-0")
    script.see(gang("train", 1))
    script.advance(15)
    assert script.reason("train") == "NoRoom"
    script.post(alone)
    script.advance(15)
    assert script.reason("train") == "NoRoom"


def test_a_single_that_was_refused_before_the_watch_shows_it_is_woken_as_well() -> None:
    alone, pods = single("alone", gpus=8, created=9), gang("train", 2)
    script = Script(*cluster("a: 2x8"), *pods)
    assert script.filter(alone) == ()
    script.gone(pods[1])
    assert script.woken == ["alone"]


def beside_a_nominated_single(priority: int) -> tuple[Script, Pod, Pod]:
    """A gang of one, for which there is room on a node where a single pod waits for its victim, and that pod."""
    victim, (pod,) = single("victim", gpus=4, node="a-0"), gang("train", 1, gpus=4, priority=priority)
    urgent = single("urgent", gpus=8, priority=1000, nominated_node="a-0")
    script = Script(*cluster("a: 1x8", "b: 1x2"), victim, urgent)
    script.see(pod)
    return script, pod, urgent


def with_two_rooms() -> tuple[Script, Pod, Pod, Pod]:
    """A single pod that waits for its victim on one node while another node has room, and gangs that each fit there."""
    victim, urgent = single("victim", gpus=1, node="a-0"), single("urgent", gpus=8, priority=1000, nominated_node="a-0")
    (small,), (large,) = gang("small", 1, gpus=7, priority=5), gang("large", 1, priority=10)
    script = Script(*cluster("a: 1x8"), victim, urgent, small, large)
    script.see(*cluster("b: 1x8"))
    return script, urgent, small, large


def test_a_single_that_waits_for_its_victims_stands_in_line_for_other_room() -> None:
    script, _, small, large = with_two_rooms()
    assert not script.planned(small)
    assert not script.planned(large)
    assert "room is kept for 1 pod in no gang (" in script.message("small")
    script.advance(21)
    assert script.planned(large) == "b-0", "kube-scheduler has not taken the other up in time"
    assert not script.planned(small), "it is nominated still"


def test_both_rooms_of_a_nominated_single_are_planned_with_when_it_has_gone() -> None:
    script, urgent, small, large = with_two_rooms()
    script.gone(urgent)
    assert script.planned(small) == "a-0"
    assert script.planned(large) == "b-0"


def test_the_room_that_a_single_is_nominated_for_is_planned_with_when_it_is_bound_elsewhere() -> None:
    script, urgent, small, large = with_two_rooms()
    script.change(urgent, node="b-0", nominated_node=None)
    assert script.planned(small) == "a-0"
    assert not script.planned(large)


def test_a_single_keeps_its_other_room_when_it_is_nominated() -> None:
    victim, urgent = single("victim", gpus=1, node="a-0"), single("urgent", gpus=8, priority=1000)
    holder, large = single("holder", gpus=8, node="b-0"), gang("large", 1, priority=5)
    script = Script(*cluster("a: 1x8", "b: 1x8"), victim, holder, urgent, *large)
    script.gone(holder)
    script.change(urgent, nominated_node="a-0")
    script.advance(3)
    assert not script.planned(large[0])


def test_the_room_of_a_nominated_single_whose_victims_are_gone_counts_once() -> None:
    victim, (pod,) = single("victim", gpus=8, node="a-0"), gang("train", 1, gpus=4)
    urgent = single("urgent", gpus=4, priority=1000, nominated_node="a-0")
    script = Script(*cluster("a: 1x8"), victim, urgent, pod)
    script.gone(victim)
    assert script.planned(pod) == "a-0"


def test_a_nominated_single_whose_victims_are_gone_keeps_no_room_elsewhere() -> None:
    """Not even on a node that it would fill: kube-scheduler looks first where it has nominated the pod."""
    urgent = single("urgent", gpus=4, priority=1000, nominated_node="a-0")
    gangs = [gang(name, 1, gpus=4)[0] for name in ("one", "two")]
    script = Script(*cluster("a: 1x8", "b: 1x4"), urgent, *gangs)
    assert sorted(script.planned(pod) for pod in gangs) == ["a-0", "b-0"]


def test_a_gang_gets_no_room_that_a_single_of_higher_priority_is_nominated_for() -> None:
    """kube-scheduler has found victims for the single, and accepts no pod beside it that takes its room."""
    script, pod, urgent = beside_a_nominated_single(priority=10)
    assert not script.planned(pod)
    assert "room is kept for 1 pod in no gang (" in script.message("train")
    script.change(urgent, nominated_node=None)
    assert script.planned(pod) == "a-0"


@pytest.mark.parametrize("ends", ["gone", "moves"])
def test_room_that_nobody_is_nominated_for_any_more_is_planned_with(ends: str) -> None:
    script, pod, urgent = beside_a_nominated_single(priority=0)
    assert not script.planned(pod)
    if ends == "gone":
        script.gone(urgent)
    else:
        script.change(urgent, nominated_node="b-0")
    assert script.planned(pod) == "a-0"


def test_a_gang_of_higher_priority_goes_before_a_nominated_single() -> None:
    script, pod, _ = beside_a_nominated_single(priority=2000)
    assert script.planned(pod) == "a-0"
