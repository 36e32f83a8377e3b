"""Everything that the checks look at, as read from the cluster; None where it could not be read or does not exist."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from extender.cli.doctor.finding import Finding
from extender.cli.doctor.rights import Right
from extender.config.settings import Settings
from extender.kube.convert import UnreadableError, node_from
from extender.kube.dialects import group_of
from extender.kube.objects import GroupObject, Meta, NodeObject, OwnerObject, PodObject
from policies.model import GANG_GATE, GroupRef, Node

Tree = Mapping[str, Any]


@dataclass(frozen=True)
class Member:
    """A pod, with what it says of its gang."""

    pod: PodObject
    group: GroupRef | None

    @property
    def meta(self) -> Meta:
        return self.pod.metadata or Meta()

    @property
    def name(self) -> str:
        return f"{self.meta.namespace}/{self.meta.name}"

    @property
    def gang(self) -> str:
        return f"{self.meta.namespace}/{self.group.name}" if self.group else ""

    @property
    def scheduler(self) -> str:
        return (self.pod.spec.scheduler_name if self.pod.spec else None) or "default-scheduler"

    @property
    def node(self) -> str:
        return (self.pod.spec.node_name if self.pod.spec else None) or ""

    @property
    def gates(self) -> list[str]:
        return [gate.name or "" for gate in (self.pod.spec.scheduling_gates if self.pod.spec else None) or ()]

    @property
    def gated_by_us(self) -> bool:
        return GANG_GATE in self.gates

    @property
    def native(self) -> bool:
        return self.pod.spec is not None and self.pod.spec.scheduling_group is not None

    @property
    def pending(self) -> bool:
        """It has no node and is not at its end."""
        return not self.node and self.lives

    @property
    def lives(self) -> bool:
        """It waits or runs."""
        ended = self.pod.status is not None and self.pod.status.phase in ("Succeeded", "Failed")
        return not ended and not self.meta.deletion_timestamp

    @property
    def looked_at(self) -> bool:
        """Some scheduler has said something about it."""
        conditions = (self.pod.status.conditions if self.pod.status else None) or ()
        return any(one.type == "PodScheduled" for one in conditions)


@dataclass(frozen=True)
class Owner:
    """An object with a pod template. ``name`` is like ``Job team/train``."""

    kind: str
    name: str
    meta: Meta
    template: Meta
    scheduler: str


@dataclass
class Facts:
    """``now`` is the API server's clock. ``groups`` is None where there is no PodGroup kind.

    ``policies`` and ``policy_bindings``: mutating admission policies by name. ``muster``: what the extender said of
    itself, "" when it is ready; None if nobody could ask. ``skipped``: what could not be checked.
    """

    settings: Settings
    scheduler: Tree | None = None
    scheduler_source: str = ""
    version: str | None = None
    now: datetime | None = None
    nodes: list[Node] | None = None
    members: list[Member] | None = None
    owners: list[Owner] | None = None
    groups: dict[str, GroupObject] | None = None
    groups_exist: bool = True
    deployment: Tree | None = None
    policies: dict[str, Tree] | None = None
    policy_bindings: dict[str, Tree] | None = None
    lease: Tree | None = None
    lease_exists: bool | None = None
    rights: dict[Right, bool] | None = None
    service_accounts: dict[str, bool] = field(default_factory=dict)
    muster: str | None = None
    skipped: list[Finding] = field(default_factory=list)

    @property
    def ours(self) -> tuple[str, ...]:
        """schedulerNames that Muster serves."""
        return self.settings.scheduler_names


def member_from(pod: PodObject) -> Member:
    return Member(pod, group_of(pod.metadata or Meta()))


def owner_from(kind: str, obj: OwnerObject) -> Owner:
    meta, template = obj.metadata or Meta(), (obj.spec.template if obj.spec else None) or PodObject()
    scheduler = (template.spec.scheduler_name if template.spec else None) or "default-scheduler"
    return Owner(kind, f"{kind} {meta.namespace}/{meta.name}", meta, template.metadata or Meta(), scheduler)


def readable(nodes: list[NodeObject]) -> list[Node]:
    """As the planner sees them; what it cannot read it does not use either."""
    found = []
    for node in nodes:
        try:
            found.append(node_from(node))
        except UnreadableError:
            continue
    return found
