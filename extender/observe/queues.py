"""The content of /queues: each queue and cohort with its quota, use and loans, and which workloads wait and why."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace

from extender.api.models import QueueView, QuotaView, WaitingView
from extender.core.engine import Engine
from extender.core.explain.reasons import reason_of
from policies.model import GroupKey
from policies.model.mentions import full
from policies.model.queues import FlavorResource, LocalQueue, QueueReport
from policies.quota.tree import QuotaNode
from policies.steps import Steps

Reports = Mapping[tuple[str, str, str], QueueReport]
"""Reports by kind, namespace and name."""
SHOWN = 100
"""Most waiting workloads listed for a queue."""


_QUEUE = 10
"""The cost of a queue without its waiting workloads, in units of ``Steps``."""


def queues(core: Engine, now: float, render: Callable[[str, str], str] = full) -> Steps[list[QueueView]]:
    """Return the cohorts, then the ClusterQueues, then the LocalQueues, each by name. ``render``: as for ``view``."""
    snapshot, queue_reports = core.state.quotas.queues.snapshot, core.queue_reports(now)
    views: list[QueueView] = []
    for _, cohort in sorted(snapshot.tree.cohorts.items()):
        views.append(_view("Cohort", cohort, _parent(cohort), _below(cohort), _of_cohort(queue_reports, cohort)))
        yield _QUEUE
    for name, queue in sorted(snapshot.queues.items()):
        report = queue_reports.get(("ClusterQueue", "", name)) or QueueReport()
        node = core.state.quotas.node_of(name)
        view = _view("ClusterQueue", node, queue.cohort, [] if node is None else [node], report)
        view.name, view.waiting = name, list(_waiting(core, report.pending, now, render))
        views.append(view)
        yield _QUEUE + 2 * len(view.waiting)
    for _, local_queue in sorted(snapshot.locals.items()):
        views.append(_local(local_queue, queue_reports))
        yield _QUEUE
    return views


def _view(kind: str, node: QuotaNode | None, parent: str, below: list[QuotaNode], report: QueueReport) -> QueueView:
    """A queue or cohort. ``below``: the ClusterQueues that count for it."""
    return QueueView(
        kind=kind,
        namespace="",
        name="" if node is None else node.name,
        parent=parent,
        reserving=report.reserving,
        admitted=report.admitted,
        pending=len(report.pending),
        quotas=[] if node is None else list(_quotas(node, below)),
        share=report.share,
        waiting=[],
        problems=list(report.problems),
        warnings=list(report.warnings),
    )


def _local(queue: LocalQueue, queue_reports: Reports) -> QueueView:
    report = queue_reports.get(("LocalQueue", queue.namespace, queue.name)) or QueueReport()
    view = _view("LocalQueue", None, queue.queue, [], report)
    view.namespace, view.name = queue.namespace, queue.name
    view.quotas = [
        QuotaView(flavor=flavor, resource=resource, nominal=0, used=much, borrowed=0, lent=0)
        for (flavor, resource), much in sorted(report.used.items())
    ]
    return view


def _quotas(node: QuotaNode, below: list[QuotaNode]) -> Iterator[QuotaView]:
    whats: dict[FlavorResource, None] = {}
    for quota_node in (node, *below):
        whats |= dict.fromkeys((*quota_node.quotas, *quota_node.used))
    for what in whats:
        flavor, resource = what
        used = sum(quota_node.used[what] for quota_node in below)
        nominal = sum(quota_node.quotas[what].nominal for quota_node in _within(node) if what in quota_node.quotas)
        borrowed = sum(quota_node.borrowed(what) for quota_node in below)
        lent = borrowed if node.is_cohort else max(0, nominal - used - max(0, node.left(what)))
        limit = node.quotas[what].borrowing if what in node.quotas and not node.is_cohort else None
        most = None if limit is None else nominal + limit
        yield QuotaView(
            flavor=flavor, resource=resource, nominal=nominal, used=used, borrowed=borrowed, lent=lent, most=most
        )


def _waiting(
    core: Engine, pending: Iterable[GroupKey], now: float, render: Callable[[str, str], str]
) -> Iterator[WaitingView]:
    for position, key in enumerate([*pending][:SHOWN], 1):
        if (workload := core.state.workloads.get(key)) is not None:
            reason_state = workload.reason_state
            since = round(now - reason_state.since, 3) if reason_state.since else 0.0
            reason = reason_of(reason_state.cause)
            yield WaitingView(
                namespace=key.namespace,
                name=key.name,
                state=reason.code,
                message=render(reason.message, key.namespace),
                for_s=since,
                position=position,
            )


def _of_cohort(queue_reports: Reports, node: QuotaNode) -> QueueReport:
    """The sums over the cohort's ClusterQueues, with the report of its own object, if there is one."""
    own = queue_reports.get(("Cohort", "", node.name)) or QueueReport()
    queues = [queue_reports.get(("ClusterQueue", "", quota_node.name)) or QueueReport() for quota_node in _below(node)]
    return replace(
        own,
        pending=tuple(key for queue in queues for key in queue.pending),
        reserving=sum(queue.reserving for queue in queues),
        admitted=sum(queue.admitted for queue in queues),
    )


def _below(node: QuotaNode) -> list[QuotaNode]:
    """The ClusterQueues of a cohort and of all cohorts inside it."""
    return [quota_node for child in node.children for quota_node in (_below(child) if child.is_cohort else [child])]


def _within(node: QuotaNode) -> list[QuotaNode]:
    """The node, and all nodes below it."""
    return [node, *(quota_node for child in node.children for quota_node in _within(child))]


def _parent(node: QuotaNode) -> str:
    return "" if node.parent is None else node.parent.name
