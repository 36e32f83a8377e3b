"""The demands of pods on each other: two readings of it that share nothing, and the verdicts of the referee on its own.

The referee judges plans for such pods, too.
"""

from __future__ import annotations

from contextlib import nullcontext
from dataclasses import replace
from random import Random

import pytest

from extender.core.answers import Outcome
from extender.core.effects import Milestone, Nominate, PostBinding, Reached, RevokedFor
from extender.core.engine import Engine
from extender.core.events import BindArrived, NodeSeen, PodSeen, Tick
from policies.model import CLIQUE, Constraints, HostPort, Node, Pod, Requirement, Spread, Stamp, Term
from tests.builders import cluster, gang, key, node, requests, single
from tests.simulation.broken import BrokenPromiseError
from tests.simulation.doubts import DOUBT_S
from tests.simulation.drawing import draw
from tests.simulation.lives import Life, posting
from tests.simulation.model.cycle import BindRequest
from tests.simulation.model.job_specs import JobSpec, Role
from tests.simulation.model.plugins import PreFilter
from tests.simulation.model.world import World
from tests.simulation.referee import Referee
from tests.simulation.relation_plan import DATA, HOST, MEMBERS, PORT, has_relations
from tests.simulation.relations import in_some_order, lets_in
from tests.simulation.rest import overlooked
from tests.simulation.seating import seats
from tests.simulation.shown import GANG_UID, RELEASE_COMPLETE
from tests.simulation.sight import left_over
from tests.simulation.terms import Terms
from tests.simulation.test_models import bound, let, world

OWN = (Requirement("app", "In", ("train",)),)
EVENLY = Constraints(spread=(Spread(HOST, 1, OWN),))
APART = Constraints(anti_affinity=(Term(HOST, OWN, ("default",)),))
NEAR_DATA = Constraints(affinity=(Term(CLIQUE, DATA, ("default",)),))


def members(size: int, constraints: Constraints) -> list[Pod]:
    return gang("train", size, gpus=1, labels=(("app", "train"), ("tier", "train")), constraints=constraints)


def _case(dice: Random) -> tuple[Pod, dict[str, Node], list[tuple[Pod, str]]]:
    """A pod of some seed, and pods of it that are somewhere."""
    plan = draw(dice.choice([seed for seed in range(1, 3000) if has_relations(seed)]))
    nodes = {node.name: replace(node, unschedulable=dice.random() < 0.1) for node in plan.nodes}
    templates = [
        single(f"{job.name}-{number}", labels=role.labels, constraints=role.constraints, selection=role.selection)
        for _, job in plan.jobs
        for role in job.roles
        for number in range(3)
    ]
    there = [
        (replace(pod, deleting=dice.random() < 0.1), dice.choice(list(nodes)))
        for pod in templates
        if dice.random() < 0.5
    ]
    return replace(dice.choice(templates), uid="asks", name="asks"), nodes, there


@pytest.mark.parametrize("seed", range(40))
def test_the_model_of_kube_scheduler_and_the_referee_read_the_same_of_every_node(seed: int) -> None:
    pod, nodes, there = _case(Random(seed))
    pods: dict[str, dict[str, Pod]] = {}
    for other, where in there:
        pods.setdefault(where, {})[other.uid] = other
    model = PreFilter(pod, nodes, pods)
    for name in nodes:
        assert (model.refusal(name) is None) is lets_in(pod, name, nodes, there), name


def test_a_node_has_to_do_beside_those_nominated_for_it_and_without_them() -> None:
    nodes = {node.name: node for node in cluster("a: 2x8")}
    first, second = members(2, EVENLY)
    assert PreFilter(second, nodes, {}).refusal("a-0") is None
    assert PreFilter(second, nodes, {}).refusal("a-0", [first]) == "PodTopologySpread"
    data = single("data", labels=(("app", "data"),))
    near = PreFilter(replace(first, constraints=NEAR_DATA), nodes, {})
    assert near.refusal("a-0", [data]) == "InterPodAffinity", "it may never come"


