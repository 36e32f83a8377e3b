"""Records the usage of the quota tree while one decision after another is made, some of which evict others."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from policies.model.queues import ClusterQueue, Cohort, FlavorResource, Usage
from policies.quota.flavors import Fit, nobody
from policies.quota.tree import QuotaTree
from policies.steps import Steps


@dataclass(frozen=True, slots=True)
class Victims:
    """The victims. ``why``: the rule for each, by name. ``frees``: the queue and the quota of each."""

    why: Mapping[str, str] = field(default_factory=dict)
    frees: Sequence[tuple[str, Usage]] = ()


class Evicting(Protocol):
    """The victims that one workload may have."""

    def preempts(self, queue: ClusterQueue, what: FlavorResource, amount: int) -> Steps[tuple[Fit, int]]:
        """The signature of ``policies.quota.flavors.Preempts``."""
        ...

    def victims(self, usage: Usage) -> Victims | str:
        """The victims for all of ``usage`` together; or why there are none."""
        ...


class NoEvictions:
    """The stand-in where no workload may be evicted."""

    def preempts(self, queue: ClusterQueue, what: FlavorResource, amount: int) -> Steps[tuple[Fit, int]]:
        return nobody(queue, what, amount)

    def victims(self, _usage: Usage) -> Victims | str:
        return "nothing may be evicted"


class Books:
    """The books.

    ``now``: the present usage, with reservations of preemptors beyond the usage of their victims.
    ``later``: the usage when the victims have gone and the preemptors have started.
    ``leaving``: the victims, by name.
    ``version``: grows with every change.
    """

    def __init__(self, queues: Sequence[ClusterQueue], cohorts: Iterable[Cohort]) -> None:
        cohorts = list(cohorts)
        self.now = QuotaTree(queues, cohorts)
        self.later = QuotaTree(queues, cohorts)
        self.leaving: dict[str, None] = {}
        self.version = 0

    def admit(self, queue: str, usage: Usage) -> None:
        """Add the usage of an admitted workload. A workload in a queue that does not exist uses nothing."""
        self.version += 1
        for tree in (self.now, self.later):
            if queue in tree.queues:
                tree.use(queue, usage)

    def evict(self, queue: str, usage: Usage, victims: Victims) -> None:
        """Record victims of a workload of that queue. The room that it will use is closed to all others."""
        self.version += 1
        left = Counter(usage)
        for theirs, frees in victims.frees:
            left.subtract(frees)
            if theirs in self.later.queues:
                self.later.free(theirs, frees)
        self.later.use(queue, usage)
        self.now.use(queue, {what: left[what] for what in usage if left[what] > 0})
        self.leaving |= dict.fromkeys(victims.why)
