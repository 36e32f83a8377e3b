"""When each waiting workload is expected to start: the queue is played forward in time, on what is known now.

Running workloads end when they are expected to; several ends are taken as one instant. After each instant waiting
workloads start in their order, as far as they have quota and room. Room for pods is only counted, and not planned:
affinity and spread between pods are left out. A start that depends on an unknown end has no expectation.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import inf

import numpy as np

from extender.core.causes import Lacks, QueueOrder
from extender.core.ledger.backfill import Backfill, Backfills
from extender.core.ledger.claims import Claims
from extender.core.ledger.durations import Durations
from extender.core.ledger.expectations import Expectation, Expectations
from extender.core.ledger.pending import Pending, Turn, Turns
from extender.core.ledger.queues import QueueSnapshot
from extender.core.ledger.quotas import Quotas
from extender.core.limits import Limits
from extender.core.queue.demands import QuotaRequest
from extender.core.queue.endings import Endings, InOrder
from extender.core.workload.shape import PodSetKey, Shape, podset_key
from extender.core.workload.workload import Workload
from policies.api import PolicyError
from policies.model import GroupKey, Pod, Selection
from policies.model.queues import ClusterQueue, Strategy, Usage
from policies.placement.columns import Mask
from policies.placement.request import shape_of
from policies.placement.snapshot import Amounts, Counts, Rows, Snapshot, slots
from policies.quota.flavors import Choices, Fit
from policies.quota.parts import PodSetRequest
from policies.steps import Steps, grouped, ordered

MOST_OF_TREE = 200
"""Workloads of one queue tree for which a start is expected, the first in their order."""
_STEPS = 32
"""Instants at which running workloads end in the play. An end between two of them counts at the later one."""
_MOST_STEPS = 3 * _STEPS
"""The most instants of a play, with the ends of workloads that start in it."""
_AT_ONCE = 64
_PODS = 8
"""Pods whose durations, and what they ask for, are looked at for one unit of ``policies.steps``."""
_LOOK, _RECOUNT, _QUOTA, _COUNT, _STEP = 2, 20, 16, 30, 80
"""The costs in units of ``policies.steps``.

