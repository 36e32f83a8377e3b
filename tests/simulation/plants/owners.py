"""Bugs in the core's reading of the objects that make gangs' pods: how many there are, and which come later."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from extender.core.effects import Effect, Enqueue
from extender.core.events import Event, GroupJobSeen, OwnerGone, OwnerSeen
from policies.model import Order, PodSets
from tests.simulation.plants.mutants import Core, asks, hears


@hears
def quorum_of_an_ordered_owner_counts_all_waves(event: Event, core: Core) -> Iterable[Event]:
    match event:
        case OwnerSeen(owner) if owner.podset is not None:
            yield OwnerSeen(replace(owner, podset=replace(owner.podset, order=Order.TOGETHER)))
        case _:
            yield event


@hears
def size_of_a_scaled_owner_not_read(event: Event, core: Core) -> Iterable[Event]:
    match event:
        case OwnerSeen(owner):
            yield OwnerSeen(core.notes.setdefault((owner.key, owner.uid), owner))
        case OwnerGone(key, uid):
            core.notes.pop((key, uid), None)
            yield event
        case _:
            yield event


@hears
def pods_that_come_later_not_planned_with_the_first(event: Event, core: Core) -> Iterable[Event]:
    match event:
        case OwnerSeen(owner) if owner.podset is not None:
            yield OwnerSeen(replace(owner, podset=None, minimum=1))
        case _:
            yield event


@hears
def pods_asked_for_before_they_are_planned(event: Event, core: Core) -> Iterable[Event]:
    match event:
        case GroupJobSeen(job):
            yield GroupJobSeen(replace(job, podsets=PodSets(job.key, ())))
        case _:
            yield event


@asks
def podgroups_never_taken_up(effect: Effect, core: Core) -> Iterable[Effect]:
    if not isinstance(effect, Enqueue):
        yield effect
