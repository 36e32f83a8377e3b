"""``drf``: whose turn it is by dominant resource fairness (Ghodsi et al., NSDI 2011).

A node's share is the largest part that it uses of all that its tree has of any resource, by its weight. Unlike fair
sharing (``shares.py``) this counts what a queue uses of its own quota, too.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from fractions import Fraction

from policies.quota.shares import Head, Rank, Requested, Share
from policies.quota.tree import QuotaNode, QuotaTree


def dominant_share(node: QuotaNode, total: Mapping[str, int]) -> Share:
    """In parts of one. ``total``: by resource; what there is none of counts for nothing."""
    used = _used(node)
    parts = [Fraction(amount, total[resource]) for resource, amount in used.items() if total.get(resource)]
    return Share(max(parts, default=Fraction(0)), node.weight)


def by_drf(tree: QuotaTree, _requested: Requested) -> Rank:
    """The lowest dominant share first; then priority and age."""
    totals = {root: everything(root) for root in dict.fromkeys(node.root for node in tree.queues.values())}

    def rank(node: QuotaNode, head: Head) -> tuple[tuple[bool, Fraction], int, float, str]:
        return dominant_share(node, totals[node.root]).rank, -head.priority, head.since, head.uid

    return rank


def everything(node: QuotaNode) -> Counter[str]:
    """All quota of a tree, by resource."""
    total: Counter[str] = Counter()
    for (_, resource), quota in node.quotas.items():
        total[resource] += quota.nominal
    for child in node.children:
        total.update(everything(child))
    return total


def _used(node: QuotaNode) -> Counter[str]:
    """What the queues below use, by resource."""
    total: Counter[str] = Counter()
    if not node.is_cohort:
        for (_, resource), amount in node.used.items():
            total[resource] += amount
    for child in node.children:
        total.update(_used(child))
    return total