@pytest.mark.parametrize(
    ("asks", "there"),
    [
        (Constraints(ports=(PORT,)), Constraints(ports=(PORT,))),
        (Constraints(), Constraints(anti_affinity=(Term(HOST, MEMBERS, ("default",)),))),
    ],
)
def test_a_pod_that_plugins_have_refused_is_woken_by_the_end_of_the_one_in_its_way(
    asks: Constraints, there: Constraints
) -> None:
    it = world("a: 1x8", muster=False)
    blocker = single("blocker", node="a-0", constraints=there)
    it.api.create_pod(blocker)
    it.jobs.submit(JobSpec("train", (Role(1, requests(1), labels=(("tier", "train"),), constraints=asks),)))
    let(it, 30)
    (pod,) = (pod for pod in it.api.pods.values() if pod.uid != blocker.uid)
    assert not pod.node
    it.api.remove_pod(blocker.uid)
    let(it, 30)
    assert it.api.pods[pod.uid].node == "a-0"


@pytest.mark.parametrize("muster", [False, True])
@pytest.mark.parametrize(("asks", "woken"), [(Constraints(), False), (APART, True)])
def test_a_pod_that_affinity_has_refused_is_tried_on_a_new_node_only_if_it_has_some_itself(
    asks: Constraints, *, woken: bool, muster: bool
) -> None:
    """kube-scheduler does this without Muster, which is not asked; so the final judge does not complain."""
    it = world("a: 1x8", muster=muster)
    labels = (("app", "train"),)
    keeper = single("keeper", gpus=0, node="a-0", labels=labels, constraints=APART)
    pod = single("waits", gpus=0, labels=labels, constraints=asks)
    it.api.create_pod(keeper)
    it.api.create_pod(pod)
    let(it, 10)
    assert it.scheduler is not None
    assert it.scheduler.refused_by(pod.uid) == ("InterPodAffinity",)
    it.api.set_node(node("b"))
    let(it, 60)
    assert bool(it.api.pods[pod.uid].node) is woken
    assert overlooked(it.api.pods[pod.uid], it.scheduler) is not woken
    it.api.remove_pod(keeper.uid)
    let(it, 10)
    assert it.api.pods[pod.uid].node, "the end of those that keep it away wakes it"
    assert not overlooked(it.api.pods[pod.uid], it.scheduler)


def test_a_gang_that_others_keep_away_starts_on_a_new_node() -> None:
    it = world("a: 1x8")
    it.api.create_pod(single("keeper", gpus=0, node="a-0", labels=(("app", "train"),), constraints=APART))
    it.jobs.submit(
        JobSpec("train", (Role(2, requests(1), labels=(("app", "train"),)),), min_member=2, run_s=float("inf"))
    )
    let(it, 10)
    assert it.scheduler is not None
    assert {it.scheduler.refused_by(pod.uid) for pod in it.api.pods.values() if pod.group} == {("InterPodAffinity",)}
    it.api.set_node(node("b"))
    let(it, 10)
    assert bound(it) == {"train": 2}


def test_a_pod_is_not_overlooked_that_others_than_its_neighbours_have_refused() -> None:
    it = world("a: 2x8")
    it.api.create_pod(single("keeper", gpus=0, node="a-0", labels=(("app", "train"),), constraints=APART))
    it.api.create_pod(single("full", gpus=8, node="a-1"))
    pod = single("waits", gpus=1, labels=(("app", "train"),))
    it.api.create_pod(pod)
    let(it, 10)
    assert it.scheduler is not None
    assert not overlooked(it.api.pods[pod.uid], it.scheduler)
    it.api.set_node(node("b"))
    let(it, 60)
    assert it.api.pods[pod.uid].node == "b"


