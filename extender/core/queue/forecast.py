"""When each waiting workload is expected to start: the queue is played forward in time, on what is known now.

Running workloads end when they are expected to; several ends are taken as one instant. After each instant waiting
workloads start as far as they have quota and room, in the order of the cycle: ``Line`` gives each its turn. Room for
pods is only counted, and not planned: affinity and spread between pods are left out. A start that depends on an unknown
end has no expectation.

A play is repeated only if it may have another outcome: something that it reads has changed, or an instant has passed at
which it counts on something.
"""

from __future__ import annotations

import heapq
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from math import inf
from operator import itemgetter

import numpy as np

from extender.core.ledger.backfill import Backfill, Backfills
from extender.core.ledger.claims import Claims
from extender.core.ledger.durations import Durations
from extender.core.ledger.expectations import Expectation, Expectations, Foreseen
from extender.core.ledger.pending import Entry, Pending, Turn, Turns
from extender.core.ledger.queues import QueueSnapshot
from extender.core.ledger.quotas import Quotas
from extender.core.ledger.store import Store
from extender.core.limits import Limits
from extender.core.queue.demands import QuotaRequest
from extender.core.queue.endings import Endings, InOrder
from extender.core.queue.line import Line, QueueLines, requested
from extender.core.workload.shape import PodSetKey, Shape, podset_key
from extender.core.workload.workload import Workload
from policies.api import PolicyError
from policies.model import GroupKey, Pod, Selection
from policies.model.queues import ClusterQueue, Strategy, Usage
from policies.placement.columns import Mask
from policies.placement.request import shape_of
from policies.placement.snapshot import Amounts, Counts, Rows, Snapshot, slots
from policies.quota.flavors import Assignment, Choices, Fit
from policies.quota.parts import PodSetRequest
from policies.quota.shares import Rank
from policies.quota.tree import QuotaTree
from policies.steps import Steps, grouped, ordered

MOST_OF_TREE = 200
"""Workloads of one queue tree for which a start is expected: the first of each of its queues."""
_STEPS = 32
"""Instants at which running workloads end in the play. An end between two of them counts at the later one."""
_MOST_STEPS = 3 * _STEPS
"""The most instants of a play, with the ends of workloads that start in it."""
_AT_ONCE = 64
_PODS = 8
"""Pods whose durations, and what they ask for, are looked at for one unit of ``policies.steps``."""
_LOOK, _ROOM, _RECOUNT, _QUOTA, _COUNT, _STEP = 2, 10, 20, 16, 30, 80
"""The costs in units of ``policies.steps``.

In their order: to consider a workload; to choose nodes; to count members on changed nodes; to look for quota; to count
members on all nodes; to add up what ends.
"""


Roles = Sequence[tuple[Pod, int]]
"""Pairs of one pod of a role, and the number of its pods that start together."""


@dataclass(frozen=True, slots=True)
class _Waiting:
    """A workload that waits in the play."""

    entry: Entry
    queue: str
    runs_s: float

    @property
    def workload(self) -> Workload:
        return self.entry[-1]

    @property
    def place(self) -> tuple[Turn, int]:
        """The place in its queue; a lower one starts first."""
        return self.entry[:2]


@dataclass(frozen=True, slots=True, eq=False)
class _Kind:
    """Workloads of one shape and queue, and what each of them requests: of nodes, role by role, and of quota.

    ``waiting``: the workloads, in the order of their queue.
    ``parts``: the podset of each role, as flavors are given to it.
    ``root``: that of the queue tree; empty without a queue.
    ``request``: None without a queue.
    """

    waiting: list[_Waiting]
    roles: Roles
    parts: Sequence[PodSetKey]
    queue: ClusterQueue | None
    root: str
    request: QuotaRequest | None
    podsets: Sequence[PodSetRequest]

    @property
    def is_strict(self) -> bool:
        """Whether no workload of its queue passes one of these that waits."""
        return self.queue is not None and self.queue.strategy is Strategy.STRICT


Taken = list[tuple[Sequence[tuple[int, int]], Rows, Counts]]
"""Room: lines and amounts of a member, the rows of nodes, and how many members are on each."""


@dataclass(frozen=True, slots=True)
class _Start:
    """A workload that started in the play, with its room and quota."""

    key: GroupKey
    taken: Taken
    queue: str
    usage: Usage


