"""The nodes as arrays: a row for each, kept up to date node by node. Policies see a view of them.

Beside the amounts each row has the facts of its node: name, labels and taints as columns, levels, and who admits whom.
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
from policies.placement.matching import eligible, facts_of, wanted
from policies.placement.snapshot import Amounts, Level, Others, Rows, Snapshot
from policies.placement.tenants import Tenants
from policies.steps import Steps, finish
from policies.words import COUNTED

_NODES = 8
"""Of so many nodes a fact is read in one unit of ``policies.steps``."""
_FEW = 256
"""With fewer lines than these none is looked for that nobody needs any more."""


class Facts:
    """``levels`` are nearest first; without any, those of the presets and Topologies that have nodes are in force at
    any time."""

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
        """A bit for each node. They live as long as some pod asks for the selection: however many others there are,
        each selection is evaluated once between two changes of the nodes."""

    def copy(self) -> Facts:
        """The same at this moment: what changes in one is not seen in the other."""
        other = Facts(self._configured)
        other.nodes, other.rows, other.names = dict(self.nodes), dict(self.rows), list(self.names)
        other._declared = self._declared
        other._levels, other._rank, other._shown = self._levels, self._rank, self._shown
        other._columns = {fact: column.copy() for fact, column in self._columns.items()}
        other._labels = dict(self._labels)
        return other

    def declare(self, topologies: Sequence[Sequence[str]]) -> bool:
        """The levels of Topologies, by their labels, each nearest first. Returns whether they may be others now."""
        if self._configured or self._declared == topologies:
            return False
        self._declared, self._levels = topologies, None
        return True

    def append(self, name: str) -> int:
        """A row for a new node. Returns it."""
        row = self.rows[name] = len(self.names)
        self.names.append(name)
        self._rank = None
        return row

    def note(self, row: int, node: Node) -> None:
        """The node of that row is like this now."""
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
        """The names, for whoever must not change them."""
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
            self._levels = nested(chosen, [self.column(Label(one.key)) for one in chosen], count)
        return self._levels

    def eligible(self, selection: Selection) -> Mask:
        """The nodes that admit such a pod, room apart."""
        packed = self._masks.get(selection)
        return finish(self._evaluate(selection)) if packed is None else _unpacked(packed, len(self.names))

    def evaluated(self, selection: Selection) -> Steps[None]:
        """Find out what ``eligible`` will say, in steps. No node may change meanwhile."""
        if selection not in self._masks:
            yield from self._evaluate(selection)

    def wanted(self, selection: Selection) -> Steps[Mask]:
        """The nodes that the selector and the required affinity ask for. No node may change meanwhile."""
        yield from self._columns_of(selection)
        return (yield from wanted(selection, self.column, len(self.names)))

    def codes(self, key: str) -> Codes:
        """The value of a label on each node, as a code; -1 where it has none."""
        return self.column(Label(key)).codes(len(self.names))

    def _changed(self) -> None:
        if self._masks:
            self._masks = WeakKeyDictionary()
        self._levels = None

    def _detected(self, count: int) -> tuple[LevelKey, ...]:
        there = [[key for key in keys if self._labelled(key, count)] for keys in self._declared]
        present = [one.key for one in ALL if self._labelled(one.key, count)]
        return united(detected(present) if present or not any(there) else (), there)

    def _labelled(self, key: str, count: int) -> bool:
        return key in self._labels and bool((self.column(Label(key)).codes(count) >= 0).any())

    def _evaluate(self, selection: Selection) -> Steps[Mask]:
        yield from self._columns_of(selection)
        mask = yield from eligible(selection, self.column, len(self.names))
        self._masks[selection] = np.packbits(mask)
        return mask

    def _columns_of(self, selection: Selection) -> Steps[None]:
        """One in each step: to make one is a look at every node."""
        for fact in facts_of(selection):
            if fact not in self._columns:
                self.column(fact)
                yield len(self.names) // _NODES

    def column(self, fact: Fact) -> Column:
        """The column of a fact, made when it is first asked for, and anew when most of its values are of the past."""
        if isinstance(fact, Label) and fact.key not in self._labels:
            # Anybody can write such keys into a pod, without end: nothing is kept of them.
            return Column(fact, ()).padded(len(self.names))
        column = self._columns.get(fact)
        if column is None or len(column.values) > 2 * len(self.names) + 64:
            column = self._columns[fact] = Column(fact, (self.nodes[name] for name in self.names))
        return column


def _unpacked(bits: NDArray[np.uint8], count: int) -> Mask:
    return np.unpackbits(bits, count=count).view(np.bool_)


def nested(keys: Sequence[LevelKey], columns: Sequence[Column], count: int) -> tuple[Level, ...]:
    """The levels of the first ``count`` rows, nearest first; all but the farthest nest in those farther."""
    levels: list[Level] = []
    for key, column in zip(reversed(keys), reversed(columns), strict=True):
        levels.insert(0, _level(key, column, count, levels))
    return tuple(levels)


def _level(key: LevelKey, column: Column, count: int, farther: Sequence[Level]) -> Level:
    names: Sequence[str] = column.values
    rank, codes = column.rank(), column.codes(count)
    if "" in column.values:
        # An empty value names nothing: such nodes share no domain.
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
    """For each domain the one of ``level`` that its labelled nodes are in."""
    found = np.full(domains, -1, dtype=np.intp)
    both = (codes >= 0) & (level.codes >= 0)
    found[codes[both]] = level.codes[both]
    return found


def _torn(codes: Codes, domains: int, level: Level) -> Codes:
    """The domains whose nodes are in more than one of ``level``."""
    both = (codes >= 0) & (level.codes >= 0)
    inner, outer = codes[both], level.codes[both]
    strays = inner[_parents(codes, domains, level)[inner] != outer]
    return np.unique(strays)


def _split(names: Sequence[str], codes: Codes, apart: Codes, level: Level) -> tuple[list[str], Codes]:
    """Each of them becomes one domain for each parent; its nodes without the parent's label stay under its own name."""
    fresh, found = list(names), codes.copy()
    for code in apart.tolist():
        rows = np.flatnonzero((codes == code) & (level.codes >= 0))
        for parent in np.unique(level.codes[rows]).tolist():
            found[rows[level.codes[rows] == parent]] = len(fresh)
            fresh.append(f"{names[code]} in {level.names[parent]}")
    return fresh, found


