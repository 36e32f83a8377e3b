"""The schedulers to compare Muster with, on the same jobs: kube-scheduler alone, a strict queue, an ideal machine."""

from __future__ import annotations

import heapq
from collections import Counter
from collections.abc import Callable, Hashable, Sequence
from random import Random
from typing import Generic, TypeVar

import numpy as np

from extender.core.instants import pause_s
from extender.core.ledger.claims import Claims
from extender.simulation.replay.course import Course, Life
from extender.simulation.replay.queueing import Queueing
from extender.simulation.replay.shape import GPU, gpus_of
from policies.model import Node
from policies.placement.place import Shortfall, place

ItemT = TypeVar("ItemT")
Order = tuple[int | float, ...]


class Line(Generic[ItemT]):
    """The waiting items, grouped by shape: if one of a shape finds no room, no other of that shape does."""

    def __init__(self) -> None:
        self._heaps: dict[Hashable, list[tuple[Order, ItemT]]] = {}

    def add(self, shape: Hashable, order: Order, item: ItemT) -> None:
        """Add an item. ``order``: the smallest is served first, and no two are equal."""
        heapq.heappush(self._heaps.setdefault(shape, []), (order, item))

    def serve(self, place: Callable[[ItemT], bool]) -> None:
        """Try each item once, in order, without shapes that have failed; seated items leave the line."""
        heads = [(heap[0][0], number, heap) for number, heap in enumerate(self._heaps.values()) if heap]
        heapq.heapify(heads)
        while heads:
            _, number, heap = heapq.heappop(heads)
            if place(heap[0][1]):
                heapq.heappop(heap)
                if heap:
                    heapq.heappush(heads, (heap[0][0], number, heap))


class PodByPod:
    """kube-scheduler alone: each pod by itself, in order of priority and age, whatever happens to its siblings.

    Pods of jobs that are submitted at the same moment alternate. A pod gets the node with the largest share of free
    GPUs: LeastAllocated, for pods whose cpu and memory go with their GPUs. With ``spread`` False it gets the smallest
    share (MostAllocated). Chance breaks ties. A pod without room does not keep back those behind it, and is tried
    again as soon as room becomes free. Its backoff of 1 to 10 s is not modelled, nor is preemption. Members that wait
    too long for the others fail and are remade as ``Terms`` say. Their patience varies by up to a tenth from try to
    try. Otherwise two jobs that block each other would do so in step endlessly.
    """

    def __init__(self, course: Course, nodes: Sequence[Node], random: Random, *, spread: bool = True) -> None:
        self._course = course
        self._random = random
        self._sign = 1 if spread else -1
        self._names = [node.name for node in nodes]
        self._rows = {name: row for row, name in enumerate(self._names)}
        self._free = np.array([dict(node.allocatable).get(GPU, 0) for node in nodes])
        self._offered = np.maximum(self._free, 1)
        self._line: Line[tuple[Life, int]] = Line()
        self._due = False

    def submitted(self, life: Life) -> None:
        arrival, now = life.arrival, self._course.clock.now
        for index in range(arrival.pods):
            order = (-arrival.priority, now, index, life.number, life.tries)
            self._line.add(arrival.gpus, order, (life, life.tries))
        self._look_around()

    def ended(self, life: Life) -> None:
        self._free_seats(life)

    def _look_around(self) -> None:
        """Serve the queue once, after all other events of this instant."""
        if not self._due:
            self._due = True
            self._course.clock.after(0.0, self._pass)

    def _pass(self) -> None:
        self._due = False
        self._line.serve(self._place)

    def _place(self, pod: tuple[Life, int]) -> bool:
        life, number = pod
        if number != life.tries or life.ended_s is not None:
            return True  # the job has given up this attempt, or has ended
        row = self._choose(life.arrival.gpus)
        if row < 0:
            return False
        self._free[row] -= life.arrival.gpus
        self._course.place(life, self._names[row])
        if len(life.nodes) == 1 and life.whole_s is None and self._course.terms.give_up_s is not None:
            patience_s = self._course.terms.give_up_s * self._random.uniform(1.0, 1.1)
            self._course.clock.after(patience_s, lambda: self._give_up(life, number))
        return True

    def _choose(self, gpus: int) -> int:
        """The row of the best node; -1 if none has room."""
        rows = np.flatnonzero(self._free >= gpus)
        if not len(rows):
            return -1
        shares = self._sign * self._free[rows] / self._offered[rows]
        best = rows[shares == shares.max()]
        return int(best[self._random.randrange(len(best))])

    def _give_up(self, life: Life, number: int) -> None:
        if life.whole_s is not None or life.tries != number:
            return
        terms = self._course.terms
        self._free_seats(life)
        self._course.vacate(life)
        life.tries += 1
        if number >= terms.tries:
            return self._course.fail(life)
        wait_s = pause_s(number, terms.backoff_s, terms.backoff_max_s)
        self._course.clock.after(wait_s, lambda: self.submitted(life))

    def _free_seats(self, life: Life) -> None:
        for name in life.nodes:
            self._free[self._rows[name]] += life.arrival.gpus
        self._look_around()


