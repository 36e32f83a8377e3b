"""The changes of which the model of the API server notifies its watches."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum, auto

from extender.core.events import CapacitySeen, ClaimSeen, StorageClassSeen, StorageDriverSeen, VolumeSeen
from policies.model import (
    DisruptionBudget,
    GroupJob,
    Node,
    Pod,
    PodGroup,
)
from policies.model.devices import DeviceClaim
from policies.model.queues import QueueObject
from tests.simulation.model.batch import BatchJob
from tests.simulation.model.devices import Thing
from tests.simulation.model.owner import OwnerObject

StorageObject = ClaimSeen | VolumeSeen | StorageClassSeen | StorageDriverSeen | CapacitySeen


class Kind(Enum):
    PODS = auto()
    NODES = auto()
    GROUPS = auto()
    GROUP_JOBS = auto()
    JOBS = auto()
    OWNERS = auto()
    QUEUES = auto()
    BUDGETS = auto()
    STORAGE = auto()
    """Volumes, their claims and classes, drivers and their capacities."""
    DEVICES = auto()
    """Slices and classes of devices, and templates of claims."""
    CLAIMS = auto()


ApiObject = (
    Pod
    | Node
    | PodGroup
    | GroupJob
    | BatchJob
    | OwnerObject
    | QueueObject
    | DisruptionBudget
    | StorageObject
    | Thing
    | DeviceClaim
)


@dataclass(frozen=True, slots=True)
class Change:
    """A version of an object; ``gone`` when this is its end. ``uid`` tells two objects of one name apart.
    ``written``: the object itself, where the extender reads that."""

    kind: Kind
    uid: str
    value: ApiObject
    version: int
    gone: bool = False
    written: bytes = b""
