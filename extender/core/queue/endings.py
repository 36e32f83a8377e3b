"""When a workload that cannot start now would have room: after which of the running ones have ended.

Running workloads are sorted by their expected ends. Workloads with an unknown end come last, the youngest first: the
longer a job has run, the longer it is likely to go on (M. Harchol-Balter and A. Downey, "Exploiting Process Lifetime
Distributions for Dynamic Load Balancing", 1997). The search finds the fewest of them, from the first on, after whose
end the whole workload has quota and a plan.
"""

from __future__ import annotations

from array import array
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from math import inf

import numpy as np
from numpy.typing import NDArray

from extender.core.ledger.backfill import Backfill, Backfills
from extender.core.ledger.claims import Claims, ClaimState
from extender.core.ledger.durations import End
from extender.core.ledger.quotas import Quotas
from extender.core.limits import Limits
from extender.core.queue.demands import Demands, QuotaRequest
from extender.core.queue.planner import Plan, Planner, Statements
from extender.core.workload.shape import Demand, Shape
from extender.core.workload.workload import Workload
from policies.api import PolicyError
from policies.model import GroupKey, Requests
from policies.placement.snapshot import Snapshot
from policies.quota.flavors import Assignment, Choices, Fit
from policies.steps import Steps

_ASSIGNMENTS = 4
"""Assignments of flavors that are tried for one workload at one instant."""
_CLAIMS = 64
"""Claims that are looked at in one step."""
_SORTED = 64
"""Endings, or what they give back, that are put in order for one unit of ``policies.steps``."""
_EVALUATE = 40
"""The cost of adding up what running workloads give back, in units of ``policies.steps``."""


@dataclass(frozen=True, slots=True)
class InOrder:
    """The ends of running workloads and of single pods in their order, on the nodes of a snapshot.

    ``at``: the instants, by the core's clock; infinite if unknown.
    ``keys``: the workloads; None for single pods.
    ``known``: how many ends come at an instant that is known; these are the first ones.
    ``moves``: whether one of them is that of a run that has yet to begin, and so moves with the time.
    """

    at: NDArray[np.float64]
    keys: Sequence[GroupKey | None]
    known: int
    moves: bool
    view: Snapshot
    _bounds: Sequence[int]
    _parts: NDArray[np.int64]

    def given_back(self, count: int, begin: int = 0) -> NDArray[np.int64]:
        """The amounts given back by the ends from ``begin`` up to ``count``. Shape ``(resources, nodes)``."""
        lines, nodes = self.view.free.shape
        rows, places, amounts = self._parts[:, self._bounds[begin] : self._bounds[count]]
        given = np.zeros(lines * nodes, dtype=np.int64)
        np.add.at(given, rows * nodes + places, amounts)
        return given.reshape(lines, nodes)


