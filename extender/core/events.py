"""Events: what can happen to the core. Every instant is in seconds of one monotonic clock."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from extender.core.answers import Answer
from policies.model import (
    Dialect,
    DisruptionBudget,
    GangOwner,
    GroupJob,
    GroupKey,
    Job,
    Labels,
    Node,
    Pod,
    PodGroup,
    Terms,
)
from policies.model.devices import ClaimTemplate, ComputeDomain, DeviceClaim, Slice, TaintRule
from policies.model.queues import QueueObject
from policies.model.storage import ANY_STORAGE, Capacity, Storage, StorageClass


@dataclass(frozen=True, slots=True)
class PodSeen:
    """A pod was added or changed."""

    pod: Pod


@dataclass(frozen=True, slots=True)
class PodsSeen:
    """Different pods were added or changed, in this order. The consequences are drawn once, after all of them."""

    pods: tuple[Pod, ...]


@dataclass(frozen=True, slots=True)
class PodGone:
    """The pod's object no longer exists."""

    uid: str


@dataclass(frozen=True, slots=True)
class NodeSeen:
    """A node was added or changed."""

    node: Node


@dataclass(frozen=True, slots=True)
class NodeGone:
    name: str


@dataclass(frozen=True, slots=True)
class GroupSeen:
    """A PodGroup object was added or changed."""

    group: PodGroup


@dataclass(frozen=True, slots=True)
class GroupGone:
    key: GroupKey
    uid: str
    dialect: Dialect = Dialect.COSCHEDULING


@dataclass(frozen=True, slots=True)
class JobSeen:
    """A job was added or changed: a workload that is planned before its pods exist."""

    job: Job


@dataclass(frozen=True, slots=True)
class JobGone:
    """The job's object no longer exists."""

    key: GroupKey
    uid: str


@dataclass(frozen=True, slots=True)
class GroupJobSeen:
    """The object that creates the pods of a PodGroup was added or changed."""

    job: GroupJob


@dataclass(frozen=True, slots=True)
class GroupJobGone:
    """The object no longer exists, or another scheduler has its pods."""

    key: GroupKey
    uid: str


@dataclass(frozen=True, slots=True)
class OwnerSeen:
    """An object whose pods are gangs was added or changed."""

    owner: GangOwner


@dataclass(frozen=True, slots=True)
class OwnerGone:
    """The object no longer exists, or no longer makes gangs of its pods."""

    key: GroupKey
    uid: str


@dataclass(frozen=True, slots=True)
class QueueSeen:
    """A ClusterQueue, Cohort, LocalQueue, ResourceFlavor or Queue of Volcano was added or changed.

    ``problems``: why it cannot be used as it is.
    ``warnings``: fields that its author may not have meant so.
    ``unclear``: whether it is unknown what it has borrowed, because of its problems.
    """

    object: QueueObject
    problems: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()
    unclear: bool = False


@dataclass(frozen=True, slots=True)
class QueueGone:
    """The object, as it was last seen, no longer exists."""

    object: QueueObject


@dataclass(frozen=True, slots=True)
class NamespaceSeen:
    """A namespace was added or changed.

    ClusterQueues and pod affinity terms choose namespaces by label. The API server's treatment of pods may depend on
    labels and annotations. ``terminating``: it is being deleted.
    """

    name: str
    labels: Labels
    terminating: bool = False
    annotations: Labels = ()


@dataclass(frozen=True, slots=True)
class NamespaceGone:
    name: str


@dataclass(frozen=True, slots=True)
class ClaimSeen:
    """A PersistentVolumeClaim was added or changed.

    ``bound``: whether it has a volume.
    ``volume``: the volume that it names.
    ``node``: the node that kube-scheduler has chosen for its first pod.
    ``owner``: the UID of the pod that it was made for.
    ``trouble``: why no pod can use it; empty for most.
    """

    namespace: str
    name: str
    bound: bool
    asks: Storage = ANY_STORAGE
    volume: str = ""
    node: str = ""
    owner: str = ""
    trouble: str = ""


@dataclass(frozen=True, slots=True)
class ClaimGone:
    namespace: str
    name: str


@dataclass(frozen=True, slots=True)
class VolumeSeen:
    """A PersistentVolume was added or changed that only some nodes reach, or that a claim may get.

    ``claim``: the claim that it is bound to, or reserved for; empty if there is none.
    ``nodes``: the nodes that reach it; None for all.
    ``bound``: whether it is bound to the claim.
    ``offers``: its properties for a claim that waits for a volume.
    """

    name: str
    namespace: str
    claim: str
    nodes: Terms | None
    bound: bool = True
    offers: Storage = ANY_STORAGE
    labels: Labels = ()


@dataclass(frozen=True, slots=True)
class VolumeGone:
    """A PersistentVolume no longer exists, or is no longer relevant."""

    name: str
    namespace: str
    claim: str


@dataclass(frozen=True, slots=True)
class StorageClassSeen:
    """A StorageClass was added or changed."""

    storage_class: StorageClass


@dataclass(frozen=True, slots=True)
class StorageClassGone:
    name: str


@dataclass(frozen=True, slots=True)
class StorageDriverSeen:
    """A CSIDriver was added or changed. ``counts``: whether it publishes how much it can provision."""

    name: str
    counts: bool


@dataclass(frozen=True, slots=True)
class StorageDriverGone:
    name: str


@dataclass(frozen=True, slots=True)
class CapacitySeen:
    """A CSIStorageCapacity was added or changed."""

    capacity: Capacity


