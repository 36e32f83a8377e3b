"""When each waiting workload is expected to start: the queue is played forward in time, on what is known now.

Running workloads end when they are expected to, the ends of several are taken together, and each time those that wait
start in their order, as far as they have quota and room. Where pods go is only counted, and not planned: affinity and
spread between pods are left out. What rests on an end that nobody knows has no expectation.
"""

from __future__ import annotations

import heapq
import math
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass
from math import inf

import numpy as np

from extender.core.causes import Lacks
from extender.core.ledger.backfill import Backfill, Backfills
from extender.core.ledger.claims import Claims
from extender.core.ledger.durations import Durations
from extender.core.ledger.pending import Pending, Turns
from extender.core.ledger.quotas import Quotas
from extender.core.limits import Limits
from extender.core.queue.demands import Asked
from extender.core.queue.endings import Endings, InOrder
from extender.core.workload.shape import Shape, part_of
from extender.core.workload.workload import Workload
from policies.api import PolicyError
from policies.model import GroupKey, Pod, Requests
from policies.model.queues import Usage
from policies.placement.request import shape_of
from policies.placement.snapshot import Amounts, Counts, Snapshot, slots
from policies.quota.flavors import Choices, Fit
from policies.steps import AT_ONCE, Steps, grouped

MOST_OF_TREE = 200
"""Workloads of one queue tree for which a start is expected, the first in their order."""
_STEPS = 48
"""Instants at which ends are looked at: those between two of them count at the later one."""
_SEAT, _STEP = 12, 60
"""What it costs to look for room once, and to add up what ends, in units of ``policies.steps``."""
_UNSURE = 2.0
"""By which factor a wait may be shorter or longer, as long as few starts tell how good expectations are."""
_REMEMBERED, _FEW = 100, 10
"""Starts of one queue that tell how good its expectations are: at most, and before any of them counts."""


@dataclass(frozen=True, slots=True)
class Expectation:
    """The expected start of a workload. Instants are by the core's clock.

    ``as_of``: when it was found.
    ``after``: the workload after whose end the start comes; None where it waits for no end.
    ``rests_on``: how the duration of that one is known, for people.
    ``spread``: by which factor the wait from ``as_of`` on may be shorter or longer.
    """

    start: float
    as_of: float
    after: GroupKey | None = None
    rests_on: str = ""
    spread: float = _UNSURE

    @property
    def earliest(self) -> float:
        """The beginning of the span in which the start is likely."""
        return self.as_of + (self.start - self.as_of) / self.spread

    @property
    def latest(self) -> float:
        """The end of that span."""
        return self.as_of + (self.start - self.as_of) * self.spread


@dataclass(slots=True)
class _Waiting:
    """A workload that waits in the play, and what it asks for."""

    workload: Workload
    shape: Shape
    roles: Sequence[tuple[Pod, int]]
    queue: str
    runs_s: float


@dataclass(frozen=True, slots=True)
class _Start:
    """What started in the play."""

    key: GroupKey
    rooms: list[tuple[str, Requests]]
    queue: str
    usage: Usage


