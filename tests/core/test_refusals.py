"""A refusal by kube-scheduler is believed for a while; the same question gets the same answer."""

from __future__ import annotations

from dataclasses import replace

import pytest

from extender.core.answers import Nominated
from extender.core.effects import Nominate
from extender.core.events import FilterCalled
from extender.core.ledger.kube_scheduler import GANG_WAITS
from tests.builders import cluster, gang, single
from tests.core.script import Script


def test_a_planned_member_may_use_its_planned_node_and_no_other() -> None:
    pods = gang("train", 2)
    script = Script(*cluster("a: 4x8"), *pods)
    for pod in pods:
        assert script.filter(pod) == (script.planned(pod),)
        assert script.filter(pod, [script.planned(pod)]) == (script.planned(pod),)


def test_a_member_without_a_placement_is_refused_everywhere_with_a_constant_text() -> None:
    pods = gang("train", 2)
    script = Script(*cluster("a: 1x8"), *pods)
    texts = {script.filtered(pod).reason for pod in pods}
    script.see(*cluster("b: 1x4"))
    texts |= {script.filtered(pod).reason for pod in pods}
    assert texts == {GANG_WAITS}
    answer = script.filtered(pods[0])
    assert (answer.passed, answer.refused) == ((), ("a-0", "b-0"))


def test_a_pod_that_the_watch_has_not_shown_yet_is_refused() -> None:
    script = Script(*cluster("a: 1x8"))
    assert script.filter(gang("early", 1)[0]) == ()


def test_asking_twice_gives_the_same_answer() -> None:
    pods, waiting, alone = gang("train", 2), gang("waits", 2), single("alone", gpus=8)
    script = Script(*cluster("a: 3x8"), *pods, *waiting, alone)
    narrow = [script.planned(pods[0])]
    for pod in (*pods, *waiting, alone):
        for candidates in ([], narrow, ["a-2"]):
            first = script.filtered(pod, candidates)
            second = script.filtered(pod, candidates)
            assert replace(first, call=second.call) == second


def test_a_placement_survives_any_number_of_questions() -> None:
    pods = gang("train", 2)
    script = Script(*cluster("a: 2x8"), *pods)
    before = [script.planned(pod) for pod in pods]
    for pod in pods * 3:
        script.filter(pod)
    assert [script.planned(pod) for pod in pods] == before


def test_candidates_without_the_planned_node_make_the_gang_move_elsewhere() -> None:
    pods = gang("train", 2)
    script = Script(*cluster("a: 3x8"), *pods)
    refused = script.planned(pods[0])
    script.filter(pods[0], [name for name in ("a-0", "a-1", "a-2") if name != refused])
    script.advance(0.1)
    planned = [script.planned(pod) for pod in pods]
    assert refused not in planned
    assert all(planned)
    script.run(pods)
    assert len(script.bound(pods)) == 2


def test_a_refused_node_is_not_planned_again_at_once_and_is_tried_again_later() -> None:
    pods = gang("train", 1)
    script = Script(*cluster("a: 1x8"), *pods)
    script.filter(pods[0], ["elsewhere"])
    script.advance(0.1)
    assert not script.planned(pods[0])
    assert "1 node was refused by kube-scheduler" in script.message("train")
    script.advance(1.1)
    assert script.planned(pods[0]) == "a-0"


def test_a_refused_node_is_tried_again_as_soon_as_kube_scheduler_offers_it() -> None:
    pods = gang("train", 1)
    script = Script(*cluster("a: 1x8"), *pods)
    script.filter(pods[0], ["elsewhere"])
    script.advance(0.1)
    script.filter(pods[0], ["a-0"])
    script.advance(0.1)
    assert script.planned(pods[0]) == "a-0"


def test_a_node_that_is_offered_and_refused_in_turn_is_tried_less_and_less_often() -> None:
    pods = gang("train", 1)
    script = Script(*cluster("a: 1x8"), *pods)
    for _ in range(120):
        script.filter(pods[0], ["elsewhere" if script.planned(pods[0]) else "a-0"])
        script.advance(1)
    nominations = [effect for effect in script.effects if isinstance(effect, Nominate) and effect.node]
    assert len(nominations) < 15


def test_a_node_that_keeps_refusing_is_tried_less_and_less_often() -> None:
    pods = gang("train", 1)
    script = Script(*cluster("a: 1x8"), *pods)
    for _ in range(12):
        script.filter(pods[0], ["elsewhere"])
        script.advance(10)
    nominations = [effect for effect in script.effects if isinstance(effect, Nominate) and effect.node]
    assert len(nominations) < 12


def test_members_beyond_the_quorum_that_are_refused_are_tried_less_and_less_often() -> None:
    pods = gang("train", 2, min_member=1)
    script = Script(*cluster("a: 2x8"), *pods)
    script.run(pods[:1])
    for _ in range(120):
        if script.planned(pods[1]):
            script.filter(pods[1], ["elsewhere"])
        script.advance(1)
    nominations = [
        effect
        for effect in script.effects
        if isinstance(effect, Nominate) and effect.node and effect.uid == pods[1].uid
    ]
    assert len(nominations) < 15


