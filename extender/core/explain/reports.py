"""Reports of the queue objects and of the jobs that name a queue.

The report of a queue has the workloads that wait and run in it, its used and borrowed quota, and its faults. The report
of a job has what it asks for, and what it has.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial

from extender.core.explain.reasons import Reason, expectation_text, reason_of, text_of
from extender.core.explain.telling import for_namespace
from extender.core.ledger.claims import Claims
from extender.core.ledger.creation import FailedCreation
from extender.core.ledger.durations import Durations
from extender.core.ledger.expectations import Expectations
from extender.core.ledger.pending import Pending, QueueView, put_off
from extender.core.ledger.queues import ObjectKey, Queues, QueueSnapshot, key_of
from extender.core.ledger.quotas import Quotas
from extender.core.ledger.store import Process
from extender.core.limits import Limits
from extender.core.workload.workload import Workload
from policies.api import PolicyError, QueuePolicy, SortKey
from policies.model import GroupKey, PodSet, Requests
from policies.model.group import Controller
from policies.model.levels import HOST, PRESETS, contradiction
from policies.model.queues import (
    VOLCANO,
    ClusterQueue,
    Cohort,
    FlavorResource,
    LocalQueue,
    QueueReport,
    Stop,
    TopologyObject,
)
from policies.quota.shares import share_of
from policies.quota.tree import UNLIMITED, QuotaNode
from policies.words import many

_NO_HALF_LIFE = (
    "it orders by past usage (UsageBasedAdmissionFairSharing), which does not count: the setting "
    "admission_fair_sharing.usage_half_life_time_s is 0"
)


Reports = dict[ObjectKey, QueueReport]


@dataclass(eq=False)
class QueueReports:
    """Reports of the queue objects. A report is cached until something that it contains has changed."""

    _limits: Limits
    _workloads: Mapping[GroupKey, Workload]
    _claims: Claims
    _quotas: Quotas
    _durations: Durations
    _failed_creation: FailedCreation
    _pending: Pending
    _policy: QueuePolicy

    def __post_init__(self) -> None:
        self._snapshot = QueueSnapshot()
        self._locals: dict[str, list[LocalQueue]] = {}
        """The LocalQueues, by their ClusterQueue."""
        self._known: dict[ObjectKey, tuple[int, Reports]] = {}
        """The cached reports, with the version of the queues that they are about."""

    def all(self) -> Mapping[ObjectKey, QueueReport]:
        """Return the reports of all ClusterQueues, LocalQueues and Cohorts."""
        snapshot, queue_reports = self._quotas.queues.snapshot, Reports()
        if self._snapshot is not snapshot:
            self._snapshot, self._known, self._locals = snapshot, {}, {}
            for local in snapshot.locals.values():
                self._locals.setdefault(local.queue, []).append(local)
        for queue in snapshot.queues.values():
            queue_reports |= self._cached(key_of(queue), [queue.name], partial(self._of_queue, queue))
        for name in (name for name in self._locals if name not in snapshot.queues):
            queue_reports |= self._of_locals(name, {})
        for cohort in snapshot.cohorts.values():
            below = [*_below(snapshot.tree.cohorts[cohort.name])]
            queue_reports |= self._cached(key_of(cohort), below, partial(self._of_cohort, cohort, below))
        return queue_reports

    def _cached(self, key: ObjectKey, queues: Sequence[str], say: Callable[[], Reports]) -> Reports:
        """Return the cached reports, or make them. Reports with past usage change with time, so they are not cached."""
        known, version = self._known.get(key), self._quotas.members.version(queues)
        if known is not None and known[0] == version:
            return known[1]
        queue_reports = say()
        if not any(queue.by_past_usage for queue in map(self._snapshot.queues.get, queues) if queue is not None):
            self._known[key] = version, queue_reports
        return queue_reports

    def _of_queue(self, queue: ClusterQueue) -> Reports:
        """Report the ClusterQueue and the LocalQueues that point to it."""
        quotas, workloads = self._quotas, self._members([queue.name])
        by_local: dict[tuple[str, str], list[Workload]] = {}
        for workload in workloads:
            by_local.setdefault((workload.key.namespace, quotas.local_of(workload.key)), []).append(workload)
        problems = (*self._snapshot.problems.get(queue.name, ()), *_stopped(queue.stop, queue.open))
        warnings = self._running_on(queue, workloads)
        report = self._report(workloads, quotas.node_of(queue.name), problems, warnings)
        return {key_of(queue): report, **self._of_locals(queue.name, by_local)}

    def _of_locals(self, queue: str, by_local: Mapping[tuple[str, str], Sequence[Workload]]) -> Reports:
        queue_reports = Reports()
        for local in self._locals.get(queue, ()):
            at = local.namespace, local.name
            why = self._quotas.queues.route(*at).why
            problems = () if why is None else (text_of(why),)
            report = self._report(by_local.get(at, ()), None, problems, _warnings_of(self._quotas, local))
            past, runs = self._quotas.past.stored(at), self._durations.stored(at)
            queue_reports[key_of(local)] = replace(report, past=past, runs=runs)
        return queue_reports

    def _of_cohort(self, cohort: Cohort, below: Sequence[str]) -> Reports:
        node, problems = self._snapshot.tree.cohorts[cohort.name], self._snapshot.events[key_of(cohort)].problems
        warnings = _warnings_of(self._quotas, cohort)
        return {key_of(cohort): self._report(self._members(below), node, problems, warnings)}

    def _members(self, queues: Sequence[str]) -> list[Workload]:
        members, workloads = self._quotas.members, self._workloads
        return [
            workload for queue in queues for key in members.of(queue) if (workload := workloads.get(key)) is not None
        ]

    def _report(
        self, members: Iterable[Workload], node: QuotaNode | None, problems: tuple[str, ...], warnings: tuple[str, ...]
    ) -> QueueReport:
        """Report these workloads. ``node``: their quota; None for a LocalQueue."""
        used: Counter[FlavorResource] = Counter()
        reserving = admitted = 0
        waiting: list[Workload] = []
        for workload in members:
            if uses := self._quotas.uses.of(workload.key):
                reserving += 1
                admitted += workload.release.complete or workload.has_bound_quorum
                for use in uses.values():
                    used.update(use.usage)
            if workload.key in self._pending.keys and not workload.has_promised_quorum:
                waiting.append(workload)
        borrowed = {} if node is None else {what: much for what in used if (much := node.borrowed(what))}
        share = None
        if node is not None and self._limits.fair_sharing:
            share_now = share_of(node)
            share = UNLIMITED if share_now.endless else int(share_now.value)
        keys = tuple(workload.key for workload in sorted(waiting, key=self._place))
        return QueueReport(keys, reserving, admitted, dict(+used), borrowed, share, problems, warnings)

    def _place(self, workload: Workload) -> tuple[int, float, bool, SortKey, GroupKey]:
        """The sort key of a waiting workload. Workloads for which the policy fails come last."""
        before = put_off(self._failed_creation, workload), self._quotas.past_of(workload.key)
        queue = self._quotas.queue_of(workload.key)
        try:
            return *before, False, self._policy.order(QueueView(workload, queue.ageing if queue else 0)), workload.key
        except PolicyError:
            return *before, True, (), workload.key

    def _running_on(self, queue: ClusterQueue, members: Iterable[Workload]) -> tuple[str, ...]:
        """Return the warnings of the queue. Gangs that run in a drained queue give one: only jobs can be stopped."""
        quotas = self._quotas
        running = (
            sum(workload.job is None and workload.key in quotas.uses for workload in members)
            if queue.stop is Stop.DRAIN
            else 0
        )
        text = f"{many(running, 'gang')} of pods still running: HoldAndDrain stops jobs only"
        forgotten = queue.by_past_usage and not self._limits.past_usage.half_life_s
        faulty = faulty_levels(self._claims, quotas, queue)
        return (
            *_warnings_of(quotas, queue),
            *faulty,
            *((text,) if running else ()),
            *((_NO_HALF_LIFE,) if forgotten else ()),
        )


def _below(node: QuotaNode) -> Iterable[str]:
    """Yield the queues of a cohort and of the cohorts in it."""
    for child in node.children:
        yield from _below(child) if child.is_cohort else (child.name,)


def _stopped(stop: Stop, of_volcano: bool = False) -> tuple[str, ...]:
    if stop is Stop.NONE:
        return ()
    return ("it is closed",) if of_volcano else (f"it is stopped (stopPolicy {stop})",)


def _warnings_of(quotas: Quotas, thing: ClusterQueue | LocalQueue | Cohort) -> tuple[str, ...]:
    return quotas.queues.snapshot.events[key_of(thing)].warnings


Keys = tuple[str, ...]


def declared(queues: Queues) -> tuple[Keys, ...]:
    """The labels of the Topologies that flavors name, nearest first, without the level of single machines."""
    names = {flavor.topology: None for _, flavor in sorted(queues.snapshot.flavors.items()) if flavor.topology}
    return tuple(keys for name in names if (keys := _keys(queues, name)))


def faulty_levels(claims: Claims, quotas: Quotas, queue: ClusterQueue) -> Iterator[str]:
    """Faults in the levels of the Topologies that the queue's flavors name, compared with the levels of Muster."""
    queues, configured = quotas.queues, claims.configured
    flavors = [queues.snapshot.flavors.get(name) for group in queue.groups for name, _ in group.flavors]
    for name in dict.fromkeys(flavor.topology for flavor in flavors if flavor is not None and flavor.topology):
        keys = _keys(queues, name)
        unknown = [key for key in keys if configured and key not in configured]
        if unknown:
            text = "no workload can ask for it, and none is kept together by it"
            yield f"Topology {name}: {', '.join(unknown)}: not in the setting topology_levels, so {text}"
        presets = [[level.key for level in levels] for levels in PRESETS.values()]
        others = [configured] if configured else [*presets, *declared(queues)]
        if (pair := contradiction(keys, others)) is not None:
            where = "the setting topology_levels" if configured else "another Topology, or what Muster knows of it,"
            yield f"Topology {name}: {pair[1]} is farther than {pair[0]}, and {where} has it the other way round"


