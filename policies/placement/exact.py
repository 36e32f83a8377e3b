"""Find the most members of several roles that fit at once, exactly.

A table holds, for each number of members of all roles but one, how many of that one fit besides them, node by node. A
domain in which slices must stay whole is worked out by itself. From then on it counts as a node that takes whole
slices.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import product
from math import prod
from operator import le

import numpy as np
from numpy.typing import NDArray

from policies.api import ScorePolicy
from policies.placement.request import Role
from policies.placement.snapshot import Counts, Level, Rows, Snapshot
from policies.steps import BUDGET, Steps

_PAUSE = 100
_LARGEST = 20_000
"""Most entries of a table, and of ways to fill one node."""
_NEVER = -(1 << 30)

Vector = tuple[int, ...]
"""A number of members of each role."""


def exactly(
    roles: Sequence[Role], needed: int, snapshot: Snapshot, scoring: ScorePolicy, budget: int = BUDGET
) -> Steps[dict[str, str] | None]:
    """A node for as many members as fit at once, if those are ``needed``.

    None if the ``budget``, in the units of ``policies.steps``, was spent before that was known.
    """
    search = _Search(sorted(roles, key=lambda role: role.count), snapshot, scoring)
    if prod(count + 1 for count in search.counts[:-1]) > _LARGEST:
        return None
    yield 10 * len(roles) + len(snapshot.names) // 40
    spent, best, chosen = 0, needed - 1, dict[int, Vector]()
    for rooms, most in search.homes():
        if most <= best:
            break
        fold = _Fold(search.counts)
        for step in search.fill(fold, rooms):
            spent += step
            if spent > budget:
                return None
            yield step
        target = fold.most()
        if sum(target) > best:
            best, chosen = sum(target), fold.take(target)
    return search.named(chosen)


@dataclass(frozen=True, slots=True)
class _NodeSet:
    """A set of nodes, and the best ways to fill them. ``take``: divides such a way among the nodes."""

    rows: Rows
    ways: list[Vector]
    take: Callable[[Vector], dict[int, Vector]]


class _Fold:
    """The table: ``table[a, b, ...]`` is how many members of the last role fit besides at least that many of the
    others."""

    def __init__(self, counts: Vector) -> None:
        self._counts = counts
        self._table = np.full([count + 1 for count in counts[:-1]], _NEVER, dtype=np.int32)
        self._table[(0,) * self._table.ndim] = 0
        self._parts: list[tuple[_NodeSet, NDArray[np.int32]]] = []

    @property
    def full(self) -> bool:
        """Whether all members fit."""
        return int(self._table.flat[-1]) == self._counts[-1]

    def add(self, node_set: _NodeSet) -> Iterator[int]:
        before, self._table = self._table, self._table.copy()
        self._parts.append((node_set, before))
        spent = 1
        for *beside, last in node_set.ways:
            near = [np.maximum(np.arange(size) - much, 0) for size, much in zip(before.shape, beside, strict=True)]
            np.maximum(self._table, before[np.ix_(*near)] + last, out=self._table)
            spent += 1 + before.size // 1000
            if spent > _PAUSE:
                yield spent
                spent = 0
        np.minimum(self._table, self._counts[-1], out=self._table)
        yield spent

    def most(self) -> Vector:
        """The largest total; of equal ones that with the most of the smaller roles."""
        total = np.where(self._table < 0, -1, self._table + sum(np.indices(self._table.shape)))
        best = np.unravel_index(total.size - 1 - int(total.ravel()[::-1].argmax()), total.shape)
        return *map(int, best), int(self._table[best])

    def ways(self, units: Vector) -> list[Vector]:
        """Multiples of these units that fit, without any that is worse than another."""
        steps = np.ix_(*(np.arange(0, size, unit) for size, unit in zip(self._table.shape, units[:-1], strict=True)))
        table = self._table[steps] // units[-1] * units[-1]
        reached = table >= 0
        for axis in range(table.ndim):
            fewer, more = (np.moveaxis(counts, axis, 0) for counts in (reached, table))
            fewer[:-1] &= more[:-1] > more[1:]
        ways = [(*(np.array(at) * units[:-1]).tolist(), int(table[tuple(at)])) for at in np.argwhere(reached).tolist()]
        return [way for way in ways if any(way)]

    def take(self, wanted: Vector) -> dict[int, Vector]:
        """The members that each node takes of ``wanted``, which must fit. Parts that were added first take what they
        can."""
        taken: dict[int, Vector] = {}
        for node_set, before in reversed(self._parts):
            for way in ((0,) * len(wanted), *node_set.ways):
                left = tuple(max(want - placed, 0) for want, placed in zip(wanted, way, strict=True))
                if before[left[:-1]] >= left[-1]:
                    taken |= node_set.take(tuple(map(min, wanted, way)))
                    wanted = left
                    break
        return taken


class _Search:
    """The search over roles, of which the largest is last."""

    def __init__(self, roles: Sequence[Role], snapshot: Snapshot, scoring: ScorePolicy) -> None:
        self._roles, self._snapshot, self._levels = roles, snapshot, snapshot.levels
        self.counts = tuple(role.count for role in roles)
        demands = [snapshot.demand(role.requests) or [] for role in roles]
        lines = sorted({line for demand in demands for line, _ in demand})
        self._free = np.maximum(snapshot.free[lines], 0)
        self._demands = [[(lines.index(line), amount) for line, amount in demand] for demand in demands]
        self._rooms = np.stack([np.minimum(role.room, role.count) for role in roles])
        rows = self._rooms.max(axis=0).nonzero()[0]
        poor = 100 - scoring.score(roles[-1].pods[0], rows, snapshot)
        self._rows: Rows = rows[np.lexsort((snapshot.rank[rows], poor))] if len(poor) else rows
        self._known: dict[object, list[Vector]] = {}

    def homes(self) -> Iterator[tuple[Counts, int]]:
        """Yield the room of each role for each choice of required domains, best first, and a bound on the members."""
        required = sorted({role.rules.required for role in self._roles if role.rules.required is not None})
        most = np.array([min(role.count, int(room.sum())) for role, room in zip(self._roles, self._rooms, strict=True)])
        if not required:
            yield self._rooms, int(most.sum())
            return
        near = self._levels[required[0]]
        within = {
            at: near.above[at - required[0] - 1] if at > required[0] else np.arange(len(near.names)) for at in required
        }
        bounds = np.zeros(len(near.names), dtype=np.int64)
        for role, room, limit in zip(self._roles, self._rooms, most.tolist(), strict=True):
            if (at := role.rules.required) is None:
                bounds += limit
            else:
                bounds += np.minimum(np.append(self._levels[at].tally(room)[0], 0)[within[at]], role.count)
        bounds = np.minimum(bounds, self._within(near, required[0]))
        for code in np.lexsort((near.rank, -bounds)).tolist():
            rooms = self._rooms.copy()
            for room, role in zip(rooms, self._roles, strict=True):
                least = len(self._levels) if role.rules.required is None else role.rules.required
                for at in [at for at in required if at >= least]:
                    codes, home = self._levels[at].codes, within[at][code]
                    room[(codes != home) | (codes < 0)] = 0
            yield rooms, int(bounds[code])

    def _within(self, level: Level, at: int) -> Counts:
        """An upper bound of members by the amounts in each domain of the nearest required level."""
        free = level.sums(self._free * self._rooms.any(axis=0))[:, 1:]
        least = np.full(len(level.names), sum(self.counts))
        for line, left in enumerate(free):
            total = np.zeros_like(least)
            asks = [
                dict(demand).get(line, 0) if role.rules.required == at else 0
                for role, demand in zip(self._roles, self._demands, strict=True)
            ]
            for ask, count in sorted(zip(asks, self.counts, strict=True)):
                here = np.minimum(left // ask, count) if ask else count
                total, left = total + here, left - here * ask
            least = np.minimum(least, total)
        return least

    def fill(self, fold: _Fold, rooms: Counts) -> Iterator[int]:
        """Add all nodes to the fold, yielding costs; stops once all members fit."""
        parts: list[_NodeSet] = []
        yield from self._nodes(rooms, parts)
        for at in sorted({slice_.level for role in self._roles for slice_ in role.rules.slices}):
            units = tuple(role.rules.unit(at) for role in self._roles)
            domains: dict[int, list[_NodeSet]] = {}
            for node_set in parts:
                domains.setdefault(int(self._levels[at].codes[node_set.rows].max()), []).append(node_set)
            parts = domains.pop(-1, [])
            for node_sets in domains.values():
                inner = _Fold(self.counts)
                for node_set in node_sets:
                    yield from inner.add(node_set)
                if ways := inner.ways(units):
                    parts.append(_NodeSet(np.concatenate([node_set.rows for node_set in node_sets]), ways, inner.take))
                yield 20 + len(ways)
        for node_set in parts:
            yield from fold.add(node_set)
            if fold.full:
                return

    def named(self, chosen: dict[int, Vector]) -> dict[str, str]:
        """A node for each member, in rank order, domain by domain."""
        nodes: dict[str, str] = {}
        rows = np.array(list(chosen), dtype=np.intp)
        for number, role in enumerate(self._roles):
            near = [self._levels[slice_.level] for slice_ in role.rules.slices]
            keys = [self._snapshot.rank[rows], *(np.append(level.rank, -1)[level.codes[rows]] for level in near)]
            ordered = rows[np.lexsort(keys)].tolist()
            names = [self._snapshot.names[row] for row in ordered for _ in range(chosen[row][number])]
            nodes |= {pod.uid: name for pod, name in zip(role.pods, names, strict=False)}
        return nodes

    def _nodes(self, rooms: Counts, parts: list[_NodeSet]) -> Iterator[int]:
        """Add a part for each node. Nodes that only one role can use are merged, domain by domain."""
        users, spent = np.count_nonzero(rooms, axis=0)[self._rows], 5 + len(self._rows) // 200
        for row in self._rows[users > 1].tolist():
            ways, cost = self._ways(tuple(rooms[:, row].tolist()), tuple(self._free[:, row].tolist()))
            parts.append(_NodeSet(np.array([row]), ways, partial(_one, row)))
            spent += 1 + cost
            if spent > _PAUSE:
                yield spent
                spent = 0
        rows = self._rows[users == 1]
        near = [self._levels[slice_.level].codes[rows] for role in self._roles for slice_ in role.rules.slices]
        alone: dict[tuple[int, ...], list[int]] = {}
        for row, *key in np.stack([rows, rooms[:, rows].argmax(axis=0), *near], axis=1).tolist():
            alone.setdefault(tuple(key), []).append(row)
        for (who, *_), node_rows in alone.items():
            parts.append(_alone(who, node_rows, rooms[who], len(self.counts)))
        yield spent + len(rows) // 15 + 2 * len(alone)

    def _ways(self, room: Vector, free: Vector) -> tuple[list[Vector], int]:
        """The ways to fill a node with these free amounts, and the cost of finding them. Most nodes equal others."""
        if (known := self._known.get((room, free))) is not None:
            return known, 0
        *others, last = room
        if (count := prod(size + 1 for size in others)) > _LARGEST // 10:
            return [], BUDGET
        best: list[Vector] = []
        for beside in product(*(range(size, -1, -1) for size in others)):
            left = list(free)
            for much, demand in zip(beside, self._demands, strict=False):
                for line, amount in demand:
                    left[line] -= amount * much
            if min(left, default=0) < 0:
                continue
            most = min((left[line] // amount for line, amount in self._demands[-1]), default=last)
            way = (*beside, min(last, most))
            if not any(all(map(le, way, other)) for other in best):
                best.append(way)
        self._known[room, free] = best
        return best, count // 2


def _one(row: int, wanted: Vector) -> dict[int, Vector]:
    return {row: wanted}


def _alone(who: int, rows: list[int], room: Counts, roles: int) -> _NodeSet:
    """The nodes that only this role can use, as one part."""

    def vector(count: int) -> Vector:
        return tuple(count if number == who else 0 for number in range(roles))

    def take(wanted: Vector) -> dict[int, Vector]:
        taken, rest = {}, wanted[who]
        for row in rows:
            if here := min(rest, int(room[row])):
                taken[row] = vector(here)
                rest -= here
        return taken

    return _NodeSet(np.array(rows), [vector(int(room[rows].sum()))], take)
