"""Planning in steps: the same answer as at once, in steps that are bounded whatever pods declare."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from random import Random
from typing import Any

import pytest

from policies.chosen import OURS, Policies
from policies.model import Constraints, Pod, Preferred, Requirement, Selection, Spread, Term, Topology
from policies.placement.place import Placed, Shortfall, place, placing
from policies.placement.request import MOST_PARTS, PlacementRequest
from policies.placement.rules import meets_requirements
from policies.placement.snapshot import Domain, Snapshot
from policies.steps import Steps, finish, metered, ordered
from policies.strategies.balanced import Balanced
from tests.builders import cluster, gang, requests, single, snapshot
from tests.effort import calls


def costs(steps: Steps[object]) -> tuple[object, list[int], list[int]]:
    """The result, the cost that each step states, and how many functions each step has called."""
    stated: list[int] = []
    called: list[int] = []
    results: list[object] = []

    def advance() -> None:
        try:
            stated.append(next(steps))
        except StopIteration as end:
            results.append(end.value)

    while not results:
        called.append(calls(advance))
    return results[0], stated, called


def scattered(count: int, *, terms: int = 1) -> list[Pod]:
    """A gang whose members have distinct affinity each."""
    affinities = [
        tuple((Requirement("kubernetes.io/hostname", "NotIn", (f"a-{number}", str(term))),) for term in range(terms))
        for number in range(count)
    ]
    pods = gang("odd", count, gpus=1)
    return [
        replace(pod, selection=Selection(affinity=affinity)) for pod, affinity in zip(pods, affinities, strict=True)
    ]


def related(count: int, *, constraints: int = 16) -> list[Pod]:
    """A gang of 16 shapes whose members are to be spread, and away from each other, in many ways at once."""
    requirement = Requirement("app", "In", ("train",))
    spread = tuple(Spread("kubernetes.io/hostname", skew, (requirement,)) for skew in range(1, constraints))
    apart = (Term("kubernetes.io/hostname", (Requirement("app", "In", ("other",)),), ("default",)),)
    facts = {"labels": (("app", "train"),), "constraints": Constraints(anti_affinity=apart, spread=spread)}
    pods = enumerate(gang("related", count, gpus=1))
    return [replace(pod, requests=requests(1, cpu=1 + number % 16), **facts) for number, pod in pods]  # type: ignore[arg-type]


def wishing(count: int, *, terms: int = 300) -> list[Pod]:
    """A gang that prefers many nodes, and as many pods to be near to."""
    nodes = tuple((weight, (Requirement("number", "Gt", (str(weight),)),)) for weight in range(1, terms))
    near = [Requirement("app", "In", ("train", str(weight))) for weight in range(1, terms)]
    pods = tuple(
        (weight, Term("nvidia.com/gpu.clique", (requirement,), ("default",)))
        for weight, requirement in enumerate(near, 1)
    )
    constraints = Constraints(preferred=Preferred(nodes=nodes, pods=pods))
    return gang("wishing", count, labels=(("app", "train"),), constraints=constraints)


HERE = [node for number in range(40) for node in cluster(f"c{number:02}: 5x8")]


@pytest.mark.parametrize(
    "members",
    [
        gang("plain", 1200, gpus=1),
        gang("sliced", 1200, gpus=1, topology=Topology(slice_size=3, slice_level="clique")),
        [pod for pod in gang("holes", 900, gpus=1, topology=Topology(slice_size=3)) if (pod.index or 0) % 3],
        scattered(16, terms=120),
        gang("large", 600, gpus=9),
        related(48),
        wishing(48),
    ],
    ids=["members", "slices", "parts of slices", "shapes", "no room", "constraints", "preferences"],
)
def test_no_step_of_planning_is_long(members: list[Pod]) -> None:
    place(members[:3], 3, snapshot(HERE))  # numpy imports some of itself when it is first used
    _, stated, called = costs(placing(members, len(members), snapshot(HERE)))
    assert max(stated, default=0) <= 700
    assert max(called) < 6000
    assert len(called) > 1


@pytest.mark.parametrize("asks", ["affinity", "volumes", "preference", "spread"])
def test_a_step_evaluates_one_condition_of_a_selection(asks: str) -> None:
    """A pod may set 128 conditions, about as many labels that are new to the index."""
    keys = [f"key-{number}" for number in range(60)]
    nodes = [replace(node, labels={**node.labels, **dict.fromkeys(keys, node.name)}) for node in HERE]
    term = tuple(Requirement(key, "NotIn", ("a-0", "b-0")) for key in keys)
    spread = tuple(Spread("kubernetes.io/hostname", skew, (Requirement("app", "In", ("a",)),)) for skew in range(1, 9))
    facts: dict[str, dict[str, Any]] = {
        "affinity": {"selection": Selection(affinity=(term,))},
        "volumes": {"selection": Selection(volumes=((term,), (term[:30],))), "requests": requests(9)},
        "preference": {"constraints": Constraints(preferred=Preferred(nodes=((1, term), (2, term[:30]))))},
        "spread": {"selection": Selection(affinity=(term,)), "constraints": Constraints(spread=spread)},
    }
    members = gang("choosy", 8, gpus=1, labels=(("app", "a"),), **facts[asks])
    place(members, len(members), snapshot(nodes[:9]))  # numpy imports some of itself when it is first used
    _, stated, called = costs(placing(members, len(members), snapshot(nodes)))
    assert max(called) < 4000
    assert max(stated) <= 700
    assert len(stated) > 2 * len(keys)


@pytest.mark.parametrize("operator", ["In", "NotIn", "Exists"])
def test_pods_that_are_there_are_taken_up_and_looked_at_in_steps(operator: str) -> None:
    """After a start all pods are new to the first plan that asks about them."""
    there = [single(f"s-{at}", gpus=0, labels=(("app", f"a{at % 9}"),), node=f"c{at % 40:02}-0") for at in range(4000)]
    requirement = Requirement("app", operator, ("a1", "a2"))
    apart = Constraints(anti_affinity=(Term("kubernetes.io/hostname", (requirement,), ("default",)),))
    members, view = gang("shy", 8, gpus=1, constraints=apart), snapshot(HERE, *there)
    place(members, 8, snapshot(HERE))  # numpy imports some of itself when it is first used
    plan, stated, called = costs(placing(members, 8, view))
    assert max(called) < 3000
    assert max(stated) <= 700
    assert isinstance(plan, Placed)
    assert not {f"c{at:02}-0" for at in range(40)} & set(plan.nodes.values())


def test_many_parts_of_slices_are_no_roles_without_end() -> None:
    members = [pod for pod in gang("holes", 900, gpus=1, topology=Topology(slice_size=3)) if (pod.index or 0) % 3]
    shortfall, stated, _ = costs(placing(members, 600, snapshot(HERE)))
    assert isinstance(shortfall, Shortfall)
    assert f"more than {MOST_PARTS} slices that lack members" in shortfall.explanation
    assert sum(stated) < 100_000
    assert isinstance(place(members, 2 * MOST_PARTS, snapshot(HERE)), Placed)


def test_a_gang_of_many_shapes_costs_a_bounded_effort() -> None:
    """No choice holds all of it, and there are many."""
    members = [replace(pod, requests=requests(3, cpu=1 + number)) for number, pod in enumerate(gang("mixed", 16))]
    topology = Topology(required="clique")
    apart = [replace(pod, topology=topology) for pod in members]
    _, stated, _ = costs(placing(apart, 3, snapshot(HERE)))
    assert sum(stated) < 100_000


def test_a_policy_may_pause() -> None:
    class Slow:
        def domains(self, ask: PlacementRequest, view: Snapshot) -> Iterator[tuple[Domain, ...]]:
            yield ()
            yield ()
            yield (view.levels[0].domain(1),)

    plan = place(gang("train", 2), 2, snapshot(cluster("a: 4x8", "b: 4x8")), policies=replace(OURS, topology=Slow()))
    assert isinstance(plan, Placed)
    assert {node[0] for node in plan.nodes.values()} == {"b"}


@pytest.mark.parametrize("policies", [OURS, replace(OURS, topology=Balanced())], ids=["best fit", "balanced"])
def test_what_is_found_in_steps_is_the_same_whatever_is_asked_in_between(policies: Policies) -> None:
    view = snapshot(HERE)
    members = gang("train", 300, gpus=1, topology=Topology(preferred="clique"))
    steps, between = placing(members, 300, view, policies=policies), gang("other", 7, gpus=3)
    while True:
        try:
            next(steps)
        except StopIteration as end:
            plan = end.value
            break
        place(between, 7, view)
    assert plan == place(members, 300, view, policies=policies)
    assert isinstance(plan, Placed)
    assert meets_requirements([(pod, plan.nodes[pod.uid]) for pod in members], view)


def test_items_are_ordered_in_steps() -> None:
    numbers = list(range(2000))
    assert finish(ordered(numbers, int)) == numbers
    Random(7).shuffle(numbers)
    in_order, cost = finish(metered(ordered(numbers, int)))
    assert in_order == sorted(numbers)
    assert cost > 0
    assert finish(ordered([], int)) == []