@dataclass(frozen=True, slots=True)
class Played:
    """The outcome of a play.

    ``waiting``: how many workloads waited in it.
    ``unknown``: the workloads whose start depends on an unknown end.
    ``valid_until``: until when a play has the same outcome, as long as nothing changes; minus infinity if it moves with
    the time.
    """

    waiting: int
    expectations: dict[GroupKey, Expectation]
    unknown: dict[GroupKey, None]
    valid_until: float


@dataclass(eq=False)
class Forecast:
    """``review`` plays the queue, in steps, if the last play is outdated: once in ``forecast_s`` at most."""

    _limits: Limits
    _store: Store
    _claims: Claims
    _quotas: Quotas
    _durations: Durations
    _backfills: Backfills
    _pending: Pending
    _expectations: Expectations
    _endings: Endings
    _turns: Turns

    def __post_init__(self) -> None:
        self._rested_at = 0.0
        """The instant from which on the queue may be played again."""
        self._played = -1, inf
        """The version of what the last play read, and until when it is valid by time alone."""
        self._idle = True
        """Whether nothing waited the last time. What comes first then gets its expectation in the same cycle."""

    def due(self) -> float | None:
        """When the queue is played next if nothing changes until then; None if never."""
        never = self._limits.forecast_s == inf or self.valid_until == inf
        return None if never else max(self._rested_at, self.valid_until)

    @property
    def valid_until(self) -> float:
        """The instant until which the last play is valid; minus infinity if something that it read has changed."""
        version, until = self._played
        return until if version == self.version else -inf

    @property
    def version(self) -> int:
        """A number that grows with every change of what a play reads."""
        of_queues = self._quotas.version + self._durations.version
        return self._store.version + self._pending.version + self._claims.changes + of_queues

    def review(self, now: float) -> Steps[None]:
        """Play the queue if it is due. Each waiting workload has its expectation then, or none."""
        if (due := self.due()) is None or (now < due and not self._idle):
            return
        self._rested_at, version = now + self._limits.forecast_s, self.version
        played = yield from self.play(now)
        self._idle = not played.waiting
        restated_at = self._expectations.renew(played.expectations, played.unknown)
        self._played = version, min(played.valid_until, restated_at)

    def play(self, now: float) -> Steps[Played]:
        """Play the queue from this instant on. A question, not an event."""
        try:
            waiting = yield from self._in_line()
        except PolicyError:
            waiting = []  # the turns of the workloads say so
        return (yield from self._play(waiting, now)) if waiting else Played(0, {}, {}, inf)

    def _in_line(self) -> Steps[list[_Waiting]]:
        """The first workloads of each queue that lack room or quota or wait behind one that does.

        Each queue of a tree has as many of them as the others, as long as it has any.
        """
        snapshot = self._quotas.queues.snapshot
        queues: dict[str, list[Entry]] = {}
        for key, number in list(self._pending.keys.items()):
            workload = self._store.workloads.get(key)
            demand = None if workload is None else workload.current_demand
            if workload is None or demand is None or not isinstance(workload.reason_state.cause, Foreseen):
                yield _LOOK
                continue
            yield _LOOK + len(demand.pods) // _PODS
            queue = self._quotas.members.queue_of(key) or ""
            place, turn = self._turns.both(workload, snapshot.queues.get(queue))
            entries = queues.setdefault(queue, [])
            entries.append((place, number, turn, workload))
            if len(entries) > 2 * MOST_OF_TREE:
                entries[:] = _first(entries)
        trees: dict[str, list[tuple[int, _Waiting]]] = {}
        for queue, entries in queues.items():
            in_order = _first(entries)
            durations = [self._durations.of(entry[-1]) for entry in in_order]
            yield len(in_order)
            ranked = trees.setdefault(snapshot.tree.root_of(queue), [])
            for at, (entry, duration) in enumerate(zip(in_order, durations, strict=True)):
                ranked.append((at, _Waiting(entry, queue, inf if duration is None else duration.seconds)))
        first: list[_Waiting] = []
        for ranked in trees.values():
            in_ranks = yield from ordered(ranked, lambda item: (item[0], item[1].entry[1]))
            first += [waiter for _, waiter in in_ranks[:MOST_OF_TREE]]
        return first

    def _kinds(self, waiting: Sequence[_Waiting], snapshot: QueueSnapshot) -> Steps[list[_Kind]]:
        """The workloads by what they request. Workloads that have changed meanwhile are left out."""
        known: dict[object, _Kind] = {}
        for waiter in waiting:
            yield _LOOK
            demand = waiter.workload.current_demand
            if demand is None or demand.shape is None:
                continue
            key = waiter.workload.key
            queue = snapshot.queues.get(waiter.queue)
            by_local = queue is not None and queue.by_past_usage
            local = (key.namespace, self._quotas.local_of(key)) if by_local else None
            of = demand.shape, waiter.queue, local, key if key in self._backfills else None
            if (kind := known.get(of)) is None:
                roles = yield from least_of_roles(demand.pods, demand.shape)
                yield len(demand.pods)
                if waiter.workload.current_demand is not demand:
                    continue
                kind = known[of] = _kind(waiter, demand.pods, roles, snapshot)
            kind.waiting.append(waiter)
        return list(known.values())

    def _play(self, waiting: list[_Waiting], now: float) -> Steps[Played]:
        snapshot = self._quotas.queues.snapshot
        kinds = yield from self._kinds(waiting, snapshot)
        endings = yield from self._endings.in_order(None, now)
        yield _STEP
        course = _Course(kinds, endings, self._quotas, self._backfills, self._claims, self._turns, self._rank_of, now)
        expectations: dict[GroupKey, Expectation] = {}
        for instant, last in course.instants():
            yield _STEP
            for started in (yield from course.start_some(instant)):
                if (reservation := self._backfills.of.get(started.workload.key)) is not None:
                    start, after = reservation.start_by, reservation.after
                else:
                    start, after = instant, last
                # What would start at once lacks something that is not counted here.
                if start > now:
                    spread = self._expectations.spread(started.queue)
                    expectations[started.workload.key] = Expectation(start, now, after, self._rests_on(after), spread)
            if not any(kind.waiting for kind in kinds):
                break
        left = (waiter.workload.key for kind in kinds for waiter in kind.waiting)
        unknown = dict.fromkeys(left if course.has_unknown_ends else ())
        return Played(len(waiting), expectations, unknown, course.valid_until)

    def _rank_of(self, tree: QuotaTree) -> Rank | None:
        """The order of shares between the queues of the tree; None if shares do not count."""
        if (between := self._turns.between) is None:
            return None
        return between.rank(tree, requested(self._store.workloads, self._quotas, self._pending))

    def _rests_on(self, key: GroupKey | None) -> str:
        workload = None if key is None else self._store.workloads.get(key)
        duration = None if workload is None else self._durations.of(workload)
        return "" if duration is None else str(duration)


