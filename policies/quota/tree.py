"""The quota tree: what queues and cohorts have, use, lend and may borrow, for each flavor and resource.

The rules are those of Kueue's ClusterQueues and Cohorts (``pkg/cache/scheduler/resource_node.go`` at ff69552e79).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction

from policies.model.queues import ClusterQueue, Cohort, FlavorResource, Quota, ResourceGroup, Usage

UNLIMITED = (1 << 63) - 1
"""An amount that nothing ever reaches; larger amounts are cut to it."""


@dataclass(eq=False, slots=True)
class QuotaNode:
    """A queue or a cohort. ``height``: the number of steps to the farthest queue or empty cohort below it."""

    name: str
    weight: Fraction
    quotas: dict[FlavorResource, Quota]
    parent: QuotaNode | None = None
    is_cohort: bool = False
    children: list[QuotaNode] = field(default_factory=list)
    height: int = 0
    subtree: dict[FlavorResource, int] = field(default_factory=dict)
    """The node's nominal quota plus what its children lend."""
    used: Counter[FlavorResource] = field(default_factory=Counter)
    """The node's use; for a cohort, the use of its children beyond what they never lend."""
    _lendable: dict[str, int] = field(default_factory=dict)
    """Known results of ``lendable``, by resource: they never change."""

    @property
    def root(self) -> QuotaNode:
        return self if self.parent is None else self.parent.root

    def local(self, what: FlavorResource) -> int:
        """The amount of its quota that it never lends."""
        quota = self.quotas.get(what)
        if quota is None or quota.lending is None:
            return 0
        return max(0, self.subtree.get(what, 0) - quota.lending)

    def local_left(self, what: FlavorResource) -> int:
        """The unused amount of ``local``."""
        return max(0, self.local(what) - self.used[what])

    def left(self, what: FlavorResource) -> int:
        """The amount that it can still use, with all that it may borrow; negative if more is used than there is."""
        subtree = self.subtree.get(what, 0)
        if self.parent is None:
            return UNLIMITED if self._soft(what) else subtree - self.used[what]
        local, used, limit = self.local(what), self.used[what], self._borrowing(what)
        from_parent = self.parent.left(what)
        if limit is not None:
            from_parent = min(from_parent, subtree - local - max(0, used - local) + limit)
        return min(UNLIMITED, max(0, local - used) + from_parent)

    def potential(self, what: FlavorResource, *, there: bool = False) -> int:
        """The amount that it could use if all quota were free.

        ``there``: count only existing amounts where the root has no hard limit.
        """
        subtree = self.subtree.get(what, 0)
        if self.parent is None:
            return UNLIMITED if self._soft(what) and not there else subtree
        most, limit = self.local(what) + self.parent.potential(what, there=there), self._borrowing(what)
        return min(most, UNLIMITED if limit is None else subtree + limit, UNLIMITED)

    def lendable(self, resource: str) -> int:
        """The sum that it could lend to its children of all flavors of a resource if all quota were free."""
        if (total := self._lendable.get(resource)) is None:
            total = sum(self.potential(what, there=True) for what in self.root.subtree if what[1] == resource)
            self._lendable[resource] = total
        return total

    def borrows(self, what: FlavorResource, more: int = 0) -> bool:
        """Whether it uses more than its own quota once its use grows by ``more``."""
        return self.subtree.get(what, 0) < self.used[what] + more

    def borrowed(self, what: FlavorResource) -> int:
        return max(0, self.used[what] - self.subtree.get(what, 0))

    def change(self, what: FlavorResource, amount: int) -> None:
        """Change its use by ``amount``, which may be negative. Use beyond ``local`` is passed on to its parent."""
        local = self.local(what)
        before = max(0, self.used[what] - local)
        self.used[what] = max(0, self.used[what] + amount)
        beyond = max(0, self.used[what] - local) - before
        if beyond and self.parent is not None:
            self.parent.change(what, beyond)

    def path(self) -> Iterator[QuotaNode]:
        """The node itself and its ancestors, the root last."""
        at: QuotaNode | None = self
        while at is not None:
            yield at
            at = at.parent

    def _borrowing(self, what: FlavorResource) -> int | None:
        quota = self.quotas.get(what)
        return None if quota is None else quota.borrowing

    def _soft(self, what: FlavorResource) -> bool:
        quota = self.quotas.get(what)
        return quota is not None and quota.soft