class Forecast:
    """``review`` plays the queue once every ``forecast_s``, in steps. ``of``: the last expectation of each workload."""

    def __init__(
        self,
        limits: Limits,
        workloads: Mapping[GroupKey, Workload],
        claims: Claims,
        quotas: Quotas,
        durations: Durations,
        backfills: Backfills,
        pending: Pending,
        endings: Endings,
        turns: Turns,
    ) -> None:
        self._limits = limits
        self._workloads = workloads
        self._claims = claims
        self._quotas = quotas
        self._durations = durations
        self._backfills = backfills
        self._pending = pending
        self._endings = endings
        self._turns = turns
        self._due = 0.0
        self._first: dict[GroupKey, Expectation] = {}
        """The first expectation of each workload: the one that its start is compared with."""
        self.of: dict[GroupKey, Expectation] = {}
        self.errors: dict[str, deque[float]] = {}
        """By ClusterQueue: the wait that came over the wait that was expected, of the last starts."""

    def due(self) -> float | None:
        """When the queue is played next, if ever."""
        return self._due if self._limits.forecast_s < inf else None

    def follow(self, now: float) -> None:
        """After an event: forget the expectations of workloads that wait no more, and learn from those that started."""
        for key in [key for key in self._first if key not in self._pending.keys]:
            expected, workload = self._first.pop(key), self._workloads.get(key)
            self.of.pop(key, None)
            if workload is not None and workload.seated and expected.start > expected.as_of:
                queue = self._quotas.members.queue_of(key) or ""
                ratio = (now - expected.as_of) / (expected.start - expected.as_of)
                self.errors.setdefault(queue, deque(maxlen=_REMEMBERED)).append(max(ratio, 1e-3))

    def review(self, now: float) -> Steps[None]:
        """Play the queue if it is time. Each waiting workload has its expectation then, or none."""
        if (due := self.due()) is None or now < due:
            return
        self._due = now + self._limits.forecast_s
        waiting = yield from self._in_line()
        self.of = {} if not waiting else (yield from self._play(waiting, now))
        for key, expected in self.of.items():
            self._first.setdefault(key, expected)

    def _in_line(self) -> Steps[list[_Waiting]]:
        """Those that lack room or quota, in their order, of each tree the first."""
        found: dict[str, list[_Waiting]] = {}
        tree = self._quotas.queues.picture.tree
        for count, key in enumerate(list(self._pending.keys), 1):
            if not count % AT_ONCE:
                yield AT_ONCE // 2
            workload = self._workloads.get(key)
            demand = None if workload is None else workload.asked
            if workload is None or demand is None or demand.shape is None:
                continue
            if isinstance(workload.telling.cause, Lacks):
                queue = self._quotas.members.queue_of(key) or ""
                duration = self._durations.of(workload)
                runs_s = inf if duration is None else duration.seconds
                roles = yield from _roles(demand.pods, demand.shape)
                one = _Waiting(workload, demand.shape, roles, queue, runs_s)
                found.setdefault(tree.root_of(queue), []).append(one)
        numbers = self._pending.keys

        def place(one: _Waiting) -> tuple[object, ...]:
            return self._turns.of(one.workload), numbers.get(one.workload.key, 0)

        try:
            first = [one for some in found.values() for one in sorted(some, key=place)[:MOST_OF_TREE]]
            yield len(first)
            return sorted(first, key=place)
        except PolicyError:
            return []  # the turns of the workloads say so

    def _play(self, waiting: list[_Waiting], now: float) -> Steps[dict[GroupKey, Expectation]]:
        ordered = yield from self._endings.in_order(None, now)
        course = _Course(self._claims.snapshot(), ordered, self._quotas, self._backfills, self._claims)
        found: dict[GroupKey, Expectation] = {}
        for instant, last in course.instants(now):
            yield _STEP
            if course.shape != self._claims.snapshot().free.shape:
                return self.of  # nodes have come or gone: the play is of the past
            short: set[tuple[Shape, str]] = set()
            for one in list(waiting):
                reservation = self._backfills.of.get(one.workload.key)
                if reservation is None and (one.shape, one.queue) in short:
                    continue
                yield _SEAT
                if reservation is None:
                    starts = course.try_start(one, instant)
                else:
                    starts = instant >= reservation.start_by and course.start_reserved(one, reservation)
                if not starts:
                    short.add((one.shape, one.queue))
                    continue
                waiting.remove(one)
                start, after = (instant, last) if reservation is None else (reservation.start_by, reservation.after)
                spread = self._spread(one.queue)
                found[one.workload.key] = Expectation(max(now, start), now, after, self._rests_on(after), spread)
            if not waiting:
                break
        return found

    def _rests_on(self, key: GroupKey | None) -> str:
        workload = None if key is None else self._workloads.get(key)
        duration = None if workload is None else self._durations.of(workload)
        return "" if duration is None else str(duration)

    def _spread(self, queue: str) -> float:
        """The factor within which nine of ten starts of the queue came."""
        errors = self.errors.get(queue, ())
        if len(errors) < _FEW:
            return _UNSURE
        sizes = sorted(abs(math.log(error)) for error in errors)
        return max(1.05, math.exp(sizes[int(0.9 * (len(sizes) - 1))]))


