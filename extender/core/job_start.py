"""What is written on a job that is started: the plan, and the flavors of its podsets with what their pods tolerate."""

from __future__ import annotations

from extender.core.effects import StartJob
from extender.core.workload import Workload
from policies.model import Job, PodSets


def start_of(workload: Workload, job: Job, podsets: PodSets) -> StartJob:
    """Of a job whose slots are promised their nodes. ``podsets``: what will come of it."""
    planned, flavoring = workload.members.slots.planned, workload.flavoring
    nodes = {
        one.name: tuple(planned.get(one.slot(index), "") for index in range(one.count)) for one in job.podsets.podsets
    }
    flavors = {str(part): dict(one.flavors) for part, one in flavoring.items() if one.flavors}
    tolerations = {str(part): one.tolerations for part, one in flavoring.items() if one.tolerations}
    return StartJob(job, nodes, podsets.first_wave, flavors, tolerations)
