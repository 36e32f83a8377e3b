"""Bugs in the use of volumes and of the claims that wait for them."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Any

import pytest

from extender.core.events import ClaimSeen, Event, StorageDriverSeen, VolumeSeen
from extender.core.ledger.device_users import DeviceUsers
from extender.core.ledger.volumes import Volumes
from tests.simulation.plants.mutants import Core, hears


def volumes_are_not_counted(patch: pytest.MonkeyPatch) -> None:
    """Pods whose claims wait for volumes go wherever there is room."""
    patch.setattr(Volumes, "_amounts_of", lambda _self, _held: ())


@hears
def nodes_that_kube_scheduler_has_chosen_ignored(event: Event, core: Core) -> Iterable[Event]:
    """An unbound claim counts as one that may go anywhere."""
    match event:
        case ClaimSeen(bound=False):
            yield replace(event, node="")
        case VolumeSeen(bound=False, claim=str(claim)) if claim:
            yield replace(event, namespace="", claim="")
        case _:
            yield event


def volumes_that_come_free_wake_nobody(patch: pytest.MonkeyPatch) -> None:
    planted = DeviceUsers.wake_for_grown

    def wake(self: DeviceUsers, counted: Any) -> None:
        counted.offers.take_grown() if isinstance(counted, Volumes) else planted(self, counted)

    patch.setattr(DeviceUsers, "wake_for_grown", wake)


@hears
def capacities_unheard(event: Event, core: Core) -> Iterable[Event]:
    """A driver is taken to make any volume for any node."""
    match event:
        case StorageDriverSeen(name):
            yield StorageDriverSeen(name, counts=False)
        case _:
            yield event


def each_volume_may_use_the_whole_capacity(patch: pytest.MonkeyPatch) -> None:
    """Whether a volume can be made is judged claim by claim, as kube-scheduler does."""
    patch.setattr(Volumes, "_bytes_on", lambda *_: 1 << 56)
