"""Random clusters of three levels, and gangs that ask something of them: all of it from one number."""

from __future__ import annotations

from dataclasses import dataclass, replace
from random import Random

from extender.core.ledger.claims import Claims
from policies.model import Node, Pod, Topology
from policies.model.levels import levels_from
from policies.placement.snapshot import Snapshot
from tests.builders import GPU, gang, node, single

LEVELS = ("clique", "block", "zone")
KEYS = [f"{name}=example.com/{name}" for name in LEVELS]
POLICIES = ("best-fit", "balanced", "least-domains", "spread", "first-fit")


@dataclass(frozen=True)
class Case:
    """``free``: GPUs free on each node; ``where``: its domain at each level, None where it has no label."""

    seed: int
    nodes: list[Node]
    free: dict[str, int]
    where: dict[str, tuple[str | None, ...]]
    pods: list[Pod]
    needed: int
    gpus: int
    topology: Topology
    policy: str

    def snapshot(self) -> Snapshot:
        claims = Claims(levels_from(KEYS))
        for host in self.nodes:
            claims.set_node(host)
            if taken := dict(host.allocatable)[GPU] - self.free[host.name]:
                pod = single(f"busy-{host.name}", gpus=taken, cpu=0)
                claims.confirm(replace(pod, node=host.name))
        return claims.snapshot()


def case(seed: int, most_nodes: int) -> Case:
    """``most_nodes`` bounds the cluster."""
    chance = Random(seed)
    nodes, where = _nodes(chance, chance.randint(1, most_nodes))
    load = chance.choice([0.0, 0.3, 0.7])
    free = {host.name: _left(chance, dict(host.allocatable)[GPU], load) for host in nodes}
    gpus = chance.choice([1, 2, 4, 8])
    slots = sum(amount // gpus for amount in free.values())
    size = chance.randint(1, max(1, min(slots + 2, chance.choice([4, 16, 64]))))
    topology = _topology(chance)
    pods = [replace(pod, topology=topology) for pod in gang("train", size, gpus=gpus, cpu=0)]
    needed = size if chance.random() < 0.7 else chance.randint(1, size)
    return Case(seed, nodes, free, where, pods, needed, gpus, topology, chance.choice(POLICIES))


def _nodes(chance: Random, count: int) -> tuple[list[Node], dict[str, tuple[str | None, ...]]]:
    """Nodes of unequal cliques in unequal blocks; of some clusters a few nodes lack a label."""
    per_clique, per_block = chance.choice([1, 3, 6, 18]), chance.choice([1, 2, 4])
    unlabelled = chance.choice([0.0, 0.0, 0.1])
    size = chance.choice([4, 8])
    nodes: list[Node] = []
    where: dict[str, tuple[str | None, ...]] = {}
    clique = block = 0
    while len(nodes) < count:
        for _ in range(min(chance.randint(1, per_clique), count - len(nodes))):
            domains = (f"c{clique}", f"b{block}", f"z{block // 2}")
            known = tuple(None if chance.random() < unlabelled else name for name in domains)
            labels = {f"example.com/{level}": name for level, name in zip(LEVELS, known, strict=True) if name}
            host = node(f"n{len(nodes):03}", size, labels=labels)
            nodes.append(host)
            where[host.name] = known
        clique += 1
        block += chance.random() < 1 / per_block
    chance.shuffle(nodes)
    return nodes, where


def _left(chance: Random, gpus: int, load: float) -> int:
    if chance.random() >= load:
        return gpus
    return chance.choice([0, 0, chance.randint(0, gpus)])


def _topology(chance: Random) -> Topology:
    required = chance.choice([None, None, "none", *LEVELS])
    preferred = chance.choice([None, None, None, "none", *LEVELS])
    if chance.random() < 0.3:
        return Topology(required, preferred, chance.choice([2, 3, 4, 16]), chance.choice([None, *LEVELS]))
    return Topology(required, preferred)
