"""The protections of running workloads from all others: time to run, a cap of evictions in an hour, and budgets."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence

from extender.core.events import BudgetGone, BudgetSeen, Event, JobGone, JobSeen
from policies.model import DisruptionBudget, GroupKey, Pod, Reservation, Victim
from tests.simulation.model.budgets import is_counted_by
from tests.simulation.shown import Shown
from tests.simulation.terms import Terms

_ROUNDED_S = 1e-6
"""The core counts by the wall clock, the simulator from 0."""
_HOUR_S = 3600.0


class Protections:
    """The protections in one life of the extender."""

    def __init__(self, shown: Shown, terms: Terms) -> None:
        self._shown = shown
        self._terms = terms
        self._budgets: dict[str, DisruptionBudget] = {}
        self._told: dict[str, set[float]] = {}
        """When each victim was evicted; of a job also in former lives, as the job states."""
        self._jobs: dict[GroupKey, str] = {}
        """The UID of each job: a later job of the same name was never evicted, nor were pods left by an earlier one."""

    def hear(self, event: Event) -> None:
        match event:
            case BudgetSeen(budget):
                self._budgets[f"{budget}"] = budget
            case BudgetGone(namespace, name):
                self._budgets.pop(f"{namespace}/{name}", None)
            case JobSeen(job):
                if self._jobs.setdefault(job.key, job.uid) != job.uid:
                    self._told.pop(str(Victim(job.key)), None)
                    self._jobs[job.key] = job.uid
                self._told.setdefault(str(Victim(job.key)), set()).update(job.evicted)
            case JobGone(key, uid) if self._jobs.get(key) == uid:
                self._told.pop(str(Victim(key)), None)

    def judge(
        self, key: GroupKey, reservation: Reservation, others: Iterable[Reservation], now: float
    ) -> Iterator[str]:
        """The faults of the victims at the time of the decision: later some of a victim's pods may have gone.

        ``others``: reservations of other preemptors.
        """
        for victim in reservation.victims:
            often = sum(now - at < _HOUR_S for at in self._told.get(str(victim), ()))
            if 0 < self._terms.evictions_per_hour <= often:
                yield f"{victim} is to give way to {key}, and has done so {often} times in an hour"
            least = self._least_runtime(victim)
            if (ran := now - self._began(victim, now)) < least - _ROUNDED_S:
                yield f"{victim} is to give way to {key} after {ran:.1f} s, and may run for {least:.0f} s"
        wanted = {victim: None for kept in (reservation, *others) for victim in kept.victims}
        yield from self._judge_budgets(key, [*wanted])

    def tell(self, key: GroupKey, victims: Sequence[Victim], now: float) -> Iterator[str]:
        """Record the first eviction of these victims."""
        for victim in victims:
            self._told.setdefault(str(victim), set()).add(round(now, 3))
        yield from self._judge_budgets(key, victims)

    def _judge_budgets(self, key: GroupKey, victims: Iterable[Victim]) -> Iterator[str]:
        """Check that all pods that are evicted for the preemptor may be evicted at once."""
        pods = {pod.uid: pod for victim in victims for pod in self._evicted(victim)}
        counted = Counter(
            name for pod in pods.values() for name, budget in self._budgets.items() if is_counted_by(budget, pod)
        )
        for name, count in counted.items():
            if count > (allowed := self._budgets[name].allowed):
                yield f"{count} pods are to be evicted for {key}, and budget {name} lets {allowed} of them go"

    def _evicted(self, victim: Victim) -> list[Pod]:
        """The pods of the victim that are not evicted yet; none of a job, because a job is suspended."""
        if victim.pod:
            evicted = [self._shown.pods[victim.pod]] if victim.pod in self._shown.pods else []
        elif victim.key in self._shown.jobs:
            evicted = []
        else:
            members = self._shown.members.get(victim.key, {}).values()
            evicted = [pod for pod in members if pod.node and pod.stamp is not None]
        return [pod for pod in evicted if pod.live]

    def _least_runtime(self, victim: Victim) -> float:
        """The longest minimum runtime that its pods declare; else that of the settings."""
        minima = [
            pod.eviction.min_runtime_s for pod in self._together(victim) if pod.eviction.min_runtime_s is not None
        ]
        return max(minima, default=self._terms.min_runtime_s)

    def _began(self, victim: Victim, now: float) -> float:
        """When its first pod was released, by its stamp; a surplus pod: its own release; a single pod: its creation."""
        alone = self._shown.pods.get(victim.pod)
        if alone is not None and alone.group_key is None:
            return min(now, alone.created)
        bound = self._together(victim) if alone is None else [alone]
        return min([now, *(pod.stamp.at for pod in bound if pod.stamp is not None and pod.stamp.at)])

    def _together(self, victim: Victim) -> list[Pod]:
        """The pods of its gang that run, also where it is the surplus of one; else itself."""
        pod = self._shown.pods.get(victim.pod)
        if pod is not None and pod.group_key is None:
            return [pod]
        key = victim.key if pod is None or pod.group_key is None else pod.group_key
        return [pod for pod in self._shown.members.get(key, {}).values() if pod.node and pod.live]
