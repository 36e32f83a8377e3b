"""How busy the GPUs of gangs, queues and nodes are, as far as NVIDIA's DCGM exporter has measured it.

A measurement counts once it covers the whole window, so a mean is never that of a shorter time. Whole GPUs are measured
by ``DCGM_FI_DEV_GPU_UTIL``. That metric knows no MIG instances, which ``DCGM_FI_PROF_GR_ENGINE_ACTIVE`` measures.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from operator import itemgetter

import msgspec

from extender.api.models import NodeLoad, ProfileLoad, UtilisationReport, UtilisationView
from extender.core.ledger.state import State
from extender.core.workload.status import Status
from extender.core.workload.workload import Workload
from policies.model import Pod
from policies.steps import Steps, batched

_PODS = (("exported_namespace", "exported_pod"), ("namespace", "pod"))
"""Labels of the pod that has the GPU. Prometheus renames the exporter's own, unless ``honor_labels`` is set."""
_NODES = ("Hostname", "node")
_PROFILE = "GPU_I_PROFILE"
_LABELS = ", ".join((*(label for pair in _PODS for label in pair), *_NODES, _PROFILE))
_VENDOR = "nvidia.com/"
_AT_ONCE, _PER_BATCH = 32, 64
"""Measurements, pods or nodes that are read in one step, and its cost."""


@dataclass(frozen=True, slots=True)
class Source:
    """A metric of DCGM exporter. ``full``: its value for a GPU that is always busy."""

    metric: str
    selector: str
    full: int


SOURCES = (
    Source("DCGM_FI_DEV_GPU_UTIL", f'{{{_PROFILE}=""}}', 100),
    Source("DCGM_FI_PROF_GR_ENGINE_ACTIVE", "", 1),
)
"""The metrics, the preferred one of a whole GPU first."""


class Vector(msgspec.Struct):
    """A result of a query: labels, and pairs of an instant and a number as text."""

    metric: dict[str, str]
    value: tuple[float, str]


@dataclass(frozen=True, slots=True)
class Load:
    """GPUs, or MIG instances, and the mean of their utilisation in percent."""

    gpus: int
    percent: float


@dataclass(frozen=True, slots=True)
class Measured:
    """A measurement: of the GPUs of a pod, or of the GPUs of a node that no pod has.

    ``pods``: by which labels name it, the likelier one first: its namespace and its name.
    ``nodes``: what may be the name of its node.
    """

    pods: tuple[tuple[str, str], ...]
    nodes: tuple[str, ...]
    profile: str
    load: Load


ByProfile = Mapping[str, Load]
"""Loads by MIG profile; "" stands for whole GPUs."""


@dataclass(frozen=True, slots=True)
class Loads:
    """The measurements of one instant. ``pods``: by namespace and name."""

    all: tuple[Measured, ...] = ()
    pods: Mapping[tuple[str, str], ByProfile] = field(default_factory=dict)


def query(source: Source, aggregation: str, window_s: int) -> str:
    """Return the query: the ``aggregation`` (avg, count) of the means of all GPUs that were measured all the time."""
    metric = source.metric + source.selector
    mean = f"avg_over_time({metric}[{window_s}s]) >= 0 <= {source.full}"
    return f"{aggregation} by ({_LABELS}) ({mean} and {metric} and {metric} offset {window_s}s)"


def loads(answers: Iterable[tuple[Source, Iterable[Vector], Iterable[Vector]]]) -> Steps[Loads]:
    """Make the loads of the results of each source: the means, and how many GPUs each is of."""
    by_labels: dict[tuple[tuple[str, str], ...], Measured] = {}
    for source, means, counts in answers:
        gpus: dict[tuple[tuple[str, str], ...], str] = {}
        for counts_of_some in batched(counts, _AT_ONCE):
            gpus |= {_labels(count): count.value[1] for count in counts_of_some}
            yield _PER_BATCH
        for batch in batched(means, _AT_ONCE):
            for vector in batch:
                mean, gpu_count = _number(vector.value[1]), _number(gpus.get(labels := _labels(vector), ""))
                if mean is not None and gpu_count:
                    load = Load(int(gpu_count), 100 * mean / source.full)
                    by_labels.setdefault(labels, _measured(vector.metric, load))
            yield _PER_BATCH
    by_pod: defaultdict[tuple[str, str], defaultdict[str, list[Load]]] = defaultdict(lambda: defaultdict(list))
    for measurements in batched(by_labels.values(), _AT_ONCE):
        for measured in measurements:
            if measured.pods:
                by_pod[measured.pods[0]][measured.profile].append(measured.load)
        yield _PER_BATCH
    pods: dict[tuple[str, str], ByProfile] = {}
    for named in batched(by_pod.items(), _AT_ONCE):
        pods |= {pod: {name: _mean(of_profile) for name, of_profile in by.items()} for pod, by in named}
        yield _PER_BATCH
    return Loads(tuple(by_labels.values()), pods)