def test_a_refused_node_is_tried_again_when_room_becomes_free_on_it() -> None:
    pods, busy = gang("train", 1, gpus=4), single("busy", gpus=4, node="a-0")
    script = Script(*cluster("a: 1x8"), busy, *pods)
    for _ in range(5):
        script.filter(pods[0], ["elsewhere"])
        script.advance(20)
    script.filter(pods[0], ["elsewhere"])
    script.advance(0.1)
    assert not script.planned(pods[0])
    script.gone(busy)
    assert script.planned(pods[0]) == "a-0"


def test_a_stale_nomination_tried_alone_says_nothing_about_the_planned_node() -> None:
    pods = gang("train", 1)
    script = Script(*cluster("a: 2x8"), *pods)
    planned = script.planned(pods[0])
    other = "a-1" if planned == "a-0" else "a-0"
    stale = replace(pods[0], nominated_node=other)
    script.feed(FilterCalled(99, stale, (other,)))
    assert script.planned(pods[0]) == planned


@pytest.mark.parametrize("earlier", [None, "a-2"], ids=["no nomination", "an earlier nomination"])
def test_kube_scheduler_refuses_nothing_before_it_knows_of_the_nomination(earlier: str | None) -> None:
    """The watch of kube-scheduler may lag and not show the room on the node yet. The nomination wakes the pod."""
    pods = gang("train", 1)
    script = Script(*cluster("a: 3x8"), *pods)
    planned = script.planned(pods[0])
    script.feed(FilterCalled(99, replace(pods[0], nominated_node=earlier), ("a-1", "a-2")))
    assert script.planned(pods[0]) == planned == "a-0"
    assert not script.gang("train").retries.refusals
    script.filter(pods[0], ["a-1", "a-2"])
    assert script.gang("train").retries.refusals == 1


def test_an_in_tree_refusal_of_the_nominated_node_is_learnt_from_the_pods_condition() -> None:
    pods = gang("train", 1)
    script = Script(*cluster("a: 2x8"), *pods)
    refused = script.planned(pods[0])
    script.change(pods[0], refusal="0/2 nodes are available: 2 node(s) had volume node affinity conflict.")
    assert script.planned(pods[0]) not in ("", refused)


def test_our_own_refusal_in_the_pods_condition_is_not_taken_for_kube_schedulers() -> None:
    pods = gang("train", 1)
    script = Script(*cluster("a: 2x8"), *pods)
    planned = script.planned(pods[0])
    script.change(pods[0], refusal=f"0/2 nodes are available: 2 {GANG_WAITS}.")
    assert script.planned(pods[0]) == planned


def test_a_nomination_that_cannot_be_written_takes_the_plan_back() -> None:
    pods = gang("train", 2)
    script = Script(*cluster("a: 2x8"), *pods, nominates=False)
    script.change(pods[0], nominated_node=None)
    script.feed(Nominated(pods[0].uid, script.planned(pods[0]), "forbidden"))
    assert not any(script.planned(pod) for pod in pods)
    assert script.pods[pods[1].uid].nominated_node is None, "the others are told"
    script.advance(1.5)
    assert all(script.planned(pod) for pod in pods)


def test_a_spare_member_refused_in_the_middle_of_a_release_does_not_break_it() -> None:
    pods = gang("elastic", 4, min_member=3)
    script = Script(*cluster("a: 4x8"), *pods)
    script.bind_all(pods[:3])
    script.filter(pods[3], ["elsewhere"])
    script.post_all()
    assert len(script.bound(pods[:3])) == 3
    assert script.reason("elastic") == "Running"


@pytest.mark.parametrize("spare", [True, False])
def test_room_that_a_member_was_refused_in_the_middle_of_a_release_is_kept_if_the_gang_needs_the_member(
    *, spare: bool
) -> None:
    pods, other = gang("train", 3, min_member=2 if spare else 3), gang("other", 1, created=9)
    script = Script(*cluster("a: 3x8"), *pods)
    script.bind_all(pods[:2] if spare else pods)
    (last,) = [pods[2]] if spare else [pod for pod in pods if pod.uid not in script.bindings]
    room = script.planned(last)
    assert script.filter(last, [name for name in ("a-0", "a-1", "a-2") if name != room]) == ()
    script.see(other)
    script.advance(0.5)
    assert script.planned(other[0]) == (room if spare else "")
    script.post_all()
    assert len(script.bound(pods)) == 2


def test_a_held_member_refused_in_a_new_cycle_does_not_break_the_release() -> None:
    """kube-scheduler was restarted while the last bind of a release was held, and asks again."""
    pods = gang("train", 3)
    script = Script(*cluster("a: 4x8"), *pods)
    script.bind_all(pods)
    final = next(pod for pod in pods if pod.uid not in script.bindings)
    script.filter(final, ["elsewhere"])
    script.advance(0.1)
    script.post_all()
    script.advance(5)
    if script.planned(final):
        script.run([final])
    assert len(script.bound(pods)) == 3
