"""The queue objects as resources to follow, in either version."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple, TypeVar

import msgspec

from extender.core.events import Event, QueueGone, QueueSeen
from extender.kube.queues.read import (
    ClusterQueueObject,
    CohortObject,
    FlavorObject,
    KueueTopology,
    LocalQueueObject,
    PriorityClassObject,
    Read,
    VolcanoQueueObject,
    cluster_queue_from,
    cohort_from,
    flavor_from,
    local_queue_from,
    topology_from,
)
from extender.kube.queues.volcano import volcano_queue_from
from extender.kube.reading.identity import name_of
from extender.kube.reading.objects import Meta
from extender.kube.resources import Resource
from policies.model.queues import QueueObject

QUEUE_GROUP = "kueue.x-k8s.io"
VERSIONS = ("v1beta2", "v1beta1")
"""The versions, newest first."""
VOLCANO_GROUP, VOLCANO_VERSION = "scheduling.volcano.sh", "v1beta1"
TOPOLOGIES = "topologies"
PROVISIONING = ("autoscaling.x-k8s.io/v1", "provisioningrequests")
"""The kind by which nodes are requested."""
UNREPORTED = frozenset((TOPOLOGIES, "resourceflavors"))
"""Kinds below that have no status."""
ObjectT = TypeVar(
    "ObjectT",
    ClusterQueueObject,
    CohortObject,
    LocalQueueObject,
    FlavorObject,
    KueueTopology,
    VolcanoQueueObject,
)
ValueT = TypeVar("ValueT", bound=QueueObject)


class FollowedQueue(NamedTuple):
    """A known queue object. ``path``: its API path in the version that is followed."""

    object: QueueObject
    uid: str
    path: str


OfVersion = Callable[[str], Resource[QueueSeen, Event]]


def path_of(version: str, plural: str) -> str:
    """The API path of all objects of a kind."""
    return f"/apis/{QUEUE_GROUP}/{version}/{plural}"


def _queue_objects(plural: str, kind: type[ObjectT], convert: Callable[[ObjectT], Read[ValueT]]) -> OfVersion:
    return lambda version: _resource(path_of(version, plural), kind, convert)


def _resource(
    path: str, kind: type[ObjectT], convert: Callable[[ObjectT], Read[ValueT]], title: str = ""
) -> Resource[QueueSeen, Event]:
    decoder = msgspec.json.Decoder(kind)

    def read(raw: msgspec.Raw) -> tuple[Meta, QueueSeen]:
        obj = decoder.decode(raw)
        converted = convert(obj)
        return obj.metadata or Meta(), QueueSeen(
            converted.value, converted.problems, converted.warnings, converted.unclear
        )

    return Resource(
        path,
        read,
        lambda seen: seen,
        lambda seen: QueueGone(seen.object),
        optional=True,
        dispensable=True,
        renewed=True,
        title=title,
    )


QUEUE_KINDS: dict[str, OfVersion] = {
    TOPOLOGIES: _queue_objects(TOPOLOGIES, KueueTopology, topology_from),
    "resourceflavors": _queue_objects("resourceflavors", FlavorObject, flavor_from),
    "cohorts": _queue_objects("cohorts", CohortObject, cohort_from),
    "clusterqueues": _queue_objects("clusterqueues", ClusterQueueObject, cluster_queue_from),
    "localqueues": _queue_objects("localqueues", LocalQueueObject, local_queue_from),
}
"""The queue kinds by plural; kinds that others refer to come first."""
VOLCANO_QUEUES = _resource(
    f"/apis/{VOLCANO_GROUP}/{VOLCANO_VERSION}/queues",
    VolcanoQueueObject,
    volcano_queue_from,
    title=f"queues.{VOLCANO_GROUP}",
)

_CLASS = msgspec.json.Decoder(PriorityClassObject)
CLASSES = "workloadpriorityclasses"
WORKLOADS = "workloads"
"""Muster writes Workloads and does not follow them."""


def workload_priorities(version: str) -> Resource[tuple[str, int], None]:
    """The resource to follow: the name and value of each WorkloadPriorityClass."""

    def read(raw: msgspec.Raw) -> tuple[Meta, tuple[str, int]]:
        obj = _CLASS.decode(raw)
        meta = obj.metadata or Meta()
        return meta, (name_of(meta, "WorkloadPriorityClass"), obj.value or 0)

    return Resource(path_of(version, CLASSES), read, _nothing, _nothing, optional=True, dispensable=True)


def _nothing(_: tuple[str, int]) -> None:
    """Send no event: users of the classes read ``known``."""
