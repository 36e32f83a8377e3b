"""What preemption goes by: what authors say of evictions, disruption budgets, and room that is kept meanwhile."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import NamedTuple

from policies.model.constraints import Selector
from policies.model.group import GroupKey
from policies.model.mentions import Mention, mentioned
from policies.model.node import Requests


class EvictionTerms(NamedTuple):
    """``min_runtime_s``: it is to run for so long before it is evicted. ``checkpointed``: when it last wrote a
    checkpoint, in seconds since the epoch. ``when_incomplete``: whether the pods of its gang are evicted when it stays
    incomplete. None where nothing is said."""

    min_runtime_s: float | None = None
    checkpointed: float | None = None
    when_incomplete: bool | None = None


NO_TERMS = EvictionTerms()


def together(some: Iterable[EvictionTerms]) -> EvictionTerms:
    """Those of a workload, of which its parts say something each: the longest time and the last checkpoint. All of
    them have to want to be evicted."""
    said = [one for one in some if one is not NO_TERMS]
    least = [one.min_runtime_s for one in said if one.min_runtime_s is not None]
    saved = [one.checkpointed for one in said if one.checkpointed is not None]
    wanted = [one.when_incomplete for one in said if one.when_incomplete is not None]
    evicted = all(wanted) if wanted else None
    return EvictionTerms(max(least, default=None), max(saved, default=None), evicted) if said else NO_TERMS


@dataclass(frozen=True, slots=True)
class DisruptionBudget:
    """``allowed``: how many more of its pods may be evicted now. ``selector``: its pods, in its namespace."""

    namespace: str
    name: str
    selector: Selector
    allowed: int = 0

    def __str__(self) -> str:
        return f"{self.namespace}/{self.name}"


class Victim(NamedTuple):
    """Who gives room back. ``pod``: the UID of a pod of no gang or of the surplus of one, or empty. ``releases``: those
    that the pods of a gang were bound by: one that has started again since is another one."""

    key: GroupKey
    pod: str = ""
    releases: tuple[str, ...] = ()

    def __str__(self) -> str:
        return f"pod {self.key}" if self.pod else str(self.key)

    @property
    def mention(self) -> str:
        """As ``GroupKey.mention``."""
        return mentioned([Mention(self.key.namespace, str(self))])


@dataclass(frozen=True, slots=True)
class Reservation:
    """``rooms``: nodes, and what of each is for the preemptor. ``until``: when it ends, in seconds since the epoch.

    Of a backfill reservation: no ``victims``, and ``until`` is when the start is expected; 0 where nobody knows.
    """

    rooms: tuple[tuple[str, Requests], ...]
    victims: tuple[Victim, ...]
    until: float
