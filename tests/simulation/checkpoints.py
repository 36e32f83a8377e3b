"""Seeds with workloads that write checkpoints: their plan, from dice of their own, and the write.

Losses count in whole device-hours, and a run lasts minutes. So each GPU of such a seed stands for many devices.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from random import Random

from extender.kube.reading.eviction import CHECKPOINTED, terms_of, unreadable_terms
from extender.kube.reading.objects import Meta
from extender.simulation.chance import Chance
from policies.model import GANG_GATE, Dialect, GroupRef, Node, PodSet, Requests
from tests.builders import GPU, requests
from tests.simulation.batch_plan import BatchPlan
from tests.simulation.model.batch import BatchJob
from tests.simulation.model.job_specs import JobSpec, Role
from tests.simulation.model.world import BEGIN_S, World

DEVICES = 360
"""The devices that stand for each GPU: a node with eight GPUs loses a device-hour in 1.25 s."""
_LOW, _URGENT = 0, 30


@dataclass(frozen=True, slots=True)
class Save:
    """A checkpoint. A workload that runs at that second states that it wrote one ``age_s`` ago.

    ``age_s``: negative: in the future; None: an unreadable text.
    """

    at: float
    age_s: float | None


def has_checkpoints(seed: int) -> bool:
    """True for one seed in seven of those with preemption, but none remembered earlier for a planted bug."""
    return seed % 98 == 14


def draw_saves(chance: Chance) -> tuple[Save, ...]:
    dice = chance.stream("checkpoints")
    ages = (0.0, 0.0, 2.0, 10.0, -1e6, -20.0, None)
    return tuple(Save(15 + 75 * dice.random(), dice.choice(ages)) for _ in range(dice.randint(4, 10)))


def alike(
    jobs: Sequence[tuple[float, JobSpec]], batch: BatchPlan, chance: Chance
) -> tuple[tuple[tuple[float, JobSpec], ...], BatchPlan]:
    """Gangs and jobs of one shape that run until they are evicted, and urgent ones that come later.

    The single pods are those of the seed.
    """
    dice = chance.stream("workloads that are alike")
    size, amounts = dice.choice((1, 2, 2, 3)), requests(dice.choice((8, 8, 4)))
    gangs = [(20 * dice.random(), _gang(dice, size, amounts, _LOW)) for _ in range(dice.randint(3, 6))]
    gangs += [
        (40 + 45 * dice.random(), _gang(dice, dice.choice((1, 2, 2)), amounts, _URGENT))
        for _ in range(dice.choice((1, 2, 2, 3)))
    ]
    named = [(at, replace(gang, name=f"job{number}")) for number, (at, gang) in enumerate(gangs)]
    singles = [(at, job) for at, job in jobs if not job.min_member]
    others = tuple(_job(dice, job, size, amounts) for _, job in batch.jobs)
    return (*named, *singles), replace(batch, jobs=others)


def _gang(dice: Random, size: int, amounts: Requests, priority: int) -> JobSpec:
    return JobSpec(
        "",
        (Role(size, amounts),),
        min_member=size,
        run_s=float("inf"),
        priority=priority,
        dialect=dice.choice((Dialect.ANNOTATION, Dialect.COSCHEDULING)),
        gates=(GANG_GATE,) if dice.random() < 0.7 else (),
        indexed=dice.random() < 0.7,
    )


def _job(dice: Random, job: BatchJob, size: int, amounts: Requests) -> tuple[float, BatchJob]:
    urgent = dice.random() < 0.3
    at = 40 + 45 * dice.random() if urgent else 20 * dice.random()
    size = dice.choice((1, 2)) if urgent else size
    group = GroupRef(job.key.name, Dialect.ANNOTATION, size)
    template = job.podsets[0].template
    priority = _URGENT if urgent else _LOW
    template = replace(template, requests=amounts, priority=priority, group=group, created=BEGIN_S + at)
    podset = PodSet(template, size, size, indexed=job.podsets[0].indexed)
    return at, replace(job, podsets=(podset,), run_s=float("inf"), by_pod=False, closes=False)


def in_devices(
    nodes: Sequence[Node], jobs: Sequence[tuple[float, JobSpec]], batch: BatchPlan
) -> tuple[tuple[Node, ...], tuple[tuple[float, JobSpec], ...], BatchPlan]:
    """The same with ``DEVICES`` devices for each GPU."""
    large = tuple(replace(node, allocatable=_times(node.allocatable)) for node in nodes)
    gangs = []
    for at, gang in jobs:
        roles = (replace(role, requests=_times(role.requests)) for role in gang.roles)
        gangs.append((at, replace(gang, roles=tuple(roles))))
    others = []
    for at, job in batch.jobs:
        podsets = (
            replace(podset, template=replace(podset.template, requests=_times(podset.template.requests)))
            for podset in job.podsets
        )
        others.append((at, replace(job, podsets=tuple(podsets))))
    return large, tuple(gangs), replace(batch, jobs=tuple(others))


def _times(amounts: Requests) -> Requests:
    return tuple((name, amount * DEVICES if name == GPU else amount) for name, amount in amounts)


_UNREADABLE = ("", "noon", "1000.5", "2026-13-01T00:00:00Z", "1970-01-01T00:20:00")


def save(world: World, dice: Random, planned: Save) -> None:
    """Write a checkpoint of a running workload, as the user's patch of the object. The real reader reads it."""
    running = [pod for pod in world.api.pods.values() if pod.live and pod.node and pod.group_key is not None]
    if not running:
        return
    pod = dice.choice(running)
    job = world.api.jobs.get(pod.group_key) if pod.group_key is not None else None
    text = dice.choice(_UNREADABLE) if planned.age_s is None else _instant(world.clock.now - planned.age_s)
    meta = Meta(name=pod.name, annotations={CHECKPOINTED: text})
    at, hint = terms_of(meta).checkpointed, next(unreadable_terms(meta), None)
    if job is not None and dice.random() < 0.5:
        world.api.set_job(replace(job, eviction=job.eviction._replace(checkpointed=at), hint=hint))
    else:
        world.api.change_pod(pod.uid, eviction=pod.eviction._replace(checkpointed=at), hint=hint)


def _instant(at: float) -> str:
    return datetime.fromtimestamp(max(0.0, at), UTC).isoformat()
