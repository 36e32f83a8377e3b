"""The cost of queues for the core alone, in processor time: no Kubernetes, a process of its own for each shape.

First a crowd: 1,000 ClusterQueues in 100 cohorts whose quota is used up; in each wait 15 workloads of as many
demands. Then the courses of Kueue's own scalability test, played to the end under a virtual clock
(``queue_courses.py``).
"""

from __future__ import annotations

import multiprocessing
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from typing import TypeVar

from msgspec import Struct

from benchmarks.benchmark import Benchmark, Kind, Table, middle
from benchmarks.queue_courses import COURSES, Course, Figures, play
from benchmarks.stage import GPU, GPUS_PER_NODE
from devcluster.progress import Progress
from extender.core.engine import Engine
from extender.core.events import Event, NamespaceSeen, NodeSeen, PodGone, PodSeen, QueueSeen, Synced, Tick
from extender.runtime import garbage
from policies.model import HOSTNAME, Dialect, GroupRef, Node, Pod
from policies.model.queues import ClusterQueue, Cohort, LocalQueue, Quota, ResourceFlavor, ResourceGroup

QUEUES, COHORTS, NODES_OF, WAITING = 1000, 100, 5, 15
"""How many queues and cohorts there are; for each queue, the nodes of its quota and the workloads that wait."""
ROUNDS = 9
CHANGES = 3
SOON_S, REST_S = 1.0, 60.0
"""An effect due within ``SOON_S`` belongs to a decision; after ``REST_S`` the core has nothing left to report."""
FLAVOR = "gpus"

NOTHING, ADMISSION = "a pass in which nothing can start", "one ends, the next is admitted"
CHANGED, REPORTS, AGAIN = "a ClusterQueue changes", "all reports", "the reports after an admission"


T = TypeVar("T")


class Run(Struct, frozen=True):
    """The figures of a shape.

    ``ms``: processor time by activity.
    ``longest_ms``: of the longest step of it, in which the core answers nothing else.
    ``figures``: those of a course.
    """

    shape: str
    queues: int
    waiting: int
    nodes: int
    ms: dict[str, list[float]] = {}
    longest_ms: dict[str, float] = {}
    figures: Figures | None = None


class Crowd:
    """A core under a clock of its own.

    ``queues``: how many queues there are.
    ``waiting``: how many workloads wait beside each queue's next one.
    ``queued``: whether the workloads name their queue.
    """

    def __init__(self, queues: int, waiting: int, *, queued: bool) -> None:
        self._core = Engine()
        self._now = 0.0
        self._queued = queued
        self._runs: dict[int, Pod] = {}
        self._changes = 0
        self.feed(NodeSeen(_node(number)) for number in range(queues * NODES_OF))
        if queued:
            self.feed(_objects(queues))
        self.feed(self._running(queues))
        self.feed([Synced()])
        self.rest()
        for number in range(waiting):
            self.feed(PodSeen(_pod(f"waits-{number}-{queue}", self._name(queue), number)) for queue in range(queues))
        self.rest()

    def feed(self, events: Iterable[Event]) -> float:
        """How much processor time these take, in ms."""
        took = 0.0
        for event in events:
            began = time.thread_time()
            self._core.handle(event, self._now)
            took += time.thread_time() - began
        return took * 1000

    def rest(self) -> None:
        """Let the core report everything, and show every placed pod as running on its node."""
        self.decide(SOON_S)
        for workload in list(self._core.state.workloads.values()):
            for uid, node in workload.placement.items():
                pod = replace(self._core.state.pods[uid], node=node, phase="Running")
                self.feed([PodSeen(pod)])
        self.decide(REST_S)

    def decide(self, within_s: float = SOON_S) -> list[float]:
        """Do all that is due within that time: how long each step took, in ms."""
        steps, end = [], self._now + within_s
        while (wake := self._core.next_wake()) is not None and wake < end:
            self._now = max(self._now, wake)
            steps.append(self.feed([Tick()]))
        self._now = end
        return steps

    def nothing(self, number: int) -> list[float]:
        """Change a node, so that any workload might start."""
        self.rest()
        return [self.feed([NodeSeen(_node(0, cpu=97_000 + number))]), *self.decide()]

    def admission(self, queue: int) -> list[float]:
        """End one workload of that queue, and decide. If no workload waits, a new one arrives."""
        self.rest()
        before = len(self._core.state.pending.keys)
        steps = [self.feed([PodGone(self._runs[queue].uid)])]
        if not before:
            steps.append(self.feed([PodSeen(_pod(f"next-{queue}", self._name(queue), 0))]))
        steps += self.decide()
        planned = sum(len(workload.placement) for workload in self._core.state.workloads.values())
        if planned != 1:
            raise AssertionError(f"{planned} workloads were planned where one ended")
        return steps

    def changed(self, number: int) -> list[float]:
        """The quota of a queue becomes another one."""
        self.rest()
        return [self.feed([QueueSeen(_queue(number, GPUS_PER_NODE * NODES_OF - 1))]), *self.decide()]

    def reports(self) -> list[float]:
        """The time to make the reports of the queues, as they are written to the objects."""
        began = time.thread_time()
        self._core.queue_reports(self._now)
        return [(time.thread_time() - began) * 1000]

    def _name(self, queue: int) -> str:
        return f"queue-{queue}" if self._queued else ""

    def _running(self, queues: int) -> Iterator[Event]:
        """On every node one that takes all of it."""
        for number in range(queues * NODES_OF):
            queue = number // NODES_OF
            pod = replace(_pod(f"runs-{number}", self._name(queue), 0), node=f"node-{number}", phase="Running")
            self._runs[queue] = pod
            yield PodSeen(pod)


