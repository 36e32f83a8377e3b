"""Who takes room on which node: bound pods and assumed ones in the same arrays, so that nothing is counted twice."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

import numpy as np

from extender.core.table import Table
from policies.model import Node, Requests, Selection
from policies.model.levels import LevelKey
from policies.placement.matching import admits
from policies.placement.snapshot import Snapshot


@dataclass(frozen=True, slots=True)
class Charge:
    """The room of one pod, keyed by its UID. ``assumed``: promised to it, and not confirmed by the watch yet."""

    node: str
    requests: Requests
    assumed: bool


class Ledger:
    """Free amounts per node, kept up to date charge by charge. ``levels``, nearest first: empty for those detected."""

    def __init__(self, levels: tuple[LevelKey, ...] = ()) -> None:
        self.charges: dict[str, Charge] = {}
        self.configured = bool(levels)
        """Whether the levels are settings, and not what the labels of the nodes show."""
        self.changes = 0
        """Grows whenever room changes hands or a node changes."""
        self._table = Table(levels)
        self._on_node: dict[str, dict[str, Charge]] = {}
        self._assumed_on: dict[str, dict[str, None]] = {}

    @property
    def nodes(self) -> dict[str, Node]:
        return self._table.nodes

    def set_node(self, node: Node) -> None:
        """Add a node or take over its new facts; pods seen before their node are counted now."""
        self.changes += 1
        known = tuple(self._table.resources)
        new = self._table.put(node)
        if fresh := tuple(self._table.resources)[len(known) :]:
            for charge in self.charges.values():
                if not new or charge.node != node.name:
                    self._take(replace(charge, requests=tuple(one for one in charge.requests if one[0] in fresh)), 1)
        if new:
            for charge in self._on_node.get(node.name, {}).values():
                self._take(charge, 1)

    def drop_node(self, name: str) -> None:
        """Forget a node. Charges on it stay, in case it comes back."""
        self.changes += 1
        self._table.drop(name)

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
        self._take(charge, 1)

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
        self._take(charge, -1)
        return charge

    def assumed_on(self, node: str) -> Iterator[str]:
        """UIDs of the pods with assumed room there, oldest promise first."""
        return iter(tuple(self._assumed_on.get(node, ())))

    @property
    def assumed_nodes(self) -> dict[str, dict[str, None]]:
        return self._assumed_on

    def room(self, node: str) -> dict[str, int]:
        """What is free there beside everything bound or assumed, by resource; nothing on an unknown node."""
        table = self._table
        row = table.rows.get(node)
        if row is None:
            return {}
        return dict(zip(table.resources, table.free[: len(table.resources), row].tolist(), strict=True))

    def fits(self, node: str, requests: Requests) -> bool:
        """Whether such a pod fits beside everything bound or assumed there. Unknown nodes have no room."""
        table = self._table
        row = table.rows.get(node)
        if row is None:
            return False
        lines = ((table.resources.get(name), amount) for name, amount in requests if amount)
        return all(line is not None and table.free[line, row] >= amount for line, amount in lines)

    def admits(self, node: str, selection: Selection) -> bool:
        known = self.nodes.get(node)
        return known is not None and admits(known, selection)

    def admitting(self, selection: Selection) -> Callable[[str], bool]:
        """``admits`` of one selection, for many nodes: it is evaluated once for all of them."""
        rows, mask = self._table.rows, self.snapshot().eligible(selection)
        return lambda node: (row := rows.get(node)) is not None and bool(mask[row])

    def overcommitted(self, node: str, requests: Requests) -> bool:
        """Whether more than there is has been given away of anything that these requests ask for."""
        table = self._table
        row = table.rows.get(node)
        if row is None:
            return False
        return any(
            table.free[table.resources[name], row] < 0
            for name, amount in requests
            if amount and name in table.resources
        )

    def domains(self, node: str) -> Iterator[tuple[str, str]]:
        """Level and domain of the node, nearest first; the levels in which it has none are left out."""
        row = self._table.rows.get(node)
        for level in self._table.levels() if row is not None else ():
            if (code := int(level.codes[row])) >= 0:
                yield level.key, level.names[code]

    def charges_on(self, node: str) -> Iterator[str]:
        """UIDs of the pods that have room there."""
        return iter(self._on_node.get(node, ()))

    def snapshot(self) -> Snapshot:
        """What a policy sees now: a view, good until the next change, or after ``lend`` for as long as it is needed."""
        return self._table.snapshot()

    def lend(self) -> None:
        """Every snapshot that somebody has stays as it is now, whatever changes."""
        self._table.lend()

    def validate(self) -> None:
        """Recount everything from the nodes and the charges: the arrays must say the same."""
        self._table.validate()
        view = self.snapshot()
        free = view.allocatable.copy()
        for charge in self.charges.values():
            if (row := view.rows.get(charge.node)) is not None:
                for name, amount in charge.requests:
                    if (line := view.resources.get(name)) is not None:
                        free[line, row] -= amount
        assert np.array_equal(free, view.free), "free amounts differ from the charges"  # noqa: S101

    def _take(self, charge: Charge, sign: int) -> None:
        """Take the room off its node, or with -1 give it back."""
        self.changes += 1
        row = self._table.rows.get(charge.node)
        if row is None:
            return
        for name, amount in charge.requests:
            # What no node offers has no line: anybody can write names of resources into a pod, without end.
            if (line := self._table.resources.get(name)) is not None:
                self._table.take(line, row, sign * amount)
