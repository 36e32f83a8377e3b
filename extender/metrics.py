"""What /metrics tells: how long the verbs take and how they end, what is written, and how the gangs stand."""

from __future__ import annotations

from collections import Counter as Tally
from collections.abc import Callable, Iterable, Iterator

from prometheus_client import CollectorRegistry, Counter, Histogram, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from extender.comparison import Comparison
from extender.core.state import State
from extender.quality import LevelQuality, quality

_BUCKETS = (0.0005, 0.001, 0.002, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 20, 30, 60)


class Metrics:
    """One registry per running extender, so that several can live in one process."""

    def __init__(
        self, state: Callable[[], State], bandwidth_ratio: float = 1.0, *, leads: Callable[[], bool] = lambda: True
    ) -> None:
        """``state`` gives the present core's. ``bandwidth_ratio``: the parameter of the modelled slowdown
        (``extender.quality``)."""
        self._registry = CollectorRegistry()
        self.verb_seconds = Histogram(
            "muster_verb_duration_seconds",
            "Time from a request's arrival to its answer; for bind this includes the hold.",
            ["verb"],
            buckets=_BUCKETS,
            registry=self._registry,
        )
        self.verb_calls = Counter(
            "muster_verb_calls", "Requests by verb and how they ended.", ["verb", "outcome"], registry=self._registry
        )
        self.writes = Counter(
            "muster_api_writes", "Writes to the API server by kind and outcome.", ["kind", "outcome"],
            registry=self._registry,
        )  # fmt: skip
        self._registry.register(_Gangs(state, leads))
        self._registry.register(_Placement(state, bandwidth_ratio))
        self._registry.register(Comparison(state))

    def answered(self, verb: str, outcome: str, seconds: float) -> None:
        """A verb was answered: ok, error, or gone when nobody waited any more."""
        self.verb_calls.labels(verb, outcome).inc()
        self.verb_seconds.labels(verb).observe(seconds)

    def render(self) -> bytes:
        return generate_latest(self._registry)


class _Gangs(Collector):
    """Counted when asked for: the state is the only place that knows."""

    def __init__(self, state: Callable[[], State], leads: Callable[[], bool]) -> None:
        self._state = state
        self._leads = leads

    def describe(self) -> Iterable[Metric]:
        """Nothing in advance: there is no state yet."""
        return ()

    def collect(self) -> Iterator[Metric]:
        state = self._state()
        by_state = GaugeMetricFamily("muster_gangs", "Gangs by the code of their current reason.", labels=["state"])
        tally = Tally(gang.reason.code for gang in state.gangs.values())
        for code, count in sorted(tally.items()):
            by_state.add_metric([code], count)
        yield by_state
        yield GaugeMetricFamily("muster_held_binds", "Bind requests held now.", value=len(state.calls))
        yield GaugeMetricFamily("muster_synced", "1 once every list has been read.", value=float(state.synced))
        yield GaugeMetricFamily(
            "muster_leader", "1 while this replica acts, 0 while it stands by.", value=self._leads()
        )
        yield _advised(state)


class _Placement(Collector):
    """How well the gangs are placed, and what the domains have left."""

    def __init__(self, state: Callable[[], State], bandwidth_ratio: float) -> None:
        self._state = state
        self._bandwidth_ratio = bandwidth_ratio

    def describe(self) -> Iterable[Metric]:
        """Nothing in advance: it would be worked out for that."""
        return ()

    def collect(self) -> Iterator[Metric]:
        state = self._state()
        found = quality(state.gangs.values(), state.ledger.snapshot(), self._bandwidth_ratio)
        for name, text, of in _BY_LEVEL:
            family = GaugeMetricFamily(name, text, labels=["level"])
            for level, one in found.levels.items():
                family.add_metric([level], of(one))
            yield family
        domains = GaugeMetricFamily(
            "muster_domains", "Domains with GPUs, of which none, some or all are in use.", labels=["level", "state"]
        )
        for level, one in found.levels.items():
            for kind in ("whole", "broken", "full"):
                domains.add_metric([level, kind], getattr(one.domains, kind))
        yield domains
        largest = GaugeMetricFamily(
            "muster_largest_gang_nodes",
            "Whole nodes of the most common kind with GPUs that a gang could have now inside one domain.",
            labels=["level"],
        )
        for level, nodes in found.largest.items():
            largest.add_metric([level], nodes)
        yield largest
        yield GaugeMetricFamily(
            "muster_modelled_allreduce_slowdown_ratio",
            "MODELLED, not measured: time of a ring all-reduce over the least possible, in the mean over gangs, from "
            "the slowest link alone; the setting allreduce_bandwidth_ratio is its parameter.",
            value=found.slowdown,
        )


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


def _advised(state: State) -> CounterMetricFamily:
    family = CounterMetricFamily(
        "muster_advisory_verdicts",
        "In advisory mode: filter calls of gangs' pods that enforcing would have rejected or passed, and binds that it "
        "would have held.",
        labels=["verdict"],
    )
    for verdict in ("would_reject", "would_hold", "would_pass"):
        family.add_metric([verdict], state.advised[verdict])
    return family
