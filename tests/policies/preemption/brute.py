"""Random small clusters, and the best victims by trying out every choice of them: nothing here is of the product but
its nouns."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import chain, combinations
from random import Random

from policies.model import Node, Pod, Topology
from policies.placement.snapshot import Snapshot
from policies.preemption.candidates import Candidate, Held, Limits, Request, Unit
from tests.builders import GPU, cluster, gang, requests, single, snapshot

NOW = 1_000_000.0
HOUR = 3600


@dataclass(frozen=True)
class Case:
    """``free``: GPUs free on each node beside the candidates. ``shapes``: how many members ask for how many GPUs."""

    nodes: list[Node]
    free: dict[str, int]
    candidates: list[Candidate]
    shapes: list[tuple[int, int]]
    topology: Topology
    limits: Limits

    @property
    def request(self) -> Request:
        pods = [
            replace(pod, topology=self.topology)
            for at, (count, gpus) in enumerate(self.shapes)
            for pod in gang(f"role{at}", count, gpus=gpus, cpu=0)
        ]
        return Request("preemptor", pods, len(pods), 10)

    def snapshot(self, chance: Random | None = None) -> Snapshot:
        """``chance``: nodes and pods come in another order."""
        nodes, pods = list(self.nodes), list(self._pods())
        if chance is not None:
            chance.shuffle(nodes)
            chance.shuffle(pods)
        return snapshot(nodes, *pods)

    def _pods(self) -> Iterator[Pod]:
        for node in self.nodes:
            claims = [held for candidate in self.candidates for held in candidate.claims if held.node == node.name]
            taken = sum(held.pods * dict(held.requests).get(GPU, 0) for held in claims)
            if rest := dict(node.allocatable)[GPU] - self.free[node.name] - taken:
                yield single(f"fixed-{node.name}", gpus=rest, cpu=0, node=node.name)
        for candidate in self.candidates:
            for at, held in enumerate(candidate.claims):
                for number in range(held.pods):
                    name = f"{candidate.name}-{at}-{number}"
                    yield Pod(name, "default", name, held.requests, node=held.node)


def case(seed: int) -> Case:
    chance = Random(seed)
    gpus = chance.choice([2, 4, 8])
    nodes = cluster(*(f"{'abcd'[at]}: {chance.randint(1, 3)}x{gpus}" for at in range(chance.randint(1, 4))))
    left = {node.name: gpus for node in nodes}
    for name in left:
        if chance.random() < 0.2:
            left[name] -= chance.randint(0, gpus)
    candidates: list[Candidate] = []
    for number in range(chance.randint(3, 9)):
        candidates += _candidate(chance, f"v{number}", left)
    for name in left:
        if chance.random() < 0.9:
            left[name] = 0
    shapes = [(chance.randint(1, 6), chance.choice([1, 1, 2, gpus // 2, gpus]))]
    if chance.random() < 0.25:
        shapes.append((chance.randint(1, 2), chance.choice([1, gpus])))
    topology = Topology(required="clique") if chance.random() < 0.6 else Topology()
    budgets = {"pdb": chance.randint(0, 2)} if chance.random() < 0.3 else {}
    return Case(nodes, left, candidates, shapes, topology, Limits(NOW, 60, 2, budgets))


def _candidate(chance: Random, name: str, left: dict[str, int]) -> list[Candidate]:
    """A pod, or a gang on some nodes; of some gangs one part is surplus."""
    unit = chance.choice([Unit.POD, Unit.WORKLOAD, Unit.WORKLOAD])
    claims = []
    for node in chance.sample(sorted(left), min(len(left), 1 if unit is Unit.POD else chance.randint(1, 3))):
        if left[node]:
            much = chance.randint(1, left[node])
            left[node] -= much
            claims.append(Held(node, requests(much, 0)) if chance.random() < 0.5 else Held(node, requests(1, 0), much))
    if not claims:
        return []
    age = chance.randint(1, 12) * HOUR
    whole = Candidate(
        name,
        unit,
        chance.choice([0, 0, 0, 1, 1, 2, 10]),
        NOW - age,
        tuple(claims),
        chance.choice([None, *[NOW - age] * 7, NOW - 30]),
        chance.choice([None, NOW - age / 2]),
        budgets=(("pdb", 1),) if chance.random() < 0.3 else (),
        evictions=chance.choice([0] * 9 + [2]),
    )
    if unit is Unit.WORKLOAD and len(claims) > 1 and chance.random() < 0.4:
        surplus = replace(
            whole, name=f"{name}-surplus", unit=Unit.SURPLUS, workload=name, claims=tuple(claims[:1]), budgets=()
        )
        return [surplus, replace(whole, claims=tuple(claims[1:]))]
    return [whole]


Best = tuple[int, list[tuple[int, int, int]]]


def price(gone: list[Candidate]) -> Best:
    """The highest unit, then device-hours and victims of each priority, the highest first."""
    levels = []
    for priority in sorted({victim.priority for victim in gone}, reverse=True):
        those = [victim for victim in gone if victim.priority == priority]
        levels.append((priority, sum(_hours(victim) for victim in those), len(those)))
    return max((int(victim.unit) for victim in gone), default=0), levels


def _hours(one: Candidate) -> int:
    if one.started is None:
        return 0
    since = max(one.started, one.checkpointed or 0)
    gpus = sum(held.pods * dict(held.requests).get(GPU, 0) for held in one.claims)
    return int(gpus * max(0, NOW - since) // HOUR)


def best(of: Case) -> tuple[Best, list[tuple[str, ...]]] | None:
    """The least price, and every choice of victims that has it; None if no eviction helps."""
    may = [candidate for candidate in of.candidates if _may_go(candidate, of.limits)]
    cheapest: dict[str, tuple[Best, list[tuple[str, ...]]]] = {}
    for chosen in chain.from_iterable(combinations(may, size) for size in range(len(may) + 1)):
        gone = list(chosen)
        if not _together(gone, of) or not fits(of, gone):
            continue
        here, names = price(gone), tuple(sorted(victim.name for victim in gone))
        known = cheapest.get("best")
        if known is None or here < known[0]:
            cheapest["best"] = here, [names]
        elif here == known[0]:
            known[1].append(names)
    return cheapest.get("best")


def _may_go(one: Candidate, limits: Limits) -> bool:
    ran_enough = one.started is None or NOW - one.started >= limits.min_runtime_s
    return one.priority < 10 and ran_enough and one.evictions < 2


def _together(gone: list[Candidate], of: Case) -> bool:
    names = {candidate.name for candidate in gone}
    for victim in gone:
        needed = {other.name for other in of.candidates if other.workload == victim.name}
        if not needed <= names:
            return False
    counted = sum(number for candidate in gone for _, number in candidate.budgets)
    return counted <= of.limits.budgets.get("pdb", counted)


def fits(of: Case, gone: list[Candidate]) -> bool:
    """Whether all members have room at once when these are gone, in one clique if that is required."""
    free = dict(of.free)
    for victim in gone:
        for held in victim.claims:
            free[held.node] += held.pods * dict(held.requests)[GPU]
    members = sorted((gpus for count, gpus in of.shapes for _ in range(count)), reverse=True)
    if of.topology.required is None:
        return _pack(members, list(free.values()))
    cliques = sorted({name.partition("-")[0] for name in free})
    return any(_pack(members, [much for name, much in free.items() if name.startswith(clique)]) for clique in cliques)


def _pack(members: list[int], free: list[int]) -> bool:
    """Every way to give each a node."""
    if not members:
        return True
    seen = set()
    for at, much in enumerate(free):
        if much >= members[0] and much not in seen:
            seen.add(much)
            if _pack(members[1:], [*free[:at], much - members[0], *free[at + 1 :]]):
                return True
    return False
