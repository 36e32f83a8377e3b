"""The courses of Kueue's scalability test as suspended Jobs in queues, on a real control plane.

All Jobs exist when the clock starts, which is when Muster, stopped (SIGSTOP) until then, goes on. The clock ends
when the last pod has ended. kwok plays the running pods: each ends at the time after its Binding that the course
states.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from functools import partial

from msgspec import Struct

from benchmarks.benchmark import Benchmark, Kind, Table, middle
from benchmarks.job_stage import JOBS, Arm, JobStage, job_of, suspended
from benchmarks.meter import used
from benchmarks.queue_courses import BORROWED, COURSES, CPU, NOMINAL, RACK, Course, Set
from benchmarks.sightings import BOUND, PODS, Watching
from benchmarks.stage import CLIQUE
from devcluster import Api
from devcluster.api import Object
from devcluster.demo.scenario import RUN_FOR
from devcluster.muster import install_crds_of
from devcluster.progress import Progress
from policies.model.topology import Topology

GROUP = "kueue.x-k8s.io/v1beta2"
PRIORITIES = "/apis/scheduling.k8s.io/v1/priorityclasses"
ENDED = "status.phase=Succeeded"
PART = 10
_CPU, _FLAVOR = "cpu", "flavor"


class Run(Struct, frozen=True):
    """The figures of one course.

    ``waits_s``: by class, until the last pod of the class was bound.
    ``used``: the mean part of the quota that bound pods had, until the last one was bound.
    ``cpu_ms``: per Job, by process.
    ``most``: the most units that the pods of one cohort had at once.
    ``quota``: the units that they may have.
    """

    course: str
    round: int
    workloads: int
    pods: int
    nodes: int
    seconds: float
    waits_s: dict[str, float]
    used: float
    cpu_ms: dict[str, float]
    most: int
    quota: int

    @property
    def per_s(self) -> float:
        return self.workloads / self.seconds


class Workload(Struct, frozen=True):
    name: str
    queue: int
    cohort: int
    of: Set


class Seen(Struct, frozen=True):
    """The first sight of a pod in that state. ``version``: of its object, which orders the events of the cluster."""

    workload: str
    at: float
    version: int


class _Pods(Watching):
    """The pods that are in a state, since when."""

    def __init__(self, api: Api, selector: str) -> None:
        super().__init__(api, PODS, selector)
        self.seen: dict[str, Seen] = {}

    def wait(self, count: int, timeout_s: float) -> None:
        """Wait for that many pods. Raises TimeoutError, or the error that broke the watch."""
        if not self._await(lambda: len(self.seen) >= count, timeout_s):
            raise TimeoutError(f"{len(self.seen)} of {count} pods came to {self._selector} within {timeout_s:g} s")

    def _see(self, obj: Object) -> None:
        meta = obj["metadata"]
        if meta["uid"] not in self.seen:
            with self._news:
                self.seen[meta["uid"]] = Seen(job_of(obj), time.perf_counter(), int(meta["resourceVersion"]))
                self._news.notify_all()


class _Stage(JobStage):
    """With the course's nodes, queues and classes of priority."""

    def __init__(self, course: Course, progress: Progress) -> None:
        super().__init__(Arm.MUSTER, course.node_count, progress)
        self._labels = (lambda number: {CLIQUE: f"rack-{number // RACK}"}) if course.racks else (lambda _number: {})
        self._course = course

    def _prepare(self) -> None:
        install_crds_of(self._cluster, "queues")
        super()._prepare()
        for workload_set in {workload_set.of: workload_set for workload_set in self._course.sets}.values():
            self.api.create(PRIORITIES, {"metadata": {"name": workload_set.of}, "value": workload_set.priority})
        self._create("ResourceFlavor", "resourceflavors", _FLAVOR, {})
        for number in range(self._course.queues):
            self._add_queue(number)

    def _add_queue(self, number: int) -> None:
        quota = {"name": _CPU, "nominalQuota": NOMINAL, "borrowingLimit": BORROWED}
        group = {"coveredResources": [_CPU], "flavors": [{"name": _FLAVOR, "resources": [quota]}]}
        name, cohort = f"queue-{number}", f"cohort-{self._course.cohort_of(number)}"
        spec = {"cohortName": cohort, "namespaceSelector": {}, "resourceGroups": [group]}
        self._create("ClusterQueue", "clusterqueues", name, spec)
        self._create("LocalQueue", "namespaces/default/localqueues", name, {"clusterQueue": name})

    def _create(self, kind: str, path: str, name: str, spec: Object) -> None:
        queue_object = {"apiVersion": GROUP, "kind": kind, "metadata": {"name": name}, "spec": spec}
        self.api.create(f"/apis/{GROUP}/{path}", queue_object)


