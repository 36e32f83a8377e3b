"""Statement: changes to nodes and quota that are tried, looked at, and then committed or dropped.

The caller opens a block, changes something, and looks at ``snapshot`` and ``tree``: both show every change at once.
Changes that are not committed are dropped when the block ends::

    with statement.open():
        statement.release("node-1", requests)
        if fits(wanted, members, statement.snapshot):
            statement.commit()

Blocks nest. What an inner block commits belongs to the outer one, and is dropped with it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Self

from policies.model import Requests
from policies.model.queues import FlavorResource, Usage
from policies.placement.snapshot import Amounts, Rows, Snapshot, no_nodes
from policies.quota.tree import QuotaNode, QuotaTree


class StatementError(RuntimeError):
    """The statement was used in a wrong order."""


class Statement:
    """Tries changes in place, with a log to undo them. So a block costs what it changes, and a look costs nothing.

    ``snapshot``: None if quota alone decides.
    ``free``: the amounts to write in, of which ``snapshot`` shows a view. None: a copy of the shown amounts.
    ``tree``: written in as it is. Others must change neither while a block is open.
    ``of_ledger``: a ledger lends both, whose claims and uses are authoritative; only inner blocks can be committed.
    ``on_end``: called when an outermost block has ended.
    """

    def __init__(
        self,
        snapshot: Snapshot | None = None,
        tree: QuotaTree | None = None,
        free: Amounts | None = None,
        *,
        of_ledger: bool = False,
        on_end: Callable[[], object] | None = None,
    ) -> None:
        if snapshot is None:
            snapshot = no_nodes()
            free = snapshot.free
        elif free is None:
            free = snapshot.free.copy()
            shown = free.view()
            # A policy that writes into the shown array fails, and changes nothing.
            shown.flags.writeable = False
            snapshot = replace(snapshot, free=shown)
        self._free, self._snapshot = free, snapshot
        self.tree = _NO_QUOTA if tree is None else tree
        self._of_ledger, self._on_end = of_ledger, on_end
        self._undo: list[Callable[[], object]] = []
        self._committed: list[bool] = []
        """Whether each open block is committed, the innermost last."""
        self._begins: list[int] = []
        """Number of changes when each open block began."""

    @property
    def snapshot(self) -> Snapshot:
        """The nodes with all changes so far. It follows later changes, except those made by ``show``."""
        return self._snapshot

    def open(self) -> Self:
        """Begin a block, as ``with statement.open()``. Its changes are dropped at its end, unless ``commit`` is called
        in it."""
        return self

    def __enter__(self) -> Self:
        self._begins.append(len(self._undo))
        self._committed.append(False)
        return self

    def __exit__(self, *_: object) -> None:
        begin, committed = self._begins.pop(), self._committed.pop()
        if not committed:
            while len(self._undo) > begin:
                self._undo.pop()()
        elif not self._committed:
            self._undo.clear()
        if self._on_end is not None and not self._committed:
            self._on_end()

    def commit(self) -> None:
        """Keep the changes of the innermost block, which takes no more changes then.

        Raises StatementError if no block is open, if it is committed already, and for the outermost block of a
        statement on a ledger.
        """
        self._check()
        if self._of_ledger and len(self._committed) == 1:
            raise StatementError("this is a look at the ledger: commit by a change of its claims")
        self._committed[-1] = True

    def release(self, node: str, requests: Requests) -> None:
        """Free room on a node. Resources that no node offers, and unknown nodes, are ignored."""
        self._change(node, requests, 1)

    def claim(self, node: str, requests: Requests) -> None:
        """Take room on a node, even if it has too little."""
        self._change(node, requests, -1)

    def add(self, rows: Rows, amounts: Amounts) -> None:
        """Free more on these distinct nodes. ``amounts``: shape ``(resources, rows)``."""
        self._check()
        self._free[:, rows] += amounts
        self._undo.append(partial(self._subtract, rows, amounts))

    def take(self, rows: Rows, amounts: Amounts) -> None:
        """Undo an earlier ``add`` without ending the block."""
        self.add(rows, -amounts)

    def show(self, snapshot: Snapshot) -> None:
        """Replace the shown nodes from here on. ``snapshot``: the present one with other tenants or levels."""
        self.on_drop(partial(setattr, self, "_snapshot", self._snapshot))
        self._snapshot = snapshot

    def use(self, queue: str, usage: Usage) -> None:
        """Use quota of a queue; ignored if the tree lacks the queue."""
        self._use(queue, usage, 1)

    def give_back(self, queue: str, usage: Usage) -> None:
        """Return quota of a queue; ignored if the tree lacks the queue."""
        self._use(queue, usage, -1)

    def on_drop(self, undo: Callable[[], object]) -> None:
        """Call ``undo`` if the block is dropped: for values that a caller has derived from the changes."""
        self._check()
        self._undo.append(undo)

    def _check(self) -> None:
        if not self._committed:
            raise StatementError("no block is open: change and commit a statement inside of open()")
        if self._committed[-1]:
            raise StatementError("this block is committed: open another one for more changes")

    def _change(self, node: str, requests: Requests, sign: int) -> None:
        self._check()
        if (row := self._snapshot.rows.get(node)) is None:
            return
        lines = self._snapshot.resources
        for line, amount in [(lines[name], sign * amount) for name, amount in requests if name in lines]:
            self._free[line, row] += amount
            self._undo.append(partial(self._put, line, row, self._free[line, row] - amount))

    def _put(self, line: int, row: int, amount: int) -> None:
        self._free[line, row] = amount

    def _subtract(self, rows: Rows, amounts: Amounts) -> None:
        self._free[:, rows] -= amounts

    def _use(self, queue: str, usage: Usage, sign: int) -> None:
        self._check()
        if (node := self.tree.queues.get(queue)) is None:
            return
        for what, amount in usage.items():
            # More may be returned than is used; then subtraction would not restore the former use.
            before = [(at, at.used.get(what)) for at in node.path()]
            node.change(what, sign * amount)
            self._undo.append(partial(_restore, what, before))


_NO_QUOTA = QuotaTree(())


def _restore(what: FlavorResource, before: list[tuple[QuotaNode, int | None]]) -> None:
    for node, used in before:
        if used is None:
            node.used.pop(what, None)
        else:
            node.used[what] = used
