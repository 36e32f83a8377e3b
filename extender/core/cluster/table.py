"""The nodes as arrays: a row for each, kept up to date node by node; what policies see is a view of it."""

from __future__ import annotations

from collections.abc import Sequence
from types import MappingProxyType

import numpy as np

from extender.core.cluster.facts import Facts
from policies.model import Node, Requests
from policies.model.levels import LevelKey
from policies.placement.snapshot import Amounts, Level, Others, Snapshot
from policies.placement.tenants import Tenants


class Table:
    """Amounts have one line per resource and one place per node, so that a resource of all nodes is one plain array.

    ``levels`` are nearest first; without any, those of the presets that have nodes are in force at any time.
    """

    def __init__(self, levels: tuple[LevelKey, ...]) -> None:
        self.tenants = Tenants()
        self.resources: dict[str, int] = {}
        self.allocatable = np.zeros((0, 16), dtype=np.int64)
        self.free = np.zeros((0, 16), dtype=np.int64)
        self._facts = Facts(levels)
        self._others = Others(self.tenants, self._facts.codes, self._facts.wanted, self._facts.column)
        self._free_lent = self._facts_lent = False

    @property
    def nodes(self) -> dict[str, Node]:
        return self._facts.nodes

    @property
    def rows(self) -> dict[str, int]:
        return self._facts.rows

    def put(self, node: Node) -> bool:
        """Add a node or take over its new facts. Returns whether it is new: all of it is free then."""
        self._own_all()
        row = self.rows.get(node.name)
        new = row is None
        if row is None:
            row = self._facts.append(node.name)
        self._make_room(node.allocatable, row)
        # From here on both arrays stay the ones that they are.
        if new:
            self.allocatable[:, row] = self.free[:, row] = 0
        before = self.allocatable[:, row].copy()
        self.allocatable[:, row] = 0
        for name, amount in node.allocatable:
            self.allocatable[self.resources[name], row] = amount
        self.free[:, row] += self.allocatable[:, row] - before
        self._facts.note(row, node)
        return new

    def drop(self, name: str) -> None:
        """Forget a node; the last row moves into its place."""
        if name not in self.rows:
            return
        self._own_all()
        row, moved = self._facts.drop(name)
        for array in (self.allocatable, self.free):
            array[:, row] = array[:, moved]

    def take(self, row: int, requests: Requests, sign: int) -> None:
        """Take the room off a node, or with -1 give it back."""
        if self._free_lent:
            self._own_free()
        for name, amount in requests:
            # What no node offers has no line: anybody can write names of resources into a pod, without end.
            if (line := self.resources.get(name)) is not None:
                self.free[line, row] -= sign * amount

    def snapshot(self) -> Snapshot:
        """What a policy sees now, as a view."""
        facts = self._facts
        lines, count = len(self.resources), len(facts.names)
        free, allocatable = self.free[:lines, :count], self.allocatable[:lines, :count]
        # A policy that writes into what it is shown fails, and changes nothing.
        free.flags.writeable = allocatable.flags.writeable = False
        return Snapshot(
            facts.shown(),
            MappingProxyType(facts.rows),
            facts.rank(),
            MappingProxyType(self.resources),
            free,
            allocatable,
            facts.levels(),
            facts.eligible,
            facts.evaluated,
            self._others,
        )

    def lend(self) -> None:
        """Whoever goes on with a snapshot sees everything as it is now: what changes from here on changes copies."""
        self._free_lent = self._facts_lent = True

    def declare(self, topologies: Sequence[Sequence[str]]) -> bool:
        """The levels of Topologies, by their labels, each nearest first. Returns whether they may be others now."""
        self._own_all()
        return self._facts.declare(topologies)

    def levels(self) -> tuple[Level, ...]:
        """The levels in force and where each node is in them."""
        return self._facts.levels()

    def _own_all(self) -> None:
        if self._free_lent:
            self._own_free()
        if self._facts_lent:
            self.allocatable = self.allocatable.copy()
            self._facts, self.resources = self._facts.copy(), dict(self.resources)
            self._others = Others(self.tenants, self._facts.codes, self._facts.wanted, self._facts.column)
            self._facts_lent = False

    def _own_free(self) -> None:
        self.free, self._free_lent = self.free.copy(), False

    def _make_room(self, offered: Requests, row: int) -> None:
        """Give each new name of a resource a line, and the row a place. Larger arrays replace the present ones."""
        for name, _ in offered:
            self.resources.setdefault(name, len(self.resources))
        height, width = self.free.shape
        # Names are few and stay; nodes are many, and come one after the other.
        size = (len(self.resources), 2 * (row + 1) if row >= width else width)
        if size != (height, width):
            self.allocatable, self.free = (_grown(array, size) for array in (self.allocatable, self.free))


def _grown(array: Amounts, size: tuple[int, int]) -> Amounts:
    """Return a larger array with the same amounts, and with zeros where it has more."""
    larger = np.zeros(size, dtype=np.int64)
    larger[: array.shape[0], : array.shape[1]] = array
    return larger