@dataclass(frozen=True, slots=True)
class CapacityGone:
    namespace: str
    name: str


VolumeEvent = (
    ClaimSeen
    | ClaimGone
    | VolumeSeen
    | VolumeGone
    | StorageClassSeen
    | StorageClassGone
    | StorageDriverSeen
    | StorageDriverGone
    | CapacitySeen
    | CapacityGone
)


@dataclass(frozen=True, slots=True)
class BudgetSeen:
    """A PodDisruptionBudget was added or changed."""

    budget: DisruptionBudget


@dataclass(frozen=True, slots=True)
class BudgetGone:
    namespace: str
    name: str


@dataclass(frozen=True, slots=True)
class NativeGangSeen:
    """A PodGroup of Kubernetes that the Job controller made for a Job that is a gang was added or changed."""

    key: GroupKey
    uid: str


@dataclass(frozen=True, slots=True)
class NativeGangGone:
    key: GroupKey
    uid: str


@dataclass(frozen=True, slots=True)
class DeviceClassSeen:
    """A DeviceClass was added or changed. ``resource``: the extended resource for its devices; empty if there is
    none."""

    name: str
    resource: str
    selectors: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class DeviceClassGone:
    name: str


@dataclass(frozen=True, slots=True)
class SliceSeen:
    """A ResourceSlice was added or changed."""

    slice: Slice


@dataclass(frozen=True, slots=True)
class SliceGone:
    name: str


@dataclass(frozen=True, slots=True)
class DeviceClaimSeen:
    """A ResourceClaim was added or changed."""

    claim: DeviceClaim


@dataclass(frozen=True, slots=True)
class DeviceClaimGone:
    namespace: str
    name: str


@dataclass(frozen=True, slots=True)
class ClaimTemplateSeen:
    """A ResourceClaimTemplate was added or changed."""

    template: ClaimTemplate


@dataclass(frozen=True, slots=True)
class ClaimTemplateGone:
    namespace: str
    name: str


@dataclass(frozen=True, slots=True)
class TaintRuleSeen:
    """A DeviceTaintRule that keeps claims from devices was added or changed."""

    rule: TaintRule


@dataclass(frozen=True, slots=True)
class TaintRuleGone:
    name: str


@dataclass(frozen=True, slots=True)
class ComputeDomainSeen:
    """A ComputeDomain was added or changed."""

    domain: ComputeDomain


@dataclass(frozen=True, slots=True)
class ComputeDomainGone:
    uid: str


@dataclass(frozen=True, slots=True)
class ComputeDomainsListed:
    """Whether every ComputeDomain is known: the API server serves them, and Muster may read them."""

    listed: bool


DeviceEvent = (
    DeviceClassSeen
    | DeviceClassGone
    | SliceSeen
    | SliceGone
    | TaintRuleSeen
    | TaintRuleGone
    | DeviceClaimSeen
    | DeviceClaimGone
    | ClaimTemplateSeen
    | ClaimTemplateGone
    | ComputeDomainSeen
    | ComputeDomainGone
    | ComputeDomainsListed
)


@dataclass(frozen=True, slots=True)
class Paused:
    """The core has failed too often: until ``until`` it makes no new plan. Answers, holds and releases go on."""

    until: float


@dataclass(frozen=True, slots=True)
class Synced:
    """Every list has been read once: the core knows the cluster, and may act.

    ``wall``: the present in seconds since the epoch, to read and write the instants of annotations.
    """

    wall: float = 0.0


@dataclass(frozen=True, slots=True)
class Tick:
    """Time has passed: sent no later than the core's ``next_wake()``."""


@dataclass(frozen=True, slots=True)
class FilterCalled:
    """kube-scheduler asks which of the candidates the pod may use. ``pod`` is kube-scheduler's copy."""

    call: int
    pod: Pod
    candidates: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class PreemptCalled:
    """kube-scheduler asks which candidates it may preempt on. ``victims``: node -> UIDs of pods to evict there."""

    call: int
    pod: Pod
    victims: Mapping[str, tuple[str, ...]]


@dataclass(frozen=True, slots=True)
class BindArrived:
    """kube-scheduler asks for a Binding and waits. After ``expires`` it no longer listens."""

    call: int
    uid: str
    namespace: str
    name: str
    node: str
    expires: float


@dataclass(frozen=True, slots=True)
class BindDisconnected:
    """kube-scheduler no longer waits for the answer to this call."""

    call: int


@dataclass(frozen=True, slots=True)
class CapacityServed:
    """Whether the cluster serves ProvisioningRequests."""

    served: bool


Call = FilterCalled | PreemptCalled | BindArrived | BindDisconnected
"""The calls of kube-scheduler, and the end of its wait for one."""
Event = (
    PodSeen
    | PodsSeen
    | PodGone
    | NodeSeen
    | NodeGone
    | GroupSeen
    | GroupGone
    | GroupJobSeen
    | GroupJobGone
    | JobSeen
    | JobGone
    | OwnerSeen
    | OwnerGone
    | QueueSeen
    | QueueGone
    | NamespaceSeen
    | NamespaceGone
    | VolumeEvent
    | BudgetSeen
    | BudgetGone
    | NativeGangSeen
    | NativeGangGone
    | DeviceEvent
    | Paused
    | Synced
    | Tick
    | CapacityServed
    | Call
    | Answer
)

Handlers = Mapping[type[Event], Callable[[Any, float], None]]
"""The handlers of events by type; each gets the event and the instant."""
