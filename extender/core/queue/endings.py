"""When a workload that cannot start now would have room: after which of the running ones have ended.

Running workloads are sorted by their expected ends, those whose end nobody knows last, the oldest first. The search
finds the fewest of them, from the first on, after whose end the whole workload has quota and a plan.
"""

from __future__ import annotations

from array import array
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import inf

import numpy as np
from numpy.typing import NDArray

from extender.core.ledger.backfill import Backfill, Backfills
from extender.core.ledger.claims import Claims, ClaimState
from extender.core.ledger.durations import Durations
from extender.core.ledger.quotas import Quotas
from extender.core.limits import Limits
from extender.core.queue.demands import Asked, Demands
from extender.core.queue.planner import Plan, Planner, Statements
from extender.core.workload.shape import Demand, Shape
from extender.core.workload.workload import Workload
from policies.api import PolicyError
from policies.model import GroupKey, Requests
from policies.placement.snapshot import Snapshot
from policies.quota.flavors import Assignment, Choices, Fit
from policies.statement import Statement
from policies.steps import AT_ONCE, Steps

_ASSIGNMENTS = 4
"""Assignments of flavors that are tried for one workload at one instant."""
_EVALUATE = 40
"""What it costs to add up what running workloads give back, in units of ``policies.steps``."""


@dataclass(frozen=True, slots=True)
class Ending:
    """The end of one running workload, or of one single pod.

    ``at``: by the core's clock; infinite where nobody knows it.
    ``began``: orders those whose end nobody knows.
    """

    at: float
    began: float
    key: GroupKey | None


class Rooms:
    """What is given back on the nodes of a snapshot, as arrays: an entry for each claim.

    Claims of equal pods ask for the same, so what they ask for stands in a list, and is looked up once.
    """

    def __init__(self, view: Snapshot) -> None:
        self.view = view
        self._kinds: dict[Requests, int] = {}
        self._of, self._rows, self._kind_of = array("q"), array("q"), array("q")
        """By entry: the number of the ending, the row of the node, and the kind of requests."""

    def add(self, number: int, node: str, requests: Requests) -> None:
        """Add what the ending of that number gives back on the node."""
        if (row := self.view.rows.get(node)) is not None:
            self._of.append(number)
            self._rows.append(row)
            self._kind_of.append(self._kinds.setdefault(requests, len(self._kinds)))

    def in_order(self, numbers: Sequence[int]) -> tuple[Sequence[int], NDArray[np.int64]]:
        """Return all that is given back, by the endings of these numbers one after the other.

        First where the part of each ending begins, and where the last one ends. Then the line, row and amount of each
        part. Shape ``(3, parts)``.
        """
        of, rows, kinds = (np.array(some, dtype=np.int64) for some in (self._of, self._rows, self._kind_of))
        place = np.empty(len(numbers), dtype=np.int64)
        place[list(numbers)] = np.arange(len(numbers))
        order = np.argsort(place[of], kind="stable")
        parts = [self._lines(requests) for requests in self._kinds]
        counts = np.array([len(part) for part in parts], dtype=np.int64)
        flat = np.array([one for part in parts for one in part], dtype=np.int64).reshape(-1, 2)
        begins = np.cumsum(counts) - counts
        of, rows, kinds = place[of[order]], rows[order], kinds[order]
        each = counts[kinds]
        ends = np.cumsum(each)
        which = np.arange(int(each.sum())) - np.repeat(ends - each, each) + np.repeat(begins[kinds], each)
        bounds = np.searchsorted(np.repeat(of, each), np.arange(len(numbers) + 1)).tolist()
        return bounds, np.stack((flat[which, 0], np.repeat(rows, each), flat[which, 1]))

    def _lines(self, requests: Requests) -> list[tuple[int, int]]:
        found = ((self.view.resources.get(name), amount) for name, amount in requests)
        return [(line, amount) for line, amount in found if line is not None]


class InOrder:
    """Endings in their order, on the nodes of a snapshot. ``given_back`` adds up what the first of them give back."""

    def __init__(self, endings: Sequence[Ending], rooms: Rooms) -> None:
        numbers = sorted(range(len(endings)), key=lambda number: _place(endings[number]))
        self.endings = [endings[number] for number in numbers]
        self.view = rooms.view
        self._bounds, self._parts = rooms.in_order(numbers)

    def given_back(self, count: int, begin: int = 0) -> NDArray[np.int64]:
        """By the first ``count`` of them, without those before ``begin``. Shape ``(resources, nodes)``."""
        lines, nodes = self.view.free.shape
        rows, places, amounts = self._parts[:, self._bounds[begin] : self._bounds[count]]
        given = np.zeros(lines * nodes, dtype=np.int64)
        np.add.at(given, rows * nodes + places, amounts)
        return given.reshape(lines, nodes)


def _place(ending: Ending) -> tuple[float, float, str]:
    return ending.at, ending.began, str(ending.key)


