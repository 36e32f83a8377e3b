"""PodGroups of ``scheduling.volcano.sh/v1beta1`` (volcano.sh/apis, scheduling/v1beta1/types.go).

A tier of Volcano's network topology is a level, counted from the nearest: tier 1 is the nearest one. ``minResources``
is not read: a gang is placed node by node.
"""

from __future__ import annotations

from msgspec import Struct

from extender.kube.objects import Meta, Present
from extender.kube.plain import quoted
from extender.kube.podgroups.podgroup import podgroup
from extender.kube.podgroups.roles import MOST_ROLES, TOO_MANY_ROLES, minima_of, needed
from extender.kube.topology import SLICE_SIZE, topology_of
from policies.model import Dialect, PodGroup, Topology

NO_TIER = "its networkTopology has the mode hard and neither highestTierAllowed nor highestTierName"
BAD_TIER = "the highestTierAllowed of its networkTopology is {}: tiers are counted from 1, the nearest level"
BAD_MODE = "the mode of its networkTopology is {}: it has to be hard or soft"
SUBGROUPS = f"it has a subGroupPolicy, which Muster does not read: write {SLICE_SIZE} on the pods"


class NetworkTopology(Struct, rename="camel"):
    mode: str | None = None
    highest_tier_allowed: int | None = None
    highest_tier_name: str | None = None


class VolcanoSpec(Struct, rename="camel"):
    min_member: int | None = None
    min_task_member: dict[str, int] | None = None
    network_topology: NetworkTopology | None = None
    sub_group_policy: list[Present] | None = None


class VolcanoGroup(Struct):
    metadata: Meta | None = None
    spec: VolcanoSpec | None = None


def volcano_group_from(obj: VolcanoGroup) -> PodGroup:
    """What Muster's own annotations on it say of the topology goes before its spec. Raises UnreadableError."""
    meta, spec = obj.metadata or Meta(), obj.spec or VolcanoSpec()
    asked, problem = _network(spec.network_topology)
    if spec.sub_group_policy:
        problem = SUBGROUPS
    elif len(spec.min_task_member or ()) > MOST_ROLES:
        problem = TOO_MANY_ROLES
    minima = minima_of(spec.min_task_member or {})
    return podgroup(
        meta,
        needed(spec.min_member or 0, minima),
        dialect=Dialect.VOLCANO,
        topology=topology_of(meta).over(asked),
        minima=minima,
        problem=problem,
    )


def _network(said: NetworkTopology | None) -> tuple[Topology, str | None]:
    """In the mode soft the nearest level is preferred, as it is where nothing is said."""
    if said is None or said.mode == "soft":
        return Topology(), None
    if said.mode not in (None, "", "hard"):
        return Topology(), BAD_MODE.format(quoted(said.mode))
    if said.highest_tier_name:
        return Topology(required=said.highest_tier_name[:317]), None
    if said.highest_tier_allowed is None:
        return Topology(), NO_TIER
    if not 0 < said.highest_tier_allowed < 1000:
        return Topology(), BAD_TIER.format(said.highest_tier_allowed)
    return Topology(required=str(said.highest_tier_allowed)), None
