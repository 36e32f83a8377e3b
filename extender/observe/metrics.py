"""The metrics at /metrics: some are counted as things happen, the others are computed from the state on each request.

Metrics of queues have Kueue's names where they mean the same: https://kueue.sigs.k8s.io/docs/reference/metrics/
"""

from __future__ import annotations

import time
from collections import Counter as Tally
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cache
from importlib.metadata import version
from typing import Any

import numpy as np
from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from extender.core.effects import DEADLINES, Milestone, Reached, RevokedFor
from extender.core.explain.reasons import code_of
from extender.core.ledger.claims import SlotOf
from extender.core.ledger.state import State
from extender.core.workload.workload import Workload
from extender.observe.quality import codes_of, gpu_kinds, gpus_of, quality
from extender.observe.queues import Reports
from extender.observe.utilisation import UNASKED, Utilisation
from extender.runtime.compare import Kind
from extender.runtime.driver import Observer
from extender.runtime.quarantine import NOTHING_LEFT_OUT, Quarantine
from extender.runtime.slices import Slices
from policies.model import CLIQUE
from policies.model.queues import ClusterQueue, FlavorResource, QueueReport
from policies.placement.snapshot import Level, Snapshot
from policies.preemption.allowed import Why
from policies.quota.tree import quotas_of
from policies.steps import Steps, finish, with_pauses

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

_BUCKETS = (0.0005, 0.001, 0.002, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 20, 30, 60)
_WAITS = (0.1, 0.5, 1, 2.5, 5, 10, 30, 60, 300, 900, 3600, 4 * 3600, 24 * 3600, 7 * 24 * 3600)
_QUANTILES = (0.1, 0.5, 0.9)
_SIZES = ((1, "1"), (8, "2-8"), (64, "9-64"), (512, "65-512"))
_LARGEST = "513+"
_PREEMPTIONS = {Milestone.PREEMPTING: "begun", Milestone.WOULD_PREEMPT: "dry-run", Milestone.UNRESERVED: "failed"}
_FAMILY = 40
"""The cost of a family in units of ``Steps``: it is computed and written."""
_CHECKS = "agrees", "differs", "failed"
REFUSALS = ("body", "browser", "connections", "headers", "host", "malformed", "slow")