def _labels(vector: Vector) -> tuple[tuple[str, str], ...]:
    return tuple(sorted(vector.metric.items()))


def _number(text: str) -> float | None:
    """The number; None for what is none, like NaN."""
    try:
        value = float(text)
    except ValueError:
        return None
    return value if math.isfinite(value) and value >= 0 else None


def _measured(labels: Mapping[str, str], load: Load) -> Measured:
    named = ((labels.get(namespace, ""), labels.get(pod, "")) for namespace, pod in _PODS)
    nodes = tuple(filter(None, (labels.get(label) for label in _NODES)))
    return Measured(tuple(pair for pair in named if all(pair)), nodes, labels.get(_PROFILE, ""), load)


def _mean(given: Iterable[Load]) -> Load:
    """The mean over all GPUs of these."""
    every = tuple(given)
    gpus = sum(load.gpus for load in every)
    return Load(gpus, sum(load.gpus * load.percent for load in every) / gpus)


@dataclass(frozen=True, slots=True)
class Usage:
    """The loads of a gang's pods, or of a node. ``idle_gpus``: its GPUs, if it is a gang that leaves them idle."""

    measured: tuple[ByProfile, ...]
    idle_gpus: int = 0


def _together(usages: Iterable[Usage]) -> Usage:
    """The usages as one, with the mean of each profile."""
    by_profile: defaultdict[str, list[Load]] = defaultdict(list)
    idle = 0
    for usage in usages:
        idle += usage.idle_gpus
        for by in usage.measured:
            for profile, load in by.items():
                by_profile[profile].append(load)
    means = {profile: _mean(of_profile) for profile, of_profile in sorted(by_profile.items())}
    return Usage((means,) if means else (), idle)


