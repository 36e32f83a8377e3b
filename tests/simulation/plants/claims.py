"""Bugs about devices: promised twice, taken from a pod that may be bound, left by a plan, or misread in a request."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace

import pytest

from extender.core.events import ClaimTemplateSeen, DeviceClaimGone, DeviceClaimSeen, Event, SliceSeen
from extender.core.gate.allocations import Allocations
from extender.core.ledger.device_users import DeviceUsers
from extender.core.ledger.devices import Devices
from policies.devices.inventory import Inventory
from policies.model import Pod
from policies.model.devices import ClaimSpec, DeviceRequest
from tests.simulation.plants.mutants import Core, hears


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


def allocations_of_pods_that_are_gone_wait_for_their_bindings(patch: pytest.MonkeyPatch) -> None:
    """Devices of pods that are gone are freed no sooner than a Binding from before a restart may have come."""
    follow = Allocations.follow
    patch.setattr(Allocations, "follow", lambda self, now: None if now < self._sure_at else follow(self, now))


def devices_of_extended_resources_are_not_counted(patch: pytest.MonkeyPatch) -> None:
    """The devices of an extended resource are not known: no node lists it."""
    patch.setattr(Devices, "_ask_by_resources", lambda *_, **__: None)


def restarts_recover_before_devices_are_counted(patch: pytest.MonkeyPatch) -> None:
    """A restart judges plans by what nodes offer before devices and volumes are counted."""
    patch.setattr(DeviceUsers, "settle_all", lambda _: iter(()))


@hears
def taints_of_devices_unheard(event: Event, core: Core) -> Iterable[Event]:
    """Devices with a taint are for any request."""
    match event:
        case SliceSeen(published):
            yield SliceSeen(
                replace(published, devices=tuple(replace(device, taints=()) for device in published.devices))
            )
        case _:
            yield event


@hears
def devices_with_shared_counters_unheard(event: Event, core: Core) -> Iterable[Event]:
    """Devices that share counters with others are left out, as what cannot be counted exactly."""
    match event:
        case SliceSeen(published):
            yield SliceSeen(
                replace(published, devices=tuple(device for device in published.devices if not device.partition))
            )
        case _:
            yield event


@hears
def tolerations_of_requests_unheard(event: Event, core: Core) -> Iterable[Event]:
    """Devices with a taint are for no request."""
    yield _with_requests(event, lambda requests: tuple(replace(request, tolerations=()) for request in requests))


@hears
def alternatives_beyond_the_first_unheard(event: Event, core: Core) -> Iterable[Event]:
    """A request with alternatives asks for the first of them."""
    yield _with_requests(event, lambda requests: requests[:1])


@hears
def alternatives_ask_for_one_device_each(event: Event, core: Core) -> Iterable[Event]:
    """The number of devices of an alternative that is not the first does not count."""
    yield _with_requests(
        event, lambda requests: (*requests[:1], *(replace(request, count=1) for request in requests[1:]))
    )


@hears
def admin_access_takes_the_device(event: Event, core: Core) -> Iterable[Event]:
    """A device can be watched only where one is free, and is in use then."""
    yield _with_requests(event, lambda requests: tuple(replace(request, admin=False) for request in requests))


_Alternatives = tuple[DeviceRequest, ...]


def _with_requests(event: Event, heard: Callable[[_Alternatives], _Alternatives]) -> Event:
    """The event with other alternatives in each request of its claim or template."""

    def respecified(spec: ClaimSpec) -> ClaimSpec:
        return replace(spec, requests=tuple(replace(of, alternatives=heard(of.alternatives)) for of in spec.requests))

    match event:
        case ClaimTemplateSeen(template):
            return ClaimTemplateSeen(replace(template, spec=respecified(template.spec)))
        case DeviceClaimSeen(claim):
            return DeviceClaimSeen(replace(claim, spec=respecified(claim.spec)))
        case _:
            return event
