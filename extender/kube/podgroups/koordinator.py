"""PodGroups of ``scheduling.sigs.k8s.io/v1alpha1``, which Koordinator reads: the coscheduling plugin's first ones."""

from __future__ import annotations

from dataclasses import replace

from extender.kube.dialects.koordinator import other_gangs
from extender.kube.podgroups.coscheduling import group_from
from extender.kube.reading.objects import GroupObject, Meta
from policies.model import Dialect, PodGroup


class KoordinatorGroup(GroupObject):
    """The same fields."""


def koordinator_group_from(obj: KoordinatorGroup) -> PodGroup:
    """Raises UnreadableError."""
    meta = obj.metadata or Meta()
    group = group_from(obj)
    return replace(group, dialect=Dialect.KOORDINATOR, problem=group.problem or other_gangs(meta, group.key.name))