class _Ends:
    """Ends as they are found, and what each gives back on the nodes of a snapshot.

    All of it stands in arrays, with an entry for each claim: a cluster has tens of thousands of them. Claims of equal
    pods ask for the same, so what they ask for is looked up once.
    """

    def __init__(self, view: Snapshot) -> None:
        self._view = view
        self._at, self._began = array("d"), array("d")
        self._keys: list[GroupKey | None] = []
        self._moves = False
        self._kinds: dict[Requests, int] = {}
        self._of, self._rows, self._kind_of = array("q"), array("q"), array("q")
        """The number of the end, the row of the node, and the kind of requests, of each entry."""

    def end(self, at: float, began: float, key: GroupKey | None) -> int:
        """Add an end, and return its number. ``began``: of ends at unknown instants, the latest begin comes first."""
        self._at.append(at)
        self._began.append(began)
        self._keys.append(key)
        return len(self._keys) - 1

    def expect(self, end: End | None, began: float, key: GroupKey | None) -> int:
        """Add the expected end of a claim, as ``end`` does; None: it is not known."""
        if end is None:
            return self.end(inf, began, key)
        self._moves |= not end.has_begun
        return self.end(end.at, began, key)

    def give_back(self, number: int, node: str, requests: Requests) -> None:
        """Add what the end of that number gives back on the node."""
        if (row := self._view.rows.get(node)) is not None:
            self._of.append(number)
            self._rows.append(row)
            self._kind_of.append(self._kinds.setdefault(requests, len(self._kinds)))

    def in_order(self) -> Steps[InOrder]:
        """Sort the ends by their instants, then by the begin of the run, the latest first, then by name."""
        ranks = {key: rank for rank, key in enumerate(sorted(filter(None, self._keys)))}
        yield len(ranks)
        at, named = np.array(self._at), np.array([-1 if key is None else ranks[key] for key in self._keys])
        yield len(at) // _SORTED
        order = np.lexsort((named, -np.array(self._began), at))
        place = np.empty(len(at), dtype=np.intp)
        place[order] = np.arange(len(at))
        keys = [self._keys[number] for number in order.tolist()]
        yield len(at) // _SORTED
        bounds, parts = yield from self._parts(place)
        return InOrder(at[order], keys, int(np.isfinite(at).sum()), self._moves, self._view, bounds, parts)

    def _parts(self, place: NDArray[np.intp]) -> Steps[tuple[Sequence[int], NDArray[np.int64]]]:
        """Return what is given back, by one end after the other. ``place``: that of each end, by its number.

        First where the part of each end begins, and where the last one ends. Then the line, row and amount of each
        part. Shape ``(3, parts)``.
        """
        of, rows, kinds = (np.array(column, dtype=np.int64) for column in (self._of, self._rows, self._kind_of))
        of = place[of]
        order = np.argsort(of, kind="stable")
        of, rows, kinds = of[order], rows[order], kinds[order]
        yield len(of) // _SORTED
        by_kind = [self._lines(requests) for requests in self._kinds]
        counts = np.array([len(lines) for lines in by_kind], dtype=np.int64)
        flat = np.array([line for lines in by_kind for line in lines], dtype=np.int64).reshape(-1, 2)
        begins, each = np.cumsum(counts) - counts, counts[kinds]
        yield len(by_kind)
        # The first part of each entry, counted on from where its kind begins.
        firsts = np.cumsum(each) - each
        which = np.arange(int(each.sum())) + np.repeat(begins[kinds] - firsts, each)
        yield len(which) // _SORTED
        parts = np.stack((flat[which, 0], np.repeat(rows, each), flat[which, 1]))
        yield len(which) // _SORTED
        bounds = np.searchsorted(of, np.arange(len(place) + 1))
        return np.append(firsts, each.sum())[bounds].tolist(), parts

    def _lines(self, requests: Requests) -> list[tuple[int, int]]:
        lines = ((self._view.resources.get(name), amount) for name, amount in requests)
        return [(line, amount) for line, amount in lines if line is not None]


@dataclass(frozen=True, slots=True)
class Opening:
    """Room for a workload once running ones have ended.

    ``start_by``: the instant of the last end that has to come; infinite if it is unknown.
    ``after``: the workload that ends then.
    """

    rooms: Mapping[str, Counter[str]]
    start_by: float
    after: GroupKey | None


