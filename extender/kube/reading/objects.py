"""Kubernetes objects as the API sends them, reduced to the fields that are used; decoded by msgspec.

Every field may be absent or null, as in Go. Unknown fields are skipped without being decoded.
"""

from __future__ import annotations

from msgspec import MsgspecError, Struct, field

UNDECODABLE = (MsgspecError, UnicodeError, RecursionError)
"""The errors of decoding bytes that are no such object; RecursionError is for nesting that is too deep."""


class OwnerReference(Struct, rename="camel", gc=False):
    api_version: str | None = None
    kind: str | None = None
    name: str | None = None
    uid: str | None = None
    controller: bool | None = None


class Meta(Struct, rename="camel"):
    name: str | None = None
    namespace: str | None = None
    uid: str | None = None
    resource_version: str | None = None
    creation_timestamp: str | None = None
    deletion_timestamp: str | None = None
    labels: dict[str, str] | None = None
    annotations: dict[str, str] | None = None
    owner_references: list[OwnerReference] | None = None

    def values_of(self, key: str) -> list[str]:
        """The annotation of that key, then the label, as far as they exist."""
        values = [self.annotations[key]] if self.annotations and key in self.annotations else []
        if self.labels and key in self.labels:
            values.append(self.labels[key])
        return values

    def no_booleans(self, key: str) -> list[str]:
        """The values of that key that are neither true, false nor empty."""
        return [value for value in self.values_of(key) if value not in ("true", "false", "")]

    def says(self, keys: frozenset[str]) -> bool:
        """Whether the object has any of these keys as an annotation or a label."""
        return not (keys.isdisjoint(self.annotations or ()) and keys.isdisjoint(self.labels or ()))


class AnyObject(Struct):
    """The fields that every object has, which are enough to identify it."""

    metadata: Meta | None = None


class Present(Struct):
    """An object of which only the presence matters."""


class SchedulingGroup(Struct, rename="camel"):
    """The native group of a pod (``scheduling.k8s.io``)."""

    pod_group_name: str | None = None


class Named(Struct, gc=False):
    name: str | None = None


class Condition(Struct, gc=False):
    type: str | None = None
    status: str | None = None
    reason: str | None = None
    message: str | None = None


Amounts = dict[str, str | int | float]


class Resources(Struct):
    requests: Amounts | None = None
    limits: Amounts | None = None


class ContainerPort(Struct, rename="camel", gc=False):
    container_port: int | None = None
    host_port: int | None = None
    host_ip: str | None = field(default=None, name="hostIP")
    protocol: str | None = None


class Container(Struct, rename="camel"):
    resources: Resources | None = None
    restart_policy: str | None = None
    ports: list[ContainerPort] | None = None


class Expression(Struct):
    key: str | None = None
    operator: str | None = None
    values: list[str] | None = None


class LabelSelector(Struct, rename="camel"):
    match_labels: dict[str, str] | None = None
    match_expressions: list[Expression] | None = None


class ClaimSource(Struct, rename="camel", gc=False):
    claim_name: str | None = None


class ClaimSpec(Struct, rename="camel"):
    """The spec of a PersistentVolumeClaim."""

    volume_name: str | None = None
    storage_class_name: str | None = None
    access_modes: list[str] | None = None
    resources: Resources | None = None
    volume_mode: str | None = None
    volume_attributes_class_name: str | None = None
    selector: LabelSelector | None = None


class ClaimTemplate(Struct):
    """The template of a volume claim."""

    metadata: Meta | None = None
    spec: ClaimSpec | None = None


class Ephemeral(Struct, rename="camel"):
    volume_claim_template: ClaimTemplate | None = None


class Volume(Struct, rename="camel"):
    name: str | None = None
    persistent_volume_claim: ClaimSource | None = None
    ephemeral: Present | None = None


class TemplateVolume(Volume):
    """A volume of a pod template, with the template of its claims."""

    ephemeral: Ephemeral | None = None  # type: ignore[assignment]


class Tolerates(Struct, gc=False):
    key: str | None = None
    operator: str | None = None
    value: str | None = None
    effect: str | None = None


class SelectorTerm(Struct, rename="camel"):
    match_expressions: list[Expression] | None = None
    match_fields: list[Expression] | None = None


class NodeSelector(Struct, rename="camel"):
    node_selector_terms: list[SelectorTerm] | None = None


class PreferredTerm(Struct):
    weight: int | None = None
    preference: SelectorTerm | None = None


class NodeAffinity(Struct):
    required: NodeSelector | None = field(default=None, name="requiredDuringSchedulingIgnoredDuringExecution")
    preferred: list[PreferredTerm] | None = field(default=None, name="preferredDuringSchedulingIgnoredDuringExecution")


class AffinityTerm(Struct, rename="camel"):
    topology_key: str | None = None
    label_selector: LabelSelector | None = None
    namespaces: list[str] | None = None
    namespace_selector: LabelSelector | None = None
    match_label_keys: list[str] | None = None
    mismatch_label_keys: list[str] | None = None


