"""Seeds in which the core fails on objects: each is left out until it changes, and everything else goes on."""

from __future__ import annotations

from extender.simulation.chance import Chance

FAILS_THE_CORE = "the core fails on an object"


def has_failures(seed: int) -> bool:
    """One in 42, none of them calm."""
    return seed % 37 == 27 and seed % 8 != 0


def draw_failures(chance: Chance) -> list[tuple[str, float]]:
    """When somebody writes such an object."""
    dice = chance.stream("objects that the core fails on")
    return [(FAILS_THE_CORE, 90 * dice.random()) for _ in range(dice.choice((1, 3, 8)))]