def measure(queues: int, progress: Progress) -> list[Run]:
    """In this process: with and without queues in turn, so that noise meets both alike."""
    garbage.collect_hardly_ever()  # as the process that serves
    crowds: dict[str, Crowd] = {}
    for name, waiting, queued in ARMS:
        progress(f"{name}: fills the cluster")
        crowds[name] = Crowd(queues, waiting, queued=queued)
    garbage.collect_rarely()
    took: dict[str, dict[str, list[list[float]]]] = {name: {} for name in crowds}
    for number in range(ROUNDS):
        progress(f"round {number + 1} of {ROUNDS}")
        for name, crowd in crowds.items():
            if crowd is not crowds[ALONE]:
                took[name].setdefault(NOTHING, []).append(crowd.nothing(number))
            took[name].setdefault(ADMISSION, []).append(crowd.admission(number))
            if name == QUEUED:
                took[name].setdefault(REPORTS if not number else AGAIN, []).append(crowd.reports())
    took[QUEUED][CHANGED] = [crowds[QUEUED].changed(number) for number in range(CHANGES)]
    return [
        Run(
            shape=name,
            queues=queues if queued else 0,
            waiting=waiting * queues,
            nodes=queues * NODES_OF,
            ms={what: [round(sum(steps), 3) for steps in step_times] for what, step_times in took[name].items()},
            longest_ms={what: round(max(map(max, step_times)), 3) for what, step_times in took[name].items()},
        )
        for name, waiting, queued in ARMS
    ]


QUEUED, UNQUEUED, ALONE = "in queues", "without queues", "without queues, nobody else waits"
ARMS = ((QUEUED, WAITING, True), (UNQUEUED, WAITING, False), (ALONE, 0, False))


def crowd(queues: int, which: str, progress: Progress) -> Run:
    """All are measured together, once."""
    if queues not in _CROWDS:
        _CROWDS[queues] = _apart(partial(measure, queues), progress)
    return next(run for run in _CROWDS[queues] if run.shape == which)


_CROWDS: dict[int, list[Run]] = {}


def course(chosen: Course, progress: Progress) -> Run:
    played = _apart(partial(_played, chosen), progress)
    return Run(chosen.name, chosen.queues, chosen.workloads, len(chosen.nodes()), figures=played)