def test_gangs_with_relations_start_in_the_model_and_stay_apart() -> None:
    it = world("a: 4x8")
    for name, constraints in (("ports", Constraints(ports=(HostPort(80),))), ("evenly", EVENLY)):
        labels = (("app", "train" if name == "evenly" else name),)
        role = Role(4, requests(1), labels=labels, constraints=constraints)
        it.jobs.submit(JobSpec(name, (role,), min_member=4, run_s=float("inf")))
    let(it, 20)
    assert bound(it) == {"ports": 4, "evenly": 4}
    for name in ("ports", "evenly"):
        assert len({pod.node for pod in it.api.pods.values() if pod.group and pod.group.name == name}) == 4


def test_members_that_wait_for_another_role_are_woken_when_that_is_at_bind() -> None:
    """kube-scheduler has refused them for their affinity before, and notices no nomination."""
    it = world("a: 2x8")
    near = Constraints(affinity=(Term(HOST, DATA, ("default",)),))
    data = Role(1, requests(1), labels=(("app", "data"),))
    others = Role(3, requests(1), labels=(("app", "train"),), constraints=near)
    it.jobs.submit(JobSpec("train", (others, data), min_member=4, run_s=float("inf")))
    let(it, 20)
    assert bound(it) == {"train": 4}
    assert len({pod.node for pod in it.api.pods.values()}) == 1


def test_an_order_is_found_where_there_is_one() -> None:
    nodes = {node.name: node for node in cluster("a: 2x8")}
    even, other = members(3, EVENLY)[:2], members(3, Constraints())[2]
    assert in_some_order([(other, "a-0"), (even[0], "a-1"), (even[1], "a-0")], nodes, [])
    assert in_some_order([(other, "a-0"), (even[0], "a-0"), (even[1], "a-1")], nodes, []), "the spread ones come first"
    assert not in_some_order([(even[0], "a-0"), (even[1], "a-0")], nodes, [])
    late = replace(other, wave=1)
    assert not in_some_order([(late, "a-0"), (even[0], "a-1"), (even[1], "a-1")], nodes, []), "it comes after them"


def test_the_referee_seats_members_where_they_are_let_in_one_by_one() -> None:
    nodes = {node.name: node for node in cluster("a: 2x8", "b: 2x8")}
    data = single("data", gpus=0, labels=(("app", "data"),), node="b-1")
    room = left_over(nodes, [data])
    for constraints, most in ((Constraints(ports=(PORT,)), 4), (APART, 4), (EVENLY, 8), (NEAR_DATA, 8)):
        assert seats(nodes, room, members(8, constraints), (), there=[(data, "b-1")]) == most
    shy = replace(data, constraints=APART)
    assert seats(nodes, room, members(8, APART), (), there=[(shy, "b-1")]) == 3


@pytest.mark.parametrize(("nodes", "wrong"), [(("a-0", "a-1"), False), (("a-0", "a-0"), True)])
@pytest.mark.parametrize("constraints", [EVENLY, APART, Constraints(ports=(PORT,))])
def test_a_plan_that_kube_scheduler_lets_in_in_no_order_is_wrong(
    constraints: Constraints, nodes: tuple[str, str], *, wrong: bool
) -> None:
    pods = members(2, constraints)
    life = Life(*cluster("a: 2x8"), pods)
    effects = [Nominate(pod.uid, "default", pod.name, at) for pod, at in zip(pods, nodes, strict=True)]
    complaints = life.tell(Tick(), *effects, Reached(key("train"), Milestone.PLANNED, 2, 0.0))
    assert any("lets in no order" in complaint for complaint in complaints) is wrong


def test_a_gang_is_not_released_where_a_pod_has_taken_its_port_meanwhile() -> None:
    pods = members(2, Constraints(ports=(PORT,)))
    life = Life(*cluster("a: 2x8"), pods)
    effects = [Nominate(pod.uid, "default", pod.name, f"a-{number}") for number, pod in enumerate(pods)]
    life.tell(Tick(), *effects, Reached(key("train"), Milestone.PLANNED, 2, 0.0))
    binding = PostBinding(pods[0].uid, "default", pods[0].name, "a-0", (1,), 200.0, {}, key("train"))
    asking = [(pod, f"a-{number}") for number, pod in enumerate(pods)]
    assert life.company.released(binding, asking) is None
    life.see(single("intruder", gpus=0, node="a-1", constraints=Constraints(ports=(PORT,))))
    assert "in the way of uid-intruder" in (life.company.released(binding, asking) or "")


