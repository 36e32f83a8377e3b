"""Bugs in the use of host ports, affinity, anti-affinity and spread: of members, and of pods on nodes."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any

import pytest

from extender.core.events import Event, JobSeen, PodSeen
from extender.core.gate import binding, refusals, steering
from extender.core.ledger import kube_scheduler as verdicts
from extender.core.ledger.pending import Changes
from extender.core.ledger.singles import WaitingSingles
from extender.core.queue import planner
from policies.model import Pod, PodSet
from policies.placement.snapshot import Snapshot
from policies.placement.tenants import Tenants
from policies.steps import Steps, quickly
from tests.simulation.plants.mutants import Core, hears


def _without(event: Event, what: str) -> Event:
    """The event without that demand."""

    def plain(pod: Pod) -> Pod:
        less: dict[str, Any] = {what: ()}
        return replace(pod, constraints=replace(pod.constraints, **less))

    def plain_set(podset: PodSet) -> PodSet:
        return replace(podset, template=plain(podset.template))

    match event:
        case PodSeen(pod):
            return PodSeen(plain(pod))
        case JobSeen(job):
            podsets = replace(job.podsets, podsets=tuple(map(plain_set, job.podsets.podsets)))
            return JobSeen(replace(job, podsets=podsets))
        case _:
            return event


@hears
def host_ports_ignored(event: Event, core: Core) -> Iterable[Event]:
    yield _without(event, "ports")


@hears
def affinity_ignored(event: Event, core: Core) -> Iterable[Event]:
    yield _without(event, "affinity")


@hears
def anti_affinity_of_pods_that_are_there_ignored(event: Event, core: Core) -> Iterable[Event]:
    """Only the demands of new pods are honored, not those of pods that are on nodes."""
    yield _without(event, "anti_affinity") if isinstance(event, PodSeen) and event.pod.node else event


def spread_counted_without_the_pods_that_are_there(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Tenants, "counted", lambda self, spread, namespace: quickly([]))


def no_look_at_who_has_come_before_a_release(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(binding, "tenant_conflict", lambda *_: None)


def nominations_of_singles_ignored(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(WaitingSingles, "nominated_before", lambda self, gang: [])


def rounds_let_in_at_once(patch: pytest.MonkeyPatch) -> None:
    """Members that block each other until others have come are steered together."""

    def together(seated: Sequence[tuple[Pod, str]], snapshot: Snapshot) -> Steps[list[list[int]]]:
        yield from ()
        return [list(range(len(seated)))]

    patch.setattr(planner, "letting_in", together)


def related_pods_that_come_are_not_noticed(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Changes, "note_pod", lambda self, pod, old: None)


def members_that_others_keep_away_are_not_woken(patch: pytest.MonkeyPatch) -> None:
    """Only members with demands of their own are woken."""
    parked = verdicts.parked
    for module in (steering, refusals):
        patch.setattr(module, "parked", lambda pod, tenants: bool(pod.constraints) and parked(pod, tenants))