@dataclass(frozen=True, slots=True)
class Opening:
    """Room for a workload once running ones have ended.

    ``start_by``: the instant of the last end that has to come; infinite where nobody knows it.
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
    _durations: Durations
    _backfills: Backfills
    _statements: Statements
    _planner: Planner
    _demands: Demands

    def find(self, workload: Workload, demand: Demand, shape: Shape, now: float) -> Steps[Opening | None]:
        """Return the earliest room for the workload; None if all ends would not help, or the workload has changed."""
        ordered = yield from self.in_order(workload, now)
        endings = ordered.endings
        low, high = 0, len(endings)
        plan = yield from self._plan(workload, demand, shape, ordered, high)
        if plan is None:
            return None
        while low < high:
            middle = (low + high) // 2
            earlier = yield from self._plan(workload, demand, shape, ordered, middle)
            if earlier is None:
                low = middle + 1
            else:
                plan, high = earlier, middle
        if workload.version != demand.version:
            return None
        rooms: dict[str, Counter[str]] = {}
        for pod, node in zip(plan.pods, plan.nodes.values(), strict=True):
            rooms.setdefault(node, Counter()).update(dict(pod.requests))
        return Opening(rooms, *((endings[high - 1].at, endings[high - 1].key) if high else (now, None)))

    def in_order(self, before: Workload | None, now: float) -> Steps[InOrder]:
        """Sort what runs, and what starts in reserved room ``before`` that workload if one is given, by the ends."""
        rooms, endings, numbers = Rooms(self._claims.snapshot()), list[Ending](), dict[object, int]()
        for count, (owner, claim) in enumerate(self._claims.all().items(), 1):
            if not count % AT_ONCE:
                yield AT_ONCE // 2
            if claim.state is ClaimState.AWAITED:
                continue
            of = claim.workload or owner
            if (number := numbers.get(of)) is None:
                number = numbers[of] = len(endings)
                workload = None if claim.workload is None else self._workloads.get(claim.workload)
                began = inf if workload is None or workload.began is None else workload.began
                endings.append(Ending(self._backfills.ends_at(owner, claim, now), began, claim.workload))
            rooms.add(number, claim.node, claim.requests)
        if before is not None:
            self._add_reserved(before, endings, rooms)
        yield len(endings) // 2
        return InOrder(endings, rooms)

    def _add_reserved(self, workload: Workload, endings: list[Ending], rooms: Rooms) -> None:
        """Add the ends of what starts in reserved room before the workload."""
        for key, reservation in self._before(workload):
            other = self._workloads.get(key)
            duration = None if other is None else self._durations.of(other)
            at = inf if duration is None else reservation.start_by + duration.seconds
            for node, wanted in reservation.rooms.items():
                rooms.add(len(endings), node, tuple(wanted.items()))
            endings.append(Ending(at, inf, key))

    def _plan(
        self, workload: Workload, demand: Demand, shape: Shape, ordered: InOrder, count: int
    ) -> Steps[Plan | None]:
        """A plan for the workload after the first ``count`` have ended; None if there is none."""
        for flavored in (yield from self._flavored(workload, demand, shape, ordered.endings[:count])):
            with self._statements.of(workload) as statement:
                view = statement.snapshot
                if view.free.shape != ordered.view.free.shape:
                    return None  # nodes have come or gone meanwhile: the next review finds out anew
                self._hold_reserved(statement, workload)
                statement.add(np.arange(len(view.names)), ordered.given_back(count))
                yield _EVALUATE
                try:
                    found = yield from self._planner.preview(workload, *flavored, statement.snapshot)
                except PolicyError:
                    return None
            if isinstance(found, Plan):
                return found
        return None

    def _hold_reserved(self, statement: Statement, workload: Workload) -> None:
        """Take all room that is reserved before the workload's, and not only what has come free of it.

        The statement shows some of what is kept as free already: that is given back once, and not twice.
        """
        shown = set(self._backfills.open_to(workload))
        kept = (owner for key in self._backfills.of for owner in self._backfills.rooms(key))
        self._claims.leave_out(statement, [owner for owner in kept if owner not in shown])
        for _, reservation in self._before(workload):
            for node, wanted in reservation.rooms.items():
                statement.claim(node, tuple(wanted.items()))

    def _before(self, workload: Workload) -> list[tuple[GroupKey, Backfill]]:
        """The reservations of others whose room the workload may not take over: those of no lower priority."""
        of = self._backfills.of.items()
        return [(key, one) for key, one in of if key != workload.key and one.priority >= workload.priority]

    def _flavored(
        self, workload: Workload, demand: Demand, shape: Shape, ended: Sequence[Ending]
    ) -> Steps[list[tuple[Demand, Shape]]]:
        """What the workload asks of nodes with each assignment of flavors that there is quota for by then.

        Without a queue that is what it asks for anyway. Nodes of elastic flavors come when they are asked for, so
        nothing is reserved of those.
        """
        if (queue := self._quotas.queue_of(workload.key)) is None:
            return [(demand, shape)]
        picture = self._quotas.queues.picture
        asked = Asked(workload, demand.pods, queue, picture)
        podsets = asked.podsets(demand.pods)
        choices: Choices[str] = Choices(picture.tree, picture.flavors, queue, {})
        assignments: list[Assignment] = []
        with self._quotas.statement(workload.key) as statement:
            for ending in ended:
                for use in () if ending.key is None else self._quotas.uses.of(ending.key).values():
                    statement.give_back(use.queue, use.usage)
            found = choices.first(podsets)
            while found.fit is Fit.FITS and len(assignments) < _ASSIGNMENTS:
                assignments.append(found)
                found = choices.after(found, podsets, "")
        flavored = []
        for assignment in assignments:
            if not self._limits.elastic.flavors.isdisjoint(flavor for flavor, _ in assignment.usage):
                continue
            made = asked.flavorings(assignment)
            pods, asks = yield from self._demands.flavored(workload, demand.pods, shape, made)
            flavored.append((Demand(demand.version, None, pods, asks, made), asks))
        return flavored