class Metrics(Observer):
    """A registry for one running extender, so that several extenders can live in one process."""

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
        utilisation: Callable[[], tuple[Utilisation, float]] = lambda: (UNASKED, 0.0),
    ) -> None:
        """Make the registry and its metrics.

        ``state``: returns the state of the present core.
        ``bandwidth_ratio``: the parameter of the modelled slowdown (``quality.py``).
        ``ages``: seconds since the last answer about each followed kind.
        ``now``: seconds since the epoch, as the pods' creation times.
        ``queues``: returns the report of each queue object.
        ``quarantine``: returns what the core has failed on.
        ``utilisation``: returns how busy GPUs are, and the present instant.
        """
        self._registry = CollectorRegistry()
        seconds = self._histogram(
            "verb_duration_seconds", "From a request's arrival to its answer; of bind with the hold.",
            label="verb",
        )  # fmt: skip
        # Labels that are counted several times for each pod are looked up once.
        calls = self._counter("verb_calls", "Answered requests.", "verb", "outcome")
        writes = self._counter("api_writes", "Writes to the API server.", "kind", "outcome")
        self._seconds_of = cache(lambda verb: seconds.labels(verb))
        self._calls_of = cache(lambda verb, outcome: calls.labels(verb, outcome))
        self._writes_of = cache(lambda kind, outcome: writes.labels(kind, outcome))
        self._retries = self._counter("api_write_retries", "Writes that were sent once more.", "kind")
        self.holds = self._counter("bind_holds", "Binds that had to wait for their gang.")
        self._refusals = self._counter("http_refused", "Refused requests and connections of callers.", "cause")
        self._plans = self._counter("gang_plans", "Placements found for whole gangs.")
        self._releases = self._counter("gang_releases", "Gangs whose Bindings were posted.")
        self._starts = self._counter("gang_starts", "Gangs that became whole.")
        self._broken = self._counter("gang_broken_releases", "Releases that broke off with part of the gang bound.")
        self._replans = self._counter("gang_replans", "Revoked placements; the gang is planned again.", "cause")
        self._deadlines = self._counter("gang_deadlines", "Of those, placements whose time ran out.", "deadline")
        self._preemptions = self._counter("preemptions", "Workloads for which others were evicted.", "outcome")
        self._victims = self._counter("preemption_victims", "Victims, by the rule that allowed it.", "reason")
        self._reservations = self._counter("reservations", "Reservations made for workloads that lack room.")
        self._gang_waits = self._histogram(
            "gang_wait_seconds", "From the first sight of a member until the gang was whole.",
            buckets=_WAITS, label="size",
        )  # fmt: skip
        self._gang_holds = self._histogram("gang_hold_seconds", "From a gang's first held bind until the release.")
        self._pass_seconds = self._histogram(
            "admission_pass_duration_seconds",
            "Time of a pass over the waiting gangs, without calls answered in between.",
        )
        self._checks = self._counter("verify_checks", "Ended self-checks.", "outcome")
        self._drift = self._counter("verify_differences", "Differences that two self-checks in a row found.", "kind")
        self._check_seconds = self._histogram("verify_duration_seconds", "Duration of a self-check.")
        self._verify_restarts = self._counter("verify_restarts", "Starts of a new core because of such differences.")
        # Without this, the rate of something that has not happened yet is unknown instead of 0.
        for family, known in (
            (self._refusals, REFUSALS),
            (self._replans, RevokedFor),
            (self._deadlines, map(_deadline, DEADLINES)),
            (self._preemptions, _PREEMPTIONS.values()),
            (self._victims, Why),
            (self._checks, _CHECKS),
            (self._drift, (kind.value for kind in Kind)),
            (self._gang_waits, (*(name for _, name in _SIZES), _LARGEST)),
        ):
            _known_beforehand(family, known)
        build = Gauge("muster_build_info", "Always 1; the version of Muster.", ["version"], registry=self._registry)
        build.labels(version("muster-scheduler")).set(1)
        self._state = state
        self._computed: tuple[Callable[[], Iterator[Metric | None]], ...] = (
            lambda: standing(state(), leads=leads(), ages=ages(), now=now()),
            lambda: failed(quarantine()),
            lambda: placement(state(), bandwidth_ratio),
            lambda: comparison(state()),
            lambda: reserved(state(), now()),
            lambda: device_gauges(state()),
            lambda: utilisation_gauges(state(), *utilisation()),
            lambda: queue_gauges(state(), queues()),
        )
        """Functions that compute metrics at every scrape, each with None at the end of a step without one."""

    def answered(self, verb: str, outcome: str, seconds: float) -> None:
        """Count an answered call: ok, error, or gone if kube-scheduler no longer waited."""
        self._calls_of(verb, outcome).inc()
        self._seconds_of(verb).observe(seconds)

    def wrote(self, kind: str, outcome: str) -> None:
        self._writes_of(kind, outcome).inc()

    def retried(self, kind: str) -> None:
        self._retries.labels(kind).inc()

    def refused(self, cause: str) -> None:
        """Count a request or connection that was refused for one of REFUSALS."""
        self._refusals.labels(cause).inc()

    def passed(self, seconds: float) -> None:
        self._pass_seconds.observe(seconds)

    def verified(self, outcome: str, seconds: float) -> None:
        self._checks.labels(outcome).inc()
        self._check_seconds.observe(seconds)

    def drifted(self, kinds: Sequence[Kind]) -> None:
        for kind in kinds:
            self._drift.labels(kind.value).inc()

    def restarted(self) -> None:
        self._verify_restarts.inc()

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
            case Milestone.RESERVED:
                self._reservations.inc()
            case Milestone.FORGOTTEN if effect.cause is not None:
                self._replans.labels(effect.cause).inc()
                if effect.cause in DEADLINES:
                    self._deadlines.labels(_deadline(effect.cause)).inc()

    def families(self) -> list[Metric]:
        """All metrics as of now."""
        return [family for family in self._collect() if family is not None]

    def render(self) -> bytes:
        """Return the page, made at once."""
        return finish(self._rendering())

    async def page(self) -> bytes:
        """Return the page, made in slices: each family describes a moment since the request."""
        return await Slices(pausing=lambda: self._state().claims.lend()).run(self._rendering())

    def _rendering(self) -> Steps[bytes]:
        texts: list[bytes] = []
        for family in self._collect():
            if family is not None:
                texts.append(generate_latest(_Alone(family)))
            yield _FAMILY
        return b"".join(texts)

    def _collect(self) -> Iterator[Metric | None]:
        yield from self._registry.collect()
        for compute in self._computed:
            yield from compute()

    def _counter(self, name: str, text: str, *labels: str) -> Counter:
        return Counter(f"muster_{name}", text, labels, registry=self._registry)

    def _histogram(self, name: str, text: str, buckets: tuple[float, ...] = _BUCKETS, label: str = "") -> Histogram:
        labels = [label] if label else []
        return Histogram(f"muster_{name}", text, labels, buckets=buckets, registry=self._registry)


