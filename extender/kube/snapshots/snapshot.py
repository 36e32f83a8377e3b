"""A cluster in one file: nodes, pods, PodGroups, owners of gangs, jobs, volumes and devices with their claims and
classes, PodDisruptionBudgets, and queue objects.

The file has the objects in Kubernetes' own shape, reduced to what a decision reads. Environment, commands, images and
secrets are not even decoded. ``reduction`` drops all other annotations.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any, TypeVar

import msgspec
from msgspec import Struct, field

from extender.core.events import ClaimSeen, DeviceEvent, NamespaceSeen, QueueSeen, VolumeEvent, VolumeSeen
from extender.kube.api.connection import ApiError
from extender.kube.client import Kube
from extender.kube.convert import instant, node_from, pod_from, readable
from extender.kube.keys import GANG
from extender.kube.kinds.completion import Completion
from extender.kube.kinds.owners import OWNER_KINDS, OwnerKind, made_by_deployment, owner_from
from extender.kube.kinds.read import Reader
from extender.kube.podgroups.coscheduling import KoordinatorGroup, group_from, koordinator_group_from
from extender.kube.podgroups.kai import KaiGroup, kai_group_from
from extender.kube.podgroups.volcano import VolcanoGroup, volcano_group_from
from extender.kube.reading.budgets import BudgetObject, budget_from
from extender.kube.reading.constraints import keys_of, selected_keys
from extender.kube.reading.identity import UnreadableError
from extender.kube.reading.objects import (
    UNDECODABLE,
    AnyObject,
    ClaimObject,
    GroupObject,
    Meta,
    NodeObject,
    PodObject,
    VolumeObject,
)
from extender.kube.reading.plain import quoted
from extender.kube.reading.volumes import claim_from, volume_from
from extender.kube.resources import (
    BUDGETS,
    CLAIMS,
    GROUPS,
    KAI_GROUPS,
    KOORDINATOR_GROUPS,
    NODES,
    PODS,
    VOLCANO_GROUPS,
    VOLUMES,
)
from extender.kube.snapshots.devices import DeviceObjects, device_events, take_devices
from extender.kube.snapshots.jobs import JobObject, job_from, take_jobs
from extender.kube.snapshots.queues import Document, priorities_in, queue_events, take_queues
from extender.kube.snapshots.reduction import (
    GangOwnerObject,
    reduced_budget,
    reduced_claim,
    reduced_job,
    reduced_meta,
    reduced_node,
    reduced_owner,
    reduced_pod,
    reduced_volume,
)
from extender.kube.snapshots.storage import StorageObjects, storage_events, take_storage
from policies.model import DisruptionBudget, GangOwner, Job, Node, Pod, PodGroup

AnyGroup = GroupObject | VolcanoGroup | KaiGroup | KoordinatorGroup
ObjectT = TypeVar(
    "ObjectT",
    NodeObject,
    PodObject,
    GroupObject,
    VolcanoGroup,
    KaiGroup,
    KoordinatorGroup,
    GangOwnerObject,
    ClaimObject,
    VolumeObject,
    BudgetObject,
)


VERSION = "muster.dev/v1"


class SnapshotError(ValueError):
    """A snapshot cannot be taken or read; the message says why."""


class ClusterFile(Struct, rename="camel", tag="ClusterSnapshot", tag_field="kind"):
    """The content of the file. ``taken``: when it was taken, in RFC 3339."""

    nodes: list[NodeObject]
    pods: list[PodObject]
    api_version: str = VERSION
    taken: str = ""
    anonymised: bool = False
    pod_groups: list[GroupObject] = field(default_factory=list)
    volcano_pod_groups: list[VolcanoGroup] = field(default_factory=list)
    kai_pod_groups: list[KaiGroup] = field(default_factory=list)
    koordinator_pod_groups: list[KoordinatorGroup] = field(default_factory=list)
    owners: list[GangOwnerObject] = field(default_factory=list)
    jobs: list[JobObject] = field(default_factory=list)
    claims: list[ClaimObject] = field(default_factory=list)
    volumes: list[VolumeObject] = field(default_factory=list)
    storage: StorageObjects = field(default_factory=StorageObjects)
    devices: DeviceObjects = field(default_factory=DeviceObjects)
    budgets: list[BudgetObject] = field(default_factory=list)
    queues: list[Document] = field(default_factory=list)
    namespaces: list[AnyObject] = field(default_factory=list)

    @property
    def groups(self) -> int:
        """How many PodGroups of all projects the file has."""
        others = self.volcano_pod_groups, self.kai_pod_groups, self.koordinator_pod_groups
        return len(self.pod_groups) + sum(len(group_list) for group_list in others)


@dataclass(frozen=True, slots=True)
class ClusterFacts:
    """The content of the file as the core sees it.

    ``unreadable``: objects that were left out, and why.
    ``taken``: when the snapshot was taken, in seconds since the epoch; by default when the newest pod was created.
    ``priorities``: the values of the WorkloadPriorityClasses.
    """

    nodes: list[Node]
    pods: list[Pod]
    groups: list[PodGroup]
    owners: list[GangOwner]
    jobs: list[Job]
    claims: list[ClaimSeen]
    volumes: list[VolumeSeen]
    storage: list[VolumeEvent]
    devices: list[DeviceEvent]
    budgets: list[DisruptionBudget]
    queues: list[QueueSeen | NamespaceSeen]
    unreadable: list[str]
    priorities: dict[str, int]
    taken: float = 0.0


async def take(kube: Kube, taken: str, reader: Reader) -> ClusterFile:
    """Read the cluster; ``reader`` reads jobs. Raises SnapshotError if the API server refuses."""
    try:
        queues, namespaces = await take_queues(kube)
        pods = await _list(kube, PODS.path, PodObject)
        return reduced(
            taken=taken,
            nodes=await _list(kube, NODES.path, NodeObject),
            pods=pods,
            groups=[
                *await _list(kube, GROUPS.path, GroupObject, optional=True),
                *await _list(kube, VOLCANO_GROUPS.path, VolcanoGroup, optional=True),
                *await _list(kube, KAI_GROUPS.path, KaiGroup, optional=True),
                *await _list(kube, KOORDINATOR_GROUPS.path, KoordinatorGroup, optional=True),
            ],
            owners=[owner for kind in OWNER_KINDS for owner in await _owners(kube, kind)],
            jobs=await take_jobs(kube, reader, pods),
            claims=await _list(kube, CLAIMS.path, ClaimObject),
            volumes=await _list(kube, VOLUMES.path, VolumeObject),
            storage=await take_storage(kube),
            devices=await take_devices(kube),
            budgets=await _list(kube, BUDGETS.path, BudgetObject),
            queues=queues,
            namespaces=namespaces,
        )
    except UNDECODABLE as error:
        raise SnapshotError(f"a queue object, a namespace or an object of storage or devices: {error}") from None
    except ApiError as error:
        raise SnapshotError(f"the cluster cannot be read: {error}") from None


def reduced(
    nodes: Iterable[NodeObject],
    pods: Iterable[PodObject],
    groups: Iterable[AnyGroup],
    owners: Iterable[GangOwnerObject] = (),
    jobs: Iterable[JobObject] = (),
    claims: Iterable[ClaimObject] = (),
    volumes: Iterable[VolumeObject] = (),
    storage: StorageObjects | None = None,
    devices: DeviceObjects | None = None,
    budgets: Iterable[BudgetObject] = (),
    queues: Iterable[Document] = (),
    namespaces: Iterable[AnyObject] = (),
    taken: str = "",
) -> ClusterFile:
    """The objects, changed in place, with only what a decision reads."""
    pods, groups, owners, jobs, budgets = list(pods), list(groups), list(owners), list(jobs), list(budgets)
    for group in groups:
        group.metadata = reduced_meta(group.metadata or Meta())
    made_of = chain(*(owner.templates for owner in owners), *(job.templates for job in jobs))
    keys = selected_keys(obj.spec for obj in (*pods, *made_of) if obj.spec is not None)
    keys |= keys_of(budget.spec.selector for budget in budgets if budget.spec is not None)
    return ClusterFile(
        taken=taken,
        nodes=[reduced_node(obj) for obj in nodes],
        pods=[reduced_pod(obj, keys) for obj in pods],
        pod_groups=[group for group in groups if type(group) is GroupObject],
        koordinator_pod_groups=[group for group in groups if isinstance(group, KoordinatorGroup)],
        volcano_pod_groups=[group for group in groups if isinstance(group, VolcanoGroup)],
        kai_pod_groups=[group for group in groups if isinstance(group, KaiGroup)],
        owners=[reduced_owner(owner, keys) for owner in owners],
        jobs=[reduced_job(job, keys) for job in jobs],
        claims=[reduced_claim(claim) for claim in claims],
        volumes=[reduced_volume(volume) for volume in volumes if volume_from(volume) is not None],
        storage=storage or StorageObjects(),
        devices=devices or DeviceObjects(),
        budgets=[reduced_budget(budget) for budget in budgets],
        queues=list(queues),
        namespaces=list(namespaces),
    )


def encode(file: ClusterFile) -> bytes:
    """The file as indented JSON without nulls."""
    return msgspec.json.format(msgspec.json.encode(_pruned(msgspec.to_builtins(file))), indent=1) + b"\n"


def decode(
    content: bytes, schedulers: Sequence[str] = ("muster",), priorities: Mapping[str, int] | None = None
) -> ClusterFacts:
    """Parse a snapshot. Raises SnapshotError.

    ``schedulers``: the schedulers that Muster serves.
    ``priorities``: override the values of WorkloadPriorityClasses in the file.
    """
    try:
        file = msgspec.json.decode(content, type=ClusterFile)
    except UNDECODABLE as error:
        raise SnapshotError(f"this is not a snapshot: {error}") from None
    if file.api_version != VERSION:
        raise SnapshotError(f"a snapshot of {file.api_version!r}, and not of {VERSION}: take it again with this Muster")
    unreadable: list[str] = []
    nodes, pods = readable(node_from, file.nodes, unreadable), readable(pod_from, file.pods, unreadable)
    for what, names in (
        ("nodes are called", [node.name for node in nodes]),
        ("pods have the UID", [pod.uid for pod in pods]),
    ):
        if twice := next((name for name, times in Counter(names).items() if times > 1), None):
            raise SnapshotError(f"two {what} {twice}")
    groups = [
        *readable(group_from, file.pod_groups, unreadable),
        *readable(volcano_group_from, file.volcano_pod_groups, unreadable),
        *readable(kai_group_from, file.kai_pod_groups, unreadable),
        *readable(koordinator_group_from, file.koordinator_pod_groups, unreadable),
    ]
    classes = priorities_in(file.queues) | dict(priorities or {})
    reader = Reader(schedulers, Completion(workload_priorities=classes if file.queues or classes else None))
    owners = readable(lambda gang_owner: _owner_from(gang_owner, reader), file.owners, unreadable)
    jobs = readable(lambda job: job_from(job, reader), file.jobs, unreadable)
    claims = readable(claim_from, file.claims, unreadable)
    volumes = [
        volume_seen for volume_seen in readable(volume_from, file.volumes, unreadable) if volume_seen is not None
    ]
    storage = list(storage_events(file.storage, unreadable))
    devices = list(device_events(file.devices, unreadable))
    budgets = readable(budget_from, file.budgets, unreadable)
    queues = list(queue_events(file.queues, file.namespaces, unreadable))
    taken = max([_instant(file.taken), *(pod.created for pod in pods)])
    return ClusterFacts(
        nodes,
        pods,
        groups,
        owners,
        jobs,
        claims,
        volumes,
        storage,
        devices,
        budgets,
        queues,
        unreadable,
        classes,
        taken,
    )


def _instant(text: str) -> float:
    try:
        return instant(text)
    except UnreadableError:
        return 0.0


async def _owners(kube: Kube, kind: OwnerKind) -> list[GangOwnerObject]:
    """The owners of that kind that Muster follows."""
    gang_owners = await _list(kube, kind.path, GangOwnerObject, optional=True, labels=f"{GANG}=true")
    for gang_owner in gang_owners:
        gang_owner.kind = kind.name
    return [gang_owner for gang_owner in gang_owners if not made_by_deployment(gang_owner.metadata or Meta())]


def _owner_from(obj: GangOwnerObject, reader: Reader) -> GangOwner:
    kind = next((owner_kind for owner_kind in OWNER_KINDS if owner_kind.name == obj.kind), None)
    if kind is None:
        raise UnreadableError(f"no pods of a {quoted(obj.kind)} are a gang")
    return owner_from(kind, msgspec.to_builtins(obj), reader)


async def _list(
    kube: Kube, path: str, kind: type[ObjectT], *, optional: bool = False, labels: str = ""
) -> list[ObjectT]:
    budgets = []
    try:
        async for page in kube.list_pages(path, labels=labels):
            budgets += [msgspec.json.decode(item, type=kind) for item in page.items]
    except ApiError as error:
        if optional and error.status == 404:
            return []
        raise
    except UNDECODABLE as error:
        raise SnapshotError(f"{path}: {error}") from None
    return budgets


def _pruned(tree: Any) -> Any:
    if isinstance(tree, dict):
        return {key: _pruned(value) for key, value in tree.items() if value is not None}
    return [_pruned(value) for value in tree] if isinstance(tree, list) else tree
