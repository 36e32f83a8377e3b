"""Bugs in the admission of jobs: how the core reads them, which writes it requests, and what is sent."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Any

import pytest

from extender.core import lifecycle
from extender.core.answers import JobWritten, Outcome, PodTried, Verdict
from extender.core.effects import CleanJob, Effect, JobEffect, StartJob, SuspendJob
from extender.core.events import Event, JobSeen, PodGone, PodSeen
from extender.core.gate.revocations import revoke_job_plan
from extender.core.jobs.jobs import Jobs
from extender.core.jobs.upkeep import Upkeep
from extender.core.ledger.creation import Creation
from extender.core.ledger.kube_scheduler import KubeQueue
from extender.core.ledger.pending import Starting
from extender.core.ledger.quotas import Quotas
from extender.core.preemption.preempt import Preempting
from extender.core.workload import additions
from extender.core.workload.additions import Additions, PodDemand
from extender.core.workload.job import JobRecord
from extender.core.workload.members import Member, Members, WhyFinishedCounts
from extender.core.workload.shape import Flavoring
from extender.core.workload.slots import Slots
from extender.core.workload.workload import Workload
from extender.runtime.budget import Lane
from extender.runtime.driver import JobWrites
from extender.runtime.requests import OK, ApiCall, Response
from policies.model import Pod, PodSet, PodSets, Topology
from tests.simulation.plants.boundary import Boundary, answers
from tests.simulation.plants.mutants import Core, asks, hears

# Events.


@hears
def plans_not_read_after_a_restart(event: Event, core: Core) -> Iterable[Event]:
    """A job that was started by an earlier life seems to be started by others."""
    if isinstance(event, JobSeen) and not core.notes.get(event.job.uid) and event.job.plan is not None:
        event = JobSeen(replace(event.job, plan=None))
    yield event


@hears
def names_of_pods_do_not_matter(event: Event, core: Core) -> Iterable[Event]:
    """A job is started beside pods on a silent node whose names its next pods have."""
    yield JobSeen(replace(event.job, same_names=False)) if isinstance(event, JobSeen) else event


@hears
def stopped_when_it_is_suspended(event: Event, core: Core) -> Iterable[Event]:
    """The pods that its controller has yet to delete are not waited for."""
    if isinstance(event, JobSeen) and event.job.suspended:
        event = JobSeen(replace(event.job, stopped=True))
    yield event


@hears
def held_jobs_do_not_wait(event: Event, core: Core) -> Iterable[Event]:
    yield JobSeen(replace(event.job, held=False)) if isinstance(event, JobSeen) else event


@hears
def terminating_pods_of_jobs_are_gone(event: Event, core: Core) -> Iterable[Event]:
    if isinstance(event, PodSeen) and event.pod.deleting and event.pod.owner and event.pod.uid in core.pods:
        event = PodGone(event.pod.uid)
    yield event


@hears
def refusals_of_nodes_of_a_plan_not_heard_of(event: Event, core: Core) -> Iterable[Event]:
    """Affected are pods that their job steers to a node."""
    led = isinstance(event, PodSeen) and bool(event.pod.selection.affinity)
    yield PodSeen(replace(event.pod, refusal=None)) if isinstance(event, PodSeen) and led else event


@hears
def edited_jobs_not_heard_of(event: Event, core: Core) -> Iterable[Event]:
    """The podsets that were seen first are believed."""
    if isinstance(event, JobSeen):
        first = core.notes.setdefault(event.job.uid, event.job.podsets)
        event = JobSeen(replace(event.job, podsets=first))
    yield event


@hears
def required_level_of_jobs_ignored(event: Event, core: Core) -> Iterable[Event]:
    def anywhere(podset: PodSet) -> PodSet:
        return replace(podset, template=replace(podset.template, topology=Topology()))

    if isinstance(event, JobSeen):
        podsets = event.job.podsets
        event = JobSeen(replace(event.job, podsets=replace(podsets, podsets=tuple(map(anywhere, podsets.podsets)))))
    yield event


@hears
def jobs_that_make_no_more_pods_are_not_known(event: Event, core: Core) -> Iterable[Event]:
    """Affected are jobs with a succeeded pod and no stated number of successes."""
    yield JobSeen(replace(event.job, closed=0)) if isinstance(event, JobSeen) else event


@hears
def starts_that_were_not_sent_give_their_nodes_up(event: Event, core: Core) -> Iterable[Event]:
    """The core treats them as refused by the API server: they are planned again after a pause."""
    if isinstance(event, JobWritten) and event.outcome is Outcome.UNSENT:
        event = replace(event, outcome=Outcome.REFUSED)
    yield event


@hears
def writes_that_were_not_sent_are_believed(event: Event, core: Core) -> Iterable[Event]:
    """The bug lasts until the watch has had time to show them."""
    if isinstance(event, JobWritten) and event.outcome is Outcome.UNSENT:
        event = replace(event, outcome=Outcome.UNKNOWN)
    yield event


@hears
def dry_runs_that_tell_what_pods_ask_for_are_not_heard(event: Event, core: Core) -> Iterable[Event]:
    yield replace(event, pod=None) if isinstance(event, PodTried) else event


@hears
def refused_dry_runs_are_not_heeded(event: Event, core: Core) -> Iterable[Event]:
    """A ResourceQuota is used up, and the job is started all the same."""
    if isinstance(event, PodTried) and event.verdict is Verdict.NOT_NOW:
        event = replace(event, verdict=Verdict.UNANSWERED)
    yield event


# Requests.


@asks
def started_without_a_node_for_the_last(effect: Effect, core: Core) -> Iterable[Effect]:
    if isinstance(effect, StartJob):
        effect = replace(effect, plan={name: (*nodes[:-1], "") for name, nodes in effect.plan.items()})
    yield effect


@asks
def started_on_one_node(effect: Effect, core: Core) -> Iterable[Effect]:
    if isinstance(effect, StartJob):
        node = max(core.nodes, default="")
        effect = replace(effect, plan={name: tuple(node for _ in nodes) for name, nodes in effect.plan.items()})
    yield effect


@asks
def started_with_another_minimum(effect: Effect, core: Core) -> Iterable[Effect]:
    yield replace(effect, minimum=effect.minimum + 1) if isinstance(effect, StartJob) else effect


@asks
def suspended_when_its_first_pod_comes(effect: Effect, core: Core) -> Iterable[Effect]:
    yield effect
    if isinstance(effect, StartJob):
        core.notes["started"] = replace(effect.job, suspended=False)
    job = core.notes.get("started")
    if isinstance(core.event, PodSeen) and job is not None and core.event.pod.owner == job.uid:
        del core.notes["started"]
        yield SuspendJob(job, "a bug")


@asks
def jobs_never_cleaned(effect: Effect, core: Core) -> Iterable[Effect]:
    if not isinstance(effect, CleanJob):
        yield effect


@asks
def jobs_never_suspended(effect: Effect, core: Core) -> Iterable[Effect]:
    if not isinstance(effect, SuspendJob):
        yield effect


# Sent writes, and the use of their answers.


@answers
def refused_start_taken_for_done(call: ApiCall, response: Response, driver: Boundary) -> Response | None:
    return OK if isinstance(call, StartJob) and response.status == 0 else response


def writes_to_a_job_at_once(patch: pytest.MonkeyPatch) -> None:
    """The last write to the job is not awaited."""

    def write(self: Any, effect: JobEffect) -> None:
        procedure = self._writes.job(effect, lambda: True)
        self._start(Lane.OTHER, effect.job.key, procedure, lambda ending: None)

    patch.setattr(JobWrites, "write", write)


def quorum_of_a_job_counted_as_a_total(patch: pytest.MonkeyPatch) -> None:
    """The podsets of its pods do not matter."""
    patch.setattr(PodSets, "short", lambda self, there, *, together: None)


def later_waves_counted_on(patch: pytest.MonkeyPatch) -> None:
    """The pods of a later wave seem to exist together with the others."""
    pods = PodSet.pods
    patch.setattr(PodSet, "pods", lambda self: (replace(pod, wave=0) for pod in pods(self)))


def started_jobs_lose_their_room_before_their_start_is_shown(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Workload, "being_started", property(lambda self: False))


def pods_before_a_job_give_it_no_time(patch: pytest.MonkeyPatch) -> None:
    """Pods that kube-scheduler has yet to try seem to have been skipped in its queue."""
    patch.setattr(KubeQueue, "has_yet_to_try", lambda self, pod: False)


def what_has_ended_counts_for_the_next_start(patch: pytest.MonkeyPatch) -> None:
    """Pods of a job without an index that were done before it was started again."""
    real = Members._update_finished

    def stand(self: Members, member: Member) -> None:
        if self.slots.templates:
            self._counting = dict.fromkeys(self._counting, WhyFinishedCounts.BOUND)
        real(self, member)

    patch.setattr(Members, "_update_finished", stand)


def starts_that_broke_off_are_left_to_whoever_started_the_job_again(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(lifecycle, "end_start", revoke_job_plan)


def jobs_that_wait_for_the_pods_of_others_are_not_looked_at_again(patch: pytest.MonkeyPatch) -> None:
    """The jobs are parked without a time to look again."""
    patch.setattr(Creation, "rests_until", lambda self, key: 0.0)


def room_of_a_pod_that_has_ended_is_not_kept_for_the_next_one(patch: pytest.MonkeyPatch) -> None:
    """Although its job has more completions than pods."""
    patch.setattr(Slots, "refills", lambda self, slot, ended: False)


def pods_unlike_their_template_are_planned_by_it_again(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Additions, "learn", lambda self, podset, pod, flavoring, source: False)


def jobs_evict_again_although_their_pods_did_not_come(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Preempting, "_creation_doubt", lambda self, workload: "")


def what_pods_ask_for_is_learnt_of_their_requests_alone(patch: pytest.MonkeyPatch) -> None:
    """The nodes that they tolerate or select are not learnt."""
    real = additions.demand_of

    def demand_of(pod: Pod, template: Pod | None = None, flavoring: Flavoring | None = None) -> PodDemand:
        of_pod = real(pod, template, flavoring)
        return real(template)._replace(requests=of_pod.requests) if template is not None else of_pod

    patch.setattr(additions, "demand_of", demand_of)


def nobody_looks_again_before_a_start_that_had_to_wait(patch: pytest.MonkeyPatch) -> None:
    """Unnoticed are pods that came in the way since the plan, and pods that these want to be near and that are gone."""
    patch.setattr(Upkeep, "still_holds", lambda self, workload, record, now: True)


def starts_that_were_not_sent_and_lost_their_nodes_are_not_looked_at(patch: pytest.MonkeyPatch) -> None:
    """The reason from the time of the write stays."""
    real = Upkeep.still_holds

    def still_holds(self: Upkeep, workload: Workload, record: JobRecord, now: float) -> bool:
        workload.bumps -= record.seen.suspended
        return real(self, workload, record, now)

    patch.setattr(Upkeep, "still_holds", still_holds)


def every_plan_is_given_up_while_kube_scheduler_stands_still(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(KubeQueue, "give_up", lambda self, now, after_s: 0.0)


def held_members_do_not_wait_for_kube_schedulers_queue(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(lifecycle, "is_still_queued", lambda workload, queue: False)


def a_forged_plan_is_believed(patch: pytest.MonkeyPatch) -> None:
    """Any plan on a job that a user has unsuspended is taken over."""
    patch.setattr(Jobs, "_disproved", lambda *_: "")


def a_start_of_its_own_is_doubted_again(patch: pytest.MonkeyPatch) -> None:
    """A job whose queue gets a smaller quota is suspended, although no other client has started it."""
    real = Jobs._disproved

    def disproved(self: Jobs, workload: Workload, record: JobRecord, now: float) -> str:
        record.unproven |= record.plan is not None
        return real(self, workload, record, now)

    patch.setattr(Jobs, "_disproved", disproved)


def no_inherited_start_has_quota(patch: pytest.MonkeyPatch) -> None:
    """A restart suspends each job without bound pods, whose queue it takes for overdrawn."""
    patch.setattr(Quotas, "overdrawn", lambda self, key: f"ClusterQueue {self.members.queue_of(key)} has no quota")


def adopted_starts_hold_nobody_back(patch: pytest.MonkeyPatch) -> None:
    """A restart does not know which jobs are being started, for workloads that a topology spread of them counts."""
    adopt = Jobs.adopt

    def adopted(self: Jobs, workload: Workload, now: float) -> None:
        with pytest.MonkeyPatch.context() as inner:
            inner.setattr(Starting, "begin", lambda *_: None)
            adopt(self, workload, now)

    patch.setattr(Jobs, "adopt", adopted)
