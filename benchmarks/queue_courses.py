"""The courses of Kueue's own scalability test (test/performance/scheduler/configs at cc13fff80c), played on the core
alone.

A virtual clock runs until every workload has run. Nothing else takes time, and kube-scheduler binds at once. A queue
has a quota of 20 and may borrow 100. No workload is preempted, which Kueue's test allows. Its first course has no
nodes; here there are enough nodes that no workload waits for them.
"""

from __future__ import annotations

import heapq
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import ClassVar

from msgspec import Struct

from benchmarks.stage import LEVELS
from devcluster.progress import Progress
from extender.core.effects import Milestone, Reached
from extender.core.engine import Engine
from extender.core.events import Event, NamespaceSeen, NodeSeen, PodGone, PodSeen, QueueSeen, Synced, Tick
from policies.model import CLIQUE, HOSTNAME, Dialect, GroupKey, GroupRef, Node, Pod, Topology
from policies.model.levels import levels_from
from policies.model.queues import ClusterQueue, LocalQueue, Quota, ResourceFlavor, ResourceGroup
from policies.model.topology import SILENT

CPU = 1000
"""The millicores of one unit."""
NOMINAL, BORROWED = 20, 100
RACK = 64
_CLASSES = ("small", "medium", "large")


@dataclass(frozen=True)
class Set:
    """Workloads of a queue that are alike: ``count`` of them, one every ``every_s``, each of ``pods`` pods that ask for
    ``units`` together and run for ``runs_s``. ``of``: small, medium or large."""

    of: str
    count: int
    every_s: float
    runs_s: float
    priority: int
    units: int
    pods: int = 1
    topology: Topology = SILENT


@dataclass(frozen=True)
class Course:
    """``racks``: of 64 nodes with 96 units each. Without any the nodes are in no rack."""

    name: str
    cohorts: int
    queues_of: int
    sets: Sequence[Set]
    node_count: int
    racks: bool = False

    @property
    def queues(self) -> int:
        return self.cohorts * self.queues_of

    @property
    def workloads(self) -> int:
        return self.queues * sum(workload_set.count for workload_set in self.sets)

    def cohort_of(self, queue: int) -> int:
        return queue // self.queues_of

    def nodes(self) -> list[Node]:
        amounts = (("cpu", 96 * CPU), ("memory", 256 * 2**30), ("pods", 110))
        names = [f"node-{number}" for number in range(self.node_count)]
        racks = [{CLIQUE: f"rack-{number // RACK}"} if self.racks else {} for number in range(self.node_count)]
        return [Node(name, amounts, {HOSTNAME: name, **rack}) for name, rack in zip(names, racks, strict=True)]


def _on_racks(of: str, counts: tuple[int, int, int], slice_size: int, *facts: float) -> Iterator[Set]:
    """A third of them each: in one rack; in one if possible; in slices that are in one each."""
    every_s, runs_s, priority, units, pods = facts
    topologies = (Topology(CLIQUE), Topology(None, CLIQUE), Topology(None, None, slice_size, CLIQUE))
    for count, topology in zip(counts, topologies, strict=True):
        yield Set(of, count, every_s, runs_s, int(priority), int(units), int(pods), topology)


BASELINE = (
    Set("small", 350, 0.1, 0.2, 50, 1),
    Set("medium", 100, 0.5, 0.5, 100, 5),
    Set("large", 50, 1.2, 1.0, 200, 20),
)
RACKS = (
    *_on_racks("small", (120, 120, 110), 1, 0.1, 0.2, 50, 1, 2),
    *_on_racks("medium", (34, 33, 33), 2, 0.5, 0.5, 100, 5, 4),
    *_on_racks("large", (17, 17, 16), 4, 1.2, 1.0, 200, 20, 8),
)
COURSES = (
    Course("5 cohorts x 6 queues x 500 workloads", 5, 6, BASELINE, 60),
    Course("the same on racks, 640 nodes", 5, 6, RACKS, 640, racks=True),
)


class Figures(Struct, frozen=True):
    """The figures of a course.

    ``cpu_s``: the core's processor time for the whole course.
    ``longest_ms``: its longest step.
    ``lasts_s``: by the virtual clock, until the last workload has ended.
    ``waits_s``: the mean time to admission by class.
    ``used``: the mean part of the quota in use while any workload waited.
    """

    COLUMNS: ClassVar[tuple[str, ...]] = (
        *("processor time", "of a workload", "longest step", "virtual time", "quota used"),
        *(f"{name} waits" for name in _CLASSES),
    )
    cpu_s: float
    longest_ms: float
    lasts_s: float
    waits_s: dict[str, float]
    used: float

    def told(self, workloads: int) -> tuple[str, ...]:
        waits = (f"{self.waits_s[name]:.1f} s" for name in _CLASSES)
        each = self.cpu_s * 1000 / workloads
        figures = f"{self.cpu_s:.1f} s", f"{each:.2f} ms", f"{self.longest_ms:.1f} ms", f"{self.lasts_s:.1f} s"
        return *figures, f"{self.used:.0%}", *waits


