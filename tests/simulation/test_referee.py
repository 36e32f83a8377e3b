"""The referee's own books: promised, kept and doubtful room, the turns, and facts that cannot be known."""

from __future__ import annotations

from dataclasses import replace

import pytest

from extender.core.answers import BindingPosted, Nominated, Outcome
from extender.core.effects import AnswerFilter, AnswerPreempt, Milestone
from extender.core.engine import Engine
from extender.core.events import (
    BindArrived,
    DeviceClaimSeen,
    FilterCalled,
    GroupSeen,
    NodeGone,
    PodGone,
    PodSeen,
    PreemptCalled,
    Synced,
    Tick,
)
from extender.runtime.requests import Response
from policies.model import GANG_GATE, Controller, Dialect, GroupRef, PodGroup, Stamp
from policies.model.devices import ClaimUse
from tests.builders import GPU, cluster, gang, key, node, podgroup, requests, single
from tests.core.devices import claim
from tests.simulation.broken import BrokenPromiseError
from tests.simulation.device_sight import DeviceSight
from tests.simulation.doubts import Claim
from tests.simulation.fairness import Fairness
from tests.simulation.lives import Life, nomination, pin, posting, reached
from tests.simulation.model.apiserver import ApiServer
from tests.simulation.model.cycle import BindRequest
from tests.simulation.model.devices import ANY, as_scheduled, with_amounts
from tests.simulation.model.world import World
from tests.simulation.referee import Referee
from tests.simulation.rest import open_to
from tests.simulation.room import judge_kept_in_vain, judge_room
from tests.simulation.sends import Sends
from tests.simulation.shown import RELEASE_COMPLETE
from tests.simulation.stamps import could_know, judge_stamp
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
    complaint = sends.judge_end(Nominated(member.uid, "a-0", "the API server gave no answer"), 41.0)
    assert (complaint is None) is frozen


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
    """The room is kept until nothing of the release can be bound any more."""
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


@pytest.mark.parametrize("forgotten", [1, 2])
def test_room_that_was_kept_is_free_when_the_plan_that_may_have_used_it_is_taken_back(forgotten: int) -> None:
    """The nodes of members that are steered later are unknown. Once all are steered it is known what was used."""
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
    life.tell(Tick(), *anew[:forgotten], reached(pods[0], Milestone.PLANNED))
    assert life.gpus("a-1") == life.gpus("a-2") == 0
    life.tell(Tick(), reached(pods[0], Milestone.FORGOTTEN))
    assert [life.gpus(f"a-{at}") for at in range(5)] == ([0, 8, 8, 8, 8] if forgotten == 1 else [0, 0, 0, 8, 8])


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


@pytest.mark.parametrize(("replaced", "wrong"), [(False, True), (True, False)])
def test_room_that_is_kept_may_be_given_away_when_the_replacement_got_another_node(
    *, replaced: bool, wrong: bool
) -> None:
    """Seed 4399 of the campaign: of a start that broke off."""
    lost, other, replacement = gang("train", 3, min_member=2)
    (rival,) = gang("rival", 1)
    life = Life(*cluster("a: 3x8"), lost, other, replacement, rival)
    life.tell(Tick(), nomination(lost, "a-0"), nomination(other, "a-1"))
    life.bind(lost, "a-0")
    life.bind(other, "a-1")
    life.end(lost, Outcome.REFUSED)
    life.end(other, Outcome.DONE)
    if replaced:
        life.tell(Tick(), nomination(replacement, "a-2"))
    assert bool(life.tell(Tick(), nomination(rival, "a-0"))) is wrong


@pytest.mark.parametrize(("gpus", "wrong"), [(8, True), (2, False)])
def test_either_room_may_be_kept_for_the_last_lost_member_when_another_fits_beside_what_is_kept(
    *, gpus: int, wrong: bool
) -> None:
    """Seed 12047 of the campaign: of a gang that runs."""
    stamp = Stamp("g", "r", complete=True, quorum=3, size=3, at=0.0)
    *running, replacement = gang("train", 4, gpus=gpus, min_member=3)
    (rival,) = gang("rival", 1)
    life = Life(*cluster("a: 3x8"), *running, replacement, rival)
    life.tell(Synced())
    life.now += 2.0
    life.see(*(replace(pod, node=f"a-{pod.index}", stamp=stamp) for pod in running))
    life.see(*(replace(pod, node=f"a-{pod.index}", stamp=stamp, phase="Failed") for pod in running[:2]))
    assert life.tell(Tick(), nomination(rival, "a-1")), "that is for the replacement of the second one"
    life.tell(Tick(), nomination(rival, None), nomination(replacement, "a-0"))
    assert bool(life.tell(Tick(), nomination(rival, "a-1"))) is wrong


