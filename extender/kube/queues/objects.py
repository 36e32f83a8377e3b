"""The queue objects as they are on the wire: v1beta1 and v1beta2 of ``kueue.x-k8s.io``, whichever spelling is used.

Every field may be absent or null. Unknown fields are skipped without being decoded.
"""

from __future__ import annotations

from msgspec import Raw, Struct, field

from extender.kube.reading.objects import LabelSelector, Meta, Present, TaintObject, Tolerates

Amount = str | int | float


class ResourceQuota(Struct, rename="camel"):
    name: str | None = None
    nominal_quota: Amount | None = None
    borrowing_limit: Amount | None = None
    lending_limit: Amount | None = None


class FlavorQuotas(Struct):
    name: str | None = None
    resources: list[ResourceQuota] | None = None


class GroupSpec(Struct, rename="camel"):
    covered_resources: list[str] | None = None
    flavors: list[FlavorQuotas] | None = None


class FungibilitySpec(Struct, rename="camel"):
    when_can_borrow: str | None = None
    when_can_preempt: str | None = None
    preference: str | None = None


class BorrowSpec(Struct, rename="camel"):
    policy: str | None = None
    max_priority_threshold: int | None = None


class PreemptionSpec(Struct, rename="camel"):
    within_cluster_queue: str | None = None
    reclaim_within_cohort: str | None = None
    borrow_within_cohort: BorrowSpec | None = None


class FairSharingSpec(Struct):
    weight: Amount | None = None


class AdmissionScope(Struct, rename="camel"):
    admission_mode: str | None = None


class ClusterQueueSpec(Struct, rename="camel"):
    cohort: str | None = None
    """v1beta1; ``cohort_name`` in v1beta2."""
    cohort_name: str | None = None
    resource_groups: list[GroupSpec] | None = None
    queueing_strategy: str | None = None
    namespace_selector: LabelSelector | None = None
    flavor_fungibility: FungibilitySpec | None = None
    preemption: PreemptionSpec | None = None
    fair_sharing: FairSharingSpec | None = None
    admission_scope: AdmissionScope | None = None
    stop_policy: str | None = None
    admission_checks: list[str] | None = None
    admission_checks_strategy: Present | None = None
    concurrent_admission_policy: Present | None = None


class ClusterQueueObject(Struct):
    metadata: Meta | None = None
    spec: ClusterQueueSpec | None = None


class CohortSpec(Struct, rename="camel"):
    parent_name: str | None = None
    resource_groups: list[GroupSpec] | None = None
    fair_sharing: FairSharingSpec | None = None


class CohortObject(Struct):
    metadata: Meta | None = None
    spec: CohortSpec | None = None


class FlavorSpec(Struct, rename="camel"):
    node_labels: dict[str, str] | None = None
    node_taints: list[TaintObject] | None = None
    tolerations: list[Tolerates] | None = None
    topology_name: str | None = None


class FlavorObject(Struct):
    metadata: Meta | None = None
    spec: FlavorSpec | None = None


class LocalQueueSpec(Struct, rename="camel"):
    queue: str | None = field(default=None, name="clusterQueue")
    fair_sharing: FairSharingSpec | None = None
    stop_policy: str | None = None


class LocalFairSharing(Struct, rename="camel"):
    admission_fair_sharing_status: Raw = field(default_factory=Raw)


class LocalQueueStatus(Struct, rename="camel"):
    fair_sharing: LocalFairSharing | None = None


class LocalQueueObject(Struct):
    metadata: Meta | None = None
    spec: LocalQueueSpec | None = None
    status: LocalQueueStatus | None = None


class TopologyLevel(Struct, rename="camel"):
    node_label: str | None = None


class TopologySpec(Struct):
    levels: list[TopologyLevel] | None = None


class KueueTopology(Struct):
    metadata: Meta | None = None
    spec: TopologySpec | None = None


class GuaranteeSpec(Struct):
    resource: dict[str, Amount] | None = None


class VolcanoQueueSpec(Struct):
    weight: Amount | None = None
    capability: dict[str, Amount] | None = None
    deserved: dict[str, Amount] | None = None
    guarantee: GuaranteeSpec | None = None
    reclaimable: bool | None = None
    parent: str | None = None
    priority: int | None = None
    affinity: Present | None = None
    dequeue_strategy: str | None = field(default=None, name="dequeueStrategy")
    state: str | None = None
    """In older versions; ``status.state`` in newer ones."""


class VolcanoQueueStatus(Struct):
    state: str | None = None


class VolcanoQueueObject(Struct):
    """A Queue of scheduling.volcano.sh/v1beta1 (volcano.sh/apis, scheduling/v1beta1/types.go)."""

    metadata: Meta | None = None
    spec: VolcanoQueueSpec | None = None
    status: VolcanoQueueStatus | None = None


class PriorityClassObject(Struct):
    """A WorkloadPriorityClass."""

    metadata: Meta | None = None
    value: int | None = None
