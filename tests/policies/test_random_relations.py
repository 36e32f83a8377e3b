"""Random gangs with relations: no plan is one that kube-scheduler refuses, and none is missed."""

from __future__ import annotations

from dataclasses import replace
from random import Random

import pytest

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
from policies.placement.place import Placed, Shortfall, place
from policies.placement.rules import keeps
from policies.placement.seating import rounds
from tests.builders import node, single, snapshot
from tests.policies.filters import There, can_start, lets_in, refusals
from tests.policies.relating import DATA, HOST, TRAIN, ZONE, term


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
    found = place(pods, len(pods), view)
    if isinstance(found, Shortfall):
        assert not can_start(pods, nodes, there), found.explanation
        return
    by_uid, by_name = {pod.uid: pod for pod in pods}, {one.name: one for one in nodes}
    assert set(found.nodes) == set(by_uid)
    seats = sorted(((by_uid[uid], by_name[name]) for uid, name in found.nodes.items()), key=lambda seat: seat[0].wave)
    begun = list(there)
    for pod, where in seats:
        assert lets_in(pod, where, nodes, there), f"{pod} on {where.name} in {found.nodes}"
        there.append((pod, where))
    assert not list(refusals(chance, seats, nodes, begun, rounds([(pod, where.name) for pod, where in seats], view)))


@pytest.mark.parametrize("seed", range(300))
def test_levels_and_slices_hold_beside_what_pods_demand(seed: int) -> None:
    chance, there = Random(seed), There()
    cliques = [{CLIQUE: "x"}, {CLIQUE: "y"}, {}]
    nodes = [replace(one, labels={**one.labels, **chance.choices(cliques, [5, 5, 1])[0]}) for one in _nodes(chance)]
    shapes = [_pod(chance, f"role-{number}") for number in range(chance.choice([1, 2]))]
    asked = [Topology("clique"), Topology(slice_size=2), Topology("clique", slice_size=2), Topology()]
    for where in chance.choices(nodes, k=2):
        if lets_in(pod := _pod(chance, f"there-{len(there)}"), where, nodes, there):
            there.append((replace(pod, node=where.name), where))
    pods = [
        replace(shape, uid=f"{shape.name}-{at}", name=f"{shape.name}-{at}", index=at, series=shape.name, topology=said)
        for shape, said in zip(shapes, chance.choices(asked, k=2), strict=False)
        for at in range(chance.choice([2, 4]) // len(shapes))
    ]
    view = snapshot(nodes, *(pod for pod, _ in there))
    found = place(pods, chance.choice([1, len(pods)]), view)
    by_uid, by_name = {pod.uid: pod for pod in pods}, {one.name: one for one in nodes}
    if isinstance(found, Placed):
        assert keeps([(by_uid[uid], name) for uid, name in found.nodes.items()], view)
        for uid, name in found.nodes.items():
            assert lets_in(by_uid[uid], by_name[name], nodes, there), f"{uid} on {name} in {found.nodes}"
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
    return single(name, gpus=chance.choice([0, 1, 2]), labels=labels, selection=selection, constraints=_asked(chance))


def _asked(chance: Random) -> Constraints:
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
