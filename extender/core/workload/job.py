"""The record of the job that makes a workload's pods, and of how far it was started or suspended."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field, replace
from enum import Enum
from math import inf
from typing import NamedTuple

from extender.core.causes import NameTaken
from extender.core.workload.additions import Addition, Source
from policies.model import GroupKey, Job, Pod, PodSets, SlotKey


class JobWrite(Enum):
    """The acts on a job. Each is one write to the job's object."""

    START = "start"
    SUSPEND = "suspend"
    CLEAN = "clean"


class Due(NamedTuple):
    """An act that is decided, and the reason for it. A start is due until it is written, a suspension until it is seen.

    ``preemptor``: the workload that the job is suspended for, if that is why.
    """

    act: JobWrite
    why: str
    preemptor: GroupKey | None = None


@dataclass(slots=True)
class JobRecord:
    """The state of a job in the core.

    ``seen``: the job as last seen.
    ``due``: the act that is decided. It waits while another write is under way, or while the job pauses after a failed
    write. A start is due until it is asked for, a suspension until the watch shows it.
    ``writing``: the write that was asked for and that the watch has yet to show.
    ``written``: whether the API server has accepted that write, or may have.
    ``until``: when the watch must have shown it.
    ``plan``: the nodes that it was started with, by slot; None while it is not admitted.
    ``planned``: the podsets that it has nodes for.
    ``started``: the podsets of its start.
    ``failures``: failed writes in a row.
    ``refused``: the API server's answer to the last failed write.
    ``not_before``: no write is sent before this instant.
    ``stopped_at``: when its last plan was dropped because of a suspension, 0 if never.
    ``stopped_for``: why Muster suspended it.
    ``next_pod_deadline``: the deadline for its next pod, or for nodes if it was started without a plan.
    ``last_pod_at``: when its last pod appeared.
    ``lost``: nodes with pods of it that are gone or not ready, and since when.
    ``ran``: whether it had enough bound pods since it was admitted.
    ``over``: whether pods of it have succeeded, in the slots ``done``, and no other pod is there.
    ``name_conflict``: why the name of its gang belongs to another job, or to pods.
    ``admitted_by``: the queue that it named when it was admitted.
    ``unproven``: whether the plan on it may be forged, and not of a start by Muster.
    ``began_suspended``: whether another client has unsuspended it since it was first seen.
    ``exposed_pods``: pods of a job that was started without a plan, which an autoscaler sees.
    ``starts``: how often it was admitted.
    ``tries_again``: whether its pods are tried once more because that deadline was missed.
    ``full_until``: ``next_pod_deadline`` is put off until then while no other workload waits.
    ``fewest``: the fewest of its pods that have been lacking since its start.
    """

    seen: Job
    due: Due | None = None
    writing: JobWrite | None = None
    written: bool = False
    until: float = 0.0
    plan: Mapping[SlotKey, str] | None = None
    planned: PodSets | None = None
    started: PodSets | None = None
    failures: int = 0
    refused: str = ""
    not_before: float = 0.0
    stopped_at: float = 0.0
    stopped_for: str = ""
    next_pod_deadline: float = 0.0
    tries_again: bool = False
    last_pod_at: float = 0.0
    lost: dict[str, float] = field(default_factory=dict)
    ran: bool = False
    over: bool = False
    done: frozenset[SlotKey] = frozenset()
    name_conflict: NameTaken | None = None
    admitted_by: str = ""
    unproven: bool = True
    began_suspended: bool = False
    exposed_pods: frozenset[str] = frozenset()
    starts: int = 0
    full_until: float = 0.0
    fewest: float = inf
    additions: Mapping[str, Addition] = field(default_factory=dict)
    """Known additions of the API server to its pods, by shape."""

    @property
    def stop(self) -> str:
        """Why it is to be suspended again; empty while it is not."""
        return self.due.why if self.due is not None and self.due.act is JobWrite.SUSPEND else ""

    @property
    def start_due(self) -> bool:
        """Whether its start is decided and has yet to be asked for."""
        return self.due is not None and self.due.act is JobWrite.START

    @property
    def plannable(self) -> bool:
        """Whether a plan for it can be carried out: it is suspended, has no pods, and no write is on its way."""
        seen = self.seen
        idle = seen.managed and seen.suspended and seen.stopped and not seen.bare
        return idle and not (seen.finished or seen.marked or self.writing)

    @property
    def waits(self) -> bool:
        """Whether it waits for Muster to start it, and not for its author."""
        seen = self.seen
        return seen.managed and seen.suspended and not (seen.finished or seen.held or seen.problem)

    @property
    def queue(self) -> str:
        """The queue whose quota it uses. A queue that it names while it is admitted counts from its next start on."""
        return self.admitted_by or self.seen.queue

    @property
    def runs_by_plan(self) -> bool:
        """Whether it was started with the plan that is written on it."""
        seen = self.seen
        return seen.plan is not None and not (seen.suspended or seen.finished or self.name_conflict)

    @property
    def awaits_nodes(self) -> bool:
        """Whether it was started without a plan, or is being so, and has no nodes yet."""
        node_wait = not self.seen.suspended and self.seen.node_wait is not None
        ours = not (self.seen.finished or self.name_conflict or self.stop)
        return self.plan is None and ours and (node_wait or self.writing is JobWrite.START)

    def asks_otherwise(self, job: Job) -> bool:
        """Whether the job, as shown now, asks for other pods than before, or names another queue."""
        return _quota_basis(self.seen) != _quota_basis(job)

    def update(self, job: Job) -> None:
        """Record the job as the watch shows it."""
        taken_in = self.seen.bare != job.bare
        if self.awaits_nodes and not taken_in and self.asks_otherwise(job):
            self.decide_stop("it asks for other pods, or names another queue, than when it was started without nodes")
        if self.seen.suspended and not job.suspended:
            self.unproven = self.began_suspended = self.writing is not JobWrite.START
        before, self.seen = self.seen.podsets, job
        if self.plan is not None and before != job.podsets:
            # If the job is made larger again, slots that it lost are planned like any new ones.
            slots = {podset.slot(at) for podset in job.podsets.podsets for at in range(podset.count)}
            self.drop_slots(self.plan.keys() - slots)
        shown = {
            JobWrite.START: job.marked
            and not (job.in_steps and job.suspended)
            and (self.plan is None or job.node_wait is None),
            JobWrite.SUSPEND: job.suspended,
            JobWrite.CLEAN: not job.marked,
        }
        if self.writing is JobWrite.START and job.plan is not None and job.podsets.by_slot(job.plan) != self.plan:
            self.dismiss()  # Muster has started it by another plan before a restart: that plan counts
        if self.writing is not None and shown[self.writing]:
            self.end_write()

    def set_name_conflict(self, taken: NameTaken | None) -> None:
        """Set why the name of its gang belongs to another; None: the name is its own."""
        self.name_conflict = taken

    def write(self, what: JobWrite) -> None:
        """Record that this write was asked for."""
        self.writing, self.written, self.until = what, False, 0.0

    def wrote(self, until: float) -> None:
        """Record that the write was made, or may have been. The watch has to show it by the instant ``until``."""
        self.written, self.until, self.refused = True, until, ""

    def end_write(self) -> None:
        """Record that the write is under way no longer: it was shown, was refused, or is given up."""
        self.writing, self.written, self.until = None, False, 0.0

    def revoke_write(self) -> bool:
        """Revoke a write that was never sent. A start becomes due again, with the nodes that it is planned for.

        Returns False if the caller has to do more: the plan of the start is gone, or the job was unsuspended since.
        """
        starts = self.writing is JobWrite.START
        if starts and (self.plan is None or not self.seen.suspended):
            return False
        self.end_write()
        if starts:
            self.dismiss()
            self.decide_start("its start was not sent")
        return True

    def fail(self, why: str, not_before: float) -> None:
        """Record that the write was refused. No other is sent before the instant ``not_before``."""
        self.failures += 1
        self.refused, self.not_before = why, not_before
        self.end_write()

    def admit(self, plan: Mapping[SlotKey, str], *, ran: bool = False) -> None:
        """Record that the job runs by this plan from now on. ``ran``: whether it had enough bound pods before."""
        planned = self._planned_by(plan)
        self.plan, self.planned, self.started = dict(plan), planned, planned
        self.admitted_by = self.queue
        self.due, self.failures, self.ran, self.exposed_pods = None, 0, ran, frozenset()
        self.fewest = inf
        self.starts += 1
        self.reopen()

    def run(self) -> None:
        """Record that it has enough bound pods."""
        self.ran = True

    def prove(self) -> None:
        """Record that the plan on it is checked: it is not forged, or the job is suspended for it."""
        self.unproven = False

    @property
    def quorum(self) -> int:
        """How many pods have to start together, by what it was started with; fewer if it was made smaller since."""
        return min(self.started.first_wave if self.started is not None else 0, self.seen.podsets.first_wave)

    @property
    def source(self) -> Source:
        """The key of its last start: UID and number. Pods of one start show the same additions of the API server."""
        return self.seen.uid, self.starts

    @property
    def falls_short(self) -> bool:
        """Whether dropped slots leave a podset with fewer nodes than it needs, by its start and by the present job."""
        if self.started is None or self.planned is None:
            return False
        planned = {podset.prefix: podset.size for podset in self.planned.podsets}
        wanted = {podset.prefix: podset.least for podset in self.seen.podsets.podsets}
        return any(
            planned.get(podset.prefix, 0) < min(podset.least, wanted.get(podset.prefix, 0))
            for podset in self.started.podsets
        )

    @property
    def closed(self) -> bool:
        """Whether no pod of it is made any more: if it were suspended now, it would complete without its live pods."""
        return 0 < self.seen.closed >= len(self.plan or {})

    def drop_slots(self, slots: Collection[SlotKey]) -> None:
        """Drop the nodes of these slots. They are planned like slots that a larger job asks for."""
        self.plan = {slot: node for slot, node in (self.plan or {}).items() if slot not in slots}
        self.planned = self._planned_by(self.plan)

    def restore_slots(self, slots: Mapping[SlotKey, str]) -> None:
        """Take dropped slots into the plan again, with these nodes."""
        self.plan = {**(self.plan or {}), **slots}
        self.planned = self._planned_by(self.plan)

    def move(self, slot: SlotKey, node: str) -> None:
        """Set the node of a slot that has got a pod of another slot; an empty node changes nothing."""
        if node:
            self.plan = {**(self.plan or {}), slot: node}

    def exchange(self, slot: SlotKey, other: SlotKey) -> None:
        """Exchange the nodes of two planned slots."""
        plan = dict(self.plan or {})
        plan[slot], plan[other] = plan[other], plan[slot]
        self.plan = plan

    def _planned_by(self, plan: Mapping[SlotKey, str]) -> PodSets:
        """The podsets of the job without slots that the plan has no node for. Those are planned pod by pod."""
        return PodSets(
            self.seen.key,
            tuple(
                replace(podset, left_out=frozenset(at for at in range(podset.count) if podset.slot(at) not in plan))
                for podset in self.seen.podsets.podsets
            ),
        )

    def owner_filter(self, owners: Collection[str]) -> str:
        """UID of the owner of its own pods, while it is admitted and its gang has pods of other owners, too.

        Else empty.
        """
        mixed = self.plan is not None and any(owner != self.seen.uid for owner in owners)
        return self.seen.uid if mixed else ""

    def steers(self, pod: Pod) -> bool:
        """Whether the pod was created with its node by the plan on the job, and has not been refused since."""
        return self.plan is not None and pod.identity in self.plan and not pod.gates and pod.refusal is None

    def deadlines(self, node_loss_s: float, now: float) -> Iterator[float]:
        """The instants at which it has to be looked at again."""
        if self.writing is not None:
            if self.written:
                yield self.until
            return
        if self.seen.bare:
            return  # Muster does nothing for a job that it left out, until it is taken in again
        if self.not_before:
            yield self.not_before
            return
        if self.next_pod_deadline:
            yield self.next_pod_deadline
        yield from (end for since in self.lost.values() if (end := since + node_loss_s) > now)

    def rest_is_over(self, now: float) -> bool:
        """Whether it may be written to. Ends a pause that is over."""
        if now < self.not_before:
            return False
        self.not_before = 0.0
        return True

    def end_stop(self, now: float) -> None:
        """End its start: the watch shows that Muster or another client has suspended it."""
        self.stopped_at, self.stopped_for = now, self.stop
        self.dismiss()

    def dismiss(self) -> None:
        """Drop the plan and all that belongs to its start."""
        self.plan, self.planned, self.started, self.due, self.next_pod_deadline = None, None, None, None, 0.0
        self.admitted_by = ""
        self.lost.clear()
        self.reopen()

    def end(self, done: Collection[SlotKey]) -> None:
        """Record that its pods have ended well, in these slots, and no other is there.

        Pods may be deleted before the job.
        """
        self.over, self.done, self.next_pod_deadline = True, self.done.union(done), 0.0
        self.lost.clear()

    def reopen(self) -> None:
        """Record that it is not over, or has a pod again."""
        self.over, self.done = False, frozenset()

    def decide_start(self, why: str) -> None:
        """Make its start due, unless it is to be suspended first."""
        if not self.stop:
            self.due = Due(JobWrite.START, why)

    def withdraw_start(self) -> None:
        """Drop a start that is due: its plan is gone, or another one is being committed."""
        if self.start_due:
            self.due = None

    def decide_stop(self, why: str, preemptor: GroupKey | None = None) -> None:
        """Make its suspension due, unless it is left out; the first reason stays."""
        if not self.seen.bare and not self.stop:
            self.due = Due(JobWrite.SUSPEND, why, preemptor)

    def withdraw_stop(self, preemptor: GroupKey) -> None:
        """Drop a suspension that is due for this preemptor."""
        if self.due is not None and self.due.preemptor == preemptor:
            self.due = None

    def expect(self, until: float, in_full: float = 0.0) -> None:
        """Set the deadline for its next pod, or for its nodes.

        ``in_full``: a later one while no other workload waits.
        """
        self.next_pod_deadline, self.full_until, self.tries_again = until, max(until, in_full), False

    def await_trial(self, until: float) -> None:
        """Put the deadline for its next pod off: its pods are tried once more before it is suspended."""
        self.next_pod_deadline, self.tries_again = until, True

    def bring_deadline_forward(self, until: float) -> None:
        """Bring the deadline for its next pod forward to ``until``.

        It can still be put off while no other workload waits.
        """
        self.next_pod_deadline = min(self.next_pod_deadline, until)

    def expose(self, uids: frozenset[str]) -> None:
        """Record which of its pods an autoscaler may see."""
        self.exposed_pods = uids

    def record_pod(self, now: float, lacking: int) -> bool:
        """Record that a pod has appeared and how many are ``lacking``. Returns whether fewer lack than ever in this
        start.

        A replacement does not make them fewer, so it gives the missing pods no more time.
        """
        self.last_pod_at = now
        fewer, self.fewest = lacking < self.fewest, lacking or inf
        return fewer

    def learn(self, additions: Mapping[str, Addition]) -> None:
        """Set the known additions of the API server to its pods, by shape."""
        self.additions = additions

    def lose(self, node: str, now: float) -> None:
        """Record that a node with pods of it is gone or not ready."""
        self.lost.setdefault(node, now)

    def regain(self, node: str) -> None:
        self.lost.pop(node, None)


def _quota_basis(job: Job) -> object:
    """The part of a job that its quota was given for: queue, templates and counts."""
    return job.queue, [(podset.template, podset.count) for podset in job.podsets.podsets]