def measure(course: Course, part: int, patience_s: float, number: int, progress: Progress) -> Run:
    """Measure one run on a fresh control plane. Raises TimeoutError when not every pod has ended in time."""
    workloads = {workload.name: workload for workload in workloads_of(course, part)}
    total = sum(workload.of.pods for workload in workloads.values())
    with _Stage(course, progress) as stage:
        stage.pause("muster")
        progress(f"creating {len(workloads)} Jobs")
        stage.api.create_all((JOBS, job(workload)) for workload in workloads.values())
        stage.api.wait_for(JOBS, lambda jobs: sum(map(suspended, jobs)) == len(workloads), patience_s)
        stage.start_scheduler()
        with _Pods(stage.api, BOUND) as bound, _Pods(stage.api, ENDED) as ended:
            progress(f"{total} pods run")
            before, began = stage.cpu_ms(), time.perf_counter()
            stage.go([])
            ended.wait(total, patience_s)
            bound.wait(total, patience_s)
            cpu = used(stage.cpu_ms(), before)
        starts = _instants(bound, began)
        ends = _instants(ended, began)
        until, quota = max(starts.values()), NOMINAL * course.queues
        spent = sum(workload.of.units * (ends[name] - starts[name]) for name, workload in workloads.items())
        return Run(
            course=course.name,
            round=number,
            workloads=len(workloads),
            pods=total,
            nodes=course.node_count,
            seconds=round(max(ends.values()), 2),
            waits_s=_waits(workloads, starts),
            used=round(spent / (quota * until), 3),
            cpu_ms={name: round(spent / len(workloads), 2) for name, spent in cpu.items()},
            most=most(workloads, bound.seen.values(), ended.seen.values()),
            quota=NOMINAL * course.queues_of,
        )