@pytest.mark.parametrize("planned", [True, False])
def test_room_that_is_kept_may_be_given_away_in_the_tick_that_plans_the_replacement_elsewhere(*, planned: bool) -> None:
    """Seed 6011583: a gang that runs is planned, others get its room, and then the replacement is steered."""
    stamp = Stamp("g", "r", complete=True, quorum=2, size=2, at=0.0)
    *running, replacement = gang("train", 3, min_member=2)
    (rival,) = gang("rival", 1)
    life = Life(*cluster("a: 3x8"), *running, replacement, rival)
    life.tell(Synced())
    life.now += 2.0
    life.see(*(replace(pod, node=f"a-{pod.index}", stamp=stamp) for pod in running))
    life.see(replace(running[1], node="a-1", stamp=stamp, phase="Failed"))
    plans = [reached(replacement, Milestone.PLANNED)] if planned else []
    complaints = life.tell(Tick(), *plans, nomination(rival, "a-1"), pin(replacement, "a-2"))
    assert bool(complaints) is not planned


@pytest.mark.parametrize("bound_there", [True, False])
def test_nobody_can_be_sure_of_kept_room_that_a_pod_is_being_bound_to(*, bound_there: bool) -> None:
    """Seed 930000011 of the campaign: kube-scheduler saw the member go before the extender did."""
    stamp = Stamp("g", "r", complete=True, quorum=2, size=2, at=0.0)
    running, alone = gang("train", 2), single("alone", gpus=1)
    life = Life(*cluster("a: 2x8"), *(replace(pod, node=f"a-{pod.index}", stamp=stamp) for pod in running), alone)
    life.tell(Synced())
    life.now += 2.0
    life.bind(alone, "a-0" if bound_there else "a-1")
    life.see(replace(running[0], node="a-0", stamp=stamp, phase="Failed"))
    assert bool(life.claims.seats.sure) is not bound_there


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
    """The room is closed to all other pods."""
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
    """kube-scheduler calls no filter when its own plugins refuse every node.

    Its words from before the doubt do not count.
    """
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
    """The next gang of the member is too small to start."""
    (member,) = gang("train", 1)
    life = Life(*cluster("a: 1x8"), member)
    life.bind(member, "a-0")
    moved = replace(member, group=GroupRef("other", Dialect.ANNOTATION, min_member=2))
    life.tell(PodSeen(moved))
    life.end(member, outcome)
    life.tell(FilterCalled(2, moved, ("a-0",)), AnswerFilter(2, ("a-0",), (), ""))
    complaint = judge_kept_in_vain(PodSeen(moved), life.shown, life.claims)
    assert (complaint is None) is (outcome is Outcome.UNKNOWN)


@pytest.mark.parametrize("ticks", [False, True])
def test_room_in_doubt_is_kept_until_the_tick_after_a_standstill(*, ticks: bool) -> None:
    """Seed 590020234: the extender stood still past the end of a doubt, and read the events of that time first."""
    first = gang("train", 2)[0]
    life = Life(*cluster("a: 1x8"), first)
    life.bind(first, "a-0")
    life.end(first, Outcome.UNKNOWN)
    life.now += 21
    shown = PodSeen(first)
    life.tell(Tick() if ticks else shown)
    assert bool(judge_kept_in_vain(shown, life.shown, life.claims)) is ticks


