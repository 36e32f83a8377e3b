"""Read queue objects into what the decision by quota knows, with what is wrong in each.

The first part has the objects as the API sends them: v1beta1 and v1beta2 of ``kueue.x-k8s.io``, in either spelling.
Every field may be absent or null. Unknown fields are skipped without being decoded.

A contradiction, or a field that is not implemented, becomes a sentence for the object's author. The queue is inactive
until it is corrected. Nothing is guessed, and nothing is ignored silently.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from fractions import Fraction
from typing import Generic, TypeVar

from msgspec import Raw, Struct, field

from extender.kube.queues.past_use import past_use_from
from extender.kube.queues.runs import StatusCondition, runs_from
from extender.kube.reading.constraints import selector_of, taints_of, tolerations_of
from extender.kube.reading.durations import AGEING, HOW, MAX_RUN, ageing_of, span_of
from extender.kube.reading.identity import UnreadableError, name_of
from extender.kube.reading.objects import LabelSelector, Meta, Present, TaintObject, Tolerates
from extender.kube.reading.plain import plain, quoted
from extender.kube.reading.quantity import milli, whole
from policies.model.quantities import exact
from policies.model.queues import (
    ClusterQueue,
    Cohort,
    Evicts,
    FlavorResource,
    Fungibility,
    LocalQueue,
    Preemption,
    Preference,
    Quota,
    ResourceFlavor,
    ResourceGroup,
    Search,
    Stop,
    Strategy,
    TopologyObject,
)

Amount = str | int | float
ANNOTATED = (AGEING, MAX_RUN)
"""Annotations of queues that Muster reads."""


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
    """v1beta1's name of ``cohort_name``."""
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
    conditions: list[StatusCondition] | None = None


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
    """The state in older versions; newer ones have ``status.state``."""


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


_WHERE = "spec.preemption"
_WITHIN = (Evicts.NEVER, Evicts.LOWER, Evicts.LOWER_OR_NEWER)
_RECLAIM = (Evicts.NEVER, Evicts.LOWER, Evicts.ANY)
_BORROW = (Evicts.NEVER, Evicts.LOWER)


def preemption_from(spec: PreemptionSpec | None, problems: list[str]) -> Preemption:
    """Read a preemption policy; faults are added to ``problems``. Kueue's CRD allows the same values."""
    if spec is None:
        return Preemption()

    def one_of(field: str, text: str | None, known: Sequence[Evicts]) -> Evicts:
        if text and text not in known:
            problems.append(f"{_WHERE}.{field} is {quoted(text)}; it must be one of {', '.join(known)}")
        return Evicts(text) if text and text in known else Evicts.NEVER

    borrow = spec.borrow_within_cohort or BorrowSpec()
    preemption = Preemption(
        one_of("withinClusterQueue", spec.within_cluster_queue, _WITHIN),
        one_of("reclaimWithinCohort", spec.reclaim_within_cohort, _RECLAIM),
        one_of("borrowWithinCohort.policy", borrow.policy, _BORROW),
        borrow.max_priority_threshold,
    )
    if preemption.reclaim is Evicts.NEVER and preemption.borrow is not Evicts.NEVER:
        problems.append(f"{_WHERE}.borrowWithinCohort.policy is {preemption.borrow}, and reclaimWithinCohort is Never")
    return preemption


ValueT = TypeVar("ValueT")
NameT = TypeVar("NameT", bound=StrEnum)

NOT_IMPLEMENTED = "{} is not implemented"
TWICE = "{} {} is in two resource groups"
MOST = 16
"""The CRD's limit for resource groups of an object, for flavors and resources of a group, and for levels."""
_OLD_WORDS = {"Borrow": Search.STOP.value, "Preempt": Search.STOP.value}
"""v1beta1's words for "the search may stop"."""
_BY_USAGE = "UsageBasedAdmissionFairSharing"


@dataclass(frozen=True, slots=True)
class Read(Generic[ValueT]):
    """An object that was read.

    ``problems``: why it cannot be used as it is.
    ``warnings``: what its author may not have meant.
    ``unclear``: the quotas of the queue contradict each other.
    """

    value: ValueT
    problems: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()
    unclear: bool = False


