"""Balanced: a gang that has to be divided gets equal shares: a ring is only as fast as its smallest part."""

from __future__ import annotations

from collections.abc import Iterator

from policies.api import Choice
from policies.placement.request import PlacementRequest
from policies.placement.search import choices
from policies.placement.snapshot import Snapshot
from policies.strategies.best_fit import evenly


class Balanced:
    """Best fit for what fits into one domain; else the fewest domains, with shares that are equal to within one."""

    def domains(self, request: PlacementRequest, snapshot: Snapshot) -> Iterator[Choice]:
        return choices(request, snapshot, evenly, even=True)
