"""Fill domains with a gang whose members have demands on each other or on present pods.

``Openings`` are the nodes on which members may be placed. Members are placed one by one; ``Progress`` is copied, so
that the search can continue from any point.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import chain
from typing import Any

import numpy as np
from numpy.typing import NDArray

from policies.api import Choice, ScorePolicy
from policies.model import Pod
from policies.placement.columns import Codes, Mask
from policies.placement.one_by_one import PlacementState, RoleRows
from policies.placement.relations import Relations
from policies.placement.request import Role, confine, nearness
from policies.placement.snapshot import Counts, Rows, Snapshot
from policies.placement.wishes import BEST, Granted
from policies.steps import BUDGET, Steps, metered

ROOM, WORSE, SPREAD, PLACE = 24, 32, 41, 52
"""The lowest bit of each part of a preference; lower parts count less, and score and name come last."""
CLOSED = np.iinfo(np.int64).max

_LARGE = 20_000
"""Members times nodes beyond which only one order is tried. Each try costs a copy of all arrays."""


def fill_related(
    roles: Sequence[Role], choice: Choice, snapshot: Snapshot, scoring: ScorePolicy, relations: Relations
) -> Steps[dict[str, str]]:
    """A node for as many members as find room, in an order in which kube-scheduler accepts them one by one.

    A role goes on until none of its members can be admitted. Then the next one tries, and it comes back. Open nodes are
    ordered by the first domain, the fewest pods that count for a spread, and the role's wishes. Then come nodes that
    the role uses already, the most room and the best score. All members are placed whenever possible if only one
    constraint of one role is at work and nothing is preferred. ``most_related`` tries other orders, too. ``most`` of a
    domain is ignored.
    """
    roles = _by_wave(roles, relations)
    opened = yield from openings(roles, choice, snapshot, scoring, relations, few=True)
    table = _Table(roles, opened, snapshot, relations)
    yield 10 + 5 * relations.upkeep
    best: RoleRows = []
    for start in table.starts():
        placed = yield from table.greedy(start)
        best = max(best, placed, key=len)
        if len(best) == table.count:
            break
    return table.named(best)


def most_related(
    roles: Sequence[Role],
    needed: int,
    choices: Iterable[Choice],
    snapshot: Snapshot,
    scoring: ScorePolicy,
    relations: Relations,
    budget: int = BUDGET,
) -> Steps[dict[str, str] | None]:
    """A node for as many members as are admitted at once in any order, if those are ``needed``.

    None if the budget was spent before that was known. ``choices``: each of the domains that may be required, or the
    cluster.
    """
    roles = _by_wave(roles, relations)
    best: dict[str, str] = {}
    spent = 0
    for choice in choices:
        around = yield from openings(roles, choice, snapshot, scoring, relations)
        table = _Table(roles, around, snapshot, relations)
        yield 10 + 5 * relations.upkeep
        nodes, cost = yield from metered(table.search(max(len(best), needed - 1), budget - spent))
        spent += cost
        if nodes is None:
            return None
        best = max(best, table.named(nodes), key=len)
        if len(best) == table.count:
            break
    return best


def _by_wave(roles: Sequence[Role], relations: Relations) -> Sequence[Role]:
    return sorted(roles, key=lambda role: relations.waves[role.index])


class _Table:
    """The roles, in the order of their waves, and all that stays constant while they are placed."""

    def __init__(self, roles: Sequence[Role], open_: Openings, snapshot: Snapshot, relations: Relations) -> None:
        self._roles = roles
        self.count = sum(role.count for role in roles)
        rows, self._preference = open_.rows, open_.preference
        self._names = [snapshot.names[row] for row in rows.tolist()]
        self._place, self._rank = open_.place, snapshot.rank[rows]
        self._relations, self._free = relations.on(rows), snapshot.free[:, rows]
        self._rooms = open_.rooms
        self._open = [room > 0 for room in self._rooms]
        self._slices = [
            [(size, snapshot.levels[level].codes[rows]) for size, level in role.rules.slices[::-1]] for role in roles
        ]
        self._evened = [
            None if role.rules.slices or role.wishes is not None else self._relations.of[role.index].evened(role.index)
            for role in roles
        ]
        self._wishes = [None if role.wishes is None else role.wishes.on(rows) for role in roles]
        self._demands = [snapshot.demand(pod.requests) for pod in relations.pods]

    def starts(self) -> Iterator[Progress]:
        """Yield states in which a role that must be together may begin.

        The tightest domains that hold it come first, then the roomiest; at last states with others in several domains
        that it may be near to.
        """
        for number, role in enumerate(self._roles):
            relation = self._relations.of[role.index]
            if (near := relation.near) is not None and relation.begins:
                homes = near.homes(self._rank, self._rooms[number], role.count)
                yield from (self._start(number, home) for home in homes)
                break
        else:
            yield self._start()
        yield from chain.from_iterable(map(self._opened, range(len(self._roles))))

    def _opened(self, number: int) -> Iterator[Progress]:
        """Yield a state in which members of other roles open domains to this role, each in another domain, roomiest
        first."""
        relation = self._relations.of[self._roles[number].index]
        if (near := relation.near) is None:
            return
        others = [other for other, role in enumerate(self._roles) if near.feeds[role.index] and other != number]
        if not others:
            return
        room = np.where(near.within(near.counts), 0, self._rooms[number])
        waves = [self._relations.waves[self._roles[index].index] for index in (number, *others)]
        now, who = self._start(), [number] if relation.begins and waves[0] == min(waves) else others
        for home in near.roomiest(self._rank, room):
            ways = ((index, mask & home, keys) for index, mask, keys in self._ways(now) if index in who)
            if (best := next((way for way in ways if way[1].any()), None)) is not None:
                opener, mask, keys = best
                self._put(now, opener, int(np.where(mask, keys, CLOSED).argmin()))
                who = others
        if any(now.counts[other] for other in others):
            yield now

    def greedy(self, now: Progress) -> Steps[RoleRows]:
        """Place each member on the node that is best at that moment."""
        upkeep = self._relations.upkeep
        while options := self._best(now):
            for option in options:
                self._put(now, *option)
            yield len(options) * (5 + len(self._names) // 100) + upkeep
        return self._whole(now)

    def search(self, least: int, budget: int) -> Steps[RoleRows | None]:
        """A way to place all, else the most; empty if those are not more than ``least``, None if it took too long."""
        if self.count * len(self._names) > _LARGE:
            return None
        best: RoleRows = []
        seen: set[bytes] = set()
        start = self._start()
        stack = [(start, self._options(start))] if self._within_reach(start) > least else []
        while stack:
            option = next(stack[-1][1], None)
            if option is None:
                stack.pop()
                continue
            now = stack[-1][0].copy()
            self._put(now, *option)
            yield (cost := 10 + len(self._names) // 100)
            if (budget := budget - cost) < 0:
                return None
            if (known := self._key(now)) in seen:
                continue
            seen.add(known)
            best = max(best, self._whole(now), key=len)
            if len(best) == self.count:
                break
            if self._within_reach(now) > max(len(best), least):
                stack.append((now, self._options(now)))
        return best

    def _within_reach(self, now: Progress) -> int:
        """An upper bound of the members that may be placed in the end."""
        rest = 0
        for role, room, counts in zip(self._roles, self._rooms, now.counts, strict=True):
            rest += min(role.count - counts, int(room[now.state.open_to(role.index)].sum()))
        return len(now.placed) + rest

    def named(self, placed: RoleRows) -> dict[str, str]:
        """A node for each member. If any order is equally good, consecutive members sit side by side."""
        if all(relation.near is None and not relation.evenly for relation in self._relations.of):
            placed = sorted(placed, key=lambda member: (member[0], self._place[member[1]], self._rank[member[1]]))
        ranks = [Ranks(role.pods, layers) for role, layers in zip(self._roles, self._slices, strict=True)]
        return {ranks[number].next(row).uid: self._names[row] for number, row in placed}

    def _start(self, number: int = -1, home: Mask | None = None) -> Progress:
        """The state without placed members. ``home``: where the members of that role must go."""
        rooms: list[Counts | None] = [None] * len(self._relations.of)
        for role, here in zip(self._roles, self._rooms, strict=True):
            known = rooms[role.index]
            rooms[role.index] = here if known is None else np.maximum(known, here)
        if home is not None:
            rooms[self._roles[number].index] = np.where(home, self._rooms[number], 0)
        keys = [order.copy() for order in self._preference]
        state = PlacementState(self._relations, rooms, self._free, self._demands)
        granted = [None if wishes is None else Granted.none(wishes).copy() for wishes in self._wishes]
        begun = [Begun.none(layers, role.count) for role, layers in zip(self._roles, self._slices, strict=True)]
        return Progress(state, [], [0] * len(self._roles), keys, begun, granted)

    def _best(self, now: Progress) -> list[tuple[int, int]]:
        """The next members and their nodes, each the best once those before it are placed."""
        for number, mask, keys in self._ways(now):
            keys = np.where(mask, keys, CLOSED)
            row = int(keys.argmin())
            if not mask[row]:
                continue
            if (codes := self._evened[number]) is None:
                return [(number, row)]
            # Nodes that are as good except for their score, one in each domain: a member only makes its own domain
            # worse.
            rows = (keys < (keys[row] >> SPREAD) + 1 << SPREAD).nonzero()[0]
            rows = rows[keys[rows].argsort()]
            firsts = np.sort(np.unique(codes[rows], return_index=True)[1])
            rest = self._roles[number].count - now.counts[number]
            return [(number, row) for row in rows[firsts[:rest]].tolist()]
        return []

    def _options(self, now: Progress) -> Iterator[tuple[int, int]]:
        """Yield the possible next members with nodes, the best first."""
        for number, mask, keys in self._ways(now):
            rows = mask.nonzero()[0]
            yield from ((number, row) for row in rows[keys[rows].argsort()].tolist())

    def _ways(self, now: Progress) -> Iterator[tuple[int, Mask, NDArray[np.int64]]]:
        """Yield the roles that may be placed next, masks of their nodes in order of preference, and the sort keys."""
        for number, role in enumerate(self._roles):
            if now.counts[number] == role.count or not self._names:
                continue
            mask = now.state.allowed(role.index) & self._open[number]
            keys = now.keys[number]
            if (spread_counts := now.state.spread_counts(role.index)) is not None:
                keys = keys + (spread_counts << SPREAD)
            if (granted := now.granted[number]) is not None:
                keys = keys + ((BEST - granted.merits(mask)) << WORSE)
            yield from ((number, mask, keys) for mask in self._parts(now, number, mask))

    def _parts(self, now: Progress, number: int, mask: Mask) -> Sequence[Mask]:
        """The parts of the mask for a member of that role, in order of preference."""
        role = self._roles[number]
        if not role.rules.slices:
            return (mask,)
        return now.begun[number].places(mask, self._rooms[number] * now.state.open_to(role.index))

    def _put(self, now: Progress, number: int, row: int) -> None:
        role = self._roles[number]
        now.state.place(role.index, row)
        now.placed.append((number, row))
        for granted in now.granted:
            if granted is not None:
                granted.meet(role.index, row)
        now.keys[number][row] = (self._place[row] << PLACE) + self._rank[row]
        now.counts[number] += 1
        now.begun[number].add(row)

    def _whole(self, now: Progress) -> RoleRows:
        """The placed members up to the last point at which all slices were whole; kube-scheduler admits that much."""
        begun, placed = [slices.copy() for slices in now.begun], list(now.placed)
        while not all(slices.whole for slices in begun):
            number, row = placed.pop()
            begun[number].add(row, -1)
        return placed

    def _key(self, now: Progress) -> bytes:
        """A key that is equal for equal members on equal nodes, whatever the order."""
        return np.sort(
            np.array([number * len(self._names) + row for number, row in now.placed], dtype=np.int64)
        ).tobytes()


@dataclass(frozen=True, slots=True, eq=False)
class Openings:
    """The nodes on which members may be placed.

    ``rows``: the nodes; the other arrays have this order.
    ``place``: the number of the node's domain in the choice.
    ``rooms``: for each role, for how many members each node has room.
    ``preference``: for each role, the lower the better.
    """

    rows: Rows
    place: NDArray[np.int64]
    rooms: list[Counts]
    preference: list[NDArray[np.int64]]


def openings(
    roles: Sequence[Role],
    choice: Choice,
    snapshot: Snapshot,
    scoring: ScorePolicy,
    relations: Relations,
    *,
    few: bool = False,
) -> Steps[Openings]:
    """Find the nodes on which members may be placed.

    ``few``: only the nodes that may be taken if each member in turn gets the best one.
    """
    place = np.full(len(snapshot.names), -1, dtype=np.int64)
    for at, domain in reversed(list(enumerate(choice))):
        place[domain.rows] = min(at, (1 << 10) - 1)
    rooms = [np.where(place >= 0, role.room, 0) for role in roles]
    home: int | None = None
    levels, cost = len(snapshot.levels), 10 + len(snapshot.names) // 100
    for number in sorted(range(len(roles)), key=lambda number: nearness(roles[number], levels)):
        if roles[number].rules.required is not None:
            home = confine(roles[number], roles, rooms[number], home, choice[0].rows, snapshot)
            yield cost
    # From here on only nodes count that are open to any role.
    rows = np.logical_or.reduce([room > 0 for room in rooms]).nonzero()[0]
    preference: list[NDArray[np.int64]] = []
    for role in roles:
        poor = 100 - scoring.score(role.pods[0], rows, snapshot)
        alike = np.minimum(poor, 100) * len(snapshot.names) + snapshot.rank[rows]
        spare = 255 - np.minimum(role.room[rows], 255)
        preference.append((place[rows] << PLACE) + (spare << ROOM) + alike)
        yield cost
    if few and not any(role.rules.slices or relations.of[role.index].begins for role in roles):
        wishes = (role.wishes.facts for role in roles if role.wishes is not None)
        facts = {id(codes): codes for codes in chain(*(relation.facts for relation in relations.of), *wishes)}
        kinds = kinds_of(facts.values(), rows)
        yield 5 * len(facts)
        chosen, most = np.zeros(len(rows), dtype=np.bool_), sum(role.count for role in roles)
        for room, keys in zip(rooms, preference, strict=True):
            chosen |= first_of_each(kinds, np.where(room[rows] > 0, keys, CLOSED), most)
            yield cost
        rows, preference = rows[chosen], [keys[chosen] for keys in preference]
    return Openings(rows, place[rows], [room[rows] for room in rooms], preference)


_MOST = 1 << 62
_SORTED_FAST = 1 << 15
"""numpy sorts smaller numbers by their digits."""


def kinds_of(facts: Iterable[NDArray[Any]], rows: Rows) -> Codes:
    """Equal numbers for nodes with equal facts; distinct numbers if there are too many combinations."""
    kinds, most = np.zeros(len(rows), dtype=np.intp), 1
    for fact in facts:
        here = fact[rows].astype(np.intp)
        low = int(here.min(initial=0))
        size = int(here.max(initial=0)) - low + 1
        if (most := most * size) > _MOST:
            return np.arange(len(rows))
        kinds = kinds * size + here - low
    return kinds.astype(np.int16) if most <= _SORTED_FAST else kinds


def first_of_each(kinds: Codes, keys: NDArray[np.int64], most: int) -> Mask:
    """The nodes of each kind with the lowest keys, at most ``most`` of a kind."""
    chosen, each = np.zeros(len(kinds), dtype=np.bool_), np.arange(len(kinds))
    order = np.argsort(keys)
    order = order[np.argsort(kinds[order], kind="stable")]
    here = kinds[order]
    begins = np.append(True, here[1:] != here[:-1])[: len(each)]
    chosen[order[each - np.maximum.accumulate(np.where(begins, each, 0)) < most]] = True
    return chosen


Layers = Sequence[tuple[int, Codes]]
"""The sizes of the slices of one role and the domains of the nodes, from the largest to the smallest."""


@dataclass(slots=True)
class Begun:
    """How many members are in each domain, layer by layer, and how many are still to come.

    Several slices of a role may be begun at a time, because a spread may want one member of each in turn.
    """

    layers: Layers
    rest: int
    counts: list[Counts]

    @classmethod
    def none(cls, layers: Layers, count: int) -> Begun:
        return cls(layers, count, [np.zeros(int(codes.max(initial=-1)) + 1, dtype=np.int64) for _, codes in layers])

    def copy(self) -> Begun:
        return Begun(self.layers, self.rest, [count.copy() for count in self.counts])

    def add(self, row: int, by: int = 1) -> None:
        """Add ``by`` members on that row, or remove them."""
        self.rest -= by
        for (_, codes), counts in zip(self.layers, self.counts, strict=True):
            counts[codes[row]] += by

    @property
    def whole(self) -> bool:
        """Whether every begun slice is whole."""
        return not any((counts % size).any() for (size, _), counts in zip(self.layers, self.counts, strict=True))

    def places(self, mask: Mask, room: Counts) -> list[Mask]:
        """The nodes of the mask where the next member may go; nodes that continue most begun slices come first.

        A slice is begun only if members for all of it remain besides the others, and it has room.
        """
        around, left = np.zeros(len(mask), dtype=np.intp), np.array([self.rest])
        going_on = np.zeros(len(mask), dtype=np.int64)
        for (size, codes), counts in zip(self.layers, self.counts, strict=True):
            missing = -counts % size
            outside = np.zeros(len(counts), dtype=np.intp)
            inside = (codes >= 0) & (around >= 0)
            outside[codes[inside]] = around[inside]
            spare = left - np.bincount(outside, missing, len(left)).astype(np.int64)
            rooms = np.bincount(codes[inside], room[inside], len(counts))
            fresh = (missing == 0) & (spare[outside] >= size) & (rooms >= size)
            mask = mask & inside & np.append(fresh | (missing > 0), np.False_)[codes]
            going_on += np.append(missing > 0, np.False_)[codes]
            around, left = codes, np.append(np.where(missing > 0, missing, size), 0)
        return [mask & (going_on == count) for count in range(len(self.layers), -1, -1)]


class Ranks:
    """Hands out the members of one role in rank order, so that consecutive ones share the domains of their slices."""

    def __init__(self, pods: Iterable[Pod], layers: Layers) -> None:
        self._pods, self._layers = deque(pods), layers
        self._slices: dict[tuple[int, int], deque[Pod]] = {}

    def next(self, row: int) -> Pod:
        """The next member for that row."""
        return self._begun(len(self._layers) - 1, row).popleft()

    def _begun(self, at: int, row: int) -> deque[Pod]:
        """The remaining members of the slice begun there; a new slice is taken from the larger one around it."""
        if at < 0:
            return self._pods
        size, codes = self._layers[at]
        begun = self._slices.setdefault((at, int(codes[row])), deque())
        if not begun:
            around = self._begun(at - 1, row)
            begun.extend(around.popleft() for _ in range(min(size, len(around))))
        return begun


@dataclass(slots=True)
class Progress:
    """The state of the gang: placed members, each role's preferred nodes, begun slices, and fulfilled wishes."""

    state: PlacementState
    placed: RoleRows = field(default_factory=list)
    counts: list[int] = field(default_factory=list)
    keys: list[NDArray[np.int64]] = field(default_factory=list)
    begun: list[Begun] = field(default_factory=list)
    granted: list[Granted | None] = field(default_factory=list)

    def copy(self) -> Progress:
        keys, granted = [order.copy() for order in self.keys], [grants and grants.copy() for grants in self.granted]
        begun = [slices.copy() for slices in self.begun]
        return Progress(self.state.copy(), list(self.placed), list(self.counts), keys, begun, granted)