In their order: to consider a workload; to count members on changed nodes; to look for quota; to count members on all
nodes; to add up what ends.
"""


Roles = Sequence[tuple[Pod, int]]
"""Pairs of one pod of a role, and the number of its pods that start together."""


@dataclass(frozen=True, slots=True, eq=False)
class _Kind:
    """The request of workloads of one shape and queue: of nodes, role by role, and of quota.

    ``parts``: the podset of each role, as flavors are given to it.
    ``request``: None without a queue.
    """

    shape: Shape
    roles: Roles
    parts: Sequence[PodSetKey]
    queue: ClusterQueue | None
    request: QuotaRequest | None
    podsets: Sequence[PodSetRequest]


@dataclass(frozen=True, slots=True)
class _Waiting:
    """A workload that waits in the play. ``place``: its place in the order; a lower one starts first."""

    workload: Workload
    place: tuple[Turn, int]
    queue: str
    runs_s: float


_Queued = tuple[_Waiting, _Kind]
Taken = list[tuple[Sequence[tuple[int, int]], Rows, Counts]]
"""Room: lines and amounts of a member, the rows of nodes, and how many members are on each."""


@dataclass(frozen=True, slots=True)
class _Start:
    """A workload that started in the play, with its room and quota."""

    key: GroupKey
    taken: Taken
    queue: str
    usage: Usage


@dataclass(eq=False)
class Forecast:
    """``review`` plays the queue once every ``forecast_s``, in steps."""

    _limits: Limits
    _workloads: Mapping[GroupKey, Workload]
    _claims: Claims
    _quotas: Quotas
    _durations: Durations
    _backfills: Backfills
    _pending: Pending
    _expectations: Expectations
    _endings: Endings
    _turns: Turns

    def __post_init__(self) -> None:
        self._due = 0.0
        self._idle = True
        """Whether nothing waited the last time. What comes first then gets its expectation in the same cycle."""

    def due(self) -> float | None:
        """When the queue is played next, if ever."""
        return self._due if self._limits.forecast_s < inf else None

    def review(self, now: float) -> Steps[None]:
        """Play the queue if it is time. Each waiting workload has its expectation then, or none."""
        if (due := self.due()) is None or (now < due and not self._idle):
            return
        self._due = now + self._limits.forecast_s
        try:
            waiting = yield from self._in_line()
        except PolicyError:
            waiting = []  # the turns of the workloads say so
        self._idle = not waiting
        expectations, unknown = (yield from self._play(waiting, now)) if waiting else ({}, {})
        self._expectations.renew(expectations, unknown)

    def _in_line(self) -> Steps[list[_Waiting]]:
        """The first workloads of each tree, in their order, that lack room or quota or wait behind one that does."""
        trees: dict[str, list[_Waiting]] = {}
        tree = self._quotas.queues.snapshot.tree
        for key, number in list(self._pending.keys.items()):
            yield _LOOK
            workload = self._workloads.get(key)
            if (
                workload is None
                or workload.current_demand is None
                or not isinstance(workload.reason_state.cause, Lacks | QueueOrder)
            ):
                continue
            yield len(workload.current_demand.pods) // _PODS
            queue = self._quotas.members.queue_of(key) or ""
            duration = self._durations.of(workload)
            runs_s = inf if duration is None else duration.seconds
            waiting = _Waiting(workload, (self._turns.of(workload), number), queue, runs_s)
            trees.setdefault(tree.root_of(queue), []).append(waiting)
        first: list[_Waiting] = []
        for queued in trees.values():
            first += (yield from ordered(queued, _place))[:MOST_OF_TREE]
        return (yield from ordered(first, _place))

    def _kinds(self, waiting: Sequence[_Waiting], snapshot: QueueSnapshot) -> Steps[list[_Queued]]:
        """The workloads with their requests. Workloads that have changed meanwhile are left out."""
        known: dict[tuple[Shape, str], _Kind] = {}
        queued: list[_Queued] = []
        for waiter in waiting:
            yield _LOOK
            demand = waiter.workload.current_demand
            if demand is None or demand.shape is None:
                continue
            if (kind := known.get((demand.shape, waiter.queue))) is None:
                roles = yield from least_of_roles(demand.pods, demand.shape)
                yield len(demand.pods)
                if waiter.workload.current_demand is not demand:
                    continue
                kind = known[demand.shape, waiter.queue] = _kind(waiter, demand.pods, demand.shape, roles, snapshot)
            queued.append((waiter, kind))
        return queued

    def _play(
        self, waiting: list[_Waiting], now: float
    ) -> Steps[tuple[dict[GroupKey, Expectation], dict[GroupKey, None]]]:
        """Return the expectations, and the workloads whose start depends on an unknown end."""
        snapshot = self._quotas.queues.snapshot
        left = yield from self._kinds(waiting, snapshot)
        endings = yield from self._endings.in_order(None, now)
        yield _STEP
        course = _Course(endings, snapshot, self._quotas, self._backfills, self._claims)
        expectations: dict[GroupKey, Expectation] = {}
        for instant, last in course.instants(now):
            yield _STEP
            rest: list[_Queued] = []
            for started, _ in (yield from course.start_some(left, instant, rest)):
                if (reservation := self._backfills.of.get(started.workload.key)) is not None:
                    start, after = reservation.start_by, reservation.after
                else:
                    start, after = instant, last
                # What would start at once lacks something that is not counted here.
                if start > now:
                    spread = self._expectations.spread(started.queue)
                    expectations[started.workload.key] = Expectation(start, now, after, self._rests_on(after), spread)
            if not (left := rest):
                break
        unknown = (waiter.workload.key for waiter, _ in left) if course.has_unknown_ends else ()
        return expectations, dict.fromkeys(unknown)

    def _rests_on(self, key: GroupKey | None) -> str:
        workload = None if key is None else self._workloads.get(key)
        duration = None if workload is None else self._durations.of(workload)
        return "" if duration is None else str(duration)


def _kind(waiter: _Waiting, pods: Sequence[Pod], shape: Shape, roles: Roles, snapshot: QueueSnapshot) -> _Kind:
    queue, workload = snapshot.queues.get(waiter.queue), waiter.workload
    of_job, pod_for = workload.job is not None, workload.members.pod_for
    parts = [podset_key(pod_for(pod.identity), of_job=of_job) for pod, _ in roles]
    if queue is None:
        return _Kind(shape, roles, parts, None, None, ())
    quota_request = QuotaRequest(workload, pods, queue, snapshot)
    return _Kind(shape, roles, parts, queue, quota_request, quota_request.podsets(pods))


def _place(waiter: _Waiting) -> tuple[Turn, int]:
    return waiter.place


def least_of_roles(pods: Sequence[Pod], shape: Shape) -> Steps[list[tuple[Pod, int]]]:
    """The first pod of each role, and how many of it start together. Of one role these are as few as have to."""
    if len(shape.roles) == 1:
        return [(pods[0], min(len(pods), shape.needed))]
    roles = yield from grouped(pods, shape_of)
    return [(pods[0], len(pods)) for pods in roles.values()]


class _Course:
    """The cluster in the play: what is free of nodes and quota at its present instant, and what ends later."""

    def __init__(
        self, ordered: InOrder, snapshot: QueueSnapshot, quotas: Quotas, backfills: Backfills, claims: Claims
    ) -> None:
        self._view = view = ordered.view
        self._ordered = ordered
        self._quotas = quotas
        self._backfills = backfills
        self._flavors = snapshot.flavors
        self._tree = snapshot.tree.copy()
        free = _Free(view, view.free.copy())
        for key in backfills.of:
            for claim in filter(None, map(claims.get, backfills.rooms(key))):
                free.change(self._room(claim.node, dict(claim.requests)), 1)
        self._all = self._unreserved = free
        """The free room, and the free room that is not reserved."""
        if backfills.of:
            self._unreserved = _Free(view, free.amounts.copy())
        for reservation in backfills.of.values():
            self._unreserved.change(self._rooms_of(reservation), -1)
        self._soonest = min((backfill.start_by for backfill in backfills.of.values()), default=inf)
        self._ends: list[tuple[float, int, _Start]] = []
        """A heap of the ends of what started in the play."""
        self._started = 0
        self.has_unknown_ends = ordered.known < len(ordered.keys)

    def instants(self, now: float) -> Iterator[tuple[float, GroupKey | None]]:
        """Yield the present, then each instant at which something ends, with the workload whose end comes last."""
        yield now, None
        known, at = self._ordered.known, self._ordered.at
        done = 0
        for _ in range(_MOST_STEPS):
            if done == known and not self._ends:
                return
            # A part of the running workloads ends at a time, or a part of what started in the play if that is sooner.
            until = min(known, done + 1 + known // _STEPS)
            instant = float(at[until - 1]) if until > done else inf
            if self._ends:
                instant = min(instant, heapq.nsmallest(1 + len(self._ends) // _STEPS, self._ends)[-1][0])
            until = done + int(np.searchsorted(at[done:known], instant, side="right"))
            instant = max(now, instant)
            last = self._end(done, until, instant)
            done = until
            yield instant, last

    def _end(self, done: int, until: int, instant: float) -> GroupKey | None:
        """End what runs from ``done`` on up to ``until``, and what started in the play and ends by the instant."""
        ends = list[tuple[float, GroupKey | None]]()
        if until > done:
            given = self._ordered.given_back(until, done)
            for free in dict.fromkeys((self._all, self._unreserved)):
                free.add(given)
            ends.append((float(self._ordered.at[until - 1]), self._ordered.keys[until - 1]))
        for key in filter(None, self._ordered.keys[done:until]):
            for use in self._quotas.uses.of(key).values():
                if use.queue in self._tree.queues:
                    self._tree.free(use.queue, use.usage)
        while self._ends and self._ends[0][0] <= instant:
            at, _, start = heapq.heappop(self._ends)
            ends.append((at, start.key))
            self._take(start.taken, 1)
            if start.queue in self._tree.queues:
                self._tree.free(start.queue, start.usage)
        return max(ends, key=lambda end: end[0], default=(0.0, None))[1]

    def start_some(self, waiting: Sequence[_Queued], instant: float, rest: list[_Queued]) -> Steps[list[_Queued]]:
        """Start the workloads that have quota and room, in their order, and return them. ``rest`` gets the others."""
        started: list[_Queued] = []
        short: dict[tuple[_Kind, bool], None] = {}
        held_up: dict[str, None] = {}
        for count, (waiter, kind) in enumerate(waiting):
            if not count % _AT_ONCE:
                yield _AT_ONCE // 2
            like = kind, self._ends_in_time(waiter, instant)
            if (reservation := self._backfills.of.get(waiter.workload.key)) is not None:
                if starts := instant >= reservation.start_by:
                    self._start_reserved(waiter, reservation)
            else:
                tried = like not in short and waiter.queue not in held_up
                if not (starts := tried and (yield from self._try_start(waiter, kind, instant))):
                    short[like] = None
            (started if starts else rest).append((waiter, kind))
            if not starts and kind.queue is not None and kind.queue.strategy is Strategy.STRICT:
                held_up[waiter.queue] = None
        return started

    def _ends_in_time(self, waiter: _Waiting, instant: float) -> bool:
        """Whether the workload may use reserved room: it ends before any reservation begins."""
        return instant + waiter.runs_s <= self._soonest

    def _try_start(self, waiter: _Waiting, kind: _Kind, instant: float) -> Steps[bool]:
        """Start the workload if it has quota and room. Returns whether it has."""
        roles: Roles = kind.roles
        usage: Usage = {}
        if kind.request is not None:
            yield _QUOTA
            if (assigned := self._assign(waiter, kind)) is None:
                return False
            roles, usage = assigned
        free = self._all if self._ends_in_time(waiter, instant) else self._unreserved
        taken: Taken = []
        for pod, count in roles:
            room = yield from free.room(pod, count)
            if room is None:
                self._take(taken, 1)
                return False
            self._take([room], -1)
            taken.append(room)
        self._begin(waiter, taken, usage, instant)
        return True

    def _start_reserved(self, waiter: _Waiting, reservation: Backfill) -> None:
        """Start a workload in the room that is reserved for it, whose instant has come."""
        taken = self._rooms_of(reservation)
        self._all.change(taken, -1)
        self._begin(waiter, taken, {}, reservation.start_by)

    def _begin(self, waiter: _Waiting, taken: Taken, usage: Usage, instant: float) -> None:
        if waiter.queue in self._tree.queues:
            self._tree.use(waiter.queue, usage)
        if waiter.runs_s == inf:
            self.has_unknown_ends = True
            return
        self._started += 1
        start = _Start(waiter.workload.key, taken, waiter.queue, usage)
        heapq.heappush(self._ends, (instant + waiter.runs_s, self._started, start))

    def _take(self, taken: Taken, sign: int) -> None:
        for free in dict.fromkeys((self._all, self._unreserved)):
            free.change(taken, sign)

    def _assign(self, waiter: _Waiting, kind: _Kind) -> tuple[Roles, Usage] | None:
        """The roles as they are held to nodes of the first flavors that there is quota of, and that quota."""
        if kind.queue is None or kind.request is None or waiter.queue not in self._tree.queues:
            return None
        choices: Choices[str] = Choices(self._tree, self._flavors, kind.queue, {})
        assignment = choices.first(kind.podsets)
        if assignment.fit is not Fit.FITS:
            return None
        made, roles = kind.request.flavorings(assignment), list[tuple[Pod, int]]()
        for (pod, count), podset in zip(kind.roles, kind.parts, strict=True):
            flavoring = made.get(podset)
            roles.append((pod if flavoring is None else flavoring.confined(pod), count))
        return roles, assignment.usage

    def _rooms_of(self, reservation: Backfill) -> Taken:
        return [room for node, wanted in reservation.rooms.items() for room in self._room(node, wanted)]

    def _room(self, node: str, wanted: Mapping[str, int]) -> Taken:
        if (row := self._view.rows.get(node)) is None:
            return []
        named = ((self._view.resources.get(name), amount) for name, amount in wanted.items())
        lines = [(line, amount) for line, amount in named if line is not None]
        return [(lines, np.array([row], dtype=np.intp), np.ones(1, dtype=np.int64))]


class _Fits:
    """How many members of one role fit on each node, and in the domains of each level.

    ``seen``: how many of the changes of ``_Free`` are counted.
    ``sums``: by level, for the nodes outside all domains, then for each domain.
    """

    def __init__(
        self, view: Snapshot, amounts: Amounts, demand: Sequence[tuple[int, int]], mask: Mask, seen: int
    ) -> None:
        self._levels = view.levels
        self._demand = demand
        self._mask = mask
        self.seen = seen
        self.counts: Counts = slots(amounts, demand) * mask
        self.sums = [level.sums(self.counts) for level in view.levels]

    def count_on(self, rows: Rows, amounts: Amounts) -> None:
        """Count again on these nodes, where what is free has changed."""
        fresh = slots(amounts[:, rows], self._demand) * self._mask[rows]
        more, self.counts[rows] = fresh - self.counts[rows], fresh
        for level, sums in zip(self._levels, self.sums, strict=True):
            np.add.at(sums, level.codes[rows] + 1, more)


class _Free:
    """The free room of each node in the play, and how many members of each role fit there."""

    def __init__(self, view: Snapshot, amounts: Amounts) -> None:
        self.amounts = amounts
        self._view = view
        self._fits: dict[tuple[object, Selection], _Fits] = {}
        self._changed: list[Rows] = []
        """The nodes of each change, in the order of the changes."""

    def add(self, given: Amounts) -> None:
        """Add amounts. Shape ``(resources, nodes)``."""
        self.amounts += given
        self._changed.append(np.flatnonzero(given.any(axis=0)))

    def change(self, taken: Taken, sign: int) -> None:
        """Give the room back, or with -1 take it."""
        for lines, rows, counts in taken:
            for line, amount in lines:
                self.amounts[line, rows] += sign * amount * counts
            self._changed.append(rows)

    def room(self, pod: Pod, count: int) -> Steps[tuple[Sequence[tuple[int, int]], Rows, Counts] | None]:
        """The nodes for ``count`` pods like this one, with the number on each; None if there is too little room."""
        if (demand := self._view.demand(pod.requests)) is None:
            return None
        fits = yield from self._up_to_date(pod, demand)
        if (rows := self._in_one_domain(pod, fits, count)) is None:
            return None
        there = fits.counts[rows]
        order = np.argsort(-there, kind="stable")
        rows, there = rows[order], there[order]
        taken = np.minimum(there, np.maximum(count - (np.cumsum(there) - there), 0))
        return demand, rows[taken > 0], taken[taken > 0]

    def _up_to_date(self, pod: Pod, demand: Sequence[tuple[int, int]]) -> Steps[_Fits]:
        key = pod.requests, pod.selection
        if (fits := self._fits.get(key)) is None:
            yield from self._view.evaluated(pod.selection)
            yield _COUNT
            eligible = self._view.eligible(pod.selection)
            fits = self._fits[key] = _Fits(self._view, self.amounts, demand, eligible, len(self._changed))
        elif behind := self._changed[fits.seen :]:
            yield _RECOUNT
            fits.count_on(np.unique(np.concatenate(behind)), self.amounts)
            fits.seen = len(self._changed)
        return fits

    def _in_one_domain(self, pod: Pod, fits: _Fits, count: int) -> Rows | None:
        """The nodes that the role may use: those of the smallest domain that takes all of it, the nearest level first.

        None where the required level has no such domain, or all nodes together have too little room.
        """
        required = self._view.level_called(pod.topology.required) if pod.topology.required else None
        for at, level in enumerate(self._view.levels):
            sums = fits.sums[at][1:]
            enough = np.flatnonzero(sums >= count)
            if len(enough):
                return level.domain(int(enough[np.argmin(sums[enough])])).rows
            if at == required:
                return None
        rows = np.flatnonzero(fits.counts)
        return rows if fits.counts.sum() >= count else None
