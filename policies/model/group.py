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
        """Its name as a part of a text that not everybody may read."""
        return mentioned([Mention(self.namespace, str(self))])


class Dialect(StrEnum):
    """How a pod says which gang it belongs to (``extender.kube.dialects`` reads it)."""

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
        """A PodGroup object says how many members start together; in Koordinator's words the pods may say it, too."""
        return self in (Dialect.COSCHEDULING, Dialect.VOLCANO, Dialect.KAI, Dialect.KOORDINATOR)


Minima = tuple[tuple[str, int], ...]
"""Roles, each with how many of its members have to start together."""


class GroupRef(NamedTuple):
    """The gang as one pod declares it; ``min_member`` where no PodGroup says it, ``problem`` if unreadable.

    ``role``: what it is in the gang, where the gang's minimum is said for each role. ``minima``: the pod says that
    itself, for the whole gang. ``owner``: in the owner dialect, the name of the ``GangOwner`` that says the size.
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
    """A PodGroup object. ``timeout_s`` bounds how long its members may be held.

    ``dialect``: whose kind it is; pods of other dialects do not mean it. ``minima``: of its roles that have one.
    ``of_roles``: what roles ask of the topology that ask for something else than ``topology``, with what they have of
    that. ``problem`` says what in it cannot be read. ``job``: what makes its pods only when a scheduler has written on
    the PodGroup that it takes it up; ``pending`` until then, ``starting`` until its gang has started. ``queue``: the
    LocalQueue that it names for its pods, or the Queue of Volcano, or empty. ``run``: what it says of how long its gang
    runs.
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
        """What it asks of the topology for the members of that role."""
        return next((topology for name, topology in self.of_roles if name == role), self.topology)


Placement = Mapping[str, str]
"""Pod UID -> node name, for the members of one gang that were placed together."""


class Controller(NamedTuple):
    """As an owner reference names it."""

    version: str
    kind: str
    name: str
    uid: str

    @property
    def gang(self) -> str:
        """The name of the gang of its pods, where their template names none."""
        return f"{self.kind.lower()}-{self.name}"
