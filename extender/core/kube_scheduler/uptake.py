"""How long kube-scheduler may take to take a placement up, and what is said when that was too long."""

from __future__ import annotations

from extender.core.kube_scheduler.kube_queue import KubeQueue
from extender.core.member import Stage, Step
from extender.core.workload import Workload
from policies.words import many

_LONGER = "raise httpTimeout of kube-scheduler's entry with bindVerb and bind_timeout_s of Muster's settings"


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
    """Whether kube-scheduler has yet to come to some of its pods, for all that is known: it takes others that were
    before them."""
    waiting = [member.pod for member in workload.members.placed.values() if not member.pod.node and not member.hold]
    return bool(waiting) and not workload.retries.words and all(map(queue.has_yet_to_try, waiting))


def too_slow(workload: Workload, lacking: int) -> str:
    """The pods of a job are created too slowly: so many do not exist."""
    pods = many(len(workload.members.slots.templates), "pod")
    return (
        f"{lacking} of {pods} did not exist when kube-scheduler gave up the binds of the others: "
        f"{_LONGER} (muster doctor says to what), or --kube-api-qps of kube-controller-manager"
    )


def too_few_held(workload: Workload, *, cut_short: bool) -> str:
    """Some have not reached bind. ``cut_short``: kube-scheduler waits no longer for the answers, but Muster would."""
    members, held = workload.members, workload.share(Stage.ARRIVED)
    missing = sorted(one.pod.name for one in members.placed.values() if one.hold is None)[:3]
    why = f"only {held} reached bind before the deadline; missing: {', '.join(missing)}"
    in_rounds = bool(members.steps[Step.LATER]) and cut_short
    return why + (f"; they are let in one after the other: {_LONGER}" if in_rounds else "")