class Notes:
    """Problems and warnings that come up while an object is read."""

    def __init__(self) -> None:
        self.problems: list[str] = []
        self.warnings: list[str] = []

    def one_of(self, kind: type[NameT], field: str, text: str | None, default: NameT) -> NameT:
        if not text:
            return default
        try:
            return kind(text)
        except ValueError:
            self.problems.append(f"{field} is {quoted(text)}; it must be one of {', '.join(kind)}")
            return default

    def most(self, field: str, items: Sequence[object]) -> None:
        """Add a problem if there are more than the CRD allows; the rest is not read."""
        if len(items) > MOST:
            self.problems.append(f"{field}: there are {len(items)}, and {MOST} are allowed")

    def read(self, value: ValueT) -> Read[ValueT]:
        return Read(value, tuple(dict.fromkeys(self.problems)), tuple(dict.fromkeys(self.warnings)))


def cluster_queue_from(obj: ClusterQueueObject) -> Read[ClusterQueue]:
    """Read a ClusterQueue. Raises UnreadableError without a name."""
    notes, spec = Notes(), obj.spec or ClusterQueueSpec()
    cohort = spec.cohort_name or spec.cohort or ""
    if spec.cohort and spec.cohort_name and spec.cohort != spec.cohort_name:
        notes.problems.append(f"spec.cohort is {quoted(spec.cohort)} and spec.cohortName {quoted(spec.cohort_name)}")
    groups = tuple(_groups(spec.resource_groups or (), notes))
    unclear = bool(notes.problems)
    fields = {
        "spec.admissionChecks": spec.admission_checks,
        "spec.admissionChecksStrategy": spec.admission_checks_strategy,
        "spec.concurrentAdmissionPolicy": spec.concurrent_admission_policy,
    }
    notes.problems += [NOT_IMPLEMENTED.format(name) for name, value in fields.items() if value]
    if obj.metadata is not None and obj.metadata.deletion_timestamp:
        notes.problems.append("it is being deleted")
    mode = spec.admission_scope.admission_mode if spec.admission_scope else None
    if mode not in (None, "", _BY_USAGE, "NoAdmissionFairSharing"):
        notes.problems.append(NOT_IMPLEMENTED.format(f"spec.admissionScope.admissionMode {quoted(mode)}"))
    queue = ClusterQueue(
        name_of(obj.metadata, "ClusterQueue"),
        groups=groups,
        cohort=plain(cohort),
        strategy=notes.one_of(Strategy, "spec.queueingStrategy", spec.queueing_strategy, Strategy.BEST_EFFORT),
        fungibility=_fungibility(spec.flavor_fungibility or FungibilitySpec(), notes),
        preemption=preemption_from(spec.preemption, notes.problems),
        weight=_weight(spec.fair_sharing, notes),
        namespaces=selector_of(spec.namespace_selector),
        stop=notes.one_of(Stop, "spec.stopPolicy", spec.stop_policy, Stop.NONE),
        by_past_usage=mode == _BY_USAGE,
        max_run_s=_longest_run(obj.metadata, notes),
        ageing=_ageing(obj.metadata, notes),
    )
    if queue.namespaces is None:
        notes.warnings.append("it has no spec.namespaceSelector, so no namespace may use it; {} lets all use it")
    quotas = [(*pair, quota) for group in queue.groups for pair, quota in _quotas_of(group)]
    if not cohort and any(quota.borrowing is not None or quota.lending is not None for *_, quota in quotas):
        notes.warnings.append("its borrowing and lending limits mean nothing, because it is in no cohort")
    for name, resource, quota in quotas:
        if cohort and quota.lending is not None and quota.lending > quota.nominal:
            notes.warnings.append(f"the lendingLimit for {resource} of flavor {name} is more than its nominalQuota")
    return replace(notes.read(queue), unclear=unclear)


def _quotas_of(group: ResourceGroup) -> Iterator[tuple[FlavorResource, Quota]]:
    return (((name, resource), quota) for name, quotas in group.flavors for resource, quota in quotas.items())


