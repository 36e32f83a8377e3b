"""The resources that Muster follows beside jobs: where each is, and how its objects become events."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

import msgspec

from extender.core.events import (
    BudgetGone,
    BudgetSeen,
    CapacityGone,
    CapacitySeen,
    ClaimGone,
    ClaimSeen,
    ClaimTemplateGone,
    ClaimTemplateSeen,
    ComputeDomainGone,
    ComputeDomainSeen,
    ComputeDomainsListed,
    DeviceClaimGone,
    DeviceClaimSeen,
    DeviceClassGone,
    DeviceClassSeen,
    Event,
    GroupGone,
    GroupSeen,
    NamespaceGone,
    NamespaceSeen,
    NativeGangGone,
    NativeGangSeen,
    NodeGone,
    NodeSeen,
    PodGone,
    PodSeen,
    SliceGone,
    SliceSeen,
    StorageClassGone,
    StorageClassSeen,
    StorageDriverGone,
    StorageDriverSeen,
    TaintRuleGone,
    TaintRuleSeen,
    VolumeGone,
    VolumeSeen,
)
from extender.kube.convert import bare_node_from, bare_pod_from, node_from
from extender.kube.devices.objects import (
    ComputeDomainObject,
    DeviceClassObject,
    ResourceClaimObject,
    ResourceClaimTemplateObject,
    SliceObject,
    TaintRuleObject,
)
from extender.kube.devices.reading import claim_from as device_claim_from
from extender.kube.devices.reading import class_from, domain_from, slice_from, taint_rule_from, template_from
from extender.kube.podgroups.coscheduling import KoordinatorGroup, group_from, koordinator_group_from
from extender.kube.podgroups.kai import KaiGroup, kai_group_from
from extender.kube.podgroups.native import VERSIONS, NativeGroup, native_gang_from
from extender.kube.podgroups.volcano import PODGROUPS, VolcanoGroup, volcano_group_from
from extender.kube.reading.budgets import BudgetObject, budget_from
from extender.kube.reading.constraints import labels_of
from extender.kube.reading.identity import name_of
from extender.kube.reading.objects import (
    AnyObject,
    CapacityObject,
    ClaimObject,
    DriverObject,
    GroupObject,
    Meta,
    NodeObject,
    PodObject,
    StorageClassObject,
    VolumeObject,
)
from extender.kube.reading.volumes import capacity_from, claim_from, driver_from, storage_class_from, volume_from
from extender.kube.recent import read_listed, read_pod
from policies.model import DisruptionBudget, Node, Pod, PodGroup
from policies.model.devices import ClaimTemplate, ComputeDomain, DeviceClaim, Slice, TaintRule

ObjectT = TypeVar(
    "ObjectT",
    AnyObject,
    NodeObject,
    GroupObject,
    KoordinatorGroup,
    VolcanoGroup,
    KaiGroup,
    NativeGroup,
    ClaimObject,
    VolumeObject,
    StorageClassObject,
    DriverObject,
    CapacityObject,
    BudgetObject,
    DeviceClassObject,
    SliceObject,
    ResourceClaimObject,
    ResourceClaimTemplateObject,
    TaintRuleObject,
    ComputeDomainObject,
)
BareT = TypeVar("BareT", NodeObject, PodObject)
ValueT = TypeVar("ValueT")
EventT = TypeVar("EventT")


@dataclass(frozen=True, slots=True)
class Resource(Generic[ValueT, EventT]):
    """A resource of the API server, and how its objects are read.

    ``read``: converts an object; None for one that no decision needs. Raises UnreadableError, or one of
    ``UNDECODABLE``.
    ``seen``, ``gone``: make the events.
    ``read_listed``: converts an object of a list, where that is cheaper.
    ``read_bare``: the room that an unreadable object uses, or None.
    ``known_as``: when its result changes, the object is reported as gone under the old one.
    ``optional``: the kind may not exist in the cluster.
    ``dispensable``: Muster may lack the right to read it, and then does without.
    ``patched``: Muster writes to these objects, and only at their last seen version.
    ``title``: a name for the resource if another one has the same plural.
    ``labels``: the API server sends only objects with these.
    ``renewed``: keep a new object that equals the old one, since it has fields that do not count for equality.
    ``listed``: makes the event that says whether every object is known.
    """

    path: str
    read: Callable[[msgspec.Raw], tuple[Meta, ValueT | None]]
    seen: Callable[[ValueT], EventT]
    gone: Callable[[ValueT], EventT]
    read_listed: Callable[[msgspec.Raw], tuple[Meta, ValueT | None]] | None = None
    read_bare: Callable[[msgspec.Raw], ValueT | None] = lambda _: None
    known_as: Callable[[ValueT], object] = lambda _: None
    optional: bool = False
    dispensable: bool = False
    patched: bool = False
    title: str = ""
    labels: str = ""
    renewed: bool = False
    listed: Callable[[bool], EventT] | None = None

    @property
    def name(self) -> str:
        """The name of the resource in metrics and logs."""
        return self.title or self.path.rpartition("/")[2]

    @property
    def kind(self) -> tuple[str, str]:
        """The API version and plural, as the API server lists them."""
        version, _, plural = self.path.removeprefix("/apis/").rpartition("/")
        return version, plural


def _reader(
    kind: type[ObjectT], convert: Callable[[ObjectT], ValueT | None]
) -> Callable[[msgspec.Raw], tuple[Meta, ValueT | None]]:
    decoder = msgspec.json.Decoder(kind)

    def read(raw: msgspec.Raw) -> tuple[Meta, ValueT | None]:
        obj = decoder.decode(raw)
        return obj.metadata or Meta(), convert(obj)

    return read


def _bare_reader(
    kind: type[BareT], convert: Callable[[BareT], ValueT | None]
) -> Callable[[msgspec.Raw], ValueT | None]:
    decoder = msgspec.json.Decoder(kind)
    return lambda raw: convert(decoder.decode(raw))


def namespace_from(obj: AnyObject) -> NamespaceSeen:
    """Convert a namespace. Raises UnreadableError without a name."""
    meta = obj.metadata or Meta()
    annotations = tuple(sorted((meta.annotations or {}).items()))
    name = name_of(meta, "namespace")
    return NamespaceSeen(name, labels_of(meta), meta.deletion_timestamp is not None, annotations)


NODES: Resource[Node, Event] = Resource(
    "/api/v1/nodes",
    _reader(NodeObject, node_from),
    NodeSeen,
    lambda node: NodeGone(node.name),
    read_bare=_bare_reader(NodeObject, bare_node_from),
)
PODS: Resource[Pod, Event] = Resource(
    "/api/v1/pods",
    read_pod,
    PodSeen,
    lambda pod: PodGone(pod.uid),
    read_listed,
    _bare_reader(PodObject, bare_pod_from),
    patched=True,
)
NAMESPACES: Resource[NamespaceSeen, Event] = Resource(
    "/api/v1/namespaces",
    _reader(AnyObject, namespace_from),
    lambda seen: seen,
    lambda seen: NamespaceGone(seen.name),
    dispensable=True,
)
GROUPS: Resource[PodGroup, Event] = Resource(
    "/apis/scheduling.x-k8s.io/v1alpha1/podgroups",
    _reader(GroupObject, group_from),
    GroupSeen,
    lambda group: GroupGone(group.key, group.uid),
    optional=True,
)


def _groups_of(version: str, kind: type[ObjectT], convert: Callable[[ObjectT], PodGroup]) -> Resource[PodGroup, Event]:
    """PodGroups of another project, which may not be installed."""
    return Resource(
        f"/apis/{version}/podgroups",
        _reader(kind, convert),
        GroupSeen,
        lambda group: GroupGone(group.key, group.uid, group.dialect),
        optional=True,
        dispensable=True,
        title=f"podgroups.{version.partition('/')[0]}",
    )


VOLCANO_GROUPS = _groups_of(PODGROUPS, VolcanoGroup, volcano_group_from)
KAI_GROUPS = _groups_of("scheduling.run.ai/v2alpha2", KaiGroup, kai_group_from)
KOORDINATOR_GROUPS = _groups_of("scheduling.sigs.k8s.io/v1alpha1", KoordinatorGroup, koordinator_group_from)
GROUPS_OF_OTHERS = (VOLCANO_GROUPS, KAI_GROUPS, KOORDINATOR_GROUPS)
NATIVE_GANGS: tuple[Resource[NativeGangSeen, Event], ...] = tuple(
    Resource(
        f"/apis/{version}/podgroups",
        _reader(NativeGroup, native_gang_from),
        lambda seen: seen,
        lambda seen: NativeGangGone(seen.key, seen.uid),
        optional=True,
        dispensable=True,
        title="podgroups.scheduling.k8s.io",
    )
    for version in VERSIONS
)
CLAIMS: Resource[ClaimSeen, Event] = Resource(
    "/api/v1/persistentvolumeclaims",
    _reader(ClaimObject, claim_from),
    lambda claim: claim,
    lambda claim: ClaimGone(claim.namespace, claim.name),
)
VOLUMES: Resource[VolumeSeen, Event] = Resource(
    "/api/v1/persistentvolumes",
    _reader(VolumeObject, volume_from),
    lambda volume: volume,
    lambda volume: VolumeGone(volume.name, volume.namespace, volume.claim),
    dispensable=True,
)
STORAGE = "/apis/storage.k8s.io/v1"
STORAGE_CLASSES: Resource[StorageClassSeen, Event] = Resource(
    f"{STORAGE}/storageclasses",
    _reader(StorageClassObject, storage_class_from),
    lambda seen: seen,
    lambda seen: StorageClassGone(seen.storage_class.name),
    dispensable=True,
)
STORAGE_DRIVERS: Resource[StorageDriverSeen, Event] = Resource(
    f"{STORAGE}/csidrivers",
    _reader(DriverObject, driver_from),
    lambda seen: seen,
    lambda seen: StorageDriverGone(seen.name),
    dispensable=True,
)
CAPACITIES: Resource[CapacitySeen, Event] = Resource(
    f"{STORAGE}/csistoragecapacities",
    _reader(CapacityObject, capacity_from),
    lambda seen: seen,
    lambda seen: CapacityGone(seen.capacity.namespace, seen.capacity.name),
    dispensable=True,
)
VOLUME_RESOURCES: tuple[Resource[Any, Event], ...] = (STORAGE_CLASSES, STORAGE_DRIVERS, CAPACITIES, VOLUMES, CLAIMS)
"""Volume claims, and what provides volumes. Kinds that others refer to come first."""
BUDGETS: Resource[DisruptionBudget, Event] = Resource(
    "/apis/policy/v1/poddisruptionbudgets",
    _reader(BudgetObject, budget_from),
    BudgetSeen,
    lambda budget: BudgetGone(budget.namespace, budget.name),
    optional=True,
    dispensable=True,
)
DRA = "/apis/resource.k8s.io/v1"
DEVICE_CLASSES: Resource[DeviceClassSeen, Event] = Resource(
    f"{DRA}/deviceclasses",
    _reader(DeviceClassObject, class_from),
    lambda seen: seen,
    lambda seen: DeviceClassGone(seen.name),
    optional=True,
    dispensable=True,
)
SLICES: Resource[Slice, Event] = Resource(
    f"{DRA}/resourceslices",
    _reader(SliceObject, slice_from),
    SliceSeen,
    lambda published: SliceGone(published.name),
    optional=True,
    dispensable=True,
)
TAINT_RULES: Resource[TaintRule, Event] = Resource(
    f"{DRA}/devicetaintrules",
    _reader(TaintRuleObject, taint_rule_from),
    TaintRuleSeen,
    lambda rule: TaintRuleGone(rule.name),
    optional=True,
    dispensable=True,
)
CLAIM_TEMPLATES: Resource[ClaimTemplate, Event] = Resource(
    f"{DRA}/resourceclaimtemplates",
    _reader(ResourceClaimTemplateObject, template_from),
    ClaimTemplateSeen,
    lambda template: ClaimTemplateGone(template.namespace, template.name),
    optional=True,
    dispensable=True,
)
DEVICE_CLAIMS: Resource[DeviceClaim, Event] = Resource(
    f"{DRA}/resourceclaims",
    _reader(ResourceClaimObject, device_claim_from),
    DeviceClaimSeen,
    lambda claim: DeviceClaimGone(claim.namespace, claim.name),
    optional=True,
    dispensable=True,
)
COMPUTE_DOMAINS: Resource[ComputeDomain, Event] = Resource(
    "/apis/resource.nvidia.com/v1beta1/computedomains",
    _reader(ComputeDomainObject, domain_from),
    ComputeDomainSeen,
    lambda domain: ComputeDomainGone(domain.uid),
    optional=True,
    dispensable=True,
    listed=ComputeDomainsListed,
)
DEVICES = (DEVICE_CLASSES, TAINT_RULES, SLICES, COMPUTE_DOMAINS, CLAIM_TEMPLATES, DEVICE_CLAIMS)
"""Devices, and pods' claims to them. Classes and templates come first, since the others refer to them."""
