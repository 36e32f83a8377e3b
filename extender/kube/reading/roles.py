"""How many members of each role a PodGroup says have to start together."""

from __future__ import annotations

from collections.abc import Mapping

from extender.kube.reading.plain import plain
from policies.model import Minima

MOST_ROLES = 64
"""With a minimum of their own that a PodGroup may have: each is looked at with every event of its gang."""
TOO_MANY_ROLES = f"it says a minimum for more than {MOST_ROLES} roles"
LARGEST = 999_999_999


def minima_of(said: Mapping[str, int]) -> Minima:
    """Those that are more than nothing, the first of them by name where there are too many."""
    found = sorted((plain(role), min(count, LARGEST)) for role, count in said.items() if count > 0 and role)
    return tuple(found[:MOST_ROLES])


def needed(min_member: int, minima: Minima) -> int:
    """How many members have to start together; 0 stands for none said, which is one."""
    return min_member if min_member < 0 else max(1, min_member, sum(count for _, count in minima))
