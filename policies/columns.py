"""One fact of every node as an array of codes, so that a question about all nodes is asked once per distinct value.

A topology level is such a column (the label's value is the domain), and so is whatever a selector reads.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from policies.model import Node, Taint

Codes = NDArray[np.intp]
Mask = NDArray[np.bool_]
Predicate = Callable[[Any], bool]

_UNSCHEDULABLE = Taint("node.kubernetes.io/unschedulable", "", "NoSchedule")


class Fact(Protocol):
    """Something to know of a node; equal facts share a column."""

    def __hash__(self) -> int: ...

    def of(self, node: Node) -> Hashable:
        """The node's value, or None where it has none."""
        ...


@dataclass(frozen=True, slots=True)
class Label:
    """The value of one label."""

    key: str

    def of(self, node: Node) -> str | None:
        return node.labels.get(self.key)


@dataclass(frozen=True, slots=True)
class Field:
    """What ``matchFields`` asks for; a node's only such field is its name."""

    key: str

    def of(self, node: Node) -> str | None:
        return node.name if self.key == "metadata.name" else None


@dataclass(frozen=True, slots=True)
class Standing:
    """The taints, with the one that cordoning stands for; None for a node that is not ready."""

    def of(self, node: Node) -> tuple[Taint, ...] | None:
        if not node.ready:
            return None
        return (*node.taints, _UNSCHEDULABLE) if node.unschedulable else node.taints


@dataclass(frozen=True, slots=True)
class OneOf:
    """A predicate that a column answers without asking about each of its values."""

    values: tuple[Hashable, ...]

    def __call__(self, value: Hashable) -> bool:
        return value is not None and value in self.values


class Column:
    """``codes[row]`` says which of ``values`` the node in that row has, -1 where it has none."""

    def __init__(self, fact: Fact, nodes: Iterable[Node]) -> None:
        self.values: list[Any] = []
        self._fact = fact
        self._code_of: dict[Hashable, int] = {}
        self._codes = np.array([self._code(node) for node in nodes], dtype=np.intp)
        self._rank = np.zeros(0, dtype=np.intp)

    def put(self, row: int, node: Node) -> None:
        """Take over the node of a row; the row after the last one may be given, too."""
        if row >= len(self._codes):
            self.padded(len(self._codes) + max(16, len(self._codes)))
        self._codes[row] = self._code(node)

    def padded(self, count: int) -> Column:
        """The same, with at least so many rows: those that are new have no value."""
        if (more := count - len(self._codes)) > 0:
            self._codes = np.concatenate([self._codes, np.full(more, -1, dtype=np.intp)])
        return self

    def codes(self, count: int) -> Codes:
        """Of the first ``count`` rows; a view."""
        return self._codes[:count]

    def rank(self) -> Codes:
        """The place of each value among all of them in order."""
        if len(self._rank) != len(self.values):
            self._rank = ranked(self.values)
        return self._rank

    def where(self, holds: Predicate, count: int) -> Mask:
        """The rows, of the first ``count``, whose value (or None) makes the predicate true."""
        if isinstance(holds, OneOf):
            verdicts = np.zeros(len(self.values) + 1, dtype=np.bool_)
            verdicts[[self._code_of[value] for value in holds.values if value in self._code_of]] = True
        else:
            # The verdict on None stands last, where the code -1 finds it.
            verdicts = np.array([holds(value) for value in (*self.values, None)], dtype=np.bool_)
        return verdicts[self._codes[:count]]

    def _code(self, node: Node) -> int:
        value = self._fact.of(node)
        if value is None:
            return -1
        code = self._code_of.get(value)
        if code is None:
            code = self._code_of[value] = len(self.values)
            self.values.append(value)
        return code


def ranked(values: Sequence[Any]) -> NDArray[np.intp]:
    """The place of each value among all of them in order; they are all different."""
    rank = np.empty(len(values), dtype=np.intp)
    rank[sorted(range(len(values)), key=values.__getitem__)] = np.arange(len(values))
    return rank
