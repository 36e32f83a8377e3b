"""The metrics that are computed from the state when /metrics is read."""

from __future__ import annotations

from collections import Counter as Tally
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric

from extender.core.state import State
from extender.observe.quality import quality

_BY_LEVEL = {
    "spread": "Domains that a gang uses over the fewest that could hold it, in the mean over gangs.",
    "pairs_together": "Share of the pairs of GPUs of one gang that are in one domain, over all gangs.",
    "balance": "Smallest over largest share of a gang in a domain, in the mean over gangs in several domains.",
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
        "Time since the first pod without a node was created in any gang that waits for its start; 0: none waits.",
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
    yield gauges(
        "policy_failures",
        "Times that a policy raised something, or returned what it must not.",
        "policy",
        dict(sorted(state.policy_errors.items())),
        CounterMetricFamily,
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
    waiting = (gang for gang in state.workloads.values() if not gang.release.complete)
    since = (pod.created for gang in waiting for pod in gang.live if not pod.node)
    return max(0.0, now - min(since, default=now))
