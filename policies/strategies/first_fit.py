"""First fit: the first nodes by name that have room, whatever domain they are in."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from policies.api import Choice
from policies.placement.request import PlacementRequest
from policies.placement.snapshot import Domain, Rows, Snapshot


class FirstFit:
    """No topology but what is required: a required domain, and one for a slice, is the first that has room.

    For clusters whose network is the same everywhere, and to compare the other policies with.
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
        yield from ((domain,) for domain in sorted(whole, key=lambda one: int(snapshot.rank[one.rows].min())))


def _one_by_one(rows: Rows, request: PlacementRequest, snapshot: Snapshot) -> Iterator[Domain]:
    """Each node by itself, in the order of the names, as many as hold the first role."""
    first = request.roles[0]
    some = rows[first.room[rows] > 0]
    ordered = some[np.argsort(snapshot.rank[some])]
    enough = int(np.searchsorted(np.cumsum(first.room[ordered]), first.count)) + 1
    yield from (Domain(snapshot.names[row], ordered[at : at + 1]) for at, row in enumerate(ordered[:enough].tolist()))
