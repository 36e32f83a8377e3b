"""The instants of a load test's pods: from this client's requests, from a watch, and from what the cluster writes.

Two instants are not of this client's clock. ``released`` is Muster's stamp on the Binding, and ``scheduled`` is
kube-scheduler's Event. Both run in one pod, so they have the same clock.
"""

from __future__ import annotations

import asyncio
import math
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import TypeVar

import msgspec

from extender.cli.bench.measures import Sample
from extender.cli.bench.plan import GANG, NAMESPACES, Course, Kind
from extender.core.gate.stamps import RELEASED_AT
from extender.core.instants import instant_of
from extender.kube.client import Kube
from extender.kube.reading.objects import Meta, PodObject
from extender.kube.reflector import Callback, Reflector
from extender.kube.resources import Resource
from extender.observe.sight import Sight
from policies.model import GANG_GATE

SeenT = TypeVar("SeenT")

READY = "Ready"
CONDITIONS = ("Initialized", "ContainersReady", READY)
STAGES = ("created", "planned", "at_bind", "bound")
METRICS = (*STAGES, "bind", *(f"gang.{stage}" for stage in STAGES))
"""The names that thresholds have for latencies. bind is another name of bound."""


@dataclass(slots=True)
class Instants:
    """The instants of a pod, in seconds of ``Clock``; None: not seen. ``released``, ``scheduled``: by Muster's clock.

    ``bound``: when the watch has shown it.
    ``gated``: the watch has shown its gate.
    ``gone``: another client has deleted the pod, or it has failed, before it was bound.
    """

    gang: str
    due: float
    created: float | None = None
    planned: float | None = None
    released: float | None = None
    scheduled: float | None = None
    bound: float | None = None
    node: str = ""
    gated: bool = False
    gone: bool = False
    conditions: dict[str, float] = field(default_factory=dict)


@dataclass(slots=True)
class GangInstants:
    """When a gang was due, and when its Job was seen started, if it is one. ``failed``: why it was not created."""

    due: float
    started: float | None = None
    failed: str = ""
    over: bool = False
    """Whether the run has deleted it."""
    members: list[Instants] = field(default_factory=list)


class Clock:
    """A clock that is never set, in seconds since the epoch."""

    def __init__(self) -> None:
        self._epoch = time.time() - time.perf_counter()

    def now(self) -> float:
        """Return the present."""
        return self._epoch + time.perf_counter()


class _Job(msgspec.Struct):
    class Spec(msgspec.Struct):
        suspend: bool | None = None

    metadata: Meta | None = None
    spec: Spec | None = None


@dataclass(frozen=True, slots=True)
class _Seen:
    """A pod as the watch shows it, as far as it matters here."""

    name: str
    gang: str
    node: str
    nominated: str
    gated: bool
    phase: str
    conditions: tuple[str, ...]
    released_at: str
    deleting: bool


@dataclass(frozen=True, slots=True)
class _SeenJob:
    name: str
    suspended: bool


