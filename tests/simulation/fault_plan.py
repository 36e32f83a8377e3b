"""The faults of a seed, and their times."""

from __future__ import annotations

from dataclasses import dataclass
from random import Random

from extender.core.answers import BindingPosted
from extender.core.effects import (
    AnswerBind,
    Confirm,
    Enqueue,
    Evict,
    Nominate,
    PostBinding,
    Report,
    Reserve,
    Ungate,
    Wake,
)
from extender.core.events import BindArrived
from extender.simulation.chance import Chance
from tests.simulation.faults import FAULTS
from tests.simulation.model.network import Weather

MOMENTS: dict[str, type] = {
    "nomination": Nominate,
    "ungating": Ungate,
    "hold": BindArrived,
    "binding": PostBinding,
    "bound": BindingPosted,
    "failed bind": AnswerBind,
}
"""Moments at which a fault hurts most, by the event or effect of the core."""
REFUSED_MOMENTS: dict[str, type] = {
    "reservation": Reserve,
    "eviction": Evict,
    "confirmation": Confirm,
    "wake": Wake,
    "enqueue": Enqueue,
    "report": Report,
}
"""Moments at which the core makes a request that no plan waits for."""


@dataclass(frozen=True, slots=True)
class Fault:
    """A fault.

    ``what`` is a key of FAULTS. It strikes ``at`` seconds from the beginning, or after the ``nth`` of a moment.
    """

    what: str
    at: float
    moment: str = ""
    nth: int = 0

    def __str__(self) -> str:
        when = f"{self.at:.4f} s" + (f" after {self.moment} number {self.nth}" if self.moment else "")
        return f"{when}: {self.what}"


def draw_fault(random: Random) -> Fault:
    what = random.choice(list(FAULTS))
    if random.random() < 0.3:
        return Fault(what, 90 * random.random())
    delay_s = random.choice((0.0, 0.0005, 0.003, 0.05)) * random.random()
    return Fault(what, delay_s, random.choice(list(MOMENTS)), 1 + int(30 * random.random() ** 2))


def draw_sharp_fault(random: Random) -> Fault:
    what, moments = random.choice(
        (
            ("a pod is made twice", ("nomination", "hold")),
            ("a release breaks", ("bound",)),
            ("a release breaks", ("bound",)),
            ("the API server hangs", ("binding", "bound")),
        )
    )
    delay_s, moment = random.choice((0.0, 0.0005, 0.003)), random.choice(moments)
    return Fault(what, delay_s, moment, 1 + int(12 * random.random() ** 2))


def draw_refused_writes(chance: Chance, seed: int) -> tuple[Fault, ...]:
    """The times at which no write succeeds, in one seed of 23: mostly when one of a kind is requested.

    The dice are their own, so that all other seeds stay the same.
    """
    if seed % 23 != 7 or seed % 8 == 0:
        return ()
    dice, what = chance.stream("when writes are refused"), "writes are refused"
    later = tuple(Fault(what, at * dice.random()) for at in dice.choice(((), (80.0,), (30.0, 90.0))))
    moments = dice.sample(list(REFUSED_MOMENTS), 2)
    return (
        *later,
        *(Fault(what, 0.0, moment, 1 + int(4 * dice.random() ** 2)) for moment in ("reservation", *moments)),
    )


def draw_weather(random: Random, *, calm: bool) -> Weather:
    if calm:
        return Weather(lag_s=random.choice((0.001, 0.01)))
    return Weather(
        hop_s=random.choice((0.0005, 0.003, 0.03)),
        lag_s=random.choice((0.001, 0.01, 0.2)),
        spikes=random.choice((0.0, 0.01)),
        errors=random.choice((0.0, 0.0, 0.02, 0.1)),
        losses=random.choice((0.0, 0.0, 0.02, 0.1)),
        repeats=random.choice((0.0, 0.1)),
    )