@dataclass(eq=False)
class Endings:
    """``find`` takes as long as a dozen plans of the workload. It changes nothing."""

    _limits: Limits
    _workloads: Mapping[GroupKey, Workload]
    _claims: Claims
    _quotas: Quotas
    _backfills: Backfills
    _statements: Statements
    _planner: Planner
    _demands: Demands

    def find(self, workload: Workload, demand: Demand, shape: Shape, now: float) -> Steps[Opening | None]:
        """Return the earliest room for the workload; None if all ends would not help, or the workload has changed.

        The search takes slices, so all of it looks at the free room and the claims of one instant. A claim that ends
        meanwhile would else count twice: as free room, and as room that is given back.
        """
        room = self._room_beside_reserved(workload)
        ordered = yield from self.in_order(workload, now)
        low, high = 0, len(ordered.keys)
        plan = yield from self._plan(workload, demand, shape, room, ordered, high)
        if plan is None:
            return None
        while low < high:
            middle = (low + high) // 2
            earlier = yield from self._plan(workload, demand, shape, room, ordered, middle)
            if earlier is None:
                low = middle + 1
            else:
                plan, high = earlier, middle
        if workload.version != demand.version:
            return None
        rooms: dict[str, Counter[str]] = {}
        for pod, node in zip(plan.pods, plan.nodes.values(), strict=True):
            rooms.setdefault(node, Counter()).update(dict(pod.requests))
        return Opening(rooms, *((float(ordered.at[high - 1]), ordered.keys[high - 1]) if high else (now, None)))

    def in_order(self, before: Workload | None, now: float) -> Steps[InOrder]:
        """Sort what runs, and what starts in reserved room ``before`` that workload if one is given, by the ends."""
        ends, numbers = _Ends(self._claims.snapshot()), dict[object, int]()
        if before is not None:
            self._add_reserved(before, ends)
        for count, (owner, claim) in enumerate(self._claims.all().items(), 1):
            if not count % _CLAIMS:
                yield _CLAIMS
            if claim.state is ClaimState.AWAITED:
                continue
            of = claim.workload or owner
            if (number := numbers.get(of)) is None:
                workload = None if claim.workload is None else self._workloads.get(claim.workload)
                began = -inf if workload is None else inf if workload.began is None else workload.began
                end = self._backfills.end_of_claim(owner, claim, now)
                number = numbers[of] = ends.expect(end, began, claim.workload)
            ends.give_back(number, claim.node, claim.requests)
        return (yield from ends.in_order())

    def _add_reserved(self, workload: Workload, ends: _Ends) -> None:
        """Add the ends of what starts in reserved room before the workload."""
        for key, reservation in self._before(workload):
            number = ends.end(self._backfills.end_of(key, reservation), -inf, key)
            for node, wanted in reservation.rooms.items():
                ends.give_back(number, node, tuple(wanted.items()))

    def _plan(
        self, workload: Workload, demand: Demand, shape: Shape, room: Snapshot, ordered: InOrder, count: int
    ) -> Steps[Plan | None]:
        """A plan for the workload after the first ``count`` have ended; None if there is none."""
        later = replace(room, free=room.free + ordered.given_back(count))
        yield _EVALUATE
        for flavored in (yield from self.flavored(workload, demand, shape, ordered.keys[:count])):
            try:
                plan = yield from self._planner.preview(workload, *flavored, later)
            except PolicyError:
                return None
            if isinstance(plan, Plan):
                return plan
        return None

    def _room_beside_reserved(self, workload: Workload) -> Snapshot:
        """The nodes without all room that is reserved before the workload's, and not only what has come free of it.

        The statement shows some of what is kept as free already: that is given back once, and not twice.
        """
        shown = set(self._backfills.open_to(workload))
        owners = (owner for key in self._backfills.of for owner in self._backfills.rooms(key))
        with self._statements.of(workload) as statement:
            self._claims.leave_out(statement, [owner for owner in owners if owner not in shown])
            for _, reservation in self._before(workload):
                for node, wanted in reservation.rooms.items():
                    statement.claim(node, tuple(wanted.items()))
            return replace(statement.snapshot, free=statement.snapshot.free.copy())

    def _before(self, workload: Workload) -> list[tuple[GroupKey, Backfill]]:
        """The reservations of others whose room the workload may not take over: those of no lower priority."""
        of = self._backfills.of.items()
        return [
            (key, backfill) for key, backfill in of if key != workload.key and backfill.priority >= workload.priority
        ]

    def flavored(
        self, workload: Workload, demand: Demand, shape: Shape, ended: Sequence[GroupKey | None]
    ) -> Steps[list[tuple[Demand, Shape]]]:
        """The workload's requests of nodes with each assignment of flavors that has quota once ``ended`` have ended.

        Without a queue there is one: its plain request. Nodes of elastic flavors come on request, so none of them is
        reserved.
        """
        if (queue := self._quotas.queue_of(workload.key)) is None:
            return [(demand, shape)]
        snapshot = self._quotas.queues.snapshot
        quota_request = QuotaRequest(workload, demand.pods, queue, snapshot)
        podsets = quota_request.podsets(demand.pods)
        choices: Choices[str] = Choices(snapshot.tree, snapshot.flavors, queue, {})
        assignments: list[Assignment] = []
        with self._quotas.statement(workload.key) as statement:
            for key in filter(None, ended):
                for use in self._quotas.uses.of(key).values():
                    statement.give_back(use.queue, use.usage)
            flavoring = choices.first(podsets)
            while flavoring.fit is Fit.FITS and len(assignments) < _ASSIGNMENTS:
                assignments.append(flavoring)
                flavoring = choices.after(flavoring, podsets, "")
        flavored = []
        for assignment in assignments:
            if not self._limits.elastic.flavors.isdisjoint(flavor for flavor, _ in assignment.usage):
                continue
            made = quota_request.flavorings(assignment)
            pods, asks = yield from self._demands.flavored(workload, demand.pods, shape, made)
            flavored.append((Demand(demand.version, None, pods, asks, made), asks))
        return flavored
