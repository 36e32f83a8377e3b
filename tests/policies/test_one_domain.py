"""Gangs of several roles beside an exhaustive search: where one domain holds the gang it is not split."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cache
from random import Random

import pytest

from extender.core.ledger.claims import Claims
from policies.model import Constraints, Node, Pod, Topology
from policies.model.levels import levels_from
from policies.placement.place import Placed, place
from policies.placement.request import Role, roles_of
from policies.placement.rules import Unclear
from policies.placement.snapshot import Snapshot
from policies.steps import finish, quickly
from tests.builders import GPU, cluster, gang, node, requests, snapshot
from tests.policies.relating import HOST, term

SEEDS, PARTS = 3_000, 6
LEVELS = ("clique", "block")
Amounts = tuple[int, int]
"""GPUs and cores."""
APART = {"labels": (("app", "train"),), "constraints": Constraints(anti_affinity=(term(HOST),))}
"""The facts of members that stay apart from all others with these facts."""


@dataclass(frozen=True)
class Case:
    """``free``: of each node. ``roles``: their members."""

    nodes: list[Node]
    free: dict[str, Amounts]
    roles: list[list[Pod]]
    needed: int

    @property
    def pods(self) -> list[Pod]:
        return [pod for role in self.roles for pod in role]

    def snapshot(self) -> Snapshot:
        claims = Claims(levels_from(f"{name}=example.com/{name}" for name in LEVELS))
        for host in self.nodes:
            claims.set_node(host)
        return claims.snapshot()

    @property
    def required(self) -> bool:
        return self.pods[0].topology.required is not None

    def home(self, name: str, level: str) -> str:
        """The domain of a node."""
        return next(host.labels[f"example.com/{level}"] for host in self.nodes if host.name == name)


def case(seed: int) -> Case:
    """A random case. Some members of every third case share no node with another marked member."""
    chance = Random(seed)
    nodes, free = [], {}
    for clique in range(chance.randint(2, 5)):
        for number in range(chance.randint(1, 4)):
            name = f"c{clique}-{number}"
            labels = {"example.com/clique": f"c{clique}", "example.com/block": f"b{clique // 2}"}
            free[name] = chance.randint(0, 8), chance.choice([8, 16, 64])
            nodes.append(node(name, free[name][0], cpu=free[name][1], labels=labels))
    topology = chance.choice(
        [Topology()] * 4 + [Topology(required="block"), Topology(required="block", preferred="clique")]
    )
    roles = []
    for number in range(chance.choice([2, 2, 3])):
        amounts = chance.choice([0, 1, 1, 2, 3, 4]), chance.choice([1, 1, 2, 4, 8])
        members = gang(f"role{number}", chance.choice([1, 1, 2, 3, 4, 5]), topology=topology)
        facts = APART if seed % 3 == 2 and chance.random() < 0.6 else {}
        roles.append(
            [replace(pod, requests=requests(*amounts), series=f"role{number}", **facts) for pod in members]  # type: ignore[arg-type]
        )
    size = sum(map(len, roles))
    return Case(nodes, free, roles, size if chance.random() < 0.7 else chance.randint(1, size))


Wish = tuple[tuple[int, int, bool], frozenset[str]]
"""The requests of a member, whether it keeps apart, and the nodes that it may be on."""


def fits(of: Case, wishes: Sequence[Wish]) -> bool:
    """Whether all have room at once, by trying every way."""
    names = sorted(of.free)
    ordered = sorted(wishes, key=lambda wish: (-len(wish[1]), wish[0]))
    # Nodes that have the same left, and that the same members may be on, are alike.
    kinds = [tuple(name in nodes for nodes in dict.fromkeys(allowed for _, allowed in wishes)) for name in names]

    @cache
    def rest(count: int, left: tuple[tuple[int, int, bool], ...]) -> bool:
        if not count:
            return True
        (gpus, cpu, apart), allowed = ordered[count - 1]
        seen = set()
        for at, (name, much) in enumerate(zip(names, left, strict=True)):
            has_room = much[0] >= gpus and much[1] >= cpu and not (apart and much[2])
            if name in allowed and has_room and (kinds[at], much) not in seen:
                seen.add((kinds[at], much))
                then = (much[0] - gpus, much[1] - cpu, much[2] or apart)
                if rest(count - 1, (*left[:at], then, *left[at + 1 :])):
                    return True
        return False

    return rest(len(ordered), tuple((*of.free[name], False) for name in names))


def wishes(roles: Sequence[Role], first: int, near: frozenset[str], around: frozenset[str]) -> list[Wish]:
    """The first roles want to be on the nodes that are near, the others around."""
    demands = [(dict(role.requests), bool(role.pods[0].constraints.anti_affinity)) for role in roles]
    return [
        ((amounts.get(GPU, 0), amounts["cpu"] // 1000, apart), near if number < first else around)
        for number, (role, (amounts, apart)) in enumerate(zip(roles, demands, strict=True))
        for _ in role.pods
    ]


def domains(of: Case, level: str) -> list[frozenset[str]]:
    homes = dict.fromkeys(of.home(name, level) for name in of.free)
    return [frozenset(name for name in of.free if of.home(name, level) == home) for home in homes]


def best(of: Case, roles: Sequence[Role]) -> tuple[str, int, bool]:
    """The best result: the nearest level of which one domain can hold the first roles, and how many roles that are.

    Also whether the others can be in the same block. The first roles are all roles wherever that is possible.
    """
    everywhere = frozenset(of.free)
    for level in LEVELS:
        for first in range(len(roles), 0, -1):
            blocks = [(near, block) for near in domains(of, level) for block in domains(of, "block") if near <= block]
            if any(fits(of, wishes(roles, first, near, block)) for near, block in blocks):
                return level, first, True
            if any(fits(of, wishes(roles, first, near, everywhere)) for near, _ in blocks):
                return level, first, False
    return "", 0, False


def split(of: Case, seen: Counter[tuple[str, bool, bool]]) -> str:
    """The part that is split but could be together; empty if there is none.

    ``seen``: counts what could be together.
    """
    view = of.snapshot()
    roles = finish(roles_of(of.pods, (), view, ()))
    assert not isinstance(roles, Unclear)
    level, first, near = best(of, roles)
    seen[level, first == len(roles), near] += 1
    if not level or (of.required and not near):
        return ""
    plan = place(of.pods, of.needed, view)
    if not isinstance(plan, Placed) or len(plan.nodes) < len(of.pods):
        return f"not all are placed: {plan}"
    homes = {of.home(plan.nodes[pod.uid], level) for role in roles[:first] for pod in role.pods}
    blocks = {of.home(name, "block") for name in plan.nodes.values()}
    if len(homes) > 1:
        return f"{first} of {len(roles)} roles are split over {homes}, and one {level} holds them"
    return f"it is split over {blocks}, and one block with that {level} holds it" if near and len(blocks) > 1 else ""


@pytest.mark.parametrize("part", range(PARTS))
def test_what_one_domain_holds_is_not_split(part: int) -> None:
    seen: Counter[tuple[str, bool, bool]] = Counter()
    for seed in range(part, SEEDS, PARTS):
        assert not (wrong := split(case(seed), seen)), f"seed {seed}: {wrong}"
    assert seen["clique", True, True] > 100
    assert seen["clique", False, True] > 5
    assert seen["clique", False, False] > 5


def test_these_worlds_find_a_planner_that_tries_one_order_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("policies.placement.place._Harder.first_filled", lambda *_: quickly({}))
    assert any(split(case(seed), Counter()) for seed in range(SEEDS))


def test_a_second_order_of_roles_is_tried_before_the_gang_is_split() -> None:
    nodes = cluster("c0: 1x3", "c0: 1x7", "c1: 1x4")
    nodes[1] = replace(nodes[1], name="c0-1")
    leader, *_ = gang("leader", 1, gpus=4)
    workers = gang("worker", 5, gpus=1)
    plan = place([leader, *workers], 6, snapshot(nodes))
    assert isinstance(plan, Placed)
    assert {name.partition("-")[0] for name in plan.nodes.values()} == {"c0"}