def _played(chosen: Course, progress: Progress) -> Figures:
    garbage.collect_hardly_ever()
    return play(chosen, progress)


def _apart(work: Callable[[Progress], T], progress: Progress) -> T:
    """Do the work in a process of its own: memory left over from another shape must not count here."""
    progress("in a process of its own")
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        return pool.apply(work, (_silent,))


def _silent(_: str) -> None:
    """Discard the progress: no terminal watches that process."""


def _objects(queues: int) -> Iterator[Event]:
    yield NamespaceSeen("default", (("kubernetes.io/metadata.name", "default"),))
    yield QueueSeen(ResourceFlavor(FLAVOR))
    for number in range(queues):
        yield QueueSeen(_queue(number, GPUS_PER_NODE * NODES_OF))
        yield QueueSeen(LocalQueue("default", f"queue-{number}", f"queue-{number}"))
    for number in range(min(COHORTS, queues)):
        yield QueueSeen(Cohort(f"cohort-{number}"))


def _queue(number: int, gpus: int) -> ClusterQueue:
    group = ResourceGroup((GPU, "cpu"), ((FLAVOR, {GPU: Quota(gpus)}),))
    return ClusterQueue(f"queue-{number}", (group,), cohort=f"cohort-{number % COHORTS}", namespaces=())


def _node(number: int, cpu: int = 96_000) -> Node:
    name = f"node-{number}"
    return Node(name, (("cpu", cpu), (GPU, GPUS_PER_NODE), ("pods", 110)), {HOSTNAME: name})


def _pod(name: str, queue: str, number: int) -> Pod:
    """A workload of one pod that takes all GPUs of a node."""
    requests = (("cpu", 1000 + number), (GPU, GPUS_PER_NODE), ("pods", 1))
    group = GroupRef(name, Dialect.ANNOTATION, 1)
    return Pod(f"uid-{name}", "default", f"{name}-0", requests, group=group, queue=queue, created=float(number))


def tables(runs: Sequence[Run]) -> list[Table]:
    crowds, courses = ([run for run in runs if (run.figures is None) is wanted] for wanted in (True, False))
    all_tables = []
    if crowds:
        size = max(crowds, key=lambda run: run.queues)
        title = f"{size.queues:,} ClusterQueues, {size.waiting:,} workloads wait, {size.nodes:,} nodes: processor time"
        whats = dict.fromkeys(what for run in crowds for what in run.ms)
        rows = [(what, *(_times_of(run, what) for run in crowds)) for what in whats]
        all_tables.append(Table(f"{title}, median (worst), longest step", ("", *(run.shape for run in crowds)), rows))
    if courses:
        rows = [(run.shape, *run.figures.told(run.waiting)) for run in courses if run.figures is not None]
        all_tables.append(Table("Kueue's scalability test on the core alone", ("shape", *Figures.COLUMNS), rows))
    return all_tables


def _times_of(run: Run, what: str) -> str:
    if what not in run.ms:
        return "-"
    return f"{middle(run.ms[what]):.2f} ms ({max(run.ms[what]):.2f}), {run.longest_ms[what]:.1f} ms"


def passing(runs: Sequence[Run]) -> float | None:
    """A pass in which nothing can start, in ms."""
    return _middle(runs, QUEUED, NOTHING)


def more(runs: Sequence[Run]) -> float | None:
    """How much longer an admission takes with all these queues than with one queue alone, in ms."""
    ours, alone = (_middle(runs, shape, ADMISSION) for shape in (QUEUED, ALONE))
    return None if ours is None or alone is None else ours - alone


def _middle(runs: Sequence[Run], shape: str, what: str) -> float | None:
    return next((middle(run.ms[what]) for run in runs if run.shape == shape and what in run.ms), None)


KIND = Kind(Run, tables)


def benchmark(queues: int = QUEUES) -> Benchmark[Run]:
    steps = {name: partial(crowd, queues, name) for name, *_ in ARMS}
    steps |= {known_course.name: partial(course, known_course) for known_course in COURSES}
    return Benchmark("queues", KIND, {"queues": queues}, steps)
