"""Metrics about queues, under the names by which users of Kueue know them, where they mean the same.

https://kueue.sigs.k8s.io/docs/reference/metrics/
"""

from __future__ import annotations

from collections.abc import Iterator

from prometheus_client.core import GaugeMetricFamily, Metric

from extender.core.state import State
from extender.observe.queues import Reports
from policies.model.queues import ClusterQueue, FlavorResource, QueueReport
from policies.quota.tree import quotas_of

_COUNTS = {
    "pending_workloads": "Workloads that wait in a ClusterQueue.",
    "reserving_active_workloads": "Workloads that have quota of a ClusterQueue.",
    "admitted_active_workloads": "Of those, workloads that have started.",
}
_AMOUNTS = {
    "resource_usage": "Quota in use, by flavor and resource; cpu in cores.",
    "nominal_quota": "A ClusterQueue's own quota.",
    "borrowing_limit": "How much of others' quota it may use, where that is limited.",
    "lending_limit": "How much of its own quota others may use, where that is limited.",
}


def queue_gauges(state: State, reports: Reports) -> Iterator[Metric]:
    """Nothing where there is no ClusterQueue."""
    queues = state.quotas.queues.picture.queues
    if not queues:
        return
    counts = {name: _family(name, text, "cluster_queue") for name, text in _COUNTS.items()}
    labels = ("cohort", "cluster_queue", "flavor", "resource")
    amounts = {name: _family(f"cluster_queue_{name}", text, *labels) for name, text in _AMOUNTS.items()}
    share = _family("cluster_queue_weighted_share", "Its weighted share, in thousandths, with fair sharing.", labels[1])
    for name, queue in sorted(queues.items()):
        report = reports.get(("ClusterQueue", "", name))
        if report is None:
            continue
        found = len(report.pending), report.reserving, report.admitted
        for family, count in zip(counts.values(), found, strict=True):
            family.add_metric([name], count)
        for kind, (flavor, resource), amount in _amounts(queue, report):
            scale = 1000 if resource == "cpu" else 1
            amounts[kind].add_metric([queue.cohort, name, flavor, resource], amount / scale)
        if report.share is not None:
            share.add_metric([name], report.share)
    yield from (*counts.values(), *amounts.values(), share)


def _amounts(queue: ClusterQueue, report: QueueReport) -> Iterator[tuple[str, FlavorResource, int]]:
    """What has no limit is not told."""
    quotas = quotas_of(queue.groups)
    for what in dict.fromkeys((*quotas, *report.used)):
        yield "resource_usage", what, report.used.get(what, 0)
    for what, quota in quotas.items():
        yield "nominal_quota", what, quota.nominal
        if quota.borrowing is not None:
            yield "borrowing_limit", what, quota.borrowing
        if quota.lending is not None:
            yield "lending_limit", what, quota.lending


def _family(name: str, text: str, *labels: str) -> GaugeMetricFamily:
    return GaugeMetricFamily(f"kueue_{name}", text, labels=labels)
