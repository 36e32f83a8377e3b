"""The referee's own books: what is promised, kept and in doubt, whose turn it is, and what nobody can know."""

from __future__ import annotations

from dataclasses import replace

import pytest

from extender.core.answers import BindingPosted, Nominated, Outcome
from extender.core.effects import AnswerFilter, AnswerPreempt, Milestone
from extender.core.engine import Engine
from extender.core.events import (
    BindArrived,
    FilterCalled,
    GroupSeen,
    NodeGone,
    PodGone,
    PodSeen,
    PreemptCalled,
    Tick,
)
from extender.runtime.requests import Response
from policies.model import Dialect, GroupRef, Stamp
from tests.builders import cluster, gang, key, node, podgroup, single
from tests.simulation.broken import BrokenPromiseError
from tests.simulation.doubts import Claim
from tests.simulation.lives import Life, nomination, pin, posting, reached
from tests.simulation.model.world import World
from tests.simulation.referee import Referee
from tests.simulation.room import judge_kept_in_vain, judge_room
from tests.simulation.sends import Sends
from tests.simulation.shown import RELEASE_COMPLETE
from tests.simulation.stamps import judge_stamp
from tests.simulation.terms import Terms


def test_the_room_of_a_single_whose_binding_may_have_been_written_is_taken_for_a_while() -> None:
    alone = single("alone", gpus=8)
    life = Life(*cluster("a: 1x8"), alone)
    life.bind(alone, "a-0")
    life.end(alone, Outcome.UNKNOWN)
    assert life.gpus("a-0") == 0
    life.now += 21
    life.tell(Tick())
    assert life.gpus("a-0") == 8


@pytest.mark.parametrize("failed", [False, True])
def test_a_nomination_that_could_not_be_written_is_not_missed_at_rest(*, failed: bool) -> None:
    (member,) = gang("train", 1)
    sends = Sends(64)
    sends.ask(nomination(member, "a-0"))
    sends.begin(nomination(member, None), (), 1.0)
    if failed:
        sends.hear(Nominated(member.uid, "a-0", "the API server gave no answer"))
    assert bool(list(sends.judge_rest({member.uid: member}))) is not failed


@pytest.mark.parametrize("sent", [False, True])
def test_what_an_earlier_life_has_bound_is_no_binding_that_was_refused_before_it_was_sent(*, sent: bool) -> None:
    """Two releases of a gang may have one name: that of a member."""
    (member,), sends = gang("train", 1), Sends(64)
    binding = posting(member, "a-0")
    if sent:
        sends.begin(binding, (1,), 1.0)
    bound = replace(member, node="a-0", stamp=Stamp("g", "r", complete=True, quorum=1, size=1, at=0.0))
    assert bool(sends.judge_outcome(BindingPosted(member.uid, Outcome.REFUSED), binding, bound)) is sent


@pytest.mark.parametrize("frozen", [False, True])
def test_a_write_may_be_given_up_after_a_standstill_in_which_an_answer_has_come(*, frozen: bool) -> None:
    (member,), sends = gang("train", 1), Sends(64)
    binding = posting(member, "a-0")
    sends.begin(binding, (1,), 1.0)
    if frozen:
        sends.pardon(41.0)
    sends.end(binding, Response(201), 1.1)
    said = sends.judge_end(Nominated(member.uid, "a-0", "the API server gave no answer"), 41.0)
    assert (said is None) is frozen


@pytest.mark.parametrize("gone", [False, True])
def test_a_single_may_go_where_room_was_promised_if_the_node_is_gone_by_then(*, gone: bool) -> None:
    (member,), alone = gang("train", 1), single("alone", gpus=8)
    life = Life(*cluster("a: 1x8"), member, alone)
    life.tell(Tick(), nomination(member, "a-0"))
    if gone:
        life.tell(NodeGone("a-0"))
    assert bool(life.tell(FilterCalled(1, alone, ("a-0",)), AnswerFilter(1, ("a-0",), (), ""))) is not gone


