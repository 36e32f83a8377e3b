"""``proportion``: compute what each queue deserves by its weight, and order queues by how much of that they use.

The rules are those of Volcano's plugin of that name (``pkg/scheduler/plugins/proportion`` at ed72c7c), for trees of any
depth. One limit of it is missing: a queue may use more than it deserves if its quota allows it, and comes later then.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import lru_cache, partial

from policies.quota.shares import Head, Rank, Requested
from policies.quota.tree import UNLIMITED, QuotaNode, QuotaTree
from policies.statement import Statement


@dataclass(frozen=True, slots=True)
class Claimant:
    """A participant in a division.

    ``floor``: the amount that it gets in any case.
    ``ceiling``: the most that it can use, at least the floor. Without weight it gets the floor alone.
    """

    weight: Fraction
    floor: int
    ceiling: int


def water_fill(total: Fraction, claimants: Sequence[Claimant]) -> list[Fraction]:
    """Divide ``total``: each claimant gets an amount in proportion to its weight, from its floor to its ceiling.

    The level rises equally for all, by weight, until nothing is left or no claimant can use more. If floors exceed the
    total, each claimant gets its floor.
    """
    steps: list[tuple[Fraction, Fraction]] = []
    for claimant in claimants:
        if claimant.weight:
            steps.append((claimant.floor / claimant.weight, claimant.weight))
            steps.append((claimant.ceiling / claimant.weight, -claimant.weight))
    left = total - sum(claimant.floor for claimant in claimants)
    level, slope = Fraction(0), Fraction(0)
    for until, change in sorted(steps):
        if left <= slope * (until - level):
            break
        left -= slope * (until - level)
        level, slope = until, slope + change
    if slope:
        level += max(Fraction(0), left) / slope
    return [
        min(Fraction(claimant.ceiling), max(Fraction(claimant.floor), level * claimant.weight))
        for claimant in claimants
    ]


class Deserved:
    """The amount that every node of a tree deserves of each resource, its flavors added up.

    For a cohort this is a part of the use of its members beyond what they never lend.
    """

    def __init__(self, tree: QuotaTree, requested: Requested) -> None:
        self._of: dict[tuple[QuotaNode, str], Fraction] = {}
        demand: dict[QuotaNode, list[_QueueDemand]] = {}
        for name, node in tree.queues.items():
            demand.setdefault(node.root, []).append((name, tuple(sorted(requested.get(name, {}).items()))))
        for root, queue_demands in demand.items():
            self._of |= _divided(root, tuple(queue_demands))

    def __call__(self, node: QuotaNode, resource: str) -> Fraction:
        return self._of.get((node, resource), Fraction(0))

    def share(self, node: QuotaNode) -> Fraction:
        """The largest fraction that a node uses of what it deserves of a resource; 1 where it deserves nothing."""
        largest = Fraction(0)
        for resource in dict.fromkeys(name for _, name in node.used):
            if used := _total(node.used, resource):
                deserved = self(node, resource)
                largest = max(largest, used / deserved if deserved else Fraction(1))
        return largest


_QueueDemand = tuple[str, tuple[tuple[str, int], ...]]
"""A queue, and the amount of each resource that is requested in it."""


@lru_cache(maxsize=1024)
def _divided(root: QuotaNode, demand: tuple[_QueueDemand, ...]) -> Mapping[tuple[QuotaNode, str], Fraction]:
    """Divide one tree. Cached: from one pass to the next most trees have the same requests."""
    shares: dict[tuple[QuotaNode, str], Fraction] = {}
    for resource in dict.fromkeys(name for _, name in root.subtree):
        division = _Division(resource, {name: dict(amounts).get(resource, 0) for name, amounts in demand})
        shares |= {(node, resource): share for node, share in division.below(root)}
    return shares


class _Division:
    """The division of one resource. ``requested``: by queue."""

    def __init__(self, resource: str, requested: Mapping[str, int]) -> None:
        self._resource = resource
        self._requested = requested

    def below(self, root: QuotaNode) -> Iterator[tuple[QuotaNode, Fraction]]:
        """The amount that each node of the tree deserves; the root deserves all that it has."""
        yield from self._divide(root, Fraction(_total(root.subtree, self._resource)))

    def _divide(self, node: QuotaNode, deserved: Fraction) -> Iterator[tuple[QuotaNode, Fraction]]:
        """Divide what a node deserves among its children; the amounts that they never lend are added."""
        yield node, deserved
        local = sum(self._local(child) for child in node.children)
        claimants = [self._claimant(child) for child in node.children]
        for child, share in zip(node.children, water_fill(deserved + local, claimants), strict=True):
            yield from self._divide(child, share)

    def _claimant(self, node: QuotaNode) -> Claimant:
        """The node as a participant: its floor is what it never lends, or the configured amount as far as it is
        requested."""
        floor, ceiling = self._local(node), self._demand(node)
        configured = [quota.deserved for what, quota in node.quotas.items() if what[1] == self._resource]
        if amounts := [amount for amount in configured if amount is not None]:
            floor = ceiling = max(floor, min(ceiling, sum(amounts)))
        return Claimant(node.weight, floor, max(floor, ceiling))

    def _demand(self, node: QuotaNode) -> int:
        """The requested amount of a node, as far as its quota allows it."""
        if not node.is_cohort:
            demand = self._requested.get(node.name, 0)
        else:
            demand = sum(max(0, self._demand(child) - self._local(child)) for child in node.children)
        known = node.root.subtree if node.is_cohort else node.quotas
        return min(demand, _sum(node.potential(what) for what in known if what[1] == self._resource))

    def _local(self, node: QuotaNode) -> int:
        return _sum(node.local(what) for what in node.subtree if what[1] == self._resource)


def deserve(statement: Statement, queue: str, requested: Requested) -> None:
    """Set the quota of each node of the queue's hierarchy to what it deserves by its weight.

    Nodes with a configured amount stay as they are. The limits of use and of lending stay, too. Only for trees of one
    flavor.
    """
    tree = statement.tree
    demand = tuple((name, tuple(sorted(requested.get(name, {}).items()))) for name in tree.around(queue))
    for (node, resource), share in _divided(tree.queues[queue].root, demand).items():
        if node.parent is None or any(quota.deserved is not None for quota in node.quotas.values()):
            continue
        statement.on_drop(partial(setattr, node, "subtree", node.subtree))
        statement.on_drop(partial(setattr, node, "quotas", node.quotas))
        for what in [what for what in node.quotas if what[1] == resource]:
            quota, local = node.quotas[what], node.local(what)
            most = None if quota.borrowing is None else node.subtree.get(what, 0) + quota.borrowing
            own = max(local, int(share))
            node.subtree = {**node.subtree, what: own}
            limits = replace(quota, borrowing=None if most is None else most - own, lending=own - local)
            node.quotas = {**node.quotas, what: limits}


def by_proportion(tree: QuotaTree, requested: Requested) -> Rank:
    """Rank by the lowest share of what a node deserves; then by priority and age."""
    deserved = Deserved(tree, requested)

    def rank(node: QuotaNode, head: Head) -> tuple[Fraction, int, float, str]:
        return deserved.share(node), -head.priority, head.since, head.uid

    return rank


def _total(amounts: Mapping[tuple[str, str], int], resource: str) -> int:
    return _sum(amount for what, amount in amounts.items() if what[1] == resource)


def _sum(amounts: Iterable[int]) -> int:
    return min(UNLIMITED, sum(amounts))