def play(course: Course, progress: Progress) -> Figures:
    return _Play(course, progress).to_the_end()


class _Play:
    def __init__(self, course: Course, progress: Progress) -> None:
        self._course = course
        self._progress = progress
        self._core = Engine(levels=levels_from(LEVELS))
        self._now = self._cpu = self._longest = 0.0
        self._ahead: list[tuple[float, int, Callable[[], None]]] = []
        self._count = self._ended = 0
        self._of: dict[GroupKey, tuple[Set, float, Sequence[Pod]]] = {}
        self._waits: dict[str, list[float]] = {name: [] for name in _CLASSES}
        self._used = 0.0
        """Units times seconds."""

    def to_the_end(self) -> Figures:
        self._feed([*map(NodeSeen, self._course.nodes()), *self._objects(), Synced()])
        self._come()
        while self._ended < self._course.workloads:
            wake = self._core.next_wake()
            if wake is not None and (not self._ahead or wake <= self._ahead[0][0]):
                self._now = max(self._now, wake)
                self._feed([Tick()])
            elif self._ahead:
                self._now, _, happen = heapq.heappop(self._ahead)
                happen()
            else:
                raise AssertionError(f"{self._course.workloads - self._ended} workloads wait for nothing")
        quota = NOMINAL * self._course.queues * self._now
        waits = {name: round(sum(times) / len(times), 2) for name, times in self._waits.items()}
        cpu_s, longest_ms = round(self._cpu, 2), round(self._longest * 1000, 2)
        return Figures(cpu_s, longest_ms, round(self._now, 1), waits, round(self._used / quota, 3))

    def _feed(self, events: Iterable[Event]) -> None:
        planned: list[GroupKey] = []
        for event in events:
            began = time.thread_time()
            effects = self._core.handle(event, self._now)
            took = time.thread_time() - began
            self._cpu += took
            self._longest = max(self._longest, took)
            planned += [
                effect.key
                for effect in effects
                if isinstance(effect, Reached) and effect.milestone is Milestone.PLANNED
            ]
        for key in planned:
            self._start(key)

    def _at(self, instant: float, happen: Callable[[], None]) -> None:
        self._count += 1
        heapq.heappush(self._ahead, (instant, self._count, happen))

    def _come(self) -> None:
        for queue in range(self._course.queues):
            for kind, workload_set in enumerate(self._course.sets):
                for number in range(workload_set.count):
                    self._at(
                        workload_set.every_s * (number + 1),
                        partial(self._create, f"{queue}-{kind}-{number}", queue, workload_set),
                    )

    def _create(self, name: str, queue: int, workload_set: Set) -> None:
        group = GroupRef(name, Dialect.ANNOTATION, workload_set.pods)
        requests = (("cpu", workload_set.units * CPU // workload_set.pods), ("pods", 1))
        facts = {
            "priority": workload_set.priority,
            "topology": workload_set.topology,
            "created": self._now,
            "queue": f"queue-{queue}",
        }
        pods = [
            Pod(f"{name}-{at}", "default", f"{name}-{at}", requests, owner=name, group=group, index=at, **facts)  # type: ignore[arg-type]
            for at in range(workload_set.pods)
        ]
        self._of[GroupKey("default", name)] = workload_set, self._now, pods
        self._feed(map(PodSeen, pods))

    def _start(self, key: GroupKey) -> None:
        """kube-scheduler binds its pods as they are planned."""
        workload_set, came, pods = self._of[key]
        placement = self._core.state.workloads[key].placement
        bound = [replace(pod, node=placement[pod.uid], phase="Running") for pod in pods]
        self._waits[workload_set.of].append(self._now - came)
        self._used += workload_set.units * workload_set.runs_s
        self._at(self._now + workload_set.runs_s, partial(self._end, key))
        self._feed(map(PodSeen, bound))

    def _end(self, key: GroupKey) -> None:
        _, _, pods = self._of.pop(key)
        self._ended += 1
        if not self._ended % 1000:
            self._progress(f"{self._ended} of {self._course.workloads} have run")
        self._feed(PodGone(pod.uid) for pod in pods)

    def _objects(self) -> Iterator[Event]:
        yield NamespaceSeen("default", (("kubernetes.io/metadata.name", "default"),))
        yield QueueSeen(ResourceFlavor("flavor"))
        for number in range(self._course.queues):
            quota = {"cpu": Quota(NOMINAL * CPU, BORROWED * CPU)}
            group = ResourceGroup(("cpu",), (("flavor", quota),))
            cohort, name = f"cohort-{self._course.cohort_of(number)}", f"queue-{number}"
            yield QueueSeen(ClusterQueue(name, (group,), cohort=cohort, namespaces=()))
            yield QueueSeen(LocalQueue("default", name, name))
