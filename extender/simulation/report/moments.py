"""What each queue wants, uses and waits for, from one change to the next."""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from operator import itemgetter

from extender.simulation.replay.course import Life


@dataclass(frozen=True, slots=True)
class Moment:
    """From ``begin`` to ``until``, by queue. GPUs of jobs that run or wait (``demand``), and of those that run
    (``used``). ``turn``: what the job asks for whose turn is next, by priority and age; 0: none waits. ``changed``:
    where something is otherwise than the moment before."""

    begin: float
    until: float
    changed: frozenset[str]
    demand: Mapping[str, int]
    used: Mapping[str, int]
    turn: Mapping[str, int]


def moments(by_queue: Mapping[str, Iterable[Life]], end_s: float) -> Iterator[Moment]:
    """In order, without gaps, from the first submission on; the mappings are valid until the next one is asked for."""
    changes: list[tuple[float, str, Life, int, int, bool]] = []
    for name, some in by_queue.items():
        for life in some:
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
            turn |= {one: lines[one].first() for one in changed}
            yield Moment(at, until, frozenset(changed), demand, used, turn)
            changed.clear()


def _of(name: str, life: Life, end_s: float) -> Iterator[tuple[float, str, Life, int, int, bool]]:
    """When what it wants and uses is so many GPUs more or less, and whether it waits from then on."""
    asked, over_s = life.arrival.all_gpus, end_s if life.ended_s is None else life.ended_s
    yield life.arrival.submit_s, name, life, asked, 0, True
    for run in life.runs:
        yield run.since_s, name, life, 0, run.gpus, False
        until = over_s if run.until_s is None else run.until_s
        yield until, name, life, 0, -run.gpus, until < over_s
    yield over_s, name, life, -asked, 0, False


class _Line:
    """The jobs of one queue that wait."""

    def __init__(self) -> None:
        self._heap: list[tuple[int, float, int, int]] = []
        self._waiting: set[int] = set()

    def note(self, life: Life, waits: bool) -> None:
        if not waits:
            self._waiting.discard(life.number)
        elif life.number not in self._waiting:
            self._waiting.add(life.number)
            one = life.arrival
            heapq.heappush(self._heap, (-one.priority, one.submit_s, life.number, one.all_gpus))

    def first(self) -> int:
        while self._heap and self._heap[0][2] not in self._waiting:
            heapq.heappop(self._heap)
        return self._heap[0][3] if self._heap else 0
