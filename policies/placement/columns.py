"""A fact of every node as an array of codes, so that a question about all nodes is asked once per distinct value.

A topology level is such a column (the label's value is the domain), and so is each fact that a selector reads.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Hashable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from policies.model import Node, Taint

Codes = NDArray[np.intp]
Mask = NDArray[np.bool_]

_INTEGER = re.compile(r"[+-]?[0-9]{1,100}", re.ASCII)
UNSCHEDULABLE = Taint("node.kubernetes.io/unschedulable", "", "NoSchedule")


class Fact(Protocol):
    """A property of a node; equal facts share a column."""

    def __hash__(self) -> int: ...

    def of(self, node: Node) -> Hashable:
        """The node's value; None without one."""
        ...


@dataclass(frozen=True, slots=True)
class Label:
    """The value of one label."""

    key: str

    def of(self, node: Node) -> str | None:
        return node.labels.get(self.key)


@dataclass(frozen=True, slots=True)
class Field:
    """The field of ``matchFields``; a node's only such field is its name."""

    key: str

    def of(self, node: Node) -> str | None:
        return node.name if self.key == "metadata.name" else None


@dataclass(frozen=True, slots=True)
class NodeTaints:
    """The taints, including the one that cordoning implies; None for a node that is not ready."""

    def of(self, node: Node) -> tuple[Taint, ...] | None:
        if not node.ready:
            return None
        return (*node.taints, UNSCHEDULABLE) if node.unschedulable else node.taints


class Predicate(Protocol):
    """A condition on one fact of a node. A column evaluates it for all nodes with a few numpy operations."""

    def __call__(self, value: Any) -> bool:
        """Whether the condition holds for one value, or for None where the node has none."""
        ...

    def among(self, column: Column) -> Mask:
        """The answers for each of the column's values; the one for None comes last, where code -1 finds it."""
        ...


@dataclass(frozen=True, slots=True)
class OneOf:
    """The value is one of these. With ``negated`` it is none of them, or missing."""

    values: tuple[Hashable, ...]
    negated: bool = False

    def __call__(self, value: Any) -> bool:
        return (value is not None and value in self.values) != self.negated

    def among(self, column: Column) -> Mask:
        verdicts = np.full(len(column.values) + 1, self.negated)
        verdicts[column.codes_of(self.values)] = not self.negated
        return verdicts


@dataclass(frozen=True, slots=True)
class Known:
    """A value exists. With ``negated`` none does."""

    negated: bool = False

    def __call__(self, value: Any) -> bool:
        return (value is not None) != self.negated

    def among(self, column: Column) -> Mask:
        verdicts = np.full(len(column.values) + 1, not self.negated)
        verdicts[-1] = self.negated
        return verdicts


@dataclass(frozen=True, slots=True)
class Beyond:
    """The value is a number above the bound, or with ``below`` under it. Without a bound it never holds."""

    bound: int | None
    below: bool = False

    def __call__(self, value: Any) -> bool:
        parsed = number(value)
        if parsed is None or self.bound is None:
            return False
        return parsed < self.bound if self.below else parsed > self.bound

    def among(self, column: Column) -> Mask:
        verdicts = np.zeros(len(column.values) + 1, dtype=np.bool_)
        if self.bound is not None:
            codes, numbers = column.numbers()
            verdicts[codes] = numbers < self.bound if self.below else numbers > self.bound
        return verdicts


@dataclass(frozen=True, slots=True)
class Holds:
    """Any other condition, evaluated once for each value."""

    question: Callable[[Any], bool]

    def __call__(self, value: Any) -> bool:
        return self.question(value)

    def among(self, column: Column) -> Mask:
        return np.array([self.question(value) for value in (*column.values, None)], dtype=np.bool_)


class Column:
    """A fact of all nodes. ``codes[row]`` is the index in ``values`` of the row's value, -1 without one."""

    def __init__(self, fact: Fact, nodes: Iterable[Node]) -> None:
        self.values: list[Any] = []
        self._fact = fact
        self._code_of: dict[Hashable, int] = {}
        self._codes = np.array([self._code(node) for node in nodes], dtype=np.intp)
        self._rank = np.zeros(0, dtype=np.intp)
        self._numbers: tuple[int, Codes, NDArray[np.int64]] | None = None

    def put(self, row: int, node: Node) -> None:
        """Store the node of a row; the row after the last one may be given, too."""
        if row >= len(self._codes):
            self.padded(len(self._codes) + max(16, len(self._codes)))
        self._codes[row] = self._code(node)

    def copy(self) -> Column:
        """An independent copy: later changes of one do not show in the other."""
        other = Column(self._fact, ())
        other.values, other._code_of, other._codes = list(self.values), dict(self._code_of), self._codes.copy()
        other._rank, other._numbers = self._rank, self._numbers
        return other

    def padded(self, count: int) -> Column:
        """The column with at least ``count`` rows; new rows have no value."""
        if (more := count - len(self._codes)) > 0:
            self._codes = np.concatenate([self._codes, np.full(more, -1, dtype=np.intp)])
        return self

    def codes(self, count: int) -> Codes:
        """The codes of the first ``count`` rows, as a read-only view."""
        codes = self._codes[:count]
        codes.flags.writeable = False
        return codes

    def rank(self) -> Codes:
        """The rank of each value among all values."""
        if len(self._rank) != len(self.values):
            self._rank = ranked(self.values)
        return self._rank

    def codes_of(self, values: Iterable[Hashable]) -> list[int]:
        """The codes of those values that some node has."""
        return [self._code_of[value] for value in values if value in self._code_of]

    def numbers(self) -> tuple[Codes, NDArray[np.int64]]:
        """The codes of values that are numbers, and the numbers; parsed once for each value."""
        if self._numbers is None or self._numbers[0] != len(self.values):
            numbers = [(code, read) for code, value in enumerate(self.values) if (read := number(value)) is not None]
            codes = np.array([code for code, _ in numbers], dtype=np.intp)
            self._numbers = len(self.values), codes, np.array([read for _, read in numbers], dtype=np.int64)
        return self._numbers[1:]

    def where(self, holds: Predicate, count: int) -> Mask:
        """The rows, of the first ``count``, whose value (or None) satisfies the predicate."""
        verdicts: Mask = holds.among(self)[self._codes[:count]]
        return verdicts

    def _code(self, node: Node) -> int:
        value = self._fact.of(node)
        if value is None:
            return -1
        code = self._code_of.get(value)
        if code is None:
            code = self._code_of[value] = len(self.values)
            self.values.append(value)
        return code


def number(text: Any) -> int | None:
    """The integer as Go's ParseInt reads it; None otherwise.

    Python's int would also accept "1_000", and raise for thousands of digits.
    """
    if not isinstance(text, str) or not _INTEGER.fullmatch(text):
        return None
    read = int(text)
    return read if -(1 << 63) <= read < 1 << 63 else None


def ranked(values: Sequence[Any]) -> NDArray[np.intp]:
    """The rank of each value among all values, which are distinct."""
    rank = np.empty(len(values), dtype=np.intp)
    rank[sorted(range(len(values)), key=values.__getitem__)] = np.arange(len(values))
    rank.flags.writeable = False
    return rank
