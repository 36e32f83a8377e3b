"""The lifecycle of every job under any scheduler: submitted, given nodes, started, ended; and the use of its GPUs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from enum import IntEnum
from typing import Protocol

from extender.simulation.clock import Clock
from extender.simulation.replay.arrivals import Arrival
from extender.simulation.replay.shape import GPU
from policies.model import GANG_GATE, Dialect, GroupRef, Pod, Topology
from policies.model.topology import SILENT


class Use(IntEnum):
    """What a GPU that a pod has is doing."""

    PRODUCTIVE = 0
    STARTING = 1
    """The gang is whole: its containers start, and its members find each other."""
    HELD = 2
    """The pod has its node, and others without which it cannot run have none."""


@dataclass(frozen=True, slots=True)
class Terms:
    """What is assumed of every job alike, in seconds.

    ``start_s``: from the moment when a gang is whole to its work. ``give_up_s``: how long members wait for the others
    before all of them fail; None: for ever. They are made anew after ``backoff_s``, twice as long each time and at most
    ``backoff_max_s``, and after so many ``tries`` the job has failed. ``until_s``: when the observation ends at the
    latest.
    """

    start_s: float = 30.0
    give_up_s: float | None = 1800.0
    tries: int = 7
    backoff_s: float = 10.0
    backoff_max_s: float = 360.0
    until_s: float | None = None


@dataclass(slots=True, eq=False)
class Life:
    """One job. ``seats``: the nodes of its pods, in the order in which they got them. None: has not happened.

    ``seated_s``: when those of this try got theirs, until the gang is whole. GPU-seconds held without work, told by how
    it ended: ``met_gpu_s`` until the other members came, ``vain_gpu_s`` in tries whose gang never was whole.
    """

    arrival: Arrival
    number: int
    seats: list[str] = field(default_factory=list)
    seated_s: list[float] = field(default_factory=list)
    met_gpu_s: float = 0.0
    vain_gpu_s: float = 0.0
    use: Use = Use.HELD
    tries: int = 1
    whole_s: float | None = None
    ended_s: float | None = None
    failed: bool = False

    def pods(self, topology: Topology = SILENT) -> list[Pod]:
        """As the API server would have them: an Indexed Job, gated, without a node, in rank order; always the same."""
        one = self.arrival
        ref = GroupRef(one.name, Dialect.ANNOTATION, one.needed)
        requests = ((GPU, one.gpus), ("pods", 1))
        return [
            Pod(
                f"{self.number}/{index}",
                one.namespace,
                f"{one.name}-{index}",
                requests,
                created=one.submit_s,
                priority=one.priority,
                gates=(GANG_GATE,),
                owner=str(self.number),
                index=index,
                topology=topology,
                group=ref,
                queue=one.queue,
            )
            for index in range(one.pods)
        ]

    def held_gpu_s(self, now: float) -> float:
        """What this try has held so far while its gang was not whole."""
        return self.arrival.gpus * sum(now - since for since in self.seated_s)


class Account:
    """How many GPUs were in each use, step by step: (from when, productive, starting, held)."""

    def __init__(self) -> None:
        self.steps: list[tuple[float, int, int, int]] = [(0.0, 0, 0, 0)]
        self._amounts = [0, 0, 0]

    def move(self, now: float, gpus: int, old: Use | None, new: Use | None) -> None:
        """From one use to another; None: free."""
        if old is not None:
            self._amounts[old] -= gpus
        if new is not None:
            self._amounts[new] += gpus
        if self.steps[-1][0] == now:
            self.steps.pop()
        productive, starting, held = self._amounts
        self.steps.append((now, productive, starting, held))


class Decider(Protocol):
    """A scheduler: it is told what happens, and gives pods their nodes by ``Course.seat``."""

    def submitted(self, life: Life) -> None: ...

    def ended(self, life: Life) -> None:
        """The job is over; its pods have just left ``life.seats``."""
        ...


class Course:
    """One run of all jobs under one scheduler. ``tell`` is called with the number of jobs that are over."""

    def __init__(self, arrivals: Sequence[Arrival], terms: Terms, tell: Callable[[int], None]) -> None:
        self.clock = Clock()
        self.terms = terms
        self.account = Account()
        self.lives = [Life(arrival, number) for number, arrival in enumerate(arrivals)]
        self._tell = tell
        self._over = 0

    def play(self, decider: Decider) -> None:
        """Let everything happen, until all jobs are over or the observation ends."""
        for life in self.lives:
            self.clock.at(life.arrival.submit_s, lambda life=life: decider.submitted(life))  # type: ignore[misc]
        self._decider = decider
        until = float("inf") if self.terms.until_s is None else self.terms.until_s
        while self._over < len(self.lives) and self.clock.step(until):
            pass

    @property
    def observed_s(self) -> float:
        """When the last job was over, or the observation ended."""
        if self._over == len(self.lives) or self.terms.until_s is None:
            return self.clock.now
        return self.terms.until_s

    def seat(self, life: Life, node: str) -> None:
        """One more of its pods has got a node. With enough of them the job starts."""
        now = self.clock.now
        life.seats.append(node)
        self.account.move(now, life.arrival.gpus, None, life.use)
        if life.whole_s is not None:
            return
        life.seated_s.append(now)
        if len(life.seats) >= life.arrival.needed:
            life.whole_s, life.met_gpu_s, life.seated_s = now, life.held_gpu_s(now), []
            self._turn(life, Use.STARTING)
            self.clock.after(self.terms.start_s, lambda: self._turn(life, Use.PRODUCTIVE))
            self.clock.after(self.terms.start_s + life.arrival.run_s, lambda: self._end(life))

    def vacate(self, life: Life) -> None:
        """All its pods lose their nodes."""
        life.vain_gpu_s += life.held_gpu_s(self.clock.now)
        life.seated_s = []
        self.account.move(self.clock.now, life.arrival.gpus * len(life.seats), life.use, None)
        life.seats = []

    def fail(self, life: Life) -> None:
        """It is not tried again."""
        life.failed, life.ended_s = True, self.clock.now
        self._count()

    def _turn(self, life: Life, use: Use) -> None:
        self.account.move(self.clock.now, life.arrival.gpus * len(life.seats), life.use, use)
        life.use = use

    def _end(self, life: Life) -> None:
        seats = life.seats
        self.vacate(life)
        life.seats = seats
        life.ended_s = self.clock.now
        self._decider.ended(life)
        self._count()

    def _count(self) -> None:
        self._over += 1
        self._tell(self._over)