def _first(entries: list[Entry]) -> list[Entry]:
    """The first of these workloads of a queue, in order: no more of them can be in the play."""
    return sorted(entries, key=itemgetter(0, 1))[:MOST_OF_TREE]


def _kind(waiter: _Waiting, pods: Sequence[Pod], roles: Roles, snapshot: QueueSnapshot) -> _Kind:
    queue, workload = snapshot.queues.get(waiter.queue), waiter.workload
    of_job, pod_for = workload.job is not None, workload.members.pod_for
    parts = [podset_key(pod_for(pod.identity), of_job=of_job) for pod, _ in roles]
    if queue is None:
        return _Kind([], roles, parts, None, "", None, ())
    quota_request = QuotaRequest(workload, pods, queue, snapshot)
    root = snapshot.tree.root_of(queue.name)
    return _Kind([], roles, parts, queue, root, quota_request, quota_request.podsets(pods))


def least_of_roles(pods: Sequence[Pod], shape: Shape) -> Steps[list[tuple[Pod, int]]]:
    """The first pod of each role, and how many of it start together. Of one role these are as few as have to."""
    if len(shape.roles) == 1:
        return [(pods[0], min(len(pods), shape.needed))]
    roles = yield from grouped(pods, shape_of)
    return [(pods[0], len(pods)) for pods in roles.values()]


