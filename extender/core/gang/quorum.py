"""Whether enough of each part of a workload has come: of each podset of a job, or of each role of a gang of pods."""

from __future__ import annotations

from typing import NamedTuple

from extender.core.gang.slots import Slots
from extender.core.member import Stage
from policies.model import Minima, PodSets, SlotKey


class Part(NamedTuple):
    """A part of which there is too little. ``name``: what people call it."""

    name: str
    there: int
    least: int


def short_podset(podsets: PodSets, slots: Slots, stage: Stage, more: tuple[SlotKey, ...] = ()) -> Part | None:
    """The podset that has too few: pods that somebody has moved into the gang stand for none of it. ``more`` slots are
    counted as well. Nodes are planned for all waves together."""
    also, together = [slot[0] for slot in more], stage > Stage.PROMISED
    found = podsets.short(lambda one: slots.reached(stage, one.prefix) + also.count(one.prefix), together=together)
    if found is None:
        return None
    least = found.together if together else found.least
    return Part(f"podset {found.title}", slots.reached(stage, found.prefix), least)


def short_role(minima: Minima, slots: Slots, stage: Stage, more: tuple[SlotKey, ...] = ()) -> Part | None:
    """The role that has too few; ``more`` slots are counted as well."""
    also = [slots.roles.get(slot) for slot in more]
    counted = ((role, slots.of_role(stage, role), least) for role, least in minima)
    return next(
        (Part(f"role {role}", there, least) for role, there, least in counted if there + also.count(role) < least), None
    )


def lacking_roles(minima: Minima, slots: Slots) -> Minima:
    """How many of each role have to get a node yet."""
    return tuple((role, max(0, least - slots.of_role(Stage.PROMISED, role))) for role, least in minima)


def total(size: int | Minima | None) -> int | None:
    """What members say of how many of them start together, in all."""
    return sum(least for _, least in size) if isinstance(size, tuple) else size


def by_role(size: int | Minima | None) -> Minima:
    """The same for each role, where that is said."""
    return size if isinstance(size, tuple) else ()
