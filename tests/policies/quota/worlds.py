"""Random quota trees, and an independent reading of them."""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction
from random import Random

from policies.model.queues import ClusterQueue, Cohort, FlavorResource, Quota, ResourceGroup

GPU: FlavorResource = ("h100", "nvidia.com/gpu")
GPUS = ("nvidia.com/gpu",)


def quota(nominal: int, borrowing: int | None = None, lending: int | None = None) -> tuple[ResourceGroup, ...]:
    """One flavor, one resource."""
    return (ResourceGroup(GPUS, ((GPU[0], {GPU[1]: Quota(nominal, borrowing, lending)}),)),)


def tree(chance: Random) -> tuple[list[ClusterQueue], list[Cohort]]:
    """Up to 6 queues in up to 4 cohorts, which may be in each other; some of either have no limits, or no quota."""
    names = [f"c{at}" for at in range(chance.randrange(5))]
    cohorts = [
        Cohort(name, chance.choice(["", *names[:at]]), _some(chance) if chance.random() < 0.4 else (), _weight(chance))
        for at, name in enumerate(names)
    ]
    queues = [
        ClusterQueue(f"q{at}", _some(chance), chance.choice(["", *names]) if names else "", weight=_weight(chance))
        for at in range(chance.randint(1, 6))
    ]
    return queues, cohorts


def _some(chance: Random) -> tuple[ResourceGroup, ...]:
    limits = [chance.choice((None, None, 0, chance.randrange(12))) for _ in range(2)]
    return quota(chance.randrange(13), *limits)


def _weight(chance: Random) -> Fraction:
    return chance.choice((Fraction(1), Fraction(1), Fraction(2), Fraction(1, 2), Fraction(0)))


class Oracle:
    """Who may use how much, by the constraints alone: what each node takes of its parent must stay within what it may
    borrow, and what is taken of a root within what the root has. Nothing is kept between two questions."""

    def __init__(self, queues: list[ClusterQueue], cohorts: list[Cohort]) -> None:
        both: list[ClusterQueue | Cohort] = [*queues, *cohorts]
        self._own = {one.name: one.groups[0].flavors[0][1][GPU[1]] for one in both if one.groups}
        self._above = {one.name: one.cohort for one in queues} | {one.name: one.parent for one in cohorts}
        self._names = [*(one.name for one in queues), *(one.name for one in cohorts)]

    def _of(self, name: str) -> Quota:
        return self._own.get(name, Quota(0))

    def _below(self, name: str) -> Iterator[str]:
        return (one for one in self._names if self._above[one] == name)

    def has(self, name: str) -> int:
        return self._of(name).nominal + sum(self.has(one) - self.keeps(one) for one in self._below(name))

    def keeps(self, name: str) -> int:
        lending = self._of(name).lending
        return 0 if lending is None else max(0, self.has(name) - lending)

    def takes(self, name: str, used: dict[str, int]) -> int:
        """What it uses of its parent's."""
        return max(0, self.uses(name, used) - self.keeps(name))

    def uses(self, name: str, used: dict[str, int]) -> int:
        return used.get(name, 0) + sum(self.takes(one, used) for one in self._below(name))

    def holds(self, name: str, used: dict[str, int]) -> bool:
        """Whether nobody on the way from this queue up has more than it may have."""
        while self._above[name]:
            limit = self._of(name).borrowing
            if limit is not None and self.takes(name, used) > self.has(name) - self.keeps(name) + limit:
                return False
            name = self._above[name]
        return self.uses(name, used) <= self.has(name)

    def left(self, name: str, used: dict[str, int]) -> int:
        """The most that it may use besides: tried out."""
        most = 0
        while self.holds(name, {**used, name: used.get(name, 0) + most + 1}):
            most += 1
        return most