def test_a_pinned_gang_has_its_room_when_the_gang_behind_it_is_judged() -> None:
    """The gang gets its node last, with the removal of its gate."""
    first = gang("first", 1, gpus=8, priority=10, created=1)[0]
    second = gang("second", 1, gpus=4, priority=10, created=2)[0]
    third = gang("third", 1, gpus=1, created=3)[0]
    planned = reached(second, Milestone.PLANNED), nomination(third, "a-0"), reached(third, Milestone.PLANNED)
    nothing = Life(*cluster("a: 1x8"), first, second, third).tell(Tick(), *planned, pin(second, "a-0"))
    assert not nothing
    (complaint,) = Life(*cluster("a: 1x8"), first, third).tell(Tick(), *planned[1:])
    assert "default/first, of priority 10, could have started" in complaint


def test_a_gang_is_not_planned_with_the_room_that_a_single_of_higher_priority_could_have_had() -> None:
    urgent, train = single("urgent", gpus=8, priority=10), gang("train", 1)[0]
    planned = nomination(train, "a-0"), reached(train, Milestone.PLANNED)
    (complaint,) = Life(*cluster("a: 1x8"), urgent, train).tell(Tick(), *planned)
    assert "default/urgent, of priority 10, could have started" in complaint
    assert not Life(*cluster("a: 2x8"), urgent, train).tell(Tick(), *planned)
    assert not Life(*cluster("a: 1x8"), replace(urgent, priority=0), train).tell(Tick(), *planned)
    assert not Life(*cluster("a: 1x8"), replace(urgent, scheduler="other"), train).tell(Tick(), *planned)


@pytest.mark.parametrize(("nodes", "in_line"), [((), False), (("a-0",), False), (("a-0", "b-0"), True)])
def test_a_single_that_is_left_aside_stands_in_line_again_when_it_asks_to_preempt_wherever_it_had_room(
    nodes: tuple[str, ...], *, in_line: bool
) -> None:
    """The request does not tell on which of these nodes the pod has missed its room."""
    urgent, train = single("urgent", gpus=8, priority=10), gang("train", 2)
    life = Life(*cluster("a: 1x8", "b: 1x8"), urgent, train)
    for after in range(17):
        life.fairness.look(life.now + after)
    life.tell(PreemptCalled(1, urgent, dict.fromkeys(nodes, ("somebody",))))
    complaints = life.tell(
        Tick(), nomination(train[0], "a-0"), nomination(train[1], "b-0"), reached(train[0], Milestone.PLANNED)
    )
    assert bool(complaints) is in_line


def test_a_single_has_the_room_that_it_is_nominated_for() -> None:
    urgent, train = single("urgent", gpus=4, priority=10, nominated_node="a-0"), gang("train", 1, gpus=4)[0]
    planned = nomination(train, "a-0"), reached(train, Milestone.PLANNED)
    assert not Life(*cluster("a: 1x8"), urgent, train).tell(Tick(), *planned)


def test_a_gang_is_not_planned_beside_a_nominated_single_that_needs_the_rest_when_its_victims_are_gone() -> None:
    victim, urgent = (
        single("victim", gpus=4, node="a-0"),
        single("urgent", gpus=8, priority=10, nominated_node="a-0"),
    )
    train = gang("train", 1, gpus=4)[0]
    planned = nomination(train, "a-0"), reached(train, Milestone.PLANNED)
    (complaint,) = Life(*cluster("a: 1x8"), victim, urgent, train).tell(Tick(), *planned)
    assert "planned on a-0, where default/urgent is nominated" in complaint
    for nobody in (replace(urgent, priority=-1), replace(urgent, nominated_node="a-1")):
        assert not Life(*cluster("a: 2x8"), victim, nobody, train).tell(Tick(), *planned)


def test_room_may_be_kept_for_a_single_where_another_of_the_same_priority_needs_all_of_it() -> None:
    urgent, small, train = (
        single("urgent", gpus=8, priority=5),
        single("small", gpus=1, priority=5),
        gang("train", 1)[0],
    )
    planned = nomination(train, "a-0"), reached(train, Milestone.PLANNED)
    assert not Life(*cluster("a: 1x8"), urgent, small, train).tell(Tick(), *planned)
    (complaint,) = Life(*cluster("a: 1x8"), urgent, replace(small, priority=1), train).tell(Tick(), *planned)
    assert "default/urgent, of priority 5, could have started" in complaint