def workloads_of(course: Course, part: int) -> Iterator[Workload]:
    """Yield every ``part``-th workload of each set, at least one."""
    for queue in range(course.queues):
        for kind, workload_set in enumerate(course.sets):
            for number in range(max(1, workload_set.count // part)):
                yield Workload(f"q{queue}-{kind}-{number}", queue, course.cohort_of(queue), workload_set)


def job(workload: Workload) -> Object:
    amount = {_CPU: f"{workload.of.units * CPU // workload.of.pods}m"}
    containers = [{"name": "main", "image": "none", "resources": {"requests": amount, "limits": amount}}]
    pod = {"restartPolicy": "Never", "terminationGracePeriodSeconds": 0, "containers": containers}
    annotations = {RUN_FOR: f"{workload.of.runs_s * 1000:.0f}ms", **_asked(workload.of.topology)}
    return {
        "metadata": {"name": workload.name, "labels": {"kueue.x-k8s.io/queue-name": f"queue-{workload.queue}"}},
        "spec": {
            "suspend": True,
            "completionMode": "Indexed",
            "completions": workload.of.pods,
            "parallelism": workload.of.pods,
            "template": {
                "metadata": {"annotations": annotations},
                "spec": {**pod, "priorityClassName": workload.of.of},
            },
        },
    }


def _asked(topology: Topology) -> dict[str, str]:
    levels = {"required-topology": topology.required, "preferred-topology": topology.preferred}
    if topology.slice_size is not None:
        levels |= {"slice-size": str(topology.slice_size), "slice-required-topology": topology.slice_level}
    return {f"kueue.x-k8s.io/podset-{key}": level for key, level in levels.items() if level is not None}


def _instants(pods: _Pods, began: float) -> dict[str, float]:
    """When the last pod of each workload was seen so."""
    last: dict[str, float] = {}
    for seen in pods.seen.values():
        last[seen.workload] = max(last.get(seen.workload, 0.0), seen.at - began)
    return last


def _waits(workloads: dict[str, Workload], starts: dict[str, float]) -> dict[str, float]:
    by_class: dict[str, list[float]] = {}
    for name, workload in workloads.items():
        by_class.setdefault(workload.of.of, []).append(starts[name])
    return {name: round(sum(times) / len(times), 2) for name, times in by_class.items()}


def most(workloads: dict[str, Workload], bound: Iterable[Seen], ended: Iterable[Seen]) -> int:
    """The most that the pods of a cohort had at once, in units: in the order in which the API server wrote it."""
    steps = [(seen.version, seen.workload, 1) for seen in bound]
    steps += [(seen.version, seen.workload, -1) for seen in ended]
    has: Counter[int] = Counter()
    highest = 0
    for _, name, sign in sorted(steps):
        workload = workloads[name]
        has[workload.cohort] += sign * (workload.of.units * CPU // workload.of.pods)
        highest = max(highest, has[workload.cohort])
    return highest // CPU


def tables(runs: Sequence[Run]) -> list[Table]:
    groups: dict[str, list[Run]] = {}
    for run in runs:
        groups.setdefault(run.course, []).append(run)
    classes = list(dict.fromkeys(name for run in runs for name in run.waits_s))
    rows = [
        (
            f"{own[0].course}: {own[0].workloads:,} Jobs, {own[0].pods:,} pods",
            f"{middle([run.seconds for run in own]):.0f} s",
            f"{middle([run.per_s for run in own]):.1f}",
            f"{middle([run.pods / run.seconds for run in own]):.1f}",
            f"{middle([run.used for run in own]):.0%}",
            *(f"{middle([run.waits_s[name] for run in own]):.0f} s" for name in classes),
            f"{max(run.most for run in own)} of {own[0].quota}",
        )
        for own in groups.values()
    ]
    waits = (f"{name} waits" for name in classes)
    speed = ("course", "all have run after", "Jobs/s", "pods/s", "quota used", *waits, "most of a cohort at once")
    names = list(dict.fromkeys(name for run in runs for name in run.cpu_ms))
    spent = [
        (course, *(f"{middle([run.cpu_ms.get(name, 0.0) for run in own]):.2f}" for name in names))
        for course, own in groups.items()
    ]
    return [
        Table("Kueue's scalability test as Jobs on a control plane", speed, rows),
        Table("Processor time per Job, ms", ("course", *names), spent),
    ]


def problems(runs: Sequence[Run]) -> list[str]:
    """Pods that ran had more than the quota of their cohort."""
    over = (run for run in runs if run.most > run.quota)
    return [f"{run.course}: pods of a cohort had {run.most} of {run.quota} units at once" for run in over]


KIND = Kind(Run, tables, problems)


def benchmark(part: int = PART, repeat: int = 1, patience_s: float = 1800.0) -> Benchmark[Run]:
    """The benchmark with every ``part``-th workload of each set."""
    steps = {
        f"{course.name}, round {number}": partial(measure, course, part, patience_s, number)
        for number in range(1, repeat + 1)
        for course in COURSES
    }
    return Benchmark("courses", KIND, {"part": part, "repeat": repeat}, steps)
