"""Order queues that lend quota to each other: by borrowing, priority and age, or by shares.

The share of a node is the largest fraction that it borrows of a resource that its cohort can lend, divided by its
weight (dominant resource share; Ghodsi et al., NSDI 2011; as Kueue's fair sharing counts it).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, Protocol

from policies.model.queues import Usage
from policies.quota.tree import QuotaNode, QuotaTree

THOUSAND = 1000
"""The share of a node that borrows all that can be lent."""


@dataclass(frozen=True, slots=True)
class Share:
    """The share of a node.

    ``unweighted``: thousandths of all that can be lent. A node of weight 0 that borrows comes after all others.
    """

    unweighted: Fraction
    weight: Fraction

    @property
    def endless(self) -> bool:
        return not self.weight and self.unweighted > 0

    @property
    def value(self) -> Fraction:
        """The share divided by the weight; for an endless share the unweighted one."""
        return self.unweighted / self.weight if self.weight else self.unweighted

    @property
    def rank(self) -> tuple[bool, Fraction]:
        """The sort key of a share: the lowest one is served first."""
        return self.endless, self.value


@dataclass(frozen=True, slots=True)
class Head:
    """The first workload of a queue.

    ``usage``: the quota that it will use.
    ``since``: when it entered its queue, in seconds since the epoch.
    ``level``: the height of the cohort from which it has to borrow; 0: it borrows nothing.
    """

    queue: str
    usage: Usage
    priority: int = 0
    since: float = 0.0
    uid: str = ""
    level: int = 0


def share_of(node: QuotaNode) -> Share:
    """The share of a node; 0 for a node without a parent, which cannot borrow."""
    if node.parent is None:
        return Share(Fraction(0), node.weight)
    borrowed: Counter[str] = Counter()
    for what in node.used:
        borrowed[what[1]] += node.borrowed(what)
    largest = Fraction(0)
    for resource, amount in borrowed.items():
        lendable = node.parent.lendable(resource) if amount else 0
        if lendable > 0:
            largest = max(largest, Fraction(THOUSAND * amount, lendable))
    return Share(largest, node.weight)


Rank = Callable[[QuotaNode, Head], tuple[Any, ...]]
"""Returns the sort key of a node among its siblings, given the workload that represents it; the lowest is first."""

Requested = Mapping[str, Mapping[str, int]]
"""The use of workloads plus the requests of waiting workloads, by queue and resource."""


class QueueOrder(Protocol):
    """An order between queues. ``rank`` is called once in each admission pass."""

    def rank(self, tree: QuotaTree, requested: Requested) -> Rank: ...


def fairest(tree: QuotaTree, heads: Mapping[str, Head], rank: Rank) -> Head | None:
    """The first workload of the queue whose turn it is; called again after each admission. ``heads``: by queue.

    Queues without a cohort go first: they do not compete. In a cohort each child is represented by its best
    workload.
    """
    competing: dict[str, QuotaNode] = {}
    for name in sorted(heads):
        node = tree.queues[name]
        if node.parent is None:
            return heads[name]
        competing.setdefault(node.root.name, node.root)
    winners = [head for root in competing.values() if (head := _winner(root, heads, rank)) is not None]
    return min(winners, key=lambda head: (-head.priority, head.since, head.uid), default=None)


def by_borrowing(tree: QuotaTree) -> Rank:
    """Rank for fair sharing: nodes that need not borrow for the workload, the lowest share with it, priority and
    age."""

    def rank(node: QuotaNode, head: Head) -> tuple[bool, tuple[bool, Fraction], int, float, str]:
        tree.use(head.queue, head.usage)
        borrows, share = any(node.borrows(what) for what in head.usage), share_of(node).rank
        tree.free(head.queue, head.usage)
        return borrows, share, -head.priority, head.since, head.uid

    return rank


def _winner(node: QuotaNode, heads: Mapping[str, Head], rank: Rank) -> Head | None:
    if not node.is_cohort:
        return heads.get(node.name)
    winners = [(child, head) for child in node.children if (head := _winner(child, heads, rank)) is not None]
    return min(winners, key=lambda winner: rank(*winner), default=(None, None))[1]
