"""Random quota trees, and an independent reading of them."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from itertools import product
from random import Random

from policies.model.queues import ClusterQueue, Cohort, FlavorResource, Quota, ResourceGroup

GPU: FlavorResource = ("h100", "nvidia.com/gpu")
GPUS = ("nvidia.com/gpu",)
SEVERAL: tuple[FlavorResource, ...] = tuple(product(("h100", "a100"), ("nvidia.com/gpu", "memory")))
"""Two flavors of two resources."""
WEIGHTS = tuple(map(Fraction, ("1", "1", "2", "1/2", "5/3", "1/7", "0")))


def quota(nominal: int, borrowing: int | None = None, lending: int | None = None) -> tuple[ResourceGroup, ...]:
    """Quota of one flavor and one resource."""
    return (ResourceGroup(GPUS, ((GPU[0], {GPU[1]: Quota(nominal, borrowing, lending)}),)),)


def tree(chance: Random, whats: Sequence[FlavorResource] = (GPU,)) -> tuple[list[ClusterQueue], list[Cohort]]:
    """Up to 6 queues in up to 4 cohorts, which may be in each other; some of either have no limits, or no quota."""
    names = [f"c{at}" for at in range(chance.randrange(5))]
    cohorts = [
        Cohort(
            name,
            chance.choice(["", *names[:at]]),
            _some(chance, whats) if chance.random() < 0.4 else (),
            chance.choice(WEIGHTS),
        )
        for at, name in enumerate(names)
    ]
    queues = [
        ClusterQueue(
            f"q{at}",
            _some(chance, whats),
            chance.choice(["", *names]) if names else "",
            weight=chance.choice(WEIGHTS),
        )
        for at in range(chance.randint(1, 6))
    ]
    return queues, cohorts


def _some(chance: Random, whats: Sequence[FlavorResource]) -> tuple[ResourceGroup, ...]:
    flavors: dict[str, dict[str, Quota]] = {}
    for flavor, resource in whats:
        limits = [chance.choice((None, None, 0, chance.randrange(12))) for _ in range(2)]
        flavors.setdefault(flavor, {})[resource] = Quota(chance.randrange(13), limits[0], limits[1])
    return (ResourceGroup(tuple(dict.fromkeys(resource for _, resource in whats)), tuple(flavors.items())),)


class Oracle:
    """An independent reading of the quota for one flavor and resource, by the constraints alone.

    A node takes of its parent at most what it may borrow. All nodes together take of a root at most what the root
    has. Each question brings the current usage.
    """

    def __init__(self, queues: list[ClusterQueue], cohorts: list[Cohort], what: FlavorResource = GPU) -> None:
        both: list[ClusterQueue | Cohort] = [*queues, *cohorts]
        flavor, resource = what
        self._own = {
            member.name: own_quota
            for member in both
            for group in member.groups
            for name, quotas in group.flavors
            if name == flavor and (own_quota := quotas.get(resource)) is not None
        }
        self._above = {queue.name: queue.cohort for queue in queues} | {
            cohort.name: cohort.parent for cohort in cohorts
        }
        self._below: dict[str, list[str]] = {}
        for child, above in self._above.items():
            self._below.setdefault(above, []).append(child)
        self._has: dict[str, int] = {}

    def _of(self, name: str) -> Quota:
        return self._own.get(name, Quota(0))

    def has(self, name: str) -> int:
        if name not in self._has:
            lent = sum(self.has(child) - self.keeps(child) for child in self._below.get(name, ()))
            self._has[name] = self._of(name).nominal + lent
        return self._has[name]

    def keeps(self, name: str) -> int:
        lending = self._of(name).lending
        return 0 if lending is None else max(0, self.has(name) - lending)

    def takes(self, name: str, used: dict[str, int]) -> int:
        """The amount that the node uses of its parent's quota."""
        return max(0, self.uses(name, used) - self.keeps(name))

    def uses(self, name: str, used: dict[str, int]) -> int:
        return used.get(name, 0) + sum(self.takes(child, used) for child in self._below.get(name, ()))

    def borrows(self, name: str, used: dict[str, int]) -> bool:
        return self.uses(name, used) > self.has(name)

    def holds(self, name: str, used: dict[str, int]) -> bool:
        """Whether the queue and all nodes above it stay within their limits."""
        while self._above[name]:
            limit = self._of(name).borrowing
            if limit is not None and self.takes(name, used) > self.has(name) - self.keeps(name) + limit:
                return False
            name = self._above[name]
        return not self.borrows(name, used)

    def left(self, name: str, used: dict[str, int]) -> int:
        """The most that it may use besides: tried out, since more never fits where less does not."""
        least, most = 0, 1
        while self.holds(name, {**used, name: used.get(name, 0) + most}):
            least, most = most, 2 * most
        while most - least > 1:
            middle = (least + most) // 2
            if self.holds(name, {**used, name: used.get(name, 0) + middle}):
                least = middle
            else:
                most = middle
        return least
