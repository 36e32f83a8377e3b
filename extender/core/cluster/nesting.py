"""Levels made of label columns: domains nest by the labels of their nodes, and a value that does not is torn apart."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from policies.model.levels import LevelKey
from policies.placement.columns import Codes, Column, ranked
from policies.placement.snapshot import Level


def nested(keys: Sequence[LevelKey], columns: Sequence[Column], count: int) -> tuple[Level, ...]:
    """The levels of the first ``count`` rows, nearest first; all but the farthest nest in those farther."""
    levels: list[Level] = []
    for key, column in zip(reversed(keys), reversed(columns), strict=True):
        levels.insert(0, _level(key, column, count, levels))
    return tuple(levels)


def _level(key: LevelKey, column: Column, count: int, farther: Sequence[Level]) -> Level:
    names: Sequence[str] = column.values
    rank, codes = column.rank(), column.codes(count)
    if "" in column.values:
        # An empty value names nothing: such nodes share no domain.
        codes = np.where(codes == column.values.index(""), -1, codes)
    torn: dict[str, None] = {}
    for level in farther:
        apart = _torn(codes, len(names), level)
        if len(apart):
            torn |= {str(names[code]): None for code in apart.tolist()}
            names, codes = _split(names, codes, apart, level)
            rank = ranked(names)
    above = tuple(_parents(codes, len(names), level) for level in farther)
    return Level(key.name, key.key, tuple(names), rank, codes, above, tuple(sorted(torn)))


def _parents(codes: Codes, domains: int, level: Level) -> Codes:
    """For each domain the one of ``level`` that its labelled nodes are in."""
    found = np.full(domains, -1, dtype=np.intp)
    both = (codes >= 0) & (level.codes >= 0)
    found[codes[both]] = level.codes[both]
    return found


def _torn(codes: Codes, domains: int, level: Level) -> Codes:
    """The domains whose nodes are in more than one of ``level``."""
    both = (codes >= 0) & (level.codes >= 0)
    inner, outer = codes[both], level.codes[both]
    strays = inner[_parents(codes, domains, level)[inner] != outer]
    return np.unique(strays)


def _split(names: Sequence[str], codes: Codes, apart: Codes, level: Level) -> tuple[list[str], Codes]:
    """Each of them becomes one domain for each parent; its nodes without the parent's label stay under its own name."""
    fresh, found = list(names), codes.copy()
    for code in apart.tolist():
        rows = np.flatnonzero((codes == code) & (level.codes >= 0))
        for parent in np.unique(level.codes[rows]).tolist():
            found[rows[level.codes[rows] == parent]] = len(fresh)
            fresh.append(f"{names[code]} in {level.names[parent]}")
    return fresh, found
