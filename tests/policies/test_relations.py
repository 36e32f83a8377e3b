"""Gangs that demand something of each other or of the pods that are there: kube-scheduler lets every plan in.

Of random gangs with relations no plan is refused, and none is missed.
"""

from __future__ import annotations

from dataclasses import replace
from random import Random
from typing import Any

import numpy as np
import pytest

from policies.chosen import OURS
from policies.model import (
    CLIQUE,
    Constraints,
    HostPort,
    Node,
    Pod,
    Requirement,
    Selection,
    Selector,
    Spread,
    Taint,
    Term,
    Topology,
)
from policies.placement.filling import fill
from policies.placement.fitting import fits
from policies.placement.one_by_one import rounds
from policies.placement.place import Placed, Shortfall, place
from policies.placement.request import roles_of
from policies.placement.rules import Unclear, meets_requirements
from policies.placement.snapshot import Domain
from policies.steps import finish
from tests.builders import cluster, gang, node, requests, single, snapshot
from tests.policies.filters import There, can_start, lets_in, refusals
from tests.policies.relating import DATA, HOST, TRAIN, ZONE, members, placed, refused, term, zones


@pytest.mark.parametrize(
    "asked",
    [
        {"ports": (HostPort(29500),)},
        {"anti_affinity": (term(HOST),)},
        {"spread": (Spread(HOST, 1, TRAIN),)},
    ],
)
def test_members_that_cannot_share_a_node_get_one_each(asked: dict[str, Any]) -> None:
    view = snapshot(cluster("a: 4x8"))
    assert sorted(placed(members(4, **asked), view)) == ["a-0", "a-1", "a-2", "a-3"]


def test_a_port_that_a_pod_takes_closes_its_node() -> None:
    view = snapshot(cluster("a: 3x8"), single("web", node="a-1", constraints=Constraints((HostPort(80),))))
    assert sorted(placed(members(2, ports=(HostPort(80),)), view)) == ["a-0", "a-2"]
    why = refused(members(3, ports=(HostPort(80),)), view)
    assert "1 node: port 80 in use by default/web" in why
    assert "2 nodes left for 3 members with port 80 for each" in why


def test_two_roles_with_one_port_share_no_node() -> None:
    view = snapshot(cluster("a: 3x8"))
    launcher = members(1, gpus=0, app="launcher", ports=(HostPort(80, "TCP", "10.0.0.1"),))
    workers = members(2, ports=(HostPort(80),))
    assert len(set(placed(launcher + workers, view))) == 3


def test_anti_affinity_by_clique_puts_one_member_in_each() -> None:
    view = snapshot(cluster("a: 2x8", "b: 2x8", "c: 1x8"))
    nodes = placed(members(3, anti_affinity=(term(CLIQUE),)), view)
    assert sorted(name[0] for name in nodes) == ["a", "b", "c"]
    assert (
        "5 nodes left for 4 members with anti-affinity to each other by nvidia.com/gpu.clique (3 domains)"
        in refused(members(4, anti_affinity=(term(CLIQUE),)), view)
    )


def test_anti_affinity_towards_pods_that_are_there_and_theirs() -> None:
    data = single("db-0", node="n0", labels=(("app", "data"),))
    assert set(placed(members(2, anti_affinity=(term(ZONE, DATA),)), snapshot(zones("aab"), data))) == {"n2"}
    shy = replace(data, constraints=Constraints(anti_affinity=(term(ZONE),)))
    assert set(placed(members(2), snapshot(zones("aab"), shy))) == {"n2"}
    assert "2 nodes: anti-affinity of default/db-0" in refused(members(9, gpus=8), snapshot(zones("aab", 64), shy))


def test_affinity_to_a_pod_that_is_there() -> None:
    data = single("db-0", node="n2", labels=(("app", "data"),))
    near = members(3, gpus=4, affinity=(term(ZONE, DATA),))
    assert set(placed(near, snapshot(zones("aabb"), data))) == {"n2", "n3"}
    assert "4 nodes: no pod near that its affinity asks for" in refused(near, snapshot(zones("aabb")))


def test_members_with_affinity_to_each_other_find_the_domain_that_holds_them() -> None:
    pods = members(3, gpus=8, affinity=(term(ZONE),))
    assert set(placed(pods, snapshot(zones("aabbb")))) == {"n2", "n3", "n4"}
    why = refused(pods, snapshot(zones("aabb")))
    assert "affinity to each other by topology.kubernetes.io/zone (room for 2 in one domain)" in why


