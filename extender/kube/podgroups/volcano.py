"""PodGroups of ``scheduling.volcano.sh/v1beta1`` (volcano.sh/apis, scheduling/v1beta1/types.go).

A tier of Volcano's network topology is a level; tier 1 is the nearest. ``minResources`` is not read, since a gang is
placed node by node. Volcano's job controller writes the replicas of a task as its minimum, also in a job that may start
with fewer. So minima of tasks count only if ``minMember`` is at least their sum (CheckTaskValid of
pkg/scheduler/api/job_info.go).
"""

from __future__ import annotations

from msgspec import Struct

from extender.kube.convert import controller_of, maker_of
from extender.kube.podgroups.podgroup import podgroup
from extender.kube.reading.objects import Meta, Present
from extender.kube.reading.plain import quoted
from extender.kube.reading.queue_name import of_volcano
from extender.kube.reading.roles import MOST_ROLES, TOO_MANY_ROLES, minima_of, needed
from extender.kube.reading.topology import LONGEST_LEVEL, SLICE_SIZE, topology_of
from policies.model import Controller, Dialect, Minima, PodGroup, Topology

PODGROUPS, JOBS = "scheduling.volcano.sh/v1beta1", "batch.volcano.sh/v1alpha1"

INQUEUE = "Inqueue"
"""The phase by which a scheduler accepts a PodGroup."""

NO_TIER = "its networkTopology has the mode hard and neither highestTierAllowed nor highestTierName"
BAD_TIER = "the highestTierAllowed of its networkTopology is {}: tiers are counted from 1, the nearest level"
BAD_MODE = "the mode of its networkTopology is {}: it has to be hard or soft"
SUBGROUPS = f"it has a subGroupPolicy, which Muster does not read: write {SLICE_SIZE} on the pods"


class NetworkTopology(Struct, rename="camel"):
    mode: str | None = None
    highest_tier_allowed: int | None = None
    highest_tier_name: str | None = None


class VolcanoSpec(Struct, rename="camel"):
    queue: str | None = None
    min_member: int | None = None
    min_task_member: dict[str, int] | None = None
    network_topology: NetworkTopology | None = None
    sub_group_policy: list[Present] | None = None


class VolcanoStatus(Struct):
    phase: str | None = None


class VolcanoGroup(Struct):
    metadata: Meta | None = None
    spec: VolcanoSpec | None = None
    status: VolcanoStatus | None = None

    @property
    def phase(self) -> str:
        return (self.status.phase if self.status is not None else None) or ""

    @property
    def pending(self) -> bool:
        """Whether no scheduler has accepted the PodGroup yet: Volcano's job controller makes no pods before."""
        return self.phase in ("", "Pending")


def volcano_group_from(obj: VolcanoGroup) -> PodGroup:
    """Convert a PodGroup. Muster's own topology annotations on it count before its spec. Raises UnreadableError."""
    meta, spec = obj.metadata or Meta(), obj.spec or VolcanoSpec()
    topology, problem = _network(spec.network_topology)
    if spec.sub_group_policy:
        problem = SUBGROUPS
    elif len(spec.min_task_member or ()) > MOST_ROLES:
        problem = TOO_MANY_ROLES
    job = _job(meta)
    minima = _minima(spec)
    return podgroup(
        meta,
        needed(spec.min_member or 0, minima),
        dialect=Dialect.VOLCANO,
        topology=topology_of(meta).over(topology),
        minima=minima,
        problem=problem,
        job=job,
        pending=job is not None and obj.pending,
        starting=job is not None and obj.phase == INQUEUE,
        queue=of_volcano(spec.queue),
    )


def _job(meta: Meta) -> Controller | None:
    maker = controller_of(maker_of(meta))
    return maker if maker is not None and (maker.version, maker.kind) == (JOBS, "Job") else None


def _minima(spec: VolcanoSpec) -> Minima:
    minima = minima_of(spec.min_task_member or {})
    return () if 0 < (spec.min_member or 0) < sum(count for _, count in minima) else minima


def _network(network_topology: NetworkTopology | None) -> tuple[Topology, str | None]:
    """The topology of the spec, and what is wrong with it. Soft mode prefers the nearest level, as the default does."""
    if network_topology is None or network_topology.mode == "soft":
        return Topology(), None
    if network_topology.mode not in (None, "", "hard"):
        return Topology(), BAD_MODE.format(quoted(network_topology.mode))
    if network_topology.highest_tier_name:
        return Topology(required=network_topology.highest_tier_name[:LONGEST_LEVEL]), None
    if network_topology.highest_tier_allowed is None:
        return Topology(), NO_TIER
    if not 0 < network_topology.highest_tier_allowed < 1000:
        return Topology(), BAD_TIER.format(network_topology.highest_tier_allowed)
    return Topology(required=str(network_topology.highest_tier_allowed)), None