def test_room_may_be_kept_for_a_single_for_a_while_from_when_a_gang_stands_behind_it() -> None:
    urgent, train = single("urgent", gpus=8, priority=10), gang("train", 1)
    life = Life(*cluster("a: 1x8"), urgent)
    assert not any(life.fairness.look(life.now + after) for after in range(30))
    life.now += 30
    life.see(train)
    assert not any(life.fairness.look(life.now + after) for after in range(30))
    assert "could have been planned" in str(life.fairness.look(life.now + 31))


@pytest.mark.parametrize(("stage", "crowded"), [("pending", True), ("starting", True), ("", False)])
def test_a_gang_whose_pods_wait_for_their_podgroup_is_one_of_the_crowd(*, stage: str, crowded: bool) -> None:
    """The namespace has more waiting gangs than are looked at."""
    life, first = Life(*cluster("a: 1x8"), gang("train", 1)), key("first")
    life.fairness = Fairness(life.shown, life.claims, life.company, Terms(calm=False, waiting=1))
    maker = Controller("batch.volcano.sh/v1alpha1", "Job", "first", "u")
    group = PodGroup(first, "g", 1, dialect=Dialect.VOLCANO, job=maker)
    life.tell(GroupSeen(replace(group, pending=stage == "pending", starting=stage == "starting")))
    assert life.late() is not crowded


def test_what_room_is_left_nobody_can_say_before_the_pins_of_a_gang_are_told_that_is_nominated_in_part() -> None:
    """The members without a gate are nominated, and the pin of the gated one comes with its gate, after that."""
    gated, open_one = gang("train", 2, gates=(GANG_GATE,))
    open_one = replace(open_one, gates=())
    waiting = gang("waits", 1)[0]
    for pins in (False, True):
        life = Life(*cluster("a: 2x8"), gated, open_one, waiting, pins=pins)
        life.tell(Tick(), nomination(open_one, "a-0"), reached(open_one, Milestone.PLANNED))
        assert life.late() is not pins
        life.tell(Nominated(open_one.uid, "a-0"), pin(gated, "a-1"))
        assert not life.late(), "there is no room"
        life.see(node("a-2", 8, clique="a"))
        assert life.late()


def test_nor_who_could_have_started_in_the_room_that_others_are_given_meanwhile() -> None:
    gated, open_one = gang("train", 2, gpus=4, gates=(GANG_GATE,), priority=10)
    open_one = replace(open_one, gates=())
    first, low = gang("first", 1, gpus=8, priority=10)[0], gang("low", 1, gpus=4)[0]
    for pins in (False, True):
        life = Life(*cluster("a: 2x8"), gated, open_one, first, low, pins=pins)
        life.tell(Tick(), nomination(open_one, "a-0"), reached(open_one, Milestone.PLANNED))
        complaints = life.tell(Tick(), nomination(low, "a-1"), reached(low, Milestone.PLANNED))
        assert bool(complaints) is not pins, "the gated one may have been promised the other half"


def test_all_that_those_behind_are_given_at_once_counts_as_one_could_have_started_in_it() -> None:
    first, *others = (
        gang(name, 1, gpus=gpus, priority=10 * (gpus == 8))[0] for name, gpus in (("a", 8), ("b", 4), ("c", 4))
    )
    planned = [effect for pod in others for effect in (nomination(pod, "a-0"), reached(pod, Milestone.PLANNED))]
    complaints = Life(*cluster("a: 1x8"), first, *others).tell(Tick(), *planned)
    assert complaints
    assert all("default/a, of priority 10, could have started" in complaint for complaint in complaints)


def test_nobody_could_have_started_in_the_room_that_is_kept_for_a_lost_member() -> None:
    """The room is kept while another member of its gang may be bound.

    If that one goes elsewhere, the room is in use.
    """
    (first,), pods = gang("first", 1, priority=10), gang("train", 2)
    for nodes, where in (2, "a-0"), (3, "a-2"):
        life = Life(*cluster(f"a: {nodes}x8"), *pods, first)
        for at, pod in enumerate(pods):
            life.tell(Tick(), nomination(pod, f"a-{at}"))
            life.bind(pod, f"a-{at}")
        life.end(pods[0], Outcome.REFUSED)
        life.end(pods[1], Outcome.UNKNOWN)
        life.now += 1
        complaints = life.tell(Tick(), nomination(pods[0], where), reached(pods[0], Milestone.PLANNED))
        assert not complaints
        assert life.claims.left(["a-0"], surely=True)["a-0"][GPU] == (8 if where == "a-2" else 0)