class Table:
    """The instants of every pod and every gang of a course, kept up to date by ``follow``."""

    def __init__(self, course: Course, clock: Clock) -> None:
        self.course = course
        self.clock = clock
        self.pods: dict[str, Instants] = {}
        self.gangs: dict[str, GangInstants] = {}
        self.changed = asyncio.Event()

    def expect(self, gang: str, due: float) -> None:
        """Record when a gang is due, before any object of it is created."""
        self.gangs[gang] = GangInstants(due)

    def created(self, name: str, gang: str) -> None:
        """Record that the API server has accepted the pod just now."""
        self._pod(name, gang).created = self.clock.now()

    def fail(self, gang: str, why: str) -> None:
        """Record that a part of the gang could not be created, so that it can never be complete."""
        self.gangs[gang].failed = why
        self.changed.set()

    def forget(self, gang: str) -> None:
        """Leave a gang out of all figures from now on."""
        for name in [name for name, pod in self.pods.items() if pod.gang == gang]:
            del self.pods[name]
        del self.gangs[gang]

    def is_bound(self, gang: str) -> bool:
        """Whether all pods of the gang are bound."""
        return sum(1 for pod in self.gangs[gang].members if pod.bound is not None) >= self.course.size

    def is_hopeless(self, gang: str) -> bool:
        """Whether the gang can never be bound as a whole."""
        return bool(self.gangs[gang].failed) or any(pod.gone for pod in self.gangs[gang].members)

    async def follow(self, kube: Kube) -> None:
        """Watch the namespace; never ends."""
        path, sight = f"{NAMESPACES}/{self.course.namespace}/pods", Sight()
        decoder, jobs_decoder = msgspec.json.Decoder(PodObject), msgspec.json.Decoder(_Job)
        pods = Resource(path, lambda raw: _read(decoder.decode(raw)), seen=_same, gone=_same)
        following = [Reflector(kube, pods, _Receiver(self._see, self._lose), sight=sight).run()]
        if self.course.kind is Kind.JOB:
            path = f"/apis/batch/v1/namespaces/{self.course.namespace}/jobs"
            jobs = Resource(path, lambda raw: _read_job(jobs_decoder.decode(raw)), seen=_same, gone=_same)
            following.append(Reflector(kube, jobs, Callback(self._see_job), sight=sight).run())
        await asyncio.gather(*following)

    def _see(self, seen: _Seen) -> None:
        now = self.clock.now()
        if seen.gang not in self.gangs:
            return
        pod = self._pod(seen.name, seen.gang)
        if pod.created is None:  # the Job controller has made it, or the watch is faster than the answer
            pod.created = now
        if seen.gated:
            pod.gated = True
        if pod.planned is None and (seen.nominated or (pod.gated and not seen.gated)):
            pod.planned = now
        if seen.node and pod.bound is None:
            pod.bound, pod.node = now, seen.node
            pod.released = instant_of(seen.released_at)
        for condition in seen.conditions:
            pod.conditions.setdefault(condition, now)
        if (seen.phase == "Failed" or seen.deleting) and pod.bound is None and not self.gangs[seen.gang].over:
            pod.gone = True
        self.changed.set()

    def _lose(self, seen: _Seen) -> None:
        pod, gang = self.pods.get(seen.name), self.gangs.get(seen.gang)
        if pod is not None and gang is not None and pod.bound is None and not gang.over:
            pod.gone = True
            self.changed.set()

    def _see_job(self, seen: _SeenJob) -> None:
        gang = self.gangs.get(seen.name)
        if gang is not None and gang.started is None and not seen.suspended:
            gang.started = self.clock.now()
            self.changed.set()

    def _pod(self, name: str, gang: str) -> Instants:
        if name not in self.pods:
            pod = self.pods[name] = Instants(gang, self.gangs[gang].due)
            self.gangs[gang].members.append(pod)
        return self.pods[name]


class _Receiver:
    """Passes on objects that are seen, and objects that are lost."""

    def __init__(self, see: Callable[[_Seen], None], lose: Callable[[_Seen], None]) -> None:
        self._see, self._lose = see, lose

    def show(self, event: _Seen, _: object) -> None:
        self._see(event)

    def lose(self, event: _Seen, _: object) -> None:
        self._lose(event)


def _same(seen: SeenT) -> SeenT:
    return seen


def _read(obj: PodObject) -> tuple[Meta, _Seen]:
    meta, spec, status = obj.metadata or Meta(), obj.spec, obj.status
    conditions = (status.conditions if status else None) or ()
    return meta, _Seen(
        name=meta.name or "",
        gang=(meta.labels or {}).get(GANG, ""),
        node=(spec.node_name if spec else None) or "",
        nominated=(status.nominated_node_name if status else None) or "",
        gated=any(gate.name == GANG_GATE for gate in (spec.scheduling_gates if spec else None) or ()),
        phase=(status.phase if status else None) or "",
        conditions=tuple(
            condition.type for condition in conditions if condition.type in CONDITIONS and condition.status == "True"
        ),
        released_at=(meta.annotations or {}).get(RELEASED_AT, ""),
        deleting=bool(meta.deletion_timestamp),
    )


def _read_job(obj: _Job) -> tuple[Meta, _SeenJob]:
    meta = obj.metadata or Meta()
    return meta, _SeenJob((meta.labels or {}).get(GANG, ""), bool(obj.spec and obj.spec.suspend))


@dataclass(frozen=True, slots=True)
class ServerClock:
    """How far Muster's clock is ahead of this one, in seconds: somewhere between ``least`` and ``most``.

    A release comes after its last pod was due and before the watch has shown its Bindings, whatever the clocks say.
    """

    least: float
    most: float

    @classmethod
    def of(cls, pods: Iterable[Instants]) -> ServerClock | None:
        """Compare the clocks; None if no release is known, or if a clock was set during the run."""
        known = [(pod, pod.released, pod.bound) for pod in pods if pod.released is not None and pod.bound is not None]
        if not known:
            return None
        least = max(released - bound for _, released, bound in known)
        most = min(released - pod.due for pod, released, _ in known)
        return cls(least, most) if least <= most else None

    @property
    def correction(self) -> float:
        """Seconds to subtract from the instants of Muster's clock; 0 unless the clocks are known to differ."""
        return self.least if self.least > 0 else self.most if self.most < 0 else 0.0


@dataclass(frozen=True, slots=True)
class Latencies:
    """Latencies of a pod or a gang, in ms from the intended time, by stage; None: not reached, or not visible."""

    created: float | None
    planned: float | None
    at_bind: float | None
    bound: float | None


