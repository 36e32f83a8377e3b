"""The search level by level: one domain that holds the gang, as near as possible, and its division into nearer ones."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator

import numpy as np
from numpy.typing import NDArray

from policies.api import PAUSE, Choice
from policies.placement.capacity import DomainCapacity, sliced_room
from policies.placement.columns import Mask
from policies.placement.request import PlacementRequest
from policies.placement.snapshot import Counts, Domain, Level, Rows, Snapshot

Shares = list[tuple[int, int]]
"""Codes of domains in the order in which to fill them, each with its number of members."""

Split = Callable[[Counts, int, int, NDArray[np.int64]], Shares]
"""``split(rooms, want, spare, preference)`` divides ``want`` among the domains. ``spare``: room outside all domains."""

Dividing = Generator[Choice, None, list[Domain]]
"""A search for the domains into which one divides. Its yields are pauses."""

_DOMAINS_AT_ONCE = 50
_TRIES, _TRIES_REQUIRED = 24, 64
"""Most domains proposed for each number of roles kept together. Only roles that compete for nodes can fail in one."""


def choices(
    request: PlacementRequest, snapshot: Snapshot, split: Split, *, whole_first: bool = True, even: bool = False
) -> Iterator[Choice]:
    """Yield single domains of the preferred level, then of levels farther out; at last the whole cluster.

    What is larger than a domain of the preferred level is divided by ``split``: into domains of the preferred level,
    and those into nearest ones; a sliced role into domains of its slices. A gang that requires a level gets domains up
    to that level only.
    ``whole_first``: False divides the domain of the required level, or the cluster, at once.
    ``even``: of domains that divide into equally many, those with equal shares go first.
    If no domain holds all roles, one that holds all but the easiest is yielded, and so on. So a launcher never keeps
    the workers out of a clique; the others go as near as they can.
    """
    search = _Search(DomainCapacity(request, snapshot), split, even=even)
    rules = request.roles[0].rules
    top = len(snapshot.levels) - 1 if rules.required is None else rules.required
    if not whole_first or rules.preferred is None:
        steps = range(0) if rules.required is None else range(top, top + 1)
    else:
        steps = range(min(rules.preferred, top), top + 1)
    for at in steps:
        yield from search.wholes(at)
    if rules.required is None:
        everywhere = Domain("", np.arange(len(snapshot.names)))
        if search.chain(len(snapshot.levels)):
            parts = yield from search.divided(None, len(snapshot.levels))
            yield tuple(parts)
        yield (everywhere,)


class _Search:
    def __init__(self, capacity: DomainCapacity, split: Split, *, even: bool) -> None:
        self._capacity = capacity
        self._split = split
        self._even = even
        self._first = capacity.roles[0]
        self._levels = capacity.levels

    def chain(self, at: int) -> tuple[int, ...]:
        """The levels through which a domain of that level divides, the farthest first."""
        rules = self._first.rules
        if rules.slices:
            return tuple(slice_.level for slice_ in reversed(rules.slices) if slice_.level < at)
        steps = dict.fromkeys((rules.preferred, 0)) if rules.preferred is not None else ()
        return tuple(step for step in steps if step is not None and step < at)

    def wholes(self, at: int) -> Iterator[Choice]:
        """Yield single domains of a level, for all roles or for all but the easiest ones."""
        capacity, roles = self._capacity, self._capacity.roles
        holds, tries = capacity.holds(at), _TRIES if self._first.rules.required is None else _TRIES_REQUIRED
        if not holds[0].any():
            return
        chain = self.chain(at)
        needed = self._needed(at, chain[0]) if chain else None
        for held in range(len(roles), 0, -1):
            codes = (holds[held - 1] & capacity.allows(at, held)).nonzero()[0]
            ordered = capacity.best_first(codes, at, needed)
            for steps in range(1, len(self._levels[at].above) + 1) if held < len(roles) else ():
                # First where the others have room around the domain, in one that is no larger than necessary.
                up = self._levels[at].above[steps - 1][ordered]
                whole_around = (up >= 0) & capacity.holds(at + steps)[-1][up]
                yield from self._inside(ordered[whole_around][:tries], at, held, steps)
            yield from self._inside(ordered[:tries], at, held)
            if held > 1:
                yield PAUSE

    def _inside(self, codes: Rows, at: int, held: int, steps: int | None = None) -> Iterator[Choice]:
        """Yield each of these domains for the first ``held`` roles, with the others around it.

        ``steps``: the others stay inside the domain that is that many levels farther out; None: anywhere.
        """
        for code in codes.tolist():
            if self._capacity.too_narrow(at, code, held):
                yield PAUSE
                continue
            near = () if held == len(self._capacity.roles) else self._around(at, code, held, steps)
            parts = yield from self.divided(code, at)
            yield (*parts, *near)

    def divided(self, code: int | None, at: int) -> Dividing:
        """The domains into which a domain divides, or without a code the whole cluster."""
        count = len(self._first.room)
        inside = np.ones(count, dtype=np.bool_) if code is None else self._levels[at].codes == code
        outer = Domain("" if code is None else self._levels[at].names[code], inside.nonzero()[0])
        return (yield from self._divide(outer, inside, self._first.count, self.chain(at)))

    def _divide(self, outer: Domain, inside: Mask, want: int, chain: tuple[int, ...]) -> Dividing:
        if not chain:
            return [outer]
        yield PAUSE
        rules, level = self._first.rules, self._levels[chain[0]]
        unit, room = rules.unit(chain[0]), np.where(inside, self._first.room, 0)
        rooms, spare = (
            (sliced_room(room, rules.slices, chain[0], self._levels), 0) if rules.slices else level.tally(room)
        )
        shares = self._split(rooms // unit, want // unit, spare // unit, self._capacity.preference(chain[0]))
        parts, left = [], inside.copy()
        for number, (code, share) in enumerate(_as_neighbours(shares, level), 1):
            rows = level.domain(code).rows
            rows = rows[inside[rows]]
            left[rows] = False
            piece, here = Domain(level.names[code], rows, share * unit), inside
            if len(chain) > 1:
                here = np.zeros_like(inside)
                here[rows] = True
            parts += yield from self._divide(piece, here, share * unit, chain[1:])
            if number % _DOMAINS_AT_ONCE == 0:
                yield PAUSE
        if len(self._capacity.roles) == 1:
            left = left & (level.codes < 0)
        if left.any():
            # A slice that is divided leaves nothing over; the rest is for the other roles.
            most = 0 if rules.slices and outer.most is not None else outer.most
            parts.append(Domain("", np.flatnonzero(left), most))
        return parts

    def _needed(self, at: int, near: int) -> Counts:
        """The least number of domains of a nearer level that the first role needs inside each domain of this level.

        For even shares it is doubled, plus one where even shares are impossible.
        """
        level, nearer = self._levels[at], self._levels[near]
        parents = nearer.above[at - near - 1]
        unit = self._first.rules.unit(near)
        # Nodes of a nearer domain without this level's label are not inside.
        inside = np.where(level.codes >= 0, self._first.room, 0)
        rooms = sliced_room(inside, self._first.rules.slices, near, self._levels)
        want = self._first.count - level.tally(np.where(nearer.codes < 0, self._first.room, 0))[0]
        needed = _needed(rooms, parents, want)
        return 2 * needed + _uneven(rooms // unit, parents, needed, self._first.count // unit) if self._even else needed

    def _around(self, at: int, code: int, held: int, steps: int | None) -> Iterator[Domain]:
        """Yield the nodes outside a domain, nearest first, for all roles but the first ``held``.

        ``steps``: stay inside the domain that is that many levels farther out; None: all nodes.
        """
        taken = self._levels[at].codes == code
        for number, up in enumerate(self._levels[at].above[:steps], 1):
            if up[code] >= 0:
                ring = (self._levels[at + number].codes == up[code]) & ~taken
                taken = taken | ring
                yield Domain("", np.flatnonzero(ring), not_for=held)
        if steps is None:
            yield Domain("", np.flatnonzero(~taken), not_for=held)


def _needed(rooms: Counts, parents: NDArray[np.intp], want: Counts) -> Counts:
    """The least number of each parent's domains, roomiest first, that hold what is wanted there."""
    needed = np.where(want > 0, len(rooms), 0)
    order = np.lexsort((-rooms, parents))
    order = order[parents[order] >= 0]
    owner, sums = parents[order], np.concatenate(([0], np.cumsum(rooms[order])))
    starts = np.searchsorted(owner, owner)
    enough = sums[1:] - sums[starts] >= want[owner]
    # More domains only add to what suffices already, so the first that suffices counts.
    np.minimum.at(needed, owner[enough], (np.arange(len(order)) - starts + 1)[enough])
    return np.where(want > 0, needed, 0)


