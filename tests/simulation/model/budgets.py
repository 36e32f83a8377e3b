"""PodDisruptionBudgets: the answer of the Eviction API, and the controller that counts the allowed disruptions."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial

from extender.simulation.clock import Clock
from policies.model import DisruptionBudget, Pod
from policies.model.constraints import selects
from tests.simulation.model.apiserver import ApiServer
from tests.simulation.model.changes import Change, Kind


def is_counted_by(budget: DisruptionBudget, pod: Pod) -> bool:
    return pod.namespace == budget.namespace and selects(budget.selector, dict(pod.labels))


class DisruptionController:
    """Counts the allowed disruptions. An evicted pod counts until some time after its end."""

    def __init__(self, api: ApiServer, clock: Clock, lag: Callable[[], float]) -> None:
        self._api = api
        self._clock = clock
        self._lag = lag
        self._evicted: dict[str, str] = {}
        """The budget of each pod that was evicted, by UID."""
        api.listeners[Kind.PODS].append(self._pod_changed)

    def evict(self, pod: Pod) -> bool:
        """Whether the budget of that pod allows its eviction, as the Eviction API asks. The eviction counts at once."""
        if not pod.node or pod.terminal or pod.deleting:
            return True
        counting = [(name, budget) for name, budget in self._api.budgets.items() if is_counted_by(budget, pod)]
        for name, budget in counting:
            if len(counting) > 1 or budget.allowed < 1:
                return False
            self._api.set_budget(replace(budget, allowed=budget.allowed - 1))
            self._evicted[pod.uid] = name
        return True

    def _pod_changed(self, change: Change) -> None:
        if change.gone and (name := self._evicted.pop(change.uid, None)) is not None:
            self._clock.after(self._lag(), partial(self._restore, name))

    def _restore(self, name: str) -> None:
        if (budget := self._api.budgets.get(name)) is not None:
            self._api.set_budget(replace(budget, allowed=budget.allowed + 1))