def test_a_launcher_goes_where_its_workers_are_after_them() -> None:
    launcher = members(1, gpus=0, app="launcher", affinity=(term(HOST),))
    nodes = placed(launcher + members(2, gpus=8), snapshot(zones("ab")))
    assert nodes[-1] in nodes[:-1]


@pytest.mark.parametrize(
    ("app", "nodes", "count", "wave"),
    [("train", "aabbbcc", 7, 0), ("train", "abbbcc", 5, 1), ("launcher", "abbbcc", 5, 0)],
)
def test_members_go_wherever_another_role_opens_a_domain_to_them(
    monkeypatch: pytest.MonkeyPatch, app: str, nodes: str, count: int, wave: int
) -> None:
    """The first member that selects itself opens one more domain, unless these members come later."""
    monkeypatch.setattr("policies.placement.related._LARGE", 0)
    launchers = gang("launcher", 2, gpus=0, labels=(("app", app),))
    near = term(ZONE, (Requirement("app", "In", (app,)),))
    workers = [replace(pod, wave=wave) for pod in members(count, gpus=8, affinity=(near,))]
    assert len(placed([*workers, *launchers], snapshot(zones(nodes)))) == count + 2


def test_members_are_not_seated_with_the_help_of_those_that_come_when_they_run() -> None:
    workers = members(3, gpus=8, affinity=(term(ZONE),))
    late = replace(single("launcher", gpus=0, labels=(("app", "train"),)), group=workers[0].group, wave=1)
    assert "affinity to each other" in refused([*workers, late], snapshot(zones("abb")))
    assert set(placed([*workers, late], snapshot(zones("abbb")))[:3]) == {"n1", "n2", "n3"}
    seats = list(zip([late, *workers], ("n1", "n0", "n1", "n2"), strict=True))
    assert rounds(seats, snapshot(zones("abb"))) is None
    assert rounds([(replace(pod, wave=0), node) for pod, node in seats], snapshot(zones("abb"))) is None
    assert rounds(seats, snapshot(zones("aaa"))) == [[1], [2, 3, 0]]


def test_members_are_not_seated_after_one_that_comes_when_they_run() -> None:
    clique = Topology(required="clique")
    early = [replace(pod, topology=clique) for pod in members(2, gpus=2, spread=(Spread(HOST, 1, TRAIN),))]
    late = replace(early[0], uid="late", name="late", series="late", requests=requests(0, cpu=8), wave=1)
    pods = [*early, late]
    assert "1 member with maxSkew 1" in refused(pods, snapshot(cluster("a: 2x8", "-: 1x8")))
    view = snapshot(cluster("a: 2x8", "b: 3x8"))
    seats = list(zip(pods, placed(pods, view), strict=True))
    assert sorted(node for _, node in seats) == ["b-0", "b-1", "b-2"]
    assert rounds(seats, view) == [[0, 1, 2]]