@pytest.mark.parametrize("waits", [False, True])
def test_room_that_may_be_kept_for_a_lost_member_may_be_for_a_single_instead(*, waits: bool) -> None:
    """Seed 604000579: the PodGroup of the lost member was created again, so its next pod is of another gang."""
    alone, train = single("alone", gpus=8), gang("train", 1)
    life = Life(*cluster("a: 1x8"), *([alone] if waits else []), train)
    life.claims.seats.maybe["lost"] = Claim(key("train"), "a-0", requests(8))
    assert life.late() is not waits


def test_nobody_can_know_that_a_release_was_whole_when_the_only_member_that_said_so_is_gone() -> None:
    stamp = Stamp("g", "r", complete=False, quorum=3, size=3, at=1.0)
    pods = [replace(pod, node=f"a-{pod.index}", stamp=stamp) for pod in gang("train", 3)]
    stating = replace(pods[2], stamp=replace(stamp, complete=True))
    ended = replace(pods[2], phase="Failed")
    for there, known in ((pods[:2], False), ([*pods[:2], stating], True), ([*pods[:2], ended], True)):
        life = Life(*cluster("a: 3x8"), there)
        assert could_know(pods[0].uid, life.shown, life.claims) is known
    life = Life(*cluster("a: 3x8"), pods)
    life.tell(PodGone(pods[2].uid))
    assert could_know(pods[0].uid, life.shown, life.claims), "it was seen in this life"


def test_a_release_was_whole_when_each_of_its_slots_was_bound_though_one_has_failed_before_the_last() -> None:
    stamp = Stamp("g", "r", complete=False, quorum=3, size=3, at=1.0)
    first, failed, last = pods = gang("train", 3)
    key = first.group_key
    life = Life(*cluster("a: 3x8"), *pods)
    life.bind(first, "a-0")
    life.see(replace(first, node="a-0", stamp=stamp))
    life.see(replace(failed, node="a-1", stamp=stamp, phase="Failed"))
    assert key not in life.claims.releases.whole
    life.see(replace(last, node="a-2", stamp=stamp))
    life.see(replace(last, node="a-2", stamp=stamp, deleting=True))
    assert key in life.claims.releases.whole


def test_a_nomination_of_a_promise_that_is_taken_back_is_cleared_at_once() -> None:
    pods = gang("train", 2)
    for cleared in (False, True):
        life = Life(*cluster("a: 2x8"), *pods)
        life.tell(Tick(), nomination(pods[0], "a-0"), nomination(pods[1], "a-1"))
        clears = [nomination(pod, None) for pod in pods] if cleared else []
        complaints = life.tell(Tick(), reached(pods[0], Milestone.FORGOTTEN), *clears)
        assert bool(complaints) is not cleared


def test_room_that_kube_scheduler_keeps_for_a_nominated_pod_is_open_to_those_of_higher_priority_only() -> None:
    nodes = {node.name: node for node in cluster("a: 1x8")}
    keeper = single("keeper", gpus=8, priority=5, nominated_node="a-0")
    for priority, there in ((0, []), (5, []), (10, ["a-0"])):
        pod = single("waits", priority=priority)
        assert open_to(pod, nodes, [keeper, pod]) == there
    assert open_to(keeper, nodes, [keeper]) == ["a-0"]


def test_who_was_answered_by_the_same_event_asks_for_no_binding() -> None:
    referee, pods, world = Referee(Terms(calm=False)), gang("train", 2), World(7, cluster("a: 2x8"), Engine)
    referee.attach(world)
    assert world.extender is not None
    for number, pod in enumerate(pods):
        referee._shown.watch(PodSeen(pod))
        referee._calls[number] = BindArrived(number, pod.uid, pod.namespace, pod.name, "a-0", 900.0)
        world.extender.calls[number] = BindRequest(pod, "a-0", lambda _: None)
    assert not referee.postings.judge_quorum(posting(pods[0], "a-0"), referee._shown.pods)
    del referee._calls[1]
    with pytest.raises(BrokenPromiseError):
        referee.postings.judge_quorum(posting(pods[0], "a-0"), referee._shown.pods)


