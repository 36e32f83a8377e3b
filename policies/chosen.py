"""The policies in force: one for each question, Muster's own unless the settings name others."""

from __future__ import annotations

from dataclasses import dataclass

from policies.api import QueuePolicy, TopologyPolicy
from policies.guard import GuardedQueue, GuardedTopology
from policies.order import PriorityThenAge
from policies.quota.shares import QueueOrder
from policies.strategies.affinity import Affinity
from policies.strategies.best_fit import BestFit
from policies.strategies.packing import Packing
from policies.strategies.scoring import WeightedSum


@dataclass(frozen=True, slots=True)
class Policies:
    """The policies that decide which workload is served first, which domain comes first, and how good a node is.

    ``between``: which of two queues comes first, if not the one that need not borrow.
    """

    queue: QueuePolicy
    topology: TopologyPolicy
    scoring: WeightedSum
    between: QueueOrder | None = None

    def guarded(self) -> Policies:
        """The same policies, with a PolicyError that names a failing one. The sum guards each of its score policies."""
        return Policies(GuardedQueue(self.queue), GuardedTopology(self.topology), self.scoring, self.between)


OURS = Policies(PriorityThenAge(), BestFit(), WeightedSum([(Affinity(), 2), (Packing(), 1)]))