@pytest.mark.parametrize("taken", [2, 4])
def test_a_promise_whose_room_a_pod_of_others_has_taken_has_ended(taken: int) -> None:
    (surplus,), (other,) = gang("train", 1, gpus=6), gang("other", 1, gpus=4)
    life = Life(*cluster("a: 1x8"), surplus, other)
    life.tell(Tick(), pin(surplus, "a-0"))
    life.tell(PodSeen(single("foreign", gpus=taken, node="a-0")))
    assert bool(life.tell(Tick(), pin(other, "a-0"))) is (taken == 2)


@pytest.mark.parametrize("promised", [False, True])
def test_a_single_that_may_be_bound_there_may_go_there_again_though_kube_scheduler_alone_sees_the_room(
    *, promised: bool
) -> None:
    (member,), alone, gone = gang("train", 1), single("alone", gpus=8), single("gone", gpus=4, node="a-0")
    life = Life(*cluster("a: 1x8"), member, gone, alone)
    life.bind(alone, "a-0")
    life.end(alone, Outcome.UNKNOWN)
    if promised:
        life.tell(Tick(), nomination(member, "a-0"))
    assert bool(life.tell(FilterCalled(2, alone, ("a-0",)), AnswerFilter(2, ("a-0",), (), ""))) is promised


def test_nobody_may_be_evicted_for_a_single_that_promised_room_keeps_out() -> None:
    member, low = gang("train", 1, gpus=6)[0], single("low", gpus=2, node="a-0")
    life = Life(*cluster("a: 1x8"), member, low)
    life.tell(Tick(), nomination(member, "a-0"))
    victims = {"a-0": (low.uid,)}
    for gpus, wrong in ((8, True), (2, False)):
        urgent = single("urgent", gpus=gpus, priority=9)
        complaints = life.tell(PreemptCalled(1, urgent, victims), AnswerPreempt(1, victims))
        assert bool(complaints) is wrong


@pytest.mark.parametrize("outcome", [Outcome.DONE, Outcome.UNKNOWN, Outcome.REFUSED])
def test_room_is_kept_for_a_lost_member_as_soon_as_others_are_being_bound(outcome: Outcome) -> None:
    """And until nothing of the release can be bound any more."""
    lost, other = pods = gang("train", 2)
    life = Life(*cluster("a: 2x8"), *pods)
    life.tell(Tick(), nomination(lost, "a-0"), nomination(other, "a-1"))
    life.bind(lost, "a-0")
    life.bind(other, "a-1")
    life.end(lost, Outcome.REFUSED)
    assert [claim.node for claim in life.claims.kept_for(key("train"))] == ["a-0"]
    life.end(other, outcome)
    assert bool(life.claims.kept_for(key("train"))) is (outcome is not Outcome.REFUSED)
    life.now += 21
    life.tell(Tick())
    assert bool(life.claims.kept_for(key("train"))) is (outcome is Outcome.DONE)


@pytest.mark.parametrize("told", [1, 2])
def test_room_that_was_kept_is_free_when_the_plan_that_may_have_used_it_is_taken_back(told: int) -> None:
    """Nobody is told the nodes of those who are led later. Where all are told it is known what was used."""
    pods = gang("train", 3)
    life = Life(*cluster("a: 5x8"), *pods)
    life.tell(Tick(), *(nomination(pod, f"a-{at}") for at, pod in enumerate(pods)))
    for at, pod in enumerate(pods):
        life.bind(pod, f"a-{at}")
    life.end(pods[0], Outcome.DONE)
    for pod in pods[1:]:
        life.end(pod, Outcome.REFUSED)
    assert [life.gpus(f"a-{at}") for at in range(5)] == [0, 0, 0, 8, 8]
    anew = [nomination(pod, f"a-{at}") for at, pod in enumerate(pods[1:], 3)]
    life.tell(Tick(), *anew[:told], reached(pods[0], Milestone.PLANNED))
    assert life.gpus("a-1") == life.gpus("a-2") == 0
    life.tell(Tick(), reached(pods[0], Milestone.FORGOTTEN))
    assert [life.gpus(f"a-{at}") for at in range(5)] == ([0, 8, 8, 8, 8] if told == 1 else [0, 0, 0, 8, 8])


