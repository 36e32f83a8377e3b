"""The order in which waiting gangs are served, and the order between queues."""

from __future__ import annotations

from policies.api import SortKey, WaitingGang
from policies.quota.drf import by_drf
from policies.quota.proportion import by_proportion
from policies.quota.shares import Rank, Requested, by_borrowing
from policies.quota.tree import QuotaTree


class PriorityThenAge:
    """Higher priority first, then the older gang, then by name so that the order is total."""

    def order(self, gang: WaitingGang) -> SortKey:
        return (-gang.priority, gang.created, gang.key.namespace, gang.key.name)


class Proportion(PriorityThenAge):
    """Between queues: the least use of what a queue deserves by its weight comes first (Volcano's plugin of that
    name)."""

    def rank(self, tree: QuotaTree, requested: Requested) -> Rank:
        return by_proportion(tree, requested)


class Drf(PriorityThenAge):
    """Between queues: the lowest dominant resource share of all use, over the weight, comes first."""

    def rank(self, tree: QuotaTree, requested: Requested) -> Rank:
        return by_drf(tree, requested)


class FairSharing:
    """Between queues: the lowest dominant resource share of borrowed quota, over the weight, comes first (Kueue's)."""

    def rank(self, tree: QuotaTree, _requested: Requested) -> Rank:
        return by_borrowing(tree)
