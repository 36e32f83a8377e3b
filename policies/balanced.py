"""Balanced: a gang that has to be divided gets equal shares: a ring is only as fast as its smallest part."""

from __future__ import annotations

from collections.abc import Iterator

from policies.api import Choice
from policies.ask import Ask
from policies.climb import choices
from policies.snapshot import Snapshot
from policies.topology import evenly


class Balanced:
    """Best fit for what fits into one domain; else the fewest domains, with shares that are equal to within one."""

    def domains(self, ask: Ask, snapshot: Snapshot) -> Iterator[Choice]:
        return choices(ask, snapshot, evenly, even=True)