class WeightedTerm(Struct, rename="camel"):
    weight: int | None = None
    pod_affinity_term: AffinityTerm | None = None


class PodAffinity(Struct):
    """Affinity or anti-affinity."""

    required: list[AffinityTerm] | None = field(default=None, name="requiredDuringSchedulingIgnoredDuringExecution")
    preferred: list[WeightedTerm] | None = field(default=None, name="preferredDuringSchedulingIgnoredDuringExecution")


class Affinity(Struct, rename="camel"):
    node_affinity: NodeAffinity | None = None
    pod_affinity: PodAffinity | None = None
    pod_anti_affinity: PodAffinity | None = None


class SpreadConstraint(Struct, rename="camel"):
    topology_key: str | None = None
    when_unsatisfiable: str | None = None
    max_skew: int | None = None
    min_domains: int | None = None
    label_selector: LabelSelector | None = None
    match_label_keys: list[str] | None = None
    node_affinity_policy: str | None = None
    node_taints_policy: str | None = None


class PodClaim(Struct, rename="camel", gc=False):
    name: str | None = None
    resource_claim_name: str | None = None
    resource_claim_template_name: str | None = None


class PodSpec(Struct, rename="camel"):
    scheduler_name: str | None = None
    node_name: str | None = None
    priority: int | None = None
    preemption_policy: str | None = None
    active_deadline_seconds: int | None = None
    scheduling_gates: list[Named] | None = None
    scheduling_group: SchedulingGroup | None = None
    resource_claims: list[PodClaim] | None = None
    containers: list[Container] | None = None
    init_containers: list[Container] | None = None
    overhead: Amounts | None = None
    resources: Resources | None = None
    volumes: list[Volume] | None = None
    node_selector: dict[str, str] | None = None
    affinity: Affinity | None = None
    tolerations: list[Tolerates] | None = None
    host_network: bool | None = None
    topology_spread_constraints: list[SpreadConstraint] | None = None


class PodStatus(Struct, rename="camel"):
    phase: str | None = None
    nominated_node_name: str | None = None
    start_time: str | None = None
    conditions: list[Condition] | None = None


class PodObject(Struct):
    metadata: Meta | None = None
    spec: PodSpec | None = None
    status: PodStatus | None = None


class TaintObject(Struct, gc=False):
    key: str | None = None
    value: str | None = None
    effect: str | None = None


class NodeSpec(Struct):
    unschedulable: bool | None = None
    taints: list[TaintObject] | None = None


class NodeStatus(Struct):
    allocatable: Amounts | None = None
    conditions: list[Condition] | None = None


class NodeObject(Struct):
    metadata: Meta | None = None
    spec: NodeSpec | None = None
    status: NodeStatus | None = None


class OwnerSpec(Struct):
    template: PodObject | None = None


class OwnerObject(Struct):
    """An object that makes pods of a template: a Job, StatefulSet or Deployment."""

    metadata: Meta | None = None
    spec: OwnerSpec | None = None


class GroupSpec(Struct, rename="camel"):
    min_member: int | None = None
    schedule_timeout_seconds: int | None = None


class GroupObject(Struct):
    """``scheduling.x-k8s.io/v1alpha1`` PodGroup."""

    metadata: Meta | None = None
    spec: GroupSpec | None = None


class ClaimReference(Struct, gc=False):
    namespace: str | None = None
    name: str | None = None


class VolumeAffinity(Struct):
    required: NodeSelector | None = None


class VolumeSpec(Struct, rename="camel"):
    claim_ref: ClaimReference | None = None
    node_affinity: VolumeAffinity | None = None
    storage_class_name: str | None = None
    access_modes: list[str] | None = None
    capacity: Amounts | None = None
    volume_mode: str | None = None
    volume_attributes_class_name: str | None = None


class VolumePhase(Struct, gc=False):
    phase: str | None = None


class VolumeObject(Struct):
    """PersistentVolume."""

    metadata: Meta | None = None
    spec: VolumeSpec | None = None
    status: VolumePhase | None = None


class ClaimObject(Struct):
    """PersistentVolumeClaim."""

    metadata: Meta | None = None
    spec: ClaimSpec | None = None
    status: VolumePhase | None = None


class TopologyValues(Struct):
    key: str | None = None
    values: list[str] | None = None


class TopologyTerm(Struct, rename="camel"):
    match_label_expressions: list[TopologyValues] | None = None


class StorageClassObject(Struct, rename="camel"):
    metadata: Meta | None = None
    provisioner: str | None = None
    volume_binding_mode: str | None = None
    allowed_topologies: list[TopologyTerm] | None = None


class DriverSpec(Struct, rename="camel"):
    storage_capacity: bool | None = None


class DriverObject(Struct):
    """CSIDriver."""

    metadata: Meta | None = None
    spec: DriverSpec | None = None


class CapacityObject(Struct, rename="camel"):
    """CSIStorageCapacity."""

    metadata: Meta | None = None
    node_topology: LabelSelector | None = None
    storage_class_name: str | None = None
    capacity: str | int | float | None = None
    maximum_volume_size: str | int | float | None = None