class QuotaTree:
    """All queues and cohorts.

    ``problems``: why a queue cannot be used, by its name; such a queue is not in ``queues``. A cohort that exists by
    name alone has no quota, as in Kueue.
    """

    def __init__(self, queues: Iterable[ClusterQueue], cohorts: Iterable[Cohort] = ()) -> None:
        self.queues: dict[str, QuotaNode] = {}
        self.problems: dict[str, str] = {}
        self.cohorts = {
            cohort.name: QuotaNode(cohort.name, cohort.weight, quotas_of(cohort.groups), is_cohort=True)
            for cohort in cohorts
        }
        parents = {cohort.name: cohort.parent for cohort in cohorts if cohort.parent}
        for queue in queues:
            if queue.cohort and (ring := _ring(queue.cohort, parents)):
                self.problems[queue.name] = f"its cohorts are each other's parents: {', '.join(ring)}"
                continue
            node = self.queues[queue.name] = QuotaNode(queue.name, queue.weight, quotas_of(queue.groups))
            self._hang(node, queue.cohort)
        for name, parent in parents.items():
            if not _ring(name, parents):
                self._hang(self.cohorts[name], parent)
        for node in (*self.queues.values(), *self.cohorts.values()):
            if node.parent is None:
                _sum_up(node)
        self.roots: dict[str, list[str]] = {}
        """The queues of each tree, by ``root_of``."""
        for name in self.queues:
            self.roots.setdefault(self.root_of(name), []).append(name)

    def copy(self) -> QuotaTree:
        """Copy the tree for a trial: changes of use in the copy do not change this tree."""
        made = QuotaTree(())
        made.problems, made.roots = self.problems, self.roots
        made.queues = {name: _copied(node) for name, node in self.queues.items()}
        made.cohorts = {name: _copied(node) for name, node in self.cohorts.items()}
        for name, node in (*self.queues.items(), *self.cohorts.items()):
            if node.parent is not None:
                copied = (made.cohorts if node.is_cohort else made.queues)[name]
                copied.parent = made.cohorts[node.parent.name]
                copied.parent.children.append(copied)
        return made

    def root_of(self, queue: str) -> str:
        """A key for the tree that contains the queue; empty for an unknown queue."""
        node = self.queues.get(queue)
        return "" if node is None else f"{'cohort' if node.root.is_cohort else 'queue'}/{node.root.name}"

    def below(self, root: str) -> Sequence[str]:
        """The queues of a tree, by its key; they lend to each other."""
        return self.roots.get(root, ())

    def around(self, queue: str) -> Iterator[str]:
        """The names of all queues in the same tree as this one, including itself."""
        return (name for name, node in self.queues.items() if node.root is self.queues[queue].root)

    def use(self, queue: str, usage: Usage) -> None:
        """Add the usage of a workload in that queue."""
        for what, amount in usage.items():
            self.queues[queue].change(what, amount)

    def free(self, queue: str, usage: Usage) -> None:
        for what, amount in usage.items():
            self.queues[queue].change(what, -amount)

    def lacks(self, queue: str, usage: Usage) -> dict[FlavorResource, int]:
        """The amounts of the usage that are not available, even by borrowing."""
        node = self.queues[queue]
        short = {what: amount - max(0, node.left(what)) for what, amount in usage.items() if amount}
        return {what: amount for what, amount in short.items() if amount > 0}

    def level(self, queue: str, what: FlavorResource, amount: int) -> tuple[int, bool]:
        """How far away the queue would borrow the amount, and whether others could be made to give it back.

        The first is 0 if it need not borrow, else the height of the nearest cohort that has the amount of its own. The
        second is true if that cohort is below the root, so that other queues could be made to give the quota back.
        """
        node = self.queues[queue]
        if node.parent is None or not node.borrows(what, amount):
            return 0, node.parent is not None
        rest, above = amount - node.local_left(what), node.parent
        for at in above.path():
            if not at.borrows(what, rest):
                return at.height, at.parent is not None
            rest -= at.local_left(what)
        return node.root.height, False

    def _hang(self, node: QuotaNode, cohort: str) -> None:
        if not cohort:
            return
        parent = self.cohorts.setdefault(cohort, QuotaNode(cohort, Fraction(1), {}, is_cohort=True))
        node.parent = parent
        parent.children.append(node)


def _copied(node: QuotaNode) -> QuotaNode:
    return replace(node, parent=None, children=[], used=node.used.copy())


def quotas_of(groups: Iterable[ResourceGroup]) -> dict[FlavorResource, Quota]:
    return {
        (flavor, resource): quota
        for group in groups
        for flavor, quotas in group.flavors
        for resource, quota in quotas.items()
    }


def _ring(cohort: str, parents: Mapping[str, str]) -> list[str]:
    """The cohorts of a ring on the way up from this one; empty if there is no ring."""
    way: list[str] = []
    while cohort in parents:
        if cohort in way:
            return way[way.index(cohort) :]
        way.append(cohort)
        cohort = parents[cohort]
    return []


def _sum_up(node: QuotaNode) -> None:
    total: Counter[FlavorResource] = Counter({what: quota.nominal for what, quota in node.quotas.items()})
    for child in node.children:
        _sum_up(child)
        node.height = max(node.height, child.height + 1)
        for what, amount in child.subtree.items():
            total[what] += amount - child.local(what)
    node.subtree = {what: min(UNLIMITED, amount) for what, amount in total.items()}
