"""Gangs as pods name them, the PodGroup object, and the object that makes either."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import NamedTuple

from policies.model.duration import NO_RUN_TERMS, RunTerms
from policies.model.mentions import Mention, mentioned
from policies.model.topology import SILENT, Topology


class GroupKey(NamedTuple):
    """A PodGroup's name. A pod can only name a group of its own namespace.

    A tuple, because an admission pass looks up every waiting gang by its key.
    """

    namespace: str
    name: str

    def __str__(self) -> str:
        return f"{self.namespace}/{self.name}"

    @property
    def mention(self) -> str:
        """The name as a part of a text that not everybody may read."""
        return mentioned([Mention(self.namespace, str(self))])


class Dialect(StrEnum):
    """How a pod names its gang (``extender.kube.dialects`` reads it)."""

    ANNOTATION = "annotation"
    COSCHEDULING = "coscheduling"
    VOLCANO = "volcano"
    KAI = "kai"
    KUEUE = "kueue"
    KOORDINATOR = "koordinator"
    YUNIKORN = "yunikorn"
    OWNER = "owner"

    @property
    def has_objects(self) -> bool:
        """Whether a PodGroup object states how many members start together. In Koordinator's dialect pods may, too."""
        return self in (Dialect.COSCHEDULING, Dialect.VOLCANO, Dialect.KAI, Dialect.KOORDINATOR)


Minima = tuple[tuple[str, int], ...]
"""The number of members of each role that have to start together."""


class GroupRef(NamedTuple):
    """The gang as one pod declares it.

    ``min_member``: set if no PodGroup states it.
    ``problem``: what is unreadable.
    ``role``: the pod's role in the gang, if the minimum is stated by role.
    ``minima``: the minimum of each role of the gang, if the pod states it.
    ``owner``: in the owner dialect, the name of the ``GangOwner`` that states the size.
    ``restarts``, ``queue``: as in GangOwner.
    """

    name: str
    dialect: Dialect
    min_member: int | None = None
    problem: str | None = None
    role: str = ""
    minima: Minima = ()
    owner: str = ""
    restarts: bool = False
    queue: str = ""


@dataclass(frozen=True, slots=True)
class PodGroup:
    """A PodGroup object.

    ``timeout_s``: how long its members may be held at most.
    ``dialect``: the project whose kind it is; pods of other dialects do not mean it.
    ``minima``: of the roles that have one.
    ``of_roles``: the complete topology demands of roles that differ from ``topology``.
    ``problem``: what in it cannot be read.
    ``job``: makes the pods only once a scheduler has accepted the PodGroup.
    ``pending``: no scheduler has accepted it yet. ``starting``: accepted, and its gang has not started.
    ``queue``: the LocalQueue or Queue of Volcano that it names for its pods, or empty.
    ``run``: its gang's running time, if stated.
    """

    key: GroupKey
    uid: str
    min_member: int
    created: float = 0.0
    timeout_s: float | None = None
    deleting: bool = False
    topology: Topology = SILENT
    problem: str | None = None
    dialect: Dialect = Dialect.COSCHEDULING
    minima: Minima = ()
    of_roles: tuple[tuple[str, Topology], ...] = ()
    job: Controller | None = None
    pending: bool = False
    starting: bool = False
    queue: str = ""
    run: RunTerms = NO_RUN_TERMS

    def asked_of(self, role: str) -> Topology:
        """The topology demands for the members of that role."""
        return next((topology for name, topology in self.of_roles if name == role), self.topology)


Placement = Mapping[str, str]
"""Pod UID -> node name, for the members of one gang that were placed together."""


class Controller(NamedTuple):
    """The controller of a pod, as its owner reference names it."""

    version: str
    kind: str
    name: str
    uid: str

    @property
    def gang(self) -> str:
        """The name of the gang of its pods, if their template names none."""
        return f"{self.kind.lower()}-{self.name}"
