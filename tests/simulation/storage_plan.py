"""Seeds whose gangs have volume claims that wait for a node: the third of every hundred millions."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from random import Random

from extender.simulation.chance import Chance
from policies.model import GANG_GATE, Node, Topology
from tests.simulation.model.changes import StorageObject
from tests.simulation.model.job_specs import JobSpec
from tests.simulation.model.storage import LOCAL, MADE, asking, classes, counting, free

SIZES = (1, 10)
"""The sizes of volumes and claims: a large volume does for a small claim, too."""


@dataclass(frozen=True, slots=True)
class StoragePlan:
    """``things``: the classes, the volumes that are there, and how much can be made for each node."""

    things: tuple[StorageObject, ...]


def has_storage(seed: int) -> bool:
    return seed // 1_000_000 % 100 == 2


def draw_storage(
    nodes: Sequence[Node], jobs: Sequence[tuple[float, JobSpec]], chance: Chance
) -> tuple[tuple[tuple[float, JobSpec], ...], StoragePlan]:
    """Most gangs have claims, of volumes that are there or that are made for some of the nodes."""
    dice = chance.stream("volumes")
    gangs = [(at, job) for at, job in jobs if job.min_member and not job.pending]
    drawn = []
    for at, job in gangs:
        storage = dice.choice((None, asking(LOCAL, 1), asking(LOCAL, 1), asking(LOCAL, 10), asking(MADE, 5)))
        gates = (GANG_GATE,) if job.gates else ()
        drawn.append((at, replace(job, storage=storage, topology=Topology(), gates=gates, replaces=True)))
    volumes = [
        free(f"{node.name}-{number}", node.name, dice.choice(SIZES))
        for node in nodes
        for number in range(dice.choice((0, 1, 2, 4)))
    ]
    names = tuple(node.name for node in nodes if dice.random() < 0.6) or (nodes[0].name,)
    capacities: tuple[StorageObject, ...] = ()
    of_driver = chance.stream("capacities")
    if of_driver.random() < 0.4:
        capacities = counting({name: of_driver.choice((0, 5, 10, 20)) for name in names})
        drawn = [(at, _with_made(of_driver, job)) for at, job in drawn]
    return tuple(drawn), StoragePlan((*classes(names), *capacities, *volumes))


def _with_made(dice: Random, job: JobSpec) -> JobSpec:
    """The gang, whose volumes may be made."""
    return replace(job, storage=asking(MADE, dice.choice((5, 8)))) if dice.random() < 0.5 else job
