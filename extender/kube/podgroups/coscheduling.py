"""PodGroups of the coscheduling plugin (``scheduling.x-k8s.io/v1alpha1``), and of its first versions
(``scheduling.sigs.k8s.io/v1alpha1``), which Koordinator reads."""

from __future__ import annotations

from dataclasses import replace

from extender.kube.dialects.koordinator import other_gangs
from extender.kube.podgroups.podgroup import podgroup
from extender.kube.reading.objects import GroupObject, Meta
from policies.model import Dialect, PodGroup


def group_from(obj: GroupObject) -> PodGroup:
    """Convert a PodGroup. Without minMember its ``min_member`` is 0, which no gang can mean. Raises UnreadableError."""
    spec = obj.spec
    timeout_s = spec.schedule_timeout_seconds if spec else None
    # Go clients write 0 where nothing is stated.
    timeout_s = timeout_s if timeout_s is not None and timeout_s > 0 else None
    return podgroup(obj.metadata or Meta(), (spec.min_member if spec else None) or 0, timeout_s=timeout_s)


class KoordinatorGroup(GroupObject):
    """A PodGroup with the same fields, in Koordinator's API group."""


def koordinator_group_from(obj: KoordinatorGroup) -> PodGroup:
    """Convert a PodGroup of Koordinator. Raises UnreadableError."""
    meta = obj.metadata or Meta()
    group = group_from(obj)
    return replace(group, dialect=Dialect.KOORDINATOR, problem=group.problem or other_gangs(meta, group.key.name))
