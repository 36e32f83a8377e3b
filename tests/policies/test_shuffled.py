"""A plan never depends on the order in which nodes, pods or members were seen."""

from __future__ import annotations

from random import Random

import pytest

from extender.config import catalogue
from policies.placement.place import Placed, place
from tests.policies.mixed import Mixed, mixed
from tests.policies.world import POLICIES

ORDERS = 3


def planned(case: Mixed, policy: str, chance: Random) -> object:
    """The plan, with its order, or why there is none; from nodes, pods and members that come in any order."""
    nodes, there, members = list(case.nodes), [pod for pod, _ in case.there], case.pods
    for items in (nodes, there, members):
        chance.shuffle(items)
    policies = catalogue.policies("priority-then-age", policy, {"packing": 1, "affinity": 1})
    plan = place(members, case.needed, case.snapshot(nodes, there), policies=policies)
    return list(plan.nodes.items()) if isinstance(plan, Placed) else (plan.placed, plan.explanation)


@pytest.mark.parametrize("first", [0, 100, 200, 301, 846, 1120])
def test_a_plan_is_the_same_in_whatever_order_all_of_it_was_seen(first: int) -> None:
    for seed in range(first, first + 60):
        case, chance, policy = mixed(seed), Random(seed), POLICIES[seed // 2 % len(POLICIES)]
        plans = [planned(case, policy, chance) for _ in range(ORDERS)]
        assert all(plan == plans[0] for plan in plans), f"case {seed}, {policy}: {case.told()}"
