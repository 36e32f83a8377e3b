"""A cluster in one file: nodes, pods, PodGroups, volumes and their claims, reduced to what a decision reads.

The file has the objects in Kubernetes' own shape. Environment, commands, images, secrets and all annotations but those
that name gangs are not even decoded, or left out here.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from itertools import chain
from typing import Any, TypeVar

import msgspec
from msgspec import Struct, field

from extender.core.events import ClaimSeen, VolumeSeen
from extender.core.stamps import STAMPED
from extender.kube import dialects
from extender.kube.client import Kube
from extender.kube.connection import ApiError
from extender.kube.constraints import selected_keys
from extender.kube.convert import claim_from, node_from, pod_from, readable, volume_from
from extender.kube.kinds.keys import INDEX_LABEL
from extender.kube.numbering import NUMBERS
from extender.kube.objects import (
    UNDECODABLE,
    ClaimObject,
    ClaimSource,
    Condition,
    GroupObject,
    Meta,
    NodeObject,
    PodObject,
    Volume,
    VolumeObject,
)
from extender.kube.podgroups.coscheduling import group_from
from extender.kube.podgroups.kai import KaiGroup, kai_group_from
from extender.kube.podgroups.koordinator import KoordinatorGroup, koordinator_group_from
from extender.kube.podgroups.volcano import VolcanoGroup, volcano_group_from
from extender.kube.resources import CLAIMS, GROUPS, KAI_GROUPS, KOORDINATOR_GROUPS, NODES, PODS, VOLCANO_GROUPS, VOLUMES
from extender.kube.topology import MANAGED_BY_KUEUE, TOPOLOGY
from policies.model import Node, Pod, PodGroup

READ = frozenset((*dialects.READ, *NUMBERS, *STAMPED, *chain(*TOPOLOGY), *MANAGED_BY_KUEUE))
"""Every annotation or label of a pod or a PodGroup that a decision reads. No other one is written, but for labels that
some pod selects others by."""
_BOUND = "bound"

AnyGroup = GroupObject | VolcanoGroup | KaiGroup | KoordinatorGroup
ObjectT = TypeVar(
    "ObjectT", NodeObject, PodObject, GroupObject, VolcanoGroup, KaiGroup, KoordinatorGroup, ClaimObject, VolumeObject
)


VERSION = "muster.dev/v1"


class SnapshotError(ValueError):
    """A snapshot cannot be taken or read; the message says why."""


class ClusterFile(Struct, rename="camel", tag="ClusterSnapshot", tag_field="kind"):
    """What is in the file. ``taken``: when, in RFC 3339."""

    nodes: list[NodeObject]
    pods: list[PodObject]
    api_version: str = VERSION
    taken: str = ""
    anonymised: bool = False
    pod_groups: list[GroupObject] = field(default_factory=list)
    volcano_pod_groups: list[VolcanoGroup] = field(default_factory=list)
    kai_pod_groups: list[KaiGroup] = field(default_factory=list)
    koordinator_pod_groups: list[KoordinatorGroup] = field(default_factory=list)
    claims: list[ClaimObject] = field(default_factory=list)
    volumes: list[VolumeObject] = field(default_factory=list)

    @property
    def groups(self) -> int:
        """How many PodGroups are in it, of all projects."""
        others = self.volcano_pod_groups, self.kai_pod_groups, self.koordinator_pod_groups
        return len(self.pod_groups) + sum(len(some) for some in others)


@dataclass(frozen=True, slots=True)
class ClusterFacts:
    """The same as the core sees it. ``unreadable``: objects that were left out, and why."""

    nodes: list[Node]
    pods: list[Pod]
    groups: list[PodGroup]
    claims: list[ClaimSeen]
    volumes: list[VolumeSeen]
    unreadable: list[str]


async def take(kube: Kube, taken: str) -> ClusterFile:
    """Read the cluster. Raises SnapshotError when the API server says no."""
    try:
        return reduced(
            taken=taken,
            nodes=await _list(kube, NODES.path, NodeObject),
            pods=await _list(kube, PODS.path, PodObject),
            groups=[
                *await _list(kube, GROUPS.path, GroupObject, optional=True),
                *await _list(kube, VOLCANO_GROUPS.path, VolcanoGroup, optional=True),
                *await _list(kube, KAI_GROUPS.path, KaiGroup, optional=True),
                *await _list(kube, KOORDINATOR_GROUPS.path, KoordinatorGroup, optional=True),
            ],
            claims=await _list(kube, CLAIMS.path, ClaimObject),
            volumes=await _list(kube, VOLUMES.path, VolumeObject),
        )
    except ApiError as error:
        raise SnapshotError(f"the cluster cannot be read: {error}") from None


def reduced(
    nodes: Iterable[NodeObject],
    pods: Iterable[PodObject],
    groups: Iterable[AnyGroup],
    claims: Iterable[ClaimObject] = (),
    volumes: Iterable[VolumeObject] = (),
    taken: str = "",
) -> ClusterFile:
    """These objects, changed in place, with only what a decision reads."""
    pods, groups = list(pods), list(groups)
    for group in groups:
        group.metadata = _reduced(group.metadata or Meta())
    keys = selected_keys(one.spec for one in pods if one.spec is not None)
    return ClusterFile(
        taken=taken,
        nodes=[_node(one) for one in nodes],
        pods=[_pod(one, keys) for one in pods],
        pod_groups=[one for one in groups if type(one) is GroupObject],
        koordinator_pod_groups=[one for one in groups if isinstance(one, KoordinatorGroup)],
        volcano_pod_groups=[one for one in groups if isinstance(one, VolcanoGroup)],
        kai_pod_groups=[one for one in groups if isinstance(one, KaiGroup)],
        claims=[_claim(one) for one in claims],
        volumes=[_kept(one) for one in volumes if volume_from(one) is not None],
    )


def encode(file: ClusterFile) -> bytes:
    """Indented JSON without nulls."""
    return msgspec.json.format(msgspec.json.encode(_pruned(msgspec.to_builtins(file))), indent=1) + b"\n"


def decode(content: bytes) -> ClusterFacts:
    """Raises SnapshotError."""
    try:
        file = msgspec.json.decode(content, type=ClusterFile)
    except UNDECODABLE as error:
        raise SnapshotError(f"this is not a snapshot: {error}") from None
    if file.api_version != VERSION:
        raise SnapshotError(f"a snapshot of {file.api_version!r}, and not of {VERSION}: take it anew with this Muster")
    unreadable: list[str] = []
    nodes, pods = readable(node_from, file.nodes, unreadable), readable(pod_from, file.pods, unreadable)
    for what, names in (
        ("nodes are called", [one.name for one in nodes]),
        ("pods have the UID", [one.uid for one in pods]),
    ):
        if twice := next((name for name, times in Counter(names).items() if times > 1), None):
            raise SnapshotError(f"two {what} {twice}")
    groups = [
        *readable(group_from, file.pod_groups, unreadable),
        *readable(volcano_group_from, file.volcano_pod_groups, unreadable),
        *readable(kai_group_from, file.kai_pod_groups, unreadable),
        *readable(koordinator_group_from, file.koordinator_pod_groups, unreadable),
    ]
    claims = readable(claim_from, file.claims, unreadable)
    volumes = [one for one in readable(volume_from, file.volumes, unreadable) if one is not None]
    return ClusterFacts(nodes, pods, groups, claims, volumes, unreadable)


async def _list(kube: Kube, path: str, kind: type[ObjectT], *, optional: bool = False) -> list[ObjectT]:
    found = []
    try:
        async for page in kube.list_pages(path):
            found += [msgspec.json.decode(item, type=kind) for item in page.items]
    except ApiError as error:
        if optional and error.status == 404:
            return []
        raise
    except UNDECODABLE as error:
        raise SnapshotError(f"{path}: {error}") from None
    return found


def _node(node: NodeObject) -> NodeObject:
    meta, status = node.metadata or Meta(), node.status
    node.metadata = Meta(name=meta.name, labels=meta.labels)
    if status is not None:
        status.conditions = [Condition(one.type, one.status) for one in status.conditions or () if one.type == "Ready"]
    return node


def _pod(pod: PodObject, selected: Collection[str]) -> PodObject:
    """With the labels that some pod selects others by, and that of its index."""
    meta = pod.metadata or Meta()
    selected = {*selected, *meta.said(INDEX_LABEL)}
    pod.metadata = _reduced(meta)
    labels = {key: value for key, value in (meta.labels or {}).items() if key in selected}
    pod.metadata.labels = (labels | (pod.metadata.labels or {})) or None
    pod.metadata.owner_references = [owner for owner in meta.owner_references or () if owner.controller] or None
    if pod.spec is not None:
        pod.spec.volumes = [found for one in pod.spec.volumes or () if (found := _volume(meta, one))] or None
        for container in (*(pod.spec.containers or ()), *(pod.spec.init_containers or ())):
            container.ports = [one for one in container.ports or () if one.host_port or pod.spec.host_network] or None
    if pod.status is not None:
        conditions = [one for one in pod.status.conditions or () if one.type == "PodScheduled"]
        pod.status.conditions = conditions or None
    return pod


def _claim(claim: ClaimObject) -> ClaimObject:
    claim.metadata = _reduced(claim.metadata or Meta())
    if claim.spec is not None and claim.spec.volume_name:
        claim.spec.volume_name = _BOUND
    return claim


def _kept(volume: VolumeObject) -> VolumeObject:
    volume.metadata = Meta(name=(volume.metadata or Meta()).name)
    return volume


def _reduced(meta: Meta) -> Meta:
    return Meta(
        name=meta.name,
        namespace=meta.namespace,
        uid=meta.uid,
        creation_timestamp=meta.creation_timestamp,
        deletion_timestamp=meta.deletion_timestamp,
        labels=_read_by_us(meta.labels),
        annotations=_read_by_us(meta.annotations),
    )


def _read_by_us(said: Mapping[str, str] | None) -> dict[str, str] | None:
    return {key: value for key, value in (said or {}).items() if key in READ} or None


def _volume(pod: Meta, volume: Volume) -> Volume | None:
    """Volumes that need a claim; that of an ephemeral one is called after the pod and the volume."""
    if volume.ephemeral is not None:
        return Volume(persistent_volume_claim=ClaimSource(f"{pod.name}-{volume.name or ''}"))
    claim = volume.persistent_volume_claim
    return None if claim is None else Volume(persistent_volume_claim=claim)


def _pruned(tree: Any) -> Any:
    if isinstance(tree, dict):
        return {key: _pruned(value) for key, value in tree.items() if value is not None}
    return [_pruned(value) for value in tree] if isinstance(tree, list) else tree
