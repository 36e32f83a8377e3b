"""PodGroups of ``scheduling.x-k8s.io/v1alpha1``, the coscheduling plugin's."""

from __future__ import annotations

from extender.kube.podgroups.podgroup import podgroup
from extender.kube.reading.objects import GroupObject, Meta
from policies.model import PodGroup


def group_from(obj: GroupObject) -> PodGroup:
    """A PodGroup object without minMember has ``min_member`` 0, which no gang can mean. Raises UnreadableError."""
    spec = obj.spec
    timeout_s = spec.schedule_timeout_seconds if spec else None
    # 0 is a Go client's way to say nothing.
    timeout_s = timeout_s if timeout_s is not None and timeout_s > 0 else None
    return podgroup(obj.metadata or Meta(), (spec.min_member if spec else None) or 0, timeout_s=timeout_s)
