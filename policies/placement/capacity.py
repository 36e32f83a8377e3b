"""The room that every domain of each level has for the roles of a gang, and which of equal domains is better."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from policies.placement.columns import Mask
from policies.placement.request import PlacementRequest, Role
from policies.placement.rules import NONE_ASKED, Slice
from policies.placement.snapshot import Counts, Level, Rows, Snapshot, fullness, scarce


def rooms(role: Role, at: int, levels: Sequence[Level]) -> Counts:
    """How many members of the role each domain of a level could take; of a sliced role only whole slices."""
    return sliced_room(role.room, role.rules.slices, at, levels)


def sliced_room(room: Counts, slices: Sequence[Slice], at: int, levels: Sequence[Level]) -> Counts:
    """How many members the domains of a level could take in whole slices, as far as these are inside them."""
    slots: Counts | None = None
    near = at
    for size, level in slices:
        if level > at:
            break
        here = levels[level].tally(room)[0] if slots is None else _upwards(slots, near, level, levels)
        slots, near = here // size * size, level
    if slots is None:
        return levels[at].tally(room)[0]
    return slots if near == at else _upwards(slots, near, at, levels)


def reach(role: Role, snapshot: Snapshot) -> int:
    """How many members the cluster has room for at once under their rules."""
    levels, rules = snapshot.levels, role.rules
    if rules is NONE_ASKED:
        return int(role.room.sum())
    if rules.required is not None:
        most = int(rooms(role, rules.required, levels).max(initial=0))
    else:
        most = int(rooms(role, rules.slice_level, levels).sum() if rules.slice_size else role.room.sum())
    return most - most % (rules.slice_size or 1)


class DomainCapacity:
    """The room in domains for one request and one snapshot; each value is computed on demand, once."""

    def __init__(self, request: PlacementRequest, snapshot: Snapshot) -> None:
        self.roles = request.roles
        self.levels = snapshot.levels
        self._snapshot = snapshot
        self._beside = request.beside
        self._rooms: dict[tuple[int, int], Counts] = {}
        self._preference: dict[int, Counts] = {}
        self._holds: dict[int, Mask] = {}

    def rooms(self, role: int, at: int) -> Counts:
        room = self._rooms.get((role, at))
        if room is None:
            room = self._rooms[role, at] = rooms(self.roles[role], at, self.levels)
        return room

    def siblings(self, at: int) -> Counts:
        """How many of the gang's other members each domain has."""
        level = self.levels[at]
        return np.bincount(level.codes[self._beside] + 1, minlength=len(level.names) + 1)[1:]

    def preference(self, at: int) -> NDArray[np.int64]:
        """The rank of each domain among those with equal room.

        Keys in order: siblings, wishes, little room besides whole slices, fullness, tight surroundings, name.
        """
        order = self._preference.get(at)
        if order is None:
            level = self.levels[at]
            used = fullness(level.sums(scarce(self.roles[0].requests, self._snapshot)))[1:]
            around = [_downwards(self._near_room(at, steps), level, steps) for steps in range(1, len(level.above) + 1)]
            first = self.roles[0]
            spare = level.tally(first.room)[0] if first.rules.slice_size else self.rooms(0, at)
            keys = [level.rank, *around[::-1], -used, spare]
            if (merits := self.merits(at)) is not None:
                keys.append(-merits)
            keys.append(-self.siblings(at))
            order = self._preference[at] = np.empty(len(level.names), dtype=np.int64)
            order[np.lexsort(keys)] = np.arange(len(level.names))
        return order

    def merits(self, at: int) -> Counts | None:
        """How well the nodes that the first role would get in each domain meet its wishes, in total; None without
        wishes."""
        role, codes = self.roles[0], self.levels[at].codes
        if role.wishes is None:
            return None
        merits = role.wishes.merits(role.room)
        order = np.lexsort((-merits, codes))
        room = np.minimum(role.room[order], 1 if role.wishes.apart else role.count)
        before = np.cumsum(room) - room
        first = np.searchsorted(codes[order], codes[order])
        here = np.minimum(room, np.maximum(role.count - (before - before[first]), 0))
        # Each member counts for itself, too, since members that prefer to be apart may get fewer.
        sums = np.bincount(codes[order] + 1, (merits[order] + 1) * here, len(self.levels[at].names) + 1)
        return sums.astype(np.int64)[1:]

    def best_first(self, codes: Rows, at: int, needed: Counts | None) -> Rows:
        """The domains of a level, best first.

        Keys in order: siblings there or near, fewer divisions, the wishes of the first role, tightness, preference.
        """
        keys: list[NDArray[np.int64]] = [self.preference(at)[codes], self.rooms(0, at)[codes]]
        if (merits := self.merits(at)) is not None:
            keys.append(-merits[codes])
        if needed is not None:
            keys.append(needed[codes])
        if len(self._beside):
            level = self.levels[at]
            farther = range(len(level.above), 0, -1)
            keys += [-_downwards(self.siblings(at + steps), level, steps)[codes] for steps in farther]
            keys.append(-self.siblings(at)[codes])
        return codes[np.lexsort(keys)]

    def holds(self, at: int) -> Mask:
        """Whether each domain has room for each role up to this one, and for their sums. Shape ``(roles, domains)``."""
        if (known := self._holds.get(at)) is not None:
            return known
        level, roles, snapshot = self.levels[at], self.roles, self._snapshot
        holds = np.array([self.rooms(number, at) >= role.count for number, role in enumerate(roles)])
        for number, role in enumerate(roles):
            if role.relations is not None and not role.relations.alone and holds[number].any():
                holds[number] &= role.relations.holds(role.index, level, role.count)
        if len(roles) > 1:
            amounts = np.zeros((len(roles), len(snapshot.free)), dtype=np.int64)
            for number, role in enumerate(roles):
                for line, amount in snapshot.demand(role.requests) or ():
                    amounts[number, line] = amount * role.count
            for line, sums in enumerate(np.cumsum(amounts, axis=0).T):
                if sums.any():
                    holds &= level.tally(np.maximum(snapshot.free[line], 0))[0] >= sums[:, np.newaxis]
        held = self._holds[at] = np.asarray(np.logical_and.accumulate(holds, axis=0), dtype=np.bool_)
        return held

    def allows(self, at: int, held: int) -> Mask:
        """The domains around which the roles from ``held`` on find what they require."""
        level = self.levels[at]
        allowed = np.ones(len(level.names), dtype=np.bool_)
        for number, role in enumerate(self.roles[held:], held):
            required = role.rules.required
            if required is not None:
                if required <= at:
                    return np.zeros_like(allowed)
                allowed &= _downwards(self.rooms(number, required), level, required - at) >= role.count
        return allowed

    def too_narrow(self, at: int, code: int, held: int) -> bool:
        """Whether one of the first ``held`` roles cannot be in one domain because of its demands on its own members."""
        if self.roles[0].relations is None:
            return False
        rows = self.levels[at].domain(code).rows
        return any(role.too_narrow(rows) for role in self.roles[:held])

    def _near_room(self, at: int, steps: int) -> Counts:
        return _upwards(self.rooms(0, at), at, at + steps, self.levels)


def _upwards(values: Counts, near: int, far: int, levels: Sequence[Level]) -> Counts:
    """Sums of a level's values for the domains of a level farther out."""
    inside = levels[near].above[far - near - 1]
    return np.bincount(inside + 1, values, len(levels[far].names) + 1).astype(np.int64)[1:]


def _downwards(values: Counts, level: Level, steps: int) -> Counts:
    """The value of the domain that contains each domain, ``steps`` levels farther out; 0 without one."""
    return np.concatenate((values, (0,)))[level.above[steps - 1]]
