"""Preemption candidates: whole running workloads, their surplus, and pods without a gang.

The surplus of a gang are the members that it can run without: those beyond the number that starts together, in all and
of each role.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass, replace
from operator import attrgetter

from extender.core.ledger.budgets import DisruptionBudgets
from extender.core.ledger.claims import Claims, Owner, SlotOf
from extender.core.ledger.preemptions import Preemptions
from extender.core.ledger.quotas import Quotas
from extender.core.limits import Limits
from extender.core.workload.slots import Stage
from extender.core.workload.workload import Workload
from policies.model import EvictionTerms, GroupKey, Pod, Victim
from policies.model.eviction import together
from policies.preemption.candidates import Candidate, Held, Unit
from policies.steps import AT_ONCE, Steps, batched

_AT_ONCE = 16
"""Workloads that are looked at in one step."""
_ALL = ""
"""Key that stands for all roles together: no role has this name."""


def surplus_of(workload: Workload, going: Collection[str]) -> list[Pod]:
    """The surplus: members of the highest ranks that may all be evicted together, beside the pods in ``going``.

    Empty for a job, Volcano's included, which would count an evicted pod as a failure. Empty also for a gang whose
    owner would restart all of it.
    """
    made_by_job = workload.job is not None or (workload.podsets is not None and workload.group is not None)
    if made_by_job or workload.planned_minimum is None:
        return []
    left = _margins(workload, going)
    if left[_ALL] <= 0 or any(pod.group is not None and pod.group.restarts for pod in workload.bound):
        return []
    pods = list[Pod]()
    for pod in sorted(workload.bound, key=attrgetter("rank"), reverse=True):
        parts = _parts_of(workload, pod)
        if pod.stamp is not None and pod.uid not in going and all(left[podset] > 0 for podset in parts):
            left.subtract(parts)
            pods.append(pod)
    return pods


def runs_without(workload: Workload, going: Collection[str]) -> bool:
    """Whether the workload still has enough members once these pods are gone."""
    return all(margin >= 0 for margin in _margins(workload, going).values())


def gang_of(pods: Mapping[str, Pod], victim: Victim) -> GroupKey:
    """The gang of a victim, or of the pod that it names; for a pod without a gang the pod's own name."""
    pod = pods.get(victim.pod) if victim.pod else None
    return victim.key if pod is None or pod.group_key is None else pod.group_key


def _margins(workload: Workload, going: Collection[str]) -> Counter[str]:
    """How many members are bound beyond the minimum, without ``going``: in all, and of each role that has a minimum."""
    slots = workload.members.slots
    left = Counter({_ALL: slots.reached(Stage.BOUND) - (workload.planned_minimum or 0)})
    left.update({role: slots.of_role(Stage.BOUND, role) - least for role, least in workload.minima})
    for pod in workload.bound:
        if pod.uid in going:
            left.subtract(_parts_of(workload, pod))
    return left


def _parts_of(workload: Workload, pod: Pod) -> list[str]:
    role = workload.members.slots.roles.get(pod.identity)
    return [_ALL, role] if role is not None and role in dict(workload.minima) else [_ALL]


SYSTEM_CRITICAL = 2_000_000_000
"""The priority of system-cluster-critical, from which on Kubernetes itself evicts no pod for room."""


Concerns = Callable[[int, str], bool]
"""Whether a candidate of that priority, in the ClusterQueue of that name or in none, may be evicted at all."""


