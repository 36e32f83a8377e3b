"""Reduce each object of a snapshot to what a decision reads. Objects are changed in place."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping

from msgspec import Struct

from extender.core.gate.stamps import STAMPED
from extender.kube import dialects
from extender.kube.dialects import owner
from extender.kube.dialects.unread_keys import OF_RUNS
from extender.kube.keys import (
    FLAVORS,
    HOLD,
    IN_VAIN,
    INDEX_LABEL,
    MIN_PARALLELISM,
    PLAN,
    PRIORITY_CLASS,
    QUEUES,
    WORKLOAD,
)
from extender.kube.reading.budgets import BudgetMeta, BudgetObject
from extender.kube.reading.eviction import EVICTED_AT
from extender.kube.reading.numbering import NUMBERS
from extender.kube.reading.objects import (
    ClaimObject,
    ClaimSource,
    ClaimSpec,
    Condition,
    Meta,
    NodeObject,
    PodObject,
    Volume,
    VolumeObject,
    VolumeSpec,
)
from extender.kube.reading.queue_name import OF_VOLCANO
from extender.kube.reading.reserved import RESERVATIONS
from extender.kube.reading.topology import MANAGED_BY_KUEUE
from extender.kube.reading.topology import READ as TOPOLOGY_READ
from extender.kube.reading.volumes import BETA_CLASS
from extender.kube.snapshots.jobs import JobObject
from policies.model.storage import SELECTED_NODE

_OF_JOBS = (PLAN, FLAVORS, HOLD, MIN_PARALLELISM, PRIORITY_CLASS, WORKLOAD, EVICTED_AT, IN_VAIN)
READ = frozenset(
    (*dialects.READ, *owner.READ, *NUMBERS, *STAMPED, *TOPOLOGY_READ, *MANAGED_BY_KUEUE, *QUEUES, *OF_RUNS)
).union(_OF_JOBS, (OF_VOLCANO, *RESERVATIONS, SELECTED_NODE, BETA_CLASS))
"""Every annotation or label that a decision reads of a pod, PodGroup, owner, job, claim or volume.

Only these are written, and also labels by which a pod selects others, and labels of volumes without a claim.
"""
_BOUND = "bound"
_FREE = "Available"


class OrdinalsObject(Struct):
    start: int | None = None


class GroupTemplate(Struct, rename="camel"):
    """The template of a LeaderWorkerSet's groups."""

    size: int | None = None
    leader_template: PodObject | None = None
    worker_template: PodObject | None = None


class GangOwnerSpec(Struct, rename="camel"):
    """How many pods the owner makes, in which order, and of which template."""

    replicas: int | None = None
    ordinals: OrdinalsObject | None = None
    pod_management_policy: str | None = None
    startup_policy: str | None = None
    template: PodObject | None = None
    leader_worker_template: GroupTemplate | None = None


class GangOwnerObject(Struct):
    """An object of ``extender.kube.kinds.owners``. Items of a list do not state their kind."""

    kind: str = ""
    metadata: Meta | None = None
    spec: GangOwnerSpec | None = None

    @property
    def templates(self) -> Iterator[PodObject]:
        spec = self.spec or GangOwnerSpec()
        group = spec.leader_worker_template or GroupTemplate()
        return (obj for obj in (spec.template, group.leader_template, group.worker_template) if obj is not None)


def reduced_node(node: NodeObject) -> NodeObject:
    meta, status = node.metadata or Meta(), node.status
    node.metadata = Meta(name=meta.name, labels=meta.labels)
    if status is not None:
        status.conditions = [
            Condition(condition.type, condition.status)
            for condition in status.conditions or ()
            if condition.type == "Ready"
        ]
    return node


def reduced_pod(pod: PodObject, selected: Collection[str]) -> PodObject:
    """The pod with the labels by which some pod selects others, and the label of its index."""
    meta = pod.metadata or Meta()
    selected = {*selected, *meta.values_of(INDEX_LABEL)}
    pod.metadata = reduced_meta(meta)
    labels = {key: value for key, value in (meta.labels or {}).items() if key in selected}
    pod.metadata.labels = (labels | (pod.metadata.labels or {})) or None
    pod.metadata.owner_references = [owner for owner in meta.owner_references or () if owner.controller] or None
    if pod.spec is not None:
        pod.spec.volumes = [
            volume for volume_object in pod.spec.volumes or () if (volume := _volume(meta, volume_object))
        ] or None
        for container in (*(pod.spec.containers or ()), *(pod.spec.init_containers or ())):
            container.ports = [
                port for port in container.ports or () if port.host_port or pod.spec.host_network
            ] or None
    if pod.status is not None:
        conditions = [condition for condition in pod.status.conditions or () if condition.type == "PodScheduled"]
        pod.status.conditions = conditions or None
    return pod


def reduced_owner(owner: GangOwnerObject, selected: Collection[str]) -> GangOwnerObject:
    """The owner with its pod templates, since some pods may not exist yet."""
    owner.metadata = reduced_meta(owner.metadata or Meta())
    for template in owner.templates:
        reduced_pod(template, selected)
    return owner


def reduced_job(job: JobObject, selected: Collection[str]) -> JobObject:
    """The job with its controller: it may be read in an object that its controller has made of it."""
    makers = [owner_reference for owner_reference in job.metadata.owner_references or () if owner_reference.controller]
    job.metadata = reduced_meta(job.metadata)
    job.metadata.owner_references = makers or None
    for template in job.templates:
        reduced_pod(template, selected)
    return job


def reduced_claim(claim: ClaimObject) -> ClaimObject:
    claim.metadata = reduced_meta(claim.metadata or Meta())
    if claim.spec is not None and claim.spec.volume_name:
        claim.spec = ClaimSpec(_BOUND)
    return claim


def reduced_volume(volume: VolumeObject) -> VolumeObject:
    """The volume; if no claim has it, with what it offers, and the labels by which claims may select it."""
    meta, spec = volume.metadata or Meta(), volume.spec or VolumeSpec()
    if volume.status is not None and volume.status.phase == _FREE:
        volume.metadata = Meta(name=meta.name, labels=meta.labels, annotations=reduced_meta(meta).annotations)
        return volume
    volume.metadata = Meta(name=meta.name)
    volume.spec = VolumeSpec(spec.claim_ref, spec.node_affinity)
    return volume


def reduced_budget(budget: BudgetObject) -> BudgetObject:
    meta = budget.metadata or BudgetMeta()
    budget.metadata = BudgetMeta(name=meta.name, namespace=meta.namespace, uid=meta.uid, generation=meta.generation)
    return budget


def reduced_meta(meta: Meta) -> Meta:
    return Meta(
        name=meta.name,
        namespace=meta.namespace,
        uid=meta.uid,
        creation_timestamp=meta.creation_timestamp,
        deletion_timestamp=meta.deletion_timestamp,
        labels=_read_by_us(meta.labels),
        annotations=_read_by_us(meta.annotations),
    )


def _read_by_us(mapping: Mapping[str, str] | None) -> dict[str, str] | None:
    return {key: value for key, value in (mapping or {}).items() if key in READ} or None


def _volume(pod: Meta, volume: Volume) -> Volume | None:
    """The volume if it needs a claim. The claim of an ephemeral volume is named after the pod and the volume."""
    if volume.ephemeral is not None:
        return Volume(persistent_volume_claim=ClaimSource(f"{pod.name}-{volume.name or ''}"))
    claim = volume.persistent_volume_claim
    return None if claim is None else Volume(persistent_volume_claim=claim)