@dataclass(eq=False, slots=True)
class Scratch:
    """A copy of what is free, for statements to write in. It is kept from one statement to the next.

    ``behind``: the rows that have changed since it was last brought up to date. ``lent``: a statement has it.
    """

    free: Amounts
    behind: dict[int, None] = field(default_factory=dict)
    lent: bool = True


class Table:
    """Amounts have one line per resource and one place per node, so that a resource of all nodes is one plain array.

    ``levels`` are nearest first; without any, those of the presets that have nodes are in force at any time.
    """

    def __init__(self, levels: tuple[LevelKey, ...]) -> None:
        self.tenants = Tenants()
        self.resources: dict[str, int] = {}
        """The line of each resource that nodes list or offer. Names of amounts go once nobody offers or takes any."""
        self._fresh: dict[str, None] = {}
        self._crowded = _FEW
        """With so many lines those of the past are looked for."""
        self.allocatable = np.zeros((0, 16), dtype=np.int64)
        self.free = np.zeros((0, 16), dtype=np.int64)
        self._facts = Facts(levels)
        self._offered: dict[str, dict[str, Requests]] = {}
        """The amounts that nodes offer beside what they list: of devices that are counted, and of volumes."""
        self._others = Others(self.tenants, self._facts.codes, self._facts.wanted, self._facts.column)
        self._free_lent = self._facts_lent = False
        self._scratches: list[Scratch] = []

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
        self._make_room((*node.allocatable, *chain.from_iterable(self._offered.get(node.name, {}).values())), row)
        # From here on both arrays stay the ones that they are.
        self._mark(row)
        if new:
            self.allocatable[:, row] = self.free[:, row] = 0
        self._list(row, node)
        self._facts.note(row, node)
        return new

    def offer(self, name: str, amounts: Requests, what: str) -> bool:
        """A node offers this beside what it lists; what it lists itself goes before. What is negative it keeps back of
        that. Returns whether it is new."""
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
            self._list(row, self.nodes[name])
        return True

    def _list(self, row: int, node: Node) -> None:
        """The node has these amounts from now on; what is taken of them stays taken."""
        before = self.allocatable[:, row].copy()
        self.allocatable[:, row] = 0
        offered = tuple(chain.from_iterable(self._offered.get(node.name, {}).values()))
        for name, amount in (*offered, *(one for one in node.allocatable if one[1])):
            self.allocatable[self.resources[name], row] = max(0, amount)
        for name, amount in offered:
            self.allocatable[self.resources[name], row] += min(0, amount)
        self.free[:, row] += self.allocatable[:, row] - before

    def drop(self, name: str) -> None:
        """Forget a node; the last row moves into its place."""
        if name not in self.rows:
            return
        self._own_all()
        row, moved = self._facts.drop(name)
        self._mark(row)
        for array in (self.allocatable, self.free):
            array[:, row] = array[:, moved]

    def take(self, row: int, requests: Requests, sign: int) -> None:
        """Take the room off a node, or with -1 give it back."""
        if self._free_lent:
            self._own_free()
        self._mark(row)
        for name, amount in requests:
            # What no node offers has no line: anybody can write names of resources into a pod, without end.
            if (line := self.resources.get(name)) is not None:
                self.free[line, row] -= sign * amount

    def take_fresh(self) -> tuple[str, ...]:
        """The names that have got a line since this was asked last: nothing was taken from it yet."""
        fresh, self._fresh = self._fresh, {}
        return tuple(fresh)

    def snapshot(self, scratch: Scratch | None = None) -> Snapshot:
        """Return what a policy sees now, as a view; with what is free in ``scratch``, if there is one."""
        facts = self._facts
        lines, count = len(self.resources), len(facts.names)
        amounts = self.free if scratch is None else scratch.free
        free, allocatable = amounts[:lines, :count], self.allocatable[:lines, :count]
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

    def borrow(self) -> Scratch:
        """A copy of what is free now, for one statement. Only the rows that have changed since its last use are copied;
        all are where no copy is at hand, or the arrays have grown."""
        for scratch in self._scratches:
            if not scratch.lent:
                break
        else:
            self._scratches.append(scratch := Scratch(self.free.copy()))
        scratch.lent = True
        if scratch.behind:
            rows = list(scratch.behind)
            scratch.free[:, rows] = self.free[:, rows]
            scratch.behind.clear()
        return scratch

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

    def _mark(self, row: int) -> None:
        for scratch in self._scratches:
            scratch.behind[row] = None

    def _own_free(self) -> None:
        self.free, self._free_lent = self.free.copy(), False

    def _make_room(self, offered: Requests, row: int) -> None:
        """Give each new name of a resource a line, and the row a place. Larger arrays replace the present ones."""
        names = dict.fromkeys(name for name, _ in offered)
        if len(self.resources) >= self._crowded and not names.keys() <= self.resources.keys():
            self._drop_past()
        for name in names:
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
        """Drop the lines of amounts that no node offers any more and of which nothing is taken: their names contain
        what pods ask for, so anybody can make new ones without end."""
        count = len(self._facts.names)
        used = (self.allocatable[:, :count] != 0).any(axis=1) | (self.free[:, :count] != 0).any(axis=1)
        kept = [name for name, line in self.resources.items() if used[line] or not name.startswith(COUNTED)]
        lines = [self.resources[name] for name in kept]
        self.allocatable, self.free = self.allocatable[lines], self.free[lines]
        self.resources = {name: line for line, name in enumerate(kept)}
        self._crowded = max(_FEW, 2 * len(kept))
        self._scratches.clear()


def _grown(array: Amounts, size: tuple[int, int]) -> Amounts:
    """Return a larger array with the same amounts, and with zeros where it has more."""
    larger = np.zeros(size, dtype=np.int64)
    larger[: array.shape[0], : array.shape[1]] = array
    return larger
