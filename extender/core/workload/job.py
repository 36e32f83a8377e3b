"""What is remembered of the job that a workload's pods come from, and how far it was started or stopped."""

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
    """The acts on a job. Each is one write to it."""

    START = "start"
    SUSPEND = "suspend"
    CLEAN = "clean"


class Due(NamedTuple):
    """An act that is decided and has yet to be seen (to suspend) or to be asked for (to start), and what for.

    ``preemptor``: the workload that it is suspended for, if that is why.
    """

    act: JobWrite
    why: str
    preemptor: GroupKey | None = None


@dataclass(slots=True)
class JobRecord:
    """The state of a job in the core.

    ``seen``: the job as last seen.
    ``due``: the act that is decided. It waits while another write is under way, or while the job rests after one that
    failed. A start is due until it is asked for, a suspension until the watch shows it.
    ``writing``: the write that was asked for and that the watch has yet to show. ``written``: it was done, and
    ``until`` is when that is no longer believed.
    ``plan``: the nodes that it was started with, by slot; None while it is not admitted. ``planned``: the podsets that
    it has nodes for. ``started``: those of its start.
    ``failures``: writes in a row that failed. ``refused``: what the API server said to the last one. Nothing is written
    before ``not_before``.
    ``stopped_at``: when its last plan was dropped because it was suspended, 0 if never. ``stopped_for``: why Muster
    suspended it.
    ``coming_until``: the deadline for the next of its pods, or for nodes where it was started without a plan.
    ``came_at``: when its last pod came.
    ``lost``: nodes with pods of it that are gone or not ready, and since when.
    ``ran``: it was whole since it was admitted.
    ``over``: pods of it have succeeded, in the slots ``done``, and no other pod is there.
    ``taken``: why the name of its gang is another's.
    ``admitted_by``: the queue that it named when it was admitted.
    ``unproven``: what stands on it may be forged, and not of a start of ours. ``began_suspended``: another client has
    unsuspended it since it is known.
    ``shown``: pods of a job that was started without a plan, which an autoscaler sees.
    ``starts``: how often it was admitted.
    ``full_until``: until then ``coming_until`` is put off while no other workload waits.
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
    coming_until: float = 0.0
    came_at: float = 0.0
    lost: dict[str, float] = field(default_factory=dict)
    ran: bool = False
    over: bool = False
    done: frozenset[SlotKey] = frozenset()
    taken: NameTaken | None = None
    admitted_by: str = ""
    unproven: bool = True
    began_suspended: bool = False
    shown: frozenset[str] = frozenset()
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
        """Whether its start is decided, and yet to be asked for."""
        return self.due is not None and self.due.act is JobWrite.START

    @property
    def plannable(self) -> bool:
        """It waits, and nothing is on its way: a plan for it can be carried out."""
        seen = self.seen
        idle = seen.managed and seen.suspended and seen.stopped and not seen.bare
        return idle and not (seen.finished or seen.marked or self.writing)

    @property
    def waits(self) -> bool:
        """For Muster to start it, and not for its author."""
        seen = self.seen
        return seen.managed and seen.suspended and not (seen.finished or seen.held or seen.problem)

    @property
    def queue(self) -> str:
        """The queue whose quota it uses. What the job names while it is admitted counts from its next start on."""
        return self.admitted_by or self.seen.queue

    @property
    def runs_by_plan(self) -> bool:
        """It was started with the plan that is written on it."""
        seen = self.seen
        return seen.plan is not None and not (seen.suspended or seen.finished or self.taken)

    @property
    def awaits_nodes(self) -> bool:
        """It was let go without a plan, or is being so, and has none yet."""
        let_go = not self.seen.suspended and self.seen.let_go is not None
        ours = not (self.seen.finished or self.taken or self.stop)
        return self.plan is None and ours and (let_go or self.writing is JobWrite.START)

    def asks_otherwise(self, job: Job) -> bool:
        """Return whether the job, as shown now, asks for other pods than before, or names another queue."""
        return _asked(self.seen) != _asked(job)

    def see(self, job: Job) -> None:
        """The watch shows it."""
        taken_in = self.seen.bare != job.bare
        if self.awaits_nodes and not taken_in and self.asks_otherwise(job):
            self.decide_stop("it asks for other pods, or names another queue, than when it was let go without a plan")
        if self.seen.suspended and not job.suspended:
            self.unproven = self.began_suspended = self.writing is not JobWrite.START
        before, self.seen = self.seen.podsets, job
        if self.plan is not None and before != job.podsets:
            # A slot that a smaller job has lost is planned like any new one if the job is made larger again.
            slots = {one.slot(at) for one in job.podsets.podsets for at in range(one.count)}
            self.let_go(self.plan.keys() - slots)
        shown = {
            JobWrite.START: job.marked
            and not (job.in_steps and job.suspended)
            and (self.plan is None or job.let_go is None),
            JobWrite.SUSPEND: job.suspended,
            JobWrite.CLEAN: not job.marked,
        }
        if self.writing is JobWrite.START and job.plan is not None and job.podsets.by_slot(job.plan) != self.plan:
            self.dismiss()  # an earlier life of ours has started it by another plan: that one counts
        if self.writing is not None and shown[self.writing]:
            self.end_write()

    def part(self, taken: NameTaken | None) -> None:
        """Others have the name of its gang; None: nobody has."""
        self.taken = taken

    def write(self, what: JobWrite) -> None:
        """It is asked for."""
        self.writing, self.written, self.until = what, False, 0.0

    def wrote(self, until: float) -> None:
        """It is done, or may be: the watch has so long to show it."""
        self.written, self.until, self.refused = True, until, ""

    def end_write(self) -> None:
        """It is shown, was refused, or is given up."""
        self.writing, self.written, self.until = None, False, 0.0

    def take_write_back(self) -> bool:
        """Take back a write that was not sent, though nothing is wrong with the job. A start is due again, with the
        nodes that it is planned for. Returns whether that is all there is to do."""
        starts = self.writing is JobWrite.START
        if starts and (self.plan is None or not self.seen.suspended):
            return False
        self.end_write()
        if starts:
            self.dismiss()
            self.decide_start("its start was not sent")
        return True

    def fail(self, why: str, not_before: float) -> None:
        """The write was refused."""
        self.failures += 1
        self.refused, self.not_before = why, not_before
        self.end_write()

    def admit(self, plan: Mapping[SlotKey, str]) -> None:
        """It runs by this plan from now on."""
        planned = self._planned_by(plan)
        self.plan, self.planned, self.started = dict(plan), planned, planned
        self.admitted_by = self.queue
        self.due, self.failures, self.ran, self.shown = None, 0, False, frozenset()
        self.fewest = inf
        self.starts += 1
        self.go_on()

    @property
    def quorum(self) -> int:
        """How many have to start together at least, by what it was started with: less if it was made smaller since."""
        return min(self.started.first_wave if self.started is not None else 0, self.seen.podsets.first_wave)

    @property
    def source(self) -> Source:
        """Name the last start, whose pods tell what the API server adds."""
        return self.seen.uid, self.starts

    @property
    def falls_short(self) -> bool:
        """Whether so many slots were let go that too few have a node, by what it was started with or asks for now."""
        if self.started is None or self.planned is None:
            return False
        planned = {one.prefix: one.size for one in self.planned.podsets}
        wanted = {one.prefix: one.least for one in self.seen.podsets.podsets}
        return any(
            planned.get(one.prefix, 0) < min(one.least, wanted.get(one.prefix, 0)) for one in self.started.podsets
        )

    @property
    def closed(self) -> bool:
        """No pod of it is made any more: suspended, it would be complete without those that run or wait."""
        return 0 < self.seen.closed >= len(self.plan or {})

    def let_go(self, slots: Collection[SlotKey]) -> None:
        """Their nodes are kept for them no longer: they are planned like what a larger job asks for."""
        self.plan = {slot: node for slot, node in (self.plan or {}).items() if slot not in slots}
        self.planned = self._planned_by(self.plan)

    def move(self, slot: SlotKey, node: str) -> None:
        """A pod of another slot has come to this one; empty: it has no node yet."""
        if node:
            self.plan = {**(self.plan or {}), slot: node}

    def exchange(self, slot: SlotKey, other: SlotKey) -> None:
        """Each of these planned slots has the node of the other one."""
        plan = dict(self.plan or {})
        plan[slot], plan[other] = plan[other], plan[slot]
        self.plan = plan

    def _planned_by(self, plan: Mapping[SlotKey, str]) -> PodSets:
        """What a larger job asks for beside its plan is planned pod by pod."""
        return PodSets(
            self.seen.key,
            tuple(
                replace(one, left_out=frozenset(at for at in range(one.count) if one.slot(at) not in plan))
                for one in self.seen.podsets.podsets
            ),
        )

    def maker(self, owners: Collection[str]) -> str:
        """While it is admitted and its gang has pods of other owners, too: the owner of its own. Else empty."""
        mixed = self.plan is not None and any(owner != self.seen.uid for owner in owners)
        return self.seen.uid if mixed else ""

    def leads(self, pod: Pod) -> bool:
        """Whether it was created led to its node, by the plan on the job, and nobody has refused it since."""
        return self.plan is not None and pod.identity in self.plan and not pod.gates and pod.refusal is None

    def deadlines(self, node_loss_s: float, now: float) -> Iterator[float]:
        """When it has to be looked at again."""
        if self.writing is not None:
            if self.written:
                yield self.until
            return
        if self.seen.bare:
            return  # nothing is done for one that is left out: it is looked at when it is taken in
        if self.not_before:
            yield self.not_before
            return
        if self.coming_until:
            yield self.coming_until
        yield from (end for since in self.lost.values() if (end := since + node_loss_s) > now)

    def rest_is_over(self, now: float) -> bool:
        """Whether it may be written to."""
        if now < self.not_before:
            return False
        self.not_before = 0.0
        return True

    def end_stop(self, now: float) -> None:
        """End its start: the watch shows that Muster or another client has suspended it."""
        self.stopped_at, self.stopped_for = now, self.stop
        self.dismiss()

    def dismiss(self) -> None:
        """No plan is in force any more."""
        self.plan, self.planned, self.started, self.due, self.coming_until = None, None, None, None, 0.0
        self.admitted_by = ""
        self.lost.clear()
        self.go_on()

    def end(self, done: Collection[SlotKey]) -> None:
        """Pods of these slots have ended well and no other is there. Their objects may go before the job's."""
        self.over, self.done, self.coming_until = True, self.done.union(done), 0.0
        self.lost.clear()

    def go_on(self) -> None:
        """It is not over, or a pod has come again."""
        self.over, self.done = False, frozenset()

    def decide_start(self, why: str) -> None:
        """Have it started, unless it is to be suspended first."""
        if not self.stop:
            self.due = Due(JobWrite.START, why)

    def withdraw_start(self) -> None:
        """Have it started no more: its plan is gone, or another one is being committed."""
        if self.start_due:
            self.due = None

    def decide_stop(self, why: str, preemptor: GroupKey | None = None) -> None:
        """Have it suspended, unless it is left out; the first reason stays."""
        if not self.seen.bare and not self.stop:
            self.due = Due(JobWrite.SUSPEND, why, preemptor)

    def withdraw_stop(self, preemptor: GroupKey) -> None:
        """Let it run on if it is to be suspended for this workload."""
        if self.due is not None and self.due.preemptor == preemptor:
            self.due = None

    def expect(self, until: float, in_full: float = 0.0) -> None:
        """The next of its pods, or its nodes, have to come by then. ``in_full``: or by then, while nobody waits."""
        self.coming_until, self.full_until = until, max(until, in_full)

    def hurry(self, until: float) -> None:
        """The next of its pods has to come by then, unless nobody else waits."""
        self.coming_until = min(self.coming_until, until)

    def show(self, uids: frozenset[str]) -> None:
        """These pods are shown to whoever makes nodes."""
        self.shown = uids

    def come(self, now: float, lacking: int) -> bool:
        """A pod of it has come, and so many lack. Returns whether they are fewer than ever since its start: a pod that
        replaces another one gives those that lack no more time."""
        self.came_at = now
        fewer, self.fewest = lacking < self.fewest, lacking or inf
        return fewer

    def learn(self, additions: Mapping[str, Addition]) -> None:
        """The API server adds this to its pods."""
        self.additions = additions

    def lose(self, node: str, now: float) -> None:
        """Pods of it are on a node that is gone or not ready."""
        self.lost.setdefault(node, now)

    def regain(self, node: str) -> None:
        self.lost.pop(node, None)


def _asked(job: Job) -> object:
    """For what it has its quota."""
    return job.queue, [(one.template, one.count) for one in job.podsets.podsets]
