"""The rights that the two identities of an installation need, as the API server can be asked for them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from extender.config.settings import Settings

EXTENDER, SCHEDULER = "muster-extender", "muster-scheduler"
"""The ServiceAccounts of manifests/base."""


@dataclass(frozen=True, slots=True)
class Right:
    """``account`` may do ``verb`` with ``resource`` (of an API ``group``, "" for the core; with "/subresource")."""

    account: str
    verb: str
    resource: str
    group: str = ""
    namespace: str = ""
    name: str = ""

    def __str__(self) -> str:
        named = f" {self.name} in namespace {self.namespace}" if self.namespace else ""
        return f"{self.verb} {self.resource}{'.' * bool(self.group)}{self.group}{named}"

    def attributes(self) -> dict[str, str]:
        """``resourceAttributes`` of a SubjectAccessReview."""
        resource, _, subresource = self.resource.partition("/")
        said = {"verb": self.verb, "group": self.group, "resource": resource, "subresource": subresource}
        return {key: value for key, value in (said | {"namespace": self.namespace, "name": self.name}).items() if value}


def needed(settings: Settings, lease: dict[str, Any] | None) -> Iterator[Right]:
    """All of them; ``lease`` is leaderElection of kube-scheduler's configuration, if it is known."""
    for verbs, resource, group in (
        ("get list watch patch", "pods", ""),
        ("list watch", "nodes", ""),
        ("list watch", "persistentvolumeclaims", ""),
        ("patch", "pods/status", ""),
        ("create", "pods/binding", ""),
        ("create", "events", "events.k8s.io"),
        ("list watch", "podgroups", "scheduling.x-k8s.io"),
        ("patch", "podgroups/status", "scheduling.x-k8s.io"),
    ):
        for verb in verbs.split():
            yield Right(EXTENDER, verb, resource, group)
    if settings.evict_partial:
        yield Right(EXTENDER, "create", "pods/eviction")
    if (seen := settings.leader_election).enabled:
        for verb in ("list", "watch"):
            yield Right(EXTENDER, verb, "leases", "coordination.k8s.io", seen.namespace, seen.name)
    for verbs, resource, group in (
        ("list watch", "pods", ""),
        ("list watch", "nodes", ""),
        ("patch", "pods/status", ""),
        ("create", "events", "events.k8s.io"),
    ):
        for verb in verbs.split():
            yield Right(SCHEDULER, verb, resource, group)
    yield Right(SCHEDULER, "create", "serviceaccounts/token", "", "kube-system", EXTENDER)
    if lease is not None and lease.get("leaderElect", True):
        namespace, name = lease.get("resourceNamespace", "kube-system"), lease.get("resourceName", "kube-scheduler")
        for verb in ("get", "update"):
            yield Right(SCHEDULER, verb, "leases", "coordination.k8s.io", namespace, name)
