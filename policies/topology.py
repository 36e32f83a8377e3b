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
        everywhere = Domain("", np.arange(len(snapshot.names)))
        if not snapshot.levels:
            yield (everywhere,)
            return
        level = snapshot.levels[0]
        rooms = [level.tally(role.room)[0] for role in ask.roles]
        siblings = np.bincount(level.codes[ask.beside] + 1, minlength=len(level.names) + 1)[1:]
        used = fullness(*domain_sums(level, *scarce(ask.roles[0].requests, snapshot)))
        preference = np.empty(len(level.names), dtype=np.int64)
        preference[np.lexsort((level.rank, -used, -siblings))] = np.arange(len(level.names))
        may_hold = _may_hold(ask.roles, rooms, level, snapshot)
        for held in range(len(rooms), 0, -1):
            codes = np.flatnonzero(may_hold[held - 1])
            best = codes[np.lexsort((preference[codes], rooms[0][codes], -siblings[codes]))]
            for code in best[:_TRIES].tolist():
                whole = held == len(rooms)
                yield (level.domain(code),) if whole else (level.domain(code), _others(level, np.array([code])))
        yield _split(ask, level, rooms[0], preference)
        yield (everywhere,)


def _may_hold(roles: Sequence[Role], rooms: Sequence[Counts], level: Level, snapshot: Snapshot) -> Mask:
    """Shape ``(roles, domains)``: has the domain room for the roles up to this one, and what they ask for in all?"""
    holds = np.array([room >= role.count for room, role in zip(rooms, roles, strict=True)])
    if len(roles) > 1:
        asked = np.zeros((len(roles), len(snapshot.free)), dtype=np.int64)
        for at, role in enumerate(roles):
            for line, amount in snapshot.demand(role.requests) or ():
                asked[at, line] = amount * role.count
        for line, sums in enumerate(np.cumsum(asked, axis=0).T):
            if sums.any():
                holds &= level.tally(np.maximum(snapshot.free[line], 0))[0] >= sums[:, np.newaxis]
    return np.asarray(np.logical_and.accumulate(holds, axis=0), dtype=np.bool_)


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
