"""Why a suspended job cannot be planned yet, whatever room there is, and which of its pods are planned."""

from __future__ import annotations

from extender.core.causes import Held, InvalidJob, NamespaceTerminating, NameTaken, PodsLeft, Stopping, TakingOff
from extender.core.ledger.claims import Claims
from extender.core.ledger.store import Namespaces, Process
from extender.core.workload.job import JobRecord
from extender.core.workload.workload import Workload
from policies.model import Job, Node, Pod, PodSets


def why_not_plannable(
    claims: Claims, namespaces: Namespaces, workload: Workload, record: JobRecord
) -> Stopping | NamespaceTerminating | NameTaken | Held | InvalidJob | None:
    """Why the job cannot be planned yet; None if it waits for nodes alone."""
    job = record.seen
    if not job.stopped:
        there = [member.pod for member in workload.members if not member.pod.terminal]
        return Stopping(PodsLeft(None, _silent(claims, there)))
    if job.marked:
        return Stopping(TakingOff(record.refused))
    if left := _left_over(claims, workload, job):
        return Stopping(PodsLeft(len(left), _silent(claims, left)))
    if (why := namespaces.ending(workload.key.namespace)) is not None:
        return why
    if record.name_conflict is not None:
        return record.name_conflict
    if job.held:
        return Held()
    return InvalidJob(job.problem) if job.problem else None


def silent_node(claims: Claims, workload: Workload) -> str:
    """The silent node whose pods keep a job from being planned; empty if the pods will be deleted anyway."""
    if (record := workload.job) is None:
        return ""
    if not record.seen.stopped:
        return _silent(claims, [member.pod for member in workload.members if not member.pod.terminal])
    return "" if record.seen.marked else _silent(claims, _left_over(claims, workload, record.seen))


def _silent(claims: Claims, left: list[Pod]) -> str:
    """The node of these pods if all of them are on silent nodes, so that no kubelet reports them; else empty."""
    nodes = [node for pod in left if (node := _node_of(claims, pod))]
    silent = next((node.name for node in nodes if not node.ready), "")
    return "" if any(node.ready for node in nodes) else silent


def _left_over(claims: Claims, workload: Workload, job: Job) -> list[Pod]:
    """Pods of an earlier start that have not gone.

    Deleted pods on a node that is gone or silent may be shown indefinitely, and are not awaited. They are if new pods
    would need their names, even failed ones, since the pod collector writes to those before it removes them.
    """
    pods = [
        member.pod for member in workload.members if not member.pod.terminal or (job.same_names and member.pod.deleting)
    ]
    return [pod for pod in pods if pod.live or job.same_names or ((node := _node_of(claims, pod)) and node.ready)]


def _node_of(claims: Claims, pod: Pod) -> Node | None:
    return claims.nodes.get(pod.node or "")


def starts_now(process: Process, workload: Workload, record: JobRecord) -> bool:
    """Whether a job is started now: its plan is committed, or enough of it has nodes and none is promised."""
    members = workload.members
    has_nodes = process.recovered and not (members.placed or members.slots.planned)
    return workload.has_promised_quorum and (record.start_due or has_nodes)


def podsets_to_create(workload: Workload, job: Job) -> PodSets:
    """The podsets that the job will make when it starts, without slots that have ended well if it resumes."""
    if not job.resumes:
        return job.podsets
    ours = (member.pod for member in workload.members if member.pod.owner == job.uid)
    return job.podsets.without({pod.identity for pod in ours if pod.phase == "Succeeded" and not pod.deleting})
