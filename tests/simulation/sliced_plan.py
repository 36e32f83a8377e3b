"""Which seeds have a core that does little at a time, so that much happens in the middle of what it does."""

from __future__ import annotations

from dataclasses import dataclass

from extender.simulation.chance import Chance


@dataclass(frozen=True, slots=True)
class Slices:
    """``units``: what one Tick does (``Limits.slice_units``). ``pause_s``: what passes between two of them."""

    units: int
    pause_s: float


def is_sliced(seed: int) -> bool:
    """One in 60, none of them calm."""
    return seed % 53 == 29 and seed % 8 != 0


def draw_slices(chance: Chance) -> Slices:
    dice = chance.stream("slices of the core")
    return Slices(dice.choice((3, 8, 20)), dice.choice((0.002, 0.01, 0.05)))
