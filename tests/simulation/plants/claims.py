"""Bugs about devices: promised twice, taken from a pod that may be bound, or left by a plan."""

from __future__ import annotations

from dataclasses import replace

import pytest

from extender.core.events import DeviceClaimGone, DeviceClaimSeen
from extender.core.gate.allocations import Allocations
from extender.core.ledger.device_users import DeviceUsers
from extender.core.ledger.devices import Devices
from policies.devices.inventory import Inventory
from policies.model import Pod


def devices_of_claims_promised_once_more(patch: pytest.MonkeyPatch) -> None:
    """Devices that claims have count as free."""
    patch.setattr(Inventory, "hold", lambda *_, **__: None)


def allocation_taken_back_while_a_binding_is_under_way(patch: pytest.MonkeyPatch) -> None:
    """Allocations are cleared without a look at reservations and at the pod."""
    note = Allocations.note

    def noted(self: Allocations, event: DeviceClaimSeen | DeviceClaimGone) -> None:
        note(self, event)
        if isinstance(event, DeviceClaimSeen) and event.claim.allocation is not None:
            key = event.claim.namespace, event.claim.name
            self._left[key] = self._look[key] = None

    patch.setattr(Allocations, "note", noted)
    patch.setattr(Allocations, "_waits", lambda *_: True)


def plan_leaves_the_devices_of_an_earlier_start(patch: pytest.MonkeyPatch) -> None:
    """Nodes are chosen without a look at allocations."""
    resolved = Devices.resolved

    def anywhere(self: Devices, pod: Pod) -> Pod:
        known = resolved(self, pod)
        return replace(known, selection=replace(known.selection, devices=()))

    patch.setattr(Devices, "resolved", anywhere)


def devices_that_come_back_are_taken_for_lost(patch: pytest.MonkeyPatch) -> None:
    """A slot whose pod has ended does not wait until Kubernetes has deleted the claims of that pod."""
    patch.setattr(Devices, "are_coming_back", lambda *_: False)


def allocations_of_failed_starts_are_never_taken_back(patch: pytest.MonkeyPatch) -> None:
    """Devices of a start that failed block others until their pods are deleted."""
    patch.setattr(Allocations, "_is_idle", lambda *_: False)


def devices_of_extended_resources_are_not_counted(patch: pytest.MonkeyPatch) -> None:
    """The devices of an extended resource are not known: no node lists it."""
    patch.setattr(Devices, "_ask_by_resources", lambda *_, **__: None)


def restarts_recover_before_devices_are_counted(patch: pytest.MonkeyPatch) -> None:
    """A restart judges plans by what nodes offer before devices and volumes are counted."""
    patch.setattr(DeviceUsers, "settle_all", lambda _: iter(()))
