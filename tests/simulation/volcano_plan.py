"""Seeds with Queues of Volcano, and their draws: by dice of their own, so that no other draw shifts.

Each Queue has a capability or none, and in half of the seeds some are guaranteed a part. All nodes are of one
flavor.
"""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from random import Random

from extender.simulation.chance import Chance
from policies.model import Node
from policies.model.queues import VOLCANO, QueueObject, VolcanoQueue
from policies.order import Proportion
from tests.builders import GPU
from tests.simulation.batch_plan import has_jobs
from tests.simulation.owner_plan import has_owners
from tests.simulation.preemption_plan import has_preemption
from tests.simulation.queue_plan import FLAVOR, QueuePlan, has_queues, queue_name
from tests.simulation.quota import ALL_NODES


def has_volcano(seed: int) -> bool:
    """Nearly one in thirty; not those with other queues, or that planted bugs are remembered by."""
    return seed % 24 == 13 and not (has_queues(seed) or has_owners(seed) or has_preemption(seed) or has_jobs(seed))


def of_one_flavor(nodes: tuple[Node, ...]) -> tuple[Node, ...]:
    return tuple(replace(node, labels={**node.labels, FLAVOR: ALL_NODES}) for node in nodes)


def volcano_name(dice: Random, plan: QueuePlan) -> str:
    """The queue of a workload, as ``queue_name``.

    Where guarantees limit the Queues, workloads in ``default`` name it: others are there by their PodGroup alone.
    """
    things = *plan.things, *(thing for _, thing, _ in plan.changes)
    limited = any(isinstance(thing, VolcanoQueue) and thing.guarantee for thing in things)
    name = queue_name(dice) or ("default" if limited else "")
    return f"{VOLCANO}{name}" if name else ""


def draw_volcano(nodes: tuple[Node, ...], chance: Chance, *, calm: bool) -> QueuePlan:
    dice = chance.stream("queues of Volcano")
    total = sum(dict(node.allocatable).get(GPU, 0) for node in nodes)

    def queue(name: str) -> VolcanoQueue:
        most = dice.choice((None, total // 4, total // 2, total // 2, total))
        priority, weight = dice.choice((0, 0, 5, -5)), Fraction(dice.choice((1, 1, 3)))
        return VolcanoQueue(name, weight, {} if most is None else {GPU: most}, priority=priority)

    def safe(queue: VolcanoQueue) -> VolcanoQueue:
        amount = min(apart.choice((0, total // 4, total // 2)), queue.capability.get(GPU, total)) if guarantees else 0
        return replace(queue, guarantee={GPU: amount} if amount else {})

    apart = chance.stream("guarantees of Volcano's queues")
    guarantees = apart.random() < 0.5
    names = [f"team{number}" for number in range(3)]
    things: tuple[QueueObject, ...] = (
        *(VolcanoQueue(name) for name in ("root", "default")),
        *map(safe, map(queue, names)),
    )
    changes = [
        (90 * dice.random(), safe(queue(dice.choice(names))), False) for _ in range(0 if calm else dice.randrange(3))
    ]
    between = dice.choice((None, Proportion()))
    return QueuePlan(things, tuple(sorted(changes, key=lambda change: change[0])), between)
