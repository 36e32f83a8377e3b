"""Who takes room on which node: bound pods and assumed ones in the same arrays, so that nothing is counted twice."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from policies.matching import admits
from policies.model import Node, Requests, Selection
from policies.snapshot import Snapshot

_MASKS_KEPT = 512


@dataclass(frozen=True, slots=True)
class Charge:
    """The room of one pod, keyed by its UID. ``assumed``: promised to it, and not confirmed by the watch yet."""

    node: str
    requests: Requests
    assumed: bool


class Ledger:
    """Allocatable and used amounts per node, kept up to date charge by charge."""

    def __init__(self) -> None:
        self.nodes: dict[str, Node] = {}
        self.charges: dict[str, Charge] = {}
        self._names: list[str] = []
        self._rows: dict[str, int] = {}
        self._columns: dict[str, int] = {}
        self._allocatable = np.zeros((16, 8), dtype=np.int64)
        self._used = np.zeros((16, 8), dtype=np.int64)
        self._on_node: dict[str, dict[str, Charge]] = {}
        self._assumed_on: dict[str, dict[str, None]] = {}
        self._masks: dict[Selection, NDArray[np.bool_]] = {}

    def set_node(self, node: Node) -> None:
        """Add a node or take over its new facts; pods seen before their node are counted now."""
        row = self._rows.get(node.name)
        if row is None:
            row = len(self._names)
            self._reserve(row + 1, 0)
            self._names.append(node.name)
            self._rows[node.name] = row
            self._used[row] = 0
            for charge in self._on_node.get(node.name, {}).values():
                self._add(row, charge.requests, 1)
        self._allocatable[row] = 0
        for name, amount in node.allocatable:
            self._allocatable[row, self._column(name)] = amount
        self.nodes[node.name] = node
        for selection, mask in self._masks.items():
            mask[row] = admits(node, selection)

    def drop_node(self, name: str) -> None:
        """Forget a node; the last row moves into its place. Charges on it stay, in case it comes back."""
        row = self._rows.pop(name, None)
        if row is None:
            return
        del self.nodes[name]
        last = len(self._names) - 1
        if row != last:
            moved = self._names[last]
            self._names[row], self._rows[moved] = moved, row
            for array in (self._allocatable, self._used, *self._masks.values()):
                array[row] = array[last]
        self._names.pop()

    def charge(self, uid: str, node: str, requests: Requests, *, assumed: bool) -> None:
        """Give the pod room on the node, in place of whatever it had."""
        charge = Charge(node, requests, assumed)
        if self.charges.get(uid) == charge:
            return
        self.release(uid)
        self.charges[uid] = charge
        self._on_node.setdefault(node, {})[uid] = charge
        if assumed:
            self._assumed_on.setdefault(node, {})[uid] = None
        if (row := self._rows.get(node)) is not None:
            self._add(row, requests, 1)

    def release(self, uid: str) -> Charge | None:
        """Take the pod's room back. Returns what it had."""
        charge = self.charges.pop(uid, None)
        if charge is None:
            return None
        for index in (self._on_node, self._assumed_on):
            there = index.get(charge.node)
            if there is not None:
                there.pop(uid, None)
                if not there:
                    del index[charge.node]
        if (row := self._rows.get(charge.node)) is not None:
            self._add(row, charge.requests, -1)
        return charge

    def assumed_on(self, node: str) -> Iterator[str]:
        """UIDs of the pods with assumed room there, oldest promise first."""
        return iter(tuple(self._assumed_on.get(node, ())))

    @property
    def assumed_nodes(self) -> dict[str, dict[str, None]]:
        return self._assumed_on

    def fits(self, node: str, requests: Requests) -> bool:
        """Whether such a pod fits beside everything bound or assumed there. Unknown nodes have no room."""
        row = self._rows.get(node)
        if row is None:
            return False
        for name, amount in requests:
            column = self._columns.get(name)
            if column is None or self._allocatable[row, column] - self._used[row, column] < amount:
                return False
        return True

    def admits(self, node: str, selection: Selection) -> bool:
        known = self.nodes.get(node)
        return known is not None and admits(known, selection)

    def overcommitted(self, node: str, requests: Requests) -> bool:
        """Whether more than there is has been given away of anything that these requests ask for."""
        row = self._rows.get(node)
        if row is None:
            return False
        columns = [self._columns[name] for name, amount in requests if amount and name in self._columns]
        return bool((self._used[row, columns] > self._allocatable[row, columns]).any())

    def snapshot(self) -> Snapshot:
        """What a policy sees now. It shares nothing that changes during one decision."""
        count = len(self._names)
        free = self._allocatable[:count, : len(self._columns)] - self._used[:count, : len(self._columns)]
        return Snapshot(self._names, self._rows, self._columns, free, self._eligible)

    def validate(self) -> None:
        """Recount everything from the charges: the arrays must say the same."""
        used = np.zeros_like(self._used)
        for charge in self.charges.values():
            if (row := self._rows.get(charge.node)) is not None:
                for name, amount in charge.requests:
                    used[row, self._columns[name]] += amount
        count = len(self._names)
        assert (used[:count] == self._used[:count]).all(), "used amounts differ from the charges"  # noqa: S101
        for selection, mask in self._masks.items():
            fresh = [admits(self.nodes[name], selection) for name in self._names]
            assert mask[:count].tolist() == fresh, "a cached eligibility mask is stale"  # noqa: S101

    def _eligible(self, selection: Selection) -> NDArray[np.bool_]:
        mask = self._masks.get(selection)
        if mask is None:
            if len(self._masks) >= _MASKS_KEPT:
                self._masks.pop(next(iter(self._masks)))
            mask = np.zeros(len(self._used), dtype=np.bool_)
            for name, row in self._rows.items():
                mask[row] = admits(self.nodes[name], selection)
            self._masks[selection] = mask
        return mask[: len(self._names)]

    def _add(self, row: int, requests: Requests, sign: int) -> None:
        for name, amount in requests:
            column = self._column(name)
            self._used[row, column] += sign * amount

    def _column(self, name: str) -> int:
        column = self._columns.get(name)
        if column is None:
            column = self._columns[name] = len(self._columns)
            self._reserve(0, column + 1)
        return column

    def _reserve(self, rows: int, columns: int) -> None:
        height, width = self._used.shape
        more = (
            max(height, 2 * rows) if rows > height else height,
            max(width, 2 * columns) if columns > width else width,
        )
        if more == (height, width):
            return
        for name in ("_allocatable", "_used"):
            grown = np.zeros(more, dtype=np.int64)
            grown[:height, :width] = getattr(self, name)
            setattr(self, name, grown)
        self._masks = {
            selection: np.concatenate([mask, np.zeros(more[0] - height, dtype=np.bool_)])
            for selection, mask in self._masks.items()
        }
