"""Storage in a snapshot: what provides volumes for claims that wait for a node, and its capacity."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TypeVar

import msgspec
from msgspec import Struct, field

from extender.core.events import VolumeEvent
from extender.kube.client import Kube
from extender.kube.convert import readable
from extender.kube.reading.objects import CapacityObject, DriverObject, Meta, StorageClassObject
from extender.kube.reading.volumes import capacity_from, driver_from, storage_class_from
from extender.kube.resources import CAPACITIES, STORAGE_CLASSES, STORAGE_DRIVERS
from extender.kube.snapshots.jobs import listed

ObjectT = TypeVar("ObjectT", StorageClassObject, DriverObject, CapacityObject)


class StorageObjects(Struct, rename="camel"):
    """The objects of ``storage.k8s.io``; empty if the user may not list them."""

    classes: list[StorageClassObject] = field(default_factory=list)
    csi_drivers: list[DriverObject] = field(default_factory=list)
    capacities: list[CapacityObject] = field(default_factory=list)


async def take_storage(kube: Kube) -> StorageObjects:
    """Read the objects. Raises ApiError, or one of ``UNDECODABLE``."""
    return StorageObjects(
        await _read(kube, STORAGE_CLASSES.path, StorageClassObject),
        await _read(kube, STORAGE_DRIVERS.path, DriverObject),
        await _read(kube, CAPACITIES.path, CapacityObject),
    )


def storage_events(storage: StorageObjects, unreadable: list[str]) -> Iterator[VolumeEvent]:
    """Yield the core's events. Unreadable objects are left out, and named in ``unreadable``."""
    yield from readable(storage_class_from, storage.classes, unreadable)
    yield from readable(driver_from, storage.csi_drivers, unreadable)
    yield from (
        capacity_seen
        for capacity_seen in readable(capacity_from, storage.capacities, unreadable)
        if capacity_seen is not None
    )


async def _read(kube: Kube, path: str, kind: type[ObjectT]) -> list[ObjectT]:
    objects = [msgspec.json.decode(raw, type=kind) for raw in await listed(kube, path, (403, 404)) or ()]
    for obj in objects:
        meta = obj.metadata or Meta()
        obj.metadata = Meta(name=meta.name, namespace=meta.namespace)
    return objects
