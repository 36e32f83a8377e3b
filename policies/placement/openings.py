"""The nodes on which members that matter to each other may be seated, and which of them each role would take."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any

import numpy as np
from numpy.typing import NDArray

from policies.api import Choice, ScorePolicy
from policies.placement.columns import Codes, Mask
from policies.placement.relations import Relations
from policies.placement.request import Role, confine, nearness
from policies.placement.snapshot import Counts, Rows, Snapshot
from policies.steps import Steps

ROOM, WORSE, CROWD, PLACE = 24, 32, 41, 52
"""Where each part of a preference begins, in bits; what is below counts less, and last score and name."""
CLOSED = np.iinfo(np.int64).max


@dataclass(frozen=True, slots=True, eq=False)
class Openings:
    """``rows``: the nodes. Over these, ``place``: which of the domains each is in, and for each role ``rooms``: for how
    many members there is room, and ``preference``: the lower the better."""

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
    """``few``: only the nodes that may be taken if each member in turn gets the one that is best then."""
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
    # From here on only the nodes count that are open to any of them.
    rows = np.logical_or.reduce([room > 0 for room in rooms]).nonzero()[0]
    preference: list[NDArray[np.int64]] = []
    for role in roles:
        poor = 100 - scoring.score(role.pods[0], rows, snapshot)
        alike = np.minimum(poor, 100) * len(snapshot.names) + snapshot.rank[rows]
        spare = 255 - np.minimum(role.room[rows], 255)
        preference.append((place[rows] << PLACE) + (spare << ROOM) + alike)
        yield cost
    if few and not any(role.rules.slices or relations.of[role.part].begins for role in roles):
        wishes = (role.wishes.facts for role in roles if role.wishes is not None)
        facts = {id(one): one for one in chain(*(one.facts for one in relations.of), *wishes)}
        kinds = kinds_of(facts.values(), rows)
        yield 5 * len(facts)
        kept, most = np.zeros(len(rows), dtype=np.bool_), sum(role.count for role in roles)
        for room, keys in zip(rooms, preference, strict=True):
            kept |= first_of_each(kinds, np.where(room[rows] > 0, keys, CLOSED), most)
            yield cost
        rows, preference = rows[kept], [keys[kept] for keys in preference]
    return Openings(rows, place[rows], [room[rows] for room in rooms], preference)


_MOST = 1 << 62
_SORTED_FAST = 1 << 15
"""numpy sorts numbers below this one by their digits."""


def kinds_of(facts: Iterable[NDArray[Any]], rows: Rows) -> Codes:
    """The same number for nodes of which all facts are the same; a number of its own for each if that is too much."""
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
    """So many nodes of each kind: those with the lowest keys."""
    kept, each = np.zeros(len(kinds), dtype=np.bool_), np.arange(len(kinds))
    order = np.argsort(keys)
    order = order[np.argsort(kinds[order], kind="stable")]
    here = kinds[order]
    begins = np.append(True, here[1:] != here[:-1])[: len(each)]
    kept[order[each - np.maximum.accumulate(np.where(begins, each, 0)) < most]] = True
    return kept
