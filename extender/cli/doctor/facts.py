"""Facts that the checks look at, as read from the cluster; None if they could not be read or do not exist."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from extender.api.models import GangView, UtilisationReport, VerifyView
from extender.cli.doctor.finding import Finding
from extender.cli.doctor.leftovers import Leftovers
from extender.cli.doctor.rights import Right
from extender.config.settings import Settings
from extender.core.ledger.devices import DeviceClasses
from extender.kube.convert import pod_from
from extender.kube.discovery import Served
from extender.kube.kinds.registry import asks
from extender.kube.reading.objects import GroupObject, Meta, OwnerObject, PodObject
from policies.model import Node, Pod
from policies.model.devices import ComputeDomain, DeviceClaim

Tree = Mapping[str, Any]
UNANSWERED_S = 90.0
"""A pod with no message from any scheduler for this long, in seconds, has no scheduler."""
JOB_POLICY = "muster-jobs"
"""The policy that suspends the jobs that Muster is to admit, when they are created."""


@dataclass(frozen=True)
class Member:
    """A pod as Muster reads it, with its annotations and labels. ``looked_at``: a scheduler has written a condition."""

    pod: Pod
    meta: Meta
    looked_at: bool

    @property
    def pending(self) -> bool:
        """Whether the pod has no node and has not ended."""
        return not self.pod.node and self.pod.live


@dataclass(frozen=True)
class Owner:
    """An object with a pod template. ``name`` is like ``Job team/train``."""

    kind: str
    name: str
    meta: Meta
    template: Meta
    scheduler: str


@dataclass(frozen=True)
class Kueue:
    """Kueue's controller. ``frameworks``: the kinds that it manages, like ``batch/job``; None: not readable."""

    config: str
    frameworks: tuple[str, ...] | None


@dataclass
class Facts:
    """The facts about one cluster.

    ``now``: the API server's clock.
    ``members``: all pods.
    ``drivers``: drivers that have published devices.
    ``claims``, ``domains``: claims of devices and ComputeDomains, if these kinds exist.
    ``claim_versions``: the resourceVersion of each claim, by its UID.
    ``groups``: None if there is no PodGroup kind.
    ``policies``, ``policy_bindings``: mutating admission policies by name.
    ``kueue_runs``: Kueue's controller renews its Lease.
    ``leftovers``: objects that Kueue has left behind.
    ``served``: the kinds that the API server serves.
    ``guards``: validating admission policies by name.
    ``muster``: the extender's answer about itself, "" when it is ready; None if it could not be asked.
    ``left_out``: the objects on which its core has failed.
    ``drift``: the result of the running Muster's last self-check, if it could be asked.
    ``utilisation``: what the running Muster knows of the use of GPUs; None of one that is older.
    ``idle``: gangs that leave their GPUs idle.
    ``serves``: the schedulerNames of the running Muster, if no Deployment names them.
    ``guessed``: no Deployment, file or running Muster names them.
    ``untaken``: Volcano Jobs that no scheduler has taken up, with their schedulerName.
    ``skipped``: checks that could not be made.
    """

    settings: Settings
    scheduler: Tree | None = None
    scheduler_source: str = ""
    version: str | None = None
    now: datetime | None = None
    nodes: list[Node] | None = None
    members: list[Member] | None = None
    owners: list[Owner] | None = None
    devices: DeviceClasses = field(default_factory=DeviceClasses)
    drivers: frozenset[str] | None = None
    claims: list[DeviceClaim] | None = None
    claim_versions: dict[str, str] = field(default_factory=dict)
    domains: list[ComputeDomain] | None = None
    groups: dict[str, GroupObject] | None = None
    groups_exist: bool = True
    deployment: Tree | None = None
    policies: dict[str, Tree] | None = None
    policy_bindings: dict[str, Tree] | None = None
    kueue: Kueue | None = None
    kueue_runs: bool = False
    leftovers: Leftovers = field(default_factory=Leftovers)
    served: dict[Served, str] | None = None
    guards: dict[str, Tree] | None = None
    lease: Tree | None = None
    rights: dict[Right, bool] | None = None
    service_accounts: dict[str, bool] = field(default_factory=dict)
    muster: str | None = None
    left_out: str = ""
    drift: VerifyView | None = None
    utilisation: UtilisationReport | None = None
    idle: list[GangView] = field(default_factory=list)
    serves: tuple[str, ...] = ()
    guessed: bool = False
    untaken: dict[str, str] = field(default_factory=dict)
    skipped: list[Finding] = field(default_factory=list)

    @property
    def devices_published(self) -> bool:
        """Whether any driver has published devices."""
        return bool(self.drivers)

    @property
    def ours(self) -> tuple[str, ...]:
        """The schedulerNames that Muster serves."""
        return self.serves or self.settings.scheduler_names

    def is_old(self, born: datetime) -> bool:
        """Return whether a scheduler should already have seen an object of that creation time."""
        return self.now is not None and (self.now - born).total_seconds() > UNANSWERED_S

    @property
    def admits_jobs(self) -> bool:
        """Whether jobs are planned before their pods exist."""
        return JOB_POLICY in (self.policies or {}) or any(asks(owner.meta) for owner in self.owners or ())


def member_from(obj: PodObject) -> Member:
    """Read a pod. Raises UnreadableError."""
    conditions = (obj.status.conditions if obj.status else None) or ()
    return Member(
        pod_from(obj), obj.metadata or Meta(), any(condition.type == "PodScheduled" for condition in conditions)
    )


def owner_from(kind: str, obj: OwnerObject) -> Owner:
    meta, template = obj.metadata or Meta(), (obj.spec.template if obj.spec else None) or PodObject()
    scheduler = (template.spec.scheduler_name if template.spec else None) or "default-scheduler"
    return Owner(kind, f"{kind} {meta.namespace}/{meta.name}", meta, template.metadata or Meta(), scheduler)


def pod_spec(workload: Tree | None) -> Tree:
    """The pod template's spec of a Deployment; empty where there is none."""
    template: Tree = ((workload or {}).get("spec") or {}).get("template") or {}
    return template.get("spec") or {}


def marks_of(meta: Meta) -> dict[str, str]:
    """Labels and annotations of an object, together."""
    return {**(meta.labels or {}), **(meta.annotations or {})}