def test_what_is_hard_to_fit_in_is_seated_first_also_if_it_comes_later(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("policies.placement.related._LARGE", 0)
    workers = [replace(pod, requests=requests(8, cpu=60), wave=1) for pod in members(3, affinity=(term(ZONE),))]
    leader = replace(workers[0], uid="leader", name="leader", series="leader", requests=requests(0, cpu=8), wave=0)
    *large, small = zones("aaaa")
    small = replace(small, allocatable=requests(8, cpu=10))
    assert placed([leader, *workers], snapshot([small, *large]))[-1] == small.name


def test_nobody_counts_on_a_pod_that_comes_when_others_run() -> None:
    late = single("launcher", gpus=0, node="n0", labels=(("app", "train"),), wave=1)
    spread = members(2, gpus=8, spread=(Spread(ZONE, 1, TRAIN),))
    assert "1 of 2 domains with room" in refused(spread, snapshot([*zones("a", 0), *zones("-bb")[1:]], late))
    assert "no pod near" in refused(
        members(1, affinity=(term(ZONE, DATA),)), snapshot(zones("a"), replace(late, labels=(("app", "data"),)))
    )
    assert "1 node: anti-affinity with default/launcher" in refused(
        members(2, gpus=8, anti_affinity=(term(HOST),)), snapshot(zones("ab"), late)
    )


def test_the_nearest_clique_holds_members_with_a_port_each() -> None:
    view = snapshot(cluster("a: 2x8", "b: 4x8", "c: 8x8"))
    assert sorted(placed(members(4, ports=(HostPort(80),)), view)) == ["b-0", "b-1", "b-2", "b-3"]


def test_a_required_level_and_anti_affinity_hold_together() -> None:
    pods = [replace(pod, topology=Topology("clique")) for pod in members(3, anti_affinity=(term(HOST),))]
    assert sorted(placed(pods, snapshot(cluster("a: 2x64", "b: 3x8")))) == ["b-0", "b-1", "b-2"]
    assert refused(pods, snapshot(cluster("a: 2x64", "b: 2x8")))


def test_a_choice_without_an_open_node_holds_nobody() -> None:
    view = snapshot(zones("a", 0))
    roles = finish(roles_of(members(2, spread=(Spread(ZONE, 1, TRAIN),)), (), view, ()))
    assert not isinstance(roles, Unclear)
    assert finish(fill(roles, (Domain("", np.arange(1)),), view, OURS.scoring)) == {}


def test_slices_and_ports_hold_together() -> None:
    sliced = Topology(slice_size=2, slice_level="clique")
    pods = [replace(pod, topology=sliced) for pod in members(4, ports=(HostPort(80),))]
    nodes = placed(pods, snapshot(cluster("a: 3x8", "b: 3x8")))
    assert [nodes[0][0], nodes[2][0]] == [nodes[1][0], nodes[3][0]]
    assert len(set(nodes)) == 4


def test_an_elastic_gang_gets_as_many_as_its_constraints_let_in() -> None:
    assert len(placed(members(6, ports=(HostPort(80),)), snapshot(cluster("a: 4x8")), needed=2)) == 4
    assert len(placed(members(9, spread=(Spread(ZONE, 1, TRAIN),)), snapshot(zones("ab", 3)), needed=2)) == 6


def test_what_the_first_choice_holds_is_enough_where_nobody_finds_out_in_time_whether_all_fit() -> None:
    room = "example.com/room"
    pods = members(10, gpus=4, spread=(Spread(room, 1, TRAIN),))
    pods[8:] = [replace(pod, requests=requests(0), constraints=Constraints()) for pod in pods[8:]]
    homes = {"n01": "bc", "n02": "ac", "r01": "ad", "r02": "be", "r03": "ae"}
    nodes = [node(name, 8, labels={room: at[0], CLIQUE: at[1]}) for name, at in homes.items()]
    busy = [single(f"busy-{number}", gpus=1, node="n01") for number in range(6)]
    assert len(placed(pods, snapshot(nodes, *busy), needed=9)) == 9


def test_a_plan_that_another_pod_has_overtaken_fits_no_more() -> None:
    pods = members(2, ports=(HostPort(80),))
    plan = {pods[0].uid: "a-0", pods[1].uid: "a-1"}
    nodes = cluster("a: 2x8")
    assert fits(plan, pods, snapshot(nodes))
    assert not fits(plan, pods, snapshot(nodes, single("web", node="a-1", constraints=pods[0].constraints)))
    assert not fits({pod.uid: "a-0" for pod in pods}, pods, snapshot(nodes))


@pytest.mark.parametrize("asked", [{"anti_affinity": (term(HOST),)}, {"ports": (HostPort(80),)}])
def test_members_that_exclude_each_other_do_not_come_in_one_round(asked: dict[str, Any]) -> None:
    view, pods = snapshot(zones("aab")), members(2, **asked, spread=(Spread(ZONE, 2, TRAIN),))
    assert rounds([(pod, "n0") for pod in pods], view) is None
    assert rounds(list(zip(pods, ("n0", "n1"), strict=True)), view) == [[0, 1]]


@pytest.mark.parametrize("seed", range(400))
def test_no_plan_is_refused_and_none_is_missed(seed: int) -> None:
    chance = Random(seed)
    nodes, there = _nodes(chance), There()
    for number in range(chance.randint(0, 3)):
        pod, where = _pod(chance, f"there-{number}"), chance.choice(nodes)
        if lets_in(pod, where, nodes, there):
            there.append((replace(pod, node=where.name, deleting=chance.random() < 0.2), where))
    shapes = [_pod(chance, f"role-{number}") for number in range(chance.choice([1, 1, 2]))]
    pods = [
        replace(shape, uid=f"{shape.name}-{at}", name=f"{shape.name}-{at}", index=at, owner=shape.name, wave=wave)
        for shape, wave in zip(shapes, (seed % 3 % 2, seed % 5 % 2), strict=False)
        for at in range(chance.randint(1, 4 // len(shapes)))
    ]
    view = snapshot(nodes, *(pod for pod, _ in there))
    plan = place(pods, len(pods), view)
    if isinstance(plan, Shortfall):
        assert not can_start(pods, nodes, there), plan.explanation
        return
    by_uid, by_name = {pod.uid: pod for pod in pods}, {host.name: host for host in nodes}
    assert set(plan.nodes) == set(by_uid)
    seats = sorted(((by_uid[uid], by_name[name]) for uid, name in plan.nodes.items()), key=lambda seat: seat[0].wave)
    begun = list(there)
    for pod, where in seats:
        assert lets_in(pod, where, nodes, there), f"{pod} on {where.name} in {plan.nodes}"
        there.append((pod, where))
    assert not list(refusals(chance, seats, nodes, begun, rounds([(pod, where.name) for pod, where in seats], view)))


@pytest.mark.parametrize("seed", range(300))
def test_levels_and_slices_hold_beside_what_pods_demand(seed: int) -> None:
    chance, there = Random(seed), There()
    cliques = [{CLIQUE: "x"}, {CLIQUE: "y"}, {}]
    nodes = [replace(host, labels={**host.labels, **chance.choices(cliques, [5, 5, 1])[0]}) for host in _nodes(chance)]
    shapes = [_pod(chance, f"role-{number}") for number in range(chance.choice([1, 2]))]
    topologies = [Topology("clique"), Topology(slice_size=2), Topology("clique", slice_size=2), Topology()]
    for where in chance.choices(nodes, k=2):
        if lets_in(pod := _pod(chance, f"there-{len(there)}"), where, nodes, there):
            there.append((replace(pod, node=where.name), where))
    pods = [
        replace(
            shape, uid=f"{shape.name}-{at}", name=f"{shape.name}-{at}", index=at, series=shape.name, topology=topology
        )
        for shape, topology in zip(shapes, chance.choices(topologies, k=2), strict=False)
        for at in range(chance.choice([2, 4]) // len(shapes))
    ]
    view = snapshot(nodes, *(pod for pod, _ in there))
    plan = place(pods, chance.choice([1, len(pods)]), view)
    by_uid, by_name = {pod.uid: pod for pod in pods}, {host.name: host for host in nodes}
    if isinstance(plan, Placed):
        assert meets_requirements([(by_uid[uid], name) for uid, name in plan.nodes.items()], view)
        for uid, name in plan.nodes.items():
            assert lets_in(by_uid[uid], by_name[name], nodes, there), f"{uid} on {name} in {plan.nodes}"
            there.append((by_uid[uid], by_name[name]))


def _nodes(chance: Random) -> list[Node]:
    nodes = []
    for number in range(chance.randint(1, 5)):
        labels = {ZONE: chance.choice("abc")} if chance.random() < 0.9 else {}
        taints = (Taint("dedicated", "x", "NoSchedule"),) if chance.random() < 0.15 else ()
        nodes.append(node(f"n{number}", chance.choice([1, 2, 4]), labels=labels, taints=taints))
    return nodes


def _pod(chance: Random, name: str) -> Pod:
    labels = (("app", chance.choice(["train", "data"])),)
    selection = Selection(node_selector=((ZONE, chance.choice("ab")),)) if chance.random() < 0.15 else Selection()
    return single(
        name, gpus=chance.choice([0, 1, 2]), labels=labels, selection=selection, constraints=_constraints(chance)
    )


def _constraints(chance: Random) -> Constraints:
    def some(likely: float) -> bool:
        return chance.random() < likely

    def selector() -> Selector:
        return chance.choice([TRAIN, DATA, TRAIN, DATA, (Requirement("app", "NotIn", ("data",)),), (), None])

    def terms(likely: float) -> tuple[Term, ...]:
        return tuple(term(key, selector()) for key in (HOST, ZONE) if some(likely))

    spread = tuple(
        Spread(key, chance.choice([1, 1, 2]), selector(), chance.choice([1, 1, 2, 3]), some(0.7), some(0.3))
        for key in (HOST, ZONE)
        if some(0.2)
    )
    ports = tuple(HostPort(80, "TCP", chance.choice(["0.0.0.0", "10.0.0.1"])) for _ in range(some(0.15)))  # noqa: S104
    return Constraints(ports, terms(0.15), terms(0.15), spread)
