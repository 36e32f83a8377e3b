"""Which seeds have a kube-scheduler that is slow at first, with many pods of no gang before those of the jobs."""

from __future__ import annotations

from dataclasses import replace

from extender.simulation.chance import Chance
from tests.builders import requests
from tests.simulation.model.cycle import Profile
from tests.simulation.model.job_specs import JobSpec, Role
from tests.simulation.model.world import BEGIN_S


def is_slow(seed: int) -> bool:
    """One in 150, none of them calm; all of them have suspended jobs."""
    return seed % 110 == 76 and seed % 8 != 0


def slow(profile: Profile, chance: Chance) -> Profile:
    """It takes seconds for a pod, and no bind fails for that. In a third of the seeds it stands still after each."""
    dice = chance.stream("how slow kube-scheduler is")
    slow_until = BEGIN_S + dice.choice((60.0, 90.0))
    slow_s = dice.choice((2.0, 4.0, 7.0))
    slow_s = 50.0 if chance.stream("kube-scheduler stands still").random() < 1 / 3 else slow_s
    return replace(profile, slow_s=slow_s, slow_until=slow_until, bind_timeout_s=300.0)


def ahead(chance: Chance) -> tuple[tuple[float, JobSpec], ...]:
    """Pods of no gang that are created at about the same time."""
    dice = chance.stream("pods of no gang before others")
    one, count = (Role(1, requests(0, cpu=1)),), dice.randint(8, 24)
    return tuple((20 * dice.random() ** 2, JobSpec(f"plain{n}", one, replaces=False)) for n in range(count))
