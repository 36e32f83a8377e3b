"""PodGroups of ``scheduling.run.ai/v2alpha2``, KAI-Scheduler's (its pkg/apis/scheduling/v2alpha2/podgroup_types.go).

A subgroup is a role of the gang. If it asks for a level, all its pods are in one domain of that level, in whichever
domains the others are. A level is known by its node label; the Topology object that it belongs to does not matter.
"""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import Struct

from extender.kube.podgroups.podgroup import podgroup
from extender.kube.reading.objects import Meta
from extender.kube.reading.plain import quoted
from extender.kube.reading.roles import MOST_ROLES, TOO_MANY_ROLES, minima_of, needed
from extender.kube.reading.topology import LONGEST_LEVEL, topology_of
from policies.model import Dialect, PodGroup, Topology
from policies.model.topology import SILENT, WHOLE_ROLE

SOME_SUBGROUPS = "minSubGroup is {} of {} subgroups: Muster starts a gang with all its subgroups; leave it out"
PARENT_LEVEL = "subgroup {} has subgroups and a topologyConstraint, which Muster reads on the gang and on the innermost"
PARENT_MEMBERS = "subgroup {} needs {} members, and its own subgroups {}: say it there"


class Constraint(Struct, rename="camel"):
    required_topology_level: str | None = None
    preferred_topology_level: str | None = None

    @property
    def levels(self) -> tuple[str | None, str | None]:
        """The required and the preferred level."""
        required, preferred = self.required_topology_level, self.preferred_topology_level
        return (required or "")[:LONGEST_LEVEL] or None, (preferred or "")[:LONGEST_LEVEL] or None


class SubGroup(Struct, rename="camel"):
    name: str | None = None
    min_member: int | None = None
    min_sub_group: int | None = None
    parent: str | None = None
    topology_constraint: Constraint | None = None


class KaiSpec(Struct, rename="camel"):
    min_member: int | None = None
    min_sub_group: int | None = None
    topology_constraint: Constraint | None = None
    sub_groups: list[SubGroup] | None = None


class KaiGroup(Struct):
    metadata: Meta | None = None
    spec: KaiSpec | None = None


def kai_group_from(obj: KaiGroup) -> PodGroup:
    """Convert a PodGroup. Muster's own topology annotations on it count before its spec. Raises UnreadableError."""
    meta, spec = obj.metadata or Meta(), obj.spec or KaiSpec()
    subgroups = (spec.sub_groups or [])[: MOST_ROLES + 1]
    parents = {subgroup.parent for subgroup in subgroups if subgroup.parent}
    leaves = [subgroup for subgroup in subgroups if subgroup.name not in parents]
    minima = minima_of({leaf.name or "": _least(leaf) for leaf in leaves})
    required, preferred = (spec.topology_constraint or Constraint()).levels
    whole = topology_of(meta).over(Topology(required, preferred))
    return podgroup(
        meta,
        needed(spec.min_member or 0, minima),
        dialect=Dialect.KAI,
        topology=whole,
        of_roles=tuple((leaf.name or "", _own(leaf).over(whole)) for leaf in leaves if _own(leaf) != SILENT),
        minima=minima,
        problem=_problem(spec, subgroups),
    )


def _least(leaf: SubGroup) -> int:
    return 1 if leaf.min_member is None else leaf.min_member


def _own(leaf: SubGroup) -> Topology:
    """The topology that the subgroup itself asks for: its required level must hold it, and no other pod."""
    required, preferred = (leaf.topology_constraint or Constraint()).levels
    return Topology(None, preferred, None if required is None else WHOLE_ROLE, required)


def _problem(spec: KaiSpec, subgroups: Sequence[SubGroup]) -> str | None:
    """A sentence about what Muster would not do; None if there is nothing."""
    if len(subgroups) > MOST_ROLES:
        return TOO_MANY_ROLES
    for sub_group in (None, *subgroups):
        name, least = (None, spec.min_sub_group) if sub_group is None else (sub_group.name, sub_group.min_sub_group)
        inside = [other for other in subgroups if (other.parent or None) == name]
        if least is not None and 0 < least < len(inside):
            return SOME_SUBGROUPS.format(least, len(inside))
        if sub_group is None or not inside:
            continue
        if sub_group.topology_constraint is not None and sub_group.topology_constraint.levels != (None, None):
            return PARENT_LEVEL.format(quoted(name or ""))
        if (sub_group.min_member or 0) > (members := sum(map(_least, inside))):
            return PARENT_MEMBERS.format(quoted(name or ""), sub_group.min_member, members)
    return None
