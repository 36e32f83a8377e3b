"""Inputs of preemption: authors' terms of eviction, disruption budgets, and room kept for a preemptor."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import NamedTuple

from policies.model.constraints import Selector
from policies.model.group import GroupKey
from policies.model.mentions import Mention, mentioned
from policies.model.node import Requests


class EvictionTerms(NamedTuple):
    """An author's terms of eviction; None in a field: not stated.

    ``min_runtime_s``: how long it should run before it is evicted.
    ``checkpointed``: when it last wrote a checkpoint, in seconds since the epoch.
    ``when_incomplete``: whether the gang's pods are evicted if the gang stays incomplete.
    ``restartable``: whether it may be stopped and started elsewhere.
    ``when_overrun``: whether it is evicted if it runs longer than expected where room is reserved for another workload.
    """

    min_runtime_s: float | None = None
    checkpointed: float | None = None
    when_incomplete: bool | None = None
    restartable: bool | None = None
    when_overrun: bool | None = None


NO_TERMS = EvictionTerms()


def together(all_terms: Iterable[EvictionTerms]) -> EvictionTerms:
    """The terms of a workload from those of its parts: the longest time and the last checkpoint.

    The other terms are true only if all parts that state them agree.
    """
    stated = [terms for terms in all_terms if terms is not NO_TERMS]
    least = [terms.min_runtime_s for terms in stated if terms.min_runtime_s is not None]
    saved = [terms.checkpointed for terms in stated if terms.checkpointed is not None]
    if not stated:
        return NO_TERMS
    return EvictionTerms(
        max(least, default=None),
        max(saved, default=None),
        _agreed(terms.when_incomplete for terms in stated),
        _agreed(terms.restartable for terms in stated),
        _agreed(terms.when_overrun for terms in stated),
    )


def _agreed(stated: Iterable[bool | None]) -> bool | None:
    """Whether all parts that state the term want it; None if no part states it."""
    wanted = [term for term in stated if term is not None]
    return all(wanted) if wanted else None


@dataclass(frozen=True, slots=True)
class DisruptionBudget:
    """A PodDisruptionBudget.

    ``allowed``: how many more of its pods may be evicted now.
    ``selector``: its pods, in its namespace.
    """

    namespace: str
    name: str
    selector: Selector
    allowed: int = 0

    def __str__(self) -> str:
        return f"{self.namespace}/{self.name}"


class Victim(NamedTuple):
    """A workload that is evicted.

    ``pod``: the UID of a single pod, or of a pod of the surplus; empty for a whole gang.
    ``releases``: the releases by which a gang's pods were bound. A gang that started again since is another victim.
    """

    key: GroupKey
    pod: str = ""
    releases: tuple[str, ...] = ()

    def __str__(self) -> str:
        return f"pod {self.key}" if self.pod else str(self.key)

    @property
    def mention(self) -> str:
        """The name as a part of a text, like ``GroupKey.mention``."""
        return mentioned([Mention(self.key.namespace, str(self))])


@dataclass(frozen=True, slots=True)
class Reservation:
    """Room that is kept for a workload.

    ``rooms``: nodes, and the kept amounts of each.
    ``victims``: the workloads to evict; empty in a backfill reservation.
    ``until``: when it ends, in seconds since the epoch; for a backfill the expected start, 0 if unknown.
    """

    rooms: tuple[tuple[str, Requests], ...]
    victims: tuple[Victim, ...]
    until: float