class Fifo:
    """Whole gangs, strictly in order of priority and age: while the first in line has no room, none starts.

    It places a gang as Muster does, so what it loses against Muster it loses by the queue. An elastic gang starts with
    what fits, and does not grow.
    """

    def __init__(self, course: Course, nodes: Sequence[Node]) -> None:
        self._course = course
        self._claims = Claims()
        for node in nodes:
            self._claims.set_node(node)
        self._line: list[tuple[Order, Life]] = []

    def submitted(self, life: Life) -> None:
        order = (-life.arrival.priority, life.arrival.submit_s, life.number)
        heapq.heappush(self._line, (order, life))
        if self._line[0][1] is life:
            self._serve()

    def ended(self, life: Life) -> None:
        for pod in life.pods():
            self._claims.release(pod.uid)
        self._serve()

    def _serve(self) -> None:
        while self._line:
            life = self._line[0][1]
            pods = life.pods()
            placed = place(pods, life.arrival.needed, self._claims.snapshot())
            if isinstance(placed, Shortfall):
                return
            heapq.heappop(self._line)
            for pod in pods:
                if (node := placed.nodes.get(pod.uid)) is not None:
                    self._claims.assume(pod, node)
                    self._course.place(life, node)


class Ideal:
    """A bound: one machine with all GPUs, so that nothing is fragmented and nothing is held.

    In order of priority and age every gang starts for which there are enough GPUs, wherever they are: none waits while
    it could run. Nothing is preempted, nothing is known in advance, and a start takes as long as with other schedulers.
    What another scheduler in this order loses against it, it loses by fragments, by held GPUs or by its queue. It is
    not the least waiting time of any order: serving short jobs first would shorten the mean.
    """

    def __init__(self, course: Course, nodes: Sequence[Node]) -> None:
        self._course = course
        self._free = gpus_of(nodes)
        self._line: Line[Life] = Line()

    def submitted(self, life: Life) -> None:
        arrival = life.arrival
        self._line.add((arrival.needed, arrival.gpus), (-arrival.priority, arrival.submit_s, life.number), life)
        self._line.serve(self._place)

    def ended(self, life: Life) -> None:
        self._free += len(life.nodes) * life.arrival.gpus
        self._line.serve(self._place)

    def _place(self, life: Life) -> bool:
        arrival = life.arrival
        count = min(arrival.pods, self._free // arrival.gpus)
        if count < arrival.needed:
            return False
        self._free -= count * arrival.gpus
        for _ in range(count):
            self._course.place(life, "")
        return True


class HardQuota:
    """Whole gangs, in each ClusterQueue strictly in order of priority and age.

    While the first job of a queue has no quota or no room, none of its queue starts. A job that needs more than all
    quota of its queue never starts, and is passed over. Jobs without a queue form a queue without limit. Gangs are
    placed as by Muster.
    """

    def __init__(self, course: Course, nodes: Sequence[Node], queueing: Queueing) -> None:
        self._course = course
        self._queueing = queueing
        self._quota = {
            name: stake.nominal for partition in queueing.partitions() for name, stake in partition.stakes.items()
        }
        self._used: Counter[str] = Counter()
        self._lines: dict[str, list[tuple[tuple[float, ...], Life]]] = {}
        self._claims = Claims()
        for node in nodes:
            self._claims.set_node(node)

    def submitted(self, life: Life) -> None:
        arrival, queue = life.arrival, self._queueing.queue_of(life.arrival)
        if queue and arrival.needed * arrival.gpus > self._quota[queue]:
            return
        line = self._lines.setdefault(queue, [])
        heapq.heappush(line, ((-arrival.priority, arrival.submit_s, life.number), life))
        if line[0][1] is life:
            self._serve(queue)

    def ended(self, life: Life) -> None:
        for pod in life.pods():
            self._claims.release(pod.uid)
        queue = self._queueing.queue_of(life.arrival)
        self._used[queue] -= len(life.nodes) * life.arrival.gpus
        for name in [name for name, line in self._lines.items() if line]:
            self._serve(name)

    def _serve(self, queue: str) -> None:
        line = self._lines[queue]
        while line and self._start(queue, line[0][1]):
            heapq.heappop(line)

    def _start(self, queue: str, life: Life) -> bool:
        arrival, pods = life.arrival, life.pods()
        left = (self._quota[queue] - self._used[queue]) // arrival.gpus if queue else len(pods)
        if left < arrival.needed:
            return False
        placed = place(pods[:left], arrival.needed, self._claims.snapshot())
        if isinstance(placed, Shortfall):
            return False
        for pod in pods[:left]:
            if (node := placed.nodes.get(pod.uid)) is not None:
                self._claims.assume(pod, node)
                self._course.place(life, node)
                self._used[queue] += arrival.gpus
        return True