@pytest.mark.parametrize(
    ("done", "is_there", "at_once", "wrong"),
    [
        (True, False, True, False),
        (True, True, True, True),
        (True, False, False, True),
        (False, False, True, True),
    ],
)
def test_who_comes_alone_to_members_that_have_succeeded_may_go_where_kube_scheduler_knows_that_a_pod_has_gone(
    *, done: bool, is_there: bool, at_once: bool, wrong: bool
) -> None:
    """``at_once``: it was not held since kube-scheduler had looked."""
    referee, world = Referee(Terms(calm=False)), World(7, cluster("a: 1x8"), Engine)
    referee.attach(world)
    assert world.extender is not None
    first, new = gang("train", 2, gpus=1, min_member=1, constraints=Constraints(ports=(PORT,)))
    stamp = Stamp("g", "r", complete=True, quorum=1, size=2, at=1.0)
    first = replace(first, node="a-0", phase="Succeeded", stamp=stamp)
    goes = single("goes", gpus=0, node="a-0", constraints=Constraints(ports=(PORT,)))
    referee._shown.watch(NodeSeen(cluster("a: 1x8")[0]))
    for pod in (goes, new, *[first] * done):
        referee._shown.watch(PodSeen(pod))
    if is_there:
        world.api.create_pod(goes)
    asks = BindArrived(1, new.uid, new.namespace, new.name, "a-0", world.clock.now + 10)
    referee._calls[1] = asks
    world.extender.calls[1] = BindRequest(new, "a-0", lambda _: None)
    marks = {GANG_UID: "g", RELEASE_COMPLETE: "true"}
    binding = replace(posting(new, "a-0"), annotations=marks, deadline=asks.expires)
    with pytest.raises(BrokenPromiseError, match="in the way of uid-goes") if wrong else nullcontext():
        referee.postings.judge(binding, asks if at_once else Tick())


@pytest.mark.parametrize("deleting", [False, True])
def test_a_member_that_goes_is_in_the_way_of_nobody_who_takes_its_place(*, deleting: bool) -> None:
    old, new = members(2, APART)
    life = Life(*cluster("a: 1x8"), replace(old, node="a-0", deleting=deleting), new)
    complaint = life.company.released(
        PostBinding(new.uid, "default", new.name, "a-0", (1,), 200.0, {}, key("train")), [(new, "a-0")]
    )
    assert ("in the way of" in (complaint or "")) is not deleting


@pytest.mark.parametrize(("labels", "wrong"), [((), True), ((("app", "train"),), False)])
def test_where_nothing_goes_wrong_a_plan_is_given_up_only_for_somebody_who_matters(
    labels: tuple[tuple[str, str], ...], *, wrong: bool
) -> None:
    pods = members(2, APART)
    life = Life(*cluster("a: 2x8"), node("b"), pods)
    effects = [Nominate(pod.uid, "default", pod.name, f"a-{number}") for number, pod in enumerate(pods)]
    life.tell(Tick(), *effects, Reached(key("train"), Milestone.PLANNED, 2, 0.0))
    life.see(single("other", gpus=0, node="b", labels=labels))
    end = Reached(key("train"), Milestone.FORGOTTEN, 2, 0.0, RevokedFor.NODE_REFUSED, "kube-scheduler refused it")
    assert bool(life.company.given_up(end, calm=True)) is wrong


