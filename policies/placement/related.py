"""Filling domains with a gang whose members demand something of each other or of the pods that are there."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import chain

import numpy as np
from numpy.typing import NDArray

from policies.api import Choice, ScorePolicy
from policies.placement.columns import Mask
from policies.placement.openings import CLOSED, CROWD, PLACE, WORSE, Openings, openings
from policies.placement.progress import Begun, Progress, Ranks
from policies.placement.relations import Relations
from policies.placement.request import Role
from policies.placement.seating import Seating, Seats
from policies.placement.snapshot import Counts, Snapshot
from policies.placement.wishes import BEST, Granted
from policies.steps import BUDGET, Steps, metered

_LARGE = 20_000
"""Members, times the nodes, in more than one order of which they are not tried. Each try costs a copy of all arrays."""


def fill_related(
    roles: Sequence[Role], choice: Choice, snapshot: Snapshot, scoring: ScorePolicy, relations: Relations
) -> Steps[dict[str, str]]:
    """A node for as many members as are found room for, in an order in which kube-scheduler accepts them one by one.

    A role goes on until none of its members can be let in, then the next one tries, and it comes back. Of the nodes
    that are open those of the first domain are taken, of them those whose domains have the fewest pods that count for a
    spread, then those that the role would rather have, then the nodes in use by the role, then the roomiest, then the
    best by score. That holds all whenever it is possible where one constraint of one role is at work and nothing is
    preferred; ``most_related`` tries other orders, too. ``most`` of a domain is not kept to.
    """
    roles = _by_wave(roles, relations)
    found = yield from openings(roles, choice, snapshot, scoring, relations, few=True)
    table = _Table(roles, found, snapshot, relations)
    yield 10 + 5 * relations.upkeep
    best: Seats = []
    for start in table.starts():
        seats = yield from table.greedy(start)
        best = max(best, seats, key=len)
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
    """The same for as many members as are let in at once in any order, if those are ``needed``; None when the budget
    was spent before that was known. ``choices``: each of the domains that may be required, or the cluster.
    """
    roles = _by_wave(roles, relations)
    best: dict[str, str] = {}
    spent = 0
    for choice in choices:
        around = yield from openings(roles, choice, snapshot, scoring, relations)
        table = _Table(roles, around, snapshot, relations)
        yield 10 + 5 * relations.upkeep
        found, cost = yield from metered(table.search(max(len(best), needed - 1), budget - spent))
        spent += cost
        if found is None:
            return None
        best = max(best, table.named(found), key=len)
        if len(best) == table.count:
            break
    return best


def _by_wave(roles: Sequence[Role], relations: Relations) -> Sequence[Role]:
    return sorted(roles, key=lambda role: relations.waves[role.part])


class _Table:
    """The roles, in the order of their waves, and what never changes while they are seated."""

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
            None if role.rules.slices or role.wishes is not None else self._relations.of[role.part].evened(role.part)
            for role in roles
        ]
        self._wishes = [None if role.wishes is None else role.wishes.on(rows) for role in roles]
        self._demands = [snapshot.demand(pod.requests) for pod in relations.pods]

    def starts(self) -> Iterator[Progress]:
        """Where a role that has to be together may begin: the tightest domains that hold it, then the roomiest. Last
        with others that it may be near to in several domains.
        """
        for number, role in enumerate(self._roles):
            relation = self._relations.of[role.part]
            if (near := relation.near) is not None and relation.begins:
                homes = near.homes(self._rank, self._rooms[number], role.count)
                yield from (self._start(number, home) for home in homes)
                break
        else:
            yield self._start()
        yield from chain.from_iterable(map(self._opened, range(len(self._roles))))

    def _opened(self, number: int) -> Iterator[Progress]:
        """Each member of other roles that opens a domain to this one sits in another domain, the roomiest first: it may
        go wherever one of them is.
        """
        relation = self._relations.of[self._roles[number].part]
        if (near := relation.near) is None:
            return
        others = [one for one, role in enumerate(self._roles) if near.feeds[role.part] and one != number]
        if not others:
            return
        room = np.where(near.within(near.counts), 0, self._rooms[number])
        waves = [self._relations.waves[self._roles[one].part] for one in (number, *others)]
        now, who = self._start(), [number] if relation.begins and waves[0] == min(waves) else others
        for home in near.roomiest(self._rank, room):
            ways = ((one, part & home, keys) for one, part, keys in self._ways(now) if one in who)
            if (best := next((way for way in ways if way[1].any()), None)) is not None:
                one, part, keys = best
                self._seat(now, one, int(np.where(part, keys, CLOSED).argmin()))
                who = others
        if any(now.seated[one] for one in others):
            yield now

    def greedy(self, now: Progress) -> Steps[Seats]:
        """Each member on the node that is best at that moment."""
        upkeep = self._relations.upkeep
        while options := self._best(now):
            for option in options:
                self._seat(now, *option)
            yield len(options) * (5 + len(self._names) // 100) + upkeep
        return self._whole(now)

    def search(self, least: int, budget: int) -> Steps[Seats | None]:
        """A way to seat all, else the most; nobody if those are not more than ``least``, None if that took too long."""
        if self.count * len(self._names) > _LARGE:
            return None
        best: Seats = []
        seen: set[bytes] = set()
        start = self._start()
        stack = [(start, self._options(start))] if self._within_reach(start) > least else []
        while stack:
            option = next(stack[-1][1], None)
            if option is None:
                stack.pop()
                continue
            now = stack[-1][0].copy()
            self._seat(now, *option)
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
        """How many members may be seated in the end, at most."""
        rest = 0
        for role, room, seated in zip(self._roles, self._rooms, now.seated, strict=True):
            rest += min(role.count - seated, int(room[now.seating.open_to(role.part)].sum()))
        return len(now.seats) + rest

    def named(self, seats: Seats) -> dict[str, str]:
        """A node for each member. Where any order is as good, members that follow each other sit side by side."""
        if all(one.near is None and not one.evenly for one in self._relations.of):
            seats = sorted(seats, key=lambda one: (one[0], self._place[one[1]], self._rank[one[1]]))
        ranks = [Ranks(role.pods, layers) for role, layers in zip(self._roles, self._slices, strict=True)]
        return {ranks[number].next(row).uid: self._names[row] for number, row in seats}

    def _start(self, number: int = -1, home: Mask | None = None) -> Progress:
        """Nobody sits. ``home``: where the members of that role have to go."""
        rooms: list[Counts | None] = [None] * len(self._relations.of)
        for role, here in zip(self._roles, self._rooms, strict=True):
            known = rooms[role.part]
            rooms[role.part] = here if known is None else np.maximum(known, here)
        if home is not None:
            rooms[self._roles[number].part] = np.where(home, self._rooms[number], 0)
        keys = [one.copy() for one in self._preference]
        seating = Seating(self._relations, rooms, self._free, self._demands)
        granted = [None if wishes is None else Granted.none(wishes).copy() for wishes in self._wishes]
        begun = [Begun.none(layers, role.count) for role, layers in zip(self._roles, self._slices, strict=True)]
        return Progress(seating, [], [0] * len(self._roles), keys, begun, granted)

    def _best(self, now: Progress) -> list[tuple[int, int]]:
        """Who is to be seated next and where, each on the node that is best when those before it are seated."""
        for number, part, keys in self._ways(now):
            keys = np.where(part, keys, CLOSED)
            row = int(keys.argmin())
            if not part[row]:
                continue
            if (codes := self._evened[number]) is None:
                return [(number, row)]
            # The others that are as good but for their score, one in each domain: a member makes only its own worse.
            rows = (keys < (keys[row] >> CROWD) + 1 << CROWD).nonzero()[0]
            rows = rows[keys[rows].argsort()]
            firsts = np.sort(np.unique(codes[rows], return_index=True)[1])
            rest = self._roles[number].count - now.seated[number]
            return [(number, row) for row in rows[firsts[:rest]].tolist()]
        return []

    def _options(self, now: Progress) -> Iterator[tuple[int, int]]:
        """Who may be seated next and where, the best first."""
        for number, part, keys in self._ways(now):
            rows = part.nonzero()[0]
            yield from ((number, row) for row in rows[keys[rows].argsort()].tolist())

    def _ways(self, now: Progress) -> Iterator[tuple[int, Mask, NDArray[np.int64]]]:
        """Which roles may be seated next, on which nodes rather than on those that follow, and their order."""
        for number, role in enumerate(self._roles):
            if now.seated[number] == role.count or not self._names:
                continue
            mask = now.seating.allowed(role.part) & self._open[number]
            keys = now.keys[number]
            if (crowd := now.seating.crowd(role.part)) is not None:
                keys = keys + (crowd << CROWD)
            if (granted := now.granted[number]) is not None:
                keys = keys + ((BEST - granted.merits(mask)) << WORSE)
            yield from ((number, part, keys) for part in self._parts(now, number, mask))

    def _parts(self, now: Progress, number: int, mask: Mask) -> Sequence[Mask]:
        """Where of the mask a member of that role goes rather than anywhere else."""
        role = self._roles[number]
        if not role.rules.slices:
            return (mask,)
        return now.begun[number].places(mask, self._rooms[number] * now.seating.open_to(role.part))

    def _seat(self, now: Progress, number: int, row: int) -> None:
        role = self._roles[number]
        now.seating.seat(role.part, row)
        now.seats.append((number, row))
        for granted in now.granted:
            if granted is not None:
                granted.meet(role.part, row)
        now.keys[number][row] = (self._place[row] << PLACE) + self._rank[row]
        now.seated[number] += 1
        now.begun[number].seat(row)

    def _whole(self, now: Progress) -> Seats:
        """What is seated as long as all slices are whole: so much kube-scheduler lets in."""
        begun, seats = [one.copy() for one in now.begun], list(now.seats)
        while not all(one.whole for one in begun):
            number, row = seats.pop()
            begun[number].seat(row, -1)
        return seats

    def _key(self, now: Progress) -> bytes:
        """The same for the same members on the same nodes, whatever the order."""
        return np.sort(
            np.array([number * len(self._names) + row for number, row in now.seats], dtype=np.int64)
        ).tobytes()
