"""The nodes as arrays: a row for each, kept up to date node by node; what policies see is a view of it."""

from __future__ import annotations

from weakref import WeakKeyDictionary

import numpy as np
from numpy.typing import NDArray

from extender.core.nesting import nested
from policies.columns import Column, Fact, Label, Mask, ranked
from policies.levels import ALL, LevelKey, detected
from policies.matching import admits, eligible
from policies.model import Node, Selection
from policies.snapshot import Level, Rows, Snapshot


class Table:
    """Amounts have one line per resource and one place per node, so that a resource of all nodes is one plain array.

    ``levels`` are nearest first; without any, those of the presets that have nodes are in force at any time.
    """

    def __init__(self, levels: tuple[LevelKey, ...]) -> None:
        self.nodes: dict[str, Node] = {}
        self.rows: dict[str, int] = {}
        self.resources: dict[str, int] = {}
        self.allocatable = np.zeros((8, 16), dtype=np.int64)
        self.free = np.zeros((8, 16), dtype=np.int64)
        self._configured = levels
        self._levels: tuple[Level, ...] | None = None
        self._names: list[str] = []
        self._rank: Rows | None = None
        self._columns: dict[Fact, Column] = {}
        self._labels: dict[str, None] = {}
        """Every label key that some node has had."""
        self._masks: WeakKeyDictionary[Selection, NDArray[np.uint8]] = WeakKeyDictionary()
        """A bit for each node. They live as long as some pod asks for the selection: however many others there are,
        each selection is evaluated once between two changes of the nodes."""

    def put(self, node: Node) -> bool:
        """Add a node or take over its new facts. Returns whether it is new: all of it is free then."""
        row = self.rows.get(node.name)
        new = row is None
        if row is None:
            row = self.rows[node.name] = len(self._names)
            self._names.append(node.name)
            self._rank = None
            self._grow(0, row + 1)
            self.allocatable[:, row] = self.free[:, row] = 0
        before = self.allocatable[:, row].copy()
        self.allocatable[:, row] = 0
        for name, amount in node.allocatable:
            self.allocatable[self.line(name), row] = amount
        self.free[: len(before), row] -= before
        self.free[:, row] += self.allocatable[:, row]
        self._note(row, node)
        return new

    def drop(self, name: str) -> None:
        """Forget a node; the last row moves into its place."""
        row = self.rows.pop(name, None)
        if row is None:
            return
        del self.nodes[name]
        last = len(self._names) - 1
        if row != last:
            moved = self._names[last]
            self._names[row], self.rows[moved] = moved, row
            for array in (self.allocatable, self.free):
                array[:, row] = array[:, last]
            self._note(row, self.nodes[moved])
        self._names.pop()
        self._rank = None
        self._changed()

    def line(self, resource: str) -> int:
        """The line of a resource; one that is new gets the next."""
        line = self.resources.get(resource)
        if line is None:
            line = self.resources[resource] = len(self.resources)
            self._grow(line + 1, 0)
        return line

    def snapshot(self) -> Snapshot:
        """What a policy sees now, as a view."""
        lines, count = len(self.resources), len(self._names)
        if self._rank is None:
            self._rank = ranked(self._names)
        return Snapshot(
            self._names,
            self.rows,
            self._rank,
            self.resources,
            self.free[:lines, :count],
            self.allocatable[:lines, :count],
            self.levels(),
            self._eligible,
        )

    def levels(self) -> tuple[Level, ...]:
        """The levels in force and where each node is in them."""
        if self._levels is None:
            count = len(self._names)
            chosen = self._configured or detected(one.key for one in ALL if self._labelled(one, count))
            self._levels = nested(chosen, [self._column(Label(one.key)) for one in chosen], count)
        return self._levels

    def validate(self) -> None:
        """Work everything out anew from the nodes; what was kept up to date must say the same."""
        view, nodes = self.snapshot(), [self.nodes[name] for name in self._names]
        assert self.rows == {name: row for row, name in enumerate(self._names)}, "the rows are mixed up"  # noqa: S101
        ordered = sorted(self._names)
        assert [ordered[rank] for rank in view.rank] == self._names, "the ranks are not those of the names"  # noqa: S101
        for name, line in self.resources.items():
            offered = [dict(node.allocatable).get(name, 0) for node in nodes]
            assert view.allocatable[line].tolist() == offered, f"allocatable {name} is stale"  # noqa: S101
        for fact, column in self._columns.items():
            known = [column.values[code] if code >= 0 else None for code in column.codes(len(nodes))]
            assert known == [fact.of(node) for node in nodes], f"the column of {fact} is stale"  # noqa: S101
        for selection, mask in self._masks.items():
            fresh = [admits(node, selection) for node in nodes]
            assert _unpacked(mask, len(nodes)).tolist() == fresh, "a cached eligibility mask is stale"  # noqa: S101

    def _note(self, row: int, node: Node) -> None:
        self.nodes[node.name] = node
        self._labels.update(dict.fromkeys(node.labels))
        for column in self._columns.values():
            column.put(row, node)
        self._changed()

    def _changed(self) -> None:
        self._masks = WeakKeyDictionary()
        self._levels = None

    def _eligible(self, selection: Selection) -> Mask:
        count = len(self._names)
        packed = self._masks.get(selection)
        if packed is None:
            mask = eligible(selection, self._column, count)
            self._masks[selection] = np.packbits(mask)
            return mask
        return _unpacked(packed, count)

    def _labelled(self, level: LevelKey, count: int) -> bool:
        return bool((self._column(Label(level.key)).codes(count) >= 0).any())

    def _column(self, fact: Fact) -> Column:
        """The column of a fact, made when it is first asked for, and anew when most of its values are of the past."""
        if isinstance(fact, Label) and fact.key not in self._labels:
            # Anybody can write such keys into a pod, without end: nothing is kept of them.
            return Column(fact, ()).padded(len(self._names))
        column = self._columns.get(fact)
        if column is None or len(column.values) > 2 * len(self._names) + 64:
            column = self._columns[fact] = Column(fact, (self.nodes[name] for name in self._names))
        return column

    def _grow(self, lines: int, rows: int) -> None:
        height, width = self.free.shape
        size = (2 * lines if lines > height else height, 2 * rows if rows > width else width)
        if size == (height, width):
            return
        for name in ("allocatable", "free"):
            grown = np.zeros(size, dtype=np.int64)
            grown[:height, :width] = getattr(self, name)
            setattr(self, name, grown)


def _unpacked(bits: NDArray[np.uint8], count: int) -> Mask:
    return np.unpackbits(bits, count=count).view(np.bool_)
