"""The rights that an installation's two accounts need, in a form that the API server can be asked about."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

from extender.config.settings import Settings
from extender.kube.kinds.owners import OWNER_KINDS
from extender.kube.kinds.registry import KINDS
from extender.kube.queues.following import LEASE
from extender.kube.queues.resources import CLASSES, QUEUE_GROUP, QUEUE_KINDS, UNREPORTED, WORKLOADS

EXTENDER, SCHEDULER = "muster-extender", "muster-scheduler"
"""The ServiceAccounts of manifests/base."""
_PODGROUPS = (
    "scheduling.x-k8s.io",
    "scheduling.volcano.sh",
    "scheduling.run.ai",
    "scheduling.sigs.k8s.io",
    "scheduling.k8s.io",
)
_DEVICES = "deviceclasses", "devicetaintrules", "resourceslices", "resourceclaims", "resourceclaimtemplates"
_STORAGE = "storageclasses", "csidrivers", "csistoragecapacities"
_ALWAYS = (
    (EXTENDER, "get list watch patch", "pods", ""),
    (EXTENDER, "list watch", "nodes", ""),
    (EXTENDER, "list watch", "persistentvolumeclaims", ""),
    (EXTENDER, "list watch", "persistentvolumes", ""),
    *((EXTENDER, "list watch", plural, "storage.k8s.io") for plural in _STORAGE),
    (EXTENDER, "list watch", "poddisruptionbudgets", "policy"),
    *((EXTENDER, "list watch", plural, "resource.k8s.io") for plural in _DEVICES),
    (EXTENDER, "list watch", "computedomains", "resource.nvidia.com"),
    (EXTENDER, "patch", "pods/status", ""),
    (EXTENDER, "create", "pods/binding", ""),
    (EXTENDER, "create", "events", "events.k8s.io"),
    *((EXTENDER, "list watch", "podgroups", group) for group in _PODGROUPS),
    (EXTENDER, "patch", "podgroups/status", "scheduling.x-k8s.io"),
    (EXTENDER, "patch", "podgroups/status", "scheduling.run.ai"),
    (EXTENDER, "get patch", "podgroups", "scheduling.volcano.sh"),
    (EXTENDER, "patch", "podgroups/status", "scheduling.volcano.sh"),
    (EXTENDER, "list watch", "jobs", "batch.volcano.sh"),
    (EXTENDER, "list watch", "queues", "scheduling.volcano.sh"),
    *((EXTENDER, "list watch", plural, QUEUE_GROUP) for plural in (*QUEUE_KINDS, CLASSES)),
    *((EXTENDER, "get patch", f"{plural}/status", QUEUE_GROUP) for plural in QUEUE_KINDS if plural not in UNREPORTED),
    (EXTENDER, "create get patch", WORKLOADS, QUEUE_GROUP),
    (EXTENDER, "patch", f"{WORKLOADS}/status", QUEUE_GROUP),
    (EXTENDER, "list watch", "namespaces", ""),
    (EXTENDER, "list watch", "limitranges", ""),
    (EXTENDER, "list watch", "runtimeclasses", "node.k8s.io"),
    (EXTENDER, "list watch", "priorityclasses", "scheduling.k8s.io"),
    (EXTENDER, "patch", "jobs/status", "batch"),
    *((EXTENDER, "get patch" if kind.shown_in else "get list watch patch", kind.plural, kind.group) for kind in KINDS),
    *((EXTENDER, "list watch", kind.plural, kind.group) for kind in OWNER_KINDS),
    (SCHEDULER, "list watch", "pods", ""),
    (SCHEDULER, "list watch", "nodes", ""),
    (SCHEDULER, "patch", "pods/status", ""),
    (SCHEDULER, "create", "events", "events.k8s.io"),
)
_ELASTIC = (
    ("create get list delete", "provisioningrequests", "autoscaling.x-k8s.io"),
    ("create delete", "podtemplates", ""),
    ("get patch", "nodes", ""),
)
"""Rights of the extender for elastic flavors."""
_DEVICE_RELEASE = ("get", "resourceclaims"), ("patch", "resourceclaims/status"), ("patch", "resourceclaims/binding")
"""Rights of the extender if gangs have claims of devices."""
DEVICE_RELEASE = "components/device-release"
_LEASES = ("leases", "coordination.k8s.io")


@dataclass(frozen=True, slots=True)
class Right:
    """The right of an ``account`` to do ``verb`` with ``resource``.

    ``resource``: with "/subresource" if there is one.
    ``group``: the API group, "" for the core.
    ``part``: the part of the manifests that grants it.
    """

    account: str
    verb: str
    resource: str
    group: str = ""
    namespace: str = ""
    name: str = ""
    part: str = "base"

    def __str__(self) -> str:
        named = f" {self.name}" * bool(self.name) + f" in namespace {self.namespace}" * bool(self.namespace)
        return f"{self.verb} {self.resource}{'.' * bool(self.group)}{self.group}{named}"

    def attributes(self) -> dict[str, str]:
        """``resourceAttributes`` of a SubjectAccessReview."""
        resource, _, subresource = self.resource.partition("/")
        attributes = {"verb": self.verb, "group": self.group, "resource": resource, "subresource": subresource}
        return {
            key: value
            for key, value in (attributes | {"namespace": self.namespace, "name": self.name}).items()
            if value
        }


def needed(
    settings: Settings, election: Mapping[str, Any] | None, namespace: str = "kube-system", *, claims: bool = False
) -> Iterator[Right]:
    """All rights that are needed.

    ``election``: leaderElection of kube-scheduler's configuration, if known.
    ``namespace``: that of Muster.
    ``claims``: gangs may have claims of devices.
    """
    for account, verbs, resource, group in _ALWAYS:
        yield from (Right(account, verb, resource, group) for verb in verbs.split())
    for kind in settings.job_kinds:
        of_kind = (Right(EXTENDER, verb, kind.plural, kind.group) for verb in ("get", "list", "watch", "patch"))
        yield from (replace(right, part="examples/own-kind, adapted") for right in of_kind)
    for verbs, resource, group in _ELASTIC if settings.elastic.flavors else ():
        yield from (Right(EXTENDER, verb, resource, group, part="components/elastic") for verb in verbs.split())
    for verb, resource in _DEVICE_RELEASE if claims else ():
        yield Right(EXTENDER, verb, resource, "resource.k8s.io", part=DEVICE_RELEASE)
    if settings.evict_partial or settings.evict_incomplete:
        yield Right(EXTENDER, "create", "pods/eviction")
    if (seen := settings.leader_election).enabled:
        yield from (Right(EXTENDER, verb, *_LEASES, seen.namespace, seen.name) for verb in ("list", "watch"))
    yield Right(EXTENDER, "list", *_LEASES, name=LEASE)
    yield Right(SCHEDULER, "create", "serviceaccounts/token", "", namespace, EXTENDER)
    if election is not None and election.get("leaderElect", True):
        place = election.get("resourceNamespace", "kube-system"), election.get("resourceName", "kube-scheduler")
        yield from (Right(SCHEDULER, verb, *_LEASES, *place) for verb in ("get", "update"))
