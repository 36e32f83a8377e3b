"""Seeds with an unusual process: a core that does little at a time or fails on objects, a slow kube-scheduler.

An object that the core fails on is left out until it changes, and everything else continues.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from extender.simulation.chance import Chance
from tests.builders import requests
from tests.simulation.model.cycle import Profile
from tests.simulation.model.job_specs import JobSpec, Role
from tests.simulation.model.world import BEGIN_S


@dataclass(frozen=True, slots=True)
class Slices:
    """The slices.

    ``units``: the work of one Tick (``Limits.slice_units``).
    ``pause_s``: the pause between two of them.
    """

    units: int
    pause_s: float


def is_sliced(seed: int) -> bool:
    """True for one seed in 60, none of them calm."""
    return seed % 53 == 29 and seed % 8 != 0


def draw_slices(chance: Chance) -> Slices:
    dice = chance.stream("slices of the core")
    return Slices(dice.choice((3, 8, 20)), dice.choice((0.002, 0.01, 0.05)))


def is_slow(seed: int) -> bool:
    """True for one seed in 150, none of them calm; all of them have suspended jobs."""
    return seed % 110 == 76 and seed % 8 != 0


def slow(profile: Profile, chance: Chance) -> Profile:
    """The profile of a kube-scheduler that takes seconds for a pod, without failing any bind.

    In a third of the seeds it stands still after each pod.
    """
    dice = chance.stream("how slow kube-scheduler is")
    slow_until = BEGIN_S + dice.choice((60.0, 90.0))
    slow_s = dice.choice((2.0, 4.0, 7.0))
    slow_s = 50.0 if chance.stream("kube-scheduler stands still").random() < 1 / 3 else slow_s
    return replace(profile, slow_s=slow_s, slow_until=slow_until, bind_timeout_s=300.0)


def ahead(chance: Chance) -> tuple[tuple[float, JobSpec], ...]:
    """Single pods that are created at about the same time."""
    dice = chance.stream("pods of no gang before others")
    roles, count = (Role(1, requests(0, cpu=1)),), dice.randint(8, 24)
    return tuple((20 * dice.random() ** 2, JobSpec(f"plain{n}", roles, replaces=False)) for n in range(count))


FAILS_THE_CORE = "the core fails on an object"


def has_failures(seed: int) -> bool:
    """True for one seed in 42, none of them calm."""
    return seed % 37 == 27 and seed % 8 != 0


def draw_failures(chance: Chance) -> list[tuple[str, float]]:
    """The times at which a user writes such an object."""
    dice = chance.stream("objects that the core fails on")
    return [(FAILS_THE_CORE, 90 * dice.random()) for _ in range(dice.choice((1, 3, 8)))]
