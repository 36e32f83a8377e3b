"""Filling domains with a gang whose members demand something of each other or of the pods that are there."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from policies.api import Choice, ScorePolicy
from policies.placement.columns import Codes, Mask
from policies.placement.relations import Relations
from policies.placement.request import Role
from policies.placement.seating import Seating, Seats
from policies.placement.snapshot import Counts, Rows, Snapshot
from policies.placement.wishes import BEST, Granted
from policies.steps import Steps

_HOMES = 16
"""Domains that are tried for members which have to be together and whose first one may go anywhere."""
_SMALL = 20_000
"""More orders than one are tried where the members, times the nodes, are no more. Each costs a copy of all arrays."""
_TRIES = 1500
"""So many members are seated in that search; then the best that was found counts."""
_ROOM, _WORSE, _CROWD, _PLACE = 24, 32, 41, 52
"""Where each part of a preference begins, in bits; what is below counts less, and last score and name."""
_CLOSED = np.iinfo(np.int64).max


def fill_related(
    roles: Sequence[Role], choice: Choice, snapshot: Snapshot, scoring: ScorePolicy, relations: Relations
) -> Steps[dict[str, str]]:
    """A node for as many members as are found room for, in an order in which kube-scheduler accepts them one by one.

    A role goes on until none of its members can be let in, then the next one tries, and it comes back. Of the nodes
    that are open those of the first domain are taken, of them those whose domains have the fewest pods that count for a
    spread, then those that the role would rather have, then the nodes in use by the role, then the roomiest, then the
    best by score. That holds all whenever it is possible where one constraint of one role is at work and nothing is
    preferred; in small cases other orders are tried, too. ``most`` of a domain is not kept to.
    """
    table = _Table(roles, choice, snapshot, scoring, relations)
    yield 10 + len(roles) * (10 + len(snapshot.names) // 100)
    best: Seats = []
    for start in table.starts():
        seats = yield from table.greedy(start)
        best = max(best, seats, key=len)
        if len(best) == table.count:
            break
    if len(best) < table.count and table.count * len(snapshot.names) <= _SMALL:
        seats = yield from table.search()
        best = max(best, seats, key=len)
    return table.named(best)


@dataclass(slots=True)
class _Progress:
    """Where the gang stands: who sits where, which nodes each role prefers now, what has become of its wishes, and the
    domains of the slices that it has begun, the nearest first.
    """

    seating: Seating
    seats: Seats = field(default_factory=list)
    seated: list[int] = field(default_factory=list)
    keys: list[NDArray[np.int64]] = field(default_factory=list)
    slices: list[tuple[int, ...]] = field(default_factory=list)
    granted: list[Granted | None] = field(default_factory=list)

    def copy(self) -> _Progress:
        keys, granted = [one.copy() for one in self.keys], [one and one.copy() for one in self.granted]
        return _Progress(self.seating.copy(), list(self.seats), list(self.seated), keys, list(self.slices), granted)


class _Table:
    """The roles and what never changes while they are seated."""

    def __init__(
        self, roles: Sequence[Role], choice: Choice, snapshot: Snapshot, scoring: ScorePolicy, relations: Relations
    ) -> None:
        self._roles = roles
        self.count = sum(role.count for role in roles)
        place = np.full(len(snapshot.names), -1, dtype=np.int64)
        for at, domain in reversed(list(enumerate(choice))):
            place[domain.rows] = min(at, (1 << 10) - 1)
        inside = [(role.room > 0) & (place >= 0) for role in roles]
        home: int | None = None
        for role, mask in zip(roles, inside, strict=True):
            if role.rules.required is not None:
                codes = snapshot.levels[role.rules.required].codes
                home = anchor(codes, choice[0].rows, role.room) if home is None else home
                mask &= codes == codes[home]
        # From here on only the nodes count that are open to any of them.
        rows = np.logical_or.reduce(inside).nonzero()[0]
        self._names = [snapshot.names[row] for row in rows.tolist()]
        self._place, self._rank = place[rows], snapshot.rank[rows]
        self._relations, self._free = relations.on(rows), snapshot.free[:, rows]
        self._rooms = [np.where(mask, role.room, 0)[rows] for role, mask in zip(roles, inside, strict=True)]
        self._open = [room > 0 for room in self._rooms]
        self._slices = [
            [(size, snapshot.levels[level].codes[rows]) for size, level in role.rules.slices] for role in roles
        ]
        self._wishes = [None if role.wishes is None else role.wishes.on(rows) for role in roles]
        self._demands = [snapshot.demand(pod.requests) for pod in relations.pods]
        self._preference: list[NDArray[np.int64]] = []
        for role in roles:
            poor = 100 - scoring.score(role.pods[0], rows, snapshot)
            alike = np.minimum(poor, 100) * len(snapshot.names) + self._rank
            spare = 255 - np.minimum(role.room[rows], 255)
            self._preference.append((self._place << _PLACE) + (spare << _ROOM) + alike)

    def starts(self) -> Iterator[_Progress]:
        """Where a role that has to be together may begin: the tightest domains that hold it, then the roomiest."""
        for number, role in enumerate(self._roles):
            near = self._relations.of[role.part].near
            if near is not None and near.itself and not near.some:
                yield from (
                    self._start(number, home)
                    for home in _homes(near.codes, self._rank, self._rooms[number], role.count)
                )
                return
        yield self._start()

    def greedy(self, now: _Progress) -> Steps[Seats]:
        """Each member on the node that is best at that moment."""
        while (option := next(self._options(now, best=True), None)) is not None:
            self._seat(now, *option)
            yield 10 + len(self._names) // 100
        return self._whole(now)

    def search(self) -> Steps[Seats]:
        """The first way to seat all, else the one that seats the most of those that were tried."""
        best: Seats = []
        seen: set[bytes] = set()
        stack = [(start, self._options(start)) for start in [self._start()]]
        for _ in range(_TRIES):
            while stack and (option := next(stack[-1][1], None)) is None:
                stack.pop()
            if not stack:
                break
            now = stack[-1][0].copy()
            self._seat(now, *option)  # type: ignore[misc]
            yield 10 + len(self._names) // 100
            if (known := self._key(now)) in seen:
                continue
            seen.add(known)
            best = max(best, self._whole(now), key=len)
            if len(best) == self.count:
                break
            stack.append((now, self._options(now)))
        return best

    def named(self, seats: Seats) -> dict[str, str]:
        """A node for each member. Where any order is as good, members that follow each other sit side by side."""
        if all(one.near is None and not one.evenly for one in self._relations.of):
            seats = sorted(seats, key=lambda one: (one[0], self._place[one[1]], self._rank[one[1]]))
        pods = [iter(role.pods) for role in self._roles]
        return {next(pods[number]).uid: self._names[row] for number, row in seats}

    def _start(self, number: int = -1, home: Mask | None = None) -> _Progress:
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
        return _Progress(seating, [], [0] * len(self._roles), keys, [()] * len(self._roles), granted)

    def _options(self, now: _Progress, *, best: bool = False) -> Iterator[tuple[int, int]]:
        """Who may be seated next and where, the best first; or only the best one for each role."""
        for number, role in enumerate(self._roles):
            if now.seated[number] == role.count:
                continue
            mask = now.seating.allowed(role.part) & self._open[number]
            if role.rules.slices and mask.any():
                mask = self._for_slice(now, number, mask)
            if not mask.any():
                continue
            keys, crowd = now.keys[number], now.seating.crowd(role.part)
            if (granted := now.granted[number]) is not None:
                keys = keys + ((BEST - granted.merits(mask)) << _WORSE)
            keys = np.where(mask, keys if crowd is None else keys + (crowd << _CROWD), _CLOSED)
            if best:
                yield number, int(keys.argmin())
            else:
                yield from ((number, row) for row in np.argsort(keys)[: int(mask.sum())].tolist())

    def _for_slice(self, now: _Progress, number: int, mask: Mask) -> Mask:
        """Of these the domain of the slice that is begun, else those that have room for a whole one; in layers."""
        room = np.where(mask, self._rooms[number], 0).astype(np.int64)
        for at, (size, codes) in enumerate(self._slices[number]):
            begun = now.slices[number][at] if now.slices[number] else -1
            if begun >= 0:
                # Whoever is inside a slice that is begun is inside all those around it.
                mask = mask & (codes == begun)
                break
            sums = np.bincount(codes + 1, room)
            sums[0] = 0
            mask = mask & (sums >= size)[codes + 1]
            # What is left over beside whole slices is no room for a larger one.
            _, first = np.unique(codes, return_index=True)
            room = np.zeros_like(room)
            room[first] = (sums // size * size)[codes[first] + 1]
        return mask

    def _seat(self, now: _Progress, number: int, row: int) -> None:
        role = self._roles[number]
        now.seating.seat(role.part, row)
        now.seats.append((number, row))
        for granted in now.granted:
            if granted is not None:
                granted.meet(role.part, row)
        now.keys[number][row] = self._place[row] << _PLACE
        now.seated[number] += 1
        now.slices[number] = tuple(
            int(codes[row]) if now.seated[number] % size else -1 for size, codes in self._slices[number]
        )

    def _whole(self, now: _Progress) -> Seats:
        """What is seated before the first slice that is not whole was begun: so much kube-scheduler lets in."""
        begun = [seated % (role.rules.slice_size or 1) for role, seated in zip(self._roles, now.seated, strict=True)]
        seats = list(now.seats)
        while any(begun):
            number, _ = seats.pop()
            size = self._roles[number].rules.slice_size
            begun[number] = (begun[number] - 1) % size if size else 0
        return seats

    def _key(self, now: _Progress) -> bytes:
        """The same for the same members on the same nodes, whatever the order."""
        where = np.sort(np.array([number * len(self._names) + row for number, row in now.seats], dtype=np.int64))
        return where.tobytes() + bytes(str(now.slices), "ascii")


def anchor(codes: Codes, rows: Rows, room: Counts) -> int:
    """A node of the domain that has the most room among these nodes: those who require the level go there."""
    rooms = np.bincount(codes[rows] + 1, room[rows], 1)
    rooms[:1] = -1
    best = np.flatnonzero(codes[rows] == int(rooms.argmax()) - 1)
    return int(rows[best[0]]) if len(best) else 0


def _homes(codes: Sequence[Codes], rank: Rows, room: Counts, want: int) -> list[Mask]:
    """Masks of the places that are in one domain of each of these columns: those that hold so many, the tightest first;
    the roomiest where none does.
    """
    stacked = np.stack(codes)
    _, combined = np.unique(stacked, axis=1, return_inverse=True)
    combined = np.where((stacked >= 0).all(axis=0), combined.reshape(-1), -1)
    sums = np.bincount(combined + 1, np.minimum(room, want), 1)[1:].astype(np.int64)
    first = np.full(len(sums) + 1, len(rank))
    np.minimum.at(first, combined + 1, rank)
    holding = (sums >= want).nonzero()[0]
    if not len(holding):
        holding = (sums == sums.max(initial=1)).nonzero()[0]
    chosen = holding[np.lexsort((first[1:][holding], sums[holding]))][:_HOMES]
    return [combined == place for place in chosen.tolist()]
