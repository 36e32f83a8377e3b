"""Whose turn it is among queues that lend each other quota: by borrowing, priority and age, or by shares.

A node's share is the largest part that it borrows of what its cohort can lend of any resource, by its weight (dominant
resource share; Ghodsi et al., NSDI 2011; as Kueue's fair sharing counts it).
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
"""A share of all that can be lent."""


@dataclass(frozen=True, slots=True)
class Share:
    """``unweighted``: in thousandths of what can be lent. Who borrows with weight 0 comes after all others."""

    unweighted: Fraction
    weight: Fraction

    @property
    def endless(self) -> bool:
        return not self.weight and self.unweighted > 0

    @property
    def value(self) -> Fraction:
        """By weight. Of an endless share the unweighted one."""
        return self.unweighted / self.weight if self.weight else self.unweighted

    @property
    def rank(self) -> tuple[bool, Fraction]:
        """The lowest share is served first."""
        return self.endless, self.value


@dataclass(frozen=True, slots=True)
class Head:
    """The first workload of a queue. ``usage``: what it will use. ``since``: when it came into its queue, in seconds.
    ``level``: from how far away it has to borrow.
    """

    queue: str
    usage: Usage
    priority: int = 0
    since: float = 0.0
    uid: str = ""
    level: int = 0


def share_of(node: QuotaNode) -> Share:
    """Nothing is borrowed where there is nobody to borrow from."""
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
"""How a node of the tree stands among those beside it, with the workload that stands for it: the lowest comes first."""

Requested = Mapping[str, Mapping[str, int]]
"""By queue and resource: what its workloads use, and what those ask for that wait in it."""


class QueueOrder(Protocol):
    """An order between queues. ``rank`` is asked for once per admission pass."""

    def rank(self, tree: QuotaTree, requested: Requested) -> Rank: ...


def fairest(tree: QuotaTree, heads: Mapping[str, Head], rank: Rank) -> Head | None:
    """The one whose turn it is: asked anew after each admission. ``heads``: by queue.

    Queues in no cohort go first: they compete with nobody. In a cohort each child is stood for by the best of its own.
    """
    competing: dict[str, QuotaNode] = {}
    for name in sorted(heads):
        node = tree.queues[name]
        if node.parent is None:
            return heads[name]
        competing.setdefault(node.root.name, node.root)
    found = [head for root in competing.values() if (head := _winner(root, heads, rank)) is not None]
    return min(found, key=lambda head: (-head.priority, head.since, head.uid), default=None)


def by_borrowing(tree: QuotaTree) -> Rank:
    """Fair sharing: who does not borrow what it asks for, then the lowest share with it, then priority and age."""

    def rank(node: QuotaNode, head: Head) -> tuple[bool, tuple[bool, Fraction], int, float, str]:
        tree.use(head.queue, head.usage)
        borrows, share = any(node.borrows(what) for what in head.usage), share_of(node).rank
        tree.free(head.queue, head.usage)
        return borrows, share, -head.priority, head.since, head.uid

    return rank


def _winner(node: QuotaNode, heads: Mapping[str, Head], rank: Rank) -> Head | None:
    if not node.is_cohort:
        return heads.get(node.name)
    found = [(child, head) for child in node.children if (head := _winner(child, heads, rank)) is not None]
    return min(found, key=lambda one: rank(*one), default=(None, None))[1]
