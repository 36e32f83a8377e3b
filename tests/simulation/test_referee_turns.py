"""Whose turn it is by the referee's own books, and what nobody can know."""

from __future__ import annotations

from dataclasses import replace

import pytest

from extender.core.answers import Nominated, Outcome
from extender.core.effects import AnswerFilter, Milestone
from extender.core.engine import Engine
from extender.core.events import (
    BindArrived,
    FilterCalled,
    GroupSeen,
    PodGone,
    PodSeen,
    PreemptCalled,
    Tick,
)
from policies.model import GANG_GATE, Controller, Dialect, PodGroup, Stamp
from tests.builders import GPU, cluster, gang, key, node, single
from tests.simulation.broken import BrokenPromiseError
from tests.simulation.fairness import Fairness
from tests.simulation.lives import Life, nomination, pin, posting, reached
from tests.simulation.model.cycle import BindRequest
from tests.simulation.model.world import World
from tests.simulation.referee import Referee
from tests.simulation.rest import open_to
from tests.simulation.stamps import could_know
from tests.simulation.terms import Terms


def test_a_pinned_gang_has_its_room_when_the_gang_behind_it_is_judged() -> None:
    """It is told its node last, with its gate."""
    first = gang("first", 1, gpus=8, priority=10, created=1)[0]
    second = gang("second", 1, gpus=4, priority=10, created=2)[0]
    third = gang("third", 1, gpus=1, created=3)[0]
    planned = reached(second, Milestone.PLANNED), nomination(third, "a-0"), reached(third, Milestone.PLANNED)
    nothing = Life(*cluster("a: 1x8"), first, second, third).tell(Tick(), *planned, pin(second, "a-0"))
    assert not nothing
    (said,) = Life(*cluster("a: 1x8"), first, third).tell(Tick(), *planned[1:])
    assert "default/first, of priority 10, could have started" in said


def test_a_gang_is_not_planned_with_the_room_that_a_single_of_higher_priority_could_have_had() -> None:
    urgent, train = single("urgent", gpus=8, priority=10), gang("train", 1)[0]
    planned = nomination(train, "a-0"), reached(train, Milestone.PLANNED)
    (said,) = Life(*cluster("a: 1x8"), urgent, train).tell(Tick(), *planned)
    assert "default/urgent, of priority 10, could have started" in said
    assert not Life(*cluster("a: 2x8"), urgent, train).tell(Tick(), *planned)
    assert not Life(*cluster("a: 1x8"), replace(urgent, priority=0), train).tell(Tick(), *planned)
    assert not Life(*cluster("a: 1x8"), replace(urgent, scheduler="other"), train).tell(Tick(), *planned)


@pytest.mark.parametrize(("asked", "in_line"), [((), False), (("a-0",), False), (("a-0", "b-0"), True)])
def test_a_single_that_is_left_aside_stands_in_line_again_when_it_asks_to_preempt_wherever_it_had_room(
    asked: tuple[str, ...], *, in_line: bool
) -> None:
    """On which of these nodes it has not taken its room is not told."""
    urgent, train = single("urgent", gpus=8, priority=10), gang("train", 2)
    life = Life(*cluster("a: 1x8", "b: 1x8"), urgent, train)
    for after in range(17):
        life.fairness.look(life.now + after)
    life.tell(PreemptCalled(1, urgent, dict.fromkeys(asked, ("somebody",))))
    said = life.tell(
        Tick(), nomination(train[0], "a-0"), nomination(train[1], "b-0"), reached(train[0], Milestone.PLANNED)
    )
    assert bool(said) is in_line


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
    (said,) = Life(*cluster("a: 1x8"), victim, urgent, train).tell(Tick(), *planned)
    assert "planned on a-0, where default/urgent is nominated" in said
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
    (said,) = Life(*cluster("a: 1x8"), urgent, replace(small, priority=1), train).tell(Tick(), *planned)
    assert "default/urgent, of priority 5, could have started" in said


