"""Tells which queues can be used, and why others admit no workload; the decisions on quota and preemption share it."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import replace
from numbers import Real

from policies.model.queues import VOLCANO, ClusterQueue, Cohort, Quota, Stop
from policies.quota.tree import QuotaTree
from policies.words import twice


class Usable:
    """The queues that can be used. A queue with a flavor that does not exist still lends its quota, as in Kueue.

    ``queues``, ``cohorts``: a self-contradicting one (a resource in two groups, a negative quota) has no quota.
    ``troubles``: why a queue cannot be used, by its name.
    ``flavors``: the names of the existing flavors; None: not checked.
    """

    def __init__(
        self, queues: Sequence[ClusterQueue], cohorts: Iterable[Cohort], flavors: Collection[str] | None = None
    ) -> None:
        cohorts = list(cohorts)
        wrong = {queue.name: text for queue in queues if (text := contradiction(queue))}
        self._above = {cohort.name: text for cohort in cohorts if (text := contradiction(cohort))}
        self.queues = [replace(queue, groups=()) if queue.name in wrong else queue for queue in queues]
        self.cohorts = [replace(cohort, groups=()) if cohort.name in self._above else cohort for cohort in cohorts]
        gone = {queue.name: text for queue in self.queues if (text := _missing(queue, flavors))}
        self.troubles = gone | wrong
        self._stops = {queue.name: queue.stop for queue in queues}

    def why_closed(self, tree: QuotaTree, name: str) -> str:
        """The reason why the queue admits no workload; empty if it may admit some."""
        if (node := tree.queues.get(name)) is None:
            return tree.problems.get(name, f"queue {name} does not exist")
        above = (self._above[at.name] for at in node.path() if at.is_cohort and at.name in self._above)
        if text := self.troubles.get(name) or next(above, ""):
            return text
        stop = self._stops[name]
        return "" if stop is Stop.NONE else f"queue {name} is stopped: stopPolicy {stop}"


def _missing(queue: ClusterQueue, flavors: Collection[str] | None) -> str:
    names: Iterator[str] = (name for group in queue.groups for name, _ in group.flavors)
    return next((f"flavor {name} does not exist" for name in names if flavors is not None and name not in flavors), "")


def contradiction(one: ClusterQueue | Cohort) -> str:
    """The contradiction for which a queue, or the queues of a cohort, admits no workload; empty if there is none."""
    what_it_is = f"{'queue' if isinstance(one, ClusterQueue) else 'cohort'} {one.name}"
    covered = [name for group in one.groups for name in dict.fromkeys(group.covered)]
    flavors = [name for group in one.groups for name, _ in group.flavors]
    for what, names in (("resource", covered), ("flavor", flavors)):
        if (name := twice(names)) is not None:
            return f"{what_it_is}: {what} {name} is there twice"
    for flavor, quotas in (pair for group in one.groups for pair in group.flavors):
        for resource, quota in quotas.items() if not flavor.startswith(VOLCANO) else ():
            amounts = (quota.nominal, quota.borrowing, quota.lending) if isinstance(quota, Quota) else ()
            if any(isinstance(amount, Real) and amount < 0 for amount in amounts):
                return f"{what_it_is}: the quota of {resource} of flavor {flavor} must not be negative"
    return ""
