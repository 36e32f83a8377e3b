"""PodDisruptionBudgets as the core sees them: of the pods that are to be evicted, which budget counts how many."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence

from extender.core.events import BudgetGone, BudgetSeen
from policies.model import DisruptionBudget, Labels, Pod
from policies.model.constraints import selects
from policies.model.mentions import Mention, mentioned
from policies.words import listed

Counts = tuple[tuple[str, int], ...]
"""Budgets by name, with how many of some pods each of them counts."""


class DisruptionBudgets:
    """Where there are none, or they may not be read, nobody is protected by one here: then the API server refuses."""

    def __init__(self) -> None:
        self.seen: dict[str, dict[str, DisruptionBudget]] = {}
        """By namespace and name."""

    def note(self, event: BudgetSeen | BudgetGone) -> bool:
        """Whether more may be evicted by it than before, as far as can be told."""
        match event:
            case BudgetSeen(budget):
                there = self.seen.setdefault(budget.namespace, {})
                before, there[budget.name] = there.get(budget.name), budget
                return before is not None and (before.allowed < budget.allowed or before.selector != budget.selector)
            case BudgetGone(namespace, name):
                there = self.seen.get(namespace, {})
                found = there.pop(name, None) is not None
                if not there:
                    self.seen.pop(namespace, None)
                return found

    @property
    def left(self) -> Counter[str]:
        """How many more pods each of them lets go, by name."""
        return Counter({_name(one): one.allowed for there in self.seen.values() for one in there.values()})

    def counts(self, pods: Iterable[Pod]) -> Counts:
        """Those that go already count no more."""
        found = Counter[str]()
        for names in self._of(pods):
            found.update(names)
        return tuple(sorted(found.items()))

    def bars(self, pods: Iterable[Pod]) -> str:
        """Why some of them are never evicted: the API server lets no pod go that is in several budgets."""
        several = next((names for names in self._of(pods) if len(names) > 1), ())
        return f"has a pod in several PodDisruptionBudgets: {listed(several)}" if several else ""

    def forbids(self, pods: Sequence[Pod], left: Mapping[str, int]) -> str:
        """Why not all of them may go now, when each budget lets so many more go; or empty."""
        short = next((name for name, count in self.counts(pods) if count > left.get(name, 0)), "")
        return self.bars(pods) or (f"PodDisruptionBudget {short} does not let all of its pods go" if short else "")

    def _of(self, pods: Iterable[Pod]) -> Iterator[Sequence[str]]:
        """The names of the budgets of each that is in one."""
        known: dict[tuple[str, Labels], Sequence[str]] = {}
        for pod in pods if self.seen else ():
            there = self.seen.get(pod.namespace)
            if there is None or not pod.live:
                continue
            about = pod.namespace, pod.labels
            if about not in known:
                labels = dict(pod.labels)
                known[about] = [_name(one) for one in there.values() if selects(one.selector, labels)]
            yield known[about]


def _name(budget: DisruptionBudget) -> str:
    """As texts name it, which may be read in other namespaces."""
    return mentioned([Mention(budget.namespace, f"{budget}", other="of another namespace")])
