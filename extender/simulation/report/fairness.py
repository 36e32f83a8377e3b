"""The shares of queues: the GPUs that each used over time, its entitlement, and how long its jobs waited.

A queue's entitlement at each moment is its max-min fair part of its cohort's GPUs. These are filled up in proportion to
nominal quota among the queues with demand, that is running and waiting jobs. No entitlement exceeds the queue's demand
or its borrowing limit (progressive filling; Bertsekas and Gallager, Data Networks, 6.5.2).
"""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from operator import itemgetter

from extender.simulation.replay.course import Life
from extender.simulation.replay.queueing import Partition, Queueing, Stake
from extender.simulation.report.quantiles import quantile, spread


@dataclass(frozen=True, slots=True)
class Moment:
    """The queues from ``begin`` to ``until``, in seconds; each mapping is by queue.

    ``demand``: GPUs of running and waiting jobs.
    ``used``: GPUs of running jobs.
    ``turn``: GPUs of the waiting job that is next by priority and age; 0 without one.
    ``changed``: queues that differ from the moment before.
    """

    begin: float
    until: float
    changed: frozenset[str]
    demand: Mapping[str, int]
    used: Mapping[str, int]
    turn: Mapping[str, int]


def moments(by_queue: Mapping[str, Iterable[Life]], end_s: float) -> Iterator[Moment]:
    """Yield the moments in order, without gaps, from the first submission on. Each is valid until the next is
    requested."""
    changes: list[tuple[float, str, Life, int, int, bool]] = []
    for name, lives in by_queue.items():
        for life in lives:
            changes += _of(name, life, end_s)
    changes.sort(key=itemgetter(0))
    demand, used, turn = (dict.fromkeys(by_queue, 0) for _ in range(3))
    lines, changed = {name: _Line() for name in by_queue}, set[str]()
    for number, (at, name, life, wants, uses, waits) in enumerate(changes):
        demand[name] += wants
        used[name] += uses
        lines[name].note(life, waits)
        changed.add(name)
        until = min(changes[number + 1][0] if number + 1 < len(changes) else end_s, end_s)
        if until > at:
            turn |= {queue: lines[queue].first() for queue in changed}
            yield Moment(at, until, frozenset(changed), demand, used, turn)
            changed.clear()


def _of(name: str, life: Life, end_s: float) -> Iterator[tuple[float, str, Life, int, int, bool]]:
    """Yield the instants at which the job's demand and use change, by how many GPUs, and whether it waits from then
    on."""
    gpus, over_s = life.arrival.all_gpus, end_s if life.ended_s is None else life.ended_s
    yield life.arrival.submit_s, name, life, gpus, 0, True
    for run in life.runs:
        yield run.since_s, name, life, 0, run.gpus, False
        until = over_s if run.until_s is None else run.until_s
        yield until, name, life, 0, -run.gpus, until < over_s
    yield over_s, name, life, -gpus, 0, False


class _Line:
    """The waiting jobs of a queue."""

    def __init__(self) -> None:
        self._heap: list[tuple[int, float, int, int]] = []
        self._waiting: set[int] = set()

    def note(self, life: Life, waits: bool) -> None:
        if not waits:
            self._waiting.discard(life.number)
        elif life.number not in self._waiting:
            self._waiting.add(life.number)
            arrival = life.arrival
            heapq.heappush(self._heap, (-arrival.priority, arrival.submit_s, life.number, arrival.all_gpus))

    def first(self) -> int:
        while self._heap and self._heap[0][2] not in self._waiting:
            heapq.heappop(self._heap)
        return self._heap[0][3] if self._heap else 0


BINS = 240
"""How many equal stretches of the observation the curves of shares have."""


WINDOW_S = 3600.0
_TOLERANCE = 0.05
_LEAST_S = 1e-6


