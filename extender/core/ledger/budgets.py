"""PodDisruptionBudgets as the core sees them, and how many of the pods that are to be evicted each of them counts."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence

from extender.core.events import BudgetGone, BudgetSeen
from policies.model import DisruptionBudget, Labels, Pod
from policies.model.constraints import selects
from policies.model.mentions import Mention, mentioned
from policies.words import listed

Counts = tuple[tuple[str, int], ...]
"""Budgets by name, each with how many of the pods it counts."""


class DisruptionBudgets:
    """The PodDisruptionBudgets that the watch shows.

    Without any, or without the right to read them, no pod is protected here: then the API server refuses evictions.
    """

    def __init__(self) -> None:
        self.seen: dict[str, dict[str, DisruptionBudget]] = {}
        """Budgets by namespace, then by name."""

    def note(self, event: BudgetSeen | BudgetGone) -> bool:
        """Record a budget that was seen or deleted. Returns whether more pods may be evicted than before, as far as is
        known."""
        match event:
            case BudgetSeen(budget):
                there = self.seen.setdefault(budget.namespace, {})
                before, there[budget.name] = there.get(budget.name), budget
                return before is not None and (before.allowed < budget.allowed or before.selector != budget.selector)
            case BudgetGone(namespace, name):
                there = self.seen.get(namespace, {})
                was_known = there.pop(name, None) is not None
                if not there:
                    self.seen.pop(namespace, None)
                return was_known

    @property
    def left(self) -> Counter[str]:
        """How many more disruptions each budget allows, by its name."""
        return Counter({_name(budget): budget.allowed for there in self.seen.values() for budget in there.values()})

    def counts(self, pods: Iterable[Pod]) -> Counts:
        """How many of the pods each budget counts. Pods that already terminate do not count."""
        counted = Counter[str]()
        for names in self._of(pods):
            counted.update(names)
        return tuple(sorted(counted.items()))

    def bars(self, pods: Iterable[Pod]) -> str:
        """Why some of the pods are never evicted, or empty: the API server evicts no pod that is in several budgets."""
        several = next((names for names in self._of(pods) if len(names) > 1), ())
        return f"has a pod in several PodDisruptionBudgets: {listed(several)}" if several else ""

    def forbids(self, pods: Sequence[Pod], left: Mapping[str, int]) -> str:
        """Why not all of the pods may be evicted now, or empty. ``left``: how many more disruptions each budget
        allows."""
        short = next((name for name, count in self.counts(pods) if count > left.get(name, 0)), "")
        return self.bars(pods) or (f"PodDisruptionBudget {short} does not let all of its pods go" if short else "")

    def _of(self, pods: Iterable[Pod]) -> Iterator[Sequence[str]]:
        """Yield the names of a pod's budgets, for each pod that is in one."""
        known: dict[tuple[str, Labels], Sequence[str]] = {}
        for pod in pods if self.seen else ():
            there = self.seen.get(pod.namespace)
            if there is None or not pod.live:
                continue
            about = pod.namespace, pod.labels
            if about not in known:
                labels = dict(pod.labels)
                known[about] = [_name(budget) for budget in there.values() if selects(budget.selector, labels)]
            yield known[about]


def _name(budget: DisruptionBudget) -> str:
    """The name of the budget for texts. Texts may be read in other namespaces, so a setting can hide the namespace."""
    return mentioned([Mention(budget.namespace, f"{budget}", other="of another namespace")])
