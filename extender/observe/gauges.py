"""The metrics that are computed from the state when /metrics is read.

Those about queues have the names by which users of Kueue know them, where they mean the same:
https://kueue.sigs.k8s.io/docs/reference/metrics/
"""

from __future__ import annotations

from collections import Counter as Tally
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

import numpy as np
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric

from extender.core.ledger.state import State
from extender.core.workload.workload import Workload
from extender.observe.quality import codes_of, gpus_of, quality
from extender.observe.queues import Reports
from extender.runtime.quarantine import Quarantine
from policies.model.queues import ClusterQueue, FlavorResource, QueueReport
from policies.placement.snapshot import Level, Snapshot
from policies.quota.tree import quotas_of

_BY_LEVEL = {
    "spread": "Domains that a gang uses over the fewest that could hold it, in the mean over gangs.",
    "pairs_together": "Share of the pairs of GPUs of one gang that are in one domain, over all gangs.",
    "balance": "Smallest over largest share of a gang in a domain, in the mean over gangs in several domains.",
}
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


class Computed:
    """Metrics that a function computes at every scrape, and not when they are registered: there is no state yet."""

    def __init__(self, collect: Callable[[], Iterator[Metric]]) -> None:
        self.collect = collect


def gauge(name: str, text: str, value: float) -> Metric:
    """A gauge without labels."""
    return GaugeMetricFamily(f"muster_{name}", text, value=value)


def gauges(
    name: str,
    text: str,
    labels: str,
    values: Mapping[Any, float],
    kind: type[GaugeMetricFamily | CounterMetricFamily] = GaugeMetricFamily,
) -> Metric:
    """A gauge, or a counter, and its value for each value of its label, or of its labels with a space between."""
    family = kind(f"muster_{name}", text, labels=labels.split())
    for key, value in values.items():
        family.add_metric([key] if isinstance(key, str) else key, value)
    return family


def standing(state: State, *, leads: bool, ages: Mapping[str, float], now: float) -> Iterator[Metric]:
    """How the gangs and the process stand. ``now``: in seconds since the epoch, as pods' creation."""
    tally = Tally(gang.telling.reason.code for gang in state.workloads.values())
    yield gauges("gangs", "Gangs by the code of their current reason.", "state", dict(sorted(tally.items())))
    yield gauge(
        "oldest_waiting_gang_seconds",
        "Time since the first pod without a node, or the job, was created in any gang that waits for its start; of a "
        "job that was stopped since then, and not of one on hold or with the reason InvalidJob. 0: none waits.",
        _longest_wait_s(state, now),
    )
    yield gauge("nodes", "Nodes of the cluster.", len(state.claims.nodes))
    yield gauge("pods", "Pods of the cluster.", len(state.pods))
    yield gauge("held_binds", "Bind requests held now.", len(state.binds.held))
    yield gauge("synced", "1 once every list has been read.", state.synced)
    yield gauge("leader", "1 while this replica acts, 0 while it stands by.", leads)
    yield gauges(
        "watch_age_seconds",
        "Time since the API server last said anything about a kind of object that Muster follows. Below 30 as a "
        "rule; above 90 this replica is not ready.",
        "kind",
        dict(sorted(ages.items())),
    )
    yield gauges(
        "advisory_verdicts",
        "In advisory mode: filter calls of gangs' pods that enforcing would have rejected or passed, and binds that it "
        "would have held.",
        "verdict",
        {verdict: state.advised[verdict] for verdict in ("would_reject", "would_hold", "would_pass")},
        CounterMetricFamily,
    )
    yield CounterMetricFamily(
        "muster_unpinned_pods",
        "Pods of started jobs that were created without the node of their plan: the admission policy failed.",
        value=state.unpinned,
    )
    yield gauges(
        "policy_failures",
        "Times that a policy raised something, or returned what it must not.",
        "policy",
        dict(sorted(state.policy_errors.items())),
        CounterMetricFamily,
    )