@dataclass(eq=False)
class Candidates:
    """Finds the workloads and pods that may be evicted."""

    _schedulers: tuple[str, ...]
    _limits: Limits
    _pods: Mapping[str, Pod]
    _workloads: Mapping[GroupKey, Workload]
    _claims: Claims
    _quotas: Quotas
    _preemptions: Preemptions
    _budgets: DisruptionBudgets

    def find(self, concerns: Concerns, wall: float, *, related: bool) -> Steps[list[tuple[Candidate, Victim]]]:
        """The candidates that ``concerns`` admits: each as the search takes it, and as a reservation names it.

        ``related``: the preemptor has affinity to other pods, or anti-affinity. ``wall``: now, in seconds since the
        epoch; the clocks of replicas differ.
        """
        queue_of, going = self._quotas.members.queue_of, self._preemptions.pods
        units: list[tuple[Candidate, Victim]] = []
        for workloads in batched(list(self._workloads.values()), _AT_ONCE):
            for workload in workloads:
                if concerns(workload.priority, queue_of(workload.key) or "") and self.is_evictable(workload):
                    spare = surplus_of(workload, going)
                    apart = going.union(pod.uid for pod in spare)
                    units.append((self._whole(workload, wall, apart, related=related), named(workload)))
                    for turn, pod in enumerate(spare):
                        candidate = self._surplus(workload, pod, turn, wall, related=related)
                        units.append((candidate, named_alone(pod)))
            yield 10 * _AT_ONCE
        for pods in batched(list(self._pods.values())):
            alone = (pod for pod in pods if concerns(pod.priority, "") and self.is_evictable_alone(pod))
            units += [(self._alone(pod, wall, related=related), named_alone(pod)) for pod in alone]
            yield AT_ONCE
        return units

    def protected(self) -> Steps[list[Candidate]]:
        """Whole workloads with room that no preemptor may evict, each with the reason and what rules of queues ask."""
        kept: list[Candidate] = []
        for workloads in batched(list(self._workloads.values()), _AT_ONCE):
            for workload in workloads:
                if workload.members.bound and (why := self.why_protected(workload)):
                    name, queue = str(workload.key), self._quotas.members.queue_of(workload.key) or ""
                    priority, created = workload.priority, workload.created
                    kept.append(Candidate(name, Unit.WORKLOAD, priority, created, queue=queue, protected=why))
            yield 2 * _AT_ONCE
        return kept

    def restartable(self, wall: float) -> Iterator[tuple[Workload, Candidate]]:
        """The running workloads whose authors let them be restarted elsewhere, unless something protects them now."""
        going = self._preemptions.pods
        for workload in self._workloads.values():
            terms = self.terms_of(workload)
            if terms.restartable and self.is_evictable(workload):
                candidate = self._whole(workload, wall, going, related=True)
                began = wall if candidate.started is None else candidate.started
                if not candidate.protected and began + (terms.min_runtime_s or 0.0) <= wall:
                    yield workload, candidate

    def is_evictable(self, workload: Workload) -> bool:
        """Whether it runs as a whole by Muster's Bindings, no write is under way, and it is in no eviction."""
        return not self.why_protected(workload)

    def why_protected(self, workload: Workload) -> str:
        """Why no preemptor may evict the workload; empty if one may."""
        members, job = workload.members, workload.job
        preemptions = self._preemptions
        if workload.priority >= SYSTEM_CRITICAL:
            return "has a priority of the system"
        if not members.bound or not (workload.has_bound_quorum or workload.incomplete):
            return "does not run as a whole"
        if workload.releasing or workload.outcome_unknown or members.holds or workload.paused:
            return "is being started or stopped"
        if workload.key in preemptions.under_way or workload.key in preemptions.leaving:
            return "has to do with another eviction"
        unstamped = "" in members.declared.releases and any(pod.stamp is None for pod in workload.bound)
        if unstamped or not all(name in self._schedulers for name in members.declared.schedulers):
            return "was not started by Muster"
        return "" if job is None or _stops(workload) else "has a job that cannot be suspended now"

    def is_evictable_alone(self, pod: Pod) -> bool:
        """Whether the pod runs without a gang, has a scheduler of Muster, and is not made again on the same node."""
        if pod.group_key is not None or pod.native_group or not (pod.node and pod.live):
            return False
        if pod.priority >= SYSTEM_CRITICAL or pod.stays or pod.scheduler not in self._schedulers:
            return False
        return pod.uid not in self._preemptions.pods

    def budgets_left(self) -> Mapping[str, int]:
        """How many more pods each PodDisruptionBudget lets be evicted, beside victims that have yet to go."""
        left = self._budgets.left
        for victim in (victim for each in self._preemptions.under_way.values() for victim in each.left) if left else ():
            left.subtract(dict(self._budgets.counts(self.going(victim))))
        return left

    def going(self, victim: Victim) -> Collection[Pod]:
        """The pods of a victim that are to be evicted; none for a surplus pod whose gang is evicted as a whole."""
        if victim.pod:
            pod = self._pods.get(victim.pod)
            return () if pod is None or pod.group_key in self._preemptions.leaving else [pod]
        workload = self._workloads.get(victim.key)
        return () if workload is None else evicted(workload)

    def _whole(self, workload: Workload, wall: float, apart: Collection[str], *, related: bool) -> Candidate:
        """The workload as one candidate, without the pods ``apart``: its surplus, and pods that are being evicted."""
        slots, uses = workload.members.slots, self._quotas.uses.of(workload.key)
        owners: list[Owner] = [member.uid for member in workload.members if member.uid not in apart]
        owners += [SlotOf(workload.key, slot) for slot in slots.planned]
        owners += [SlotOf(workload.key, slot) for slot in workload.reserved]
        claims = [claim for owner in owners if (claim := self._claims.get(owner)) is not None]
        pods, terms = [pod for pod in workload.bound if pod.uid not in apart], self.terms_of(workload)
        began = [pod.stamp.at for pod in workload.bound if pod.stamp is not None and pod.stamp.at]
        usage = self._quotas.uses.total(workload.key)
        for use in (uses[owner] for owner in uses if owner in apart):
            usage.subtract(use.usage)
        return Candidate(
            str(workload.key),
            Unit.WORKLOAD,
            workload.priority,
            workload.created,
            tuple(Held(claim.node, claim.requests) for claim in claims),
            min(wall, *began) if began else min(wall, workload.created),
            pods=tuple(pod for pod in pods if related or pod.constraints),
            queue=self._quotas.members.queue_of(workload.key) or "",
            usage=usage,
            past=self._quotas.past_of(workload.key),
            checkpointed=terms.checkpointed,
            evictions=self.evictions_of(workload, wall),
            min_runtime_s=terms.min_runtime_s,
            budgets=self._budgets.counts(pod for pod in evicted(workload) if pod.uid not in apart),
            protected=self._unclear(workload) or self._budgets.bars(evicted(workload)),
            queue_priority=self._queue_priority(workload),
        )

    def _surplus(self, workload: Workload, pod: Pod, turn: int, wall: float, *, related: bool) -> Candidate:
        use, alone = self._quotas.uses.of(workload.key).get(pod.uid), self._alone(pod, wall, related=related)
        return replace(
            alone,
            unit=Unit.SURPLUS,
            workload=str(workload.key),
            turn=turn,
            priority=workload.priority,
            created=workload.created,
            started=wall if pod.stamp is None else min(wall, pod.stamp.at or workload.created),
            queue=self._quotas.members.queue_of(workload.key) or "",
            usage={} if use is None else use.usage,
            past=self._quotas.past_of(workload.key),
            min_runtime_s=self.terms_of(workload).min_runtime_s,
            protected=self._unclear(workload) or alone.protected,
            queue_priority=self._queue_priority(workload),
        )

    def _unclear(self, workload: Workload) -> str:
        """Why the workload is protected if its queue contradicts itself; else empty.

        What it borrows is unknown then.
        """
        queue = self._quotas.queue_of(workload.key)
        return (
            f"is in {queue.title}, which contradicts itself" if queue and self._quotas.queues.is_unclear(queue) else ""
        )

    def _queue_priority(self, workload: Workload) -> int:
        queue = self._quotas.queue_of(workload.key)
        return 0 if queue is None else queue.priority

    def _alone(self, pod: Pod, wall: float, *, related: bool) -> Candidate:
        claim = self._claims.get(pod.uid)
        held = () if claim is None else (Held(claim.node, claim.requests),)
        related_pods = (pod,) if related or pod.constraints else ()
        began = min(wall, pod.created)
        terms = self._within(pod.eviction)
        return Candidate(
            f"pod {pod}",
            Unit.POD,
            pod.priority,
            pod.created,
            held,
            began,
            terms.checkpointed,
            pods=related_pods,
            evictions=len(self._preemptions.evictions.recent(named_alone(pod), None, wall)),
            min_runtime_s=terms.min_runtime_s,
            budgets=self._budgets.counts((pod,)),
            protected=self._budgets.bars((pod,)),
        )

    def evictions_of(self, workload: Workload, wall: float) -> int:
        """How often the workload was evicted in the last hour."""
        job = None if workload.job is None else workload.job.seen
        return len(self._preemptions.evictions.recent(Victim(workload.key), job, wall))

    def terms_of(self, workload: Workload) -> EvictionTerms:
        """The declared terms of its eviction, by its job and its pods."""
        eviction_terms = [pod.eviction for pod in workload.bound]
        return self._within(
            together(eviction_terms if workload.job is None else [workload.job.seen.eviction, *eviction_terms])
        )

    def _within(self, terms: EvictionTerms) -> EvictionTerms:
        """Cap the user's minimum runtime at the configured limit."""
        most = self._limits.most_min_runtime_s
        return terms if terms.min_runtime_s is None else terms._replace(min_runtime_s=min(terms.min_runtime_s, most))


def evicted(workload: Workload) -> list[Pod]:
    """Pods that are evicted through the Eviction API; none of a job, which is suspended instead."""
    return [] if workload.job is not None else [pod for pod in workload.bound if pod.stamp is not None]


def _stops(workload: Workload) -> bool:
    """Whether the workload's job can be suspended now."""
    job = workload.job
    if job is None or job.plan is None or job.seen.bare:
        return False
    return not (job.writing or job.stop or job.over or job.seen.finished)


def named(workload: Workload) -> Victim:
    """The workload as a reservation names it."""
    return Victim(workload.key, "", tuple(sorted(filter(None, workload.members.declared.releases))))


def named_alone(pod: Pod) -> Victim:
    """A pod that is evicted alone, as a reservation names it."""
    return Victim(GroupKey(pod.namespace, pod.name), pod.uid)