def size_of(members: int) -> str:
    """The class of sizes in which the gang is counted."""
    return next((name for most, name in _SIZES if members <= most), _LARGEST)


def _known_beforehand(family: Counter | Histogram, values: Iterable[str]) -> None:
    for value in values:
        family.labels(value)


def _deadline(cause: RevokedFor) -> str:
    return cause.removesuffix("-deadline")


class _Alone(Collector):
    """A collector of one family."""

    def __init__(self, family: Metric) -> None:
        self._family = family

    def collect(self) -> Iterator[Metric]:
        yield self._family


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
    """A gauge or counter with a value for each label value. ``labels``: names of the labels, with spaces between."""
    family = kind(f"muster_{name}", text, labels=labels.split())
    for key, value in values.items():
        family.add_metric([key] if isinstance(key, str) else key, value)
    return family


def standing(state: State, *, leads: bool, ages: Mapping[str, float], now: float) -> Iterator[Metric]:
    """Yield the state of the gangs and of the process. ``now``: seconds since the epoch, like creation times."""
    tally = Tally(code_of(gang.reason_state.cause) for gang in state.workloads.values())
    yield gauges("gangs", "Gangs, by the code of their reason.", "state", dict(sorted(tally.items())))
    yield gauge(
        "oldest_waiting_gang_seconds",
        "Age of the oldest gang that waits for its start: since its first pod without a node, or its job, was "
        "created, or the job was stopped. Jobs on hold or with the reason InvalidJob do not count.",
        _longest_wait_s(state, now),
    )
    yield gauges(
        "expected_start_ratio",
        "Wait over the wait expected at first: quantiles of the last 100 starts in a ClusterQueue.",
        "cluster_queue quantile",
        {
            (queue, f"{quantile}"): float(np.quantile(errors, quantile))
            for queue, errors in sorted(state.expectations.errors.items())
            for quantile in _QUANTILES
        },
    )
    yield gauge("nodes", "Nodes of the cluster.", len(state.claims.nodes))
    yield gauge("pods", "Pods of the cluster.", len(state.pods))
    yield gauge("held_binds", "Bind requests held now.", len(state.binds.held))
    yield gauge("synced", "1 once every list has been read.", state.process.synced)
    yield gauge("leader", "1 while this replica acts, 0 while it stands by.", leads)
    yield gauges(
        "watch_age_seconds",
        "Time since the API server last answered about a kind. Usually below 30; above 90 the replica is not ready.",
        "kind",
        dict(sorted(ages.items())),
    )
    yield gauges(
        "advisory_verdicts",
        "In advisory mode: what enforcing would have done with filter calls and binds of gangs' pods.",
        "verdict",
        {verdict: state.counts.advised[verdict] for verdict in ("would_reject", "would_hold", "would_pass")},
        CounterMetricFamily,
    )
    yield CounterMetricFamily(
        "muster_unpinned_pods",
        "Pods of started jobs without the node of their plan: the admission policy failed.",
        value=state.counts.unpinned,
    )
    yield gauges(
        "policy_failures",
        "Exceptions and invalid results of a policy.",
        "policy",
        dict(sorted(state.counts.policy_errors.items())),
        CounterMetricFamily,
    )


def failed(quarantine: Quarantine) -> Iterator[Metric]:
    """Yield how many objects the core has failed on, and whether planning pauses."""
    yield gauge(
        "left_out_objects",
        "Objects that the core failed on and leaves out until they change.",
        len(quarantine.left_out()),
    )
    yield gauge(
        "planning_paused",
        "1 while nothing is planned, because the core failed too often without a known object.",
        quarantine.pause_s > 0,
    )


