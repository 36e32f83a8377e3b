"""Namespaces, decoded, into what is known of them: pod affinity terms and ClusterQueues choose by their labels."""

from __future__ import annotations

from extender.core.events import NamespaceSeen
from extender.kube.queues.read import name_of
from extender.kube.reading.constraints import labels_of
from extender.kube.reading.objects import AnyObject, Meta


def namespace_from(obj: AnyObject) -> NamespaceSeen:
    """Raises UnreadableError without a name."""
    return NamespaceSeen(name_of(obj.metadata, "namespace"), labels_of(obj.metadata or Meta()))
