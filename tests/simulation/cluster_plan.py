"""The nodes of a seed, and the gangs and single pods that are submitted to them."""

from __future__ import annotations

from dataclasses import replace
from random import Random

from policies.model import GANG_GATE, Dialect, Node, Selection, Taint, Toleration, Topology
from tests.builders import node, requests
from tests.simulation.model.job_specs import JobSpec, Role

FOREIGN_GATE = "example.com/quota"
_TAINT = Taint("dedicated", "gang", "NoSchedule")
TOLERATIONS = (Toleration("dedicated", "Equal", "gang", "NoSchedule"),)


def draw_nodes(random: Random, count: int) -> tuple[Node, ...]:
    """Draw ``count`` nodes; 0: a few."""
    nodes = []
    for number in range(count or random.randint(1, 6)):
        made = node(f"n{number:02}", random.choice((8, 8, 8, 4)), clique=f"c{number // 4}")
        nodes.append(replace(made, taints=(_TAINT,)) if random.random() < 0.1 else made)
    return tuple(nodes)


def draw_submitted(random: Random, *, large: bool, series: bool) -> tuple[tuple[float, JobSpec], ...]:
    jobs = [
        (
            random.choice((0.0, 0.0, 60 * random.random())),
            _gang(random, f"job{number}", largest=64 if large else 8, series=series),
        )
        for number in range(random.randint(2, 4 if large else 7))
    ]
    singles = [
        (60 * random.random(), _single(random, f"single{number}")) for number in range(random.choice((0, 0, 2, 6)))
    ]
    return (*jobs, *singles)


def _gang(random: Random, name: str, largest: int, *, series: bool) -> JobSpec:
    """``series``: each role numbers its members from 0, as the jobs of a JobSet do."""
    size = random.choice((1, 2, 3, 4, largest, random.randint(1, largest)))
    gpus = random.choice((8, 4, 2, 1) if largest <= 8 else (1, 2))
    roles = [Role(size, requests(gpus), _selection(random))]
    if random.random() < 0.3:
        roles.append(Role(random.randint(1, 2), requests(0, cpu=random.choice((1, 8))), roles[0].selection))
        if series:
            roles = [replace(role, series=f"role{number}") for number, role in enumerate(roles)]
    total = sum(role.replicas for role in roles)
    gates = [GANG_GATE] if random.random() < 0.7 else []
    if random.random() < 0.05:
        gates.append(FOREIGN_GATE)
    return JobSpec(
        name,
        tuple(roles),
        min_member=max(1, total - random.choice((0, 0, 0, 1, total // 2))),
        run_s=random.choice((float("inf"), 5 + 55 * random.random())),
        priority=random.choice((0, 0, 0, 10)),
        dialect=random.choice((Dialect.ANNOTATION, Dialect.COSCHEDULING)),
        gates=tuple(gates),
        indexed=random.random() < 0.7,
        replaces=random.random() < 0.9,
        ttl_s=random.choice((0.0, 5.0, 60.0)),
        topology=random.choice((Topology(),) * 3 + (Topology(required="clique"), Topology(preferred="clique"))),
    )


def _single(random: Random, name: str) -> JobSpec:
    return JobSpec(
        name,
        (Role(1, requests(random.choice((1, 2, 8))), _selection(random)),),
        run_s=random.choice((float("inf"), 30 * random.random())),
        priority=random.choice((0, 0, 5, 20)),
        # A victim that came back at once would be preempted indefinitely by a pod that a gang blocks.
        replaces=False,
    )


def _selection(random: Random) -> Selection:
    return Selection(tolerations=TOLERATIONS if random.random() < 0.3 else ())
