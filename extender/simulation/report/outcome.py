"""The figures of a run: waiting by gang size and priority, GPU-hours by use, domains spanned, what preemption costs."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from extender.simulation.replay.course import Course, Life, Step, Use
from extender.simulation.replay.muster import Foresight
from extender.simulation.replay.queueing import Queueing
from extender.simulation.replay.shape import GPU, gpus_of
from extender.simulation.report.fairness import Fairness, fairness
from extender.simulation.report.quantiles import quantile, spread
from policies.model import CLIQUE, Node

_PRIORITIES = 5
"""How many of the highest priorities get rows of their own; the others share one."""


@dataclass(frozen=True, slots=True)
class Times:
    """Times of the jobs of a priority, or of their ``gangs`` of several pods, in seconds.

    ``priority``: None for all lower ones.
    ``waited``: until the gang was complete for the first time. ``took``: from submission to the end. Each is the
    median, the 95th percentile and the longest; None: never.
    """

    priority: int | None
    gangs: bool
    jobs: int
    waited: tuple[float | None, ...]
    took: tuple[float | None, ...]


@dataclass(frozen=True, slots=True)
class Preempted:
    """The evictions of a run: how many, of how many ``jobs``, and the ``most`` of one job."""

    evictions: int = 0
    jobs: int = 0
    most: int = 0
    priorities: tuple[Times, ...] = ()

    @property
    def several(self) -> bool:
        """Whether jobs have different priorities."""
        return len({priority.priority for priority in self.priorities}) > 1


NOBODY = Preempted()


def preempted(lives: Sequence[Life]) -> Preempted:
    """The evictions of a finished run."""
    counts = [life.evictions for life in lives if life.evictions]
    priorities = sorted({life.arrival.priority for life in lives}, reverse=True)
    times = []
    for priority in priorities[:_PRIORITIES]:
        times += _times(priority, [life for life in lives if life.arrival.priority == priority])
    times += _times(None, [life for life in lives if life.arrival.priority in priorities[_PRIORITIES:]])
    return Preempted(sum(counts), len(counts), max(counts, default=0), tuple(times))


def _times(priority: int | None, lives: Sequence[Life]) -> list[Times]:
    parts = ((False, lives), (True, [life for life in lives if life.arrival.pods > 1]))
    return [
        Times(priority, gangs, len(lives), _quantiles([life.waited_s for life in lives]), _took(lives))
        for gangs, lives in parts
        if lives
    ]


def _took(lives: Sequence[Life]) -> tuple[float | None, ...]:
    ends = ((None if life.failed else life.ended_s, life.arrival.submit_s) for life in lives)
    return _quantiles([math.inf if end is None else end - submitted for end, submitted in ends])


def _quantiles(values: Sequence[float]) -> tuple[float | None, ...]:
    return tuple(quantile(values, share) for share in (0.5, 0.95, 1.0))


SECONDS_PER_HOUR = 3600.0


@dataclass(frozen=True, slots=True)
class Waits:
    """Waiting times of jobs of a size (more than half of ``most_gpus``, up to all), from submission to a complete gang.

    ``most_gpus``: 0 for jobs of all sizes. A job whose gang was never complete has waited endlessly, which is None.
    """

    most_gpus: int
    jobs: int
    started: int
    median_s: float | None
    p95_s: float | None


@dataclass(frozen=True, slots=True)
class Figures:
    """A run of one scheduler. GPU-hours of the uses and the free ones add up to all GPUs over ``observed_s``.

    ``held``: GPU-hours without work: ``held_in_vain`` and ``rendezvous`` together.
    ``held_in_vain``: held by gangs that never became complete. Pods that fail and are remade are another gang.
    ``rendezvous``: held by members whose gang became complete later.
    ``never_started``: jobs of which no gang was ever complete.
    ``makespan_s``: None unless all completed.
    ``window_s``: while jobs arrived.
    ``held_at_most``: GPUs held without work at the worst moment.
    ``utilisation``: the productive share of all GPUs while jobs arrived; None if all came at once.
    ``overall``: jobs of all sizes.
    ``spans``: (domains, gangs) of started gangs of several pods, by their number of NVLink domains. A node in no domain
    counts as one. None without such domains.
    ``scattered``: gangs in more domains than an empty cluster would have needed.
    ``lost``: work of evicted jobs that had to be repeated, and their work until they had ended.
    """

    scheduler: str
    gpus: int
    jobs: int
    completed: int
    never_started: int
    observed_s: float
    makespan_s: float | None
    productive: float
    starting: float
    held: float
    free: float
    held_at_most: int
    utilisation: float | None
    overall: Waits
    waits: tuple[Waits, ...]
    spans: tuple[tuple[int, int], ...] | None
    scattered: int
    window_s: float
    held_in_vain: float
    rendezvous: float
    lost: float = 0.0

    @property
    def gpu_hours(self) -> float:
        """All GPUs over all of the observation."""
        return self.gpus * self.observed_s / SECONDS_PER_HOUR

    @property
    def drain_s(self) -> float | None:
        """Seconds from the last submission to the end of the last job; None unless all completed."""
        return None if self.makespan_s is None else self.makespan_s - self.window_s


@dataclass(frozen=True, slots=True)
class Outcome:
    """The figures, and the steps for a picture.

    ``gangs``: sizes, as in ``Waits``, with jobs of several pods.
    ``fairness``: None without queues.
    ``reasons``: Muster's reason for each job that never started.
    ``foresight``: None for other schedulers than Muster.
    """

    figures: Figures
    steps: Sequence[Step]
    gangs: frozenset[int]
    fairness: Fairness | None = None
    preempted: Preempted = NOBODY
    reasons: Mapping[str, str] = field(default_factory=dict)
    foresight: Foresight | None = None


def outcome(
    scheduler: str, course: Course, nodes: Sequence[Node], queueing: Queueing | None = None, *, spans: bool = True
) -> Outcome:
    """The outcome of a finished run. ``spans``: whether its pods were on nodes."""
    end_s, gpus, lives = course.observed_s, gpus_of(nodes), course.lives
    steps = course.account.steps()
    hours = _hours(steps, end_s)
    arriving_s = min(max(life.arrival.submit_s for life in lives), end_s)
    completed = [life.ended_s for life in lives if life.ended_s is not None and not life.failed]
    spans &= any(CLIQUE in node.labels for node in nodes)
    gangs = [life for life in lives if spans and life.whole_s is not None and len(life.nodes) > 1]
    domains = Domains(nodes)
    spanned = [domains.spanned(life.nodes) for life in gangs]
    fewest = [domains.fewest(life.arrival.gpus, len(life.nodes)) for life in gangs]
    figures = Figures(
        scheduler=scheduler,
        gpus=gpus,
        jobs=len(lives),
        completed=len(completed),
        never_started=sum(life.whole_s is None for life in lives),
        observed_s=end_s,
        window_s=arriving_s,
        makespan_s=max(completed) if len(completed) == len(lives) else None,
        productive=hours[0],
        starting=hours[1],
        held=hours[2],
        held_in_vain=sum(life.vain_gpu_s + life.held_gpu_s(end_s) for life in lives) / SECONDS_PER_HOUR,
        rendezvous=sum(life.met_gpu_s for life in lives) / SECONDS_PER_HOUR,
        lost=hours[3],
        free=gpus * end_s / SECONDS_PER_HOUR - sum(hours),
        held_at_most=int(max(step[3] for step in steps)),
        utilisation=_hours(steps, arriving_s)[0] * SECONDS_PER_HOUR / (gpus * arriving_s) if arriving_s else None,
        overall=_waits(0, [life.waited_s for life in lives]),
        waits=_by_size(lives),
        spans=tuple(sorted(Counter(spanned).items())) if spans else None,
        scattered=sum(span > few for span, few in zip(spanned, fewest, strict=True)),
    )
    shared = fairness(lives, end_s, queueing) if queueing is not None and queueing.seen else None
    gangs_of = frozenset(_size(life) for life in lives if life.arrival.pods > 1)
    return Outcome(figures, steps, gangs_of, shared, preempted(lives))


def binned(steps: Sequence[Step], end_s: float, bins: int) -> list[tuple[float, ...]]:
    """The means of the uses over ``bins`` equal stretches of 0..end_s."""
    means = [[0.0] * len(Use) for _ in range(bins)]
    for step, until in zip(steps, [*(step[0] for step in steps[1:]), end_s], strict=True):
        spread(means, step[0], min(until, end_s), end_s, step[1:])
    return [tuple(mean) for mean in means]


class Domains:
    """Counts NVLink domains of nodes; a node in none counts as one."""

    def __init__(self, nodes: Sequence[Node]) -> None:
        self._of = {node.name: node.labels.get(CLIQUE, node.name) for node in nodes}
        self._gpus = [(self._of[node.name], dict(node.allocatable).get(GPU, 0)) for node in nodes]
        self._slots: dict[int, list[int]] = {}

    def spanned(self, names: Sequence[str]) -> int:
        return len({self._of[name] for name in names})

    def fewest(self, gpus: int, pods: int) -> int:
        """How many domains that many pods need in an empty cluster."""
        left = pods
        for number, slots in enumerate(self._slots_of(gpus), 1):
            left -= slots
            if left <= 0:
                return number
        raise ValueError(f"{pods} pods of {gpus} GPUs do not fit at all")

    def _slots_of(self, gpus: int) -> list[int]:
        if gpus not in self._slots:
            slots: Counter[str] = Counter()
            for domain, offered in self._gpus:
                slots[domain] += offered // gpus
            self._slots[gpus] = sorted(slots.values(), reverse=True)
        return self._slots[gpus]


def _by_size(lives: Sequence[Life]) -> tuple[Waits, ...]:
    by_size: dict[int, list[float]] = {}
    for life in lives:
        by_size.setdefault(_size(life), []).append(life.waited_s)
    return tuple(_waits(size, waited) for size, waited in sorted(by_size.items()))


def _size(life: Life) -> int:
    return 1 << max(life.arrival.all_gpus - 1, 0).bit_length()


def _waits(most_gpus: int, waited: Sequence[float]) -> Waits:
    started = sum(map(math.isfinite, waited))
    return Waits(most_gpus, len(waited), started, quantile(waited, 0.5), quantile(waited, 0.95))


def _hours(steps: Sequence[Step], end_s: float) -> list[float]:
    """GPU-hours of the uses until ``end_s``."""
    if not end_s:
        return [0.0] * len(Use)
    (means,) = binned([step for step in steps if step[0] <= end_s], end_s, 1)
    return [mean * end_s / SECONDS_PER_HOUR for mean in means]
