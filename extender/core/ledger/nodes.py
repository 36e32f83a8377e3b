"""The nodes as arrays: a row for each, kept up to date node by node. Policies see a view of them.

Beside the amounts each row has the facts of its node: its name, labels and taints as columns, its domains, and which
pods it admits.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import chain
from types import MappingProxyType
from weakref import WeakKeyDictionary

import numpy as np
from numpy.typing import NDArray

from policies.model import Node, Requests, Selection
from policies.model.levels import ALL, LevelKey, detected, united
from policies.placement.columns import Codes, Column, Fact, Label, Mask, ranked
from policies.placement.matching import eligible, facts_of, selected
from policies.placement.snapshot import Amounts, Level, Others, Rows, Snapshot
from policies.placement.tenants import Tenants
from policies.steps import Steps, finish
from policies.words import COUNTED

_NODES = 8
"""Nodes of which a fact is read in one unit of ``policies.steps``."""
_FEW = 256
"""Lines below which unused ones are not dropped."""


class Facts:
    """The facts of the nodes, by row.

    ``levels``: the topology levels, nearest first. If empty, the presets and Topologies that have nodes are in force.
    """

    def __init__(self, levels: tuple[LevelKey, ...]) -> None:
        self.nodes: dict[str, Node] = {}
        self.rows: dict[str, int] = {}
        self.names: list[str] = []
        self._configured = levels
        self._declared: Sequence[Sequence[str]] = ()
        self._levels: tuple[Level, ...] | None = None
        self._rank: Rows | None = None
        self._shown: tuple[str, ...] = ()
        self._columns: dict[Fact, Column] = {}
        self._labels: dict[str, None] = {}
        """Every label key that some node has had."""
        self._masks: WeakKeyDictionary[Selection, NDArray[np.uint8]] = WeakKeyDictionary()
        """The nodes that admit a selection, a bit for each.

        An entry is kept as long as some pod has the selection. So each selection is evaluated once between two changes
        of the nodes, however many there are.
        """

    def copy(self) -> Facts:
        """Copy the facts of now: later changes of one are not seen in the other."""
        other = Facts(self._configured)
        other.nodes, other.rows, other.names = dict(self.nodes), dict(self.rows), list(self.names)
        other._declared = self._declared
        other._levels, other._rank, other._shown = self._levels, self._rank, self._shown
        other._columns = {fact: column.copy() for fact, column in self._columns.items()}
        other._labels = dict(self._labels)
        return other

    def declare(self, topologies: Sequence[Sequence[str]]) -> bool:
        """Set the levels of Topologies, by their labels, each nearest first. Returns whether they may have changed."""
        if self._configured or self._declared == topologies:
            return False
        self._declared, self._levels = topologies, None
        return True

    def append(self, name: str) -> int:
        """Add a row for a new node. Returns its number."""
        row = self.rows[name] = len(self.names)
        self.names.append(name)
        self._rank = None
        return row

    def note(self, row: int, node: Node) -> None:
        """Set the facts of the node in that row."""
        self.nodes[node.name] = node
        self._labels.update(dict.fromkeys(node.labels))
        for column in self._columns.values():
            column.put(row, node)
        self._changed()

    def drop(self, name: str) -> tuple[int, int]:
        """Forget a node; the last row moves into its place. Returns that place, and which row has moved."""
        row, last = self.rows.pop(name), len(self.names) - 1
        del self.nodes[name]
        if row != last:
            moved = self.names[last]
            self.names[row], self.rows[moved] = moved, row
            self.note(row, self.nodes[moved])
        self.names.pop()
        self._rank = None
        self._changed()
        return row, last

    def shown(self) -> Sequence[str]:
        """The names of all nodes by row, as an immutable tuple."""
        self.rank()
        return self._shown

    def rank(self) -> Rows:
        """The place of each node's name among all names."""
        if self._rank is None:
            self._rank, self._shown = ranked(self.names), tuple(self.names)
        return self._rank

    def levels(self) -> tuple[Level, ...]:
        """The levels in force and where each node is in them."""
        if self._levels is None:
            count = len(self.names)
            chosen = self._configured or self._detected(count)
            self._levels = nested(chosen, [self.column(Label(level.key)) for level in chosen], count)
        return self._levels

    def eligible(self, selection: Selection) -> Mask:
        """The nodes that admit pods with the selection, apart from their room."""
        packed = self._masks.get(selection)
        return finish(self._evaluate(selection)) if packed is None else _unpacked(packed, len(self.names))

    def evaluated(self, selection: Selection) -> Steps[None]:
        """Evaluate the selection for ``eligible``, in steps. No node may change meanwhile."""
        if selection not in self._masks:
            yield from self._evaluate(selection)

    def selected(self, selection: Selection) -> Steps[Mask]:
        """The nodes that match the node selector and the required affinity. No node may change meanwhile."""
        yield from self._columns_of(selection)
        return (yield from selected(selection, self.column, len(self.names)))

    def codes(self, key: str) -> Codes:
        """The value of a label on each node, as a code; -1 where it has none."""
        return self.column(Label(key)).codes(len(self.names))

    def _changed(self) -> None:
        if self._masks:
            self._masks = WeakKeyDictionary()
        self._levels = None

    def _detected(self, count: int) -> tuple[LevelKey, ...]:
        there = [[key for key in keys if self._labelled(key, count)] for keys in self._declared]
        present = [level.key for level in ALL if self._labelled(level.key, count)]
        return united(detected(present) if present or not any(there) else (), there)

    def _labelled(self, key: str, count: int) -> bool:
        return key in self._labels and bool((self.column(Label(key)).codes(count) >= 0).any())

    def _evaluate(self, selection: Selection) -> Steps[Mask]:
        yield from self._columns_of(selection)
        mask = yield from eligible(selection, self.column, len(self.names))
        self._masks[selection] = np.packbits(mask)
        return mask

    def _columns_of(self, selection: Selection) -> Steps[None]:
        """Make the missing columns of the selection, one in each step: each reads every node."""
        for fact in facts_of(selection):
            if fact not in self._columns:
                self.column(fact)
                yield len(self.names) // _NODES

    def column(self, fact: Fact) -> Column:
        """The column of a fact, made at its first use, and again when most of its values are outdated."""
        if isinstance(fact, Label) and fact.key not in self._labels:
            # Users can write such keys into pods without limit, so no column is kept.
            return Column(fact, ()).padded(len(self.names))
        column = self._columns.get(fact)
        if column is None or len(column.values) > 2 * len(self.names) + 64:
            column = self._columns[fact] = Column(fact, (self.nodes[name] for name in self.names))
        return column