class _Course:
    """The cluster in the play: what is free of nodes and quota at its present instant, who waits, and what ends
    later."""

    def __init__(
        self,
        kinds: Sequence[_Kind],
        ordered: InOrder,
        quotas: Quotas,
        backfills: Backfills,
        claims: Claims,
        turns: Turns,
        rank_of: Callable[[QuotaTree], Rank | None],
        now: float,
    ) -> None:
        self._now = now
        self._kinds = kinds
        self._of = {waiter.workload.key: (waiter, kind) for kind in kinds for waiter in kind.waiting}
        self._view = view = ordered.view
        self._ordered = ordered
        self._quotas = quotas
        self._backfills = backfills
        self._turns = turns
        self._snapshot = replace(quotas.queues.snapshot, tree=quotas.queues.snapshot.tree.copy())
        self._tree = self._snapshot.tree
        rank = rank_of(self._tree)
        self._rank_of = None if rank is None else lambda: rank
        self._uses = Counter[str]()
        """How often the used quota of each queue tree has changed, by its root."""
        self._assigned: dict[_Kind, tuple[int, tuple[Roles, Assignment] | None]] = {}
        """The last assignment of each kind, after the number of changes that it is right for."""
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
        begins = (reservation.start_by for reservation in backfills.of.values() if reservation.start_by > now)
        self.valid_until = -inf if ordered.moves else min(begins, default=inf)
        """The same as in ``Played``."""
        if ordered.known:
            self.valid_until = min(self.valid_until, float(ordered.at[0]))

    def instants(self) -> Iterator[tuple[float, GroupKey | None]]:
        """Yield the present, then each instant at which something ends, with the workload whose end comes last."""
        now = self._now
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
                self._change_use(use.queue, use.usage, self._tree.free)
        while self._ends and self._ends[0][0] <= instant:
            at, _, start = heapq.heappop(self._ends)
            ends.append((at, start.key))
            self._take(start.taken, 1)
            self._change_use(start.queue, start.usage, self._tree.free)
        return max(ends, key=lambda end: end[0], default=(0.0, None))[1]

    def start_some(self, instant: float) -> Steps[list[_Waiting]]:
        """Start the workloads that have quota and room, in their order, and return them."""
        later = {kind: iter(kind.waiting) for kind in self._kinds if kind.waiting}
        line = yield from self._line(later, instant)
        started: dict[GroupKey, _Waiting] = {}
        while isinstance(workload := line.next(), Workload):
            waiter, kind = self._of[workload.key]
            yield _LOOK if kind.queue is None else _QUOTA  # the line has looked for quota to find the next one
            if starts := (yield from self._try_start(waiter, kind, instant)):
                started[workload.key] = waiter
            elif kind.is_strict:
                held_up = [self._of[other.key] for other in line.rest_of(waiter.queue)]
                started |= yield from self._start_reserved(held_up, instant)
                continue
            if starts or not self._ends_in_time(waiter, instant):
                # If it lacks room, others of its kind may have some that is reserved for later.
                behind = (other for other in later[kind] if starts or self._ends_in_time(other, instant))
                self._line_up(behind, line)
        for kind in dict.fromkeys(self._of[key][1] for key in started):
            kind.waiting[:] = [waiter for waiter in kind.waiting if waiter.workload.key not in started]
        return list(started.values())

    def _line(self, later: Mapping[_Kind, Iterator[_Waiting]], instant: float) -> Steps[Line]:
        """The line with the first workload of each kind that may start. ``later``: keeps the others."""
        queues = QueueLines(self._quotas, self._snapshot, self._uses.total, self._assignment_of, self._rank_of)
        line = Line(self._turns, queues)
        for kind, waiting in later.items():
            yield _LOOK
            # With shares a turn costs a look at all queues.
            if self._rank_of is None or (yield from self._may_start(kind, instant)):
                self._line_up(waiting, line)
        return line

    @staticmethod
    def _line_up(waiting: Iterator[_Waiting], line: Line) -> None:
        """Add the next one of these workloads, if there is one."""
        if (waiter := next(waiting, None)) is not None:
            line.add_entry(waiter.entry, waiter.queue)

    def _start_reserved(
        self, held_up: Sequence[tuple[_Waiting, _Kind]], instant: float
    ) -> Steps[dict[GroupKey, _Waiting]]:
        """Start the workloads whose reservations begin, although the first of their queue waits, and return them."""
        started: dict[GroupKey, _Waiting] = {}
        for waiter, kind in held_up:
            reserved = waiter.workload.key in self._backfills
            if reserved and (yield from self._try_start(waiter, kind, instant)):
                started[waiter.workload.key] = waiter
        return started

    def _may_start(self, kind: _Kind, instant: float) -> Steps[bool]:
        """Whether a workload of the kind could start before all others, or may hold others up.

        Quota and room only get less until the next instant. So only these need a turn.
        """
        if kind.is_strict:
            return True
        if (reservation := self._backfills.of.get(kind.waiting[0].workload.key)) is not None:
            return instant >= reservation.start_by
        return (yield from self._find(kind, self._all)) is not None

    def _try_start(self, waiter: _Waiting, kind: _Kind, instant: float) -> Steps[bool]:
        """Start the workload if it has quota and room, or if the start that is reserved for it has come. Returns
        whether it has."""
        if (reservation := self._backfills.of.get(waiter.workload.key)) is not None:
            if comes := instant >= reservation.start_by:
                taken = self._rooms_of(reservation)
                self._all.change(taken, -1)
                self._begin(waiter, taken, {}, reservation.start_by)
            return comes
        free = self._all if self._ends_in_time(waiter, instant) else self._unreserved
        if (available := (yield from self._find(kind, free))) is None:
            return False
        self._take(available[0], -1)
        self._begin(waiter, *available, instant)
        return True

    def _ends_in_time(self, waiter: _Waiting, instant: float) -> bool:
        """Whether the workload may use reserved room: it ends before any reservation begins."""
        return instant + waiter.runs_s <= self._soonest

    def _find(self, kind: _Kind, free: _Free) -> Steps[tuple[Taken, Usage] | None]:
        """The room and quota for a workload of the kind; None if there is too little."""
        roles = kind.roles
        usage: Usage = {}
        if kind.queue is not None:
            if self._is_outdated(kind):
                yield _QUOTA
            if (assigned := self._assign(kind)) is None:
                return None
            roles, usage = assigned[0], assigned[1].usage
        taken: Taken = []
        for pod, count in roles:
            yield _ROOM
            self._take(taken[-1:], -1)
            if (room := (yield from free.room(pod, count))) is None:
                self._take(taken, 1)
                return None
            taken.append(room)
        self._take(taken[:-1], 1)
        return taken, usage

    def _begin(self, waiter: _Waiting, taken: Taken, usage: Usage, instant: float) -> None:
        self._change_use(waiter.queue, usage, self._tree.use)
        if waiter.runs_s == inf:
            self.has_unknown_ends = True
            return
        if instant <= self._now:
            self.valid_until = -inf  # its end comes later, the later it starts
        self._started += 1
        start = _Start(waiter.workload.key, taken, waiter.queue, usage)
        heapq.heappush(self._ends, (instant + waiter.runs_s, self._started, start))

    def _take(self, taken: Taken, sign: int) -> None:
        for free in dict.fromkeys((self._all, self._unreserved)):
            free.change(taken, sign)

    def _change_use(self, queue: str, usage: Usage, change: Callable[[str, Usage], None]) -> None:
        if queue in self._tree.queues:
            change(queue, usage)
            self._uses[self._tree.root_of(queue)] += 1

    def _assignment_of(self, workload: Workload) -> Assignment | None:
        assigned = self._assign(self._of[workload.key][1])
        return None if assigned is None else assigned[1]

    def _is_outdated(self, kind: _Kind) -> bool:
        """Whether quota of the tree has been used or given back since the last assignment of the kind."""
        return kind not in self._assigned or self._assigned[kind][0] != self._uses[kind.root]

    def _assign(self, kind: _Kind) -> tuple[Roles, Assignment] | None:
        """The first flavors that there is quota of, and the roles as these hold them to nodes."""
        if kind.queue is None or kind.request is None:
            return None
        if self._is_outdated(kind):
            choices: Choices[str] = Choices(self._tree, self._snapshot.flavors, kind.queue, {})
            assignment, held = choices.first(kind.podsets), None
            if assignment.fit is Fit.FITS:
                made = kind.request.flavorings(assignment)
                flavorings = (made.get(podset) for podset in kind.parts)
                roles = [
                    (pod if flavoring is None else flavoring.confined(pod), count)
                    for (pod, count), flavoring in zip(kind.roles, flavorings, strict=True)
                ]
                held = roles, assignment
            self._assigned[kind] = self._uses[kind.root], held
        return self._assigned[kind][1]

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
