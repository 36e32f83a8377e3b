"""What /metrics tells of the state, counted when it is asked for: the state is the only place that knows."""

from __future__ import annotations

from collections import Counter as Tally
from collections.abc import Callable, Iterator, Mapping

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric

from extender.core.state import State
from extender.observe.quality import LevelQuality, quality

_BY_LEVEL: tuple[tuple[str, str, Callable[[LevelQuality], float]], ...] = (
    (
        "muster_placement_spread_ratio",
        "Domains that a gang uses over the fewest that could hold it, in the mean over gangs.",
        lambda level: level.spread,
    ),
    (
        "muster_placement_pairs_together_ratio",
        "Share of the pairs of GPUs of one gang that are in one domain, over all gangs.",
        lambda level: level.together,
    ),
    (
        "muster_placement_balance_ratio",
        "Smallest over largest share of a gang in a domain, in the mean over gangs in several domains.",
        lambda level: level.balance,
    ),
)


class Computed:
    """Metrics that a function works out at every scrape; nothing is told in advance, when there is no state yet."""

    def __init__(self, collect: Callable[[], Iterator[Metric]]) -> None:
        self.collect = collect


def gauge(name: str, text: str, label: str, values: Mapping[str, float]) -> Metric:
    """A gauge with one label, and its value for each of the label's."""
    family = GaugeMetricFamily(name, text, labels=[label])
    for key, value in values.items():
        family.add_metric([key], value)
    return family


def standing(state: State, *, leads: bool, ages: Mapping[str, float], now: float) -> Iterator[Metric]:
    """How the gangs and the process stand. ``now``: in seconds since the epoch, as pods' creation."""
    tally = Tally(gang.telling.reason.code for gang in state.workloads.values())
    yield gauge("muster_gangs", "Gangs by the code of their current reason.", "state", dict(sorted(tally.items())))
    yield GaugeMetricFamily(
        "muster_oldest_waiting_gang_seconds",
        "Time since the first pod without a node was created in any gang that waits for its start; 0: none waits.",
        value=_longest_wait_s(state, now),
    )
    yield GaugeMetricFamily("muster_nodes", "Nodes of the cluster.", value=len(state.claims.nodes))
    yield GaugeMetricFamily("muster_pods", "Pods of the cluster.", value=len(state.pods))
    yield GaugeMetricFamily("muster_held_binds", "Bind requests held now.", value=len(state.binds.held))
    yield GaugeMetricFamily("muster_synced", "1 once every list has been read.", value=float(state.synced))
    yield GaugeMetricFamily("muster_leader", "1 while this replica acts, 0 while it stands by.", value=leads)
    yield gauge(
        "muster_watch_age_seconds",
        "Time since the API server last said anything about a kind of object that Muster follows. Below 30 as a "
        "rule; above 90 this replica is not ready.",
        "kind",
        dict(sorted(ages.items())),
    )
    advised = CounterMetricFamily(
        "muster_advisory_verdicts",
        "In advisory mode: filter calls of gangs' pods that enforcing would have rejected or passed, and binds that it "
        "would have held.",
        labels=["verdict"],
    )
    for verdict in ("would_reject", "would_hold", "would_pass"):
        advised.add_metric([verdict], state.advised[verdict])
    yield advised
    failures = CounterMetricFamily(
        "muster_policy_failures",
        "Times that a policy raised something, or returned what it must not.",
        labels=["policy"],
    )
    for policy, count in sorted(state.policy_errors.items()):
        failures.add_metric([policy], count)
    yield failures


def placement(state: State, bandwidth_ratio: float) -> Iterator[Metric]:
    """How well the gangs are placed, and what the domains have left."""
    found = quality(state.workloads.values(), state.claims.snapshot(), bandwidth_ratio)
    for name, text, of in _BY_LEVEL:
        yield gauge(name, text, "level", {level: of(one) for level, one in found.levels.items()})
    domains = GaugeMetricFamily(
        "muster_domains", "Domains with GPUs, of which none, some or all are in use.", labels=["level", "state"]
    )
    for level, one in found.levels.items():
        for kind in ("whole", "broken", "full"):
            domains.add_metric([level, kind], getattr(one.domains, kind))
    yield domains
    yield gauge(
        "muster_gpus",
        "GPUs of all nodes: used by pods or promised to them, free, or free on nodes that are closed to pods.",
        "state",
        found.gpus,
    )
    yield gauge(
        "muster_largest_gang_nodes",
        "Whole nodes of the most common kind with GPUs that a gang could have now inside one domain.",
        "level",
        found.largest,
    )
    yield GaugeMetricFamily(
        "muster_modelled_allreduce_slowdown_ratio",
        "MODELLED, not measured: time of a ring all-reduce over the least possible, in the mean over gangs, from "
        "the slowest link alone; the setting allreduce_bandwidth_ratio is its parameter.",
        value=found.slowdown,
    )


def _longest_wait_s(state: State, now: float) -> float:
    """Not from when Muster first saw the gang: that is later after every restart."""
    waiting = (gang for gang in state.workloads.values() if not gang.release.complete)
    since = (pod.created for gang in waiting for pod in gang.live if not pod.node)
    return max(0.0, now - min(since, default=now))
