"""Bugs about devices: promised twice, taken from a pod that may be bound, or left by a plan."""

from __future__ import annotations

from dataclasses import replace

import pytest

from extender.core.events import DeviceClaimGone, DeviceClaimSeen
from extender.core.gate.allocations import Allocations
from extender.core.ledger.devices import Devices
from policies.devices.inventory import Inventory
from policies.model import Pod


def devices_of_claims_promised_once_more(patch: pytest.MonkeyPatch) -> None:
    """What claims hold counts as free."""
    patch.setattr(Inventory, "hold", lambda *_, **__: None)


def allocation_taken_back_while_a_binding_is_under_way(patch: pytest.MonkeyPatch) -> None:
    """It is looked at neither whether a pod has reserved it, nor what becomes of the pod."""
    note = Allocations.note

    def noted(self: Allocations, event: DeviceClaimSeen | DeviceClaimGone) -> None:
        note(self, event)
        if isinstance(event, DeviceClaimSeen) and event.claim.allocation is not None:
            key = event.claim.namespace, event.claim.name
            self._left[key] = self._look[key] = None

    patch.setattr(Allocations, "note", noted)
    patch.setattr(Allocations, "_waits", lambda *_: True)


def plan_leaves_the_devices_of_an_earlier_start(patch: pytest.MonkeyPatch) -> None:
    """Nodes are chosen as if nothing was allocated."""
    resolved = Devices.resolved

    def anywhere(self: Devices, pod: Pod) -> Pod:
        found = resolved(self, pod)
        return replace(found, selection=replace(found.selection, devices=()))

    patch.setattr(Devices, "resolved", anywhere)
