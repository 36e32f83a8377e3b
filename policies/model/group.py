"""Gangs as pods name them, and the PodGroup object."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import NamedTuple

from policies.model.topology import SILENT, Topology


class GroupKey(NamedTuple):
    """A PodGroup's name. A pod can only name a group of its own namespace.

    A tuple, because an admission pass looks up every waiting gang by its key.
    """

    namespace: str
    name: str

    def __str__(self) -> str:
        return f"{self.namespace}/{self.name}"


class Dialect(StrEnum):
    """How a pod says which gang it belongs to (``extender.kube.dialects`` reads it)."""

    ANNOTATION = "annotation"
    COSCHEDULING = "coscheduling"
    KUEUE = "kueue"
    KOORDINATOR = "koordinator"


class GroupRef(NamedTuple):
    """What one pod says about its gang; ``min_member`` where no object says it, ``problem`` if unreadable."""

    name: str
    dialect: Dialect
    min_member: int | None = None
    problem: str | None = None


@dataclass(frozen=True, slots=True)
class PodGroup:
    """A ``scheduling.x-k8s.io/v1alpha1`` PodGroup object. ``timeout_s`` bounds how long its members may be held.

    ``problem`` says what in its annotations cannot be read.
    """

    key: GroupKey
    uid: str
    min_member: int
    created: float = 0.0
    timeout_s: float | None = None
    deleting: bool = False
    topology: Topology = SILENT
    problem: str | None = None


Placement = Mapping[str, str]
"""Pod UID -> node name, for the members of one gang that were placed together."""
