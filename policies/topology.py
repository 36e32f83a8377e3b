"""Which domain first: a gang that fits into one clique gets one, the tightest; the others get the fewest."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
from numpy.typing import NDArray

from policies.api import Choice
from policies.ask import Ask, Role
from policies.columns import Mask
from policies.fewest import fewest
from policies.packing import domain_sums, fullness, scarce
from policies.snapshot import Counts, Domain, Level, Rows, Snapshot

_TRIES = 4
"""Domains proposed for each number of roles kept together: only where roles compete for the same nodes can one fail."""


class BestFit:
    """Best fit over the nearest level.

    First a domain where members of the gang already are; else the one with the least room that still holds the gang,
    of equals the fullest, then by name. When none holds all roles, one that holds all but the easiest, and so on: a
    launcher never keeps the workers out of a clique. When none holds the hardest role, the fewest domains that do with
    the help of the nodes outside all domains, which alone may be enough.
    """

    def domains(self, ask: Ask, snapshot: Snapshot) -> Iterator[Choice]:
        if not snapshot.levels:
            yield (Domain("", np.arange(len(snapshot.names))),)
            return
        level = snapshot.levels[0]
        rooms = [level.tally(role.room)[0] for role in ask.roles]
        siblings = np.bincount(level.codes[ask.beside] + 1, minlength=len(level.names) + 1)[1:]
        used = fullness(*domain_sums(level, *scarce(ask.roles[0].requests, snapshot)))
        preference = np.empty(len(level.names), dtype=np.int64)
        preference[np.lexsort((level.rank, -used, -siblings))] = np.arange(len(level.names))
        for held in range(len(rooms), 0, -1):
            codes = np.flatnonzero(_may_hold(ask.roles[:held], rooms, level, snapshot))
            best = codes[np.lexsort((preference[codes], rooms[0][codes], -siblings[codes]))]
            for code in best[:_TRIES].tolist():
                whole = held == len(rooms)
                yield (level.domain(code),) if whole else (level.domain(code), _others(level, np.array([code])))
        yield _split(ask, level, rooms[0], preference)


def _may_hold(roles: Sequence[Role], rooms: Sequence[Counts], level: Level, snapshot: Snapshot) -> Mask:
    """The domains with room for each of these roles, and with what all of them ask for together."""
    holds: Mask = np.all([room >= role.count for room, role in zip(rooms, roles, strict=False)], axis=0)
    if len(roles) > 1:
        asked: dict[int, int] = {}
        for role in roles:
            for line, amount in snapshot.demand(role.requests) or ():
                asked[line] = asked.get(line, 0) + amount * role.count
        for line, amount in asked.items():
            holds &= level.tally(np.maximum(snapshot.free[line], 0))[0] >= amount
    return holds


def _split(ask: Ask, level: Level, rooms: Counts, preference: NDArray[np.int64]) -> Choice:
    """Over the fewest domains, with the nodes outside all of them to fall back on, and then everything."""
    role, outside = ask.roles[0], level.outside()
    short = role.count - int(role.room[outside.rows].sum())
    codes = np.zeros(0, dtype=np.intp)
    if short > 0:
        largest = np.cumsum(np.sort(rooms)[::-1])
        within = int(largest[min(int(np.searchsorted(largest, short)), len(largest) - 1)]) if len(largest) else 0
        codes = fewest(rooms, min(role.count, within), preference)[::-1]
    choice = (*(level.domain(code) for code in codes.tolist()), outside)
    return choice if len(ask.roles) == 1 else (*choice, _others(level, codes))


def _others(level: Level, codes: Rows) -> Domain:
    return Domain("", np.flatnonzero(~np.isin(level.codes, codes)))
