"""What people have who cut a cluster into partitions: first come, first served in each queue, and nothing is lent."""

from __future__ import annotations

import heapq
from collections import Counter
from collections.abc import Sequence

from extender.core.claims import Claims
from extender.simulation.replay.course import Course, Life
from extender.simulation.replay.queueing import Queueing
from policies.model import Node
from policies.placement.place import Shortfall, place


class HardQuota:
    """Whole gangs, in each ClusterQueue strictly in order of priority and age: while the first one has no quota or no
    room, nobody of its queue starts. A job that needs more than all quota of its queue never starts, and is passed
    over. Jobs without a queue are a queue without limit. Gangs are placed as Muster places them.
    """

    def __init__(self, course: Course, nodes: Sequence[Node], queueing: Queueing) -> None:
        self._course = course
        self._queueing = queueing
        self._quota = {name: stake.nominal for one in queueing.partitions() for name, stake in one.stakes.items()}
        self._used: Counter[str] = Counter()
        self._lines: dict[str, list[tuple[tuple[float, ...], Life]]] = {}
        self._claims = Claims()
        for node in nodes:
            self._claims.set_node(node)

    def submitted(self, life: Life) -> None:
        one, queue = life.arrival, self._queueing.queue_of(life.arrival)
        if queue and one.needed * one.gpus > self._quota[queue]:
            return
        line = self._lines.setdefault(queue, [])
        heapq.heappush(line, ((-one.priority, one.submit_s, life.number), life))
        if line[0][1] is life:
            self._serve(queue)

    def ended(self, life: Life) -> None:
        for pod in life.pods():
            self._claims.release(pod.uid)
        queue = self._queueing.queue_of(life.arrival)
        self._used[queue] -= len(life.seats) * life.arrival.gpus
        for name in [name for name, line in self._lines.items() if line]:
            self._serve(name)

    def _serve(self, queue: str) -> None:
        line = self._lines[queue]
        while line and self._start(queue, line[0][1]):
            heapq.heappop(line)

    def _start(self, queue: str, life: Life) -> bool:
        one, pods = life.arrival, life.pods()
        left = (self._quota[queue] - self._used[queue]) // one.gpus if queue else len(pods)
        if left < one.needed:
            return False
        found = place(pods[:left], one.needed, self._claims.snapshot())
        if isinstance(found, Shortfall):
            return False
        for pod in pods[:left]:
            if (node := found.nodes.get(pod.uid)) is not None:
                self._claims.assume(pod, node)
                self._course.seat(life, node)
                self._used[queue] += one.gpus
        return True
