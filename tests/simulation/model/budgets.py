"""PodDisruptionBudgets: what the Eviction API makes of them, and the controller that counts who may go."""

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
    """A pod that was evicted counts until a while after it has gone: then another one may go in its place."""

    def __init__(self, api: ApiServer, clock: Clock, lag: Callable[[], float]) -> None:
        self._api = api
        self._clock = clock
        self._lag = lag
        self._evicted: dict[str, str] = {}
        """The budget of each pod that was evicted, by UID."""
        api.listeners[Kind.PODS].append(self._pod_changed)

    def let_go(self, pod: Pod) -> bool:
        """Asked by the Eviction API: whether the budget of that pod lets it go. It counts at once."""
        if not pod.node or pod.terminal or pod.deleting:
            return True
        found = [(name, one) for name, one in self._api.budgets.items() if is_counted_by(one, pod)]
        for name, budget in found:
            if len(found) > 1 or budget.allowed < 1:
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
