"""The cluster at one decision: how much of every node is free once bound and assumed pods are taken off."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from policies.model import Requests, Selection

Rooms = NDArray[np.int64]
"""Shape ``(nodes, resources)``: free amounts, negative where a node is overcommitted."""


@dataclass(frozen=True, slots=True)
class Snapshot:
    """Arrays over all nodes, row ``i`` for ``names[i]``. Policies read it and never write to it.

    ``eligible(selection)`` is a boolean row mask: the nodes that admit such a pod, room apart.
    """

    names: Sequence[str]
    rows: dict[str, int]
    columns: dict[str, int]
    free: Rooms
    eligible: Callable[[Selection], NDArray[np.bool_]]

    def demand(self, requests: Requests) -> tuple[list[int], Rooms] | None:
        """Columns and amounts of what is asked for; None when no node offers one of the resources at all."""
        wanted = [(self.columns.get(name, -1), amount) for name, amount in requests if amount > 0]
        if any(column < 0 for column, _ in wanted):
            return None
        return [column for column, _ in wanted], np.array([amount for _, amount in wanted], dtype=np.int64)

    def slots(self, requests: Requests, free: Rooms | None = None) -> NDArray[np.int64]:
        """How many pods of this shape each node still has room for. ``free`` stands in for the snapshot's own."""
        demand = self.demand(requests)
        if demand is None:
            return np.zeros(len(self.names), dtype=np.int64)
        columns, amounts = demand
        if not columns:
            return np.full(len(self.names), np.iinfo(np.int64).max)
        rooms = self.free if free is None else free
        # A node with a negative remainder has no room, however small the request.
        return np.asarray(np.maximum(rooms[:, columns] // amounts, 0).min(axis=1), dtype=np.int64)
