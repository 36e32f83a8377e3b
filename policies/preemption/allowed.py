"""Decide which candidates a request may evict, and what protects running workloads."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from functools import partial
from typing import assert_never

from policies.model.queues import ClusterQueue, Evicts
from policies.preemption.candidates import Candidate, Limits, Request
from policies.statement import Statement

TOO_YOUNG = "has run for less than its minimum"


@dataclass(frozen=True, slots=True)
class Allowed:
    """The candidates that may be evicted. ``protected``: how many others may not, by reason."""

    candidates: Sequence[Candidate]
    protected: Counter[str]


class Why(StrEnum):
    """The rule by which a candidate is evicted."""

    PRIORITY = "LowerPriority"
    """Without queues: the candidate's priority is lower."""
    IN_QUEUE = "InClusterQueue"
    RECLAIM = "InCohortReclamation"
    WHILE_BORROWING = "InCohortReclaimWhileBorrowing"
    FAIR = "InCohortFairSharing"


def allowed(
    request: Request, candidates: Iterable[Candidate], limits: Limits, queues: Mapping[str, ClusterQueue]
) -> Allowed:
    """Check each candidate on its own.

    ``Budgets`` checks rules that depend on other victims. So does ``policies.preemption.reclaim``, if there are queues.
    ``queues``: those in the cohorts of the request's queue, by name.
    """
    eligible: list[Candidate] = []
    protected: Counter[str] = Counter()
    surplus: dict[str, list[tuple[Candidate, str]]] = {}  # by workload; other candidates have an empty name
    for candidate in candidates:
        if why := forbids(request, candidate, queues) or protects(candidate, limits):
            protected[why] += 1
            surplus.setdefault(candidate.workload, []).append((candidate, why))
        else:
            eligible.append(candidate)
    together = []
    for victim in eligible:
        stays = surplus.get(victim.name, ())
        # It is evicted together with its surplus. A surplus that is only too young to go alone may go with all its
        # pods.
        all_of_it = _with(victim, [other for other, _ in stays]) if stays else victim
        why = next((why for _, why in stays if why != TOO_YOUNG), "") or (protects(all_of_it, limits) if stays else "")
        if why:
            protected[why] += 1
        else:
            together.append(all_of_it)
    return Allowed(together, protected)


def _with(whole: Candidate, surplus: Sequence[Candidate]) -> Candidate:
    """Combine the rest of a workload with these parts of its surplus."""
    usage, budgets = Counter(whole.usage), Counter(dict(whole.budgets))
    claims, pods = whole.claims, whole.pods
    for candidate in surplus:
        usage.update(candidate.usage)
        budgets.update(dict(candidate.budgets))
        claims, pods = claims + candidate.claims, pods + candidate.pods
    return replace(whole, claims=claims, pods=pods, usage=usage, budgets=tuple(sorted(budgets.items())))


def forbids(request: Request, candidate: Candidate, queues: Mapping[str, ClusterQueue]) -> str:
    """Explain why the candidate may not be evicted for this request; empty if it may."""
    if not request.preempts:
        return "preemptionPolicy of the preemptor is Never"
    if request.queue not in queues or not candidate.queue:
        return "" if candidate.priority < request.priority else "priority is not lower"
    rules = queues[request.queue].preemption
    if candidate.queue == request.queue:
        field, policy = "withinClusterQueue", rules.within
    elif (theirs := queues.get(candidate.queue)) is None:
        return "its queue is not in the cohort"
    elif not theirs.reclaimable:
        return "its queue is not reclaimable"
    else:
        field, policy = "reclaimWithinCohort", rules.reclaim
    return "" if _lets(policy, request, candidate) else f"{field} of queue {request.queue} is {policy}"


def _lets(policy: Evicts, request: Request, candidate: Candidate) -> bool:
    match policy:
        case Evicts.NEVER:
            return False
        case Evicts.ANY:
            return True
        case Evicts.LOWER:
            return candidate.priority < request.priority
        case Evicts.LOWER_OR_NEWER:
            newer = candidate.priority == request.priority and candidate.created > request.since
            return candidate.priority < request.priority or newer
        case _:
            assert_never(policy)


def protects(candidate: Candidate, limits: Limits) -> str:
    """Explain why no request may evict the candidate now; empty if nothing protects it."""
    if candidate.protected:
        return candidate.protected
    least = limits.min_runtime_s if candidate.min_runtime_s is None else candidate.min_runtime_s
    # Computed in the same way as the instant for which others wait: a difference of times may be rounded down.
    if least > 0 and candidate.started is not None and limits.now < candidate.started + least:
        return TOO_YOUNG
    if limits.evictions_per_hour is not None and candidate.evictions >= limits.evictions_per_hour:
        return "was evicted too often in the last hour"
    short = (name for name, count in candidate.budgets if count > limits.budgets.get(name, count))
    return f"PodDisruptionBudget {name} does not let all of its pods go" if (name := next(short, "")) else ""


class Budgets:
    """The PodDisruptionBudgets, as candidates go. Without queues no other rule depends on other victims."""

    def __init__(self, statement: Statement, limits: Limits) -> None:
        self._statement = statement
        self._left = dict(limits.budgets)

    def may(self, candidate: Candidate) -> bool:
        """Whether the candidate may be evicted in addition to the victims so far."""
        return all(count <= self._left.get(name, count) for name, count in candidate.budgets)

    def evict(self, candidate: Candidate) -> None:
        """Count the candidate's pods as evicted."""
        self._count(candidate, 1)
        self._statement.on_drop(partial(self._count, candidate, -1))

    def restore(self, candidate: Candidate) -> None:
        """Undo ``evict`` in any order."""
        self._count(candidate, -1)
        self._statement.on_drop(partial(self._count, candidate, 1))

    def enough(self) -> bool:
        """Always true: only nodes are needed."""
        return True

    def helps(self, candidate: Candidate) -> bool:  # noqa: ARG002
        """Always false: only the room on nodes is of use."""
        return False

    def lack(self) -> str:
        """Always empty: only nodes are lacking."""
        return ""

    def why(self, gone: Sequence[Candidate]) -> Mapping[str, Why] | None:
        """The rule for each victim, by name; None if they may not go together."""
        if any(left < 0 for left in self._left.values()):
            return None
        return {candidate.name: Why.PRIORITY for candidate in gone}

    def _count(self, candidate: Candidate, sign: int) -> None:
        for name, count in candidate.budgets:
            if name in self._left:
                self._left[name] -= sign * count
