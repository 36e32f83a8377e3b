"""What /metrics tells: how long the verbs take and how they end, what is written, and how the gangs stand."""

from __future__ import annotations

from collections import Counter as Tally
from collections.abc import Iterator

from prometheus_client import CollectorRegistry, Counter, Histogram, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from extender.core.state import State

_BUCKETS = (0.0005, 0.001, 0.002, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 20, 30, 60)


class Metrics:
    """One registry per running extender, so that several can live in one process."""

    def __init__(self, state: State) -> None:
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
        self._registry.register(_Gangs(state))

    def answered(self, verb: str, outcome: str, seconds: float) -> None:
        """A verb was answered: ok, error, or gone when nobody waited any more."""
        self.verb_calls.labels(verb, outcome).inc()
        self.verb_seconds.labels(verb).observe(seconds)

    def render(self) -> bytes:
        return generate_latest(self._registry)


class _Gangs(Collector):
    """Counted when asked for: the state is the only place that knows."""

    def __init__(self, state: State) -> None:
        self._state = state

    def collect(self) -> Iterator[Metric]:
        by_state = GaugeMetricFamily("muster_gangs", "Gangs by the code of their current reason.", labels=["state"])
        tally = Tally(gang.reason.code for gang in self._state.gangs.values())
        for code, count in sorted(tally.items()):
            by_state.add_metric([code], count)
        yield by_state
        yield GaugeMetricFamily("muster_held_binds", "Bind requests held now.", value=len(self._state.calls))
        yield GaugeMetricFamily("muster_synced", "1 once every list has been read.", value=float(self._state.synced))
        yield _advised(self._state)


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