def _keys(queues: Queues, name: str) -> Keys:
    seen = queues.seen.get((TopologyObject.__name__, "", name))
    levels = seen.object.levels if seen is not None and isinstance(seen.object, TopologyObject) else ()
    return tuple(key for key in reversed(levels) if key != HOST)


@dataclass(frozen=True, slots=True)
class PodSetReport:
    """A podset of a job.

    ``minimum``: how many of its pods have to start together.
    ``requests``: what one pod asks for.
    ``flavors``: the flavor of each resource; empty while it has no quota.
    ``used``: how much of each resource all its pods use; empty while it has no quota.
    """

    name: str
    count: int
    minimum: int
    requests: Requests
    flavors: Mapping[str, str] = field(default_factory=dict)
    used: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class WorkloadReport:
    """A job that names a queue.

    ``local``: the LocalQueue that the job names.
    ``queue``: the ClusterQueue of that LocalQueue; empty for none.
    ``reserved``: whether it has quota.
    ``admitted``: whether the job was started with that quota, on nodes.
    ``reason``: why it is in this state.
    ``expected``: when it is expected to start, in words; empty where that is not known.
    """

    key: GroupKey
    job: Controller
    local: str
    queue: str
    priority: int
    podsets: tuple[PodSetReport, ...]
    reserved: bool
    admitted: bool
    finished: bool
    reason: Reason
    expected: str = ""


