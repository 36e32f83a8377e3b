"""``spec.preemption`` of a ClusterQueue: whom its workloads may evict."""

from __future__ import annotations

from collections.abc import Sequence

from extender.kube.queues.objects import BorrowSpec, PreemptionSpec
from extender.kube.reading.plain import quoted
from policies.model.queues import Evicts, Preemption

_WHERE = "spec.preemption"
_WITHIN = (Evicts.NEVER, Evicts.LOWER, Evicts.LOWER_OR_NEWER)
_RECLAIM = (Evicts.NEVER, Evicts.LOWER, Evicts.ANY)
_BORROW = (Evicts.NEVER, Evicts.LOWER)


def preemption_from(spec: PreemptionSpec | None, problems: list[str]) -> Preemption:
    """Whatever is wrong is added to ``problems``. The values are those that Kueue's CRD allows."""
    if spec is None:
        return Preemption()

    def one_of(field: str, said: str | None, known: Sequence[Evicts]) -> Evicts:
        if said and said not in known:
            problems.append(f"{_WHERE}.{field} is {quoted(said)}; it must be one of {', '.join(known)}")
        return Evicts(said) if said and said in known else Evicts.NEVER

    borrow = spec.borrow_within_cohort or BorrowSpec()
    found = Preemption(
        one_of("withinClusterQueue", spec.within_cluster_queue, _WITHIN),
        one_of("reclaimWithinCohort", spec.reclaim_within_cohort, _RECLAIM),
        one_of("borrowWithinCohort.policy", borrow.policy, _BORROW),
        borrow.max_priority_threshold,
    )
    if found.reclaim is Evicts.NEVER and found.borrow is not Evicts.NEVER:
        problems.append(f"{_WHERE}.borrowWithinCohort.policy is {found.borrow}, and reclaimWithinCohort is Never")
    return found
