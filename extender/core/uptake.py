"""Whether the time runs in which kube-scheduler has to take a placement up."""

from __future__ import annotations

from extender.core.kube_queue import KubeQueue
from extender.core.member import Step
from extender.core.workload import Workload


def carrying_out(workload: Workload) -> bool:
    """Something that kube-scheduler needs before it can take the placement up is still to be written."""
    steps = workload.members.steps
    return bool(steps[Step.NOMINATING] or steps[Step.UNGATING])


def awaits_uptake(workload: Workload) -> bool:
    """Whether it is for kube-scheduler to take its placement up; what its gang waits for does not count.

    Nor do members in doubt: their room is not given back before the doubt ends.
    """
    members = workload.members
    for_others = members.holds or workload.releasing or carrying_out(workload) or workload.being_started
    return len(members.placed) > len(members.unknown) and not for_others


def is_still_queued(workload: Workload, queue: KubeQueue) -> bool:
    """Whether kube-scheduler has yet to come to its pods, for all that is known: it takes others that were before
    them."""
    waiting = [member.pod for member in workload.members.placed.values() if not member.pod.node]
    tried = workload.retries.words or any(pod.refusal is not None for pod in waiting)
    return not tried and not any(map(queue.has_passed, waiting))
