"""First fit: the first nodes by name that have room, in any domain."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from policies.api import Choice
from policies.placement.request import PlacementRequest
from policies.placement.snapshot import Domain, Rows, Snapshot


class FirstFit:
    """Topology matters only as far as it is required: the first required domain, or slice domain, with room is taken.

    For clusters with the same network everywhere, and as a baseline to compare other policies with.
    """

    def domains(self, request: PlacementRequest, snapshot: Snapshot) -> Iterator[Choice]:
        first = request.roles[0]
        everywhere = Domain("", np.arange(len(snapshot.names)))
        if first.rules.slice_size:
            yield from self._required(request, snapshot)
        elif first.rules.required is not None:
            for (domain,) in self._required(request, snapshot):
                yield (*_one_by_one(domain.rows, request, snapshot), everywhere)
        else:
            yield (*_one_by_one(everywhere.rows, request, snapshot), everywhere)
        yield (everywhere,)

    def _required(self, request: PlacementRequest, snapshot: Snapshot) -> Iterator[tuple[Domain]]:
        """The domains of the required level that have room for the first role, by the name of their first node."""
        first = request.roles[0]
        if first.rules.required is None:
            return
        level = snapshot.levels[first.rules.required]
        rooms, _ = level.tally(first.room)
        whole = [level.domain(code) for code in np.flatnonzero(rooms >= first.count).tolist()]
        yield from ((domain,) for domain in sorted(whole, key=lambda domain: int(snapshot.rank[domain.rows].min())))


def _one_by_one(rows: Rows, request: PlacementRequest, snapshot: Snapshot) -> Iterator[Domain]:
    """Each node as a domain, in the order of names, until together they hold the first role."""
    first = request.roles[0]
    row = rows[first.room[rows] > 0]
    ordered = row[np.argsort(snapshot.rank[row])]
    enough = int(np.searchsorted(np.cumsum(first.room[ordered]), first.count)) + 1
    yield from (Domain(snapshot.names[row], ordered[at : at + 1]) for at, row in enumerate(ordered[:enough].tolist()))