@pytest.mark.parametrize(("came", "is_there", "wrong"), [(0, False, True), (1, False, False), (1, True, True)])
def test_a_plan_for_more_members_may_be_given_up_for_who_came_since_the_plan_that_it_is_beside(
    came: int, *, is_there: bool, wrong: bool
) -> None:
    pods = members(2, APART)
    life = Life(*cluster("a: 2x8"), node("b"), pods)
    for number, pod in enumerate(pods):
        if number == came:
            life.see(single("other", gpus=0, node="b", labels=pod.labels))
        plan = Nominate(pod.uid, "default", pod.name, f"a-{number}")
        life.tell(Tick(), plan, Reached(key("train"), Milestone.PLANNED, 1, 0.0))
        if number == 0 and is_there:
            life.see(replace(pod, node="a-0"))
    end = Reached(key("train"), Milestone.FORGOTTEN, 2, 0.0, RevokedFor.PLAN_DEADLINE, "it was not taken up in time")
    assert bool(life.company.given_up(end, calm=True)) is wrong


@pytest.mark.parametrize("cleared", [False, True])
@pytest.mark.parametrize(("priority", "wrong"), [(1, False), (-1, True)])
def test_a_plan_is_given_up_for_a_pod_of_no_lower_priority_that_kube_scheduler_has_nominated_since(
    *, priority: int, wrong: bool, cleared: bool
) -> None:
    """``cleared``: its nomination is gone, and kube-scheduler knew of it when it looked at the gang."""
    pods = members(1, Constraints())
    life = Life(*cluster("a: 1x8"), *pods)
    life.tell(
        Tick(), Nominate(pods[0].uid, "default", pods[0].name, "a-0"), Reached(key("train"), Milestone.PLANNED, 1, 0.0)
    )
    life.see(other := single("other", gpus=8, priority=priority, nominated_node="a-0"))
    if cleared:
        life.see(replace(other, nominated_node=None))
    end = Reached(key("train"), Milestone.FORGOTTEN, 1, 0.0, RevokedFor.NODE_REFUSED, "kube-scheduler refused it")
    assert bool(life.company.given_up(end, calm=True)) is wrong


@pytest.mark.parametrize(("whose", "where", "wrong"), [(1, "a-0", False), (1, "a-1", True), (0, "a-0", True)])
def test_a_plan_may_be_given_up_for_a_member_that_an_earlier_plan_nominated_for_a_node_of_others(
    whose: int, where: str, *, wrong: bool
) -> None:
    """Seed 40392: kube-scheduler keeps room for the member until it knows that its nomination has ended."""
    pods = members(2, Constraints())
    life = Life(*cluster("a: 2x8"), *pods)
    life.see(replace(pods[whose], nominated_node=where))
    plan = Nominate(pods[0].uid, "default", pods[0].name, "a-0")
    life.tell(Tick(), plan, Reached(key("train"), Milestone.PLANNED, 1, 0.0))
    life.see(replace(pods[whose], nominated_node=None))
    end = Reached(key("train"), Milestone.FORGOTTEN, 1, 0.0, RevokedFor.NODE_REFUSED, "kube-scheduler refused it")
    assert bool(life.company.given_up(end, calm=True)) is wrong


@pytest.mark.parametrize(("selector", "late"), [(OWN, True), (MEMBERS, False)])
def test_a_gang_may_wait_while_another_is_started_whose_spread_counts_it(
    selector: tuple[Requirement, ...], *, late: bool
) -> None:
    (first,) = members(1, Constraints(spread=(Spread(HOST, 1, selector),)))
    others = gang("other", 2, gpus=1, labels=(("tier", "train"),))
    life = Life(*cluster("a: 2x8"), first, others)
    life.tell(
        Tick(), Nominate(first.uid, "default", first.name, "a-0"), Reached(key("train"), Milestone.PLANNED, 1, 0.0)
    )
    assert life.late() is late
    life.see(replace(first, node="a-0"))
    assert life.late(), "it is there"