def test_room_may_be_kept_for_a_single_for_a_while_from_when_a_gang_stands_behind_it() -> None:
    urgent, train = single("urgent", gpus=8, priority=10), gang("train", 1)
    life = Life(*cluster("a: 1x8"), urgent)
    assert not any(life.fairness.look(life.now + after) for after in range(30))
    life.now += 30
    life.see(train)
    assert not any(life.fairness.look(life.now + after) for after in range(30))
    assert "could have been planned" in str(life.fairness.look(life.now + 31))


@pytest.mark.parametrize(("said", "crowded"), [("pending", True), ("starting", True), ("", False)])
def test_a_gang_whose_pods_wait_for_their_podgroup_is_one_of_the_crowd(*, said: str, crowded: bool) -> None:
    """So many gangs of a namespace wait that some are not looked at."""
    life, first = Life(*cluster("a: 1x8"), gang("train", 1)), key("first")
    life.fairness = Fairness(life.shown, life.claims, life.company, Terms(calm=False, waiting=1))
    maker = Controller("batch.volcano.sh/v1alpha1", "Job", "first", "u")
    group = PodGroup(first, "g", 1, dialect=Dialect.VOLCANO, job=maker)
    life.tell(GroupSeen(replace(group, pending=said == "pending", starting=said == "starting")))
    assert life.late() is not crowded


def test_what_room_is_left_nobody_can_say_before_the_pins_of_a_gang_are_told_that_is_nominated_in_part() -> None:
    """Its members without a gate are nominated, and the pin of the gated one comes with its gate, after that."""
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
        said = life.tell(Tick(), nomination(low, "a-1"), reached(low, Milestone.PLANNED))
        assert bool(said) is not pins, "the gated one may have been promised the other half"


def test_all_that_those_behind_are_given_at_once_counts_as_one_could_have_started_in_it() -> None:
    first, *others = (
        gang(name, 1, gpus=gpus, priority=10 * (gpus == 8))[0] for name, gpus in (("a", 8), ("b", 4), ("c", 4))
    )
    planned = [effect for pod in others for effect in (nomination(pod, "a-0"), reached(pod, Milestone.PLANNED))]
    said = Life(*cluster("a: 1x8"), first, *others).tell(Tick(), *planned)
    assert said
    assert all("default/a, of priority 10, could have started" in one for one in said)


def test_nobody_could_have_started_in_the_room_that_is_kept_for_a_lost_member() -> None:
    """It is kept while another member of its gang may be bound. If that one goes elsewhere, it is theirs by then."""
    (first,), pods = gang("first", 1, priority=10), gang("train", 2)
    for nodes, where in (2, "a-0"), (3, "a-2"):
        life = Life(*cluster(f"a: {nodes}x8"), *pods, first)
        for at, pod in enumerate(pods):
            life.tell(Tick(), nomination(pod, f"a-{at}"))
            life.bind(pod, f"a-{at}")
        life.end(pods[0], Outcome.REFUSED)
        life.end(pods[1], Outcome.UNKNOWN)
        life.now += 1
        said = life.tell(Tick(), nomination(pods[0], where), reached(pods[0], Milestone.PLANNED))
        assert not said
        assert life.claims.left(["a-0"], surely=True)["a-0"][GPU] == (8 if where == "a-2" else 0)


def test_nobody_can_know_that_a_release_was_whole_when_the_only_member_that_said_so_is_gone() -> None:
    stamp = Stamp("g", "r", complete=False, quorum=3, size=3, at=1.0)
    pods = [replace(pod, node=f"a-{pod.index}", stamp=stamp) for pod in gang("train", 3)]
    said = replace(pods[2], stamp=replace(stamp, complete=True))
    ended = replace(pods[2], phase="Failed")
    for there, known in ((pods[:2], False), ([*pods[:2], said], True), ([*pods[:2], ended], True)):
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
        said = life.tell(Tick(), reached(pods[0], Milestone.FORGOTTEN), *clears)
        assert bool(said) is not cleared


def test_room_that_kube_scheduler_keeps_for_a_nominated_pod_is_open_to_those_of_higher_priority_only() -> None:
    nodes = {one.name: one for one in cluster("a: 1x8")}
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
    """It goes, on a node that is silent, and its replacement makes a start of its own."""
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