def _unpacked(bits: NDArray[np.uint8], count: int) -> Mask:
    return np.unpackbits(bits, count=count).view(np.bool_)


def nested(keys: Sequence[LevelKey], columns: Sequence[Column], count: int) -> tuple[Level, ...]:
    """The levels of the first ``count`` rows, nearest first; all but the farthest nest in the farther ones."""
    levels: list[Level] = []
    for key, column in zip(reversed(keys), reversed(columns), strict=True):
        levels.insert(0, _level(key, column, count, levels))
    return tuple(levels)


def _level(key: LevelKey, column: Column, count: int, farther: Sequence[Level]) -> Level:
    names: Sequence[str] = column.values
    rank, codes = column.rank(), column.codes(count)
    if "" in column.values:
        # Nodes with an empty value share no domain.
        codes = np.where(codes == column.values.index(""), -1, codes)
    torn: dict[str, None] = {}
    for level in farther:
        apart = _torn(codes, len(names), level)
        if len(apart):
            torn |= {str(names[code]): None for code in apart.tolist()}
            names, codes = _split(names, codes, apart, level)
            rank = ranked(names)
    above = tuple(_parents(codes, len(names), level) for level in farther)
    return Level(key.name, key.key, tuple(names), rank, codes, above, tuple(sorted(torn)))


def _parents(codes: Codes, domains: int, level: Level) -> Codes:
    """The domain of ``level`` that the labelled nodes of each domain are in; -1 for none."""
    parents = np.full(domains, -1, dtype=np.intp)
    both = (codes >= 0) & (level.codes >= 0)
    parents[codes[both]] = level.codes[both]
    return parents


def _torn(codes: Codes, domains: int, level: Level) -> Codes:
    """The domains whose nodes are in more than one domain of ``level``."""
    both = (codes >= 0) & (level.codes >= 0)
    inner, outer = codes[both], level.codes[both]
    strays = inner[_parents(codes, domains, level)[inner] != outer]
    return np.unique(strays)


