"""Seeds whose nodes list many names of resources, some of them late and some with nothing of it."""

from __future__ import annotations

from dataclasses import replace
from random import Random

from extender.simulation.chance import Chance
from policies.model import Node, Requests

NAMES = tuple(f"example.com/device-{number:02}" for number in range(16))
"""With the usual ones there are more than the arrays of the core have lines at first. No pod asks for them."""
REGISTERS = "a device plugin registers"


def has_devices(seed: int) -> bool:
    """True for one seed in 41."""
    return seed % 41 == 28


def with_devices(nodes: tuple[Node, ...], chance: Chance) -> tuple[Node, ...]:
    """The same nodes; some of them list more names."""
    dice = chance.stream("names of resources")
    return tuple(replace(node, allocatable=registered(node.allocatable, dice)) for node in nodes)


def registrations(chance: Chance) -> list[tuple[str, float]]:
    """The times at which a node lists more names than before."""
    dice = chance.stream("device plugins")
    return [(REGISTERS, 90 * dice.random()) for _ in range(dice.choice((1, 3, 6)))]


def registered(allocatable: Requests, dice: Random) -> Requests:
    """The same amounts of all other names, with an amount of some of these, which may be 0."""
    names = dice.sample(NAMES, dice.choice((0, 2, 5, 9)))
    return tuple(sorted((dict(allocatable) | {name: dice.choice((0, 0, 4)) for name in names}).items()))