class Measured:
    """The latencies of all pods and gangs of a run, and the samples that they make."""

    def __init__(self, table: Table, clock: ServerClock | None) -> None:
        self._table = table
        self._correction = 0.0 if clock is None else clock.correction
        self._is_known = clock is not None
        self.pods = {name: self._of_pod(pod) for name, pod in table.pods.items()}
        members: dict[str, list[Latencies]] = {gang: [] for gang in table.gangs}
        for name, pod in table.pods.items():
            members[pod.gang].append(self.pods[name])
        self.gangs = {gang: self._of_gang(of) for gang, of in members.items()}

    def _of_pod(self, pod: Instants) -> Latencies:
        planned, at_bind, bound = pod.planned, self._by_server(pod.released), pod.bound
        if self._table.course.kind is Kind.JOB:
            planned = self._table.gangs[pod.gang].started
            if planned is not None and pod.created is not None:
                planned = min(planned, pod.created)  # a Job has pods once it is started; two watches show the two
        if bound is not None and (scheduled := self._by_server(pod.scheduled)) is not None:
            bound = min(bound, scheduled)  # either may be late: a watch lags, and so does kube-scheduler
        if planned is not None and at_bind is not None:
            planned = min(planned, at_bind)  # the watch may show the plan after the plan was carried out
        instants = (pod.created, planned, at_bind, bound)
        return Latencies(*(None if at is None else (at - pod.due) * 1000 for at in instants))

    def _by_server(self, at: float | None) -> float | None:
        """Convert an instant of Muster's clock to this client's clock."""
        return None if at is None or not self._is_known else at - self._correction

    def _of_gang(self, members: list[Latencies]) -> Latencies:
        """The latencies of a gang: when its last member reached each stage."""
        complete = len(members) == self._table.course.size
        stages: list[float | None] = []
        for stage in STAGES:
            latencies = [latency for member in members if (latency := getattr(member, stage)) is not None]
            stages.append(max(latencies) if complete and len(latencies) == len(members) else None)
        return Latencies(*stages)

    def samples(self) -> dict[str, Sample]:
        """Return the samples by the names that thresholds have for them."""
        size, count = self._table.course.size, self._table.course.gangs
        samples = {stage: _sample(stage, self.pods.values(), count * size, size) for stage in STAGES}
        samples |= {f"gang.{stage}": _sample(stage, self.gangs.values(), count, 1) for stage in STAGES}
        return samples

    def conditions(self) -> dict[str, Sample]:
        """Return the samples by the names of kube-burner's quantiles, of pods that became ready."""
        ready = [name for name, pod in self._table.pods.items() if READY in pod.conditions and pod.bound is not None]
        latencies = {"PodScheduled": [self.pods[name].bound or 0.0 for name in ready]}
        for condition in CONDITIONS:
            latencies[condition] = [self._condition_ms(name, condition) for name in ready]
        return {name: Sample.of(values) for name, values in latencies.items()}

    def documents(self) -> Iterator[dict[str, object]]:
        """Yield kube-burner's document of each pod that became ready."""
        keys = {
            "initializedLatency": "Initialized",
            "containersReadyLatency": "ContainersReady",
            "podReadyLatency": READY,
        }
        for name, pod in self._table.pods.items():
            bound = self.pods[name].bound
            if READY not in pod.conditions or bound is None:
                continue
            number, index = pod.gang.rpartition("-")[2], name.removeprefix(f"{pod.gang}-").partition("-")[0]
            yield {
                "timestamp": timestamp(pod.due),
                "schedulingLatency": round(bound),
                **{key: round(self._condition_ms(name, condition)) for key, condition in keys.items()},
                "namespace": self._table.course.namespace,
                "podName": name,
                "nodeName": pod.node,
                "jobIteration": int(number),
                "replica": int(index),
            }

    def _condition_ms(self, name: str, condition: str) -> float:
        pod = self._table.pods[name]
        return (pod.conditions.get(condition, pod.conditions[READY]) - pod.due) * 1000


def _sample(stage: str, all_of_them: Iterable[Latencies], count: int, alike: int) -> Sample:
    """The latencies of a stage. Pods that are bound and were not seen there are left out: the stage is not visible."""
    known = list(all_of_them)
    latencies = [latency for latencies in known if (latency := getattr(latencies, stage)) is not None]
    unseen = sum(1 for latencies in known if getattr(latencies, stage) is None and latencies.bound is not None)
    if unseen and not latencies:
        return Sample(())
    return Sample.of(latencies, missing=max(0, count - len(latencies) - unseen), alike=alike)


def timestamp(at: float) -> str:
    """An instant of ``Clock`` as Kubernetes writes it, to a microsecond."""
    seconds = math.floor(at)
    return f"{time.strftime('%Y-%m-%dT%H:%M:%S', time.gmtime(seconds))}.{int((at - seconds) * 1e6):06d}Z"
