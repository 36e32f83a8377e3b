"""The metrics at /metrics: duration and outcome of the verbs, writes to the API server, and the state of the gangs."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping
from functools import cache
from importlib.metadata import version

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest
from prometheus_client.core import Metric

from extender.core.effects import DEADLINES, Cause, Milestone, Reached
from extender.core.ledger.state import State
from extender.observe.gauges import Computed, comparison, failed, placement, queue_gauges, standing
from extender.observe.queues import Reports
from extender.runtime.observer import Observer
from extender.runtime.quarantine import NOTHING_LEFT_OUT, Quarantine
from policies.preemption.allowed import Why

_BUCKETS = (0.0005, 0.001, 0.002, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 20, 30, 60)
_WAITS = (0.1, 0.5, 1, 2.5, 5, 10, 30, 60, 300, 900, 3600, 4 * 3600, 24 * 3600, 7 * 24 * 3600)
_SIZES = ((1, "1"), (8, "2-8"), (64, "9-64"), (512, "65-512"))
_LARGEST = "513+"
_PREEMPTIONS = {Milestone.PREEMPTING: "begun", Milestone.WOULD_PREEMPT: "dry-run", Milestone.UNRESERVED: "failed"}
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
        queues: Callable[[], Reports] = dict,
        quarantine: Callable[[], Quarantine] = lambda: NOTHING_LEFT_OUT,
    ) -> None:
        """``state`` gives the present core's. ``bandwidth_ratio``: the parameter of the modelled slowdown
        (``quality.py``). ``ages``: seconds since something was heard of each kind that is followed. ``now``: in seconds
        since the epoch, as pods' creation. ``queues``: how each queue object stands. ``quarantine``: what the core
        has failed on."""
        self._registry = CollectorRegistry()
        seconds = self._histogram(
            "verb_duration_seconds", "Time from a request's arrival to its answer; for bind this includes the hold.",
            label="verb",
        )  # fmt: skip
        # Of what is counted several times for each pod, the child of its labels is looked up once.
        calls = self._counter("verb_calls", "Requests by verb and how they ended.", "verb", "outcome")
        writes = self._counter("api_writes", "Writes to the API server by kind and outcome.", "kind", "outcome")
        self._seconds_of = cache(lambda verb: seconds.labels(verb))
        self._calls_of = cache(lambda verb, outcome: calls.labels(verb, outcome))
        self._writes_of = cache(lambda kind, outcome: writes.labels(kind, outcome))
        self._retries = self._counter(
            "api_write_retries", "Writes to the API server that were sent once more, by kind.", "kind"
        )
        self.holds = self._counter("bind_holds", "Binds that had to wait for their gang.")
        self._refusals = self._counter(
            "http_refused", "Requests and connections of callers that were refused, by cause.", "cause"
        )
        self._plans = self._counter("gang_plans", "Placements found for whole gangs.")
        self._releases = self._counter("gang_releases", "Gangs whose Bindings were posted.")
        self._starts = self._counter("gang_starts", "Gangs that became whole.")
        self._broken = self._counter("gang_broken_releases", "Releases that broke off with part of the gang bound.")
        self._replans = self._counter(
            "gang_replans", "Placements that were taken back, by cause; the gang is planned anew.", "cause"
        )
        self._deadlines = self._counter(
            "gang_deadlines", "Of those, placements whose time ran out: held binds, or plans not taken up.", "deadline"
        )
        self._preemptions = self._counter(
            "preemptions", "Workloads that others gave way to, by what came of it.", "outcome"
        )
        self._victims = self._counter("preemption_victims", "Those who were to give way, by the rule for it.", "reason")
        self._gang_waits = self._histogram(
            "gang_wait_seconds", "From the first sight of a member until the gang was whole, by its minMember.",
            buckets=_WAITS, label="size",
        )  # fmt: skip
        self._gang_holds = self._histogram(
            "gang_hold_seconds", "From the first bind of a gang that was held until all were released."
        )
        self._pass_seconds = self._histogram(
            "admission_pass_duration_seconds",
            "Time spent in one pass over the waiting gangs, questions answered in between not counted.",
        )
        # The rate of what has not happened yet is 0, not unknown.
        for family, known in (
            (self._refusals, REFUSALS),
            (self._replans, Cause),
            (self._deadlines, map(_deadline, DEADLINES)),
            (self._preemptions, _PREEMPTIONS.values()),
            (self._victims, Why),
            (self._gang_waits, (*(name for _, name in _SIZES), _LARGEST)),
        ):
            _known_beforehand(family, known)
        build = Gauge("muster_build_info", "Always 1; the version of Muster.", ["version"], registry=self._registry)
        build.labels(version("muster-scheduler")).set(1)
        self._registry.register(Computed(lambda: standing(state(), leads=leads(), ages=ages(), now=now())))
        self._registry.register(Computed(lambda: failed(quarantine())))
        self._registry.register(Computed(lambda: placement(state(), bandwidth_ratio)))
        self._registry.register(Computed(lambda: comparison(state())))
        self._registry.register(Computed(lambda: queue_gauges(state(), queues())))

    def answered(self, verb: str, outcome: str, seconds: float) -> None:
        """A verb was answered: ok, error, or gone when nobody waited any more."""
        self._calls_of(verb, outcome).inc()
        self._seconds_of(verb).observe(seconds)

    def wrote(self, kind: str, outcome: str) -> None:
        self._writes_of(kind, outcome).inc()

    def retried(self, kind: str) -> None:
        self._retries.labels(kind).inc()

    def refused(self, cause: str) -> None:
        """A request or a connection was refused for one of REFUSALS."""
        self._refusals.labels(cause).inc()

    def passed(self, seconds: float) -> None:
        self._pass_seconds.observe(seconds)

    def reached(self, effect: Reached) -> None:
        match effect.milestone:
            case Milestone.PLANNED:
                self._plans.inc()
            case Milestone.RELEASED:
                self._releases.inc()
                self._gang_holds.observe(effect.after_s)
            case Milestone.STARTED:
                self._starts.inc()
                self._gang_waits.labels(size_of(effect.size)).observe(effect.after_s)
            case Milestone.BROKEN:
                self._broken.inc()
            case Milestone.PREEMPTING | Milestone.WOULD_PREEMPT | Milestone.UNRESERVED:
                self._preemptions.labels(_PREEMPTIONS[effect.milestone]).inc()
                for rule in effect.rules:
                    self._victims.labels(rule).inc()
            case Milestone.FORGOTTEN if effect.cause is not None:
                self._replans.labels(effect.cause).inc()
                if effect.cause in DEADLINES:
                    self._deadlines.labels(_deadline(effect.cause)).inc()

    def families(self) -> list[Metric]:
        """All metrics as of now."""
        return list(self._registry.collect())

    def render(self) -> bytes:
        return generate_latest(self._registry)

    def _counter(self, name: str, text: str, *labels: str) -> Counter:
        return Counter(f"muster_{name}", text, labels, registry=self._registry)

    def _histogram(self, name: str, text: str, buckets: tuple[float, ...] = _BUCKETS, label: str = "") -> Histogram:
        labels = [label] if label else []
        return Histogram(f"muster_{name}", text, labels, buckets=buckets, registry=self._registry)


def size_of(members: int) -> str:
    """The class of sizes that a gang is counted in."""
    return next((name for most, name in _SIZES if members <= most), _LARGEST)


def _known_beforehand(family: Counter | Histogram, values: Iterable[str]) -> None:
    for value in values:
        family.labels(value)


def _deadline(cause: Cause) -> str:
    return cause.removesuffix("-deadline")