@pytest.mark.parametrize("bound", [False, True])
def test_who_is_bound_asks_for_no_binding_though_the_answer_to_that_is_yet_to_come(*, bound: bool) -> None:
    """The old member is terminating, on a silent node, and its replacement makes a start of its own."""
    referee, (old, new), world = Referee(Terms(calm=False)), gang("train", 2), World(7, cluster("a: 2x8"), Engine)
    referee.attach(world)
    assert world.extender is not None
    for number, (pod, where) in enumerate(((old, "a-0"), (new, "a-1"))):
        referee._shown.watch(PodSeen(pod))
        referee._calls[number] = BindArrived(number, pod.uid, pod.namespace, pod.name, where, 900.0)
        world.extender.calls[number] = BindRequest(pod, where, lambda _: None)
    if bound:
        referee._shown.watch(PodSeen(replace(old, node="a-0", deleting=True)))
    asking = [(new, "a-1")] if bound else [(old, "a-0"), (new, "a-1")]
    assert referee.postings.asking(posting(new, "a-1")) == asking


@pytest.mark.parametrize("taken", [True, False])
def test_room_may_be_kept_for_a_single_anew_while_kube_scheduler_takes_others_before_it(*, taken: bool) -> None:
    urgent, other, train = single("urgent", gpus=8, priority=10), single("other", gpus=16), gang("train", 1)
    life = Life(*cluster("a: 1x8"), urgent, other, train)
    assert not life.late()
    if taken:
        life.tell(FilterCalled(1, other, ("a-0",)), AnswerFilter(1, (), ("a-0",), ""))
    life.now += 30
    assert life.late() is not taken
    life.now += 45
    assert life.late()


def test_the_device_of_a_claim_that_pods_share_counts_once_for_whichever_is_left() -> None:
    """Seeds 401000458 and 401000477: it counted again for the replacement of a pod that was yet to go."""
    api = ApiServer()
    sight = DeviceSight(api)
    use = (ClaimUse("device", "shared", ""),)
    first, second = (replace(pod, device_claims=use) for pod in gang("train", 2, gpus=0))
    counted, again = (replace(first, uid=uid, requests=with_amounts(first.requests, ((ANY, 1),))) for uid in "ab")
    for pod in (counted, second, again):
        api.create_pod(pod)
    shown = [sight.meant(PodSeen(as_scheduled(pod))) for pod in (counted, second, again)]
    assert [ANY in dict(event.pod.requests) for event in shown if isinstance(event, PodSeen)] == [True, False, False]
    assert not sight.inherited(PodSeen(replace(counted, deleting=True)))
    (heir,) = sight.inherited(PodGone("a"))
    assert heir.pod.uid == second.uid
    assert dict(heir.pod.requests)[ANY] == 1


@pytest.mark.parametrize(
    ("made_for", "restarted", "known_gone", "accepted"),
    [("", True, False, True), ("", False, False, False), ("", True, True, False), ("0", True, False, False)],
)
def test_a_claim_may_keep_devices_only_if_a_restart_came_before_its_pods_were_known_to_be_gone(
    *, made_for: str, restarted: bool, known_gone: bool, accepted: bool
) -> None:
    """Seed 601000281: a restart forgets whose start has allocated a claim that a user made."""
    api = ApiServer()
    sight = DeviceSight(api)
    (pod,) = (replace(pod, device_claims=(ClaimUse("device", "shared", ""),)) for pod in gang("train", 1, gpus=0))
    left = replace(claim("shared", node="a-0", devices=("gpu-0",)).claim, owner=made_for)
    api.set_claim(left)
    for event in (PodSeen(pod), DeviceClaimSeen(left)):
        sight.meant(event)
    if known_gone:
        sight.inherited(PodGone(pod.uid))
    if restarted:
        sight.begin_life()
        sight.meant(DeviceClaimSeen(left))
    assert (not list(sight.at_rest())) is accepted
