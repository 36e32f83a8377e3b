"""Who may give way to a workload of a higher priority: whole workloads that run, and pods of no gang."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from extender.core.claims import Owner, SlotOf
from extender.core.state import State
from extender.core.workload import Workload
from policies.model import GroupKey, Pod, Victim
from policies.preemption.candidates import Candidate, Held, Unit

SYSTEM_CRITICAL = 2_000_000_000
"""The priority of system-cluster-critical, from which on Kubernetes itself evicts nobody for room."""


Concerns = Callable[[int, str], bool]
"""Whether somebody of that priority, in the ClusterQueue of that name or in none, may have to give way at all."""


def candidates(state: State, concerns: Concerns, wall: float, *, related: bool) -> Iterator[tuple[Candidate, Victim]]:
    """All whom that concerns, as the search wants them, and as a reservation names them. ``related``: the preemptor
    demands something of other pods. ``wall``: now, in seconds since the epoch; clocks of replicas differ."""
    queue_of = state.quotas.members.queue_of
    for workload in state.workloads.values():
        if concerns(workload.priority, queue_of(workload.key) or "") and is_evictable(state, workload):
            yield _whole(state, workload, wall, related=related), named(workload)
    for pod in state.pods.values():
        if concerns(pod.priority, "") and is_evictable_alone(state, pod):
            yield _alone(state, pod, wall, related=related), Victim(GroupKey(pod.namespace, pod.name), pod.uid)


def is_evictable(state: State, workload: Workload) -> bool:
    """It runs as a whole, by our Bindings, nothing is on its way, and nobody gives way to it or makes it give way."""
    members, job = workload.members, workload.job
    preemptions = state.preemptions
    if workload.priority >= SYSTEM_CRITICAL or not members.bound or not workload.whole:
        return False
    if workload.releasing or workload.doubtful or members.holds or workload.paused:
        return False
    if workload.key in preemptions.under_way or workload.key in preemptions.leaving:
        return False
    if "" in members.said.releases and any(pod.stamp is None for pod in workload.bound):
        return False
    ours = all(name in state.schedulers for name in members.said.schedulers)
    return ours and (job is None or _stops(workload))


def is_evictable_alone(state: State, pod: Pod) -> bool:
    """A pod of no gang that runs, of a scheduler of ours, and that its maker does not make again on the same node."""
    if pod.group_key is not None or pod.native_group or not (pod.node and pod.live):
        return False
    if pod.priority >= SYSTEM_CRITICAL or pod.stays or pod.scheduler not in state.schedulers:
        return False
    return not state.preemptions.awaits(pod.uid)


def _stops(workload: Workload) -> bool:
    """Its job can be suspended now."""
    job = workload.job
    return job is not None and job.plan is not None and not (job.writing or job.stop or job.over or job.seen.finished)


def named(workload: Workload) -> Victim:
    """As a reservation names it."""
    return Victim(workload.key, "", tuple(sorted(filter(None, workload.members.said.releases))))


def _whole(state: State, workload: Workload, wall: float, *, related: bool) -> Candidate:
    slots = workload.members.slots
    owners: list[Owner] = [member.uid for member in workload.members]
    owners += [SlotOf(workload.key, slot) for slot in slots.planned]
    owners += [SlotOf(workload.key, slot) for slot in workload.reserved]
    claims = [claim for owner in owners if (claim := state.claims.get(owner)) is not None]
    pods = workload.bound
    began = [pod.stamp.at for pod in pods if pod.stamp is not None and pod.stamp.at]
    return Candidate(
        str(workload.key),
        Unit.WORKLOAD,
        workload.priority,
        workload.created,
        tuple(Held(claim.node, claim.requests) for claim in claims),
        min(wall, *began) if began else min(wall, workload.created),
        pods=tuple(pod for pod in pods if related or pod.constraints),
        queue=state.quotas.members.queue_of(workload.key) or "",
        usage=state.quotas.uses.total(workload.key),
        past=state.quotas.past_of(workload.key),
    )


def _alone(state: State, pod: Pod, wall: float, *, related: bool) -> Candidate:
    claim = state.claims.get(pod.uid)
    held = () if claim is None else (Held(claim.node, claim.requests),)
    some = (pod,) if related or pod.constraints else ()
    began = min(wall, pod.created)
    return Candidate(f"pod {pod}", Unit.POD, pod.priority, pod.created, held, began, pods=some)