def placement(state: State, bandwidth_ratio: float) -> Iterator[Metric | None]:
    """Yield how well the gangs are placed, and what the domains have left."""
    steps = quality(list(state.workloads.values()), state.claims.snapshot(), bandwidth_ratio)
    measured = yield from with_pauses(steps, None)
    for name, text in _BY_LEVEL.items():
        ratios = {level: getattr(level_quality, name) for level, level_quality in measured.levels.items()}
        yield gauges(f"placement_{name}_ratio", text, "level", ratios)
    domains = {
        (level, use): count for level, at_level in measured.levels.items() for use, count in at_level.domains.items()
    }
    yield gauges("domains", "Domains with GPUs, by how many of these are in use.", "level state", domains)
    yield gauges(
        "gpus",
        "GPUs of all nodes: used or promised, free, or free on closed nodes.",
        "state",
        measured.gpus,
    )
    yield gauges(
        "largest_gang_nodes",
        "Most whole nodes, of the most common kind with GPUs, that a gang could get now in one domain.",
        "level",
        measured.largest,
    )
    yield gauge(
        "modelled_allreduce_slowdown_ratio",
        "MODELLED from allreduce_bandwidth_ratio, not measured: time of a ring all-reduce over the least "
        "possible, by the slowest link, in the mean over gangs.",
        measured.slowdown,
    )


def reserved(state: State, now: float) -> Iterator[Metric]:
    """Yield what is reserved for workloads that wait for others to end. ``now``: in seconds since the epoch."""
    backfills, kinds = state.backfills, gpu_kinds(state.claims.snapshot())
    idle_s = backfills.idle_s(now + state.process.wall_offset)
    yield gauge("reserved_workloads", "Workloads that have a reservation.", len(backfills.of))
    yield gauges(
        "reserved_idle_gpus",
        "Free GPUs that are kept for these workloads.",
        "resource",
        {kind: backfills.idle[kind] for kind in kinds},
    )
    yield gauges(
        "reserved_idle_gpu_seconds",
        "The same, times the seconds for which they were kept.",
        "resource",
        {kind: idle_s.get(kind, 0.0) for kind in kinds},
        CounterMetricFamily,
    )


def _longest_wait_s(state: State, now: float) -> float:
    """The longest wait in seconds. It counts from creation, because Muster sees a gang later after every restart."""
    since = [now]
    for gang in state.workloads.values():
        if gang.job is not None and gang.job.waits:
            since.append(max(gang.job.seen.created, gang.job.stopped_at - state.process.wall_offset))
        elif not gang.release.complete:
            since += (pod.created for pod in gang.live if not pod.node)
    return max(0.0, now - min(since))


def comparison(state: State) -> Iterator[Metric]:
    """Yield the metrics of advisory mode, and the contradictions between labels."""
    gangs, view = state.workloads.values(), state.claims.snapshot()
    yield gauge(
        "stranded_gpus",
        "GPUs of bound members whose gang lacks its quorum: in advisory mode, what enforcing would save. "
        "Else 0, except during a release.",
        sum(map(stranded, gangs)),
    )
    domains: dict[tuple[str, str], int] = {}
    for level in view.levels:
        used, advised = against_advice(gangs, level, view)
        domains |= {(level.name, "used"): used, (level.name, "advised"): advised}
    yield gauges(
        "advisory_domains",
        "In advisory mode: domains that running gangs use, and would use as advised.",
        "level placement",
        domains,
    )
    torn = {level.name: len(level.torn) for level in view.levels}
    yield gauges("topology_contradictions", "Domains that lie in two domains farther out.", "level", torn)


def stranded(gang: Workload) -> int:
    """GPUs of the gang's bound members, as long as those are too few for it to run."""
    if gang.has_bound_quorum or gang.release.complete:
        return 0
    return sum(gpus_of(pod.requests) for pod in gang.bound)


def against_advice(gangs: Iterable[Workload], level: Level, snapshot: Snapshot) -> tuple[int, int]:
    """How many domains complete, advised gangs use, and how many the advice would have used."""
    codes = codes_of(level)
    used = advised = 0
    for gang in gangs:
        if gang.advised and gang.has_bound_quorum:
            nodes = [(pod.node or "", gang.advised.get(pod.uid, "")) for pod in gang.bound]
            pairs = [(snapshot.rows.get(node), snapshot.rows.get(advice)) for node, advice in nodes]
            rows = np.array([pair for pair in pairs if None not in pair], dtype=np.intp)
            if len(rows) == len(pairs):
                used, advised = used + len(np.unique(codes[rows[:, 0]])), advised + len(np.unique(codes[rows[:, 1]]))
    return used, advised