def _uneven(rooms: Counts, parents: NDArray[np.intp], needed: Counts, want: int) -> Mask:
    """Whether no ``needed`` domains of a parent can have shares that are equal to within one.

    The shares are of all that is wanted, or of what the roomiest have room for.
    """
    inside, size = parents >= 0, len(needed)
    order = np.lexsort((-rooms[inside], parents[inside]))
    rooms, parents = rooms[inside][order], parents[inside][order]
    roomiest = np.arange(len(parents)) - np.searchsorted(parents, parents) < needed[parents]
    within = np.minimum(np.bincount(parents, rooms * roomiest, size).astype(np.int64), want)
    share, larger = np.divmod(within, np.maximum(needed, 1))
    enough = np.bincount(parents, rooms >= share[parents], size) >= needed
    return np.asarray(~enough | (np.bincount(parents, rooms > share[parents], size) < larger), dtype=np.bool_)


def _as_neighbours(shares: Shares, level: Level) -> Shares:
    """The domains ordered so that near ones follow each other, and so do neighbouring ranks."""
    if not level.above:
        return shares
    codes = np.array([code for code, _ in shares], dtype=np.intp)
    keys = [np.arange(len(codes))]
    for up in level.above:
        _, first, which = np.unique(up[codes], return_index=True, return_inverse=True)
        keys.append(first[which])
    return [shares[place] for place in np.lexsort(keys).tolist()]