def cohort_from(obj: CohortObject) -> Read[Cohort]:
    """Read a Cohort. Raises UnreadableError without a name."""
    notes, spec = Notes(), obj.spec or CohortSpec()
    groups = tuple(_groups(spec.resource_groups or (), notes))
    name, parent = name_of(obj.metadata, "Cohort"), plain(spec.parent_name or "")
    return notes.read(Cohort(name, parent, groups, _weight(spec.fair_sharing, notes)))


def flavor_from(obj: FlavorObject) -> Read[ResourceFlavor]:
    """Read a ResourceFlavor. Raises UnreadableError without a name."""
    notes, spec = Notes(), obj.spec or FlavorSpec()
    taints, tolerations = taints_of(spec.node_taints or ()), tolerations_of(spec.tolerations or ())
    labels = {plain(key): plain(value) for key, value in (spec.node_labels or {}).items()}
    name = name_of(obj.metadata, "ResourceFlavor")
    return notes.read(ResourceFlavor(name, labels, taints, tolerations, plain(spec.topology_name or "")))


def topology_from(obj: KueueTopology) -> Read[TopologyObject]:
    """Read a Topology. Raises UnreadableError without a name."""
    notes = Notes()
    levels_read = (obj.spec.levels if obj.spec is not None else None) or ()
    notes.most("spec.levels", levels_read)
    levels = tuple(plain(topology_level.node_label or "") for topology_level in levels_read[:MOST])
    if not all(levels) or not levels:
        notes.problems.append("each of its levels needs a nodeLabel, and it needs one level at least")
    return notes.read(TopologyObject(name_of(obj.metadata, "Topology"), levels))


def local_queue_from(obj: LocalQueueObject) -> Read[LocalQueue]:
    """Read a LocalQueue. Raises UnreadableError without a name or namespace."""
    notes, spec, meta = Notes(), obj.spec or LocalQueueSpec(), obj.metadata or Meta()
    name = name_of(meta, "LocalQueue")
    if not meta.namespace:
        raise UnreadableError(f"the LocalQueue {name} has no namespace")
    if not spec.queue:
        notes.problems.append("it names no spec.clusterQueue")
    stop = notes.one_of(Stop, "spec.stopPolicy", spec.stop_policy, Stop.NONE)
    weight = _weight(spec.fair_sharing, notes)
    sharing = obj.status.fair_sharing if obj.status else None
    past = past_use_from(sharing.admission_fair_sharing_status) if sharing else None
    return notes.read(
        LocalQueue(
            plain(meta.namespace),
            name,
            plain(spec.queue or ""),
            weight,
            stop,
            past,
            max_run_s=_longest_run(meta, notes),
            runs=runs_from((obj.status.conditions if obj.status else None) or ()),
        )
    )


def _longest_run(meta: Meta | None, notes: Notes) -> float | None:
    """The most seconds that a workload may run; None without a limit."""
    annotations = ((meta and meta.annotations) or {}).get(MAX_RUN)
    seconds = None if annotations is None else span_of(annotations)
    if annotations is not None and not seconds:
        notes.problems.append(f"its annotation {MAX_RUN} is {quoted(annotations)}: {HOW}")
    return seconds or None


def _ageing(meta: Meta | None, notes: Notes) -> int:
    """The points of priority that a workload gains per day; 0 without ageing."""
    annotations = ((meta and meta.annotations) or {}).get(AGEING)
    points = 0 if annotations is None else ageing_of(annotations)
    if points is None:
        notes.problems.append(
            f"its annotation {AGEING} is {quoted(annotations or '')}: write a number per day or per hour"
        )
    return points or 0