def failed(quarantine: Quarantine) -> Iterator[Metric]:
    """Yield how much the core has failed on."""
    yield gauge(
        "left_out_objects",
        "Objects that the core has failed on, and of which it knows at most the bare facts until they change.",
        len(quarantine.left_out()),
    )
    yield gauge(
        "planning_paused",
        "1 while nothing new is planned, because the core has failed too often with no object to blame.",
        quarantine.pause_s > 0,
    )


def placement(state: State, bandwidth_ratio: float) -> Iterator[Metric]:
    """How well the gangs are placed, and what the domains have left."""
    found = quality(state.workloads.values(), state.claims.snapshot(), bandwidth_ratio)
    for name, text in _BY_LEVEL.items():
        ratios = {level: getattr(one, name) for level, one in found.levels.items()}
        yield gauges(f"placement_{name}_ratio", text, "level", ratios)
    domains = {(level, use): count for level, one in found.levels.items() for use, count in one.domains.items()}
    yield gauges("domains", "Domains with GPUs, of which none, some or all are in use.", "level state", domains)
    yield gauges(
        "gpus",
        "GPUs of all nodes: used by pods or promised to them, free, or free on nodes that are closed to pods.",
        "state",
        found.gpus,
    )
    yield gauges(
        "largest_gang_nodes",
        "Whole nodes of the most common kind with GPUs that a gang could have now inside one domain.",
        "level",
        found.largest,
    )
    yield gauge(
        "modelled_allreduce_slowdown_ratio",
        "MODELLED, not measured: time of a ring all-reduce over the least possible, in the mean over gangs, from "
        "the slowest link alone; the setting allreduce_bandwidth_ratio is its parameter.",
        found.slowdown,
    )


def _longest_wait_s(state: State, now: float) -> float:
    """Not from when Muster first saw the gang: that is later after every restart."""
    since = [now]
    for gang in state.workloads.values():
        if gang.job is not None and gang.job.waits:
            since.append(max(gang.job.seen.created, gang.job.stopped_at - state.epoch))
        elif not gang.release.complete:
            since += (pod.created for pod in gang.live if not pod.node)
    return max(0.0, now - min(since))


def comparison(state: State) -> Iterator[Metric]:
    """The metrics of advisory mode, and the contradictions between labels."""
    gangs, view = state.workloads.values(), state.claims.snapshot()
    yield gauge(
        "stranded_gpus",
        "GPUs of bound members whose gang has not its quorum. Enforcing keeps this at 0 but for the moments of a "
        "release; so in advisory mode it is what enforcing would save.",
        sum(map(stranded, gangs)),
    )
    domains: dict[tuple[str, str], int] = {}
    for level in view.levels:
        used, advised = against_advice(gangs, level, view)
        domains |= {(level.name, "used"): used, (level.name, "advised"): advised}
    yield gauges(
        "advisory_domains",
        "In advisory mode: domains of all running gangs whose members were all advised, as they are used and as "
        "advised.",
        "level placement",
        domains,
    )
    torn = {level.name: len(level.torn) for level in view.levels}
    yield gauges("topology_contradictions", "Label values that are in two domains farther out.", "level", torn)


def stranded(gang: Workload) -> int:
    """GPUs of its bound members, as long as those are too few for it to run."""
    if gang.whole or gang.release.complete:
        return 0
    return sum(gpus_of(pod.requests) for pod in gang.bound)


def against_advice(gangs: Iterable[Workload], level: Level, snapshot: Snapshot) -> tuple[int, int]:
    """Domains that gangs use which are whole and were advised for each member, and the domains of that advice."""
    codes = codes_of(level)
    used = advised = 0
    for gang in gangs:
        if gang.advised and gang.whole:
            nodes = [(pod.node or "", gang.advised.get(pod.uid, "")) for pod in gang.bound]
            pairs = [(snapshot.rows.get(node), snapshot.rows.get(advice)) for node, advice in nodes]
            rows = np.array([pair for pair in pairs if None not in pair], dtype=np.intp)
            if len(rows) == len(pairs):
                used, advised = used + len(np.unique(codes[rows[:, 0]])), advised + len(np.unique(codes[rows[:, 1]]))
    return used, advised


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
