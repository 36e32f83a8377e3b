"""The bare facts of objects that the core has failed on, and the names of such objects.

Room and quota in use stay counted, and nothing that runs is stopped. All other fields that users may write freely are
left out: the core may have failed on one of them.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from extender.core.events import (
    BudgetSeen,
    CapacitySeen,
    ClaimSeen,
    ClaimTemplateSeen,
    ComputeDomainSeen,
    DeviceClaimSeen,
    DeviceClassSeen,
    Event,
    GroupJobSeen,
    GroupSeen,
    JobSeen,
    NamespaceSeen,
    NativeGangSeen,
    NodeSeen,
    OwnerSeen,
    PodSeen,
    QueueSeen,
    SliceSeen,
    StorageClassSeen,
    StorageDriverSeen,
    TaintRuleSeen,
    VolumeSeen,
)
from policies.model import (
    Controller,
    Dialect,
    GroupRef,
    Job,
    Node,
    Pod,
    PodSet,
    PodSets,
)
from policies.model.queues import LocalQueue, VolcanoQueue

Named = tuple[str, Controller]
"""The namespace of an object (empty if it has none), and the object as an owner reference names it."""

_PODGROUPS = {
    Dialect.VOLCANO: "scheduling.volcano.sh/v1beta1",
    Dialect.KAI: "scheduling.run.ai/v2alpha2",
    Dialect.KOORDINATOR: "scheduling.sigs.k8s.io/v1alpha1",
}


def bare(event: Event) -> tuple[Event, ...]:
    """Return the events that may replace this one, the fullest first; none for an object without room or quota.

    Ended objects are included: the core may know them as they were before.
    """
    match event:
        case PodSeen(pod) if pod.node:
            return (PodSeen(_bare_pod(pod)),)
        case NodeSeen(node):
            closed = Node(node.name, (), node.labels, unschedulable=True, ready=node.ready, bare=True)
            return NodeSeen(closed), NodeSeen(replace(closed, labels={}))
        case JobSeen(job) if job.finished or not (job.suspended and job.stopped):
            return (JobSeen(_bare_job(job)),)
        case _:
            return ()


def _bare_pod(pod: Pod) -> Pod:
    """Keep the identity of the pod, its node, its requests, and the gang that it was bound for."""
    group = pod.group
    if group is not None:
        group = GroupRef(
            group.name, group.dialect, group.min_member, role=group.role, minima=group.minima, owner=group.owner
        )
    return Pod(
        pod.uid,
        pod.namespace,
        pod.name,
        pod.requests,
        scheduler=pod.scheduler,
        created=pod.created,
        priority=pod.priority,
        node=pod.node,
        phase=pod.phase,
        deleting=pod.deleting,
        owner=pod.owner,
        controller=pod.controller,
        index=pod.index,
        series=pod.series,
        group=group,
        stamp=pod.stamp,
        native_group=pod.native_group,
        queue=pod.queue,
        podset_group=pod.podset_group,
        stays=pod.stays,
    )


def _bare_job(job: Job) -> Job:
    """Keep the room of the job's pods, its quota and its plan. A job that is ``bare`` is neither suspended nor
    evicted."""
    podsets = tuple(_bare_podset(podset) for podset in job.podsets.podsets)
    return Job(
        PodSets(job.key, podsets),
        job.owner,
        managed=job.managed,
        suspended=job.suspended,
        stopped=job.stopped,
        finished=job.finished,
        running=job.running,
        marked=job.marked,
        plan=job.plan,
        resumes=job.resumes,
        done=job.done,
        closed=job.closed,
        queue=job.queue,
        flavors=job.flavors,
        node_wait=job.node_wait,
        bare=True,
    )


def _bare_podset(podset: PodSet) -> PodSet:
    leader = None if podset.leader is None else _bare_pod(podset.leader)
    return replace(podset, template=_bare_pod(podset.template), leader=leader)


def named(event: Event) -> Named | None:
    """Return the object that the event shows; None for an event about no object, or about a deleted one."""
    name = _NAMES.get(type(event))
    return None if name is None else name(event)


def _group(event: GroupSeen) -> Named:
    key, version = event.group.key, _PODGROUPS.get(event.group.dialect, "scheduling.x-k8s.io/v1alpha1")
    return key.namespace, Controller(version, "PodGroup", key.name, event.group.uid)


def _queue(event: QueueSeen) -> Named:
    queue = event.object
    namespace = queue.namespace if isinstance(queue, LocalQueue) else ""
    if isinstance(queue, VolcanoQueue):
        return namespace, Controller("scheduling.volcano.sh/v1beta1", "Queue", queue.name, "")
    kind = type(queue).__name__.removesuffix("Object")
    return namespace, Controller("kueue.x-k8s.io/v1beta1", kind, queue.name, "")


def _unnumbered(version: str, kind: str, namespace: str, name: str) -> Named:
    return namespace, Controller(version, kind, name, "")


NATIVE, DRA, NVIDIA = "scheduling.k8s.io/v1beta1", "resource.k8s.io/v1", "resource.nvidia.com/v1beta1"
STORAGE = "storage.k8s.io/v1"
_NAMES: dict[type[Event], Callable[[Any], Named]] = {
    PodSeen: lambda event: (event.pod.namespace, Controller("v1", "Pod", event.pod.name, event.pod.uid)),
    NodeSeen: lambda event: _unnumbered("v1", "Node", "", event.node.name),
    JobSeen: lambda event: (event.job.key.namespace, event.job.owner),
    GroupJobSeen: lambda event: (event.job.key.namespace, event.job.controller),
    OwnerSeen: lambda event: (event.owner.key.namespace, event.owner.controller),
    GroupSeen: _group,
    QueueSeen: _queue,
    NamespaceSeen: lambda event: _unnumbered("v1", "Namespace", "", event.name),
    ClaimSeen: lambda event: _unnumbered("v1", "PersistentVolumeClaim", event.namespace, event.name),
    VolumeSeen: lambda event: _unnumbered("v1", "PersistentVolume", "", event.name),
    StorageClassSeen: lambda event: _unnumbered(STORAGE, "StorageClass", "", event.storage_class.name),
    StorageDriverSeen: lambda event: _unnumbered(STORAGE, "CSIDriver", "", event.name),
    CapacitySeen: lambda event: _unnumbered(
        STORAGE, "CSIStorageCapacity", event.capacity.namespace, event.capacity.name
    ),
    BudgetSeen: lambda event: _unnumbered(
        "policy/v1", "PodDisruptionBudget", event.budget.namespace, event.budget.name
    ),
    NativeGangSeen: lambda event: (event.key.namespace, Controller(NATIVE, "PodGroup", event.key.name, event.uid)),
    DeviceClassSeen: lambda event: _unnumbered(DRA, "DeviceClass", "", event.name),
    TaintRuleSeen: lambda event: _unnumbered(DRA, "DeviceTaintRule", "", event.rule.name),
    SliceSeen: lambda event: _unnumbered(DRA, "ResourceSlice", "", event.slice.name),
    ClaimTemplateSeen: lambda event: _unnumbered(
        DRA, "ResourceClaimTemplate", event.template.namespace, event.template.name
    ),
    DeviceClaimSeen: lambda event: _unnumbered(DRA, "ResourceClaim", event.claim.namespace, event.claim.name),
    ComputeDomainSeen: lambda event: (
        event.domain.namespace,
        Controller(NVIDIA, "ComputeDomain", event.domain.name, event.domain.uid),
    ),
}
