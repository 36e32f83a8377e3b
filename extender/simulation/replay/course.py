"""The lifecycle of every job under any scheduler: submitted, given nodes, started, ended; and the use of its GPUs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from enum import IntEnum
from math import inf
from operator import itemgetter
from typing import Protocol

from extender.simulation.clock import Clock, Timer
from extender.simulation.replay.arrivals import Arrival
from extender.simulation.replay.shape import GPU
from policies.model import GANG_GATE, Dialect, GroupRef, Pod, RunTerms, Topology
from policies.model.topology import SILENT

Step = tuple[float, float, float, float, float]
"""An instant, and from then on the GPUs that are productive, starting, held without work, and whose work is lost."""


class Use(IntEnum):
    """The use of a GPU that a pod has."""

    PRODUCTIVE = 0
    STARTING = 1
    """The gang is complete: its containers start, and its members find each other."""
    HELD = 2
    """The pod has its node, and pods without which it cannot run have none."""
    LOST = 3
    """The job is evicted before this work is saved."""


class Account:
    """Records changes of use and sums them at the end, because lost work shows only later."""

    def __init__(self) -> None:
        self._changes: list[tuple[float, Use, int]] = []

    def move(self, now: float, gpus: int, old: Use | None, new: Use | None) -> None:
        """Move GPUs from one use to another; None: free."""
        if old is not None:
            self._changes.append((now, old, -gpus))
        if new is not None:
            self._changes.append((now, new, gpus))

    def lost(self, since: float, until: float, gpus: int) -> None:
        """Count the work of these GPUs in that time as lost."""
        if since < until:
            self.move(since, gpus, Use.PRODUCTIVE, Use.LOST)
            self.move(until, gpus, Use.LOST, Use.PRODUCTIVE)

    def steps(self) -> list[Step]:
        """The steps from 0 on; no two begin at the same moment."""
        course: list[Step] = [(0.0, 0, 0, 0, 0)]
        amounts = [0] * len(Use)
        for at, use, gpus in sorted(self._changes, key=itemgetter(0)):
            amounts[use] += gpus
            if course[-1][0] == at:
                course.pop()
            productive, starting, held, lost = amounts
            course.append((at, productive, starting, held, lost))
        return course


_QUIET_S = 86400.0
"""Seconds without a change after which nothing starts any more, if no job has a node and none is to be submitted.

