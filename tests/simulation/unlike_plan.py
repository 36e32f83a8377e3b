"""Seeds in which the API server adds fields to the pods of jobs when they are created: the additions, and the jobs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from random import Random

from extender.simulation.chance import Chance
from policies.model import Node
from tests.simulation.model.additions import POOL, Added
from tests.simulation.model.batch import BatchJob

_SMALL = 8_000
"""Millicores of a small node: of the pods of a template it takes eight, and none with a sidecar."""


def has_unlike_pods(seed: int) -> bool:
    """True for one seed in 55: some of those with suspended jobs, but none remembered for a planted bug."""
    return seed % 330 in (48, 68, 98, 158, 188, 278)


def tries_pods(seed: int) -> bool:
    """Half of these have dry runs."""
    return has_unlike_pods(seed) and seed % 660 >= 330


def with_unlike_pods(jobs: Sequence[BatchJob], chance: Chance) -> list[BatchJob]:
    dice = chance.stream("what the API server adds to pods")
    return [_unlike(job, dice) if dice.random() < 0.7 else job for job in jobs]


def in_sizes(nodes: Sequence[Node], chance: Chance) -> tuple[Node, ...]:
    """Make some nodes small, and put some into the pool."""
    dice = chance.stream("which nodes are small")
    made = []
    for node in nodes:
        cpu = _SMALL if dice.random() < 0.4 else dict(node.allocatable)["cpu"]
        labels = {**node.labels, POOL: "a"} if dice.random() < 0.5 else node.labels
        made.append(
            replace(node, allocatable=tuple(sorted({**dict(node.allocatable), "cpu": cpu}.items())), labels=labels)
        )
    return tuple(made)


def _unlike(job: BatchJob, dice: Random) -> BatchJob:
    added = dice.choice((Added(cpu=_SMALL), Added(cpu=_SMALL), Added(tolerates=True), Added(pool="a")))
    return replace(
        job, podsets=tuple(replace(podset, shape=f"{added.shape(job.uid)}/{podset.name}") for podset in job.podsets)
    )
