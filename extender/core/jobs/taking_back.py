"""When the plan of a workload is lost: whether its job has to be started over for that."""

from __future__ import annotations

from extender.core.member import Stage
from extender.core.workload import Workload
from policies.model import SlotKey


def take_job_back(workload: Workload, why: str) -> None:
    """What its pods are made of says the plan: it has to be suspended to be planned anew. One that runs goes on if only
    pods that it can do without, which are planned one by one, lose their nodes, and so does one that makes no more."""
    job = workload.job
    if job is None or job.plan is None:
        return
    members = workload.members
    promised = (*(member.pod.identity for member in members.placed.values()), *members.slots.planned)
    led = [slot for slot in promised if slot in job.plan]
    if not job.closed and (not workload.whole or any(needs(workload, slot) for slot in led)):
        job.take_back(why)
    else:
        job.let_go(led)


def end_start(workload: Workload, why: str) -> None:
    """It is bound in part. Others may have started its job again, without a plan, before the pods of that start had
    gone: it is suspended all the same."""
    job = workload.job
    if job is not None and job.plan is None and not job.seen.suspended:
        job.take_back(why)
    else:
        take_job_back(workload, why)


def needs(workload: Workload, slot: SlotKey) -> bool:
    """Whether too few pods are on nodes: in all, or of the slot's podset."""
    podsets, reached = workload.podsets.podsets if workload.podsets is not None else (), workload.members.slots.reached
    some = (one for one in podsets if slot[0] == one.prefix)
    return not workload.whole or any(reached(Stage.BOUND, one.prefix) < one.least for one in some)
