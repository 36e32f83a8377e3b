"""How many members of each role a PodGroup wants to start together."""

from __future__ import annotations

from collections.abc import Mapping

from extender.kube.reading.plain import plain
from policies.model import Minima

MOST_ROLES = 64
"""Most roles of a PodGroup with a minimum: each is checked with every event of its gang."""
TOO_MANY_ROLES = f"it says a minimum for more than {MOST_ROLES} roles"
LARGEST = 999_999_999


def minima_of(counts: Mapping[str, int]) -> Minima:
    """The minima above 0, limited to the first by name."""
    by_role = sorted((plain(role), min(count, LARGEST)) for role, count in counts.items() if count > 0 and role)
    return tuple(by_role[:MOST_ROLES])


def needed(min_member: int, minima: Minima) -> int:
    """How many members have to start together. A ``min_member`` of 0 means none stated, which counts as one."""
    return min_member if min_member < 0 else max(1, min_member, sum(count for _, count in minima))