def _roles(pods: Sequence[Pod], shape: Shape) -> Steps[list[tuple[Pod, int]]]:
    """The first pod of each role, and how many of it start together. Of one role these are as few as have to."""
    roles = yield from grouped(pods, shape_of)
    if len(roles) == 1:
        return [(pods[0], min(len(pods), shape.needed))]
    return [(some[0], len(some)) for some in roles.values()]


class _Course:
    """The cluster in the play: what is free of nodes and quota at its present instant, and what ends later."""

    def __init__(self, view: Snapshot, ordered: InOrder, quotas: Quotas, backfills: Backfills, claims: Claims) -> None:
        self.shape = view.free.shape
        self._view = view
        self._ordered = ordered
        self._quotas = quotas
        self._tree = deepcopy(quotas.queues.picture.tree)
        self._backfills = backfills
        self._free = view.free.copy()
        self._reserved = np.zeros_like(self._free)
        self._soonest = min((one.start_by for one in backfills.of.values()), default=inf)
        for key, reservation in backfills.of.items():
            for owner in backfills.rooms(key):
                if (claim := claims.get(owner)) is not None:
                    self._change(self._free, claim.node, claim.requests, 1)
            for node, wanted in reservation.rooms.items():
                self._change(self._reserved, node, tuple(wanted.items()), 1)
        self._ends: list[tuple[float, int, _Start]] = []
        """A heap of the ends of what started in the play."""
        self._started = 0

    def instants(self, now: float) -> Iterator[tuple[float, GroupKey | None]]:
        """The present, then each instant at which something has ended by then, with what ended last."""
        yield now, None
        endings = self._ordered.endings
        known = sum(ending.at < inf for ending in endings)
        done = 0
        for step in range(2 * _STEPS):
            if done < known:
                until = min(known, max(done + 1, known * (step + 1) // _STEPS))
                instant = max(now, endings[until - 1].at)
            elif self._ends:
                until, instant = done, self._ends[min(len(self._ends) - 1, len(self._ends) // _STEPS)][0]
            else:
                return
            last = self._end(done, until, instant)
            done = until
            yield instant, last

    def _end(self, done: int, until: int, instant: float) -> GroupKey | None:
        """End what runs from ``done`` on up to ``until``, and what started in the play and ends by the instant."""
        endings = self._ordered.endings[done:until]
        if endings:
            self._free += self._ordered.given_back(until, done)
        ends = [(ending.at, ending.key) for ending in endings[-1:]]
        for ending in endings:
            for use in () if ending.key is None else self._quotas.uses.of(ending.key).values():
                if use.queue in self._tree.queues:
                    self._tree.free(use.queue, use.usage)
        while self._ends and self._ends[0][0] <= instant:
            at, _, start = heapq.heappop(self._ends)
            ends.append((at, start.key))
            for node, requests in start.rooms:
                self._change(self._free, node, requests, 1)
            if start.queue in self._tree.queues:
                self._tree.free(start.queue, start.usage)
        return max(ends, key=lambda end: end[0], default=(0.0, None))[1]

    def try_start(self, one: _Waiting, instant: float) -> bool:
        """Start the workload if it has quota and room. Returns whether it has."""
        assigned = self._assign(one) if one.queue else (one.roles, {})
        if assigned is None:
            return False
        roles, usage = assigned
        in_time = instant + one.runs_s <= self._soonest
        free = self._free if in_time or self._soonest == inf == one.runs_s else self._free - self._reserved
        rooms = self._rooms(roles, free)
        if rooms is None:
            return False
        self._begin(one, rooms, usage, instant)
        return True

    def start_reserved(self, one: _Waiting, reservation: Backfill) -> bool:
        """Start a workload in the room that is reserved for it, whose instant has come."""
        rooms = [(node, tuple(wanted.items())) for node, wanted in reservation.rooms.items()]
        for node, requests in rooms:
            self._change(self._reserved, node, requests, -1)
        self._begin(one, rooms, {}, reservation.start_by)
        return True

    def _begin(self, one: _Waiting, rooms: list[tuple[str, Requests]], usage: Usage, instant: float) -> None:
        for node, requests in rooms:
            self._change(self._free, node, requests, -1)
        if one.queue in self._tree.queues:
            self._tree.use(one.queue, usage)
        if one.runs_s < inf:
            self._started += 1
            start = _Start(one.workload.key, rooms, one.queue, usage)
            heapq.heappush(self._ends, (instant + one.runs_s, self._started, start))

    def _assign(self, one: _Waiting) -> tuple[Sequence[tuple[Pod, int]], Usage] | None:
        """The roles as they are held to nodes of the first flavors that there is quota of, and that quota."""
        picture, queue = self._quotas.queues.picture, self._quotas.queue_of(one.workload.key)
        demand = one.workload.asked
        if queue is None or demand is None or one.queue not in self._tree.queues:
            return None
        asked = Asked(one.workload, demand.pods, queue, picture)
        choices: Choices[str] = Choices(self._tree, picture.flavors, queue, {})
        found = choices.first(asked.podsets(demand.pods))
        if found.fit is not Fit.FITS:
            return None
        made, of_job = asked.flavorings(found), one.workload.job is not None
        stands_for = one.workload.members.stands_for
        roles = []
        for pod, count in one.roles:
            flavoring = made.get(part_of(stands_for(pod.identity), of_job=of_job))
            roles.append((pod if flavoring is None else flavoring.confined(pod), count))
        return roles, found.usage

    def _rooms(self, roles: Sequence[tuple[Pod, int]], free: Amounts) -> list[tuple[str, Requests]] | None:
        """The nodes of each member, with what it has of them; None where there is too little room."""
        view, rooms = self._view, list[tuple[str, Requests]]()
        left = free.copy() if len(roles) > 1 else free
        for pod, count in roles:
            demand = view.demand(pod.requests)
            if demand is None:
                return None
            counts = self._in_one_domain(pod, slots(left, demand) * view.eligible(pod.selection), count)
            if counts is None:
                return None
            order = np.argsort(-counts, kind="stable")
            taken = np.minimum(counts[order], np.maximum(count - (np.cumsum(counts[order]) - counts[order]), 0))
            for row, much in zip(order[taken > 0].tolist(), taken[taken > 0].tolist(), strict=True):
                if len(roles) > 1:
                    for line, amount in demand:
                        left[line, row] -= amount * much
                rooms.append((view.names[row], tuple((name, amount * much) for name, amount in pod.requests)))
        return rooms

    def _in_one_domain(self, pod: Pod, counts: Counts, count: int) -> Counts | None:
        """The room that the role may use: that of the smallest domain that takes all of it, the nearest level first.

        None where the required level has no such domain, or all nodes together have too little room.
        """
        required = self._view.level_called(pod.topology.required) if pod.topology.required else None
        for at, level in enumerate(self._view.levels):
            sums, _ = level.tally(counts)
            enough = np.flatnonzero(sums >= count)
            if len(enough):
                best = enough[np.argmin(sums[enough])]
                return np.where(level.codes == best, counts, 0)
            if at == required:
                return None
        return counts if counts.sum() >= count else None

    def _change(self, amounts: Amounts, node: str, requests: Requests, sign: int) -> None:
        if (row := self._view.rows.get(node)) is not None:
            for name, amount in requests:
                if (line := self._view.resources.get(name)) is not None:
                    amounts[line, row] += sign * amount
