"""What pods demand of each other: two readings of it that share nothing, and what the referee makes of its own."""

from __future__ import annotations

from dataclasses import replace
from random import Random

import pytest

from policies.model import Constraints, HostPort, Node, Pod, Term
from tests.builders import cluster, node, requests, single
from tests.simulation.drawing import draw
from tests.simulation.model.job_specs import JobSpec, Role
from tests.simulation.model.plugins import PreFilter
from tests.simulation.relating import APART, EVENLY, NEAR_DATA, members
from tests.simulation.relation_plan import DATA, HOST, MEMBERS, PORT, has_relations
from tests.simulation.relations import in_some_order, lets_in
from tests.simulation.rest import overlooked
from tests.simulation.test_models import bound, let, world


def _case(dice: Random) -> tuple[Pod, dict[str, Node], list[tuple[Pod, str]]]:
    """A pod of some seed, and pods of it that are somewhere."""
    plan = draw(dice.choice([seed for seed in range(1, 3000) if has_relations(seed)]))
    nodes = {one.name: replace(one, unschedulable=dice.random() < 0.1) for one in plan.nodes}
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
    nodes = {one.name: one for one in cluster("a: 2x8")}
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
    (pod,) = (one for one in it.api.pods.values() if one.uid != blocker.uid)
    assert not pod.node
    it.api.remove_pod(blocker.uid)
    let(it, 30)
    assert it.api.pods[pod.uid].node == "a-0"


@pytest.mark.parametrize("muster", [False, True])
@pytest.mark.parametrize(("asks", "woken"), [(Constraints(), False), (APART, True)])
def test_a_pod_that_affinity_has_refused_is_tried_on_a_new_node_only_if_it_has_some_itself(
    asks: Constraints, *, woken: bool, muster: bool
) -> None:
    """As kube-scheduler does without Muster, which is not asked; so nobody is blamed at rest."""
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
    for name, asked in (("ports", Constraints(ports=(HostPort(80),))), ("evenly", EVENLY)):
        labels = (("app", "train" if name == "evenly" else name),)
        role = Role(4, requests(1), labels=labels, constraints=asked)
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
    nodes = {one.name: one for one in cluster("a: 2x8")}
    even, other = members(3, EVENLY)[:2], members(3, Constraints())[2]
    assert in_some_order([(other, "a-0"), (even[0], "a-1"), (even[1], "a-0")], nodes, [])
    assert in_some_order([(other, "a-0"), (even[0], "a-0"), (even[1], "a-1")], nodes, []), "the spread ones come first"
    assert not in_some_order([(even[0], "a-0"), (even[1], "a-0")], nodes, [])
    late = replace(other, wave=1)
    assert not in_some_order([(late, "a-0"), (even[0], "a-1"), (even[1], "a-1")], nodes, []), "it comes after them"