It is longer than any pause after which a scheduler tries again. Schedulers may look at waiting jobs endlessly, for
example to sample the past usage of LocalQueues.
"""


@dataclass(frozen=True, slots=True)
class Terms:
    """Assumptions about every job, in seconds.

    ``start_s``: from the moment when a gang is complete to its work.
    ``give_up_s``: how long members wait for the others before all of them fail; None: endlessly.
    ``backoff_s``, ``backoff_max_s``: the pause before failed pods are remade; it doubles up to the maximum.
    ``tries``: after how many tries the job fails.
    ``until_s``: when the observation ends at the latest.
    ``grace_s``: how long an evicted job keeps its nodes.
    ``checkpoint_s``: after how much work a job saves its state, from which it continues after an eviction; None: never.
    """

    start_s: float = 30.0
    give_up_s: float | None = 1800.0
    tries: int = 7
    backoff_s: float = 10.0
    backoff_max_s: float = 360.0
    until_s: float | None = None
    grace_s: float = 30.0
    checkpoint_s: float | None = None


@dataclass(slots=True)
class Run:
    """A stretch in which a job was complete, and its GPUs at the end. ``until_s``: None while it lasts."""

    since_s: float
    until_s: float | None = None
    gpus: int = 0


@dataclass(slots=True, eq=False)
class Life:
    """A job. None in a field: has not happened.

    ``nodes``: the nodes of its pods, in the order in which they got them. ``placed_s``: when they got them.
    ``met_gpu_s``: GPU-seconds held without work until the other members came.
    ``vain_gpu_s``: GPU-seconds held in tries whose gang never was complete.
    ``whole_s``: when it was complete for the first time.
    ``runs``: one more than ``evictions``, if it came to its end.
    ``saved_s``: how much of its work need not be repeated.
    ``timers``: the next events of this run.
    """

    arrival: Arrival
    number: int
    nodes: list[str] = field(default_factory=list)
    placed_s: list[float] = field(default_factory=list)
    met_gpu_s: float = 0.0
    vain_gpu_s: float = 0.0
    use: Use = Use.HELD
    tries: int = 1
    whole_s: float | None = None
    ended_s: float | None = None
    failed: bool = False
    runs: list[Run] = field(default_factory=list)
    evictions: int = 0
    saved_s: float = 0.0
    timers: list[Timer] = field(default_factory=list)

    @property
    def waited_s(self) -> float:
        """Seconds from submission until it was complete for the first time; infinite if it never was."""
        return inf if self.whole_s is None else self.whole_s - self.arrival.submit_s

    @property
    def running(self) -> bool:
        """Whether the gang is complete now."""
        return bool(self.runs) and self.runs[-1].until_s is None

    def pods(self, topology: Topology = SILENT) -> list[Pod]:
        """The job's pods as the API server would have them: an Indexed Job, gated, without nodes, in rank order.

        Repeated calls give the same pods; after an eviction, new ones of the same age.
        """
        arrival = self.arrival
        ref = GroupRef(arrival.name, Dialect.ANNOTATION, arrival.needed)
        requests = ((GPU, arrival.gpus), ("pods", 1))
        return [
            Pod(
                f"{self.number}.{self.evictions}/{index}",
                arrival.namespace,
                f"{arrival.name}-{index}",
                requests,
                created=arrival.submit_s,
                priority=arrival.priority,
                gates=(GANG_GATE,),
                owner=str(self.number),
                index=index,
                topology=topology,
                group=ref,
                queue=arrival.queue,
                run=RunTerms(arrival.estimate_s),
            )
            for index in range(arrival.pods)
        ]

    def held_gpu_s(self, now: float) -> float:
        """GPU-seconds that this try has held while its gang was not complete."""
        return 0.0 if self.running else self.arrival.gpus * sum(now - since for since in self.placed_s)


class Decider(Protocol):
    """A scheduler: it learns of submitted and ended jobs, and gives pods nodes by ``Course.place``."""

    def submitted(self, life: Life) -> None: ...

    def ended(self, life: Life) -> None:
        """The job has ended; its pods have just left ``life.nodes``."""
        ...


class Course:
    """A run of all jobs under one scheduler. ``advance``: called with the number of jobs that have ended."""

    def __init__(self, arrivals: Sequence[Arrival], terms: Terms, advance: Callable[[int], None]) -> None:
        self.clock = Clock()
        self.terms = terms
        self.account = Account()
        self.lives = [Life(arrival, number) for number, arrival in enumerate(arrivals)]
        self._advance = advance
        self._over = 0
        self._unsubmitted, self._with_nodes, self._moved_s = len(self.lives), 0, 0.0

    def play(self, decider: Decider) -> None:
        """Run until all jobs have ended, or the observation ends."""
        for life in self.lives:
            self.clock.at(life.arrival.submit_s, lambda life=life: self._submit(life))  # type: ignore[misc]
        self._decider = decider
        until = inf if self.terms.until_s is None else self.terms.until_s
        while self._over < len(self.lives):
            quiet = not self._unsubmitted and not self._with_nodes
            if not self.clock.step(min(until, self._moved_s + _QUIET_S) if quiet else until):
                break

    @property
    def observed_s(self) -> float:
        """When the last job ended or none could start any more, or the observation ended."""
        if self._over == len(self.lives):
            return self.clock.now
        if self.terms.until_s is not None:
            return self.terms.until_s
        return self.clock.now if self._with_nodes else self._moved_s

    def place(self, life: Life, node: str) -> None:
        """Give another pod of the job a node. With enough nodes the job starts."""
        now, gpus = self.clock.now, life.arrival.gpus
        self._move(0 if life.nodes else 1)
        life.nodes.append(node)
        life.placed_s.append(now)
        self.account.move(now, gpus, None, life.use)
        if life.running:
            life.runs[-1].gpus += gpus
        elif len(life.nodes) >= life.arrival.needed:
            self._start(life)

    def interrupt(self, life: Life) -> None:
        """Evict the job: its work since it was last saved is lost, and so is the time until its pods have gone."""
        for timer in life.timers:
            timer.cancel()
        now, began = self.clock.now, life.runs[-1].since_s + self.terms.start_s
        worked, saved_s = life.saved_s + max(0.0, now - began), life.saved_s
        if self.terms.checkpoint_s is not None:
            saved_s = max(saved_s, worked - worked % self.terms.checkpoint_s)
        unsaved_from = began + (saved_s - life.saved_s)
        for since in life.placed_s:
            self.account.lost(max(unsaved_from, since), now, life.arrival.gpus)
        life.saved_s = saved_s
        life.evictions += 1
        self._turn(life, Use.LOST)

    def vacate(self, life: Life) -> None:
        """Take the nodes of all its pods."""
        now = self.clock.now
        self._move(-1 if life.nodes else 0)
        life.vain_gpu_s += life.held_gpu_s(now)
        self.account.move(now, life.arrival.gpus * len(life.nodes), life.use, None)
        if life.running:
            life.runs[-1].until_s = now
        life.nodes, life.placed_s, life.use = [], [], Use.HELD

    def fail(self, life: Life) -> None:
        """End the job as failed, without another try."""
        life.failed, life.ended_s = True, self.clock.now
        self._count()

    def _submit(self, life: Life) -> None:
        self._unsubmitted -= 1
        self._move(0)
        self._decider.submitted(life)

    def _move(self, more: int) -> None:
        """Record that ``more`` more jobs have nodes, or that a job was submitted."""
        self._with_nodes, self._moved_s = self._with_nodes + more, self.clock.now

    def _start(self, life: Life) -> None:
        now, left_s = self.clock.now, life.arrival.run_s - life.saved_s
        life.met_gpu_s += life.held_gpu_s(now)
        if life.whole_s is None:
            life.whole_s = now
        life.runs.append(Run(now, gpus=life.arrival.gpus * len(life.nodes)))
        self._turn(life, Use.STARTING)
        life.timers = [
            self.clock.after(self.terms.start_s, lambda: self._turn(life, Use.PRODUCTIVE)),
            self.clock.after(self.terms.start_s + left_s, lambda: self._end(life)),
        ]

    def _turn(self, life: Life, use: Use) -> None:
        self.account.move(self.clock.now, life.arrival.gpus * len(life.nodes), life.use, use)
        life.use = use

    def _end(self, life: Life) -> None:
        nodes = life.nodes
        self.vacate(life)
        life.nodes = nodes
        life.ended_s = self.clock.now
        self._decider.ended(life)
        self._count()

    def _count(self) -> None:
        self._over += 1
        self._advance(self._over)
