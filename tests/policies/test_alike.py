"""Only a few of the nodes that are alike to a gang are examined: the plan is the one that all of them would give."""

from __future__ import annotations

from dataclasses import replace
from random import Random
from typing import Any

import numpy as np
import pytest

from policies.model import CLIQUE, HOSTNAME, Constraints, Node, Pod, Requirement, Selector, Spread, Term
from policies.model.constraints import Preferred
from policies.placement import related
from policies.placement.place import Placed, place
from policies.placement.related import first_of_each, kinds_of
from policies.placement.snapshot import Snapshot
from tests.builders import gang, node, single, snapshot

ZONE = "topology.kubernetes.io/zone"
TRAIN: Selector = (Requirement("app", "In", ("train",)),)
WEB: Selector = (Requirement("app", "In", ("web",)),)


def test_so_many_of_each_kind_are_kept() -> None:
    rows = np.array([5, 3, 1, 0, 2, 4])
    kinds = kinds_of([np.array([0, 0, 1, 1, -1, -1]), np.ones(6, dtype=np.bool_)], rows)
    assert [int((kinds == kind).sum()) for kind in kinds] == [2] * 6
    assert kinds[0] == kinds[5] != kinds[1] == kinds[4]  # rows 5 and 4; rows 3 and 2
    keys = np.array([9, 8, 7, 6, 5, 4])
    assert rows[first_of_each(kinds, keys, 1)].tolist() == [0, 2, 4]
    assert rows[first_of_each(kinds, -keys, 1)].tolist() == [5, 3, 1]


def test_facts_that_would_be_too_many_kinds_leave_every_node_one_of_its_own() -> None:
    rows = np.arange(3)
    assert kinds_of([np.array([0, 0, 1 << 40])] * 2, rows).tolist() == [0, 1, 2]


def test_few_nodes_are_looked_at_and_the_plan_is_that_of_all(monkeypatch: pytest.MonkeyPatch) -> None:
    looked_at: list[tuple[int, int]] = []

    def noted(*args: Any) -> Any:
        kept = first_of_each(*args)
        looked_at.append((int(kept.sum()), len(kept)))
        return kept

    different = []
    for seed in range(100):
        chance = Random(seed)
        view, pods = _cluster(chance), _members(chance)
        plans = []
        for choosing in (noted, lambda kinds, keys, most: np.ones(len(kinds), dtype=np.bool_)):  # noqa: ARG005
            monkeypatch.setattr(related, "first_of_each", choosing)
            plan = place(pods, len(pods), view)
            plans.append(plan.nodes if isinstance(plan, Placed) else plan)
        if plans[0] != plans[1]:
            different.append(seed)
    assert not different
    assert sum(few < most for few, most in looked_at) > 20


def _cluster(chance: Random) -> Snapshot:
    nodes: list[Node] = []
    for at in range(60):
        labels = {CLIQUE: f"c{at // 6}", ZONE: f"z{at // 20}", HOSTNAME: f"n{at:02}"}
        if chance.random() < 0.05:
            del labels[chance.choice([CLIQUE, ZONE])]
        nodes.append(node(f"n{at:02}", 8, labels=labels))
    there = [
        replace(single(f"there-{at}", gpus=chance.choice([1, 4, 6]), cpu=0), node=where.name, labels=(("app", app),))
        for at, where in enumerate(chance.sample(nodes, 30))
        for app in chance.choices(["train", "web"], [1, 9])
    ]
    return snapshot(chance.sample(nodes, len(nodes)), *there)


def _members(chance: Random) -> list[Pod]:
    """Members of one role or two, each with demands of its own."""
    size, first = chance.randint(3, 8), chance.choice([0, 0, 1])
    shapes = [(_constraints(chance), chance.choice([1, 2, 4])) for _ in range(2)]
    return [
        replace(
            pod, requests=single("", gpus=gpus, cpu=0).requests, labels=(("app", "train"),), constraints=constraints
        )
        for at, pod in enumerate(gang("train", size, gpus=1, cpu=0))
        for constraints, gpus in [shapes[at < first]]
    ]


def _constraints(chance: Random) -> Constraints:
    demands: dict[str, Any] = {}
    company = Term(chance.choice([CLIQUE, ZONE]), chance.choice([TRAIN, WEB]), ("default",))
    if chance.random() < 0.5:
        demands["preferred"] = Preferred(pods=((chance.choice([-50, 50]), company),), spread=(Spread(ZONE, 1, TRAIN),))
    if chance.random() < 0.3:
        return Constraints(**demands)
    if chance.random() < 0.5:
        demands["anti_affinity"] = (Term(chance.choice([HOSTNAME, CLIQUE]), TRAIN, ("default",)),)
    if chance.random() < 0.7:
        keys = chance.sample([HOSTNAME, CLIQUE, ZONE], chance.choice([1, 2]))
        demands["spread"] = tuple(Spread(key, chance.choice([1, 2]), TRAIN) for key in keys)
    if chance.random() < 0.3:
        demands["affinity"] = (Term(chance.choice([CLIQUE, ZONE]), chance.choice([TRAIN, WEB]), ("default",)),)
    return Constraints(**demands)