def _split(names: Sequence[str], codes: Codes, apart: Codes, level: Level) -> tuple[list[str], Codes]:
    """Split each of the domains by parent; nodes without the parent's label stay under the domain's own name."""
    fresh, extended = list(names), codes.copy()
    for code in apart.tolist():
        rows = np.flatnonzero((codes == code) & (level.codes >= 0))
        for parent in np.unique(level.codes[rows]).tolist():
            extended[rows[level.codes[rows] == parent]] = len(fresh)
            fresh.append(f"{names[code]} in {level.names[parent]}")
    return fresh, extended


@dataclass(eq=False, slots=True)
class Scratch:
    """A copy of the free amounts that a statement writes in. It is kept for the next statement.

    ``behind``: the rows that have changed since it was last brought up to date.
    ``lent``: whether a statement has it.
    """

    free: Amounts
    behind: dict[int, None] = field(default_factory=dict)
    lent: bool = True

    def give_back(self) -> None:
        """End its use by a statement."""
        self.lent = False


class Table:
    """The amounts of all nodes, with one line per resource and one place per node: a resource of all nodes is one
    array.

    ``levels``: the topology levels, nearest first. If empty, the presets that have nodes are in force.
    """

    def __init__(self, levels: tuple[LevelKey, ...]) -> None:
        self.tenants = Tenants()
        self.resources: dict[str, int] = {}
        """The line of each resource that nodes list or offer. Lines of counted amounts are dropped when unused."""
        self._fresh: dict[str, None] = {}
        self._crowded = _FEW
        """The number of lines from which unused ones are dropped."""
        self.allocatable = np.zeros((0, 16), dtype=np.int64)
        self.free = np.zeros((0, 16), dtype=np.int64)
        self._facts = Facts(levels)
        self._offered: dict[str, dict[str, Requests]] = {}
        """The amounts of counted devices and volumes that nodes offer beside what they list."""
        self._others = Others(self.tenants, self._facts.codes, self._facts.selected, self._facts.column)
        self._free_lent = self._facts_lent = False
        self._scratches: list[Scratch] = []

    @property
    def nodes(self) -> dict[str, Node]:
        return self._facts.nodes

    @property
    def rows(self) -> dict[str, int]:
        return self._facts.rows

    def put(self, node: Node) -> Node | None:
        """Add a node or update its facts. Returns the node as it was; None if it is new: then all of it is free."""
        self._own_all()
        facts = self._facts
        before = facts.nodes.get(node.name)
        row = facts.append(node.name) if before is None else facts.rows[node.name]
        offered = self._offered_by(node.name)
        self._make_room((*node.allocatable, *offered), row)
        # From here on neither array is replaced.
        self._mark(row)
        if before is None:
            self.allocatable[:, row] = self.free[:, row] = 0
        self._list(row, node, offered)
        if before is not None and before.differs_in_amounts_only(node):
            facts.nodes[node.name] = node  # what is known of all nodes by their labels and taints stays
        else:
            facts.note(row, node)
        return before

    def offer(self, name: str, amounts: Requests, what: str) -> bool:
        """Set the amounts that a node offers beside what it lists. Returns whether they have changed.

        An amount that the node lists itself takes precedence. A negative amount is kept back from it.
        """
        offered = self._offered.setdefault(name, {})
        if offered.get(what, ()) == amounts:
            return False
        offered[what] = amounts
        if (row := self.rows.get(name)) is not None:
            if self._free_lent:
                self._own_free()
            if self._facts_lent:
                self.allocatable, self.resources = self.allocatable.copy(), dict(self.resources)
            self._make_room(amounts, row)
            self._mark(row)
            self._list(row, self.nodes[name], self._offered_by(name))
        return True

    def _list(self, row: int, node: Node, offered: Requests) -> None:
        """Set the allocatable amounts of the node. What is taken of them stays taken."""
        lines, amounts = self.resources, self.allocatable[:, row]
        before = amounts.copy()
        amounts[:] = 0
        for name, amount in offered:
            amounts[lines[name]] = max(0, amount)
        for name, amount in node.allocatable:
            if amount:
                amounts[lines[name]] = max(0, amount)
        for name, amount in offered:
            amounts[lines[name]] += min(0, amount)
        self.free[:, row] += amounts - before

    def _offered_by(self, name: str) -> Requests:
        """The amounts that the node offers beside what it lists."""
        by_kind = self._offered.get(name)
        return () if by_kind is None else tuple(chain.from_iterable(by_kind.values()))

    def drop(self, name: str) -> None:
        """Forget a node; the last row moves into its place."""
        if name not in self.rows:
            return
        self._own_all()
        row, moved = self._facts.drop(name)
        self._mark(row)
        for array in (self.allocatable, self.free):
            array[:, row] = array[:, moved]

    def take(self, node: str, requests: Requests, sign: int) -> None:
        """Subtract the requests from the node's free amounts; with ``sign`` -1, add them. Unknown nodes are ignored."""
        if (row := self.rows.get(node)) is None:
            return
        if self._free_lent:
            self._own_free()
        self._mark(row)
        for name, amount in requests:
            # A resource that no node offers has no line: users can write names into pods without limit.
            if (line := self.resources.get(name)) is not None:
                self.free[line, row] -= sign * amount

    def take_fresh(self) -> tuple[str, ...]:
        """Return the names that got a line since the last call: nothing was subtracted from it yet."""
        fresh, self._fresh = self._fresh, {}
        return tuple(fresh)

    def snapshot(self, scratch: Scratch | None = None) -> Snapshot:
        """Return a view of the nodes for policies; with the free amounts of ``scratch``, if given."""
        facts = self._facts
        lines, count = len(self.resources), len(facts.names)
        amounts = self.free if scratch is None else scratch.free
        free, allocatable = amounts[:lines, :count], self.allocatable[:lines, :count]
        # A policy that writes into its view fails, and changes nothing.
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

    def borrow(self) -> Scratch:
        """Return a copy of the free amounts for one statement.

        Only rows that have changed since its last use are copied. All rows are if no copy is at hand or the arrays have
        grown.
        """
        for scratch in self._scratches:
            if not scratch.lent:
                break
        else:
            self._scratches.append(scratch := Scratch(self.free.copy()))
        scratch.lent = True
        if scratch.behind:
            rows = np.fromiter(scratch.behind, np.intp, len(scratch.behind))
            scratch.free[:, rows] = self.free.take(rows, 1)
            scratch.behind.clear()
        return scratch

    def lend(self) -> None:
        """Freeze the snapshots that were handed out: later changes are made on copies."""
        self._free_lent = self._facts_lent = True

    def declare(self, topologies: Sequence[Sequence[str]]) -> bool:
        """Set the levels of Topologies, by their labels, each nearest first. Returns whether they may have changed."""
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
            self._others = Others(self.tenants, self._facts.codes, self._facts.selected, self._facts.column)
            self._facts_lent = False

    def _mark(self, row: int) -> None:
        for scratch in self._scratches:
            scratch.behind[row] = None

    def _own_free(self) -> None:
        self.free, self._free_lent = self.free.copy(), False

    def _make_room(self, offered: Requests, row: int) -> None:
        """Give each new resource name a line, and the row a place. Larger arrays replace the present ones."""
        if len(self.resources) >= self._crowded and any(name not in self.resources for name, _ in offered):
            self._drop_past()
        for name, _ in offered:
            if name not in self.resources:
                self._fresh[name] = None
                self.resources[name] = len(self.resources)
        height, width = self.free.shape
        # Names are few; nodes are many, and come one after the other.
        size = (len(self.resources), 2 * (row + 1) if row >= width else width)
        if size != (height, width):
            self.allocatable, self.free = (_grown(array, size) for array in (self.allocatable, self.free))
            self._scratches.clear()

    def _drop_past(self) -> None:
        """Drop the lines of counted amounts that no node offers and no claim uses.

        Their names contain what pods ask for, so users can create new ones without limit.
        """
        count = len(self._facts.names)
        used = (self.allocatable[:, :count] != 0).any(axis=1) | (self.free[:, :count] != 0).any(axis=1)
        names = [name for name, line in self.resources.items() if used[line] or not name.startswith(COUNTED)]
        lines = [self.resources[name] for name in names]
        self.allocatable, self.free = self.allocatable[lines], self.free[lines]
        self.resources = {name: line for line, name in enumerate(names)}
        self._crowded = max(_FEW, 2 * len(names))
        self._scratches.clear()


def _grown(array: Amounts, size: tuple[int, int]) -> Amounts:
    """Return a larger array with the same amounts, and with zeros where it has more."""
    larger = np.zeros(size, dtype=np.int64)
    larger[: array.shape[0], : array.shape[1]] = array
    return larger
