"""``drf``: order queues by dominant resource fairness (Ghodsi et al., NSDI 2011).

The share of a node is the largest fraction that it uses of any resource in its tree, divided by its weight. Unlike fair
sharing (``shares.py``) this also counts use of a queue's own quota.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from fractions import Fraction

from policies.quota.shares import Head, Rank, Requested, Share
from policies.quota.tree import QuotaNode, QuotaTree


def dominant_share(node: QuotaNode, total: Mapping[str, int]) -> Share:
    """The dominant share of a node, as a fraction of one.

    ``total``: the tree's quota by resource; a resource with none is ignored.
    """
    used = _used(node)
    parts = [Fraction(amount, total[resource]) for resource, amount in used.items() if total.get(resource)]
    return Share(max(parts, default=Fraction(0)), node.weight)


def by_drf(tree: QuotaTree, _requested: Requested) -> Rank:
    """Rank by the lowest dominant share; then by priority and age."""
    totals = {root: everything(root) for root in dict.fromkeys(node.root for node in tree.queues.values())}

    def rank(node: QuotaNode, head: Head) -> tuple[tuple[bool, Fraction], int, float, str]:
        return dominant_share(node, totals[node.root]).rank, -head.priority, head.since, head.uid

    return rank


def everything(node: QuotaNode) -> Counter[str]:
    """The sum of all quota in a tree, by resource."""
    total: Counter[str] = Counter()
    for (_, resource), quota in node.quotas.items():
        total[resource] += quota.nominal
    for child in node.children:
        total.update(everything(child))
    return total


def _used(node: QuotaNode) -> Counter[str]:
    """The sum of the use of all queues below a node, by resource."""
    total: Counter[str] = Counter()
    if not node.is_cohort:
        for (_, resource), amount in node.used.items():
            total[resource] += amount
    for child in node.children:
        total.update(_used(child))
    return total