def workload_report(
    limits: Limits,
    process: Process,
    workloads: Mapping[GroupKey, Workload],
    quotas: Quotas,
    expectations: Expectations,
    key: GroupKey,
) -> WorkloadReport | None:
    """The report of the workload; None if it is unknown, is no job, or names no LocalQueue.

    The reason is the last reported one as long as its cause has the same type: numbers change more often than users
    want to read.
    """
    workload, local = workloads.get(key), quotas.local_of(key)
    job = workload.job if workload is not None else None
    if workload is None or job is None or not local or local.startswith(VOLCANO) or not job.seen.managed:
        return None
    queue, reserved = quotas.queue_of(key), key in quotas.uses
    expected = expectations.stated.get(key)
    text = "" if expected is None else expectation_text(expected, process.wall_offset)
    now, reported = workload.reason_state.cause, workload.reason_state.last_report.cause
    return WorkloadReport(
        key,
        job.seen.owner,
        local,
        "" if queue is None else queue.name,
        workload.priority,
        tuple(_podsets(quotas, workload, job.seen.podsets.podsets)),
        reserved,
        reserved and not job.seen.suspended and not job.awaits_nodes,
        job.seen.finished,
        _for_readers(limits, key, reason_of(reported if reported is not None and type(reported) is type(now) else now)),
        for_namespace(text, key.namespace, limits),
    )


def _for_readers(limits: Limits, key: GroupKey, reason: Reason) -> Reason:
    """Render the reason for an object of the namespace."""
    return reason._replace(message=for_namespace(reason.message, key.namespace, limits))


def _podsets(quotas: Quotas, workload: Workload, podsets: tuple[PodSet, ...]) -> Iterator[PodSetReport]:
    flavors: dict[object, dict[str, str]] = {}
    used: dict[object, Counter[str]] = {}
    for use in quotas.uses.of(workload.key).values():
        flavors.setdefault(use.podset, {}).update(use.flavors)
        amounts = used.setdefault(use.podset, Counter())
        for (_, resource), amount in use.usage.items():
            amounts[resource] += amount
    for podset in podsets:
        name = podset.title if podset.name else ""
        requests = podset.template.requests
        yield PodSetReport(
            name,
            podset.size,
            podset.least,
            requests,
            flavors.get(podset.name, {}),
            dict(used.get(podset.name, Counter())),
        )
