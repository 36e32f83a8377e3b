"""What is said of preemption: to the victims, why they go."""

from __future__ import annotations

from typing import assert_never

from extender.core.gang.surplus import gang_of
from extender.core.state import State
from extender.core.workload import Workload
from policies.model import Victim
from policies.model.queues import ClusterQueue
from policies.preemption.allowed import Why


def preempted_by(state: State, workload: Workload, victim: Victim, rule: Why) -> str:
    """What a victim is told: for whom it goes, and by which rule of whose queue."""
    return f"preempted by {workload.key}, {_why(state, workload, victim, rule)}"


def _why(state: State, workload: Workload, victim: Victim, rule: Why) -> str:
    ours, theirs = state.quotas.queue_of(workload.key), state.quotas.queue_of(gang_of(state, victim))
    if ours is None or theirs is None or rule is Why.PRIORITY:
        return f"which has priority {workload.priority} and lacked room"
    match rule:
        case Why.IN_QUEUE:
            return f"which comes before it in {ours.title} (withinClusterQueue: {ours.preemption.within})"
        case Why.RECLAIM:
            return f"{_lacked(state, ours, theirs)} (reclaimWithinCohort: {ours.preemption.reclaim})"
        case Why.WHILE_BORROWING:
            return f"{_lacked(state, ours, theirs)} (borrowWithinCohort: {ours.preemption.borrow})"
        case Why.FAIR:
            return f"{_lacked(state, ours, theirs)}, and has the smaller share (fair sharing)"
        case _:
            assert_never(rule)


def _lacked(state: State, ours: ClusterQueue, theirs: ClusterQueue) -> str:
    if ours.open:
        return f"whose {ours.title} deserves what {theirs.title} uses beyond what that deserves"
    if ours.cohort == theirs.cohort:
        return f"whose ClusterQueue {ours.name} needs what {theirs.name} has borrowed in cohort {theirs.cohort}"
    # Of cohorts in each other: where both borrow.
    paths = (_path(state, one) for one in (ours, theirs))
    return "whose ClusterQueue {} needs what {} has borrowed".format(*paths)


def _path(state: State, queue: ClusterQueue) -> str:
    """Its cohorts from the root down, and itself."""
    node = state.quotas.queues.picture.tree.queues[queue.name]
    return "/".join(reversed([one.name for one in node.path()]))
