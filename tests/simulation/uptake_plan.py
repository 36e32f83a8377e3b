"""Seeds with gangs whose pods come when their PodGroup was taken up: by dice of their own."""

from __future__ import annotations

from dataclasses import replace
from random import Random

from extender.simulation.chance import Chance
from policies.model import GANG_GATE
from tests.simulation.batch_plan import has_jobs
from tests.simulation.model.job_specs import JobSpec
from tests.simulation.owner_plan import has_owners
from tests.simulation.queue_plan import has_queues
from tests.simulation.relation_plan import has_relations
from tests.simulation.role_plan import as_volcano_says


def has_uptake(seed: int) -> bool:
    """True for one seed in seventeen, except those with suspended jobs, owners, relations or queues."""
    return seed % 17 == 8 and not (has_jobs(seed) or has_owners(seed) or has_relations(seed) or has_queues(seed))


def hold_back(jobs: tuple[tuple[float, JobSpec], ...], chance: Chance) -> tuple[tuple[float, JobSpec], ...]:
    """The same jobs, of which most gangs are Volcano Jobs."""
    dice = chance.stream("pods that wait for their PodGroup")
    return tuple((at, _held(job, dice) if job.min_member and dice.random() < 0.7 else job) for at, job in jobs)


def _held(job: JobSpec, dice: Random) -> JobSpec:
    job = as_volcano_says(job, dice)
    roles = tuple(replace(role, series=role.name) for role in job.roles)
    # With a foreign gate its pods would have to come first.
    gates = tuple(gate for gate in job.gates if gate == GANG_GATE)
    return replace(job, roles=roles, gates=gates, pending=True, replaces=True, indexed=True)