def device_gauges(state: State) -> Iterator[Metric]:
    """Yield DRA's devices, the claims to them, and ComputeDomains; nothing without a DeviceClass."""
    devices = state.devices
    if not devices.classes.seen:
        return
    allocated = devices.allocated()
    of_drivers = Tally((key.driver, "allocated" if key in allocated else "free") for key in devices.inventory.known)
    yield gauges(
        "devices",
        "Devices that drivers publish: allocated to ResourceClaims, or free (promised ones, too).",
        "driver state",
        dict(sorted(of_drivers.items())),
    )
    yield gauges(
        "promised_devices",
        "Devices of pods with a promised node that are not bound.",
        "class",
        {name: much for name, much in sorted(_promised(state).items()) if name in devices.classes.seen},
    )
    yield gauge(
        "unreserved_allocations",
        "ResourceClaims with devices that no pod has reserved: no other pod gets these. A failed start "
        "leaves some for a moment.",
        sum(claim.allocation is not None and not claim.reserved_for for claim in devices.claims.values()),
    )
    claiming = Tally(code_of(gang.reason_state.cause) for gang in state.workloads.values() if _claims_devices(gang))
    yield gauges(
        "device_gangs",
        "Gangs whose pods claim devices, by the code of their reason.",
        "state",
        dict(sorted(claiming.items())),
    )
    yield gauges(
        "compute_domains",
        "ComputeDomains without a pod on a node, with all pods in one NVLink clique, or divided among cliques.",
        "state",
        _domains_by_use(state),
    )


def _promised(state: State) -> Tally[str]:
    """Count the devices that promised pods claim, by each name under which quota may count them."""
    promised = Tally[str]()
    for owner, claim in state.claims:
        if not claim.promised:
            continue
        pod = state.pods.get(owner) if isinstance(owner, str) else None
        if isinstance(owner, SlotOf) and (gang := state.workloads.get(owner.workload)) is not None:
            pod = gang.members.slots.templates.get(owner.slot)
        promised.update(dict(pod.by_class) if pod is not None else {})
    return promised


def _claims_devices(gang: Workload) -> bool:
    podsets = gang.podsets.podsets if gang.podsets is not None else ()
    return any(member.pod.device_claims for member in gang.members) or any(
        pod.device_claims for podset in podsets for pod in podset.templates
    )


def _domains_by_use(state: State) -> dict[str, int]:
    cliques: dict[str, set[str]] = {uid: set() for uid in state.devices.domains.seen}
    for pod in state.pods.values():
        node = state.claims.nodes.get(pod.node or "") if pod.compute_domain in cliques and pod.live else None
        if node is not None:
            cliques[pod.compute_domain].add(node.labels.get(CLIQUE, ""))
    uses = Tally(
        "divided" if len(domain_uses) > 1 else "together" if domain_uses else "idle" for domain_uses in cliques.values()
    )
    return {use: uses[use] for use in ("idle", "together", "divided")}


def utilisation_gauges(state: State, utilisation: Utilisation, now: float) -> Iterator[Metric | None]:
    """Yield how busy the GPUs of gangs are; nothing where no Prometheus is asked."""
    if not utilisation.on:
        return
    yield gauge(
        "gpu_utilisation_known",
        "With prometheus_url: 1 while that Prometheus says how busy GPUs are.",
        not utilisation.problem,
    )
    queues = sorted((yield from with_pauses(utilisation.by_queue(state, now), None)).items())
    yield gauges(
        "gang_gpu_utilisation_ratio",
        "Mean utilisation of the GPUs of a ClusterQueue's gangs in the last idle_after_s, 0 to 1.",
        "cluster_queue",
        {name: view.percent / 100 for name, view in queues},
    )
    yield gauges(
        "gang_idle_gpus",
        "GPUs that a ClusterQueue's gangs left idle for all of that time.",
        "cluster_queue",
        {name: view.idle_gpus for name, view in queues},
    )


def queue_gauges(state: State, reports: Reports) -> Iterator[Metric]:
    """Yield the metrics of queues; nothing without a ClusterQueue."""
    queues = state.quotas.queues.snapshot.queues
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
        statuses = len(report.pending), report.reserving, report.admitted
        for family, count in zip(counts.values(), statuses, strict=True):
            family.add_metric([name], count)
        for kind, (flavor, resource), amount in _amounts(queue, report):
            scale = 1000 if resource == "cpu" else 1
            amounts[kind].add_metric([queue.cohort, name, flavor, resource], amount / scale)
        if report.share is not None:
            share.add_metric([name], report.share)
    yield from (*counts.values(), *amounts.values(), share)


def _amounts(queue: ClusterQueue, report: QueueReport) -> Iterator[tuple[str, FlavorResource, int]]:
    """Yield each amount of quota; unlimited ones are left out."""
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
