"""At rest: nobody waits for whom one gang or job of a lower priority would make room, whatever is written on that."""

from __future__ import annotations

from collections.abc import Iterator

from policies.model import GroupKey, Pod
from tests.simulation import relations
from tests.simulation.model.world import World
from tests.simulation.plan import Plan
from tests.simulation.referee import Referee
from tests.simulation.sight import Room, by_gang, left_over, look, on_nodes


def rooms_without(world: World, referee: Referee, key: GroupKey, plan: Plan) -> Iterator[tuple[GroupKey, Room]]:
    """What is free without each of those that may surely be evicted for it. Judged in the seeds whose workloads write
    checkpoints, where nothing but priorities says who may: no queues, no budgets, and nobody to whom other pods matter.
    Who has given way before may be spared, and so may all, for a while, where that was of no use."""
    api = world.api
    if not plan.saves or plan.queues.things or plan.budgets or plan.barred or key in referee.gave_way:
        return
    gangs, job = by_gang(api.pods.values()), api.jobs.get(key)
    mine = [*gangs.get(key, ()), *(one.template for one in (job.podsets if job is not None else ()))]
    if relations.related(mine, on_nodes(api.pods.values())):
        return
    priority = _priority(world, key, gangs)
    for other, pods in gangs.items():
        if other not in referee.gave_way and _runs(world, other, pods) and _priority(world, other, gangs) < priority:
            yield other, left_over(api.nodes, [pod for pod in api.pods.values() if pod not in pods])


def _priority(world: World, key: GroupKey, gangs: dict[GroupKey, list[Pod]]) -> int:
    job = world.api.jobs.get(key)
    said = [] if job is None else [one.template.priority for one in job.podsets]
    return max([*said, *(pod.priority for pod in gangs.get(key, ()))])


def _runs(world: World, key: GroupKey, pods: list[Pod]) -> bool:
    """As a whole, by Bindings of ours, and nothing of it is on its way."""
    job, sight = world.api.jobs.get(key), look(pods, world.api.groups, world.api.podsets, ended=world.api.done(key))
    if job is not None and (job.suspended or job.plan is None or job.ended or job.done):
        return False
    bound = all(pod.live and pod.node in world.api.nodes and pod.stamp is not None for pod in pods)
    return bound and sight.enough(sight.bound) and not any(pod.group and pod.group.owner for pod in pods)
