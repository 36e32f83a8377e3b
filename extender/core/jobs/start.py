"""What is written on a job that is started: the plan, and the flavors of its podsets with what their pods tolerate."""

from __future__ import annotations

from collections.abc import Mapping

from extender.core.effects import StartJob
from extender.core.workload import Workload
from policies.model import Job, LetGo, PodSets, SlotKey


def start_of(
    workload: Workload, job: Job, podsets: PodSets, planned: Mapping[SlotKey, str], let_go: LetGo | None = None
) -> StartJob:
    """Of a job whose slots are promised their nodes, as ``planned``, or which is ``let_go`` without any. ``podsets``:
    what will come of it."""
    flavoring = workload.flavoring
    nodes = {
        one.name: tuple(planned.get(one.slot(index), "") for index in range(one.count)) for one in job.podsets.podsets
    }
    flavors = {str(part): dict(one.flavors) for part, one in flavoring.items() if one.flavors}
    tolerations = {str(part): one.tolerations for part, one in flavoring.items() if one.tolerations}
    if let_go is None:
        return StartJob(job, nodes, podsets.first_wave, flavors, tolerations)
    # Who makes nodes has to make those of its flavors. Nodes of a plan have these labels anyway.
    labels = {str(part): one.labels for part, one in flavoring.items() if one.labels}
    return StartJob(job, {}, podsets.first_wave, flavors, tolerations, let_go, labels)