@dataclass(frozen=True, slots=True)
class Utilisation:
    """The known utilisation of GPUs, and the bounds below which they count as idle.

    ``on``: whether a Prometheus is asked at all.
    ``below_percent``, ``window_s``: a gang is idle whose GPUs were used less than that, in the mean of that time.
    ``problem``: why nothing is known; else empty.
    ``at``: when it was measured, by the runner's clock; None before the first time.
    """

    on: bool = False
    below_percent: float = 0.0
    window_s: int = 0
    loads: Loads = Loads()
    problem: str = ""
    at: float | None = None

    def of_gang(self, state: State, gang: Workload, now: float) -> UtilisationView | None:
        """The utilisation of a gang's GPUs; None where ``usage`` is."""
        return self.view([] if (usage := self.usage(state, gang, now)) is None else [usage])

    def by_queue(self, state: State, now: float) -> Steps[dict[str, UtilisationView]]:
        """The utilisation of all gangs that are measured, by ClusterQueue, "" for none."""
        usages: defaultdict[str, list[Usage]] = defaultdict(list)
        for keys in batched(list(state.workloads) if self.loads.pods else (), _AT_ONCE):
            for key in keys:
                if (gang := state.workloads.get(key)) and (usage := self.usage(state, gang, now)) is not None:
                    queue = state.quotas.queue_of(key)
                    usages["" if queue is None else queue.name].append(usage)
            yield _PER_BATCH
        return (yield from self.views(usages))

    def views(self, usages: Mapping[str, Iterable[Usage]]) -> Steps[dict[str, UtilisationView]]:
        """The mean over the GPUs of each entry, by its name; entries without any are left out."""
        views: dict[str, UtilisationView] = {}
        for name, of_name in usages.items():
            total = Usage((), 0)
            for batch in batched(of_name, _AT_ONCE):
                total = _together((total, *batch))
                yield _PER_BATCH
            if (view := self.view((total,))) is not None:
                views[name] = view
        return views

    def usage(self, state: State, gang: Workload, now: float) -> Usage | None:
        """The loads of a gang's pods. None if none of them has been measured for the whole window."""
        if not self.loads.pods:
            return None
        pods = [pod for pod in gang.bound if _has_gpus(pod)]
        since = now - state.process.wall_offset - self.window_s
        # A younger pod may have the name of an older one.
        known = (self.loads.pods.get((pod.namespace, pod.name)) for pod in pods if pod.created <= since)
        measured = [by for by in known if by]
        if not measured:
            return None
        every = _mean(load for by in measured for load in by.values())
        runs = gang.status.value is Status.RUNNING and len(measured) == len(pods)
        return Usage(tuple(measured), every.gpus if runs and every.percent < self.below_percent else 0)

    def of_nodes(self, state: State) -> Steps[list[NodeLoad]]:
        """The utilisation of each node's GPUs, also of GPUs that no pod has."""
        places: dict[tuple[str, str], str] = {}
        for pods in batched(list(state.pods.values()) if self.loads.all else (), _AT_ONCE):
            places |= {(pod.namespace, pod.name): pod.node for pod in pods if pod.node}
            yield _PER_BATCH
        by_node: defaultdict[str, defaultdict[str, list[Load]]] = defaultdict(lambda: defaultdict(list))
        for measurements in batched(self.loads.all, _AT_ONCE):
            for measured in measurements:
                # A container knows its node's name only if its pod template says so. The exporter's own pod is there,
                # too.
                names = (*measured.nodes, *(places.get(pod) or "" for pod in measured.pods))
                if (node := next((name for name in names if name in state.claims.nodes), None)) is not None:
                    by_node[node][measured.profile].append(measured.load)
            yield _PER_BATCH
        nodes: list[NodeLoad] = []
        for batch in batched(sorted(by_node.items(), key=itemgetter(0)), _AT_ONCE):
            for node, by in batch:
                usage = Usage(({profile: _mean(of_profile) for profile, of_profile in by.items()},))
                if (view := self.view([usage])) is not None:
                    nodes.append(NodeLoad(node=node, utilisation=view))
            yield 2 * _PER_BATCH
        return nodes

    def view(self, usages: Iterable[Usage]) -> UtilisationView | None:
        """The mean over the GPUs of all these; None without any."""
        total = _together(usages)
        if not total.measured:
            return None
        (means,) = total.measured
        every = _mean(means.values())
        mig = {
            name: ProfileLoad(gpus=mean.gpus, percent=round(mean.percent, 1)) for name, mean in means.items() if name
        }
        return UtilisationView(
            percent=round(every.percent, 1), gpus=every.gpus, idle_gpus=total.idle_gpus, window_s=self.window_s, mig=mig
        )

    def report(self, state: State, now: float) -> Steps[UtilisationReport]:
        """The report of all that is known, for people and programs."""
        nodes = yield from self.of_nodes(state)
        return UtilisationReport(
            on=self.on,
            problem=self.problem or self._unnamed(state),
            ago_s=None if self.at is None else round(now - self.at, 3),
            window_s=self.window_s,
            below_percent=self.below_percent,
            gpus=sum(measured.load.gpus for measured in self.loads.all),
            nodes=nodes,
        )

    def _unnamed(self, state: State) -> str:
        """Why no measurement belongs to a pod of the cluster; empty if one does, or if nothing is measured."""
        if not self.loads.all:
            return ""
        known = {(pod.namespace, pod.name) for pod in state.pods.values() if _has_gpus(pod)}
        if not known or any(pod in known for pod in self.loads.pods):
            return ""
        return "no series names a pod with GPUs: DCGM exporter needs DCGM_EXPORTER_KUBERNETES=true"


UNASKED = Utilisation()
"""The utilisation where no Prometheus is asked."""


def _has_gpus(pod: Pod) -> bool:
    return bool(pod.device_claims) or any(name.startswith(_VENDOR) for name, _ in pod.requests)
