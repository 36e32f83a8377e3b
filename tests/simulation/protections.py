"""What protects those who run from everybody: time to run, a cap of evictions in an hour, and disruption budgets."""

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
    """Of one life of the extender."""

    def __init__(self, shown: Shown, terms: Terms) -> None:
        self._shown = shown
        self._terms = terms
        self._budgets: dict[str, DisruptionBudget] = {}
        self._told: dict[str, set[float]] = {}
        """When each victim was told to go; of a job also in former lives, as it says itself."""
        self._jobs: dict[GroupKey, str] = {}
        """The UID of each: a new one of the same name was never told, nor were the pods that one leaves behind."""

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
        """As of the decision: later some of a victim's pods may have gone. ``others`` give way to somebody else."""
        for victim in reservation.victims:
            often = sum(now - at < _HOUR_S for at in self._told.get(str(victim), ()))
            if 0 < self._terms.evictions_per_hour <= often:
                yield f"{victim} is to give way to {key}, and has done so {often} times in an hour"
            least = self._least_runtime(victim)
            if (ran := now - self._began(victim, now)) < least - _ROUNDED_S:
                yield f"{victim} is to give way to {key} after {ran:.1f} s, and may run for {least:.0f} s"
        wanted = {victim: None for one in (reservation, *others) for victim in one.victims}
        yield from self._judge_budgets(key, [*wanted])

    def tell(self, key: GroupKey, victims: Sequence[Victim], now: float) -> Iterator[str]:
        """They are told for the first time."""
        for victim in victims:
            self._told.setdefault(str(victim), set()).add(round(now, 3))
        yield from self._judge_budgets(key, victims)

    def _judge_budgets(self, key: GroupKey, victims: Iterable[Victim]) -> Iterator[str]:
        """Whether all that is evicted for it may go at once."""
        pods = {pod.uid: pod for victim in victims for pod in self._evicted(victim)}
        counted = Counter(
            name for pod in pods.values() for name, one in self._budgets.items() if is_counted_by(one, pod)
        )
        for name, count in counted.items():
            if count > (allowed := self._budgets[name].allowed):
                yield f"{count} pods are to be evicted for {key}, and budget {name} lets {allowed} of them go"

    def _evicted(self, victim: Victim) -> list[Pod]:
        """Those of it that are not evicted yet; of a job none is, for it is suspended."""
        if victim.pod:
            found = [self._shown.pods[victim.pod]] if victim.pod in self._shown.pods else []
        elif victim.key in self._shown.jobs:
            found = []
        else:
            members = self._shown.members.get(victim.key, {}).values()
            found = [pod for pod in members if pod.node and pod.stamp is not None]
        return [pod for pod in found if pod.live]

    def _least_runtime(self, victim: Victim) -> float:
        """What its pods say, the longest of them; else what the settings say."""
        said = [pod.eviction.min_runtime_s for pod in self._together(victim) if pod.eviction.min_runtime_s is not None]
        return max(said, default=self._terms.min_runtime_s)

    def _began(self, victim: Victim, now: float) -> float:
        """When its first pod was released, as that says; a surplus, when it was; a pod of no gang, when it was made."""
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
        return [one for one in self._shown.members.get(key, {}).values() if one.node and one.live]
