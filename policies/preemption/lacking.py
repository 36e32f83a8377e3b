"""The contested quota of each candidate: the quota that is lacking, and the quota for resources that nodes lack."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from policies.model.queues import FlavorResource
from policies.placement.request import Role, roles_of
from policies.placement.rules import Unclear
from policies.placement.snapshot import Amounts, Snapshot
from policies.preemption.candidates import Candidate, Request
from policies.preemption.freed import Freed, leave_out
from policies.statement import Statement
from policies.steps import Steps

Contested = tuple[FlavorResource, ...]
OnNodes = Mapping[str, Contested]
"""The contested quota by candidate name. A candidate without an entry has no room that the preemptor could use."""


def lacking_on_nodes(
    request: Request, statement: Statement, candidates: Sequence[Candidate], freed: Freed
) -> Steps[OnNodes]:
    """Find the part of the request's quota for which nodes lack the resource.

    A node lacks a resource if its free amount is not enough for as many members as it would hold without candidates. A
    resource without quota cannot be borrowed. So a candidate that has some of it on such a node counts as a user of all
    the quota that the request wants. The same holds if members have demands on other pods.

    ``freed``: the room of the candidates, in their order, in all lines.
    """
    wanted = tuple(what for what, amount in request.usage.items() if amount)
    with statement.open():
        leave_out(statement, candidates, freed)
        emptied = statement.snapshot
        roles = yield from roles_of(request.pods, request.caps, emptied, request.beside)
        if isinstance(roles, Unclear) or any(role.relations is not None for role in roles):
            return {candidate.name: wanted for candidate in candidates}
        full_demand = _full_demand(roles, emptied)
    snapshot = statement.snapshot
    short = full_demand > np.maximum(snapshot.free, 0)
    yield 10 + len(snapshot.names) // 50
    known: dict[str, list[FlavorResource]] = {}
    for name, line in snapshot.resources.items():
        hit = short[line, freed.rows] & (freed.amounts[line] > 0)
        of = [what for what in wanted if what[1] == name] or wanted
        for owner in np.unique(freed.owners[hit]).tolist():
            known.setdefault(candidates[owner].name, []).extend(of)
    return {name: tuple(dict.fromkeys(names)) for name, names in known.items()}


def _full_demand(roles: Sequence[Role], emptied: Snapshot) -> Amounts:
    """The amount of each line on each node if each role had as many members there as it could."""
    full_demand: NDArray[np.int64] = np.zeros_like(emptied.free)
    for role in roles:
        here = np.minimum(role.room, role.count)
        for line, amount in emptied.demand(role.requests) or ():
            full_demand[line] += amount * here
    return full_demand
