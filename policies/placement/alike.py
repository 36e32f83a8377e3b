"""Nodes that make no difference to a gang but in their order: of those only as many count as it has members."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from policies.placement.columns import Codes, Mask
from policies.placement.snapshot import Rows

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
