"""The four resources that Muster follows: where each is, and how its objects become events."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Generic, TypeVar

import msgspec

from extender.core.events import ClaimGone, ClaimSeen, Event, GroupGone, GroupSeen, NodeGone, NodeSeen, PodGone, PodSeen
from extender.kube.convert import claim_from, group_from, node_from, pod_from
from extender.kube.objects import ClaimObject, GroupObject, Meta, NodeObject, PodObject
from policies.model import Node, Pod, PodGroup

ValueT = TypeVar("ValueT")


@dataclass(frozen=True, slots=True)
class Resource(Generic[ValueT]):
    """``read`` raises UnreadableError, or one of ``UNDECODABLE``. ``optional``: its kind may not exist in the cluster.

    ``patched``: Muster writes to these objects, and only to the version that it has seen last.
    """

    path: str
    read: Callable[[msgspec.Raw], tuple[Meta, ValueT]]
    seen: Callable[[ValueT], Event]
    gone: Callable[[ValueT], Event]
    optional: bool = False
    patched: bool = False


_pods, _nodes = msgspec.json.Decoder(PodObject), msgspec.json.Decoder(NodeObject)
_groups, _claims = msgspec.json.Decoder(GroupObject), msgspec.json.Decoder(ClaimObject)


def _read_pod(raw: msgspec.Raw) -> tuple[Meta, Pod]:
    obj = _pods.decode(raw)
    return obj.metadata or Meta(), pod_from(obj)


def _read_node(raw: msgspec.Raw) -> tuple[Meta, Node]:
    obj = _nodes.decode(raw)
    return obj.metadata or Meta(), node_from(obj)


def _read_group(raw: msgspec.Raw) -> tuple[Meta, PodGroup]:
    obj = _groups.decode(raw)
    return obj.metadata or Meta(), group_from(obj)


def _read_claim(raw: msgspec.Raw) -> tuple[Meta, ClaimSeen]:
    obj = _claims.decode(raw)
    return obj.metadata or Meta(), claim_from(obj)


NODES = Resource("/api/v1/nodes", _read_node, NodeSeen, lambda node: NodeGone(node.name))
PODS = Resource("/api/v1/pods", _read_pod, PodSeen, lambda pod: PodGone(pod.uid), patched=True)
GROUPS = Resource(
    "/apis/scheduling.x-k8s.io/v1alpha1/podgroups",
    _read_group,
    GroupSeen,
    lambda group: GroupGone(group.key, group.uid),
    optional=True,
)
CLAIMS = Resource(
    "/api/v1/persistentvolumeclaims",
    _read_claim,
    lambda claim: claim,
    lambda claim: ClaimGone(claim.namespace, claim.name),
)