@pytest.mark.parametrize(("priority", "wrong"), [(0, True), (-1, False)])
@pytest.mark.parametrize(("constraints", "keeps"), [(APART, Constraints()), (Constraints(), APART)])
def test_a_plan_in_the_way_of_a_pod_of_no_lower_priority_that_is_nominated_is_wrong(
    constraints: Constraints, keeps: Constraints, priority: int, *, wrong: bool
) -> None:
    (pod,) = members(1, constraints)
    waits = single("waits", gpus=1, priority=priority, nominated_node="a-0", labels=pod.labels, constraints=keeps)
    plan = Reached(key("train"), Milestone.PLANNED, 1, 0.0)
    complaints = Life(*cluster("a: 2x8"), pod, waits).tell(Tick(), Nominate(pod.uid, "default", pod.name, "a-0"), plan)
    assert any("in the way of uid-waits" in complaint for complaint in complaints) is wrong
    assert not Life(*cluster("a: 2x8"), pod, waits).tell(Tick(), Nominate(pod.uid, "default", pod.name, "a-1"), plan)


@pytest.mark.parametrize(
    ("constraints", "keeps", "late"),
    [
        (Constraints(), Constraints(), True),
        (APART, Constraints(), False),
        (Constraints(), APART, False),
        (EVENLY, Constraints(), False),
    ],
)
def test_a_gang_may_wait_for_a_nominated_pod_that_is_in_its_way(
    constraints: Constraints, keeps: Constraints, *, late: bool
) -> None:
    (pod,) = gang("train", 1, gpus=0, labels=(("app", "train"),), constraints=constraints)
    waits = single("waits", gpus=4, priority=1, nominated_node="a-0", labels=pod.labels, constraints=keeps)
    victim = single("victim", gpus=8, node="a-0")
    life = Life(*cluster("a: 1x8"), pod, victim, waits)
    assert life.late() is late
    life.see(replace(waits, priority=-1))
    assert life.late()


def test_members_in_rounds_leave_the_referee_in_the_dark_until_all_are_told() -> None:
    pods = members(2, EVENLY)
    life = Life(*cluster("a: 2x8"), pods)
    life.tell(Tick(), Nominate(pods[0].uid, "default", pods[0].name, "a-0"))
    assert life.company.in_rounds
    life.tell(Tick(), Nominate(pods[1].uid, "default", pods[1].name, "a-1"))
    assert not life.company.in_rounds


def test_members_that_are_planned_beside_one_in_doubt_are_told_when_it_is_over() -> None:
    pods = members(2, EVENLY)
    life = Life(*cluster("a: 2x8"), pods)
    life.bind(pods[0], "a-0")
    life.end(pods[0], Outcome.UNKNOWN)
    assert not life.company.in_rounds
    life.tell(Tick(), Reached(key("train"), Milestone.PLANNED, 2, 1.0))
    assert life.company.in_rounds
    life.now += DOUBT_S
    life.tell(Tick(), Reached(key("train"), Milestone.FORGOTTEN, 2, 1.0))
    assert not life.company.in_rounds


def test_members_of_a_gang_that_was_refused_may_be_told_one_by_one() -> None:
    pods = members(2, Constraints())
    life = Life(*cluster("a: 2x8"), pods)
    plan = Nominate(pods[0].uid, "default", pods[0].name, "a-0")
    life.tell(Tick(), plan)
    assert not life.company.in_rounds
    given_up = Reached(key("train"), Milestone.FORGOTTEN, 2, 1.0, RevokedFor.NODE_REFUSED)
    life.tell(Tick(), given_up, replace(plan, node=None))
    life.tell(Tick(), plan)
    assert life.company.in_rounds


def test_a_gang_need_not_be_planned_beside_a_pod_whose_binding_is_under_way() -> None:
    data, pods = single("data", labels=(("app", "data"),)), members(1, NEAR_DATA)
    life = Life(*cluster("a: 1x8"), data, pods)
    life.bind(data, "a-0")
    assert not life.late()
    life.see(replace(data, node="a-0"))
    assert life.late()


def test_most_seeds_are_without_relations() -> None:
    plain = draw(32)
    assert not has_relations(32)
    assert not any(role.constraints for _, job in plain.jobs for role in job.roles)
    assert 150 < sum(map(has_relations, range(1, 1001))) < 200
