"""Until when the bind requests of a gang are held: kube-scheduler gives each up at an instant of its own."""

from __future__ import annotations

from math import inf

from extender.core.gang.expected import uncreated
from extender.core.kube_scheduler.kube_queue import carrying_out
from extender.core.limits import Limits
from extender.core.workload import Workload


def deadline(workload: Workload, limits: Limits) -> float:
    """The instant by which posting has to start, so that it ends before the first held request expires."""
    needed_s = limits.post_margin_s + limits.post_member_s * len(workload.members.placed)
    return min(workload.members.holds.first_to_expire() - needed_s, patience(workload, limits))


def patience(workload: Workload, limits: Limits) -> float:
    """The instant until which those that are held wait for the others, as long as kube-scheduler waits for them."""
    holds, group = workload.members.holds, workload.group
    if (workload.job is not None and uncreated(workload)) or carrying_out(workload):
        return inf  # its pods are still being created, or told their nodes: that has a limit of its own
    began = max(holds.began(), 0.0 if workload.job is None else workload.job.came_at)
    hold_s = limits.hold_s if group is None or group.timeout_s is None else min(limits.hold_s, group.timeout_s)
    return began + hold_s


def is_late(workload: Workload, limits: Limits, now: float) -> bool:
    """Whether something is held that cannot wait any longer."""
    return bool(workload.members.holds) and now >= deadline(workload, limits)
