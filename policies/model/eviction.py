"""What the author of a workload says about its eviction."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple


class EvictionTerms(NamedTuple):
    """``min_runtime_s``: it is to run for so long before it is evicted. ``checkpointed``: when it last wrote a
    checkpoint, in seconds since the epoch. None where nothing is said."""

    min_runtime_s: float | None = None
    checkpointed: float | None = None


NO_TERMS = EvictionTerms()


def together(some: Iterable[EvictionTerms]) -> EvictionTerms:
    """Those of a workload, of which its parts say something each: the longest time and the last checkpoint."""
    said = [one for one in some if one is not NO_TERMS]
    least = [one.min_runtime_s for one in said if one.min_runtime_s is not None]
    saved = [one.checkpointed for one in said if one.checkpointed is not None]
    return EvictionTerms(max(least, default=None), max(saved, default=None)) if said else NO_TERMS
