"""What is used of the quota tree while one decision after another is made, some of which have others give way first."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from policies.model.queues import ClusterQueue, Cohort, FlavorResource, Usage
from policies.quota.flavors import Fit, nobody
from policies.quota.tree import QuotaTree


@dataclass(frozen=True, slots=True)
class Victims:
    """``why``: by which rule each of them goes, by name. ``frees``: the queue and the quota of each."""

    why: Mapping[str, str] = field(default_factory=dict)
    frees: Sequence[tuple[str, Usage]] = ()


class Evicting(Protocol):
    """Whom one workload may have evicted."""

    def preempts(self, queue: ClusterQueue, what: FlavorResource, amount: int) -> tuple[Fit, int]:
        """As ``policies.quota.flavors.Preempts``."""
        ...

    def victims(self, usage: Usage) -> Victims | str:
        """Who goes for all of that together; or why nobody does."""
        ...


class NoEvictions:
    """Nobody may be evicted."""

    def preempts(self, queue: ClusterQueue, what: FlavorResource, amount: int) -> tuple[Fit, int]:
        return nobody(queue, what, amount)

    def victims(self, _usage: Usage) -> Victims | str:
        return "nobody may be evicted"


class Books:
    """``now``: what is used, and of what is kept for preemptors as much as their victims do not have. ``later``: what
    will be when the victims have gone and the preemptors have started. ``leaving``: the victims, by name. ``version``
    grows with every change."""

    def __init__(self, queues: Sequence[ClusterQueue], cohorts: Iterable[Cohort]) -> None:
        cohorts = list(cohorts)
        self.now = QuotaTree(queues, cohorts)
        self.later = QuotaTree(queues, cohorts)
        self.leaving: dict[str, None] = {}
        self.version = 0

    def admit(self, queue: str, usage: Usage) -> None:
        """It uses so much from now on. Whoever is in no queue that is there uses nothing."""
        self.version += 1
        for tree in (self.now, self.later):
            if queue in tree.queues:
                tree.use(queue, usage)

    def evict(self, queue: str, usage: Usage, victims: Victims) -> None:
        """They give way to a workload of that queue, and nobody else gets what it is to use."""
        self.version += 1
        left = Counter(usage)
        for theirs, frees in victims.frees:
            left.subtract(frees)
            if theirs in self.later.queues:
                self.later.free(theirs, frees)
        self.later.use(queue, usage)
        self.now.use(queue, {what: left[what] for what in usage if left[what] > 0})
        self.leaving |= dict.fromkeys(victims.why)
