"""Bugs about workloads that start without a plan: their quota, their deadline, and their nodes."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Any

import pytest

from extender.core.answers import CapacityAnswered
from extender.core.effects import Effect, StartJob, SuspendJob
from extender.core.events import Event, JobSeen, QueueSeen
from extender.core.jobs.elastic import Elastic, protected_nodes
from extender.core.ledger import quotas
from extender.core.ledger.claims import Claims
from extender.core.ledger.quotas import Quotas, unseen_of
from extender.core.limits import Limits
from extender.core.queue.line import StrictOrder
from extender.core.workload.shape import Shape
from extender.core.workload.workload import Workload
from extender.kube.queues import protection
from policies.model import GroupKey, PodSets
from policies.model.queues import ResourceFlavor
from tests.simulation.plants.mutants import Core, asks, hears


def jobs_that_await_nodes_use_no_quota(patch: pytest.MonkeyPatch) -> None:
    def unseen(workload: Any, *rest: Any) -> Any:
        return (
            {} if workload.job is not None and workload.job.seen.node_wait is not None else unseen_of(workload, *rest)
        )

    patch.setattr(quotas, "unseen_of", unseen)


def quota_is_not_reserved(patch: pytest.MonkeyPatch) -> None:
    def reserve(self: Quotas, key: GroupKey, _: object) -> None:
        self.fully_reserved[key] = None

    patch.setattr(Quotas, "reserve", reserve)


@asks
def nodes_are_awaited_for_ever(effect: Effect, core: Core) -> Iterable[Effect]:
    if not (isinstance(effect, SuspendJob) and "did not come" in effect.reason):
        yield effect


@hears
def nodes_are_awaited_too_short(event: Event, core: Core) -> Iterable[Event]:
    match event:
        case JobSeen(job) if job.node_wait is not None:
            event = JobSeen(replace(job, node_wait=replace(job.node_wait, until=job.node_wait.until - 12)))
    yield event


@hears
def restart_forgets_that_nodes_are_awaited(event: Event, core: Core) -> Iterable[Event]:
    match event:
        case JobSeen(job) if not core.synced:
            event = JobSeen(replace(job, node_wait=None))
    yield event


@hears
def denied_nodes_are_awaited(event: Event, core: Core) -> Iterable[Event]:
    if not (isinstance(event, CapacityAnswered) and not event.granted):
        yield event


def quota_of_those_who_ask_is_free(patch: pytest.MonkeyPatch) -> None:
    """The quota is reserved in name only."""
    reserve = Quotas.reserve

    def reserved(self: Quotas, key: GroupKey, usage: Any) -> None:
        reserve(self, key, dict.fromkeys(usage, 0))

    patch.setattr(Quotas, "reserve", reserved)


@hears
def restart_forgets_who_rests(event: Event, core: Core) -> Iterable[Event]:
    match event:
        case JobSeen(job) if not core.synced:
            event = JobSeen(replace(job, in_vain=None))
    yield event


@hears
def jobs_that_await_nodes_start_in_part(event: Event, core: Core) -> Iterable[Event]:
    """On the first nodes that come."""
    match event:
        case JobSeen(job) if job.node_wait is not None:
            podsets = tuple(replace(podset, minimum=1) for podset in job.podsets.podsets)
            event = JobSeen(replace(job, podsets=PodSets(job.key, podsets)))
    yield event


@asks
def no_labels_for_those_who_make_nodes(effect: Effect, core: Core) -> Iterable[Effect]:
    yield replace(effect, labels={}) if isinstance(effect, StartJob) else effect


@asks
def jobs_that_await_nodes_get_no_time_for_it(effect: Effect, core: Core) -> Iterable[Effect]:
    """The job's controller creates the pods before their nodes can be there."""
    yield replace(effect, awaits_s=0.0) if isinstance(effect, StartJob) else effect


@asks
def plan_is_not_written_once_there_are_nodes(effect: Effect, core: Core) -> Iterable[Effect]:
    """The workload waits on."""
    if not (isinstance(effect, StartJob) and effect.node_wait is None and effect.job.node_wait is not None):
        yield effect


def nodes_stay_for_ever(patch: pytest.MonkeyPatch) -> None:
    """A node stays once a plan has asked for that."""
    kept_nodes: dict[str, None] = {}

    def kept(limits: Limits, claims: Claims, quotas: Quotas) -> dict[str, None]:
        kept_nodes.update(protected_nodes(limits, claims, quotas))
        return kept_nodes

    patch.setattr(protection, "protected_nodes", kept)


def no_node_is_kept(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(protection, "protected_nodes", lambda *_: {})


@asks
def what_a_flavor_tolerates_is_not_written(effect: Effect, core: Core) -> Iterable[Effect]:
    yield replace(effect, tolerations={}) if isinstance(effect, StartJob) else effect


def others_give_way_to_those_who_await_nodes(patch: pytest.MonkeyPatch) -> None:
    """Evictions go on as though no nodes were on their way."""
    pending = Elastic.continue_asking

    def unless_awaited(self: Elastic, workload: Workload, shape: Shape) -> Any:
        awaits = workload.job is not None and workload.job.awaits_nodes
        return None if awaits else pending(self, workload, shape)

    patch.setattr(Elastic, "continue_asking", unless_awaited)


@hears
def taints_of_flavors_are_not_read(event: Event, core: Core) -> Iterable[Event]:
    """A workload without the toleration is ungated."""
    match event:
        case QueueSeen(ResourceFlavor() as flavor):
            event = QueueSeen(replace(flavor, taints=()))
    yield event


def who_is_before_it_in_a_strict_queue_keeps_a_job_from_its_nodes(patch: pytest.MonkeyPatch) -> None:
    """Although it has the quota that the other one lacks."""
    had_turn = StrictOrder.has_had_turn

    def without_quota(self: StrictOrder, workload: Workload, first: GroupKey) -> bool:
        return had_turn(self, workload, first) and not self._quotas.has_own(workload.key)

    patch.setattr(StrictOrder, "has_had_turn", without_quota)
