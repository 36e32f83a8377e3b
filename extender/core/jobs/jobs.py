"""Jobs are admitted whole: planned while they are suspended, and started by one write that contains the plan.

The pods are created for their nodes, and Muster writes to no pod. When the plan is lost, the job is suspended as a
whole, Muster's marks are removed from it, and it is planned again. No deadline ends a plan before the watch shows the
start, because the job could not be suspended before that.

A new leader reads the plan from the job itself. It does so, too, when a user suspends a job and starts it again before
its plan is removed, while its room is still free.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace

from extender.core.answers import JobWritten, Outcome, PodTried, Verdict
from extender.core.causes import Carrier, Forgotten, Held, NameTaken, Placed, QueueStopped, Refused, Rests, Stopping
from extender.core.effects import RevokedFor, TryPod
from extender.core.explain.facts import not_suspended
from extender.core.explain.reasons import text_of
from extender.core.explain.telling import Reporter
from extender.core.gate.revocations import Revocations
from extender.core.instants import pause_s
from extender.core.jobs.acts import JobActs
from extender.core.jobs.elastic import Elastic, Unplanned
from extender.core.jobs.start import podsets_to_create, starts_now, why_not_plannable
from extender.core.jobs.upkeep import Upkeep
from extender.core.ledger.claims import Claims
from extender.core.ledger.creation import Creation, FailedCreation, Trials
from extender.core.ledger.expected import ExpectedPods, present_first, uncreated
from extender.core.ledger.pending import Own, Pending, Starting
from extender.core.ledger.preemptions import Preemptions
from extender.core.ledger.quotas import Quotas
from extender.core.ledger.room import Room
from extender.core.ledger.store import Namespaces, Outbox, Process, Store
from extender.core.limits import Limits
from extender.core.workload.additions import TRIED, Additions, Source
from extender.core.workload.job import JobRecord, JobWrite
from extender.core.workload.names import Names, conflict_key, foreign_pods, is_over, name_conflict
from extender.core.workload.shape import Flavoring
from extender.core.workload.workload import Workload
from policies.model import GroupKey, Job, Pod, PodSet, PodSets


@dataclass(eq=False)
class JobNaming:
    """Decides which job has the name of a gang. Other jobs with that name wait as workloads of their own."""

    _limits: Limits
    _store: Store
    _preemptions: Preemptions
    _creation: Creation
    _failed_creation: FailedCreation
    _pending: Pending
    _expected: ExpectedPods

    def __post_init__(self) -> None:
        self._names = Names()

    def contested(self, key: GroupKey) -> bool:
        """Whether several jobs name that gang."""
        return len(self._names.jobs_of(key)) > 1

    def seen(self, job: Job, now: float) -> None:
        """Handle a job that the watch shows. One that Muster does not manage is forgotten."""
        # Any client can write this annotation. No job is started without a plan unless one of its flavors is elastic.
        if job.node_wait is not None and self._limits.elastic.flavors.isdisjoint(job.flavor_names):
            job = replace(job, node_wait=None)
        if not job.managed:
            return self.gone(job.key, job.uid, now, left_alone=True)
        if (former := self._names.predecessor(job)) is not None:
            self.gone(former.key, former.uid, now)
        self._names.add(job)
        if (holder := self._store.workloads.get(job.key)) and holder.job and holder.job.seen.uid == job.uid:
            self._follow(job.key, job, None)
        self.share(job.key, now)

    def gone(self, key: GroupKey, uid: str, now: float, *, left_alone: bool = False) -> None:
        """Handle a job that is gone. Its pods use the quota of its queue until they are gone, too.

        ``left_alone``: the job still exists, but Muster does not manage it.
        """
        if (job := self._names.remove(key, uid)) is not None:
            self._part(key, uid, now, "" if left_alone else job.queue)
            self._part(conflict_key(job), uid, now)
            self.share(key, now)

    def share(self, key: GroupKey, now: float) -> None:
        """Give the name of the gang to one job, or to pods that have it already.

        The others wait under their own keys.
        """
        names, workload = self._names, self._store.workloads.get(key)
        if not (jobs := names.jobs_of(key)):
            return
        record = workload.job if workload is not None else None
        bound = record is not None and (record.writing is not None or record.plan is not None)
        first = record.seen if record is not None and bound else names.first(key)
        pods = 0 if bound else foreign_pods(workload, first)
        for job in list(jobs):
            if job.uid == first.uid and not pods:
                self._part(conflict_key(job), job.uid, now)
                self._follow(key, job, None)
            elif len(jobs) > 1 or pods:
                self._part(key, job.uid, now)
                if is_over(job):
                    self._part(conflict_key(job), job.uid, now)
                else:
                    beside = replace(job, podsets=PodSets(conflict_key(job), ()))
                    self._follow(beside.key, beside, name_conflict(job, first, pods))

    def _follow(self, key: GroupKey, job: Job, taken: NameTaken | None) -> None:
        """Attach the job to the workload of that key. ``taken``: why it has to wait for the name of its gang."""
        workload = self._store.workloads.get(key) or self._store.add(key)
        known = workload.job
        if known is not None and known.seen == job and known.name_conflict == taken:
            return
        self._preemptions.note_edit(job.eviction if known is None else known.seen.eviction, job.eviction)
        if known is not None and (known.seen.uid != job.uid or known.asks_otherwise(job)):
            self._failed_creation.forget(key)  # the edit may fix what kept its pods from being created
        if known is not None and known.seen.uid == job.uid and known.seen.requeued != job.requeued:
            self._failed_creation.forget(key)
            workload.retries.forget()
        workload.follow_job(job, taken)
        self._expected.finish(workload)
        self._pending.wake(Own(workload.key, recompute=True))

    def _part(self, key: GroupKey, uid: str, now: float, queue: str = "") -> None:
        """Detach the job from the workload. Its pods stay in that ``queue``."""
        workload = self._store.workloads.get(key)
        if workload is None or workload.job is None or workload.job.seen.uid != uid:
            return
        self._expected.expect(workload, None)
        workload.reason_state.note(now, "its job is gone")
        workload.follow_job(None, left_in=queue)
        self._creation.forget(key)
        self._failed_creation.forget(key)
        self._store.mark_dirty(workload)


_SHOWN_S = 60.0
"""Within this time the watch shows a write that was done, even if the watch had to be reopened."""
_INHERITED_S = 5.0
"""A start that the earlier process was writing may be shown this long after a restart or the begin of a term."""
_UNFOUNDED = "the start that is written on it does not hold"


@dataclass(eq=False)
class Jobs:
    """Carries out the acts on jobs. ``settle`` is called first when a workload with a job is settled."""

    _limits: Limits
    _process: Process
    _store: Store
    _room: Room
    _outbox: Outbox
    _claims: Claims
    _quotas: Quotas
    _namespaces: Namespaces
    _creation: Creation
    _failed_creation: FailedCreation
    _trials: Trials
    _additions: Additions
    _pending: Pending
    _starting: Starting
    _reporter: Reporter
    _expected: ExpectedPods
    _revocations: Revocations
    _acts: JobActs
    _elastic: Elastic
    _unplanned: Unplanned
    upkeep: Upkeep
    naming: JobNaming

    def node_changed(self, node: str, now: float) -> None:
        """Record lost and regained pods of jobs: those on a silent node may be lost, those on a deleted node are."""
        known = self._claims.nodes.get(node)
        for _, claim in self._claims.on(node):
            workload = self._store.workloads.get(claim.workload) if claim.workload is not None else None
            if workload is None or workload.job is None:
                continue
            if known is not None and known.ready:
                workload.job.regain(node)
            elif workload.admitted:
                workload.job.lose(node, now - (self._limits.node_loss_s if known is None else 0.0))
            # A job that is not admitted may wait for pods of an earlier start to go from there.
            self._store.mark_dirty(workload)

    def written(self, event: JobWritten, now: float) -> None:
        """Handle the outcome of a write to a job. The watch shows its effect."""
        workload = self._store.workloads.get(event.key)
        record = workload.job if workload is not None else None
        if workload is None or record is None or record.seen.uid != event.uid or record.writing is None:
            return
        self._store.mark_dirty(workload)
        if event.outcome is Outcome.UNSENT and record.revoke_write():
            workload.bump_version()  # its nodes may have been revoked meanwhile: then it waits like any other
            self.upkeep.still_holds(workload, record, now)
            return
        if event.outcome in (Outcome.DONE, Outcome.UNKNOWN):
            done = event.outcome is Outcome.DONE
            record.wrote(now + (_SHOWN_S if done else self._limits.plan_s))
            if record.writing is JobWrite.START and record.plan is not None:
                self._expected.await_pods(record, now)
            return
        what, started = record.writing.value, record.writing is JobWrite.START
        record.fail(event.detail, now + pause_s(record.failures + 1, 1.0, self._limits.retry_max_s))
        workload.reason_state.note(now, f"could not {what} its job: {event.detail}")
        if (
            record.seen.suspended
            and (hindered := why_not_plannable(self._claims, self._namespaces, workload, record)) is not None
        ):
            self._reporter.explain(workload, hindered, now)
        elif record.stop:
            self._reporter.explain(workload, not_suspended(record), now)
        if started:
            record.dismiss()
            why = f"its job could not be started: {event.detail}"
            self._revocations.revoke(workload, why, now, RevokedFor.WRITE_FAILED, penalty=True)

    def slot_filled(self, workload: Workload, now: float) -> None:
        """Record that a pod has filled a slot, which gives the missing ones more time."""
        if workload.job is not None:
            self._creation.count_created(now)
            if not (lacking := uncreated(workload)):
                self._expected.cure_creation(workload)
            if workload.job.record_pod(now, lacking) and workload.job.plan is not None:
                self._expected.await_pods(workload.job, now)

    def created(self, workload: Workload, pod: Pod) -> None:
        """Learn from a new pod what its shape asks for beyond the template.

        Waiting jobs of the shape are planned with it.
        """
        record = workload.job
        if record is None or pod.node or not pod.live or (record.seen.flavors and not workload.flavoring):
            return  # without the flavors, demands that were written for them cannot be told from others
        podset = next(
            (podset for podset in record.seen.podsets.podsets if podset.prefix == f"{pod.owner}{pod.series}"), None
        )
        if podset is not None:
            self._learn(podset, pod, workload.flavoring.get(podset.name), record.source)

    def tried(self, event: PodTried, now: float) -> None:
        """Handle the end of a dry run, whose pod counts like a pod that was created."""
        verdict = event.verdict
        if event.pod is not None:
            podset = next(self._podsets_of(event.key, event.shape), None)
            if podset is not None:
                self._learn(podset, event.pod, None, TRIED)
            else:
                verdict = Verdict.UNANSWERED  # the job of the dry run is gone
        for key in self._trials.answered(event.shape, verdict, event.detail, now):
            if (waiting := self._store.workloads.get(key)) is not None:
                self._pending.wake(Own(waiting.key, recompute=True))

    def namespace_changed(self, namespace: str, now: float) -> None:
        """Forget the additions of the API server to pods of this namespace.

        Waiting jobs have their pods tried again.
        """
        self._trials.namespace_changed(namespace, now)
        for key, workload in self._store.workloads.items():
            if key.namespace != namespace or workload.job is None or not workload.job.waits:
                continue
            for podset in workload.job.seen.podsets.podsets:
                self._additions.forget(podset.shape)
            self._store.mark_dirty(workload)

    def follow_trials(self, now: float) -> None:
        """Ask for the dry runs that are due. Called after every event."""
        trials = self._trials
        if trials.idle or now < self._process.paused_until:
            return
        for key in trials.expired(now):
            if (waiting := self._store.workloads.get(key)) is not None:
                self._store.mark_dirty(waiting)
        for shape, keys in trials.due(now):
            if (try_pod := self._asked_with(shape, keys)) is None:
                trials.drop_shape(shape)
            else:
                self._outbox.append(try_pod)

    def _asked_with(self, shape: str, keys: Iterable[GroupKey]) -> TryPod | None:
        """The dry run, with the first of these jobs that has such pods, and lacks some or is being suspended."""
        for key in keys:
            workload = self._store.workloads.get(key)
            podset = next(self._podsets_of(key, shape), None)
            record = workload.job if workload is not None else None
            if podset is not None and record is not None and (record.waits or record.stop or record.tries_again):
                return TryPod(record.seen, podset.name, shape)
        return None

    def _podsets_of(self, key: GroupKey, shape: str) -> Iterator[PodSet]:
        """The podsets of this shape that the workload's job has."""
        workload = self._store.workloads.get(key)
        podsets = workload.job.seen.podsets.podsets if workload is not None and workload.job is not None else ()
        return (podset for podset in podsets if podset.shape == shape)

    def _learn(self, podset: PodSet, pod: Pod, flavoring: Flavoring | None, source: Source) -> None:
        if self._additions.learn(podset, pod, flavoring, source):
            self._replan(podset.shape)

    def _replan(self, shape: str) -> None:
        for key, workload in self._store.workloads.items():
            if any(self._podsets_of(key, shape)):
                self._store.mark_dirty(workload)

    def settle(self, workload: Workload, now: float) -> None:
        """Carry out the act on the job that is due, and set which pods its workload expects."""
        record = workload.job
        if record is not None and record.seen.finished:
            self._dismiss(workload, record)  # whatever comes of a write that is under way
        if record is None or record.seen.finished or self.naming.contested(workload.key):
            # The holder of the gang's name may have ended. Then its pods keep the gang without the job.
            self.naming.share(workload.key, now)
        if (record := workload.job) is None:
            return
        if record.writing is not None or not record.rest_is_over(now):
            self._meanwhile(workload, record, now)
            if not record.written or now < record.until:
                return self._count_uncreated(workload, record, now)
            record.end_write()
        if record.seen.finished:
            self._acts.clean(record)
        elif record.seen.suspended:
            if record.plan is not None or record.stop:
                self._end_stop(workload, record, now)
            record.expect(0.0)
            self._wait(workload, record, now)
        else:
            self.adopt(workload, now)
            if why := self._run(workload, record, now):
                self._stop(workload, record, why, now)
        return self._count_uncreated(workload, record, now)

    def _count_uncreated(self, workload: Workload, record: JobRecord, now: float) -> None:
        """Have other jobs wait until this one's pods are created, which may happen before the watch shows its start."""
        vacant = len(workload.members.slots.planned) if record.plan is not None else 0
        doubtful = self._failed_creation.on_probation(workload.key.namespace)
        self._creation.wait_for(workload.key, vacant, now, may_never_come=doubtful)

    def _meanwhile(self, workload: Workload, record: JobRecord, now: float) -> None:
        """Settle a job while a write to it is under way or its pause lasts.

        Its pods may be created, end and be deleted before the watch shows its start. Another client may start it with a
        plan that Muster has yet to remove.
        """
        self.adopt(workload, now)
        if record.plan is not None:
            self._note_end(workload, record)
        if record.writing is not JobWrite.SUSPEND:
            # A job that is being started stays as it was planned, even if it was edited since.
            self._expected.expect(workload, None if record.over else workload.podsets or record.planned)
            self.upkeep.promise_again(workload, record, now)

    def _stop(self, workload: Workload, record: JobRecord, why: str, now: float) -> None:
        """Suspend the job and revoke its promises. Bindings that are being written are left until they end."""
        if record.seen.bare:
            return
        record.decide_stop(why)
        workload.bump_version()
        self._acts.suspend(workload, record, why, now, self._elastic.rest(workload.key))
        if not workload.releasing:
            self._revocations.revoke(workload, why, now, RevokedFor.JOB_SUSPENDED, penalty=True)

    def _end_stop(self, workload: Workload, record: JobRecord, now: float) -> None:
        """End a start, since the watch shows that Muster or another client has suspended the job."""
        noted = bool(record.stop)  # the history has it since the suspension was asked for
        self._revocations.revoke(workload, "its job is suspended", now, RevokedFor.JOB_SUSPENDED, noted=noted)
        record.end_stop(now)
        self._expect_nothing(workload)

    def _dismiss(self, workload: Workload, record: JobRecord) -> None:
        """Drop the plan of a job that makes no more pods."""
        record.dismiss()
        self._expect_nothing(workload)

    def _expect_nothing(self, workload: Workload) -> None:
        self._expected.expect(workload, None)
        self._creation.forget(workload.key)

    def _wait(self, workload: Workload, record: JobRecord, now: float) -> None:
        job, why = record.seen, why_not_plannable(self._claims, self._namespaces, workload, record)
        self._room.unreserve_all(workload)  # no pod is replaced
        if foreign_pods(workload, job):
            self.naming.share(workload.key, now)
            return
        if why is not None:
            self._expected.expect(workload, None)
            self._reporter.explain(workload, why, now)
            if job.stopped:
                self._acts.clean(record)
            return
        stopping = isinstance(workload.reason_state.cause, Stopping)
        if record.stopped_for and stopping and now < workload.retries.not_before:
            why_not_yet = Rests(record.stopped_for)
            rests = Refused(why_not_yet) if workload.retries.resting else Forgotten(why_not_yet)
            self._reporter.explain(workload, rests, now, noted=True)
        podsets, planned = podsets_to_create(workload, job), bool(workload.members.slots.planned)
        recovered = self._process.recovered
        why_not = self._trials.why_unplannable(workload.key, podsets, now, planned=planned, recovered=recovered)
        if why_not is not None:
            self._expected.expect(workload, None)
            self._reporter.explain(workload, why_not, now)
            return
        self._expected.expect(workload, podsets)
        if starts_now(self._process, workload, record):
            self._acts.start(workload, record, workload.members.slots.planned, now)

    def _run(self, workload: Workload, record: JobRecord, now: float) -> str:
        """Settle a started job: write a plan on it if it has none, and keep the nodes of its slots.

        Returns why it has to be suspended; empty while it goes on.
        """
        if unfounded := self._disproved(workload, record, now) or self._quotas.route(workload).drained:
            return unfounded
        if record.plan is None and (failed := self._unplanned.failure(workload, record, now)):
            return failed
        nodes = None if record.seen.bare else self._unplanned.nodes(workload, record)
        if nodes and self.upkeep.still_holds(workload, record, now):
            self._acts.start(workload, record, nodes, now)
            self._expected.await_pods(record, now)
            return ""
        if record.plan is None:
            return ""
        self._note_end(workload, record)
        self._expected.cede_dropped_slots(workload, record)
        self._expected.expect(workload, self._expected.still_planned(workload, record))
        self._expected.fill_vacant_slots(workload, record)
        self.upkeep.promise_again(workload, record, now)
        if record.over:
            return ""
        if workload.release.complete or not uncreated(workload):
            record.expect(0.0)
        elif not record.next_pod_deadline:
            self._expected.await_pods(record, now)
        return record.stop or self.upkeep.failure(workload, record, now)

    @staticmethod
    def _note_end(workload: Workload, record: JobRecord) -> None:
        """Record that the job is over if pods of it have ended well and no other of its own is there.

        Its controller will report that, or make failed pods again.
        """
        members, own = workload.members, record.seen.uid
        if workload.release.complete:
            record.run()
        if own in members.declared.owners:
            record.reopen()
        elif record.ran:
            ended = [member.pod for member in members if member.pod.phase == "Succeeded" and member.pod.owner == own]
            done = {pod.identity for pod in ended} | members.slots.done
            if done and len(ended) >= sum(podset.completions for podset in record.seen.podsets.podsets):
                record.end(done)

    def adopt(self, workload: Workload, now: float) -> None:
        """Take over the plan on a job that Muster started before a restart, as far as possible."""
        record = workload.job
        if record is None or record.plan is not None or record.stop or not record.runs_by_plan:
            return
        self._expected.expect(workload, None)  # this drops another plan, too
        self._quotas.restore(workload)
        job, plan = record.seen, dict(record.seen.plan or {})
        for name in (podset.name for podset in job.podsets.podsets if not podset.indexed):
            there = (pod.node for pod in workload.bound if pod.series == name)
            plan[name] = present_first(plan.get(name, ()), there)
        nodes = job.podsets.by_slot(plan)
        # A plan has no node for the slot of a pod that had ended well before.
        ended = (member.pod.identity for member in workload.members if member.pod.phase == "Succeeded")
        ran = job.closed > 0 or not nodes.keys().isdisjoint(ended) or not job.done.isdisjoint(nodes)
        record.admit(nodes, ran=ran)
        planned = Counter(slot[0] for slot in nodes)
        short = podsets_to_create(workload, job).short(lambda podset: planned[podset.prefix], together=False)
        if short is not None and not workload.members.bound:
            record.decide_stop("the plan that is written on its job is not one for its podsets")
        for node in dict.fromkeys(pod.node for pod in workload.bound if pod.node):
            self.node_changed(node, now)
        self._expected.await_pods(record, now)
        self._expected.expect(workload, record.planned)
        self._starting.begin(workload.key, list(workload.members.slots.templates.values()))
        self._reporter.explain(workload, Placed(0, Carrier.STARTED_JOB), now)

    def _disproved(self, workload: Workload, record: JobRecord, now: float) -> str:
        """Why the start that is written on the job is not believed; empty if it is.

        Without the admission policies any client may have written it. So it counts only as far as quota, its queue, a
        hold and the workloads before it allow. Pods that Muster bound prove a start. A running job gives back slots
        beyond its quota.
        """
        quotas, job = self._quotas, record.seen
        if not record.unproven or job.bare or not self._process.recovered or quotas.queues.stale:
            return ""  # it is proven, or checked once everything is known and counted
        record.prove()
        if job.plan is None and job.node_wait is None:
            return ""
        if record.plan is not None:
            self.upkeep.promise_again(workload, record, now)
        quotas.count_unseen(workload)
        lacks = quotas.overdrawn(workload.key)
        own = (member.pod for member in workload.members if member.pod.owner == job.uid)
        if record.ran or any(pod.stamp is not None for pod in own):
            there = {pod.identity for pod in workload.live}
            if lacks and workload.release.complete and record.plan is not None:
                record.drop_slots([slot for slot in record.plan if slot not in there])
            return ""
        why = quotas.route(workload).why or (Held() if job.held else None)
        # A restart hides when it was started: since then others may have arrived, and a hold or a stop of its queue.
        inherited = not record.began_suspended or now < self._process.synced_at + _INHERITED_S
        if inherited and isinstance(why, Held | QueueStopped):
            why = None  # a hold or a stop prevents a start, and ends none
        first = text_of(why) if why is not None else lacks or ("" if inherited else self._passed_by(workload))
        return first and f"{_UNFOUNDED}: {first}"

    def _passed_by(self, workload: Workload) -> str:
        """A text that says that waiting workloads come before this one; empty if none does."""
        rank = -workload.priority, workload.created
        others = (self._store.workloads.get(key) for key in self._pending.keys if key != workload.key)
        before = any(other is not None and (-other.priority, other.created) <= rank for other in others)
        return "others that wait come before it" if before else ""
