"""Seeds with gangs that have a minimum for each role: by dice of their own, so that no other draw shifts."""

from __future__ import annotations

from dataclasses import replace
from random import Random

from extender.simulation.chance import Chance
from policies.model import Dialect
from tests.builders import requests
from tests.simulation.model.job_specs import JobSpec, Role


def has_roles(seed: int) -> bool:
    """True for one seed in seventeen, except those with hundreds of nodes."""
    return seed % 17 == 14 and seed % 40 != 39


def cast(jobs: tuple[tuple[float, JobSpec], ...], chance: Chance) -> tuple[tuple[float, JobSpec], ...]:
    """The same jobs, of which most gangs have roles, as a PodGroup of Volcano says them."""
    dice = chance.stream("minima of roles")
    return tuple(
        (at, as_volcano_says(job, dice) if job.min_member and dice.random() < 0.8 else job) for at, job in jobs
    )


def as_volcano_says(job: JobSpec, dice: Random) -> JobSpec:
    """A gang of more than one member has at least two roles, of one shape or of two. Some roles have no minimum."""
    roles = job.roles
    if len(roles) == 1 and job.size > 1:
        first = dice.randint(1, job.size - 1)
        other = dice.choice((roles[0].requests, requests(1)))
        roles = (replace(roles[0], replicas=first), replace(roles[0], replicas=job.size - first, requests=other))
    named = tuple(replace(role, name=f"role{number}") for number, role in enumerate(roles))
    minima = tuple((role.name, least) for role in named if (least := _least(role, dice)))
    total = sum(least for _, least in minima)
    least = max(1, total, dice.choice((0, job.min_member)))
    return replace(job, roles=named, minima=minima, min_member=least, dialect=Dialect.VOLCANO)


def _least(role: Role, dice: Random) -> int:
    return dice.choice((role.replicas, role.replicas, max(1, role.replicas // 2), 1, 0))