@pytest.mark.parametrize(("gpus", "left"), [(2, 0), (3, 1), (4, 0), (5, 1)])
def test_kept_room_that_others_have_taken_is_free_once_the_gang_is_planned_anew(gpus: int, left: int) -> None:
    """Two rooms of 2 GPUs are kept. As many end as it takes for the others to be there."""
    pods = gang("train", 4, gpus=2)
    life = Life(*cluster("a: 1x8", "b: 1x8"), *pods)
    life.tell(Tick(), *(nomination(pod, "a-0") for pod in pods[:3]), nomination(pods[3], "b-0"))
    for pod, where in zip(pods, ("a-0", "a-0", "a-0", "b-0"), strict=True):
        life.bind(pod, where)
    life.end(pods[0], Outcome.DONE)
    for pod in pods[1:]:
        life.end(pod, Outcome.REFUSED)
    life.see(single("foreign", gpus=gpus, node="a-0", scheduler="other"))
    assert life.gpus("a-0") == 2 - gpus, "nothing ends before that"
    life.tell(Tick(), *(nomination(pod, "b-0") for pod in pods[1:]), reached(pods[0], Milestone.PLANNED))
    assert life.gpus("a-0") == left


def test_room_stays_kept_for_one_lost_member_when_the_replacement_of_another_one_is_bound() -> None:
    """Seed 398000191 of the campaign: the second one is lost while the first replacement is on its way."""
    stamp = Stamp("g", "r", complete=True, quorum=3, size=3, at=0.0)
    *running, replacement, another = gang("train", 5, min_member=3)
    life = Life(*cluster("a: 3x8"), *running, replacement)
    for pod in running:
        life.see(replace(pod, node=f"a-{pod.index}", stamp=stamp))
    for pod in running[:2]:
        life.see(replace(pod, node=f"a-{pod.index}", stamp=stamp, phase="Failed"))
        if pod is running[0]:
            life.tell(Tick(), nomination(replacement, "a-0"))
    life.see(replace(replacement, node="a-0", stamp=stamp))
    assert [claim.node for claim in life.claims.kept_for(key("train"))] == ["a-1"]
    life.see(replace(another, node="a-2", stamp=stamp))
    assert not life.claims.kept_for(key("train")), "as many as have to start together have a node"


def test_no_room_is_kept_when_those_who_were_bound_go_before_the_answers_to_their_bindings_come() -> None:
    lost, other = pods = gang("train", 2)
    life = Life(*cluster("a: 2x8"), *pods)
    life.tell(Tick(), nomination(lost, "a-0"), nomination(other, "a-1"))
    life.bind(other, "a-1")
    life.see(replace(other, node="a-1", deleting=True))
    life.tell(PodGone(lost.uid))
    assert not life.claims.kept_for(key("train"))


def test_a_doubt_that_has_lasted_long_enough_is_a_promise_until_that_is_taken_back() -> None:
    pods = gang("train", 2)
    life = Life(*cluster("a: 2x8"), *pods)
    life.tell(Tick(), nomination(pods[0], "a-0"), nomination(pods[1], "a-1"))
    life.bind(pods[0], "a-0")
    life.end(pods[0], Outcome.UNKNOWN)
    life.now += 21
    life.tell(Tick())
    assert life.gpus("a-0") == 0
    life.tell(Tick(), reached(pods[0], Milestone.FORGOTTEN))
    assert life.gpus("a-0") == 8


def test_members_in_doubt_go_where_they_may_be_though_the_node_has_lost_a_gpu() -> None:
    """Nobody else gets that room."""
    pods, other = gang("train", 4, gpus=2), single("other", gpus=2)
    life = Life(*cluster("a: 1x8"), *pods, other)
    life.tell(Tick(), *(nomination(pod, "a-0") for pod in pods))
    for pod in pods:
        life.bind(pod, "a-0")
        life.end(pod, Outcome.UNKNOWN)
    refused = FilterCalled(2, pods[0], ("b-0",))
    life.tell(refused, reached(pods[0], Milestone.FORGOTTEN), AnswerFilter(2, (), ("b-0",)))
    life.tell(Tick(), reached(pods[0], Milestone.FORGOTTEN))
    life.see(node("a-0", 7, clique="a"))
    assert not life.tell(FilterCalled(3, pods[0], ("a-0",)), AnswerFilter(3, ("a-0",)))
    assert life.tell(FilterCalled(4, other, ("a-0",)), AnswerFilter(4, ("a-0",)))


