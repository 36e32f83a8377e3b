"""Everything that the checks look at, as read from the cluster; None where it could not be read or does not exist."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from extender.api.models import VerifyView
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
"""Seconds after which a pod without a word from any scheduler has no scheduler."""
JOB_POLICY = "muster-jobs"
"""Suspends the jobs that Muster is to admit, when they are created."""


@dataclass(frozen=True)
class Member:
    """A pod as Muster reads it, and its annotations and labels. ``looked_at``: a scheduler has said something of it."""

    pod: Pod
    meta: Meta
    looked_at: bool

    @property
    def pending(self) -> bool:
        """It has no node and is not at its end."""
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
    """``now`` is the API server's clock. ``groups`` is None where there is no PodGroup kind.

    ``policies`` and ``policy_bindings``: mutating admission policies by name. ``muster``: what the extender said of
    itself, "" when it is ready; None if nobody could ask. ``left_out``: the objects that its core has failed on.
    ``drift``: what the last self-check of the running Muster found, if it could be asked.
    ``kueue_runs``: Kueue's controller renews its Lease. ``leftovers``: what it has left behind. ``served``: the kinds
    that the API server serves. ``guards``: validating admission policies by name. ``skipped``: what could not be
    checked. ``serves``: the schedulerNames of the running Muster, where no Deployment tells them; ``guessed``: nobody
    tells them. ``drivers``: those that have published devices; ``claims`` of devices, ``domains`` of NVIDIA's driver,
    where there are such kinds. ``untaken``: Volcano Jobs that no scheduler has taken up, with their schedulerName.
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
        """schedulerNames that Muster serves."""
        return self.serves or self.settings.scheduler_names

    def is_old(self, born: datetime) -> bool:
        """Return whether what was created then should have been seen by its scheduler by now."""
        return self.now is not None and (self.now - born).total_seconds() > UNANSWERED_S

    @property
    def admits_jobs(self) -> bool:
        """Whether jobs are planned before their pods exist."""
        return JOB_POLICY in (self.policies or {}) or any(asks(one.meta) for one in self.owners or ())


def member_from(obj: PodObject) -> Member:
    """Raises UnreadableError."""
    conditions = (obj.status.conditions if obj.status else None) or ()
    return Member(pod_from(obj), obj.metadata or Meta(), any(one.type == "PodScheduled" for one in conditions))


def owner_from(kind: str, obj: OwnerObject) -> Owner:
    meta, template = obj.metadata or Meta(), (obj.spec.template if obj.spec else None) or PodObject()
    scheduler = (template.spec.scheduler_name if template.spec else None) or "default-scheduler"
    return Owner(kind, f"{kind} {meta.namespace}/{meta.name}", meta, template.metadata or Meta(), scheduler)


def pod_spec(workload: Tree | None) -> Tree:
    """The pod template's spec of a Deployment; empty where there is none."""
    template: Tree = ((workload or {}).get("spec") or {}).get("template") or {}
    return template.get("spec") or {}


def said(meta: Meta) -> dict[str, str]:
    """Labels and annotations."""
    return {**(meta.labels or {}), **(meta.annotations or {})}
