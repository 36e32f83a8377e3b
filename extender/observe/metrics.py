"""What /metrics tells: how long the verbs take and how they end, what is written, and how the gangs stand."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from importlib.metadata import version

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest
from prometheus_client.core import Metric

from extender.core.effects import Turned
from extender.core.state import State
from extender.core.turns import DEADLINES, Cause, Turn
from extender.observe.comparison import comparison
from extender.observe.gauges import Computed, placement, standing
from extender.runtime.observer import Observer

_BUCKETS = (0.0005, 0.001, 0.002, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 20, 30, 60)
_WAITS = (0.1, 0.5, 1, 2.5, 5, 10, 30, 60, 300, 900, 3600, 4 * 3600, 24 * 3600, 7 * 24 * 3600)
_SIZES = ((1, "1"), (8, "2-8"), (64, "9-64"), (512, "65-512"))
_LARGEST = "513+"
REFUSALS = ("body", "browser", "connections", "headers", "host", "malformed", "slow")


class Metrics(Observer):
    """One registry per running extender, so that several can live in one process."""

    def __init__(
        self,
        state: Callable[[], State],
        bandwidth_ratio: float = 1.0,
        *,
        leads: Callable[[], bool] = lambda: True,
        ages: Callable[[], Mapping[str, float]] = dict,
        now: Callable[[], float] = time.time,
    ) -> None:
        """``state`` gives the present core's. ``bandwidth_ratio``: the parameter of the modelled slowdown
        (``quality.py``). ``ages``: seconds since something was heard of each kind that is followed. ``now``: in seconds
        since the epoch, as pods' creation."""
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
        self.retries = Counter(
            "muster_api_write_retries", "Writes to the API server that were sent once more, by kind.", ["kind"],
            registry=self._registry,
        )  # fmt: skip
        self.holds = Counter("muster_bind_holds", "Binds that had to wait for their gang.", registry=self._registry)
        self._refusals = Counter(
            "muster_http_refused",
            "Requests and connections of callers that were refused, by cause.",
            ["cause"],
            registry=self._registry,
        )
        for cause in REFUSALS:
            self._refusals.labels(cause)
        self._turns = _Turns(self._registry)
        self.pass_seconds = Histogram(
            "muster_admission_pass_duration_seconds",
            "Time spent in one pass over the waiting gangs, questions answered in between not counted.",
            buckets=_BUCKETS,
            registry=self._registry,
        )
        build = Gauge("muster_build_info", "Always 1; the version of Muster.", ["version"], registry=self._registry)
        build.labels(version("muster-scheduler")).set(1)
        self._registry.register(Computed(lambda: standing(state(), leads=leads(), ages=ages(), now=now())))
        self._registry.register(Computed(lambda: placement(state(), bandwidth_ratio)))
        self._registry.register(Computed(lambda: comparison(state())))

    def answered(self, verb: str, outcome: str, seconds: float) -> None:
        """A verb was answered: ok, error, or gone when nobody waited any more."""
        self.verb_calls.labels(verb, outcome).inc()
        self.verb_seconds.labels(verb).observe(seconds)

    def wrote(self, kind: str, outcome: str) -> None:
        self.writes.labels(kind, outcome).inc()

    def retried(self, kind: str) -> None:
        """A write to the API server is sent once more."""
        self.retries.labels(kind).inc()

    def refused(self, cause: str) -> None:
        """A request or a connection was refused for one of REFUSALS."""
        self._refusals.labels(cause).inc()

    def turned(self, turn: Turned) -> None:
        self._turns.count(turn)

    def passed(self, seconds: float) -> None:
        self.pass_seconds.observe(seconds)

    def families(self) -> list[Metric]:
        """Everything that is told, as of now."""
        return list(self._registry.collect())

    def render(self) -> bytes:
        return generate_latest(self._registry)


class _Turns:
    """What becomes of gangs, counted turn by turn."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self._plans = Counter("muster_gang_plans", "Placements found for whole gangs.", registry=registry)
        self._releases = Counter("muster_gang_releases", "Gangs whose Bindings were posted.", registry=registry)
        self._starts = Counter("muster_gang_starts", "Gangs that became whole.", registry=registry)
        self._broken = Counter(
            "muster_gang_broken_releases", "Releases that broke off with part of the gang bound.", registry=registry
        )
        self._replans = Counter(
            "muster_gang_replans", "Placements that were taken back, by cause; the gang is planned anew.", ["cause"],
            registry=registry,
        )  # fmt: skip
        self._deadlines = Counter(
            "muster_gang_deadlines", "Of those, placements whose time ran out: held binds, or plans not taken up.",
            ["deadline"], registry=registry,
        )  # fmt: skip
        self._waits = Histogram(
            "muster_gang_wait_seconds", "From the first sight of a member until the gang was whole, by its minMember.",
            ["size"], buckets=_WAITS, registry=registry,
        )  # fmt: skip
        self._holds = Histogram(
            "muster_gang_hold_seconds", "From the first bind of a gang that was held until all were released.",
            buckets=_BUCKETS, registry=registry,
        )  # fmt: skip
        # A rate of what has not happened yet is 0 and not unknown.
        for cause in Cause:
            self._replans.labels(cause)
        for cause in DEADLINES:
            self._deadlines.labels(_deadline(cause))
        for size in (*(name for _, name in _SIZES), _LARGEST):
            self._waits.labels(size)

    def count(self, turn: Turned) -> None:
        match turn.turn:
            case Turn.PLANNED:
                self._plans.inc()
            case Turn.RELEASED:
                self._releases.inc()
                self._holds.observe(turn.after_s)
            case Turn.STARTED:
                self._starts.inc()
                self._waits.labels(size_of(turn.size)).observe(turn.after_s)
            case Turn.BROKEN:
                self._broken.inc()
            case Turn.FORGOTTEN if turn.cause is not None:
                self._replans.labels(turn.cause).inc()
                if turn.cause in DEADLINES:
                    self._deadlines.labels(_deadline(turn.cause)).inc()


def size_of(members: int) -> str:
    """The class of sizes that a gang is counted in."""
    return next((name for most, name in _SIZES if members <= most), _LARGEST)


def _deadline(cause: Cause) -> str:
    return cause.removesuffix("-deadline")
