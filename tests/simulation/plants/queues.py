"""Bugs about queues: which quota is used, by which workloads, until when, and which workloads hear that it is free."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace

import pytest

from extender.core.events import Event, JobSeen, PodSeen, QueueGone, QueueSeen
from extender.core.ledger import quotas
from extender.core.ledger.quotas import PastUsage, Quotas, QuotaUses
from extender.core.queue.demands import QuotaRequest
from extender.core.queue.shortfalls import Lack, Scope, Shortfalls
from extender.core.workload.shape import Shape
from extender.core.workload.workload import Workload
from policies.api import SortKey
from policies.model.queues import ClusterQueue, LocalQueue, Quota, VolcanoQueue
from policies.quota.history import History
from tests.simulation.plants.mutants import Core, hears


def quota_not_given_back(patch: pytest.MonkeyPatch) -> None:
    """Ended workloads use quota indefinitely."""
    real = Quotas.moved

    def moved(self: Quotas, owner, claim, taken: bool) -> None:  # type: ignore[no-untyped-def]
        if taken:
            real(self, owner, claim, taken)

    patch.setattr(Quotas, "moved", moved)


def quota_that_is_given_back_is_not_noticed(patch: pytest.MonkeyPatch) -> None:
    """A later report of the changes in its tree does not mention it either."""
    patch.setattr(QuotaUses, "take_freed", lambda self: self.freed.clear() or [])
    patch.setattr(QuotaUses, "take_changed", lambda self, _: self._changed.clear() or [])


def refusal_of_one_queue_holds_for_all(patch: pytest.MonkeyPatch) -> None:
    """A shortfall of one queue stops workloads of the same shape in others."""
    get, put = Shortfalls.get, Shortfalls.cache

    def anybody(self: Shortfalls, shape: Shape, scope: Scope = "") -> object:
        return get(self, shape)

    def everybody(self, lack: Lack, shape: Shape, reason, scope: Scope = "", *_: object) -> None:  # type: ignore[no-untyped-def]
        put(self, lack, shape, reason)

    patch.setattr(Shortfalls, "get", anybody)
    patch.setattr(Shortfalls, "cache", everybody)


def flavors_of_what_is_bound_not_read(patch: pytest.MonkeyPatch) -> None:
    """A gang whose start broke off is completed on any nodes."""
    patch.setattr(Quotas, "as_bound", lambda self, workload: {})


def more_members_of_a_broken_start_get_any_flavor(patch: pytest.MonkeyPatch) -> None:
    real = QuotaRequest.closed
    patch.setattr(QuotaRequest, "closed", lambda self: real(self) if self._workload.job is not None else {})


@hears
def usage_forgotten_at_a_restart(event: Event, core: Core) -> Iterable[Event]:
    """Workloads that were bound or started before this life are in no queue."""
    match event:
        case PodSeen(pod) if pod.node and not core.synced:
            core.notes[pod.uid] = True
        case JobSeen(job) if job.plan is not None and not core.synced:
            core.notes[job.uid] = True
    match event:
        case PodSeen(pod) if pod.uid in core.notes:
            event = PodSeen(replace(pod, queue=""))
        case JobSeen(job) if job.uid in core.notes:
            event = JobSeen(replace(job, queue=""))
    yield event


def jobs_that_others_have_started_use_no_quota(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(quotas, "unseen_of", lambda workload, queue, uses: {})


@hears
def borrowing_limit_ignored(event: Event, core: Core) -> Iterable[Event]:
    yield _without(event, "borrowing")


@hears
def capability_of_a_volcano_queue_ignored(event: Event, core: Core) -> Iterable[Event]:
    yield _volcanos_with(event, capability={})


@hears
def guarantee_of_a_volcano_queue_ignored(event: Event, core: Core) -> Iterable[Event]:
    """The guarantee of an idle Queue is used by others."""
    yield _volcanos_with(event, guarantee={})


@hears
def lending_limit_ignored(event: Event, core: Core) -> Iterable[Event]:
    yield _without(event, "lending")


@hears
def changed_queues_are_not_noticed(event: Event, core: Core) -> Iterable[Event]:
    if not (core.synced and isinstance(event, QueueSeen | QueueGone)):
        yield event


@hears
def past_usage_forgotten_at_a_restart(event: Event, core: Core) -> Iterable[Event]:
    match event:
        case QueueSeen(LocalQueue() as queue, problems, warnings):
            event = QueueSeen(replace(queue, past=None), problems, warnings)
    yield event


def past_usage_forgotten_with_its_cluster_queue(patch: pytest.MonkeyPatch) -> None:
    real = PastUsage.rebuild

    def rebuild(self: PastUsage) -> None:
        snapshot = self._queues.snapshot
        self._histories = {
            key: history
            for key, history in self._histories.items()
            if key in snapshot.locals and snapshot.locals[key].queue in snapshot.queues
        }
        real(self)

    patch.setattr(PastUsage, "rebuild", rebuild)


def past_usage_only_fades(patch: pytest.MonkeyPatch) -> None:
    """Present usage is never added."""
    real = History.sample
    patch.setattr(History, "sample", lambda self, _, now: real(self, {}, now))


def places_in_the_line_stay_whatever_changes(patch: pytest.MonkeyPatch) -> None:
    """The queue policy is asked once for each workload."""

    def ordered_by(self: Workload, policy: Callable[[], SortKey]) -> SortKey:
        self.order = self.version, real(self, policy) if self.order is None else self.order[1]
        return self.order[1]

    real = Workload.ordered_by
    patch.setattr(Workload, "ordered_by", ordered_by)


def _volcanos_with(event: Event, **facts: Mapping[str, int]) -> Event:
    match event:
        case QueueSeen(VolcanoQueue() as queue, problems, warnings):
            return QueueSeen(replace(queue, **facts), problems, warnings)  # type: ignore[arg-type]
    return event


def _without(event: Event, limit: str) -> Event:
    if not isinstance(event, QueueSeen) or not isinstance(event.object, ClusterQueue):
        return event
    queue = event.object

    def endless(quota: Quota) -> Quota:
        return replace(quota, **{limit: None})  # type: ignore[arg-type]

    groups = tuple(
        replace(
            group,
            flavors=tuple(
                (name, {resource: endless(quota) for resource, quota in quotas.items()})
                for name, quotas in group.flavors
            ),
        )
        for group in queue.groups
    )
    return QueueSeen(replace(queue, groups=groups))