def _groups(groups: Sequence[GroupSpec], notes: Notes) -> Iterator[ResourceGroup]:
    resources: set[str] = set()
    flavors: set[str] = set()
    notes.most("spec.resourceGroups", groups)
    for group in groups[:MOST]:
        notes.most("coveredResources of a group", group.covered_resources or ())
        notes.most("flavors of a group", group.flavors or ())
        covered = tuple(dict.fromkeys(map(plain, (group.covered_resources or ())[:MOST])))
        flavors_read = [
            (plain(flavor_quotas.name or ""), flavor_quotas.resources or ())
            for flavor_quotas in (group.flavors or ())[:MOST]
        ]
        notes.problems += [TWICE.format("resource", quoted(name)) for name in covered if name in resources]
        notes.problems += [TWICE.format("flavor", quoted(name)) for name, _ in flavors_read if name in flavors]
        times = Counter(name for name, _ in flavors_read)
        notes.problems += [f"flavor {quoted(name)} is twice in a resource group" for name in times if times[name] > 1]
        resources.update(covered)
        flavors.update(name for name, _ in flavors_read)
        read = ResourceGroup(
            covered, tuple((name, dict(_quotas(name, quotas, covered, notes))) for name, quotas in flavors_read)
        )
        unlimited = [name for name in covered if name not in read.limited]
        if unlimited:
            notes.warnings.append(f"{', '.join(unlimited)}: covered, and no flavor says a quota: there is no limit")
        yield read


def _quotas(
    flavor: str, quotas: Sequence[ResourceQuota], covered: tuple[str, ...], notes: Notes
) -> Iterator[tuple[str, Quota]]:
    notes.most(f"resources of flavor {flavor}", quotas)
    seen: set[str] = set()
    for resource_quota in quotas[:MOST]:
        name = plain(resource_quota.name or "")
        if name in seen:
            notes.problems.append(f"flavor {flavor} has two quotas for {quoted(name)}")
        seen.add(name)
        if name not in covered:
            notes.problems.append(f"flavor {flavor} has a quota for {quoted(name)}, which is not in coveredResources")
            continue
        where = f"{name} of flavor {flavor}"
        if resource_quota.nominal_quota is None:
            notes.warnings.append(f"there is no nominalQuota for {where}: it is 0")
        yield (
            name,
            Quota(
                amount_of(resource_quota.nominal_quota, name, f"the nominalQuota for {where}", notes) or 0,
                amount_of(resource_quota.borrowing_limit, name, f"the borrowingLimit for {where}", notes),
                amount_of(resource_quota.lending_limit, name, f"the lendingLimit for {where}", notes),
            ),
        )


def amount_of(declared: Amount | None, resource: str, what: str, notes: Notes) -> int | None:
    """The amount in base units (cpu: millicores); None if not stated. Faults become a problem of ``what``."""
    if declared is None:
        return None
    try:
        amount, negative = milli(declared) if resource == "cpu" else whole(declared), exact(declared) < 0
    except ValueError:
        notes.problems.append(f"{what} is {quoted(str(declared))}, which is no quantity")
        return 0
    if negative:
        notes.problems.append(f"{what} is {quoted(str(declared))}, and must not be negative")
    return max(0, amount)


def _fungibility(spec: FungibilitySpec, notes: Notes) -> Fungibility:
    where, default = "spec.flavorFungibility", Fungibility()

    def search(field: str, text: str | None, default: Search) -> Search:
        return notes.one_of(Search, f"{where}.{field}", _OLD_WORDS.get(text or "", text), default)

    return Fungibility(
        search("whenCanBorrow", spec.when_can_borrow, default.when_can_borrow),
        search("whenCanPreempt", spec.when_can_preempt, default.when_can_preempt),
        notes.one_of(Preference, f"{where}.preference", spec.preference, default.preference),
    )


def _weight(spec: FairSharingSpec | None, notes: Notes) -> Fraction:
    return weight_of(spec.weight if spec is not None else None, "spec.fairSharing.weight", notes)


def weight_of(declared: Amount | None, field: str, notes: Notes) -> Fraction:
    """The weight of fair sharing; 1 if not stated."""
    if declared is None:
        return Fraction(1)
    try:
        weight = exact(declared)
    except ValueError:
        notes.problems.append(f"{field} is {quoted(str(declared))}, which is no quantity")
        return Fraction(1)
    if weight < 0:
        notes.problems.append(f"{field} is {quoted(str(declared))}, and must not be negative")
    return max(Fraction(0), weight)