@dataclass(frozen=True, slots=True)
class Windows:
    """The judged hours of a queue: its demand exceeded its entitlement by at least its next job, the whole hour long.

    ``count``: all judged hours.
    ``within``: hours in which its use was its entitlement, to 5 % and to the GPUs of that job (each a mean over the
    hour).
    ``short``, ``over``: hours with less or more use than that.
    ``lent``: hours with more use, while for 95 % of the hour no other queue's next job fitted that queue's entitlement.
    ``worst``: the largest shortfall, as a share of the entitlement, whatever the job; 0 if it never was short.
    """

    count: int = 0
    within: int = 0
    short: int = 0
    over: int = 0
    lent: int = 0
    worst: float = 0.0


class Hours:
    """Sums a queue's entitlement and use by hour. Calls must go forward in time."""

    def __init__(self) -> None:
        self._sums: dict[int, list[float]] = {}

    def add(self, begin: float, until: float, entitled: float, used: float, turn: int, *, wanted: bool) -> None:
        """Add a stretch in which the demand exceeds the entitlement.

        ``turn``: GPUs of the queue's next job.
        ``wanted``: the next job of another queue is within that queue's entitlement.
        """
        while begin < until:
            number = int(begin // WINDOW_S)
            edge = min(until, (number + 1) * WINDOW_S)
            sums = self._sums.setdefault(number, [0.0] * 5)
            for at, value in enumerate((1.0, entitled, used, turn, wanted)):
                sums[at] += value * (edge - begin)
            begin = edge

    def judged(self) -> Windows:
        full = [sums for sums in self._sums.values() if sums[0] > WINDOW_S - _LEAST_S]
        short = sum(used < (1 - _TOLERANCE) * entitled - turn for _, entitled, used, turn, _ in full)
        over = [
            wanted_s > _TOLERANCE * WINDOW_S
            for _, entitled, used, turn, wanted_s in full
            if used > (1 + _TOLERANCE) * entitled + turn
        ]
        worst = max((1 - used / entitled for _, entitled, used, *_ in full if entitled), default=0.0)
        within = len(full) - short - len(over)
        return Windows(len(full), within, short, sum(over), len(over) - sum(over), max(0.0, worst))


@dataclass(frozen=True, slots=True)
class QueueShare:
    """A ClusterQueue in one run.

    ``nominal``: its quota in GPUs.
    ``entitled``, ``used``, ``short``: GPU-hours of its entitlement, its use, and its shortfall summed over all moments.
    ``p50_s``, ``p90_s``, ``max_s``: seconds of waiting until the gang is complete; None: never.
    ``curve``: the mean GPUs that it used and was entitled to, over equal stretches of the observation.
    ``windows``: the hours in which its demand exceeded its entitlement.
    """

    queue: str
    nominal: int
    jobs: int
    never_started: int
    entitled: float
    used: float
    short: float
    p50_s: float | None
    p90_s: float | None
    max_s: float | None
    curve: tuple[tuple[float, float], ...]
    windows: Windows


@dataclass(frozen=True, slots=True)
class Fairness:
    """The sharing in one run.

    ``jain``: the mean over time of Jain's index of use by entitlement, while at least two queues have demand; None if
    that never was.
    """

    jain: float | None
    queues: tuple[QueueShare, ...]


@dataclass(slots=True)
class _Sums:
    """GPU-seconds of a queue, in total and by hour."""

    entitled: float = 0.0
    used: float = 0.0
    short: float = 0.0
    hours: Hours = field(default_factory=Hours)

    def add(self, entitled: float, used: float, duration_s: float) -> None:
        self.entitled += entitled * duration_s
        self.used += used * duration_s
        self.short += max(0.0, entitled - used) * duration_s


def jain(shares: Sequence[float]) -> float:
    """Jain's index (sum x)^2 / (n sum x^2): 1 if all shares are equal, or all 0; 1/n if one queue has everything.

    Jain, Chiu and Hawe, DEC Research Report TR-301, 1984.
    """
    squares = sum(share * share for share in shares)
    return sum(shares) ** 2 / (len(shares) * squares) if squares else 1.0


def entitlements(partition: Partition, demand: Mapping[str, int]) -> dict[str, float]:
    """The entitlement of each queue with demand, in GPUs. A queue without nominal quota weighs like one GPU."""
    most = {name: min(demand[name], stake.most) for name, stake in partition.stakes.items() if demand.get(name)}
    if sum(most.values()) <= partition.gpus:
        return {name: float(amount) for name, amount in most.items()}
    left, entitlement = float(partition.gpus), {}
    weights = {name: max(1, partition.stakes[name].nominal) for name in most}
    waiting = sorted(most, key=lambda name: most[name] / weights[name])
    total = sum(weights.values())
    for name in waiting:
        entitlement[name] = min(float(most[name]), left * weights[name] / total)
        left -= entitlement[name]
        total -= weights[name]
    return entitlement


def fairness(lives: Sequence[Life], end_s: float, queueing: Queueing) -> Fairness:
    """The sharing of a finished run."""
    partitions = queueing.partitions()
    stakes = {name: stake for partition in partitions for name, stake in partition.stakes.items()}
    by_queue: dict[str, list[Life]] = {name: [] for name in stakes}
    for life in lives:
        if queue := queueing.queue_of(life.arrival):
            by_queue[queue].append(life)
    sums, curves = {name: _Sums() for name in stakes}, {name: [[0.0, 0.0] for _ in range(BINS)] for name in stakes}
    index, contended_s = 0.0, 0.0
    entitled: dict[str, float] = {}
    for moment in moments(by_queue, end_s):
        begin, until, used = moment.begin, moment.until, moment.used
        for partition in partitions:
            if not moment.changed.isdisjoint(partition.stakes):
                entitled = {name: much for name, much in entitled.items() if name not in partition.stakes}
                entitled |= entitlements(partition, moment.demand)
        for name in entitled:
            sums[name].add(entitled[name], used[name], until - begin)
            spread(curves[name], begin, until, end_s, (used[name], entitled[name]))
            if (turn := moment.turn[name]) and moment.demand[name] - entitled[name] >= turn:
                wanted = any(
                    name in partition.stakes and _claimed(moment, entitled, partition, name) for partition in partitions
                )
                sums[name].hours.add(begin, until, entitled[name], used[name], turn, wanted=wanted)
        if len(entitled) > 1:
            index += jain([used[name] / much for name, much in entitled.items() if much]) * (until - begin)
            contended_s += until - begin
    shares = (_share(name, stakes[name], by_queue[name], sums[name], curves[name], end_s) for name in sorted(stakes))
    return Fairness(index / contended_s if contended_s else None, tuple(shares))


def _claimed(moment: Moment, entitled: Mapping[str, float], partition: Partition, besides: str) -> bool:
    """Whether another queue is entitled to its next job as a whole."""
    others = (name for name in partition.stakes if name != besides and moment.turn[name])
    return any(moment.used[name] + moment.turn[name] <= entitled[name] for name in others)


def _share(
    name: str, stake: Stake, lives: Sequence[Life], sums: _Sums, curve: Sequence[Sequence[float]], end_s: float
) -> QueueShare:
    waited = [life.waited_s for life in lives]
    return QueueShare(
        queue=name,
        nominal=stake.nominal,
        jobs=len(lives),
        never_started=sum(life.whole_s is None for life in lives),
        entitled=sums.entitled / 3600,
        used=sums.used / 3600,
        short=sums.short / 3600,
        p50_s=quantile(waited, 0.5) if waited else None,
        p90_s=quantile(waited, 0.9) if waited else None,
        max_s=quantile(waited, 1.0) if waited else None,
        windows=sums.hours.judged(),
        curve=tuple((round(used, 2), round(entitled, 2)) for used, entitled in curve) if end_s else (),
    )