def test_a_member_in_doubt_may_go_elsewhere_when_kube_scheduler_has_written_that_it_refuses_it() -> None:
    """It asks nothing when its own plug-ins refuse every node. What it wrote before the doubt began says nothing."""
    referee, pod, world = Referee(Terms(calm=False)), gang("train", 1)[0], World(7, cluster("a: 2x8"), Engine)
    referee.attach(world)
    world.api.create_pod(pod)
    referee._shown.nodes |= world.api.nodes
    referee._shown.watch(PodSeen(pod))
    world.api.touch_pod(pod.uid, refusal="0/2 nodes are available: 2 NodeResourcesFit")
    referee._claims.doubts.begin(pod.uid, Claim(pod.group_key, "a-0", pod.requests), 100.0)
    for facts, waived in (({"nominated_node": "a-0"}, False), ({"refusal": None}, False), ({"refusal": "all"}, True)):
        world.api.touch_pod(pod.uid, **facts)
        assert bool(judge_room(nomination(pod, "a-1"), Tick(), referee._shown, referee._claims)) is not waived


def test_a_release_binds_nobody_where_the_room_is_known_to_be_taken_unless_it_may_be_bound_there() -> None:
    referee, (own, late), world = Referee(Terms(calm=False)), gang("train", 2), World(7, cluster("a: 2x8"), Engine)
    referee.attach(world)
    referee._shown.nodes |= world.api.nodes
    for pod in (own, late, single("thief", gpus=1, scheduler="other", node="a-1")):
        referee._shown.watch(PodSeen(pod))
    referee._claims.posting[own.uid] = posting(own, "a-0")
    with pytest.raises(BrokenPromiseError, match="is short"):
        referee.postings.judge_node(posting(late, "a-1"), started=True)
    referee._claims.doubts.begin(late.uid, Claim(late.group_key, "a-1", late.requests), 100.0)
    referee.postings.judge_node(posting(late, "a-1"), started=True)


@pytest.mark.parametrize("earlier", [True, False])
def test_the_last_binding_of_a_start_whose_podgroup_was_made_anew_is_not_measured_by_the_new_one(
    *, earlier: bool
) -> None:
    ref = GroupRef("train", Dialect.COSCHEDULING)
    bound, last = (replace(pod, group=ref) for pod in gang("train", 2))
    stamp = Stamp("g" if earlier else "other", "r" if earlier else "other", complete=False, quorum=2, size=2, at=0.0)
    life = Life(*cluster("a: 2x8"), replace(bound, node="a-0", stamp=stamp), last)
    life.tell(GroupSeen(podgroup("train", 3, uid="anew")))
    ending = posting(last, "a-1")
    ending = replace(ending, annotations={**ending.annotations, RELEASE_COMPLETE: "true"})
    life.tell(BindArrived(1, last.uid, "default", last.name, "a-1", 999.0), ending)
    assert life.claims.releases.goes_on(ending) is earlier
    assert (judge_stamp(ending, life.shown, life.claims) is None) is earlier


@pytest.mark.parametrize("outcome", [Outcome.UNKNOWN, Outcome.REFUSED])
def test_a_member_that_was_moved_while_it_was_being_bound_may_keep_its_room_if_it_may_be_bound(
    outcome: Outcome,
) -> None:
    """Its next gang is too small to start."""
    (member,) = gang("train", 1)
    life = Life(*cluster("a: 1x8"), member)
    life.bind(member, "a-0")
    moved = replace(member, group=GroupRef("other", Dialect.ANNOTATION, min_member=2))
    life.tell(PodSeen(moved))
    life.end(member, outcome)
    life.tell(FilterCalled(2, moved, ("a-0",)), AnswerFilter(2, ("a-0",), (), ""))
    said = judge_kept_in_vain(PodSeen(moved), life.shown, life.claims)
    assert (said is None) is (outcome is Outcome.UNKNOWN)
