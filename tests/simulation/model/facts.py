"""The events that the core gets for an object that a watch shows."""

from __future__ import annotations

from dataclasses import replace

from extender.core.events import (
    BudgetGone,
    BudgetSeen,
    CapacityGone,
    CapacitySeen,
    ClaimGone,
    ClaimSeen,
    ClaimTemplateGone,
    ClaimTemplateSeen,
    DeviceClaimGone,
    DeviceClaimSeen,
    DeviceClassGone,
    DeviceClassSeen,
    Event,
    GroupGone,
    GroupJobGone,
    GroupJobSeen,
    GroupSeen,
    JobGone,
    JobSeen,
    NodeGone,
    NodeSeen,
    OwnerGone,
    OwnerSeen,
    PodGone,
    PodSeen,
    QueueGone,
    QueueSeen,
    SliceGone,
    SliceSeen,
    StorageClassGone,
    StorageClassSeen,
    StorageDriverGone,
    StorageDriverSeen,
    VolumeGone,
    VolumeSeen,
)
from policies.model import DisruptionBudget, GroupJob, Node, Pod, PodGroup
from policies.model.devices import ClaimTemplate, DeviceClaim, Slice
from tests.simulation.model.batch import BatchJob
from tests.simulation.model.changes import Change, StorageObject
from tests.simulation.model.devices import Thing, as_shown, node_as_shown
from tests.simulation.model.owner import OwnerObject
from tests.simulation.model.pods import as_read
from tests.simulation.model.wire import read_node, read_pod


def seen(change: Change) -> Event:
    """The event for an object that exists, or has changed."""
    match change.value:
        case Pod() as pod:
            return PodSeen(read_pod(change.written, pod) if change.written else as_shown(as_read(pod)))
        case Node() as node:
            return NodeSeen(read_node(change.written) if change.written else node_as_shown(node))
        case PodGroup() as group:
            return GroupSeen(group)
        case GroupJob() as made_by:
            return GroupJobSeen(made_by)
        case BatchJob() as job:
            return JobSeen(job.read())
        case OwnerObject() as owner:
            return OwnerSeen(owner.shown())
        case DisruptionBudget() as budget:
            return BudgetSeen(budget)
        case ClaimSeen() | VolumeSeen() | StorageClassSeen() | StorageDriverSeen() | CapacitySeen() as thing:
            return thing
        case Slice() | ClaimTemplate() | DeviceClassSeen() | DeviceClaim() as thing:
            return _device_seen(thing)
        case queue:
            return QueueSeen(queue)


def gone(change: Change) -> Event:
    """The event for an object that is gone. ``change``: its last version."""
    match change.value:
        case Pod() as pod:
            return PodGone(pod.uid)
        case Node() as node:
            return NodeGone(node.name)
        case PodGroup() as group:
            return GroupGone(group.key, group.uid, group.dialect)
        case GroupJob() as made_by:
            return GroupJobGone(made_by.key, made_by.uid)
        case BatchJob() as job:
            return JobGone(job.key, job.uid)
        case OwnerObject() as owner:
            return OwnerGone(owner.key, owner.uid)
        case DisruptionBudget() as budget:
            return BudgetGone(budget.namespace, budget.name)
        case ClaimSeen() | VolumeSeen() | StorageClassSeen() | StorageDriverSeen() | CapacitySeen() as thing:
            return _storage_gone(thing)
        case Slice() | ClaimTemplate() | DeviceClassSeen() | DeviceClaim() as thing:
            return _device_gone(thing)
        case queue:
            return QueueGone(queue)


def _storage_gone(thing: StorageObject) -> Event:
    match thing:
        case ClaimSeen(namespace, name):
            return ClaimGone(namespace, name)
        case VolumeSeen(name, namespace, claim):
            return VolumeGone(name, namespace, claim)
        case StorageClassSeen(known):
            return StorageClassGone(known.name)
        case StorageDriverSeen(name):
            return StorageDriverGone(name)
        case CapacitySeen(capacity):
            return CapacityGone(capacity.namespace, capacity.name)


def _device_seen(thing: Thing | DeviceClaim) -> Event:
    match thing:
        case Slice():
            return SliceSeen(thing)
        case ClaimTemplate():
            return ClaimTemplateSeen(thing)
        case DeviceClaim():
            return DeviceClaimSeen(thing)
        case DeviceClassSeen():
            return thing


def _device_gone(thing: Thing | DeviceClaim) -> Event:
    match thing:
        case Slice():
            return SliceGone(thing.name)
        case ClaimTemplate():
            return ClaimTemplateGone(thing.namespace, thing.name)
        case DeviceClaim():
            return DeviceClaimGone(thing.namespace, thing.name)
        case DeviceClassSeen():
            return DeviceClassGone(thing.name)


def as_meant(change: Change) -> Event:
    """The same event by the model's own reading of the written object."""
    return seen(replace(change, written=b""))


def shown_in(event: Event) -> Pod | Node:
    """The pod or the node that the event shows."""
    match event:
        case PodSeen(pod):
            return pod
        case NodeSeen(node):
            return node
        case _:
            raise AssertionError(f"{event} shows neither a pod nor a node")
